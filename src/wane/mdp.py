"""Kernels and policies, checked at the door.

An `MDP` is p(s'|s,a) and nothing else: rewards, sites and depletions come later. Under a policy it becomes a kernel

    P(s, s') = Σₐ π(a|s) p(s'|s, a),

which is what everything in `wane.exact` takes. A row of a kernel sums to one, or it is all zero: then the episode
ends in that state. Sparse input stays sparse.

    >>> walk = MDP(np.array([[0, 1], [0, 2], [1, 2]]))      # next state of (state, action): left and right on a line
    >>> walk.under([1, 1, 0]).toarray()                     # a policy by its actions
    array([[0., 1., 0.],
           [0., 0., 1.],
           [0., 1., 0.]])
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse
from scipy.linalg import blas as _blas

from wane.depletion import is_traced

EXACTLY = partial(jax.default_matmul_precision, "highest")
"""for products of probabilities in JAX, whose default on some GPUs rounds factors to ten bits"""
blas: Any = _blas  # its routines are made at import, unseen by type checkers
ROW_TOLERANCE = 1e-8
"""how far a row may sum from one; JAX kernels in single precision get 1e-5"""


class MDP:
    """Transitions of a finite MDP, from any of

    - a dense array (states, actions, states), NumPy or JAX;
    - a sequence of sparse (states, states) matrices, one for each action;
    - an integer table (states, actions) of next states, for deterministic worlds;
    - a Gymnasium environment that publishes `P`, as the toy-text ones do. A state that is entered by an ending
      transition ends the episode: its row is zero.
    """

    def __init__(self, transitions: Any):
        if hasattr(transitions, "unwrapped"):
            transitions = _from_gymnasium(transitions)
        if isinstance(transitions, np.ndarray | jax.Array) and transitions.ndim == 2:
            transitions = _from_table(np.asarray(transitions))
        if isinstance(transitions, np.ndarray | jax.Array):
            self._dense, self._sparse = _check_dense(transitions), []
            self.n_states, self.n_actions = self._dense.shape[:2]
        else:
            self._dense, self._sparse = None, _check_sparse_actions(transitions)
            self.n_states, self.n_actions = _shape(self._sparse[0])[0], len(self._sparse)

    def __repr__(self) -> str:
        kind = "dense" if self._dense is not None else "sparse"
        return f"MDP({self.n_states} states, {self.n_actions} actions, {kind})"

    def action(self, a: int) -> Any:
        """The kernel of always taking action `a`."""
        return self._dense[:, a] if self._dense is not None else self._sparse[a]

    def under(self, policy: Any) -> Any:
        """The kernel under a policy: an action for each state, or a probability for each state and action."""
        policy = check_policy(policy, self.n_states, self.n_actions)
        if self._dense is not None:
            if policy.ndim == 1:
                return self._dense[np.arange(self.n_states), policy]
            xp = jnp if isinstance(policy, jax.Array) else np
            with EXACTLY():
                return xp.einsum("sa,sat->st", policy, self._dense)
        weights = policy if policy.ndim == 2 else np.eye(self.n_actions)[policy]
        parts = (sparse.diags_array(np.asarray(weights)[:, a]) @ p for a, p in enumerate(self._sparse))
        kernel = sparse.csr_array(sum(parts, start=sparse.csr_array((self.n_states, self.n_states))))
        kernel.eliminate_zeros()
        return kernel

    def backup(self, values: Any) -> Any:
        """E[values(s₁) | s, a] for values of shape (states, …): an array (states, actions, …)."""
        if self._dense is not None:
            xp = jnp if isinstance(values, jax.Array) or isinstance(self._dense, jax.Array) else np
            with EXACTLY():
                return xp.tensordot(self._dense, values, axes=(2, 0))
        flat = np.asarray(values).reshape(self.n_states, -1)
        stacked = np.stack([p @ flat for p in self._sparse], axis=1)
        return stacked.reshape(self.n_states, self.n_actions, *np.shape(values)[1:])

    def backup_at(self, states: np.ndarray, columns: Any) -> Any:
        """E[columns(s₁, i) | states[i], a] for columns of shape (states, k): an array (k, actions)."""
        if self._dense is not None:
            xp = jnp if isinstance(columns, jax.Array) or isinstance(self._dense, jax.Array) else np
            with EXACTLY():
                return xp.einsum("iat,ti->ia", self._dense[states], columns)
        columns = np.asarray(columns).T
        return np.stack([np.asarray(p[states].multiply(columns).sum(1)).ravel() for p in self._sparse], axis=1)


def check_kernel(kernel: Any) -> Any:
    """A kernel ready for use: a float64 array, a CSR array, or a JAX array. The first bad row is named."""
    if isinstance(kernel, jax.Array):
        _check_square(kernel.shape)
        if not is_traced(kernel):
            _check_rows(np.asarray(kernel, np.float64), tolerance=_tolerance(kernel.dtype))
        return kernel
    if isinstance(kernel, MDP):
        raise TypeError("an MDP needs a policy to be a kernel: pass mdp.under(policy)")
    tidy = kernel if sparse.issparse(kernel) else np.asarray(kernel)
    if tidy.dtype.kind not in "fiub":
        raise TypeError(f"a kernel holds real numbers, this one has dtype {tidy.dtype}")
    _check_square(tidy.shape)
    if sparse.issparse(kernel):
        return _check_rows(sparse.csr_array(kernel, dtype=np.float64), tolerance=_tolerance(tidy.dtype))
    return _check_rows(np.ascontiguousarray(tidy, dtype=np.float64), tolerance=_tolerance(tidy.dtype))


def check_discount(discount: Any) -> Any:
    """γ, known to lie in [0, 1] unless JAX is tracing it."""
    if (type(discount) is float and 0 <= discount <= 1) or is_traced(discount):
        return discount
    if np.ndim(discount) != 0 or not 0 <= float(discount) <= 1:
        raise ValueError(f"discount must be one number in [0, 1], got {discount}: it is the γ of Σ γᵗ rₜ")
    return discount if isinstance(discount, jax.Array) else float(discount)


def check_sites(sites: Any, n_states: int) -> np.ndarray:
    """Sites as an array of distinct state numbers; None is all states, and a boolean mask is understood."""
    if sites is None:
        return np.arange(n_states)
    sites = np.atleast_1d(np.asarray(sites))
    if sites.dtype == bool:
        if sites.shape != (n_states,):
            raise ValueError(
                f"a mask of sites has one entry for each of the {n_states} states, got shape {sites.shape}"
            )
        return np.flatnonzero(sites)
    if sites.size == 0:
        return np.zeros(0, int)
    if sites.ndim != 1 or sites.dtype.kind not in "iu":
        raise ValueError(f"sites are state numbers (a list of integers), got {sites.dtype} of shape {sites.shape}")
    outside = (sites < 0) | (sites >= n_states)
    if outside.any():
        raise ValueError(f"unknown site {sites[outside][0]}: states are numbered 0 to {n_states - 1}")
    if len(np.unique(sites)) < len(sites):
        raise ValueError(f"site {_first_repeated(sites)} is listed twice: name each site once")
    return sites


def check_policy(policy: Any, n_states: int, n_actions: int) -> Any:
    """A policy as integer actions (states,) or probabilities (states, actions)."""
    policy = policy if isinstance(policy, jax.Array) else np.asarray(policy)
    if policy.shape == (n_states,) and jnp.issubdtype(policy.dtype, jnp.integer):
        outside = np.flatnonzero((policy < 0) | (policy >= n_actions)) if not is_traced(policy) else []
        if len(outside):
            s = outside[0]
            raise ValueError(f"the policy takes action {policy[s]} in state {s}: actions are 0 to {n_actions - 1}")
        return policy
    if policy.shape == (n_states, n_actions):
        if not is_traced(policy):
            sound = np.asarray(policy, dtype=np.float64)
            sound = _check_rows(sound, "policy", may_end=False, tolerance=_tolerance(policy.dtype))
            return policy if isinstance(policy, jax.Array) else sound
        return policy
    raise ValueError(
        f"a policy is an integer action for each of {n_states} states, or probabilities of shape "
        f"({n_states}, {n_actions}); got {policy.dtype} of shape {policy.shape}"
    )


def _shape(matrix: Any) -> tuple[int, ...]:
    """The shape of a sparse matrix, which SciPy's annotations leave open."""
    return matrix.shape


def _check_square(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise ValueError(f"a kernel is a square matrix (states, states) with at least one state, got shape {shape}")


def _tolerance(dtype: Any) -> float:
    return 1e-5 if dtype.kind == "f" and dtype.itemsize < 8 else ROW_TOLERANCE


def _check_rows(matrix: Any, what: str = "kernel", may_end: bool = True, tolerance: float = ROW_TOLERANCE) -> Any:
    """Rows are probabilities: finite, not negative, summing to one (or, where an episode may end, all zero).

    Rows that are off by more than rounding, but within the tolerance, are scaled: near discount 1 it matters.
    """
    entries = matrix.data if sparse.issparse(matrix) else matrix
    sums = _row_sums(matrix)
    off = sums - 1
    negative = entries.size and not entries.min() >= 0
    if not negative and off.dot(off) <= 1e-28 * len(off):
        return matrix
    if negative or not entries.max(initial=0.0) <= 1 + tolerance:
        bad = np.argwhere(~((entries >= 0) & (entries <= 1 + tolerance)))[0]
        if sparse.issparse(matrix):
            row = int(np.searchsorted(matrix.indptr, bad[0], side="right")) - 1
            column, value = int(matrix.indices[bad[0]]), entries[bad[0]]
        else:
            (row, column), value = map(int, bad), entries[tuple(bad)]
        raise ValueError(f"{what} row {row}, column {column} is {value:g}: probabilities lie in [0, 1]")
    wrong = np.abs(off) > tolerance
    if may_end and wrong.any():
        wrong &= sums != 0
    if wrong.any():
        row = int(np.argmax(wrong))
        ends = ", or be all zero if the episode ends there" if may_end else ""
        raise ValueError(
            f"{what} row {row} sums to {sums[row]:.6g}, off by {sums[row] - 1:+.2g}"
            f"{_others(wrong)}: rows must sum to 1{ends}"
        )
    scale = np.where(sums == 0, 1.0, sums)
    return (
        sparse.csr_array(sparse.diags_array(1 / scale) @ matrix) if sparse.issparse(matrix) else matrix / scale[:, None]
    )


def _row_sums(matrix: Any) -> np.ndarray:
    if isinstance(matrix, np.ndarray) and matrix.dtype == np.float64 and matrix.flags.c_contiguous:
        # Faster than a sum over an axis.
        return blas.dgemv(1.0, matrix.T, np.ones(matrix.shape[1]), trans=1)
    return np.asarray(matrix.sum(axis=1, dtype=np.float64)).ravel()


def _others(wrong: np.ndarray) -> str:
    count = int(wrong.sum()) - 1
    return f" (and {count} more such row{'s' if count > 1 else ''})" if count else ""


def _first_repeated(sites: np.ndarray) -> int:
    values, counts = np.unique(sites, return_counts=True)
    return int(values[counts > 1][0])


def _check_dense(transitions: Any) -> Any:
    shape = transitions.shape
    if transitions.ndim != 3 or shape[0] != shape[2] or min(shape) == 0:
        raise ValueError(f"dense transitions have shape (states, actions, states), got {shape}")
    if isinstance(transitions, jax.Array):
        if not is_traced(transitions):
            _check_action_rows(np.asarray(transitions))
        return transitions
    return _check_action_rows(transitions)


def _check_action_rows(transitions: np.ndarray) -> np.ndarray:
    """A copy, checked, that nobody else can change."""
    checked = np.array(transitions, dtype=np.float64, order="C")
    for a in range(transitions.shape[1]):
        checked[:, a] = _check_rows(checked[:, a], f"action {a}:", tolerance=_tolerance(transitions.dtype))
    return checked


def _check_sparse_actions(matrices: Iterable[Any]) -> list[sparse.csr_array]:
    matrices = list(matrices)
    if not matrices or not all(sparse.issparse(p) for p in matrices):
        raise TypeError(
            "transitions are a dense (states, actions, states) array, a list of one sparse (states, states) "
            "matrix for each "
            "action, an integer table (states, actions) of next states, or a Gymnasium environment with `P`"
        )
    checked = [sparse.csr_array(p, dtype=np.float64) for p in matrices]
    for a, p in enumerate(checked):
        _check_square(_shape(p))
        if p.shape != checked[0].shape:
            raise ValueError(f"action {a} has shape {p.shape}, action 0 {checked[0].shape}: all must agree")
        checked[a] = _check_rows(p, f"action {a}:", tolerance=_tolerance(matrices[a].dtype))
    return checked


def _from_table(table: np.ndarray) -> list[sparse.csr_array]:
    n, n_actions = table.shape
    if table.dtype.kind not in "iu":
        raise ValueError(f"a table (states, actions) of next states holds integers, got {table.dtype}")
    outside = np.argwhere((table < 0) | (table >= n))
    if len(outside):
        s, a = outside[0]
        raise ValueError(f"state {s}, action {a} leads to state {table[s, a]}: states are numbered 0 to {n - 1}")
    rows = np.arange(n + 1)
    return [sparse.csr_array((np.ones(n), table[:, a], rows), shape=(n, n)) for a in range(n_actions)]


def _from_gymnasium(env: Any) -> list[sparse.csr_array]:
    """Transitions of a toy-text environment. States that an ending transition enters get zero rows."""
    table = getattr(env.unwrapped, "P", None)
    if table is None:
        raise TypeError(
            f"{env} does not publish its transitions as `P`: only toy-text environments (FrozenLake, Taxi, "
            "CliffWalking) do"
        )
    entries = np.array(
        [(s, a, t, p, end) for s, acts in table.items() for a, outs in acts.items() for p, t, _, end in outs]
    )
    s, a, t = entries[:, :3].astype(int).T
    probability, ends = entries[:, 3], entries[:, 4].astype(bool)
    n, n_actions = int(max(s.max(), t.max())) + 1, int(a.max()) + 1
    last = np.zeros(n, bool)
    last[t[ends]] = True
    goes_on = ~last[s]
    both = last[t] & ~ends & goes_on & _reached(env, s[goes_on], t[goes_on], n)[s]
    if both.any():
        raise ValueError(f"state {t[both][0]} is entered both by ending and by other transitions: give it two numbers")
    probability = np.where(last[s], 0.0, probability)
    kernels = []
    for action in range(n_actions):
        mine = a == action
        kernel = sparse.csr_array((probability[mine], (s[mine], t[mine])), shape=(n, n))
        kernel.sum_duplicates()
        kernel.eliminate_zeros()
        kernels.append(kernel)
    return kernels


def _reached(env: Any, s: np.ndarray, t: np.ndarray, n: int) -> np.ndarray:
    """Which states an episode can come to: Taxi numbers many that none can."""
    reached = np.asarray(getattr(env.unwrapped, "initial_state_distrib", np.ones(n))) > 0
    while True:
        after = reached.copy()
        after[t[reached[s]]] = True
        if np.array_equal(after, reached):
            return reached
        reached = after
