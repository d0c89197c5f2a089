"""MDPs, policies and sites, checked when they enter the package.

An `MDP` holds p(s'|s, a) and nothing else: rewards, sites and depletions come later. Under a policy it becomes a kernel
(`wane.kernels`)

    P(s, s') = Σₐ π(a|s) p(s'|s, a),

which is what everything in `wane.exact` takes. Sparse input stays sparse.

    >>> walk = MDP(np.array([[0, 1], [0, 2], [1, 2]]))      # next state of (state, action): left and right on a line
    >>> walk.under([1, 1, 0]).toarray()                     # a policy by its actions
    array([[0., 1., 0.],
           [0., 0., 1.],
           [0., 1., 0.]])
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse

from wane.checks import as_floats, ensure, is_traced
from wane.kernels import Matrix, canonical, check_rows, check_square, ensure_rows, reachable, tolerance_of
from wane.limits import require_memory
from wane.types import AnyArray, ArrayLike, Integer, Scalar

Policy = Int[AnyArray, " states"] | Float[AnyArray, "states actions"]
"""A policy that has been checked: an action for each state, or a probability for each state and action."""
Sites = Int[np.ndarray, " sites"] | tuple[frozenset[int], ...]
"""Sites that have been checked: a state for each or, if the reward of any is spread over several, a set for each."""


class MDP:
    """The transitions of a finite MDP. They are given as one of

    - a dense array (states, actions, states), NumPy or JAX;
    - a sequence of sparse (states, states) matrices, one for each action;
    - an integer table (states, actions) of next states, for deterministic worlds;
    - a Gymnasium environment that publishes `P`, as the toy-text ones do. A state that an ending transition enters ends
      the episode: its row is zero.

    If some actions are not available everywhere, `available` is a mask (states, actions). Policies must not take the
    others, and the optimum does not. What a dense array holds for the other pairs is ignored.
    """

    def __init__(self, transitions: Any, available: ArrayLike | None = None) -> None:
        if hasattr(transitions, "unwrapped"):
            transitions = _from_gymnasium(transitions)
        if isinstance(transitions, np.ndarray | jax.Array) and transitions.ndim == 2:
            transitions = _from_table(np.asarray(transitions))
        if isinstance(transitions, np.ndarray | jax.Array):
            if available is not None and np.shape(available) == transitions.shape[:2]:
                transitions = (jnp if isinstance(transitions, jax.Array) else np).where(
                    np.asarray(available)[:, :, None], transitions, 0.0
                )
            self._dense, self._sparse = _check_dense(transitions), []
            self.n_states, self.n_actions = self._dense.shape[:2]
        else:
            self._dense, self._sparse = None, _check_sparse_actions(transitions)
            self.n_states, self.n_actions = self._sparse[0].shape[0], len(self._sparse)
        self.available = None if available is None else _check_available(available, self.n_states, self.n_actions)
        """Which actions can be taken (states, actions), or None if all can."""

    @classmethod
    def from_pairs(cls, states: ArrayLike, actions: ArrayLike, transitions: Any) -> "MDP":
        """Return the MDP of a list of pairs: row i of `transitions` is p(·|states[i], actions[i]), dense or sparse.

        Only the listed pairs are available. QuantEcon's `DiscreteDP(R, Q, beta, s_indices, a_indices)` takes the same.

            >>> MDP.from_pairs([0, 0, 1], [0, 1, 1], np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])).available
            array([[ True,  True],
                   [False,  True]])
        """
        s, a = np.asarray(states), np.asarray(actions)
        rows: Any = sparse.csr_array(transitions)
        if s.ndim != 1 or s.shape != a.shape or {s.dtype.kind, a.dtype.kind} - set("iu") or rows.shape[:1] != s.shape:
            raise ValueError(
                f"give one state, one action and one row of transitions for each pair: states has shape {s.shape}, "
                f"actions {a.shape}, transitions {rows.shape}, and states and actions are whole numbers"
            )
        n, n_actions = rows.shape[1], int(a.max(initial=-1)) + 1
        outside = (s < 0) | (s >= n) | (a < 0)
        if outside.any():
            i = int(np.argmax(outside))
            raise ValueError(f"pair {i} is state {s[i]}, action {a[i]}: states are 0 to {n - 1}, actions count from 0")
        available = np.zeros((n, n_actions), bool)
        available[s, a] = True
        if available.sum() < len(s):
            pairs, counts = np.unique(s * n_actions + a, return_counts=True)
            twice = int(pairs[np.argmax(counts)])
            raise ValueError(f"state {twice // n_actions}, action {twice % n_actions} is listed twice: list it once")
        chosen = [
            sparse.csr_array((np.ones(np.sum(a == k)), (s[a == k], np.flatnonzero(a == k))), (n, len(s)))
            for k in range(n_actions)
        ]
        return cls([pick @ rows for pick in chosen], available)

    def __repr__(self) -> str:
        kind = "dense" if self._dense is not None else "sparse"
        some = "" if self.available is None else f", {int(self.available.sum())} pairs available"
        return f"MDP({self.n_states} states, {self.n_actions} actions, {kind}{some})"

    @cached_property
    def _stacked(self) -> Any:
        """The sparse transitions as one CSR array: row s · actions + a is p(·|s, a). One product serves all actions."""
        by_action: Any = sparse.vstack(self._sparse, format="csr")
        order = np.arange(self.n_states)[:, None] + self.n_states * np.arange(self.n_actions)
        stacked = by_action[order.ravel()]
        stacked.sum_duplicates()
        return stacked

    def dense(self) -> Float[AnyArray, "states actions states"]:
        """Return p(s'|s, a) as one array. Raises a ValueError if it would take too much memory."""
        if self._dense is not None:
            return self._dense
        sizes = (self.n_states, "states"), (self.n_actions, "actions"), (self.n_states, "states")
        require_memory("the table of transitions", *sizes, cure="use the kernel of one action, mdp.action(a)")
        return self._stacked.toarray().reshape(self.n_states, self.n_actions, self.n_states)

    def action(self, a: Integer) -> Matrix:
        """Return the kernel of always taking action `a`. Raises a ValueError if there is no such action."""
        if not is_traced(a) and not 0 <= a < self.n_actions:
            raise ValueError(f"there is no action {a}: actions are numbered 0 to {self.n_actions - 1}")
        return self._dense[:, a] if self._dense is not None else self._sparse[int(a)]

    def under(self, policy: ArrayLike) -> Matrix:
        """Return the kernel under a policy: an action for each state, or a probability for each state and action."""
        checked: Any = check_policy(policy, self.n_states, self.n_actions)
        states = np.arange(self.n_states)
        self._require_available(checked)
        if self._dense is not None:
            if is_traced(checked) and checked.ndim == 1:
                return jnp.asarray(self._dense).at[states, checked].get(mode="fill")  # NaN for an unknown action
            if checked.ndim == 1:
                return self._dense[states, checked]
            if isinstance(checked, jax.Array) or isinstance(self._dense, jax.Array):
                return jnp.einsum("sa,sat->st", checked, self._dense, precision="highest")
            return np.einsum("sa,sat->st", checked, self._dense)
        checked = np.asarray(checked)
        if checked.ndim == 1:
            kernel = self._stacked[states * self.n_actions + checked]
        else:
            size = checked.size
            starts = np.arange(0, size + 1, self.n_actions)
            weights = sparse.csr_array((checked.ravel(), np.arange(size), starts), shape=(self.n_states, size))
            kernel = sparse.csr_array(weights @ self._stacked)
            kernel.sort_indices()
        kernel.eliminate_zeros()
        return kernel

    def _require_available(self, policy: Policy) -> None:
        """Raise a ValueError if a policy takes an action where it is not available."""
        if self.available is None or is_traced(policy):
            return
        taken = np.asarray(probabilities(policy, self.n_actions)) > 0
        if (wrong := taken & ~self.available).any():
            state, action = (int(i) for i in np.argwhere(wrong)[0])
            able = ", ".join(map(str, np.flatnonzero(self.available[state])))
            raise ValueError(f"the policy takes action {action} in state {state}, where only {able} can be taken")

    def backup(self, values: Float[AnyArray, " states *rest"]) -> Float[AnyArray, "states actions *rest"]:
        """Return E[values(s₁) | s, a] for each state and action."""
        if self._dense is not None:
            if isinstance(values, jax.Array) or isinstance(self._dense, jax.Array):
                return jnp.tensordot(self._dense, values, axes=(2, 0), precision="highest")
            self._require_backup(values.size // self.n_states)
            return np.tensordot(self._dense, values, axes=(2, 0))
        flat = np.asarray(values).reshape(self.n_states, -1)
        self._require_backup(flat.shape[1])
        return (self._stacked @ flat).reshape(self.n_states, self.n_actions, *np.shape(values)[1:])

    def _require_backup(self, columns: int) -> None:
        sizes = (self.n_states, "states"), (self.n_actions, "actions"), (columns, "sites")
        require_memory("the state–action table", *sizes, copies=2, cure="name fewer `sites`, or ask for q_values")

    def backup_at(
        self, states: Int[np.ndarray, " sites"], columns: Float[AnyArray, "states sites"]
    ) -> Float[AnyArray, "sites actions"]:
        """Return E[columns(s₁, i) | states[i], a] for each i and action: one state for each column."""
        if self._dense is not None:
            if isinstance(columns, jax.Array) or isinstance(self._dense, jax.Array):
                return jnp.einsum("iat,ti->ia", self._dense[states], columns, precision="highest")
            return np.einsum("iat,ti->ia", self._dense[states], columns)
        rows = self._stacked[(states[:, None] * self.n_actions + np.arange(self.n_actions)).ravel()]
        row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        terms = rows.data * np.asarray(columns)[rows.indices, row // self.n_actions]
        return np.bincount(row, terms, minlength=rows.shape[0]).reshape(len(states), self.n_actions)


def check_discount(discount: Scalar) -> Any:
    """Return γ. Raises a ValueError if it lies outside [0, 1].

    While JAX traces γ, it is checked at run time (`wane.checks.ensure`).
    """
    if type(discount) is float and 0 <= discount <= 1:
        return discount
    if is_traced(discount):
        return ensure(discount, lambda g: (g >= 0) & (g <= 1), "discount must lie in [0, 1]: it is the γ of Σ γᵗ rₜ")
    if np.ndim(discount) != 0 or not 0 <= as_floats("discount", discount) <= 1:
        raise ValueError(f"discount must be one number in [0, 1], got {discount}: it is the γ of Σ γᵗ rₜ")
    return discount if isinstance(discount, jax.Array) else float(discount)


def check_sites(sites: ArrayLike | None, n_states: Integer) -> Int[np.ndarray, " sites"]:
    """Return the sites as an array of distinct state numbers.

    None stands for all states, and a boolean mask over the states is accepted. Raises a ValueError that names the
    site that is unknown or listed twice.
    """
    if sites is None:
        return np.arange(int(n_states))
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
    values, counts = np.unique(sites, return_counts=True)
    if len(values) < len(sites):
        raise ValueError(f"site {values[counts > 1][0]} is listed twice: name each site once")
    return sites


def check_patches(sites: Any, n_states: Integer) -> tuple[Int[np.ndarray, " _states"], ...]:
    """Return the states of each site. A site is a state number or, if its reward is spread over several, a set of them.

    Without a set, everything that `check_sites` takes is accepted. Raises a ValueError that names what is wrong.
    """
    if not (isinstance(sites, list | tuple) and any(isinstance(site, set | frozenset) for site in sites)):
        return tuple(check_sites(sites, n_states)[:, None])
    patches = []
    for number, site in enumerate(sites):
        patches.append(check_sites(sorted(site) if isinstance(site, set | frozenset) else [site], n_states))
        if len(patches[-1]) == 0:
            raise ValueError(f"site {number} is an empty set, which is never visited: leave it out")
    states, counts = np.unique(np.concatenate(patches), return_counts=True)
    if np.any(counts > 1):
        raise ValueError(f"state {states[counts > 1][0]} belongs to two sites: name each state once")
    return tuple(patches)


def kept_sites(patches: Sequence[Int[np.ndarray, " _states"]]) -> Sites:
    """Return sites as `check_patches` takes them back: state numbers or, if any has several, sets of them."""
    if all(len(states) == 1 for states in patches):
        return np.array([int(states[0]) for states in patches], int)
    return tuple(frozenset(states.tolist()) for states in patches)


def check_policy(policy: ArrayLike, n_states: Integer, n_actions: Integer) -> Policy:
    """Return a policy as integer actions (states,) or as probabilities (states, actions).

    Raises a ValueError that names the first state whose action or probabilities are wrong.
    """
    given: Any = policy if isinstance(policy, jax.Array) else np.asarray(policy)
    if given.shape == (n_states,) and jnp.issubdtype(given.dtype, jnp.integer):
        outside = np.flatnonzero((given < 0) | (given >= n_actions)) if not is_traced(given) else []
        if len(outside):
            s = outside[0]
            raise ValueError(f"the policy takes action {given[s]} in state {s}: actions are 0 to {n_actions - 1}")
        message = f"the policy takes an unknown action: actions are 0 to {n_actions - 1}"
        return ensure(given, lambda a: (a >= 0) & (a < n_actions), message)
    if given.shape == (n_states, n_actions):
        if is_traced(given):
            return ensure_rows(given, "policy", may_end=False)
        checked = np.asarray(given, dtype=np.float64)
        checked = check_rows(checked, "policy", may_end=False, tolerance=tolerance_of(given.dtype))
        return given if isinstance(given, jax.Array) else checked
    raise ValueError(
        f"a policy is an integer action for each of {n_states} states, or probabilities of shape "
        f"({n_states}, {n_actions}); got {given.dtype} of shape {given.shape}"
    )


def probabilities(policy: Policy, n_actions: Integer) -> Float[AnyArray, "states actions"]:
    """Return π(a|s) of a policy that `check_policy` has returned."""
    return policy if policy.ndim == 2 else np.eye(int(n_actions))[policy]


def _check_available(available: ArrayLike, n_states: int, n_actions: int) -> Bool[np.ndarray, "states actions"]:
    mask = np.array(available)
    if mask.shape != (n_states, n_actions) or mask.dtype != bool:
        raise ValueError(
            f"available is a mask of booleans (states, actions), here ({n_states}, {n_actions}), got {mask.dtype} of "
            f"shape {mask.shape}"
        )
    if not mask.any(1).all():
        state = int(np.argmin(mask.any(1)))
        raise ValueError(f"no action is available in state {state}: where an episode ends, make one whose row is zero")
    return mask


def _check_dense(transitions: AnyArray) -> Any:
    shape = transitions.shape
    if transitions.ndim != 3 or shape[0] != shape[2] or min(shape) == 0:
        raise ValueError(f"dense transitions have shape (states, actions, states), got {shape}")
    if isinstance(transitions, jax.Array):
        if not is_traced(transitions):
            _check_action_rows(np.asarray(transitions))
        return ensure_rows(transitions, "table of transitions")
    return _check_action_rows(transitions)


def _check_action_rows(transitions: np.ndarray) -> Float[np.ndarray, "states actions states"]:
    """Return a checked copy, which the caller cannot change later."""
    checked = np.array(transitions, dtype=np.float64, order="C")
    for a in range(transitions.shape[1]):
        checked[:, a] = check_rows(checked[:, a], f"action {a}:", tolerance=tolerance_of(transitions.dtype))
    return checked


def _check_sparse_actions(given: Any) -> list[Any]:
    matrices = list(given) if isinstance(given, Iterable) and not sparse.issparse(given) else []
    if not matrices or not all(sparse.issparse(p) for p in matrices):
        own = ", which has an MDP: pass its mdp" if isinstance(getattr(given, "mdp", None), MDP) else ""
        wrapped = ": pass np.array(…) of it" if isinstance(given, list | tuple) and matrices else ""
        raise TypeError(
            "transitions are a dense (states, actions, states) array, a list with one sparse (states, states) matrix "
            "for each action, an integer table (states, actions) of next states, or a Gymnasium environment with `P`; "
            f"got the type {type(given).__name__}{own}{wrapped}"
        )
    checked = [canonical(p) for p in matrices]
    for a, p in enumerate(checked):
        check_square(p.shape)
        if p.shape != checked[0].shape:
            raise ValueError(f"action {a} has shape {p.shape}, action 0 {checked[0].shape}: all must agree")
        checked[a] = check_rows(p, f"action {a}:", tolerance=tolerance_of(matrices[a].dtype))
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
    """Return the transitions of a toy-text environment. States that an ending transition enters get zero rows."""
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
    final = np.zeros(n, bool)
    final[t[ends]] = True
    goes_on = ~final[s]
    # Taxi numbers many states that no episode can reach; their transitions must not count as contradictions.
    starts = np.flatnonzero(np.asarray(getattr(env.unwrapped, "initial_state_distrib", np.ones(n))) > 0)
    edges = sparse.csr_array((np.ones(int(goes_on.sum())), (s[goes_on], t[goes_on])), shape=(n, n))
    both = final[t] & ~ends & goes_on & reachable(edges, starts)[s]
    if both.any():
        raise ValueError(f"state {t[both][0]} is entered both by ending and by other transitions: give it two numbers")
    probability = np.where(final[s], 0.0, probability)
    kernels = []
    for action in range(n_actions):
        mine = a == action
        kernel = sparse.csr_array((probability[mine], (s[mine], t[mine])), shape=(n, n))
        kernel.sum_duplicates()
        kernel.eliminate_zeros()
        kernels.append(kernel)
    return kernels
