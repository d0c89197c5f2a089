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

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wane.depletion import Depletion, Geometric, Memory, is_traced
from wane.exact.representation import check_parameters, evaluate, representation
from wane.mdp import MDP, check_discount, check_policy, check_sites
from wane.worlds.grid import ACTIONS, Map
from wane.worlds.observe import Observation, make_observation

HALVING = Geometric(0.5)


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
    """A world on a grid.

    A plain object: close over it in what you `jit`. `dataclasses.replace(world, depletion=…)` gives another one,
    checked anew; it works inside of traced functions, so that a λ or the rewards can be traced.
    """

    map: Map
    """walls and free cells; text will do"""
    _: KW_ONLY
    sites: Any
    """letters on the map, (row, column) pairs or state numbers; kept as state numbers"""
    rewards: Any
    """r̄ of every site"""
    depletion: Depletion = HALVING
    start: Any = "uniform"
    """a place like a site, "uniform", or a probability for each state; kept as probabilities"""
    discount: float = 0.99
    horizon: int | None = None
    """steps after which an episode is cut off (truncated)"""
    threshold: float | None = None
    """an episode is over (terminated) once no site has as much as this left; None: never"""
    n_actions: int = 5
    """5, or 4 without staying"""
    slip: float = 0.0
    """probability of moving to a random free neighbour instead"""
    wall_penalty: float = 0.0
    """what bumping into a wall costs"""
    timing: Literal["arrival", "departure"] = "arrival"
    observation: str | Observation = "index"
    """a name out of `wane.worlds.OBSERVATIONS`, or a function (cell, facing, worth of each site) → array"""
    policies: Any = ()
    """base policies that come with the world, if any"""

    def __post_init__(self):
        map = self.map if isinstance(self.map, Map) else Map(self.map)
        sites = np.array([place(map, site, "site") for site in self.sites], int)
        checked = {
            "map": map,
            "sites": check_sites(sites, map.n_states),
            "rewards": _check_rewards(self.rewards, len(sites)),
            "start": _start(map, self.start),
            "discount": check_discount(self.discount),
            "slip": float(self.slip),
            "policies": tuple(check_policy(policy, map.n_states, self.n_actions) for policy in self.policies),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        _check_settings(self)
        _check_start(self)
        _ = self.view

    @property
    def view(self) -> Observation:
        """The function that makes observations."""
        if callable(self.observation):
            return self.observation
        if not isinstance(self.observation, str):
            raise TypeError(f"observation is a name or a function, got {self.observation!r}")
        return make_observation(self.observation, self.map, tuple(self.sites.tolist()))

    @cached_property
    def _tables(self) -> tuple[np.ndarray, ...]:
        """Where actions lead, which of them bump, free neighbours, how many, and the site of each state (−1: none)."""
        site_of = np.full(self.n_states, -1)
        site_of[self.sites] = np.arange(self.n_sites)
        map = self.map
        tables = (map.next_states(self.n_actions), map.bumps(self.n_actions), *map.neighbour_table(), site_of)
        return tuple(table if table.dtype == bool else table.astype(np.int32) for table in tables)

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
        return self.view(state.cell, state.facing, worth)

    def reset(self, key: jax.Array) -> tuple[jax.Array, State]:
        """A fresh episode."""
        return self._reset(jax.random.uniform(key))

    def _reset(self, draw: jax.Array) -> tuple[jax.Array, State]:
        chance = np.cumsum(self.start)
        cell = jnp.searchsorted(jnp.asarray(chance / chance[-1]), draw, side="right")
        return self.begin(jnp.minimum(cell, self.n_states - 1))

    def begin(self, cell: Any, facing: Any = 0) -> tuple[jax.Array, State]:
        """A fresh episode from a given place: a letter, a (row, column) or a state number, which may be traced."""
        cell = cell if isinstance(cell, jax.Array) else place(self.map, cell, "start")
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
        leads, bumps, _, _, site_of = map(jnp.asarray, self._tables)
        aimed, bumped = leads[state.cell, action], bumps[state.cell, action]
        slipped, stray = self._stray(draws, state.cell)
        cell = jnp.where(slipped, stray, aimed).astype(jnp.int32)
        paying = site_of[cell if self.timing == "arrival" else state.cell]
        here = jnp.arange(self.n_sites) == paying
        reward = jnp.where(here, self.remaining(state), 0.0).sum()
        reward = reward - self.wall_penalty * (bumped & ~slipped)
        memory = _where(here, self.depletion.visit(state.memory), self.depletion.wait(state.memory))
        facing = self._facing(state, cell)
        state = State(cell, facing, memory, state.time + 1)
        left = self.remaining(state)
        terminated = jnp.zeros((), bool)
        if self.threshold is not None and self.n_sites:
            terminated = left.max() < self.threshold
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
        info = {**info, "final_observation": seen, "final_remaining": info["remaining"]}
        info["remaining"] = self.remaining(chosen[1])
        return *chosen, reward, terminated, truncated, info

    def _stray(self, draws: jax.Array | None, cell: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Whether this step slips, and where to."""
        if self.slip == 0 or draws is None:
            return jnp.zeros((), bool), cell
        near, count = map(jnp.asarray, self._tables[2:4])
        which = jnp.floor(draws[1] * count[cell]).astype(jnp.int32)
        return draws[0] < self.slip, near[cell, which]

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
        value = np.zeros(self.n_states)
        if self.n_sites:
            phi = representation(kernel, self.depletion, discount=self.discount, sites=self.sites)
            value = phi.values(self.rewards)
        value = self.discount * (kernel @ value) if self.timing == "arrival" else value
        if self.wall_penalty == 0:
            return value
        chances = check_policy(policy, self.n_states, self.n_actions)
        chances = chances if chances.ndim == 2 else np.eye(self.n_actions)[chances]
        bumps = -self.wall_penalty * (1 - self.slip) * (chances * self.map.bumps(self.n_actions)).sum(1)
        later = self.discount if self.timing == "arrival" else 1.0
        return value + later * evaluate(kernel, bumps, Geometric(1.0), discount=self.discount)


def check_action(action: Any, n_actions: int) -> int:
    """An action as an integer, if it is one of this world's."""
    if not 0 <= action < n_actions or int(action) != action:
        names = ", ".join(f"{i} {name}" for i, name in enumerate(ACTIONS[:n_actions]))
        raise ValueError(f"unknown action {action!r}: there are {names}")
    return int(action)


def _check_settings(world: World) -> None:
    if not isinstance(world.depletion, Depletion):
        raise TypeError(f"{world.depletion!r} is no Depletion: take one of wane.depletion, or subclass it")
    check_parameters(world.depletion, world.n_sites)
    if not isinstance(world.n_actions, int) or world.n_actions not in (4, 5):
        raise ValueError(f"n_actions is 4 (no staying) or 5, got {world.n_actions}")
    if world.timing not in ("arrival", "departure"):
        raise ValueError(f'timing is "arrival" or "departure", got {world.timing!r}')
    if world.horizon is not None and (world.horizon < 1 or int(world.horizon) != world.horizon):
        raise ValueError(f"horizon is a number of steps, 1 or more, got {world.horizon}")
    for name in ("threshold", "wall_penalty"):
        value = getattr(world, name)
        if value is not None and not is_traced(value) and not np.isfinite(value):
            raise ValueError(f"{name} must be a finite number, got {value}")
    if not 0 <= world.slip <= 1:
        raise ValueError(f"slip is a probability, got {world.slip}")


def _check_start(world: World) -> None:
    """Every start can get to some site."""
    region = world.map.regions
    lost = (world.start > 0) & ~np.isin(region, region[world.sites])
    if world.n_sites and lost.any():
        row, column = world.map.cells[np.argmax(lost)]
        raise ValueError(
            f"no site can be reached from the start in cell ({row}, {column}): open a wall, or start where there "
            "is a way"
        )


def _check_rewards(rewards: Any, n_sites: int) -> Any:
    rewards = rewards if isinstance(rewards, jax.Array) else np.asarray(rewards, dtype=float)
    if rewards.shape != (n_sites,) or not (is_traced(rewards) or np.all(np.isfinite(rewards))):
        raise ValueError(f"rewards must be one finite r̄ for each of the {n_sites} sites, got {rewards}")
    return rewards


def _where(here: jax.Array, yes: Memory, no: Memory) -> Memory:
    return jax.tree_util.tree_map(lambda a, b: jnp.where(here, a, b), yes, no)


def place(map: Map, place: Any, what: str) -> int:
    """A letter, a (row, column) or a state number, as a state number."""
    if isinstance(place, str):
        return map.find(place)
    spot = np.asarray(place)
    if spot.dtype.kind in "iu" and spot.shape == (2,):
        return map.state(int(spot[0]), int(spot[1]))
    if spot.dtype.kind in "iu" and spot.ndim == 0 and 0 <= int(spot) < map.n_states:
        return int(spot)
    raise ValueError(f"{what} {place!r} is no letter, no (row, column) and no state from 0 to {map.n_states - 1}")


def _start(map: Map, start: Any) -> np.ndarray:
    if isinstance(start, str) and start == "uniform":
        return np.full(map.n_states, 1 / map.n_states)
    if np.shape(start) == (map.n_states,) and (map.n_states > 2 or np.asarray(start).dtype.kind == "f"):
        chances = np.asarray(start, float)
        if np.any(chances < 0) or not np.isclose(chances.sum(), 1):
            raise ValueError(
                f"start probabilities must not be negative and must sum to 1, these sum to {chances.sum():.4g}"
            )
        return chances
    return np.eye(map.n_states)[place(map, start, "start")]
