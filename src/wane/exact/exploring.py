"""The states of a kernel that have been explored, and the sparse matrices between them.

States get a place in the order in which they are explored, and a number in the order in which they were first seen. A
state is found by its key: itself if it is a whole number, and otherwise its row as bytes, which sort like the row.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse

from wane.function_kernel import FunctionKernel, shown

Numbers = Int[np.ndarray, " _states"]


def keys_of(states: Any) -> np.ndarray:
    """Return a key for each state, by which states can be sorted and compared."""
    if states.ndim == 1:
        return states
    sortable = (np.ascontiguousarray(states).view(np.uint64) ^ np.uint64(1 << 63)).astype(">u8")
    return np.ascontiguousarray(sortable).view(f"V{8 * states.shape[1]}").ravel()


class Blocks(NamedTuple):
    """The explored part of a kernel."""

    inside: Any
    """P between explored states, CSR."""
    leaving: Any
    """P from explored states (rows) to states that were seen only (columns, by number), CSR."""
    entries: Bool[np.ndarray, " explored"]
    """Whether a state may be entered from a state that is not explored."""


class Explored:
    """The states of a kernel that have been explored so far (`size` of them), and those that they lead to."""

    def __init__(self, kernel: FunctionKernel, first: Any) -> None:
        self.kernel = kernel
        self.states = first[:0]
        """Every state that was seen, by number."""
        self.place = np.zeros(0, np.int64)
        """The place of every state that was seen, −1 if it is not explored."""
        self.order = np.zeros(0, np.int64)
        """The numbers of the explored states, by place."""
        self._sorted, self._numbers = keys_of(first[:0]), np.zeros(0, np.int64)
        self._edges: list[tuple[Numbers, Numbers, Float[np.ndarray, " _edges"]]] = []
        self._entering: list[tuple[Numbers, Numbers]] = []

    @property
    def size(self) -> int:
        """The number of explored states."""
        return len(self.order)

    @property
    def seen(self) -> int:
        """The number of states that were seen, explored or not."""
        return len(self.place)

    def number(self, states: Any) -> Numbers:
        """Return the number of each state. States that were never seen get new ones."""
        keys, first, inverse = np.unique(keys_of(states), return_index=True, return_inverse=True)
        at = np.searchsorted(self._sorted, keys)
        known = np.zeros(len(keys), bool)
        within = at < len(self._sorted)
        known[within] = self._sorted[at[within]] == keys[within]
        numbers = np.empty(len(keys), np.int64)
        numbers[known] = self._numbers[at[known]]
        new = np.flatnonzero(~known)
        numbers[new] = self.seen + np.arange(len(new))
        self.states = np.concatenate([self.states, states[first[new]]])
        self.place = np.concatenate([self.place, np.full(len(new), -1)])
        self._sorted = np.insert(self._sorted, at[new], keys[new])
        self._numbers = np.insert(self._numbers, at[new], numbers[new])
        return numbers[inverse.ravel()]

    def explore(self, numbers: Numbers) -> None:
        """Ask the kernel for the rows of some states that are not explored yet."""
        states = self.states[numbers]
        after, chances = self.kernel.rows(states)
        used = chances > 0
        place = self.size + np.arange(len(numbers))
        rows = np.broadcast_to(place[:, None], used.shape)[used]
        self.place[numbers] = place
        self.order = np.concatenate([self.order, numbers])
        self._edges.append((rows, self.number(after[used]), chances[used]))
        if self.kernel.predecessors is not None:
            before = self.kernel.before(states)
            sources = self.number(before.reshape(-1, *states.shape[1:]))
            self._entering.append((np.repeat(place, before.shape[1]), sources))

    def edges(self, from_place: int = 0) -> tuple[Numbers, Numbers, Float[np.ndarray, " _edges"]]:
        """Return the place, the number of the next state, and the probability of all steps from some place on."""
        late = [edges for edges in self._edges if not len(edges[0]) or edges[0][0] >= from_place]
        if not late:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        rows, after, chances = (np.concatenate(part) for part in zip(*late, strict=True))
        return rows, after, chances

    def blocks(self) -> Blocks:
        """Return the explored part of the kernel as sparse matrices."""
        rows, after, chances = self.edges()
        column, n = self.place[after], self.size
        inner = column >= 0
        inside = sparse.csr_array((chances[inner], (rows[inner], column[inner])), shape=(n, n))
        leaving = sparse.csr_array((chances[~inner], (rows[~inner], after[~inner])), shape=(n, self.seen))
        entries = np.ones(n, bool)
        if self.kernel.predecessors is not None:
            entries = np.zeros(n, bool)
            entered, sources = (np.concatenate(part) for part in zip(*self._entering, strict=True))
            entries[entered[self.place[sources] < 0]] = True
        return Blocks(inside, leaving, entries)

    def entering(self) -> tuple[Numbers, Numbers]:
        """Return pairs of a place and the number of a state that may enter it and is not explored."""
        entered, sources = (np.concatenate(part) for part in zip(*self._entering, strict=True))
        outside = self.place[sources] < 0
        return entered[outside], sources[outside]

    def check_predecessors(self) -> None:
        """Raise a ValueError if a step was found that `predecessors` does not know."""
        if self.kernel.predecessors is None:
            return
        rows, after, _ = self.edges()
        column = self.place[after]
        entered, sources = (np.concatenate(part) for part in zip(*self._entering, strict=True))
        taken = self.order[rows[column >= 0]] * self.size + column[column >= 0]
        missing = ~np.isin(taken, sources * self.size + entered)
        if missing.any():
            source, place = divmod(int(taken[missing][0]), self.size)
            one, other = shown(self.states[source]), shown(self.states[self.order[place]])
            raise ValueError(f"state {one} leads to state {other}, but predecessors of {other} does not name it")
