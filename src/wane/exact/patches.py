"""One resource that is spread over many states: the paper's λ operator (its section 4.1) on sets.

A patch X is visited whenever any of its states is, and all of it wears off. Let K(x, x') be the discounted probability
that the next visit to X after one in x is in x'. A curve f over visit counts pays

    u = Σₙ f(n) Kⁿ 1  on X,        Φ(s, X) = E[ γ^(time of the first visit to X) · u(state of that visit) ].

For the paper's λⁿ this is one system, Φ_λ(·, X) = (I − γDP)⁻¹ 1_X with D = λ on X and 1 elsewhere. It is not additive
over X, as the paper proves: splitting a patch into two that wear off separately is worth more
(`wane.exact.bounds.subadditivity`).

The memory of a patch that grows back is represented by L levels (`wane.exact.levels`), so that (state, level) is a
chain with n · L states. A visit to X moves the level by the matrix V, any other step moves it by W, and

    Φ(·, X) = (I − γ (1_X P ⊗ V + (1 − 1_X) P ⊗ W))⁻¹ (1_X ⊗ worth),        at the level of a fresh patch.

Low levels give a lower bound of Φ, and high levels an upper bound.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse

from wane.checks import check_range, check_whole, is_traced
from wane.depletion import Depletion, Diminishing, FirstVisits, Geometric
from wane.exact.graph import can_reach, recurrent_classes
from wane.exact.levels import Levels, enclosing_levels
from wane.exact.methods import Method
from wane.exact.representations import check_parameters, check_sum_over_sites
from wane.exact.solve import solve
from wane.exact.system import leaving
from wane.kernels import KernelLike, Matrix, Operator, check_operator, require_matrix
from wane.limits import require_memory
from wane.mdp import check_discount, check_sites
from wane.sums import SERIES_BLOCK, SERIES_TOLERANCE, check_bound
from wane.texts import brief
from wane.types import ArrayLike, Integer, Scalar

LONGEST_SUM = 200_000
USUAL_PAIRS = 200_000
"""Pairs of state and level that are made if `grid` is not given: solving for them takes about a second."""


class PatchRepresentation(NamedTuple):
    """Φ(s, X) for some patches."""

    matrix: Float[np.ndarray, "states patches"]
    residual: float
    """the largest relative residual of the linear systems behind it"""
    method: str
    """how these were solved"""
    truncation: float = 0.0
    """a bound on the error from a grid of memories, per unit of r̄; zero for depletions that count visits"""

    __repr__ = brief

    def values(self, rewards: ArrayLike) -> Float[np.ndarray, " states"]:
        """Return V(s) for the first-visit reward r̄ of every patch."""
        pay = np.asarray(rewards, dtype=float)
        check_range("rewards", pay, -np.inf, np.inf, "each is a finite r̄")
        if pay.shape != self.matrix.shape[1:]:
            raise ValueError(
                f"rewards has shape {pay.shape}: give one r̄ for each of the {self.matrix.shape[1]} patches"
            )
        values = self.matrix @ pay
        check_sum_over_sites(self.matrix, pay, pay, values)
        return values


def patch_representation(
    kernel: KernelLike,
    patches: Sequence[ArrayLike],
    depletion: Depletion,
    *,
    discount: Scalar,
    method: str | Method = "auto",
    grid: Integer | None = None,
) -> PatchRepresentation:
    """Return the representation of patches, each a list of states or a mask.

    It is exact for every curve over visit counts. `Geometric` and a discount below 1 need only products with the
    kernel, so it may be a SciPy `LinearOperator`. For a depletion that grows back, `grid` is the number of memories of
    a patch, and the answer's `truncation` is a bound on its error. It is solved with NumPy in 64 bits, also for a JAX
    kernel. Raises a TypeError if JAX traces an argument.
    """
    if is_traced(kernel, discount, *jax.tree_util.tree_leaves(depletion)):
        raise TypeError("patches are solved outside of JAX: call this without jit, grad or vmap")
    given: Any = np.asarray(kernel) if isinstance(kernel, jax.Array) else kernel
    checked, gamma = check_operator(given), float(check_discount(discount))
    if len(patches) == 0:
        raise ValueError("patches is empty: name at least one set of states")
    check_parameters(depletion, len(patches))
    sets = [check_sites(patch, checked.shape[0]) for patch in patches]
    if any(len(states) == 0 for states in sets):
        raise ValueError("a patch without states is never visited: leave it out")
    if depletion.counts_visits:
        indicators = [np.isin(np.arange(checked.shape[0]), states).astype(float) for states in sets]
        found = [solve_column(checked, phi, depletion.at_sites(i), gamma, method) for i, phi in enumerate(indicators)]
        matrix = np.stack([column for column, _, _ in found], axis=1)
        return PatchRepresentation(matrix, max(residual for _, residual, _ in found), found[0][2])
    matrix = require_matrix(checked, f"a patch under {type(depletion).__name__}")
    low, high, residual, how = _growing_patches(matrix, sets, depletion, gamma, method, grid)
    return PatchRepresentation((low + high) / 2, residual, how, float(np.max(np.abs(high - low))) / 2)


Column = tuple[Float[np.ndarray, " states"], float, str]
"""Φ of one patch or feature, the residual, and how it was solved."""


def solve_column(
    kernel: Operator, phi: Float[np.ndarray, " states"], depletion: Any, discount: float, method: str | Method
) -> Column:
    """Return the expected discounted sum of rewards if a step in s counts as a visit with probability φ(s).

    φ is the indicator of a patch, or a feature with values between 0 and 1 (`wane.exact.features`).
    """
    support = np.flatnonzero(phi > 0)
    if len(support) == 0:
        return np.zeros(len(phi)), 0.0, "nothing to solve"
    if depletion.common_ratio is not None:
        return _geometric_column(kernel, phi, float(depletion.common_ratio), discount, method)
    cure = "use Geometric, which needs one column, or fewer states that count"
    require_memory("a patch", (len(phi), "states"), (len(support), "states that count"), copies=5, cure=cure)
    matrix = require_matrix(kernel, f"a sum over visits under {type(depletion).__name__}")
    visits = _first_visits(matrix, phi, support, discount, method)
    next_visit = discount * (matrix[support] @ visits.first)
    escape = _escape(matrix[support], visits.never, visits.reach, discount)
    return visits.first @ _sum_over_visits(next_visit, escape, depletion), visits.residual, visits.method


def _geometric_column(
    kernel: Operator, phi: Float[np.ndarray, " states"], lam: float, discount: float, method: str | Method
) -> Column:
    """Return (I − γDP)⁻¹ φ with D = 1 − (1 − λ) φ on the states that can reach a visit, and zero elsewhere.

    With discount 1 the system of all states may be singular. If also λ = 1, visits in a recurrent class pay for ever,
    and a ValueError is raised.
    """
    scale, leak = (1 - phi) + lam * phi, (1 - discount) + discount * (1 - lam) * phi
    if discount < 1:
        solution = solve(kernel, phi, discount=discount, scale=scale, method=method, leak=leak)
        return solution.x, solution.residual, solution.method
    matrix = require_matrix(kernel, "discount 1")
    if lam == 1 and np.any(recurrent_classes(matrix)[phi > 0] >= 0):
        _refuse_endless_visits(Geometric(lam))
    reach = can_reach(matrix, np.flatnonzero(phi > 0))
    states, column = np.flatnonzero(reach), np.zeros(len(phi))
    rows = matrix[states]
    exits = leaving(rows, reach)
    inside = rows[:, states]
    solution = solve(
        inside, phi[states], discount=1.0, scale=scale[states], method=method, exits=exits, leak=leak[states]
    )
    column[states] = solution.x
    return column, solution.residual, solution.method


class _Visits(NamedTuple):
    """When and where the first visit to a patch is."""

    first: Float[np.ndarray, "states support"]
    """E[γ^time; the first visit is in x] for every state and every x of the support"""
    never: Float[np.ndarray, " states"]
    """1 − Σₓ first(s, x), which no rounding of `first` spoils, in the states that can reach a visit; 0 in others"""
    reach: Bool[np.ndarray, " states"]
    """the states that can reach a visit"""
    residual: float
    method: str


def _first_visits(
    kernel: Matrix,
    phi: Float[np.ndarray, " states"],
    support: Int[np.ndarray, " support"],
    discount: float,
    method: str | Method,
) -> _Visits:
    """Return the first visits.

    For states with φ = 1 the answer is known. Only the other states that can reach a visit are solved for: with
    discount 1 the system of the remaining states is singular.
    """
    visit_now = np.zeros((len(phi), len(support)))
    visit_now[support, np.arange(len(support))] = phi[support]
    first_visit, never = np.where(phi[:, None] == 1, visit_now, 0.0), np.zeros(len(phi))
    reach = can_reach(kernel, support)
    unknown = (phi < 1) & reach
    states = np.flatnonzero(unknown)
    if len(states) == 0:
        return _Visits(first_visit, never, reach, 0.0, "nothing to solve")
    rows, waits = kernel[states], 1 - phi[states]
    later = discount * waits[:, None] * (rows @ first_visit)
    rhs = np.column_stack([visit_now[states] + later, waits * _escape(rows, never, reach, discount)])
    exits, leak = leaving(rows, unknown), (1 - discount) + discount * phi[states]
    solution = solve(rows[:, states], rhs, discount=discount, scale=waits, method=method, exits=exits, leak=leak)
    first_visit[states], never[states] = solution.x[:, :-1], solution.x[:, -1]
    return _Visits(first_visit, never, reach, solution.residual, solution.method)


def _escape(
    rows: Any, never: Float[np.ndarray, " states"], reach: Bool[np.ndarray, " states"], discount: float
) -> Float[np.ndarray, " rows"]:
    """Return 1 − γ E[γ^time of the first visit from the next state on], as a sum in which nothing cancels."""
    return (1 - discount) + discount * (leaving(rows, reach) + np.ravel(rows @ never[:, None]))


def _sum_over_visits(
    next_visit: Float[np.ndarray, "patch patch"], escape: Float[np.ndarray, " patch"], depletion: Diminishing
) -> np.ndarray:
    """Return Σₙ f(n) Kⁿ 1, where `escape` is 1 − K1.

    The sum ends when the rest, at most bound · max Kⁿ1 / min(1 − K1), is negligible.
    """
    least = float(escape.min())
    terms = _number_of_terms(least, depletion)
    if isinstance(depletion, FirstVisits) and terms > 4 * len(next_visit):
        return _first_terms(next_visit, escape, int(depletion.n))
    _check_terms(terms, depletion)
    powers, total = np.ones(len(next_visit)), np.zeros(len(next_visit))
    for start in range(0, terms, SERIES_BLOCK):
        worths = np.asarray(depletion.worth(np.arange(start, min(start + SERIES_BLOCK, terms))), float)
        check_bound(depletion, worths)
        for worth in np.broadcast_to(worths, (min(SERIES_BLOCK, terms - start),)):
            total = total + worth * powers
            powers = next_visit @ powers
        if powers.max() * depletion.bound <= SERIES_TOLERANCE * least:
            break
    return total


def _first_terms(
    next_visit: Float[np.ndarray, "patch patch"], escape: Float[np.ndarray, " patch"], n: int
) -> np.ndarray:
    """Return S_n = Σ_{i<n} Kⁱ 1 by doubling, S_2m = S_m + Kᵐ S_m, from the highest bit of n to the lowest.

    Rounding errors in Kᵐ would double each time. So its rows are scaled to their sums 1 − e_m, where the probability
    e_m of having left after m visits is summed as e_2m = e_m + Kᵐ e_m, in which nothing cancels.
    """
    size = len(next_visit)
    ones = np.ones(size)
    power, total, left = np.eye(size), np.zeros(size), np.zeros(size)
    for bit in bin(n)[2:]:
        total, left, power = total + power @ total, left + power @ left, power @ power
        if bit == "1":
            total, left, power = ones + next_visit @ total, escape + next_visit @ left, next_visit @ power
        sums = power.sum(1)
        power *= np.divide(np.maximum(1 - left, 0.0), sums, out=np.zeros(size), where=sums > 0)[:, None]
    return total


def _number_of_terms(escape: float, depletion: Diminishing) -> int:
    """Return the number of terms that matter in the sum over visits. Raises a ValueError if it is infinite."""
    paying = depletion.paying_visits
    if paying == math.inf and escape == 0:
        _refuse_endless_visits(depletion)
    if escape >= 1:
        return 1
    negligible = SERIES_TOLERANCE * escape / max(depletion.bound, SERIES_TOLERANCE)
    counting = math.log(negligible) / math.log1p(-escape) if escape > 0 else math.inf
    return math.ceil(min(paying, counting))


def _check_terms(terms: int, depletion: Diminishing) -> None:
    if terms > LONGEST_SUM:
        raise ValueError(
            f"summing {type(depletion).__name__} over the visits to a patch would take {terms:.1e} terms: discount "
            "more, or use Geometric or FirstVisits"
        )


def _refuse_endless_visits(depletion: Diminishing) -> NoReturn:
    raise ValueError(
        f"the patch is certain to be visited again and again, and the sum of what {depletion!r} pays there has no "
        "closed form or is infinite: discount, or use Geometric (λ < 1), FirstVisits or a Listed without tail"
    )


def _growing_patches(
    kernel: Matrix,
    patches: Sequence[Int[np.ndarray, " _patch"]],
    depletion: Depletion,
    discount: float,
    method: str | Method,
    grid: Integer | None,
) -> tuple[Float[np.ndarray, "states patches"], Float[np.ndarray, "states patches"], float, str]:
    """Return a lower and an upper bound of Φ, the largest residual, and how it was solved."""
    checked: Any = sparse.csr_array(kernel if sparse.issparse(kernel) else np.asarray(kernel))
    usual = min(max(USUAL_PAIRS // checked.shape[0], 16), 2048)
    size = usual if grid is None else check_whole("grid", grid, least=4)
    sites = [depletion.at_sites(i) for i in range(len(patches))]
    found = [_growing_patch(checked, *each, discount, method, size) for each in zip(patches, sites, strict=True)]
    low, high = (np.stack([columns[side] for columns, _, _ in found], axis=1) for side in (0, 1))
    return low, high, max(residual for _, residual, _ in found), found[0][2]


def _growing_patch(
    kernel: Any, states: Int[np.ndarray, " _patch"], depletion: Any, discount: float, method: str | Method, size: int
) -> tuple[tuple[np.ndarray, np.ndarray], float, str]:
    """Return a lower and an upper bound of Φ(·, X), the residual, and how it was solved."""
    # With discount 1 the system of states that never reach the patch is singular.
    reach = np.flatnonzero(can_reach(kernel, states))
    kernel_within, inside = kernel[reach][:, reach], np.isin(reach, states)
    factors = (kernel_within.nnz, "transitions"), (size, "memories")
    require_memory("a patch that grows back", *factors, copies=6, cure="give a smaller `grid`")
    low, high = enclosing_levels(depletion, size, None, fixed_policy=True)
    columns, solutions = [], []
    for levels in (low,) if low is high else (low, high):
        pays = np.kron(inside, levels.worth)
        solutions.append(solve(_moves(kernel_within, inside, levels), pays, discount=discount, method=method))
        columns.append(np.zeros(kernel.shape[0]))
        columns[-1][reach] = solutions[-1].x.reshape(len(reach), -1)[:, levels.fresh]
    how = f"{solutions[0].method}, {len(low.worth)} memories"
    return (columns[0], columns[-1]), max(each.residual for each in solutions), how


def _moves(kernel: Any, inside: Bool[np.ndarray, " states"], levels: Levels) -> Any:
    """Return the kernel over (state, level)."""
    own, n = np.arange(len(levels.worth)), len(levels.worth)
    chances = np.concatenate([1 - levels.chance, levels.chance])
    visit = sparse.csr_array((chances, (np.tile(own, 2), np.concatenate([levels.visit, levels.visit_else]))), (n, n))
    wait = sparse.csr_array((np.ones(n), (own, levels.wait)), (n, n))
    on, off = (sparse.diags_array(mask.astype(float)) @ kernel for mask in (inside, ~inside))
    moves = sparse.csr_array(sparse.kron(on, visit) + sparse.kron(off, wait))
    moves.eliminate_zeros()
    return moves
