"""Solve (I − γ·diag(scale)·P) X = B for a Markov kernel P, and measure how well it was solved.

The method is chosen from the matrix alone, by predicting seconds for each candidate and taking the least:

- Dense LU costs n²(n + 2k).  It is always used for a NumPy kernel and for a small one.
- Banded LU is used, without looking further, for a sparse kernel that is a narrow band as it stands.
- Sparse LU is priced from the wavefront of the reverse Cuthill–McKee ordering of P + Pᵀ: the widest front w
  that cannot be avoided by cutting the chain at a bottleneck stands for the top separator of a
  minimum-degree factorisation, whose work is then about w³ plus n·log w; the number of independent cycles
  bounds w for trees.  Very well connected states make minimum degree slow, quadratically in their degree.
- Krylov (conjugate gradients on a symmetric P, otherwise BiCGSTAB) needs about √(2/gap) iterations per factor
  e² of accuracy.  The gap is 1 − γ plus what the chain's own mixing adds, of order 1/D² when D fronts lie
  between its two ends, so that random graphs (D of a few) are cheap at any γ and long chains are not.

An estimate can be wrong, so Krylov runs on a budget of iterations and a direct method takes over when it is
spent.  Large sparse factorisations are done in float32, which halves their memory, and refined to float64.
Whatever was done, the residual is measured on the original system in float64.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas as _blas
from scipy.linalg import lapack as _lapack
from scipy.sparse import csgraph
from scipy.sparse.linalg import splu

from wane.exact.graph import graph_shape
from wane.exact.krylov import bicgstab, conjugate_gradients, largest

blas: Any = _blas  # made at import, unseen by type checkers
lapack: Any = _lapack
Array = np.ndarray
Kernel = Any  # a float64 NumPy (n, n) array or a scipy CSR array

ACCEPTED_RESIDUAL = 1e-10
_SMALL = 256  # up to here a dense factorisation costs less than looking at the graph
_SINGLE_FROM = 200_000  # float32 factors pay a little at 10⁶ states; where that starts is a guess
_DENSE_LIMIT = 12_000  # 1.2 GB of matrix
_FILL_LIMIT = 5e8  # entries of a sparse factor, 4 to 6 GB of them
_REFINE_ABOVE = 1e-14
_LEAK = 1e-12  # a row sum this close to 1 is 1, rounded
_NARROW = 32  # diagonals; measured to pay for a tridiagonal band, the limit is a guess
_PROBES = 16
_ENORMOUS = 4e12  # rounding is then an error of 1e-3
_SINGULAR = "the matrix is singular to working precision (x exceeds b 10¹⁴ times)"


class InaccurateSolve(ArithmeticError):
    """The system is singular, or no method reached the accepted residual."""


@dataclass(frozen=True)
class DenseLU:
    """LAPACK's LU with partial pivoting; a sparse kernel is expanded."""


@dataclass(frozen=True)
class BandedLU:
    """LAPACK's banded LU in the order the states have: the quickest for walks along a line."""


@dataclass(frozen=True)
class SparseLU:
    """SuperLU with a symmetric minimum-degree ordering and diagonal pivots.

    Diagonal pivots are stable because γ < 1 makes the matrix diagonally dominant.  `single` factorises in
    float32 and refines in float64: less memory and time, unless γ is so near 1 that float32 cannot tell.
    """

    single: bool = False


@dataclass(frozen=True)
class Krylov:
    """Batched conjugate gradients (symmetric kernel, no scale) or BiCGSTAB, with Jacobi scaling."""

    tolerance: float = 1e-14
    max_iterations: int = 10_000


Method = DenseLU | BandedLU | SparseLU | Krylov
_NAMED: dict[str, Method] = {
    "dense": DenseLU(),
    "banded": BandedLU(),
    "sparse": SparseLU(),
    "krylov": Krylov(),
}


@dataclass(frozen=True)
class Solution:
    """`x`, its relative residual (the worst column's, see `solve`) and what was done to get it."""

    x: Array
    residual: float
    method: str


def product(matrix: Kernel, x: Array) -> Array:
    """matrix @ x; with SciPy's BLAS, whose threads LAPACK has awake, where NumPy's own would compete."""
    return matrix @ x if sp.issparse(matrix) else blas.dgemm(1.0, matrix.T, x, trans_a=1)


class _System:
    """A = I − diag(weight)·P, formed only if a method asks for it; weight is γ·scale, a number or (n, 1)."""

    def __init__(self, kernel: Kernel, discount: float, scale: Array | None):
        self.kernel = kernel
        self.size: int = kernel.shape[0]
        self.weight = discount if scale is None else discount * np.asarray(scale, np.float64)[:, None]
        self.largest_weight = discount if scale is None else float(np.max(self.weight))
        # ‖I‖ + ‖diag(weight)·P‖, not ‖A‖: near γ = 1 the two cancel, and x − γPx cannot be told more exactly than that.
        self.norm = 1.0 + (discount if scale is None else float(self.row_sums.max()))

    @cached_property
    def loops(self) -> Array:
        return np.ravel(self.weight) * self.kernel.diagonal()

    @cached_property
    def row_sums(self) -> Array:
        return np.ravel(self.weight * product(self.kernel, np.ones((self.size, 1))))

    def residual(self, rhs: Array, x: Array) -> Array:
        """rhs − A x for (n, k) arrays."""
        rest = product(self.kernel, x)
        rest *= self.weight
        rest -= x
        rest += rhs
        return rest

    def dense(self) -> Array:
        kernel = self.kernel.toarray() if sp.issparse(self.kernel) else self.kernel
        matrix = np.multiply(kernel, -self.weight, order="C")
        matrix.reshape(-1)[:: self.size + 1] += 1.0
        return matrix

    def sparse(self) -> Any:
        kernel = sp.csr_array(self.kernel)
        weight = np.broadcast_to(np.ravel(self.weight), self.size)
        data = kernel.data * np.repeat(-weight, np.diff(kernel.indptr))
        return sp.eye_array(self.size, format="csr") + sp.csr_array(
            (data, kernel.indices, kernel.indptr), shape=kernel.shape
        )


def solve(
    kernel: Kernel,
    rhs: Array | None,
    *,
    discount: float,
    scale: Array | None = None,
    method: str | Method = "auto",
) -> Solution:
    """Solve (I − discount·diag(scale)·kernel) x = rhs; `rhs` is (n,), (n, k), or None for the identity.

    `residual` is the largest over the columns of ‖b − A x‖∞ / ((1 + γ)‖x‖∞ + ‖b‖∞).  For more than 64 columns
    solved by dense LU it is an upper bound from random signs instead (see `_probed_error`).  Above 1e-10, or
    where A is singular, InaccurateSolve is raised.
    """
    system = _System(kernel, discount, scale)
    if system.largest_weight >= 1.0:
        _refuse_closed_classes(system)
    right = None if rhs is None else np.asarray(rhs, np.float64).reshape(system.size, -1)
    columns = system.size if right is None else right.shape[1]
    failures: list[str] = []
    for plan in _plans(system, columns, method):
        try:
            x, residual, done = _run(system, right, plan)
        except InaccurateSolve as error:
            failures.append(str(error))
            continue
        if residual <= ACCEPTED_RESIDUAL:
            x = x[:, 0] if rhs is not None and rhs.ndim == 1 else x
            return Solution(x, residual, "; after ".join([done, *failures[::-1]]))
        failures.append(f"{done}, residual {residual:.1e}")
    raise InaccurateSolve(
        f"I − γ·diag(scale)·P was not solved to a residual of {ACCEPTED_RESIDUAL:.0e}: "
        f"{'; then '.join(failures)}. Try another method (DenseLU() copes best with bad conditioning, "
        "Krylov(max_iterations=...) with large chains that mix well) or a smaller discount."
    )


def _refuse_closed_classes(system: _System) -> None:
    """Raise if some states never leak weight: then A is singular, though LU's residual would look fine."""
    if system.row_sums.max() > 1.0 + _LEAK:
        return
    edges = sp.coo_array(system.kernel)
    count, label = csgraph.connected_components(sp.csr_array(edges), connection="strong")
    leaks = np.zeros(count, bool)
    leaks[label[system.row_sums < 1.0 - _LEAK]] = True
    start, end = label[edges.coords[0]], label[edges.coords[1]]
    leaks[start[(start != end) & (edges.data > 0)]] = True
    if not leaks.all():
        members = np.flatnonzero(label == np.flatnonzero(~leaks)[0])
        raise InaccurateSolve(
            f"I − γ·diag(scale)·P is singular: {members.size} state(s), {members[0]} among them, form a "
            "closed class on which discount·scale is 1. Use a discount below 1, or make their rows zero if "
            "an episode ends there."
        )


def _plans(system: _System, columns: int, method: str | Method) -> list[Method]:
    if not isinstance(method, str):
        return [method]
    if method in _NAMED:
        return [_NAMED[method]]
    if method != "auto":
        raise ValueError(f"method {method!r} is unknown: use 'auto', 'dense', 'banded', 'sparse' or 'krylov'")
    if not sp.issparse(system.kernel) or system.size <= _SMALL:
        return [DenseLU()]
    if sum(_bandwidths(system.kernel)) <= _NARROW:
        return [BandedLU(), SparseLU()]
    return _cheapest_first(system, columns)


def _cheapest_first(system: _System, columns: int) -> list[Method]:
    """Methods to try in turn.  Costs are seconds, their coefficients fitted on one core of an x86 server."""
    n, entries = system.size, system.kernel.nnz + system.size
    width, depth, hubs = graph_shape(system.kernel)
    spread = n * math.log2(width + 2.0)
    fill = min(7.0 * spread + 20.0 * width**2, float(n) ** 2)
    direct: list[tuple[float, Method]] = []
    if fill <= _FILL_LIMIT:
        work = min(2.5e-9 * width**3, 2e-11 * float(n) ** 3)
        single = n >= _SINGLE_FROM and columns <= 16 and system.largest_weight <= 0.99999
        cost = 3e-7 * spread + work + 9e-10 * hubs + 1.2e-9 * fill * columns
        direct += [(cost, SparseLU(single=True))] * single + [(cost, SparseLU())]
    if n <= _DENSE_LIMIT:
        direct.append((1e-11 * float(n) ** 2 * (n + 2.0 * columns), DenseLU()))
    direct.sort(key=lambda pair: pair[0])
    gap = min(max(1.0 - system.largest_weight, 0.0) + 10.0 / depth**2, 2.0)
    iterations = 15.0 * math.sqrt(2.0 / gap) + 10.0
    krylov = iterations * (1e-4 + columns * (2e-9 * entries + 6e-9 * n))
    plans = [plan for _, plan in direct]
    if not plans:
        return [Krylov(max_iterations=20 * int(iterations) + 1000)]
    return [Krylov(max_iterations=3 * int(iterations)), *plans] if krylov < direct[0][0] else plans


def _run(system: _System, rhs: Array | None, plan: Method) -> tuple[Array, float, str]:
    if isinstance(plan, DenseLU):
        return _dense_lu(system, rhs)
    if isinstance(plan, BandedLU):
        return _banded_lu(system, rhs)
    if isinstance(plan, SparseLU):
        return _sparse_lu(system, rhs, plan)
    return _krylov(system, rhs, plan)


def _relative(system: _System, error: Array, x: Array, rhs: Array, final: bool = False) -> Array:
    """Residual of each column; not a number counts as infinite.

    A backward-stable method solves a singular system to a small residual, but with an enormous x: the
    `final` measurement refuses that.
    """
    if x.shape[1] == 1:  # plain floats: a small system is solved in as much time as NumPy needs for this
        grown, given = system.norm * float(np.abs(x).max()), float(np.abs(rhs).max())
        if final and grown > _ENORMOUS * given:
            raise InaccurateSolve(_SINGULAR)
        worst = float(np.abs(error).max()) / (grown + given or 1.0)
        return np.array([math.inf if math.isnan(worst) else worst])
    grown, given = system.norm * largest(x), largest(rhs)
    if final and (grown > _ENORMOUS * given).any():
        raise InaccurateSolve(_SINGULAR)
    size = grown + given
    size[size == 0.0] = 1.0
    relative = largest(error) / size
    relative[np.isnan(relative)] = np.inf
    return relative


def _dense_lu(system: _System, rhs: Array | None) -> tuple[Array, float, str]:
    """LU of Aᵀ, which is A's own memory read in LAPACK's order, so nothing is copied."""
    lu, pivots, info = lapack.dgetrf(system.dense().T, overwrite_a=1)
    if info > 0:
        raise InaccurateSolve(f"dense LU met a zero pivot at state {info - 1}: the matrix is singular")
    if rhs is None:
        work, _ = lapack.dgetri_lwork(system.size)
        x = lapack.dgetri(lu, pivots, lwork=int(work), overwrite_lu=1)[0].T
    else:
        x = lapack.dgetrs(lu, pivots, rhs, trans=1)[0]
    if rhs is None or rhs.shape[1] > 64:
        return x, _probed_error(system, rhs, x), "dense LU"
    error = system.residual(rhs, x)
    relative = _relative(system, error, x, rhs, final=True).max()
    if relative <= _REFINE_ABOVE:
        return x, float(relative), "dense LU"
    x += lapack.dgetrs(lu, pivots, error, trans=1)[0]
    return x, float(_relative(system, system.residual(rhs, x), x, rhs).max()), "dense LU, refined once"


def _probed_error(system: _System, rhs: Array | None, x: Array) -> float:
    """Bound on the residual of many columns, at a fraction of the cost of the product A X.

    For E = B − A X, each column divided by its size, and random signs v, every ‖E v‖∞ is at least E's largest
    entry with probability one half or more, as flipping the sign on that entry cannot lower both outcomes.
    """
    given = np.ones(system.size) if rhs is None else largest(rhs)
    grown = system.norm * largest(x)
    if (grown > _ENORMOUS * given).any():
        raise InaccurateSolve(_SINGULAR)
    size = np.where(given + grown == 0.0, 1.0, given + grown)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (x.shape[1], _PROBES)) / size[:, None]
    error = np.abs(system.residual(signs if rhs is None else product(rhs, signs), product(x, signs))).max()
    return math.inf if np.isnan(error) else float(error)


def _in_blocks(
    system: _System, rhs: Array | None, step: Callable[[Array], tuple[Array, int]], entries: int
) -> tuple[Array, float, int]:
    """Solve blocks of columns, each with at most that many entries, on a few threads; measure every block.

    SciPy's sparse routines let go of Python's lock.  The blocks do not depend on the number of threads.
    """
    columns = system.size if rhs is None else rhs.shape[1]
    width = max(min(entries // system.size, 256, -(-columns // 2)), 1)

    def one(first: int) -> tuple[Array, float, int]:
        last = min(first + width, columns)
        block = np.eye(system.size, last - first, -first) if rhs is None else rhs[:, first:last]
        block = np.ascontiguousarray(block)
        x, count = step(block)
        error = system.residual(block, x)
        return x, float(_relative(system, error, x, block, final=True).max()), count

    if columns == 1:
        return one(0)
    result, worst, most = np.empty((system.size, columns)), 0.0, 0
    starts = range(0, columns, width)
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:
        for first, (x, residual, count) in zip(starts, pool.map(one, starts), strict=True):
            result[:, first : first + x.shape[1]] = x
            worst, most = max(worst, residual), max(most, count)
    return result, worst, most


def _bandwidths(kernel: Any) -> tuple[int, int]:
    """Number of diagonals below and above the main one."""
    n = kernel.shape[0]
    offset = kernel.indices - np.repeat(np.arange(n, dtype=kernel.indices.dtype), np.diff(kernel.indptr))
    return max(-int(offset.min(initial=0)), 0), max(int(offset.max(initial=0)), 0)


def _banded_lu(system: _System, rhs: Array | None) -> tuple[Array, float, str]:
    matrix = system.sparse()
    below, above = _bandwidths(matrix)
    band = np.zeros((system.size, 2 * below + above + 1))  # LAPACK's layout, transposed
    row = np.repeat(np.arange(system.size), np.diff(matrix.indptr))
    band[matrix.indices, below + above + row - matrix.indices] = matrix.data
    lu, pivots, info = lapack.dgbtrf(band.T, below, above, overwrite_ab=1)
    if info > 0:
        raise InaccurateSolve(f"banded LU met a zero pivot at state {info - 1}: the matrix is singular")

    def invert(block: Array) -> Array:
        return lapack.dgbtrs(lu, below, above, block, pivots)[0]

    x, residual, steps = _in_blocks(system, rhs, lambda block: _refined(system, invert, block), 2**23)
    return x, residual, f"banded LU ({below} + {above} diagonals)" + _refinements(steps)


def _refinements(steps: int) -> str:
    return f", {steps} refinement(s)" if steps else ""


def _sparse_lu(system: _System, rhs: Array | None, plan: SparseLU) -> tuple[Array, float, str]:
    """SuperLU at its own `relax`: a larger one (30) is a tenth faster but corrupts memory in SciPy 1.17."""
    kind = np.float32 if plan.single else np.float64
    name = f"sparse LU (symmetric minimum degree, {kind.__name__})"
    try:
        factor = splu(
            system.sparse().astype(kind).tocsc(),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
    except (RuntimeError, MemoryError) as error:
        raise InaccurateSolve(f"{name} failed: {error or 'out of memory'}") from None
    x, residual, steps = _in_blocks(system, rhs, lambda block: _refined(system, factor.solve, block, kind), 2**23)
    return x, residual, name + _refinements(steps)


def _refined(
    system: _System, invert: Callable[[Array], Array], rhs: Array, kind: type = np.float64
) -> tuple[Array, int]:
    """Solve and correct while that pays: at most once in float64, in float32 until float64 accuracy."""
    x, last = np.zeros_like(rhs), math.inf
    limit = 6 if kind is np.float32 else 2
    error = rhs
    for taken in range(limit):
        size = largest(error)
        size[size == 0] = 1.0  # also keeps tiny residuals within the range of float32
        x += invert((error / size).astype(kind, copy=False)) * size
        error = system.residual(rhs, x)
        relative = float(_relative(system, error, x, rhs).max())
        if relative <= _REFINE_ABOVE or relative > last / 2:
            return x, taken
        last = relative
    return x, limit - 1


def _krylov(system: _System, rhs: Array | None, plan: Krylov) -> tuple[Array, float, str]:
    symmetric = np.ndim(system.weight) == 0 and _is_symmetric(system.kernel) and system.loops.max() < 1.0
    diagonal = 1.0 - system.loops
    inverse = 1.0 / np.where(diagonal == 0.0, 1.0, diagonal)[:, None]
    left, right = (np.sqrt(inverse), np.sqrt(inverse)) if symmetric else (inverse, np.ones(1))
    matrix = sp.csr_array(system.sparse() * left)
    matrix.data *= right.ravel()[matrix.indices] if symmetric else 1.0
    sweep = conjugate_gradients if symmetric else bicgstab

    def step(block: Array) -> tuple[Array, int]:
        """Sweeps from the true residual until that is small, or stalls, or the budget is spent."""
        x, used, last = np.zeros_like(block), 0, np.inf
        while True:
            error = system.residual(block, x)
            relative = _relative(system, error, x, block)
            todo = relative > 4.0 * plan.tolerance
            if not todo.any() or used >= plan.max_iterations or relative.max() > last / 2:
                return x, used
            last = relative.max()
            goal = np.minimum(plan.tolerance / relative[todo], 0.1)
            with np.errstate(all="ignore"):
                correction, taken = sweep(matrix, left * error[:, todo], goal, plan.max_iterations - used)
            x[:, todo] += right * np.where(np.isfinite(correction), correction, 0.0)
            used += taken

    x, residual, most = _in_blocks(system, rhs, step, 2**22)
    return x, residual, f"{'CG' if symmetric else 'BiCGSTAB'}, Jacobi, {most} iterations"


def _is_symmetric(kernel: Kernel) -> bool:
    difference = kernel - kernel.T
    return not (difference.data if sp.issparse(difference) else difference).any()
