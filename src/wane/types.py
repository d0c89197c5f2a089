"""Names for the types that appear in many signatures.

Shapes are written with jaxtyping: `Float[Array, "states sites"]` is an array of floats with two axes. The tests check
them at run time (`conftest.py` switches beartype on for the whole package).
"""

from collections.abc import Sequence
from typing import Any

import jax
import jaxtyping
import numpy as np
from jaxtyping import Bool, Float

AnyArray = np.ndarray | jax.Array
"""A NumPy or JAX array."""
Integer = int | np.integer | jaxtyping.Integer[AnyArray, ""]
"""A whole number: Python's, NumPy's, or an array without axes (which JAX may be tracing)."""
Scalar = float | int | np.number | Float[AnyArray, ""] | jaxtyping.Integer[AnyArray, ""]
"""A number: Python's, NumPy's, or an array without axes (which JAX may be tracing)."""
Flag = bool | np.bool_ | Bool[AnyArray, ""]
"""True or False: Python's, NumPy's, or an array without axes (which JAX may be tracing)."""
ArrayLike = AnyArray | Scalar | bool | Sequence
"""Whatever NumPy can turn into an array of numbers: an array, a number, a list, a list of lists."""
Real = float | int | np.floating | np.integer
"""A number whose value is known: Python's or NumPy's."""
Numbers = Scalar | Float[AnyArray, "..."] | jaxtyping.Integer[AnyArray, "..."]
"""One number or an array of numbers."""
PerSite = float | int | Sequence[float] | Float[AnyArray, "*sites"]
"""A number for all sites, or one for each site."""
Tree = Any
"""A pytree: nested tuples, dictionaries and modules whose leaves are arrays."""
