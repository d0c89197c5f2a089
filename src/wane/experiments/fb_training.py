"""What the experiments with λO-FB share: its settings, training in chunks of an epoch, and tests along the way."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from wane.agents import forward_backward
from wane.agents.forward_backward import Config, Info, Schedule, State
from wane.experiments.experiment import Loop, Seeded
from wane.worlds.catalog import four_rooms
from wane.worlds.world import World

COST = "about 30 minutes for each training and evaluation run on an RTX 5000"
QUICK: dict[str, Any] = {
    "dimension": 100,
    "width": 128,
    "depth": 2,
    "learning_rate": 3e-3,
    "polyak": 0.9,
    "cycles": 100,
    "collected": 2,
    "batches": 10,
    "epochs": 8,
}
"""what learns something in a minute on two cores: smaller networks, a higher rate, quicker targets"""
SCHEDULE = (
    "Read literally, the paper's schedule is 2,500 gradient steps, which do not learn; this is the one that its method "
    "descends from, 100,000 at the paper's scale."
)


@dataclass(frozen=True)
class Training(Seeded):
    dimension: int = 100
    """d, of F and B"""
    width: int = 256
    """units of a hidden layer"""
    depth: int = 3
    """hidden layers"""
    learning_rate: float = 1e-3
    """η"""
    batch: int = 128
    """B"""
    epochs: int = 100
    """M"""
    cycles: int = 25
    """updates of the target networks in an epoch"""
    collected: int = 4
    """episodes played before each of them"""
    batches: int = 40
    """gradient steps before each of them"""
    polyak: float = 0.95
    """α: what the target networks keep of themselves"""
    temperature: float = 200.0
    """τ"""
    horizon: int = 50
    """T: steps of an episode"""
    discount: float = 0.99
    """γ"""

    def config(self, **changes: Any) -> Config:
        fields = (
            "dimension",
            "width",
            "depth",
            "learning_rate",
            "batch",
            "polyak",
            "temperature",
            "horizon",
            "discount",
        )
        schedule = Schedule(self.epochs, self.cycles, self.collected, self.batches)
        own: dict[str, Any] = {name: getattr(self, name) for name in fields}
        own |= {"schedule": schedule} | changes
        return Config(**own)

    @property
    def steps(self) -> int:
        """Gradient steps of an epoch."""
        return self.cycles * self.batches


def quick(**changes: Any) -> dict[str, Any]:
    """Settings of the quick scale."""
    return QUICK | changes


def rooms(settings: Training, **changes: Any) -> World:
    """FourRooms for random goals: no costs of walls, no early end."""
    return four_rooms(horizon=settings.horizon, threshold=None, wall_penalty=0.0, **changes)


def train(
    name: str,
    loop: Loop,
    settings: Training,
    world: World,
    keys: jax.Array,
    lams: Any,
    watch: Callable[[jax.Array, State], Any] | None = None,
    **changes: Any,
) -> tuple[State, Info]:
    """Trains a run for every key and λ (arrays alike in their first axis) as one program, an epoch at a time.

    Returns the last states (runs, …) and what each epoch told, (epochs, runs, …).
    """
    config = settings.config(**changes)

    def one(key, lam, state, epoch):
        state, info = forward_backward.train(
            key, world, dataclasses.replace(config, lam=lam), state, epoch, epochs=1, watch=watch
        )
        return state, jax.tree_util.tree_map(lambda leaf: leaf[0], info)

    @jax.jit
    def step(states, epoch):
        return jax.vmap(one, (0, 0, 0, None))(keys, lams, states, epoch)

    def first(key, lam):
        return forward_backward.init(key, world, dataclasses.replace(config, lam=lam))

    states = jax.jit(jax.vmap(first))(keys, lams)
    return loop(name, step, states, settings.epochs, settings.steps * len(keys), "gradient steps")


def pairs(keys: jax.Array, *axes: Any) -> tuple[jax.Array, list[jax.Array]]:
    """Every key with every combination of some axes' values, flat: keys slowest."""
    sizes = [len(keys), *map(len, axes)]
    index = np.indices(sizes).reshape(len(sizes), -1)
    return keys[index[0]], [jnp.asarray(axis)[i] for axis, i in zip(axes, index[1:], strict=True)]


def frame(values: Any, column: str, **axes: Sequence[Any]) -> pd.DataFrame:
    """An array as a table with a column for each of its axes."""
    values = np.asarray(values).reshape([len(axis) for axis in axes.values()])
    index = pd.MultiIndex.from_product(list(axes.values()), names=list(axes))
    return pd.DataFrame({column: values.ravel()}, index=index).reset_index()
