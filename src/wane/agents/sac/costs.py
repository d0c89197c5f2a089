"""The cost of an update, counted by the compiler: the FLOPs of the program that XLA makes of the update.

Each kind of agent is compiled separately, so the program leaves out what the agent does not have: a second critic, a
λF. The count includes the look-up of the batch, all networks forward and backward, Adam and the target networks. It
does not include the Cholesky factor of the regression (about D³/3 for D features), which XLA hands to a library. The
program is compiled for the CPU on every machine, so the count does not depend on the libraries of a GPU.
"""

from typing import Any

import jax

from wane.agents.sac import training
from wane.agents.sac.config import Config
from wane.agents.sac.training import Variant
from wane.worlds.control import Task


def update_flops(task: Task, config: Config, variant: Variant) -> float:
    """The number of FLOPs of one update of one agent of the kind `variant`."""
    with jax.default_device(jax.devices("cpu")[0]):
        own, key = variant.applied(config), jax.random.key(0)
        # Shapes suffice to compile, so no memory of a million transitions is allocated.
        state = jax.eval_shape(lambda key: training.init(key, task, own), key)
        program: Any = jax.jit(lambda state, key: training.learn(state, task, own, key))
        found = program.lower(state, key).compile().cost_analysis()
    # Some versions of JAX give a count for each device.
    return float((found[0] if isinstance(found, list) else found)["flops"])
