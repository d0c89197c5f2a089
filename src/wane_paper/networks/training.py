"""Shared parts of the experiments with λO-FB: their settings, and training in chunks of one epoch."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wane.agents import Trained, forward_backward
from wane.agents.forward_backward import Config, Schedule, State, Tasks
from wane.depletion import Geometric
from wane.lab.contract import Loop, NotTested, Seeded
from wane.settings import Count, Range
from wane.types import Integer
from wane.worlds.catalog import four_rooms
from wane.worlds.world import World
from wane_paper.common.parts import entry

PAPER = Config()
QUICK = Config(
    dimension=100,
    width=128,
    depth=2,
    learning_rate=3e-3,
    polyak=0.9,
    schedule=Schedule(epochs=8, cycles=100, episodes=2, batches=10),
)
"""An agent that learns something in a minute on two cores: smaller networks, a higher rate, quicker targets."""
PLAIN_TRAINING: dict[str, str] = {
    "agent.learn_lam": "the experiment to fb-learn-lambda",
    "agent.goals": "the experiment to fb-learn-lambda",
    "agent.noise": "the experiment to fb-learn-lambda",
    "agent.condition": "the experiment to fb-zero-shot",
}
"""Settings of agents that learn λ or take it as an input. Experiments with plain agents refuse them."""


Goals = Annotated[int, Range(1, 68)]
"""A number of rewarded states. FourRooms has 68 states."""


@dataclass(frozen=True)
class Training(Seeded):
    """Settings of an experiment that trains λO-FB."""

    agent: Config = PAPER
    """the settings of λO-FB"""

    def require_distinct(self, *names: str) -> None:
        """Raises SettingError if a setting lists two values that are written alike in tables and names of files."""
        for name in names:
            labels = [label(value) for value in getattr(self, name)]
            twice = [each for i, each in enumerate(labels) if each in labels[:i]]
            needed = f"different values are needed, but {''.join(twice[:1])} is given twice"
            self.require(not twice, name, needed)

    def require_finite(self, name: str, lambdas: Iterable[float], discounts: Iterable[float]) -> None:
        """Raises SettingError if Φ is infinite for one of the λ: λ = 1 needs a discount below 1."""
        endless = any(lam == 1 for lam in lambdas) and any(discount == 1 for discount in discounts)
        needed = "a λ below 1 is needed, because Φ is infinite without discounting; or choose a discount below 1"
        self.require(not endless, name, needed)


@dataclass(frozen=True)
class RoomTasks(Training):
    """Settings of an experiment with random goals in FourRooms."""

    goals: Goals = 2
    """random unit rewards of an episode"""
    episodes: Count = 10
    """test episodes of each run after each epoch"""
    final_episodes: Count = 300
    """test episodes of each run at the end"""

    def tasks(self, key: jax.Array, count: int) -> Tasks:
        """Draws tasks, which are the same whatever λ is true."""
        return forward_backward.sample_tasks(key, rooms(self), count, self.goals)

    @property
    def final_tasks(self) -> Tasks:
        """The tasks of the test at the end, which are the same for all agents and all seeds."""
        return self.tasks(jax.random.key(1), self.final_episodes)

    def shown_task(self, lam: float) -> World:
        """Returns the task of the drawn episodes: a true λ, and goals in the top right and bottom left room."""
        place = dict(sites=[(3, 8), (8, 2)], rewards=[1.0, 1.0], discount=1.0)
        return rooms(self, depletion=Geometric(lam), **place)


def label(value: Any) -> str:
    """Returns a setting as it is written in labels and names."""
    return value if isinstance(value, str) else f"{value:g}"


def quick(epochs: int) -> Config:
    """Returns the agent of the quick scale with this number of epochs."""
    return dataclasses.replace(QUICK, schedule=dataclasses.replace(QUICK.schedule, epochs=epochs))


def rooms(settings: Training, **changes: Any) -> World:
    """Returns FourRooms for random goals: walls cost nothing, and no episode ends early."""
    return four_rooms(horizon=settings.agent.horizon, threshold=None, wall_penalty=0.0, **changes)


def train(
    name: str,
    loop: Loop,
    world: World,
    config: Config,
    keys: jax.Array,
    lams: Float[Array, "runs *states"],
    watch: Callable[[jax.Array, State], Any] | None = None,
) -> tuple[State, dict[str, Any]]:
    """Trains one run for each key and λ, all of them as one program, with one epoch in each chunk of the loop.

    Returns the last states, with the runs along their first axis, and the measurements of the epochs: nested
    dictionaries of arrays (epochs, runs, …) with the names of `forward_backward.Info`. `watch` is passed to
    `forward_backward.train`.
    """

    def run_epoch(key: jax.Array, lam: Array, state: State, number: Integer) -> tuple[State, Any]:
        own = dataclasses.replace(config, lam=lam)
        state, info = forward_backward.train(key, world, own, state, number, epochs=1, watch=watch)
        return state, entry(info, 0)

    def start(key: jax.Array, lam: Array) -> State:
        return forward_backward.init(key, world, dataclasses.replace(config, lam=lam))

    @jax.jit
    def step(states: State, number: Integer) -> tuple[State, Any]:
        return jax.vmap(run_epoch, (0, 0, 0, None))(keys, lams, states, number)

    states = jax.jit(jax.vmap(start))(keys, lams)
    return loop(name, step, states, config.schedule.epochs, config.schedule.steps * len(keys), "gradient steps")


def pairs(keys: jax.Array, *axes: Sequence[Any] | np.ndarray) -> tuple[jax.Array, list[jax.Array]]:
    """Combines every key with every combination of the entries of some axes, as flat arrays. Keys vary slowest."""
    sizes = [len(keys), *map(len, axes)]
    index = np.indices(sizes).reshape(len(sizes), -1)
    return keys[index[0]], [jnp.asarray(axis)[i] for axis, i in zip(axes, index[1:], strict=True)]


def keep(loop: Loop, name: str, world: World, config: Config, states: State, run: int) -> None:
    """Keeps the agent of one run, so that it can be played later."""
    loop.keep(name, Trained("forward_backward", world, config, entry(states.params, run)))


def require_data(there: bool | np.bool_, missing: str) -> None:
    """Raises NotTested with a sentence about what is missing, unless the data of a claim exist."""
    if not there:
        raise NotTested(missing)
