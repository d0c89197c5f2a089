"""The planner: an agent that follows the optimum over (state × visit counts) (`wane.optimum`).

Rewards that wear off make the best action depend on how often each site was visited. The planner remembers the time
and its own visits (its `carry`), and looks the best action up. With `believed` it follows the plan that would be best
if rewards wore off in another way. It is told nothing about what remains of the rewards.

The agent plans and does not learn: `init` solves for the plan, `train` returns that, and there is no `update`.

    >>> from wane.worlds import make
    >>> world = make("toy")
    >>> state = init(jax.random.key(0), world, Config())
    >>> _, episode = play(jax.random.key(0), world, policy(state, world, Config()))
    >>> episode.rewards[:2].tolist()
    [6.0, 6.0]
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from wane.agents.common.policy import Policy, no_draws
from wane.agents.common.rollout import Episode, play
from wane.depletion import Diminishing
from wane.exact.planning import Optimum
from wane.types import AnyArray
from wane.worlds.world import World

OBSERVATION = "index"


@dataclass(frozen=True)
class Config:
    """The settings of the planner."""

    believed: Diminishing | None = None
    """how rewards wear off, as the agent believes; None takes the world's own depletion"""
    tolerance: float = 1e-6
    """how much the plan may lose by not counting visits without end"""


class State(NamedTuple):
    """The plan."""

    policy: Int[AnyArray, "times states *visits"]
    """The best action by time, state and visits to each site."""
    caps: Int[AnyArray, " sites"]
    """Visits to each site are counted up to this number."""


class Memory(NamedTuple):
    """What the planner remembers during an episode."""

    time: Int[Array, ""]
    visits: Int[Array, " sites"]
    """Visits to each site before the present state."""


def init(key: jax.Array, world: World, config: Config) -> State:
    """Solves for the plan. Nothing is drawn from `key`."""
    return state_of(plan(world, config.believed, tolerance=config.tolerance))


def train(key: jax.Array, world: World, config: Config, state: State | None = None) -> tuple[State, None]:
    """Returns what `init` solves for: there is nothing to learn."""
    return init(key, world, config) if state is None else state, None


def plan(world: World, believed: Diminishing | None = None, *, tolerance: float = 1e-6) -> Optimum:
    """The optimum of a world until its horizon, or of what the world would be with another depletion."""
    if world.horizon is None:
        raise ValueError("an episode needs an end: give the world a horizon, dataclasses.replace(world, horizon=…)")
    if world.horizon == 1 and world.timing == "departure":
        raise ValueError("one reward, paid at departure, leaves nothing to decide: give the world a longer horizon")
    return world.optimum(cast(Any, believed), tolerance=tolerance)


def state_of(best: Optimum) -> State:
    """The plan of an optimum, as arrays."""
    return State(jnp.asarray(best.policy), jnp.asarray(best.caps, jnp.int32))


def policy(params: State, world: World, config: Config | None = None) -> Policy:
    """The policy that follows the plan by the time and by its own visits."""
    sites, on_departure = jnp.asarray(world.sites), world.timing == "departure"

    def act(state, memory, cell, key):
        # A plan counts the present visit as made. The memory does not hold it: a start pays nothing on arrival.
        arrived = (sites == cell) & (on_departure | (memory.time > 0))
        visits = memory.visits + arrived
        time = jnp.minimum(memory.time, len(state.policy) - 1)
        action = state.policy[(time, cell, *jnp.minimum(visits, state.caps))]
        return action.astype(jnp.int32), Memory(memory.time + 1, visits), None

    fresh = Memory(jnp.zeros((), jnp.int32), jnp.zeros(world.n_sites, jnp.int32))
    return Policy(act, params, fresh, draw=no_draws, observation=OBSERVATION)


def follow(keys: Any, world: World, best: Optimum, start: Any = None) -> Episode:
    """Episodes of a plan, one for each key. A threshold that would end them before the horizon is left out."""
    world = dataclasses.replace(world, threshold=None)

    def episode(key: jax.Array, state: State) -> Episode:
        return play(key, world, policy(state, world), start=start)[1]

    # The plan, which may be large, goes in as an argument: as a constant it would be compiled into the program.
    return jax.jit(jax.vmap(episode, (0, None)))(keys, state_of(best))
