"""The states of a kernel that have been explored, the sparse matrices between them, and the sites among them.

States get a place in the order in which they are explored, and a number in the order in which they were first seen. A
state is found by its key: itself if it is a whole number, and otherwise its row as bytes, which sort like the row.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from wane.exact.representations import check_parameters
from wane.function_kernel import FunctionKernel, call, shown

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
    entries: Numbers | None
    """The places of states that may be entered from a state that is not explored. None: it is not known."""


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
        known = self.kernel.predecessors is not None
        return Blocks(inside, leaving, np.unique(self.entering()[0]) if known else None)

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


class ListedSites:
    """Sites that are named: a dictionary from sites to r̄."""

    beyond = 0.0

    def __init__(self, rewards: Mapping[Any, float], depletion: Any, starts: Any) -> None:
        check_parameters(depletion, max(len(rewards), 1))
        ratio = np.broadcast_to(np.nan if depletion.common_ratio is None else depletion.common_ratio, len(rewards))
        self.names, self.states, pay, self.owner = list(rewards), [], [], []
        for i, (name, r) in enumerate(rewards.items()):
            if not np.isfinite(float(r)):
                raise ValueError(f"rewards must be finite numbers, but that of site {name} is {r}")
            patch = np.asarray(sorted(name) if isinstance(name, frozenset | set) else [name])
            if len(patch) == 0 or patch.shape[1:] != starts.shape[1:] or patch.dtype.kind not in "iu":
                one = "a whole number" if starts.ndim == 1 else f"a tuple of {starts.shape[1]} whole numbers"
                raise ValueError(f"site {name!r} is no state and no set of states: here a state is {one}")
            # What never wears off adds up over the states of a patch.
            parts = list(patch[:, None]) if ratio[i] == 1 else [patch]
            self.states += [part.astype(np.int64) for part in parts]
            self.owner += [i] * len(parts)
            pay += [float(r)] * len(parts)
        self.rewards, self.depletion = (
            np.array(pay),
            depletion.at_sites(np.array(self.owner, int)) if pay else depletion,
        )

    def first(self, starts: Any) -> Any:
        """Return the states that must be explored."""
        return np.concatenate([starts, *self.states])

    def found(self, explored: Explored) -> tuple[list[Any], Float[np.ndarray, " sites"]]:
        """Return the places of the states of each site, and what it pays."""
        return [explored.place[explored.number(states)] for states in self.states], self.rewards

    def unreached(self, never: Any) -> tuple[Any, ...]:
        """Return the names of the sites of which no part was reached."""
        reached = {owner for owner, missing in zip(self.owner, never, strict=True) if not missing}
        return tuple(name for i, name in enumerate(self.names) if i not in reached)


class FunctionSites:
    """Sites that a function of states knows. They are found while states are explored."""

    def __init__(self, rewards: Callable[[Any], Any], depletion: Any, largest: Any) -> None:
        if largest is None or not np.isfinite(float(largest)) or float(largest) < 0:
            raise ValueError("rewards given as a function need `largest_reward`, a bound of |r̄| that holds everywhere")
        if any(np.shape(value)[-1] > 1 for value in depletion.per_site().values()):
            raise ValueError("rewards given as a function need a depletion with one parameter for all sites")
        self.function, self.depletion, self.largest = rewards, depletion.at_sites(0), float(largest)
        self.beyond = self.largest * depletion.bound
        """What one visit pays at most."""
        self._rewards = np.zeros(0)

    def first(self, starts: Any) -> Any:
        """Return the states that must be explored."""
        return starts

    def found(self, explored: Explored) -> tuple[list[Any], Float[np.ndarray, " sites"]]:
        """Return the place of each site among the explored states, and what it pays."""
        states = explored.states[explored.order[len(self._rewards) :]]
        new = np.asarray(call("rewards", self.function, states), float) if len(states) else np.zeros(0)
        if new.shape != (len(states),):
            raise ValueError(f"rewards returned shape {new.shape} for {len(states)} states: return one r̄ for each")
        wrong = ~(np.abs(new) <= self.largest)
        if wrong.any():
            raise ValueError(
                f"state {shown(states[wrong][0])} pays {new[wrong][0]:g}, which is not within largest_reward, "
                f"{self.largest:g}"
            )
        self._rewards = np.concatenate([self._rewards, new])
        places = np.flatnonzero(self._rewards)
        return list(places[:, None]), self._rewards[places]

    def unreached(self, never: Any) -> tuple[Any, ...]:
        """Return nothing: a function names no sites."""
        return ()


def find_payers(rewards: Any, depletion: Any, largest: Any, starts: Any) -> ListedSites | FunctionSites:
    """Return the sites of a dictionary or of a function. Raises an error that names what is wrong."""
    if isinstance(rewards, Mapping):
        return ListedSites(rewards, depletion, starts)
    if not callable(rewards):
        name = type(rewards).__name__
        raise TypeError(f"rewards are a dictionary from sites to r̄, or a function of states, got the type {name}")
    return FunctionSites(rewards, depletion, largest)
