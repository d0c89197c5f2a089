"""Steps worlds in NumPy, for the Gymnasium environments and the Stable-Baselines3 adapter.

A `World` steps inside of programs that JAX compiles. Calling such a step from Python costs several hundred times as
much as the step itself, so this module takes the same step on the same tables without JAX: `Single` in Python numbers,
for one world, and `Copies` in NumPy arrays, for many copies. Tests compare both with the compiled step for every world,
depletion, slip and observation. An observation without a twin in NumPy, such as a picture, is a compiled program.

Random numbers are uniform and mean the same as in `World`: the first decides whether the action slips, the second
where to.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from wane.types import Integer
from wane.worlds.base import State
from wane.worlds.observe import largest_reward
from wane.worlds.payments import Jitted, Rows, payments
from wane.worlds.world import World

# The facing after a move by (rows, columns) from −1 to 1; a diagonal move cannot happen.
_FACING = np.array([[-1, 0, -1], [3, -1, 1], [-1, 2, -1]])


class _Simulation:
    """What one world and a batch of copies have in common."""

    def __init__(self, world: World, copies: tuple[int, ...]) -> None:
        self.world, self._copies = world, copies
        self.sites = payments(world.depletion, np.asarray(world.rewards, float), copies)
        self._remains, self._flat, self._tables = world.observation.remaining, world.observation.flat, world.tables
        self._penalty, self._arrives = float(world.wall_penalty), world.timing == "arrival"
        self._threshold = float(world.threshold) if world.threshold is not None and world.n_sites else None
        self._unit = float(largest_reward(np.asarray(world.rewards, float)))
        self._see: Any = getattr(world.observation, "see_numpy", None)
        self._compiled = Jitted(world.view, batched=bool(copies))
        self._fades = self._see is None or getattr(world.observation, "fades", True)

    cell: Any
    """The state number of the agent's cell."""
    facing: Any
    """The direction of the agent's last move."""
    time: Any
    """The number of steps taken."""

    @property
    def remaining(self) -> Float[np.ndarray, "*copies sites"]:
        """What a visit to each site would pay now."""
        return self.sites.remaining.copy()

    @property
    def state(self) -> State:
        """The state, from which `World.step` can continue."""
        memory = jax.tree_util.tree_map(np.array, self.sites.memory)
        cell, facing, time = (np.array(part, np.int32) for part in (self.cell, self.facing, self.time))
        return State(cell, facing, memory, time)  # pyright: ignore[reportArgumentType]

    def observe(self) -> Any:
        """Returns what is seen: a number, an array, or a dictionary in place of a `Seen`. Arrays are copies."""
        worth = self.sites.worth() if self._fades else None
        if self._see is None:
            seen = self._compiled(np.asarray(self.cell, np.int32), np.asarray(self.facing, np.int32), worth)
        else:
            seen = self._see(self.world, self.cell, self.facing, worth)
        if self._flat:
            seen = np.asarray(seen).reshape(*self._copies, -1)
            parts = [seen, self.sites.remaining / self._unit] if self._remains else [seen]
            return np.concatenate(parts, axis=-1, dtype=np.float32, casting="unsafe")
        return {"view": seen, "remaining": self.sites.remaining.astype(np.float32)} if self._remains else seen


class Single(_Simulation):
    """One world in play."""

    def __init__(self, world: World) -> None:
        super().__init__(world, ())
        self._slip, self._horizon = world.slip, world.horizon or np.inf

    def reset(self, number: float) -> None:
        """Begins an episode in a random place, given a uniform number."""
        cell = int(np.searchsorted(self.world.start_cumulated, number, side="right"))
        self.begin(min(cell, self.world.n_states - 1))

    def begin(self, cell: int, facing: int = 0) -> None:
        """Begins an episode in a given state."""
        self.cell, self.facing, self.time = cell, facing, 0
        self.sites.begin()
        self._spent = self._is_spent()

    def _is_spent(self) -> bool:
        """Returns whether less than the threshold remains of every reward."""
        return self._threshold is not None and max(self.sites.remaining.tolist()) < self._threshold

    def step(self, action: int, numbers: Any = None) -> tuple[float, bool, bool, int]:
        """Takes one step. Returns the reward, terminated, truncated, and the site that was visited or −1.

        `numbers` are two uniform ones, which are needed only if the world slips.
        """
        tables, cell = self._tables, self.cell
        if self._slip and numbers[0] < self._slip:
            bumped = False
            aim = tables.neighbours.item(cell, int(numbers[1] * tables.n_neighbours.item(cell)))
        else:
            bumped = tables.bumps.item(cell, action)
            aim = tables.next_states.item(cell, action)
        site = tables.site_of.item(aim if self._arrives else cell)
        reward = self.sites.remaining.item(site) if site >= 0 else 0.0
        if bumped:
            reward -= self._penalty
        if site >= 0 or self.sites.waits:
            self.sites.advance((site,) if site >= 0 else None)
            self._spent = self._is_spent()
        if aim != cell:
            down, right = (tables.cells.item(aim, axis) - tables.cells.item(cell, axis) for axis in (0, 1))
            self.cell, self.facing = aim, _FACING.item(down + 1, right + 1)
        self.time += 1
        return reward, self._spent, self.time >= self._horizon and not self._spent, site


class Copies(_Simulation):
    """Many copies of a world in play."""

    cell: Int[np.ndarray, " copies"]
    facing: Int[np.ndarray, " copies"]
    time: Int[np.ndarray, " copies"]

    def __init__(self, world: World, copies: Integer) -> None:
        super().__init__(world, (int(copies),))
        self.cell, self.facing, self.time = (np.zeros(int(copies), np.int64) for _ in range(3))

    def reset(self, numbers: Float[np.ndarray, " some"], rows: Rows = ...) -> None:
        """Begins an episode in all copies or in some, given a uniform number for each of them."""
        cell = np.searchsorted(self.world.start_cumulated, numbers, side="right")
        self.cell[rows] = np.minimum(cell, self.world.n_states - 1)
        self.facing[rows] = self.time[rows] = 0
        self.sites.begin(rows)

    def step(
        self, actions: Int[np.ndarray, " copies"], numbers: Float[np.ndarray, "copies 2"] | None = None
    ) -> tuple[
        Float[np.ndarray, " copies"],
        Bool[np.ndarray, " copies"],
        Bool[np.ndarray, " copies"],
        Int[np.ndarray, " copies"],
    ]:
        """Takes one step in every copy. Returns what `Single.step` does, as arrays."""
        aim, bumped = self._move(actions, numbers)
        site = self._tables.site_of[aim if self._arrives else self.cell]
        visited = np.flatnonzero(site >= 0)
        reward = -self._penalty * bumped if self._penalty else np.zeros(len(aim))
        if len(visited):
            index = visited, site[visited]
            reward[visited] += self.sites.remaining[index]
            self.sites.advance(index)
        elif self.sites.waits:
            self.sites.advance(None)
        down, right = (self._tables.cells[aim] - self._tables.cells[self.cell]).T
        facing = _FACING[down + 1, right + 1]
        self.facing = np.where(facing < 0, self.facing, facing)
        self.cell, self.time = aim, self.time + 1
        terminated = np.zeros(len(aim), bool)
        if self._threshold is not None:
            terminated = self.sites.remaining.max(1) < self._threshold
        truncated = (self.time >= (self.world.horizon or np.inf)) & ~terminated
        return reward, terminated, truncated, site

    def _move(
        self, actions: Int[np.ndarray, " copies"], numbers: Float[np.ndarray, "copies 2"] | None
    ) -> tuple[Int[np.ndarray, " copies"], Bool[np.ndarray, " copies"]]:
        """Returns the next cells, and which copies bumped into a wall."""
        tables, slip = self._tables, self.world.slip
        aim, bumped = tables.next_states[self.cell, actions], tables.bumps[self.cell, actions]
        if slip and numbers is not None:
            slipped = numbers[:, 0] < slip
            which = (numbers[:, 1] * tables.n_neighbours[self.cell]).astype(int)
            aim = np.where(slipped, tables.neighbours[self.cell, which], aim)
            bumped = bumped & ~slipped
        return aim.astype(np.int64), bumped

    def sample_numbers(self, rng: np.random.Generator) -> Float[np.ndarray, "copies 2"] | None:
        """Returns the uniform numbers of a step, or None if the world does not slip."""
        return rng.random((len(self.cell), 2)) if self.world.slip else None

    def auto_step(
        self, actions: Int[np.ndarray, " copies"], rng: np.random.Generator
    ) -> tuple[Any, Float[np.ndarray, " copies"], Bool[np.ndarray, " copies"], Bool[np.ndarray, " copies"], Any | None]:
        """Takes one step in every copy, and begins a new episode at once where that step ended one.

        Returns the observation, the reward, terminated, truncated and the last observation of the old episodes. The
        last observation has a row for every copy, but only rows of episodes that ended count; it is None if none ended.
        """
        reward, terminated, truncated, _ = self.step(actions, self.sample_numbers(rng))
        done = terminated | truncated
        if not done.any():
            return self.observe(), reward, terminated, truncated, None
        final = self.observe()
        self.reset(rng.random(int(done.sum())), done)
        return self.observe(), reward, terminated, truncated, final
