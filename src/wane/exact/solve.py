"""Solve (I − γ · diag(scale) · P) X = B for a Markov kernel P, and measure how well it was solved.

The choice of the method depends only on the matrix: each candidate of `wane.exact.methods` predicts its time, and the
fastest is tried first. NumPy kernels and small ones are always solved by dense LU, narrow bands by banded LU.

If γ · scale is within 1e-5 of 1, small and dense chains are solved by elimination without subtractions, which loses no
digits. The other methods lose digits in proportion to ‖A⁻¹‖. This norm is then measured, and an answer whose error may
exceed 1e-7 is refused.

A prediction can be wrong, so Krylov has a budget of iterations, and a direct method takes over when it is spent. Large
sparse factorisations are done in float32, which halves their memory, and refined to float64. With every method, the
residual is measured on the original system in float64.
"""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from scipy.sparse import csgraph
from scipy.sparse.linalg import LinearOperator

from wane.exact.methods import BandedLU, DenseLU, Elimination, Krylov, Method, Solution, SparseLU
from wane.exact.system import ACCEPTED_ERROR, InaccurateSolve, System
from wane.kernels import Operator, require_matrix

__all__ = ["BandedLU", "DenseLU", "Elimination", "InaccurateSolve", "Krylov", "Method", "Solution", "SparseLU", "solve"]

ACCEPTED_RESIDUAL = 1e-10
SMALL = 256  # Up to this many states a dense factorisation costs less than looking at the graph.
_QUICK = 2048  # Up to this many states elimination takes a second at most.
_NAMED: dict[str, Method] = {
    "dense": DenseLU(),
    "banded": BandedLU(),
    "sparse": SparseLU(),
    "krylov": Krylov(),
    "elimination": Elimination(),
}


def solve(
    kernel: Operator,
    rhs: Float[np.ndarray, " states *columns"] | None,
    *,
    discount: float,
    scale: Float[np.ndarray, " states"] | None = None,
    method: str | Method = "auto",
    exits: Float[np.ndarray, " states"] | None = None,
    leak: float | Float[np.ndarray, " states"] | None = None,
) -> Solution:
    """Solve (I − discount · diag(scale) · kernel) x = rhs. `rhs` has one or two axes; None stands for the identity.

    `exits` is 1 minus the sum of each row of the kernel, and `leak` is 1 − discount · scale. Pass them if you know them
    more precisely than the other arguments give them. The `residual` of the solution is the largest value of
    ‖b − A x‖∞ / ((1 + γ)‖x‖∞ + ‖b‖∞) over the columns. If dense LU has solved more than 64 columns, it is an upper
    bound from random signs instead (`wane.exact.system.probed_residual`). Raises InaccurateSolve if the residual
    exceeds 1e-10, if A is singular, or if γ · scale is so near to 1 that the relative error of x may exceed 1e-7.
    """
    system = System(kernel, discount, scale, exits, leak)
    if system.largest_weight >= 1.0:
        _refuse_closed_classes(system)
    right = None if rhs is None else np.asarray(rhs, np.float64).reshape(system.size, -1)
    failures: list[str] = []
    for candidate in _candidates(system, system.size if right is None else right.shape[1], method):
        try:
            solution = _solve_and_bound(candidate, system, right)
        except InaccurateSolve as error:
            failures.append(str(error))
            continue
        if solution.residual <= ACCEPTED_RESIDUAL:
            x = solution.x[:, 0] if rhs is not None and rhs.ndim == 1 else solution.x
            return Solution(x, solution.residual, "; after ".join([solution.method, *failures[::-1]]))
        failures.append(f"{solution.method}, residual {solution.residual:.1e}")
    raise InaccurateSolve(
        f"I − γ·diag(scale)·P was not solved to a residual of {ACCEPTED_RESIDUAL:.0e}: {'; then '.join(failures)}. "
        "Try another method (Elimination() copes best with bad conditioning, Krylov(max_iterations=...) with large "
        "chains that mix well) or a smaller discount."
    )


def _solve_and_bound(method: Method, system: System, rhs: Any) -> Solution:
    """Return the solution. Raises InaccurateSolve if rounding may have spoilt it, which is checked only near γ = 1.

    Rounding is amplified by ‖A⁻¹‖∞, the largest entry of A⁻¹ 1. If rhs is the identity, A⁻¹ 1 is the sum of the columns
    of the solution; otherwise it is solved for as one more column.
    """
    if isinstance(method, Elimination) or not system.is_near_one:
        return method.solve(system, rhs)
    if rhs is None:
        solution = method.solve(system, None)
        steps = float(np.abs(solution.x).sum(1).max())
    else:
        solution = method.solve(system, np.hstack([rhs, np.ones((system.size, 1))]))
        steps = float(np.abs(solution.x[:, -1]).max())
        solution = replace(solution, x=solution.x[:, :-1])
    if not np.finfo(float).eps * system.norm * steps <= ACCEPTED_ERROR:
        raise InaccurateSolve(
            f"{solution.method}: the chain goes on for {steps:.1e} discounted steps, so that the rounding of the "
            "kernel's entries decides the answer"
        )
    return solution


def _refuse_closed_classes(system: System) -> None:
    """Raise InaccurateSolve if some states never lose weight: then A is singular, though LU's residual looks fine."""
    if system.excess.min() < 0.0:
        return
    edges = sp.coo_array(require_matrix(system.kernel, "a system with discount 1"))
    count, label = csgraph.connected_components(sp.csr_array(edges), connection="strong")
    leaks = np.zeros(count, bool)
    leaks[label[system.excess > 0.0]] = True
    start, end = label[edges.coords[0]], label[edges.coords[1]]
    leaks[start[(start != end) & (edges.data > 0)]] = True
    if not leaks.all():
        members = np.flatnonzero(label == np.flatnonzero(~leaks)[0])
        raise InaccurateSolve(
            f"I − γ·diag(scale)·P is singular: {members.size} state(s), {members[0]} among them, form a closed class "
            "on which discount·scale is 1. Use a discount below 1, or make their rows zero if an episode ends there."
        )


def _candidates(system: System, columns: int, method: str | Method) -> list[Method]:
    """Return the methods to try, one after the other."""
    if isinstance(system.kernel, LinearOperator):
        return [_matrix_free(system, method)]
    if not isinstance(method, str):
        return [method]
    if method in _NAMED:
        return [_NAMED[method]]
    if method != "auto":
        raise ValueError(f"method {method!r} is unknown: use 'auto' or one of {', '.join(map(repr, _NAMED))}")
    if system.is_near_one:
        return _candidates_near_one(system, columns)
    return _usual_candidates(system, columns)


def _matrix_free(system: System, method: str | Method) -> Krylov:
    """Return the one method that only multiplies vectors. Raises a TypeError if another one was asked for."""
    if method in ("auto", "krylov"):
        return Krylov(max_iterations=20 * int(Krylov.expected_iterations(system)) + 1000)
    if not isinstance(method, Krylov):
        require_matrix(system.kernel, f"the method {method!r}")
    return cast(Krylov, method)


def _candidates_near_one(system: System, columns: int) -> list[Method]:
    """Return elimination for small and dense chains; for others, the usual methods first and then elimination."""
    quick = system.size <= (SMALL if sp.issparse(system.kernel) else _QUICK)
    if not Elimination().applies(system, columns):
        return _usual_candidates(system, columns)
    return [Elimination()] if quick else [*_usual_candidates(system, columns), Elimination()]


def _usual_candidates(system: System, columns: int) -> list[Method]:
    if not sp.issparse(system.kernel) or system.size <= SMALL:
        return [DenseLU()]
    if BandedLU().applies(system, columns):
        return [BandedLU(), SparseLU()]
    return _cheapest_first(system, columns)


def _cheapest_first(system: System, columns: int) -> list[Method]:
    """Return the direct methods that apply, cheapest first, after Krylov if that is predicted to be cheaper still.

    Sorting keeps the order of equal costs, so float32 factors are tried before float64 ones.
    """
    direct = [each for each in (SparseLU(single=True), SparseLU(), DenseLU()) if each.applies(system, columns)]
    direct.sort(key=lambda each: each.cost(system, columns))
    iterations = int(Krylov.expected_iterations(system))
    if not direct:
        return [Krylov(max_iterations=20 * iterations + 1000)]
    if Krylov().cost(system, columns) < direct[0].cost(system, columns):
        return [Krylov(max_iterations=3 * iterations), *direct]
    return list(direct)
