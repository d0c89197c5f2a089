"""The planner: an agent that follows the optimum over (state × what the sites remember) (`wane.optimum`).

Rewards that wear off or grow back make the best action depend on the past visits to each site. The planner remembers
the time and the level of each site in its `carry`. The level says how often the site was visited or, if its reward
grows back, it is a point on a grid of memories. With time and levels the planner looks up the best action. With
`believed` it follows the plan that would be best if rewards changed in another way. It does not observe what remains.

The agent plans and does not learn: `init` solves for the plan, `train` returns the same plan, and there is no `update`.

    >>> from wane.worlds import make
    >>> world = make("toy")
    >>> state = init(jax.random.key(0), world, Config())
    >>> _, episode = play(jax.random.key(0), world, policy(state, world, Config()))
    >>> episode.rewards[:2].tolist()
    [6.0, 6.0]
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from wane.agents.common.contract import Agent
from wane.agents.common.policy import Policy, no_draws
from wane.agents.common.rollout import Episode, play
from wane.depletion import Depletion
from wane.exact.planning import Optimum
from wane.exact.product import strides_of
from wane.settings import Checked, Count, Positive
from wane.types import AnyArray, Integer
from wane.worlds.process import Solvable, at_site, without_threshold

OBSERVATION = "index"


@dataclass(frozen=True)
class Config(Checked):
    """The settings of the planner."""

    believed: Depletion | None = None
    """how rewards change, as the agent believes; None takes the world's own depletion"""
    tolerance: Positive = 1e-6
    """how much the plan may lose by not counting visits without end"""
    grid: Count | None = None
    """how many memories each site has in the plan, if its reward grows back; None chooses as many as take seconds"""


class State(NamedTuple):
    """The plan. Shorter rows of `visit` and `wait` are padded with zeros."""

    policy: Int[AnyArray, "times states combinations"]
    """The best action by time, state and the levels of all sites, which are combined as Σ strides · levels."""
    strides: Int[AnyArray, " sites"]
    fresh: Int[AnyArray, " sites"]
    """The level of each site before the first visit."""
    visit: Int[AnyArray, "sites levels"]
    """The level of each site after a visit."""
    wait: Int[AnyArray, "sites levels"]
    """The level of each site after a step that was spent elsewhere."""


class Progress(NamedTuple):
    """What the planner keeps during an episode."""

    time: Int[Array, ""]
    levels: Int[Array, " sites"]
    """The level of each site when the agent comes to the present state."""


def init(key: jax.Array, world: Solvable, config: Config) -> State:
    """Solves for the plan. Nothing is drawn from `key`."""
    return state_of(plan(world, config.believed, tolerance=config.tolerance, grid=config.grid))


def train(key: jax.Array, world: Solvable, config: Config, state: State | None = None) -> tuple[State, None]:
    """Returns the state of `init` and None: there is nothing to learn."""
    return init(key, world, config) if state is None else state, None


def plan(
    world: Solvable, believed: Depletion | None = None, *, tolerance: float = 1e-6, grid: int | None = None
) -> Optimum:
    """The optimum of a world until its horizon, under its own depletion or under the `believed` one.

    Raises ValueError if the world has no horizon, or if the horizon leaves nothing to decide.
    """
    if world.horizon is None:
        raise ValueError("an episode needs an end: give the world a horizon, dataclasses.replace(world, horizon=…)")
    if world.horizon == 1 and world.timing == "departure":
        raise ValueError("one reward, paid at departure, leaves nothing to decide: give the world a longer horizon")
    return world.optimum(cast(Any, believed), tolerance=tolerance, grid=grid)


def state_of(best: Optimum) -> State:
    """Returns the plan of an optimum as arrays."""
    visit, wait = np.zeros((2, len(best.levels), max(best.caps, default=0) + 1), np.int32)
    for i, each in enumerate(best.levels):
        visit[i, : len(each.visit)], wait[i, : len(each.wait)] = each.visit, each.wait
    fresh = [each.fresh for each in best.levels]
    tables = (jnp.asarray(table, jnp.int32) for table in (strides_of(best.levels), fresh, visit, wait))
    return State(jnp.asarray(best.policy), *tables)


def policy(params: State, world: Solvable, config: Config | None = None) -> Policy:
    """Returns the policy that follows the plan, given the time and what it remembers of its own visits."""
    fresh = Progress(jnp.zeros((), jnp.int32), jnp.asarray(params.fresh))
    return Policy(partial(_act, world), params, fresh, draw=no_draws, observation=OBSERVATION)


def _act(
    world: Solvable, state: State, progress: Progress, cell: Integer, key: None
) -> tuple[Int[Array, ""], Progress, None]:
    # A plan counts the present visit, which the levels do not hold yet. On arrival a start does not count.
    column, visited = jnp.arange(world.n_sites), at_site(world.site_of, cell, world.n_sites)
    after = jnp.where(visited, state.visit[column, progress.levels], state.wait[column, progress.levels])
    levels = jnp.where((world.timing == "departure") | (progress.time > 0), after, progress.levels)
    time = jnp.minimum(progress.time, len(state.policy) - 1)
    action = state.policy[time, cell, (state.strides * levels).sum()]
    return action.astype(jnp.int32), Progress(progress.time + 1, levels), None


def follow(keys: Any, world: Solvable, best: Optimum, start: Any = None) -> Episode:
    """Plays episodes of a plan, one for each key. It ignores the threshold that would end them before the horizon."""
    world = without_threshold(world)

    def episode(key: jax.Array, state: State) -> Episode:
        return play(key, world, policy(state, world), start=start)[1]

    # The plan may be large, so it is an argument: as a constant it would be compiled into the program.
    return jax.jit(jax.vmap(episode, (0, None)))(keys, state_of(best))


AGENT = Agent("planner", Config, State, init, train, policy, traceable=(), by_site=True)
