import jax
from hypothesis import settings

import wane  # noqa: F401  (doctests then run in the modules of the package, not in copies of them)

jax.config.update("jax_enable_x64", True)

settings.register_profile("wane", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("wane")
