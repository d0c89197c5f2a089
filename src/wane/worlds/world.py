"""A map, rewarded sites and a depletion: the one definition from which everything else about a world follows.

From it come the transitions that `wane.exact` solves (`world.mdp`), a pure `reset` and `step` that `jit`, `vmap` and
`scan`, and, in other modules, a Gymnasium environment and pictures. What is computed and what is simulated cannot
disagree.

When a reward is paid is a choice. "arrival" (the default, and what the paper's experiments do): entering a site, or
staying in it, pays; returns are Σ_{t ≥ 1} γᵗ rₜ, the first action's reward discounted once. "departure" (the
definition): step t pays r(s_t) of the state it leaves, the start included, and returns are Σ_{t ≥ 0} γᵗ r(s_t). In
both, each step the visited site's memory moves by `visit`, all others by `wait`.

    >>> import jax
    >>> from wane.worlds import make
    >>> world = make("two-rooms")
    >>> observation, state = world.reset(jax.random.key(0))
    >>> observation, state, reward, terminated, truncated, info = world.step(jax.random.key(1), state, 0)
    >>> float(reward), bool(terminated), bool(truncated), info["remaining"].tolist()
    (0.0, False, False, [10.0, 5.0, 5.0])
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wane.depletion import Depletion, Geometric, Memory
from wane.exact.representation import evaluate, representation
from wane.mdp import MDP, check_discount, check_policy, check_sites
from wane.worlds.grid import ACTIONS, Map
from wane.worlds.observe import OBSERVATIONS, Observation


class State(NamedTuple):
    """All there is to know of a world in play."""

    cell: Any
    """the state number of the agent's cell"""
    facing: Any
    """the direction of its last move: 0 up, 1 right, 2 down, 3 left"""
    memory: Memory
    """of every site"""
    time: Any
    """steps taken"""


@dataclass(frozen=True, eq=False)
class World:
    """A world on a grid. Make one with `world(…)` or, from the catalog, `wane.worlds.make(name)`.

    A plain object: close over it in what you `jit`; `dataclasses.replace(world, depletion=…)` works inside, so that a
    λ can be traced.
    """

    map: Map
    depletion: Depletion
    sites: np.ndarray
    rewards: np.ndarray
    start: np.ndarray
    """probability of every state to start in"""
    policies: tuple[np.ndarray, ...]
    """base policies that come with the world, if any"""
    discount: float
    n_actions: int
    horizon: int | None
    """steps after which an episode is cut off (truncated)"""
    threshold: float
    """an episode is over (terminated) once no site has more than this left"""
    slip: float
    wall_penalty: float
    timing: Literal["arrival", "departure"]
    observation: Observation
    _next: Any
    _bumps: Any
    _near: Any
    _near_count: Any
    _site_of: Any

    @property
    def n_states(self) -> int:
        return self.map.n_states

    @property
    def n_sites(self) -> int:
        return len(self.sites)

    @property
    def mdp(self) -> MDP:
        """The transitions, for `wane.exact`."""
        return self.map.mdp(self.n_actions, self.slip)

    def remaining(self, state: State) -> jax.Array:
        """What a visit to each site would pay now: the reward vector given to agents that may see it."""
        return jnp.asarray(self.rewards) * self.depletion.worth(state.memory)

    def observe(self, state: State) -> jax.Array:
        """What the agent sees."""
        worth = jnp.broadcast_to(self.depletion.worth(state.memory), (self.n_sites,))
        return self.observation(state.cell, state.facing, worth)

    def reset(self, key: jax.Array) -> tuple[jax.Array, State]:
        """A fresh episode."""
        return self._reset(jax.random.uniform(key))

    def _reset(self, draw: jax.Array) -> tuple[jax.Array, State]:
        chance = np.cumsum(self.start)
        cell = jnp.searchsorted(jnp.asarray(chance / chance[-1]), draw, side="right")
        return self.begin(jnp.minimum(cell, self.n_states - 1))

    def begin(self, cell: Any, facing: Any = 0) -> tuple[jax.Array, State]:
        """A fresh episode from a given state number."""
        memory = jax.tree_util.tree_map(jnp.asarray, self.depletion.initial((self.n_sites,)))
        state = State(jnp.asarray(cell, jnp.int32), jnp.asarray(facing, jnp.int32), memory, jnp.zeros((), jnp.int32))
        return self.observe(state), state

    def step(self, key: jax.Array, state: State, action: Any) -> tuple[jax.Array, State, jax.Array, Any, Any, dict]:
        """One step: observation, state, reward, terminated, truncated, info.

        An action that does not exist cannot be refused while JAX traces: it pays NaN, which no training survives
        unseen.
        """
        return self._step(jax.random.uniform(key, (2,)) if self.slip else None, state, action)

    def _step(self, draws: jax.Array | None, state: State, action: Any):
        action = jnp.asarray(action, jnp.int32)
        known = (action >= 0) & (action < self.n_actions)
        aimed, bumped = self._next[state.cell, action], self._bumps[state.cell, action]
        slipped, stray = self._stray(draws, state.cell)
        cell = jnp.where(slipped, stray, aimed).astype(jnp.int32)
        paying = self._site_of[cell if self.timing == "arrival" else state.cell]
        here = jnp.arange(self.n_sites) == paying
        reward = jnp.where(here, self.remaining(state), 0.0).sum()
        reward = reward - self.wall_penalty * (bumped & ~slipped)
        memory = _where(here, self.depletion.visit(state.memory), self.depletion.wait(state.memory))
        facing = self._facing(state, cell)
        state = State(cell, facing, memory, state.time + 1)
        left = self.remaining(state)
        terminated = (left.max() < self.threshold) if self.n_sites else jnp.zeros((), bool)
        truncated = (state.time >= self.horizon) & ~terminated if self.horizon else jnp.zeros((), bool)
        info = {"remaining": left, "site": paying}
        return self.observe(state), state, jnp.where(known, reward, jnp.nan), terminated, truncated, info

    def auto_step(
        self, key: jax.Array, state: State, action: Any
    ) -> tuple[jax.Array, State, jax.Array, Any, Any, dict]:
        """`step`, and a fresh episode if that ended this one; the observation it ended with is in `info`."""
        draws = jax.random.uniform(key, (3,))
        seen, state, reward, terminated, truncated, info = self._step(draws[1:], state, action)
        fresh = self._reset(draws[0])
        done = terminated | truncated
        chosen = jax.tree_util.tree_map(lambda new, old: jnp.where(done, new, old), fresh, (seen, state))
        return *chosen, reward, terminated, truncated, {**info, "final_observation": seen}

    def _stray(self, draws: jax.Array | None, cell: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Whether this step slips, and where to."""
        if self.slip == 0 or draws is None:
            return jnp.zeros((), bool), cell
        which = jnp.floor(draws[1] * self._near_count[cell]).astype(jnp.int32)
        return draws[0] < self.slip, self._near[cell, which]

    def _facing(self, state: State, cell: jax.Array) -> jax.Array:
        """The direction from the old cell to the new one, as it was if they are the same."""
        cells = jnp.asarray(self.map.cells)
        down, right = cells[cell] - cells[state.cell]
        ways = jnp.array([down < 0, right > 0, down > 0, right < 0])
        return jnp.where(ways.any(), ways.argmax(), state.facing).astype(jnp.int32)

    def values(self, policy: Any) -> np.ndarray:
        """The exact expected return of a policy from every state, as if episodes had no horizon and no threshold."""
        mdp = self.mdp
        kernel = mdp.under(policy)
        value = representation(kernel, self.depletion, discount=self.discount, sites=self.sites).values(self.rewards)
        value = self.discount * (kernel @ value) if self.timing == "arrival" else value
        if self.wall_penalty == 0:
            return value
        chances = check_policy(policy, self.n_states, self.n_actions)
        chances = chances if chances.ndim == 2 else np.eye(self.n_actions)[chances]
        bumps = -self.wall_penalty * (1 - self.slip) * (chances * self.map.bumps(self.n_actions)).sum(1)
        later = self.discount if self.timing == "arrival" else 1.0
        return value + later * evaluate(kernel, bumps, Geometric(1.0), discount=self.discount)


def world(
    map: Map | str,
    *,
    sites: Any,
    rewards: Any,
    depletion: Depletion | None = None,
    start: Any = "uniform",
    discount: float = 0.99,
    horizon: int | None = None,
    threshold: float = 0.0,
    n_actions: int = 5,
    slip: float = 0.0,
    wall_penalty: float = 0.0,
    timing: Literal["arrival", "departure"] = "arrival",
    observation: str | Observation = "index",
    policies: Any = (),
) -> World:
    """A world from a map (text will do).

    `sites` are letters on the map, (row, column) pairs or state numbers; `start` is one of those, "uniform", or a
    probability for each state. `observation` is a name out of `wane.worlds.OBSERVATIONS` or a function (cell, facing,
    worth of each site) → array.
    """
    map = map if isinstance(map, Map) else Map(map)
    places = check_sites(np.array([_place(map, site, "site") for site in sites], int), map.n_states)
    rewards = np.asarray(rewards, dtype=float)
    if rewards.shape != places.shape or not np.all(np.isfinite(rewards)):
        raise ValueError(f"rewards must be one finite r̄ for each of the {len(places)} sites, got {rewards}")
    if n_actions not in (4, 5):
        raise ValueError(f"n_actions is 4 (no staying) or 5, got {n_actions}")
    if timing not in ("arrival", "departure"):
        raise ValueError(f'timing is "arrival" or "departure", got {timing!r}')
    if horizon is not None and horizon < 1:
        raise ValueError(f"horizon is a number of steps, 1 or more, got {horizon}")
    if not 0 <= slip <= 1:
        raise ValueError(f"slip is a probability, got {slip}")
    if isinstance(observation, str):
        if observation not in OBSERVATIONS:
            raise ValueError(f"unknown observation {observation!r}: there are {', '.join(OBSERVATIONS)}")
        observation = OBSERVATIONS[observation](map, places)
    site_of = np.full(map.n_states, -1)
    site_of[places] = np.arange(len(places))
    near, count = map.neighbour_table()
    tables = (map.next_states(n_actions), map.bumps(n_actions), near, count, site_of)
    return World(
        map=map,
        depletion=Geometric(0.5) if depletion is None else depletion,
        sites=places,
        rewards=rewards,
        start=_start(map, start),
        policies=tuple(np.asarray(policy) for policy in policies),
        discount=check_discount(discount),
        n_actions=n_actions,
        horizon=horizon,
        threshold=threshold,
        slip=float(slip),
        wall_penalty=wall_penalty,
        timing=timing,
        observation=observation,
        **dict(zip(("_next", "_bumps", "_near", "_near_count", "_site_of"), map_to_jax(tables), strict=True)),
    )


def map_to_jax(tables: tuple[np.ndarray, ...]) -> list[jax.Array]:
    return [jnp.asarray(table, bool if table.dtype == bool else jnp.int32) for table in tables]


def check_action(action: Any, n_actions: int) -> int:
    """An action as an integer, if it is one of this world's."""
    if int(action) != action or not 0 <= action < n_actions:
        names = ", ".join(f"{i} {name}" for i, name in enumerate(ACTIONS[:n_actions]))
        raise ValueError(f"unknown action {action!r}: there are {names}")
    return int(action)


def _where(here: jax.Array, yes: Memory, no: Memory) -> Memory:
    return jax.tree_util.tree_map(lambda a, b: jnp.where(here, a, b), yes, no)


def _place(map: Map, place: Any, what: str) -> int:
    """A letter, a (row, column) or a state number, as a state number."""
    if isinstance(place, str):
        return map.find(place)
    if np.ndim(place) == 1 and len(place) == 2:
        return map.state(int(place[0]), int(place[1]))
    if np.ndim(place) == 0 and 0 <= int(place) < map.n_states:
        return int(place)
    raise ValueError(f"{what} {place!r} is no letter, no (row, column) and no state from 0 to {map.n_states - 1}")


def _start(map: Map, start: Any) -> np.ndarray:
    if isinstance(start, str) and start == "uniform":
        return np.full(map.n_states, 1 / map.n_states)
    if np.shape(start) == (map.n_states,) and map.n_states > 2:
        chances = np.asarray(start, float)
        if np.any(chances < 0) or not np.isclose(chances.sum(), 1):
            raise ValueError(
                f"start probabilities must not be negative and must sum to 1, these sum to {chances.sum():.4g}"
            )
        return chances
    return np.eye(map.n_states)[_place(map, start, "start")]
