"""Kernels that are functions: a world is known where somebody asks, and nowhere else.

A kernel as a matrix has a row for each state, so 10¹² states fit nowhere. A `FunctionKernel` holds a function instead,

    successors(states) → next_states, probabilities,

which takes n states at once and returns, for each, up to k states that may follow and how likely each of them is:
arrays (n, k). Unused places have probability 0. A state is a whole number, or a row of whole numbers (then `states` has
shape (n, m) and `next_states` (n, k, m)). If the probabilities of a state are all 0, the episode ends there.

    >>> walk = FunctionKernel(lambda s: (np.stack([s - 1, s + 1], axis=1), np.full((len(s), 2), 0.5)))   # on all of ℤ
    >>> walk.rows(np.array([10**12]))
    (array([[ 999999999999, 1000000000001]]), array([[0.5, 0.5]]))

`predecessors(states)`, if you have it, returns the states from which each state can be entered, as an array (n, k): all
of them, and it may name more. Unused places repeat the state itself. Bounds become much tighter with it, because
whatever leaves the explored states can come back only through those that have a predecessor outside.

Every row is checked when it is asked for, and an error names the state. `wane.evaluate_local` explores such kernels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from wane.kernels import check_kernel, tolerance_of
from wane.mdp import MDP

States = Int[np.ndarray, "n"] | Int[np.ndarray, "n numbers"]
"""Some states: whole numbers, or rows of whole numbers."""
Policy = Any
"""A function of states that returns an action for each, or a probability for each and every action; an array with one
such entry for each state number; or "uniform"."""
_ROUNDED = 1e-14


@dataclass(frozen=True)
class FunctionKernel:
    """A kernel given as a function of states, under a policy. `FunctionKernel.of` makes one from other things."""

    successors: Callable[[Any], Any]
    """The states that may follow some states, and their probabilities."""
    predecessors: Callable[[Any], Any] | None = None
    """All states from which some states can be entered, or more."""
    may_end: bool = False
    """Whether probabilities may sum to less than 1. The rest is the chance that the episode ends."""

    def rows(self, states: States) -> tuple[Any, Float[np.ndarray, "n k"]]:
        """Return the next states (n, k) and their probabilities. Raises a ValueError that names a bad state."""
        found = call("successors", self.successors, states)
        if not isinstance(found, tuple) or len(found) != 2:
            raise ValueError(f"successors must return a pair (next_states, probabilities), got {type(found).__name__}")
        likely = _as_table("probabilities of successors", np.asarray(found[1]), states, "fiub")
        chances = likely.astype(np.float64)
        after = _as_table("next states of successors", np.asarray(found[0]), states, "iu", states.shape[1:])
        if after.shape[:2] != chances.shape:
            raise ValueError(
                f"successors returned {after.shape[1]} next states and {chances.shape[1]} probabilities for each state"
            )
        return after.astype(np.int64, copy=False), _checked_rows(
            chances, states, tolerance_of(likely.dtype), self.may_end
        )

    def before(self, states: States) -> Any:
        """Return the states (n, k) from which each state may be entered. Only with `predecessors`."""
        assert self.predecessors is not None
        found = np.asarray(call("predecessors", self.predecessors, states))
        return _as_table("predecessors", found, states, "iu", states.shape[1:]).astype(np.int64, copy=False)

    @classmethod
    def of(cls, source: Any, policy: Policy = None) -> "FunctionKernel":
        """Return the kernel of anything that has transition probabilities, under a policy where it has actions.

        `source` is a function (see `FunctionKernel`), whatever has `rows` (`wane.kernels.Rows`), a kernel as a matrix,
        a `FunctionMDP`, an `MDP`, a world, or a Gymnasium environment that publishes `P`. A world on a map is read cell
        by cell, and no matrix is built. Raises a TypeError for a simulator: transitions that were counted are not
        exact, and bounds from them prove nothing.
        """
        if isinstance(source, cls):
            return source
        if hasattr(source, "unwrapped"):
            source = _tabular(source)
        if hasattr(source, "function_kernel"):
            return source.function_kernel(_required(policy))
        if hasattr(source, "tables") and hasattr(source, "slip"):
            source = _on_a_map(source)
        elif isinstance(getattr(source, "mdp", None), MDP):
            source = source.mdp
        if isinstance(source, FunctionMDP):
            return source.under(policy)
        if isinstance(source, MDP):
            chosen = np.full((source.n_states, source.n_actions), 1 / source.n_actions) if _uniform(policy) else policy
            if callable(chosen):
                chosen = chosen(np.arange(source.n_states))
            return _of_matrix(source.under(_required(chosen)))
        if callable(source):
            return cls(source)
        if callable(getattr(source, "rows", None)):
            return cls(source.rows, may_end=True)
        if hasattr(source, "step") or hasattr(source, "reset"):
            raise TypeError(
                f"{type(source).__name__} can be played but publishes no transition probabilities, and counted "
                "transitions are estimates, from which no bound can be proven: give a function `successors`"
            )
        return _of_matrix(source)

    @classmethod
    def from_jax(
        cls, successors: Callable[[Any], Any], predecessors: Callable[[Any], Any] | None = None
    ) -> "FunctionKernel":
        """Return the kernel of functions in JAX, written for one state: `vmap` and `jit` are applied to them here.

        Batches are filled up to a power of two, so that few programs are compiled. Without 64 bits (`jax_enable_x64`),
        states must be below 2³¹: give a state as a row of numbers.
        """
        return cls(_batched(successors), None if predecessors is None else _batched(predecessors))


class FunctionMDP:
    """An MDP given as functions: one `successors` for each action, as `FunctionKernel` describes it.

    >>> left, right = (lambda s, d=d: ((s + d)[:, None], np.ones((len(s), 1))) for d in (-1, 1))
    >>> FunctionMDP([left, right]).under("uniform").rows(np.array([7]))
    (array([[6, 8]]), array([[0.5, 0.5]]))
    """

    def __init__(
        self, actions: Sequence[Callable[[Any], Any]], predecessors: Callable[[Any], Any] | None = None
    ) -> None:
        if not actions or not all(callable(action) for action in actions):
            raise TypeError("an MDP of functions needs one function `successors` for each action")
        self.actions = tuple(FunctionKernel(action) for action in actions)
        self.predecessors = predecessors
        """The states from which each state can be entered, by any action."""

    @property
    def n_actions(self) -> int:
        """The number of actions."""
        return len(self.actions)

    def under(self, policy: Policy) -> FunctionKernel:
        """Return the kernel under a policy: a function of states, an array over state numbers, or "uniform"."""
        chosen = _required(policy)

        def successors(states: Any) -> Any:
            weights = action_weights(chosen, states, self.n_actions)
            rows = [action.rows(states) for action in self.actions]
            likely = [weights[:, [a]] * chances for a, (_, chances) in enumerate(rows)]
            return np.concatenate([after for after, _ in rows], axis=1), np.concatenate(likely, axis=1)

        return FunctionKernel(successors, self.predecessors, may_end=True)


def shown(state: Any) -> Any:
    """Return a state as it is written in an error: a number or a tuple."""
    return int(state) if np.ndim(state) == 0 else tuple(int(number) for number in state)


def call(name: str, function: Callable[[Any], Any], states: States) -> Any:
    """Return what a user's function returns. If it raises, the states are halved until one of them is to blame."""
    try:
        return function(states)
    except Exception as error:
        while len(states) > 1:
            half = states[: len(states) // 2]
            try:
                function(half)
                states = states[len(half) :]
            except Exception:
                states = half
        raise ValueError(f"{name} raised {type(error).__name__} at state {shown(states[0])}: {error}") from error


def _as_table(what: str, array: np.ndarray, states: States, kinds: str, rest: tuple[int, ...] = ()) -> np.ndarray:
    """Return an array (n, k, *rest). Raises a ValueError or a TypeError if it has another shape or type."""
    n = len(states)
    if array.ndim != 2 + len(rest) or array.shape[:1] != (n,) or array.shape[2:] != rest:
        wanted = ", ".join(map(str, (n, "k", *rest)))
        raise ValueError(
            f"the {what} have shape {array.shape} for {n} states, the first of which is {shown(states[0])}: "
            f"return one row for each state, ({wanted})"
        )
    if array.dtype.kind not in kinds:
        raise TypeError(
            f"the {what} have type {array.dtype}: {'whole' if kinds == 'iu' else 'real'} numbers are needed"
        )
    return array


def _checked_rows(
    chances: Float[np.ndarray, "n k"], states: States, tolerance: float, may_end: bool = False
) -> Float[np.ndarray, "n k"]:
    """Return probabilities whose sums are 1 or 0: within the tolerance, rows are divided by their sums."""
    wrong = ~np.all(chances >= 0, axis=1)
    if wrong.any():
        worst = chances[wrong][0]
        raise ValueError(
            f"state {shown(states[wrong][0])} has a successor of probability {worst[~(worst >= 0)][0]:g}: "
            "probabilities lie in [0, 1]"
        )
    sums = chances.sum(1)
    near = np.abs(sums - 1) <= tolerance
    wrong = ~(near | (sums == 0) | (may_end & (sums < 1)))
    if wrong.any():
        raise ValueError(
            f"the probabilities of state {shown(states[wrong][0])} sum to {sums[wrong][0]:.6g}: they must sum to 1, or "
            "be all 0 if the episode ends there"
        )
    off = near & (np.abs(sums - 1) > _ROUNDED)
    return np.where(off[:, None], chances / np.where(off, sums, 1.0)[:, None], chances) if off.any() else chances


def _uniform(policy: Any) -> bool:
    return isinstance(policy, str) and policy == "uniform"


def _required(policy: Any) -> Any:
    if policy is None or (isinstance(policy, str) and not _uniform(policy)):
        raise TypeError('a policy is needed: a function of states, an array over state numbers, or "uniform"')
    return policy


def action_weights(policy: Any, states: States, n_actions: int) -> Float[np.ndarray, "n actions"]:
    """Return π(a|s) for some states."""
    if _uniform(policy):
        return np.full((len(states), n_actions), 1 / n_actions)
    chosen = np.asarray(call("the policy", policy, states) if callable(policy) else np.asarray(policy)[states])
    if chosen.shape == (len(states),) and chosen.dtype.kind in "iu":
        wrong = (chosen < 0) | (chosen >= n_actions)
        if wrong.any():
            raise ValueError(
                f"the policy takes action {chosen[wrong][0]} in state {shown(states[wrong][0])}: "
                f"actions are 0 to {n_actions - 1}"
            )
        return np.eye(n_actions)[chosen]
    weights = _as_table("probabilities of the policy", chosen, states, "fiub").astype(np.float64)
    if weights.shape[1] != n_actions or np.any(weights.sum(1) == 0):
        raise ValueError(f"the policy must give {n_actions} probabilities that sum to 1 in each state")
    return _checked_rows(weights, states, tolerance_of(chosen.dtype))


def _of_matrix(kernel: Any) -> FunctionKernel:
    """Return a matrix as functions of its rows and columns."""
    from scipy import sparse

    checked: Any = sparse.csr_array(check_kernel(np.asarray(kernel) if isinstance(kernel, jax.Array) else kernel))
    entering: Any = sparse.csr_array(checked.T)

    def entries(matrix: Any, states: Any) -> tuple[Any, Any, Any]:
        outside = (states < 0) | (states >= matrix.shape[0])
        if outside.any():
            raise ValueError(f"there is no state {states[outside][0]}: states are 0 to {matrix.shape[0] - 1}")
        first, counts = matrix.indptr[states], np.diff(matrix.indptr)[states]
        place = np.arange(counts.max(initial=1))
        used = place < counts[:, None]
        return matrix.indices, np.where(used, first[:, None] + place, 0), used

    def successors(states: Any) -> Any:
        if not checked.nnz:
            return states[:, None], np.zeros((len(states), 1))
        indices, place, used = entries(checked, states)
        return indices[place], np.where(used, checked.data[place], 0.0)

    def predecessors(states: Any) -> Any:
        if not checked.nnz:
            return states[:, None]
        indices, place, used = entries(entering, states)
        return np.where(used, indices[place], states[:, None])

    return FunctionKernel(successors, predecessors)


def _tabular(env: Any) -> MDP:
    if not hasattr(env.unwrapped, "P"):
        raise TypeError(
            f"{type(env.unwrapped).__name__} publishes no table `P` of its transitions, and counted transitions are "
            "estimates, from which no bound can be proven: give a function `successors`"
        )
    return MDP(env)


def _on_a_map(world: Any) -> FunctionMDP:
    """Return a world on a map as functions: the tables of the map are read where they are needed."""
    tables, slip = world.tables, float(world.slip)
    slots = np.arange(tables.neighbours.shape[1])

    def moving(action: int) -> Callable[[Any], Any]:
        def successors(states: Any) -> Any:
            aim, count = tables.next_states[states, action][:, None], tables.n_neighbours[states][:, None]
            if slip == 0:
                return aim, np.ones((len(states), 1))
            stray = np.where(slots < count, slip / count, 0.0)
            return np.hstack([aim, tables.neighbours[states]]), np.hstack([np.full((len(states), 1), 1 - slip), stray])

        return successors

    def predecessors(states: Any) -> Any:
        return np.hstack([states[:, None], tables.neighbours[states]])

    return FunctionMDP([moving(action) for action in range(world.n_actions)], predecessors)


def _batched(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of one state in JAX as a function of many in NumPy, compiled once for each power of two."""
    compiled = jax.jit(jax.vmap(function))

    def call(states: Any) -> Any:
        most = np.iinfo(np.int64 if jax.config.read("jax_enable_x64") else np.int32).max
        if np.abs(states).max(initial=0) > most:
            raise ValueError("a state is beyond 2³¹: give states as rows of numbers, or switch on jax_enable_x64")
        filled = np.concatenate([states, np.repeat(states[:1], (1 << (len(states) - 1).bit_length()) - len(states), 0)])
        return jax.tree_util.tree_map(lambda leaf: np.asarray(leaf)[: len(states)], compiled(filled))

    return call
