"""What an update costs, counted by the compiler: the FLOPs of the program that XLA makes of it.

Each kind of agent is compiled for itself, so that what it does not have is not computed: a second critic, a λF. The
count holds the batch's look-up, all networks forward and backward, Adam and the target networks. It does not hold the
Cholesky factor of the regression (about D³/3 for D features), which XLA hands to a library.
"""

from typing import Any

import jax
import jax.numpy as jnp

from wane.agents.sac import training
from wane.agents.sac.config import Config
from wane.agents.sac.training import Variant
from wane.worlds.control import Task


def update_flops(task: Task, config: Config, variant: Variant) -> float:
    """FLOPs of one update of one agent of a kind."""
    # The size of the memory does not matter, so a small one is allocated.
    own = variant.applied(config)
    like = jax.eval_shape(lambda key: training.init(key, task, own), jax.random.key(0))
    like = like._replace(replay=like.replay._replace(items=_shape((config.batch, training.row_size(task)))))
    program = jax.jit(lambda state, key: training.learn(state, task, own, key))
    return _flops(program.lower(like, jax.eval_shape(lambda: jax.random.key(0))).compile())


def _shape(shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.zeros(()).dtype)


def _flops(compiled: Any) -> float:
    """The count of XLA, which some versions give for each device."""
    found = compiled.cost_analysis()
    return float((found[0] if isinstance(found, list) else found)["flops"])
