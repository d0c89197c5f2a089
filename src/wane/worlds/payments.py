"""What the sites of a world remember and pay during an episode, in NumPy: for one world, or for a batch of copies.

The reward of a site that only counts its visits is looked up in a table, which is made once. Any other depletion is
called at every step: with NumPy arrays if its functions return NumPy arrays for them, else through `jax.jit`.

An index says which sites are visited in a step. It is `(site,)` for one world, and `(copies, sites)`, two arrays of the
same length, for a batch.
"""

from collections.abc import Callable
from functools import cached_property
from types import EllipsisType
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from wane.depletion import Depletion, Memory

LONGEST_TABLE = 1024
"""The number of visits whose worth is tabulated. For more visits the depletion is called."""
LARGEST_TABLE = 2**18
"""The number of entries that a table may have. With many sites it covers fewer visits."""
Index = tuple[Any, ...]
Rows = Bool[np.ndarray, " copies"] | EllipsisType
"""Some copies of a batch as a mask, or all of them."""


class Jitted:
    """A function that is compiled at its first call and returns NumPy arrays. Unlike `jax.jit` it can be pickled."""

    def __init__(self, function: Callable[..., Any], batched: bool = False) -> None:
        self.function, self.batched = function, batched

    @cached_property
    def _compiled(self) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            return self.function(*arguments)

        return jax.jit(jax.vmap(call) if self.batched else call)

    def __call__(self, *arguments: Any) -> Any:
        return jax.tree_util.tree_map(np.array, self._compiled(*arguments))

    def __getstate__(self) -> dict[str, Any]:
        return {"function": self.function, "batched": self.batched}


class Counted:
    """Sites whose reward depends on the number of their visits only."""

    waits = False
    """Whether a step changes the sites that it does not visit."""

    def __init__(self, depletion: Depletion, rewards: Float[np.ndarray, " sites"], copies: tuple[int, ...]) -> None:
        self._worth, self._rewards = _with_numpy(depletion).worth, rewards
        length = int(np.clip(LARGEST_TABLE // max(len(rewards), 1), 2, LONGEST_TABLE))
        self.memory = np.zeros((*copies, len(rewards)), np.int64)
        self._table = rewards * self.worth(np.broadcast_to(np.arange(length)[:, None], (length, len(rewards))))
        self.remaining = np.empty(self.memory.shape)
        self.begin()

    def begin(self, rows: Rows = ...) -> None:
        """Makes the sites of these copies fresh."""
        self.memory[rows] = 0
        self.remaining[rows] = self._table[0]
        self._most_visits = 0 if rows is ... else self._most_visits

    def advance(self, index: Index | None) -> None:
        """Takes a step that visits the sites at an index; None stands for no site."""
        if index is None:
            return
        visits = self.memory[index] + 1
        self.memory[index] = visits
        # No site has more visits than there were steps, so visits are compared only once the table may be too short.
        self._most_visits += 1
        if self._most_visits >= len(self._table):
            self._most_visits = int(self.memory.max())
        if self._most_visits < len(self._table):
            self.remaining[index] = self._table[visits, index[-1]]
        else:
            self.remaining[index] = (self._rewards * self.worth())[index]

    def worth(self, visits: Int[np.ndarray, "*any sites"] | None = None) -> Float[np.ndarray, "*any sites"]:
        """Returns what remains of each site as a fraction, after the visits so far or after the given `visits`."""
        visits = self.memory if visits is None else visits
        return np.broadcast_to(np.asarray(self._worth(visits), float), visits.shape)


class Remembered:
    """Sites that may remember anything, and may change while nobody visits them."""

    waits = True

    def __init__(self, depletion: Depletion, rewards: Float[np.ndarray, " sites"], copies: tuple[int, ...]) -> None:
        depletion, self._rewards, self._shape = _with_numpy(depletion), rewards, (*copies, len(rewards))
        self._initial = depletion.initial
        self._worth, self._visit, self._wait = _numpy_functions(depletion, depletion.initial(self._shape))
        self.begin()

    def begin(self, rows: Rows = ...) -> None:
        """Makes the sites of these copies fresh."""
        fresh = self._initial(self._shape)
        self.memory: Memory = fresh if rows is ... else _choose(rows[..., None], fresh, self.memory)
        self.remaining = self._rewards * self.worth()

    def advance(self, index: Index | None) -> None:
        """Takes a step that visits the sites at an index and waits at all others; None stands for no site."""
        memory = self._wait(self.memory)
        if index is not None:
            visited = np.zeros(self._shape, bool)
            visited[index] = True
            memory = _choose(visited, self._visit(self.memory), memory)
        self.memory = memory
        self.remaining = self._rewards * self.worth()

    def worth(self) -> Float[np.ndarray, "*any sites"]:
        """Returns what remains of each site as a fraction."""
        worth = np.asarray(self._worth(self.memory), float)
        return worth if worth.shape == self._shape else np.broadcast_to(worth, self._shape)


def payments(
    depletion: Depletion, rewards: Float[np.ndarray, " sites"], copies: tuple[int, ...] = ()
) -> Counted | Remembered:
    """Returns fresh sites with these rewards, of one world or of a batch of copies."""
    return (Counted if depletion.counts_visits else Remembered)(depletion, rewards, copies)


def _with_numpy(depletion: Depletion) -> Depletion:
    """Returns the same depletion with its JAX parameters as NumPy arrays."""
    return jax.tree_util.tree_map(lambda leaf: np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf, depletion)


def _numpy_functions(depletion: Depletion, memory: Memory) -> tuple[Callable[..., Any], ...]:
    """Returns `worth`, `visit` and `wait` as functions of NumPy arrays. Those that need JAX are compiled."""
    functions = depletion.worth, depletion.visit, depletion.wait
    try:
        results = [function(memory) for function in functions]
    except (AttributeError, TypeError, ValueError):
        results = None
    native = results is not None and not any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(results))
    return functions if native else tuple(Jitted(function) for function in functions)


def _choose(condition: Bool[np.ndarray, "..."], yes: Memory, no: Memory) -> Memory:
    return jax.tree_util.tree_map(lambda a, b: np.where(condition, a, b), yes, no)
