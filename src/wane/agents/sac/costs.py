"""What an update costs, counted by the compiler: the FLOPs of the program that XLA makes of it.

Each kind of agent is compiled for itself, so that what it does not have is not computed: a second critic, a λF. The
count holds the batch's look-up, all networks forward and backward, Adam and the target networks. It does not hold the
Cholesky factor of the regression (about D³/3 for D features), which XLA hands to a library. The program is that of a
CPU on every machine, so that the count does not depend on what a GPU's libraries do.
"""

from typing import Any

import jax

from wane.agents.sac import training
from wane.agents.sac.config import Config
from wane.agents.sac.training import Variant
from wane.worlds.control import Task


def update_flops(task: Task, config: Config, variant: Variant) -> float:
    """FLOPs of one update of one agent of a kind."""
    with jax.default_device(jax.devices("cpu")[0]):
        own, key = variant.applied(config), jax.random.key(0)
        # Shapes suffice to compile, so no memory of a million transitions is allocated.
        state = jax.eval_shape(lambda key: training.init(key, task, own), key)
        program: Any = jax.jit(lambda state, key: training.learn(state, task, own, key))
        found = program.lower(state, key).compile().cost_analysis()
    # Some versions of JAX give a count for each device.
    return float((found[0] if isinstance(found, list) else found)["flops"])
