"""A field of 10¹² cells of which no array exists: walls and sites follow from a hash of the coordinates.

    >>> import jax
    >>> field = EndlessField(seed=3)
    >>> field.n_cells, field.start
    (1000000000000, (500000, 500000))
    >>> _, state = field.reset(jax.random.key(0))
    >>> seen, state, reward, terminated, truncated, info = field.step(None, state, 1)
    >>> state.cell.tolist(), seen.shape
    ([500000, 500001], (2, 11, 11))

It is a process like other worlds (`wane.worlds.process`), but it has no table of states. An agent is shown a window
around it. `field.values(policy, at=…)` bounds what a policy is worth from some cells (`wane.evaluate_local`), and
`field.window(…)` cuts a part out of it, as a `World` that can be drawn.

Every site pays the same r̄. What sites remember is kept for those that were visited in this episode, in the order of
their first visits: `n_sites` is the horizon, because no more sites can be visited. A site that was not visited yet
remembers what a fresh one does after so many steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from wane.depletion import Depletion, Memory
from wane.exact.local import LocalValues, evaluate_local
from wane.function_kernel import FunctionKernel, action_weights
from wane.mdp import check_discount
from wane.sums import namespace
from wane.types import Tree
from wane.worlds import rules
from wane.worlds.base import HALVING, select
from wane.worlds.grid import ACTIONS, MOVES, Map
from wane.worlds.world import World

_LARGEST = 2**31 - 2  # Coordinates are 32-bit integers, also one step beyond the border.


class FieldState(NamedTuple):
    """The complete state of a field during an episode."""

    cell: Int[Array, "*batch 2"]
    """The row and the column of the agent."""
    memory: Memory
    """What the depletion remembers of the visited sites, and then of fresh ones."""
    visited: Int[Array, "*batch sites 2"]
    """The row and the column of each visited site, −1 for those to come."""
    time: Int[Array, "*batch"]
    """The number of steps taken."""


@dataclass(frozen=True, eq=False)
class EndlessField:
    """A field whose walls and sites follow from a seed. It never changes; `dataclasses.replace` gives another."""

    rows: int = 10**6
    columns: int = 10**6
    seed: int = 0
    walls: float = 0.2
    """The share of cells that are walls. Beyond about 0.4, free cells are no longer connected."""
    sites: float = 0.02
    """The share of free cells that pay."""
    reward: float = 1.0
    """The reward r̄ of every site before its first visit."""
    depletion: Depletion = HALVING
    """How the reward of a site wears off, and how it grows back. It has one parameter for all sites."""
    discount: float = 0.95
    timing: Literal["arrival", "departure"] = "arrival"
    """Whether a site pays when the agent arrives, or when it departs."""
    start: Any = None
    """The (row, column) where episodes begin; None is the middle. It and its neighbours are free; it pays nothing."""
    slip: float = 0.0
    """The probability of moving to a random free neighbour instead."""
    observation: Any = "window"
    """"window": walls and what visits would pay, (2, 11, 11); "window:r" reaches r cells far; "cell"; or a function of
    the field and the state."""
    horizon: int = 200
    """The number of steps after which an episode is cut off (truncated)."""

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            if not 3 <= getattr(self, name) <= _LARGEST:
                raise ValueError(f"{name} must lie between 3 and 2³¹ − 2, got {getattr(self, name)}")
        start = (self.rows // 2, self.columns // 2) if self.start is None else self.start
        start = tuple(int(x) for x in start)
        if len(start) != 2 or not (0 <= start[0] < self.rows and 0 <= start[1] < self.columns):
            raise ValueError(f"start is a (row, column) within the field, got {self.start}")
        for name in ("walls", "sites", "slip"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(
                    f"{name} must lie in [0, 1], got {getattr(self, name)}: it is a share of cells or steps"
                )
        if rules.check_horizon(self.horizon) is None:
            raise ValueError("a field needs a horizon, because it keeps room for every site that can be visited")
        rules.check_depletion(self.depletion, self.horizon)
        rules.check_timing(self.timing)
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "reward", float(rules.check_finite("reward", self.reward)))
        object.__setattr__(self, "discount", check_discount(self.discount))
        _ = self._reach

    @property
    def n_cells(self) -> int:
        """The number of cells, walls included."""
        return self.rows * self.columns

    @property
    def n_actions(self) -> int:
        """The number of actions, staying included."""
        return len(ACTIONS)

    @property
    def n_sites(self) -> int:
        """The number of sites that can be visited in an episode."""
        return self.horizon

    @property
    def rewards(self) -> Float[np.ndarray, " sites"]:
        """The reward r̄ of each of them."""
        return np.full(self.n_sites, self.reward)

    @property
    def ends_early(self) -> bool:
        """Whether an episode can terminate: none does."""
        return False

    @property
    def is_certain(self) -> bool:
        """Whether a step draws nothing at random."""
        return self.slip == 0

    def is_free(self, cells: Any) -> Any:
        """Returns whether cells (…, 2) are free. Those beyond the border are not."""
        row, column = cells[..., 0], cells[..., 1]
        inside = (row >= 0) & (row < self.rows) & (column >= 0) & (column < self.columns)
        near = (abs(row - self.start[0]) <= 1) & (abs(column - self.start[1]) <= 1)
        return inside & (near | ~self._chance(cells, 1, self.walls))

    def is_site(self, cells: Any) -> Any:
        """Returns whether cells (…, 2) pay."""
        begins = (cells[..., 0] == self.start[0]) & (cells[..., 1] == self.start[1])
        return self.is_free(cells) & self._chance(cells, 2, self.sites) & ~begins

    def _chance(self, cells: Any, salt: int, share: float) -> Any:
        """Returns True for a share of all cells, chosen by a hash of seed and coordinates (Murmur3's last steps)."""
        xp = namespace(cells)
        if share >= 1:
            return xp.ones(cells.shape[:-1], bool)
        mixed = xp.full(cells.shape[:-1], (self.seed * 3 + salt) % 2**32, xp.uint32)
        with np.errstate(over="ignore"):
            for part in (cells[..., 0], cells[..., 1], xp.zeros(cells.shape[:-1], xp.uint32)):
                mixed = (mixed ^ part.astype(xp.uint32)) + xp.uint32(0x9E3779B9)
                for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
                    mixed = (mixed ^ (mixed >> xp.uint32(shift))) * xp.uint32(factor)
        return mixed < xp.uint32(share * 2**32)

    # What a process does.

    def reset(self, key: Any = None) -> tuple[Tree, FieldState]:
        """Begins an episode at the start. Returns the observation and the state."""
        return self.begin(self.start)

    def begin(self, cell: Any) -> tuple[Tree, FieldState]:
        """Begins an episode in a given (row, column)."""
        memory = jax.tree_util.tree_map(jnp.asarray, self.depletion.initial((self.n_sites,)))
        nowhere = jnp.full((self.n_sites, 2), -1, jnp.int32)
        state = FieldState(jnp.asarray(cell, jnp.int32), memory, nowhere, jnp.zeros((), jnp.int32))
        return self.observe(state), state

    def remaining(self, state: FieldState) -> Float[Array, " sites"]:
        """Returns what a visit to each of the visited sites would pay now, and then what fresh ones would."""
        return jnp.broadcast_to(self.reward * self.depletion.worth(state.memory), (self.n_sites,))

    def remaining_at(self, state: FieldState, sites: Any) -> Float[Array, "..."]:
        """Returns what a visit to sites at (…, 2) would pay now."""
        return self.remaining(state)[self._slot(state, sites)]

    def _slot(self, state: FieldState, sites: Any) -> Int[Array, "..."]:
        """Returns the places of sites at (…, 2) among those that were visited. A new one gets the next place."""
        known = (state.visited == jnp.asarray(sites)[..., None, :]).all(-1)
        after = jnp.minimum((state.visited[:, 0] >= 0).sum(), self.n_sites - 1)
        return jnp.where(known.any(-1), known.argmax(-1), after)

    def step(
        self, key: Any, state: FieldState, action: Any
    ) -> tuple[Tree, FieldState, Float[Array, ""], Bool[Array, ""], Bool[Array, ""], dict[str, Tree]]:
        """Takes one step. The key is used only if the field slips. The reward of an unknown action is NaN."""
        action = jnp.asarray(action, jnp.int32)
        cell = self._moved(key, state.cell, action)
        paying = cell if self.timing == "arrival" else state.cell
        slot = self._slot(state, paying)
        visited = self.is_site(paying) & (jnp.arange(self.n_sites) == slot)
        reward = jnp.where(visited, self.remaining(state), 0.0).sum()
        reward = jnp.where((action >= 0) & (action < self.n_actions), reward, jnp.nan)
        memory = select(visited, self.depletion.visit(state.memory), self.depletion.wait(state.memory))
        places = jnp.where(visited[:, None], paying, state.visited)
        after = FieldState(cell, memory, places, state.time + 1)
        info = {"remaining": self.remaining(after), "site": jnp.where(visited.any(), slot, -1)}
        return self.observe(after), after, reward, jnp.zeros((), bool), after.time >= self.horizon, info

    def _moved(self, key: Any, cell: Int[Array, "2"], action: Int[Array, ""]) -> Int[Array, "2"]:
        around = cell + jnp.asarray(MOVES, jnp.int32)
        free = self.is_free(around)
        aim = jnp.where(free[action], around[action], cell)
        if self.slip == 0:
            return aim
        slips, where = jax.random.split(key)
        stray = jax.random.categorical(where, jnp.where(free[:4], 0.0, -jnp.inf))
        slipped = (jax.random.uniform(slips) < self.slip) & free[:4].any()
        return jnp.where(slipped, around[stray], aim)

    @property
    def _reach(self) -> int:
        """How far the window reaches, 0 if something else is shown. Raises a ValueError for an unknown name."""
        if callable(self.observation) or self.observation == "cell":
            return 0
        name, _, reach = str(self.observation).partition(":")
        if name != "window" or not (reach or "5").isdigit():
            raise ValueError(f'a field shows "window", "window:r", "cell" or a function, got {self.observation!r}')
        return int(reach or 5)

    def observe(self, state: FieldState) -> Tree:
        """Returns what the agent sees."""
        if callable(self.observation):
            return self.observation(self, state)
        if not self._reach:
            return state.cell
        steps = jnp.arange(-self._reach, self._reach + 1)
        cells = state.cell + jnp.stack(jnp.meshgrid(steps, steps, indexing="ij"), axis=-1)
        paid = jnp.where(self.is_site(cells), self.remaining_at(state, cells), 0.0)
        return jnp.stack([(~self.is_free(cells)).astype(jnp.float32), paid.astype(jnp.float32)])

    # What can be computed.

    def number(self, cells: Any) -> Int[np.ndarray, "..."]:
        """Returns the state number of cells (…, 2) for `function_kernel`: row · columns + column."""
        places = np.asarray(cells, np.int64)
        return places[..., 0] * self.columns + places[..., 1]

    def function_kernel(self, policy: Any) -> FunctionKernel:
        """Returns the kernel under a policy: a function of cells (n, 2), or "uniform". States are numbers."""

        def around(states: Any) -> tuple[Any, Any, Any]:
            cells = np.stack(np.divmod(states, self.columns), axis=-1)
            near = cells[:, None] + MOVES
            free = self.is_free(near)
            return cells, np.where(free, self.number(near), states[:, None]), free

        def successors(states: Any) -> Any:
            cells, after, free = around(states)
            inside = (states >= 0) & (states < self.n_cells)
            if not np.all(inside & self.is_free(cells)):
                raise ValueError("there is a wall, or the border")
            chances = (1 - self.slip) * action_weights(policy, cells, self.n_actions)
            ways = free[:, :4].sum(1, keepdims=True)
            chances[:, :4] += np.where(free[:, :4], self.slip / np.maximum(ways, 1), 0.0)
            chances[:, 4:] += np.where(ways == 0, self.slip, 0.0)
            return after, chances

        return FunctionKernel(successors, lambda states: around(states)[1])

    def reward_in(self, states: Any) -> Float[np.ndarray, " states"]:
        """Returns the reward r̄ of some states of `function_kernel`, 0 where nothing is paid."""
        return self.reward * self.is_site(np.stack(np.divmod(states, self.columns), axis=-1))

    def values(
        self, policy: Any = "uniform", *, at: Any = None, tolerance: float = 1e-6, **options: Any
    ) -> LocalValues:
        """Returns what a policy is worth from some cells, by default the start, with proven bounds.

        It is the expected return of endless episodes. No table of values is built: `wane.evaluate_local` explores the
        field around these cells. The options are its other arguments, such as `budget`.
        """
        cells = np.atleast_2d(np.asarray(self.start if at is None else at, np.int64))
        if not (free := self.is_free(cells)).all():
            raise ValueError(f"cell {tuple(cells[~free][0].tolist())} is a wall or beyond the border: name free cells")
        kernel, starts, gamma = self.function_kernel(policy), self.number(cells), float(self.discount)
        arrives = self.timing == "arrival"
        after, chances = kernel.rows(starts) if arrives else (starts[:, None], np.ones((len(starts), 1)))
        states, place = np.unique(after, return_inverse=True)
        found = evaluate_local(
            self,
            self.reward_in,
            self.depletion,
            policy=policy,
            discount=gamma,
            at=states,
            tolerance=tolerance / (gamma if arrives and gamma > 0 else 1),
            largest_reward=abs(self.reward),
            **options,
        )
        weights = (gamma if arrives else 1.0) * chances
        low, high = ((weights * side[place.reshape(after.shape)]).sum(1) for side in (found.lower, found.upper))
        rounding = 16 * np.finfo(float).eps * np.maximum(np.abs(low), np.abs(high))
        return replace(found, states=cells, lower=low - rounding, upper=high + rounding)

    # What can be seen.

    def window(self, top: int, left: int, rows: int, columns: int) -> World:
        """Returns a part of the field as a `World` with walls around it, which can be drawn, played and solved.

        Episodes begin where a site can be reached.
        """
        cells = np.stack(np.meshgrid(np.arange(rows) + top, np.arange(columns) + left, indexing="ij"), axis=-1)
        drawn = Map.from_letters(np.pad(np.where(self.is_free(cells), ".", "#"), 1, constant_values="#"))
        sites = np.array([drawn.state(*place) for place in np.argwhere(self.is_site(cells)) + 1], int)
        connected = np.isin(drawn.regions, drawn.regions[sites])
        return World(
            drawn,
            sites=sites,
            start=connected / connected.sum() if len(sites) else "uniform",
            rewards=[self.reward] * len(sites),
            depletion=self.depletion,
            discount=self.discount,
            timing=self.timing,
            slip=self.slip,
            horizon=self.horizon,
        )

    def film(
        self, states: Sequence[FieldState], rewards: Sequence[Any], path: str | Path | None = None, margin: int = 3
    ) -> Any:
        """Returns a film of an episode in the part of the field where it took place: T + 1 states and T rewards."""
        cells = np.stack([np.asarray(state.cell) for state in states])
        top, left = np.maximum(cells.min(0) - margin, 0)
        rows, columns = cells.max(0) + margin + 1 - (top, left)
        part = self.window(int(top), int(left), int(rows), int(columns))
        sites = part.map.cells[part.sites] - 1 + (top, left)
        remaining = np.stack([self.remaining_at(state, sites) for state in states])
        places = np.array([part.map.state(*cell) for cell in cells - (top, left) + 1])
        pays = np.asarray(rewards, float)
        episode: Any = SimpleNamespace(cells=places, rewards=pays, remaining=remaining, live=np.ones(len(pays)))
        return part.film(episode, path)
