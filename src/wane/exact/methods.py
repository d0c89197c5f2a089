"""Ways to solve (I − γ · diag(scale) · P) X = B: small objects that know when they apply, what they cost, and how.

- Dense LU costs n²(n + 2k) for k columns.
- Banded LU is the fastest for a sparse kernel that is a narrow band in the given order of its states.
- Sparse LU is priced from the wavefront of the reverse Cuthill–McKee ordering of P + Pᵀ. The widest front w that cannot
  be avoided by cutting the chain at a bottleneck stands for the top separator of a minimum-degree factorisation, whose
  work is then about w³ plus n · log w. The number of independent cycles bounds w for trees. States with very many
  neighbours make minimum degree slow, quadratically in their degree.
- Elimination without subtractions (`wane.exact.elimination`) costs about as much as dense LU. It loses no digits near
  γ = 1, where the others do.
- Krylov (conjugate gradients on a symmetric P, otherwise BiCGSTAB) needs about √(2/δ) iterations per factor e² of
  accuracy. Here δ is 1 − γ plus what the chain's own mixing adds, of order 1/D² when D fronts lie between its two ends.
  Random graphs (D of a few) are therefore cheap at any γ, and long chains are not.

Costs are in seconds; their coefficients were fitted on one core of an x86 server.
"""

import abc
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from scipy.linalg import lapack as _lapack
from scipy.sparse.linalg import LinearOperator as _LinearOperator
from scipy.sparse.linalg import splu

from wane.exact.elimination import eliminate
from wane.exact.krylov import bicgstab, conjugate_gradients, largest
from wane.exact.system import (
    InaccurateSolve,
    System,
    check_cancellation,
    probed_residual,
    product,
    relative_residuals,
)
from wane.limits import memory_limit, require_memory
from wane.texts import brief

LinearOperator: Any = _LinearOperator  # SciPy chooses among its classes when one is made.
lapack: Any = _lapack  # SciPy makes its routines at import, so type checkers do not see them.
Columns = Float[np.ndarray, "states columns"]

_ONE_THREAD = 128  # Up to this many states a dense system is solved faster by one thread than by several.
_SINGLE_FROM = 200_000  # float32 factors save a little time at 10⁶ states; the limit is a guess.
_DENSE_LIMIT = 12_000  # The matrix then takes 1.2 GB.
_FILL_LIMIT = 5e8  # This many entries of a sparse factor take 4 to 6 GB.
_FACTOR_BYTES = 12  # A value and an index.
_REFINE_ABOVE = 1e-14
_ELIMINATION_LIMIT = 4096  # Elimination then takes ten seconds and half a gigabyte.
_NARROW = 32  # Diagonals. Measurements showed a gain for a tridiagonal band; the limit is a guess.
_PROBE_ABOVE = 64  # From this many columns on, the residual of dense LU is probed instead of computed.


@dataclass(frozen=True, repr=False)
class Solution:
    """`x`, the relative residual of its worst column (see `wane.exact.solve.solve`), and how it was found."""

    x: Float[np.ndarray, " states *columns"]
    residual: float
    method: str

    __repr__ = brief


class Method(abc.ABC):
    """A way to solve a system."""

    @abc.abstractmethod
    def applies(self, system: System, columns: int) -> bool:
        """Return whether the automatic choice may consider this method for `columns` right-hand sides."""

    @abc.abstractmethod
    def cost(self, system: System, columns: int) -> float:
        """Return the predicted time in seconds."""

    @abc.abstractmethod
    def solve(self, system: System, rhs: Columns | None) -> Solution:
        """Return the solution for `rhs` (None is the identity), or raise InaccurateSolve."""


@dataclass(frozen=True)
class DenseLU(Method):
    """LAPACK's LU with partial pivoting. A sparse kernel is expanded."""

    def applies(self, system: System, columns: int) -> bool:
        return not sp.issparse(system.kernel) or system.size <= _DENSE_LIMIT

    def cost(self, system: System, columns: int) -> float:
        return 1e-11 * float(system.size) ** 2 * (system.size + 2.0 * columns)

    def solve(self, system: System, rhs: Columns | None) -> Solution:
        cure = "pass a sparse kernel (scipy.sparse.csr_array), which other methods solve"
        require_memory("dense LU", (system.size, "states"), (system.size, "states"), copies=2, cure=cure)
        if rhs is None:
            x = _dense_inverse(system)
            return Solution(x, probed_residual(system, None, x), "dense LU")
        x, correction = _dense_solution(system, rhs)
        if rhs.shape[1] > _PROBE_ABOVE:
            return Solution(x, probed_residual(system, rhs, x), "dense LU")
        error = system.residual(rhs, x)
        relative = relative_residuals(system, error, x, rhs, final=True).max()
        if relative <= _REFINE_ABOVE:
            return Solution(x, float(relative), "dense LU")
        x += correction(error)
        relative = relative_residuals(system, system.residual(rhs, x), x, rhs).max()
        return Solution(x, float(relative), "dense LU, refined once")


def _dense_inverse(system: System) -> Any:
    """Return A⁻¹, by LU of Aᵀ: the memory of A, read in LAPACK's order, is Aᵀ, so that nothing needs to be copied.

    OpenBLAS wakes its threads in `dgetri` even for matrices that one thread inverts in microseconds. If another program
    occupies the core of such a thread, waiting for it takes milliseconds. Without room for blocks (lwork = n) `dgetri`
    starts no threads, and is as fast for small matrices.
    """
    lu, pivots, info = lapack.dgetrf(system.dense().T, overwrite_a=1)
    _refuse_zero_pivot("dense", info)
    n = system.size
    work = n if n <= _ONE_THREAD else int(lapack.dgetri_lwork(n)[0])
    return lapack.dgetri(lu, pivots, lwork=work, overwrite_lu=1)[0].T


def _dense_solution(system: System, rhs: Columns) -> tuple[Any, Callable[[Any], Any]]:
    """Return A⁻¹ rhs, and a function that applies A⁻¹ to other right-hand sides.

    `dgetrs` also wakes threads for small systems, unless there is only one column. `dgesv` does not.
    """
    if rhs.shape[1] > 1 and system.size <= _ONE_THREAD:
        lu, pivots, x, info = lapack.dgesv(system.dense(), rhs)
        _refuse_zero_pivot("dense", info)
        return x, lambda other: lapack.dgetrs(lu, pivots, other)[0]
    lu, pivots, info = lapack.dgetrf(system.dense().T, overwrite_a=1)
    _refuse_zero_pivot("dense", info)
    return lapack.dgetrs(lu, pivots, rhs, trans=1)[0], lambda other: lapack.dgetrs(lu, pivots, other, trans=1)[0]


def _refuse_zero_pivot(kind: str, info: int) -> None:
    if info > 0:
        raise InaccurateSolve(f"{kind} LU met a zero pivot at state {info - 1}: the matrix is singular")


@dataclass(frozen=True)
class Elimination(Method):
    """Elimination without subtractions, on the dense kernel. It is exact up to rounding even if γ is very near to 1."""

    def applies(self, system: System, columns: int) -> bool:
        return system.size <= _ELIMINATION_LIMIT and bool(system.excess.min() >= 0.0)

    def cost(self, system: System, columns: int) -> float:
        return 3.0 * DenseLU().cost(system, columns) + 2e-5 * system.size

    def solve(self, system: System, rhs: Columns | None) -> Solution:
        if not self.applies(system, 1):
            raise InaccurateSolve(
                f"elimination takes at most {_ELIMINATION_LIMIT} states, and no row of γ·diag(scale)·P above 1"
            )
        b = np.eye(system.size) if rhs is None else rhs
        # Each entry is accurate relative to its sum over |b|, so parts of b with opposite signs are solved separately.
        signed = bool((b < 0.0).any())
        parts = np.hstack([np.maximum(b, 0.0), np.maximum(-b, 0.0)]) if signed else b
        kernel = system.kernel.toarray() if sp.issparse(system.kernel) else system.kernel
        x: Any = eliminate(np.asarray(system.weight * kernel), system.excess, parts)
        if not np.isfinite(x).all():
            raise InaccurateSolve("elimination met states that the chain never leaves: the matrix is singular")
        if signed:
            x, size = x[:, : b.shape[1]] - x[:, b.shape[1] :], x[:, : b.shape[1]] + x[:, b.shape[1] :]
            check_cancellation(size.max(0), largest(x))
        return Solution(x, float(relative_residuals(system, system.residual(b, x), x, b).max()), "elimination")


@dataclass(frozen=True)
class BandedLU(Method):
    """LAPACK's banded LU in the given order of the states: the fastest for walks along a line."""

    def applies(self, system: System, columns: int) -> bool:
        return sp.issparse(system.kernel) and sum(_bandwidths(system.kernel)) <= _NARROW

    def cost(self, system: System, columns: int) -> float:
        below, above = _bandwidths(sp.csr_array(system.kernel))
        return 1e-9 * system.size * (below + above + 1.0) * (below + 1.0 + columns)

    def solve(self, system: System, rhs: Columns | None) -> Solution:
        matrix = system.sparse()
        below, above = _bandwidths(matrix)
        band = np.zeros((system.size, 2 * below + above + 1))  # LAPACK's layout, transposed
        row = np.repeat(np.arange(system.size), np.diff(matrix.indptr))
        band[matrix.indices, below + above + row - matrix.indices] = matrix.data
        lu, pivots, info = lapack.dgbtrf(band.T, below, above, overwrite_ab=1)
        _refuse_zero_pivot("banded", info)

        def invert(block: Any) -> Any:
            return lapack.dgbtrs(lu, below, above, block, pivots)[0]

        x, residual, steps = _in_blocks(system, rhs, lambda block: _refined(system, invert, block), 2**23)
        return Solution(x, residual, f"banded LU ({below} + {above} diagonals)" + _refinements(steps))


def _bandwidths(matrix: Any) -> tuple[int, int]:
    """Return how many diagonals below and above the main one a CSR array has."""
    n = matrix.shape[0]
    offset = matrix.indices - np.repeat(np.arange(n, dtype=matrix.indices.dtype), np.diff(matrix.indptr))
    return max(-int(offset.min(initial=0)), 0), max(int(offset.max(initial=0)), 0)


@dataclass(frozen=True)
class SparseLU(Method):
    """SuperLU with a symmetric minimum-degree ordering and diagonal pivots.

    Diagonal pivots are stable because γ < 1 makes the matrix diagonally dominant. `single` factorises in float32 and
    refines in float64, which takes less memory and time, unless γ is so near 1 that float32 cannot distinguish them.
    """

    single: bool = False

    def applies(self, system: System, columns: int) -> bool:
        if self.single and not (system.size >= _SINGLE_FROM and columns <= 16 and system.largest_weight <= 0.99999):
            return False
        return self._fill(system) <= min(_FILL_LIMIT, memory_limit() / _FACTOR_BYTES)

    def cost(self, system: System, columns: int) -> float:
        n, shape = system.size, system.graph
        work = min(2.5e-9 * shape.width**3, 2e-11 * float(n) ** 3)
        ordering = 3e-7 * n * math.log2(shape.width + 2.0) + 9e-10 * shape.squared_degrees
        return ordering + work + 1.2e-9 * self._fill(system) * columns

    def _fill(self, system: System) -> float:
        """Return the predicted number of entries of the factors."""
        n, width = system.size, system.graph.width
        return min(7.0 * n * math.log2(width + 2.0) + 20.0 * width**2, float(n) ** 2)

    def solve(self, system: System, rhs: Columns | None) -> Solution:
        kind = np.float32 if self.single else np.float64
        name = f"sparse LU (symmetric minimum degree, {kind.__name__})"
        entries = int(self._fill(system)) if sp.issparse(system.kernel) else system.size**2
        cure = 'use method="krylov"'
        require_memory("sparse LU", (entries, "entries of the factors"), itemsize=_FACTOR_BYTES, cure=cure)
        try:
            # A larger `relax` than SuperLU's own (30, say) is a tenth faster but corrupts memory in SciPy 1.17.
            factor = splu(
                system.sparse().astype(kind).tocsc(),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
        except (RuntimeError, MemoryError) as error:
            raise InaccurateSolve(f"{name} failed: {error or 'out of memory'}") from None
        x, residual, steps = _in_blocks(system, rhs, lambda block: _refined(system, factor.solve, block, kind), 2**23)
        return Solution(x, residual, name + _refinements(steps))


def _refinements(steps: int) -> str:
    return f", {steps} refinement(s)" if steps else ""


@dataclass(frozen=True)
class Krylov(Method):
    """Batched conjugate gradients (symmetric kernel, no scale) or BiCGSTAB, with Jacobi scaling."""

    tolerance: float = 1e-14
    max_iterations: int = 10_000

    @staticmethod
    def expected_iterations(system: System) -> float:
        """Return the number of iterations that the system is likely to need."""
        mixing = 0.0 if isinstance(system.kernel, LinearOperator) else 10.0 / system.graph.depth**2
        decay = min(max(1.0 - system.largest_weight, 1e-12) + mixing, 2.0)
        return 15.0 * math.sqrt(2.0 / decay) + 10.0

    def applies(self, system: System, columns: int) -> bool:
        return sp.issparse(system.kernel)

    def cost(self, system: System, columns: int) -> float:
        entries = system.kernel.nnz + system.size
        return self.expected_iterations(system) * (1e-4 + columns * (2e-9 * entries + 6e-9 * system.size))

    def solve(self, system: System, rhs: Columns | None) -> Solution:
        matrix_free = isinstance(system.kernel, LinearOperator)
        name, sweep, matrix, rows, columns = _without_matrix(system) if matrix_free else _scaled(system)

        def step(block: Any) -> tuple[Any, int]:
            return self._sweeps(
                system, block, lambda error, goal, budget: sweep(matrix, rows * error, goal, budget), columns
            )

        x, residual, most = _in_blocks(system, rhs, step, 2**22)
        return Solution(x, residual, f"{name}, {most} iterations")

    def _sweeps(
        self, system: System, block: Any, sweep: Callable[[Any, Any, int], tuple[Any, int]], column_scale: Any
    ) -> tuple[Any, int]:
        """Sweep from the true residual until it is small or no longer falls, or until the budget is spent.

        The residual that the iterations update drifts away from the true one, which makes restarts necessary. Returns
        the solution and the number of iterations.
        """
        x, spent, last = np.zeros_like(block), 0, np.inf
        while True:
            error = system.residual(block, x)
            relative = relative_residuals(system, error, x, block)
            todo = relative > 4.0 * self.tolerance
            if not todo.any() or spent >= self.max_iterations or relative.max() > last / 2:
                return x, spent
            last = relative.max()
            goal = np.minimum(self.tolerance / relative[todo], 0.1)
            with np.errstate(all="ignore"):
                correction, taken = sweep(error[:, todo], goal, self.max_iterations - spent)
            x[:, todo] += column_scale * np.where(np.isfinite(correction), correction, 0.0)
            spent += taken


def _without_matrix(system: System) -> tuple[str, Callable[..., Any], Any, Any, Any]:
    """Return what `Krylov` needs, made of nothing but products. Without the diagonal there is no Jacobi scaling."""

    def apply(x: Any) -> Any:
        return x - system.weight * product(system.kernel, x)

    matrix = LinearOperator(system.kernel.shape, lambda x: apply(x.reshape(-1, 1)), matmat=apply, dtype=float)
    return "BiCGSTAB, matrix-free", bicgstab, matrix, np.ones(1), np.ones(1)


def _scaled(system: System) -> tuple[str, Callable[..., Any], Any, Any, Any]:
    """Return a name, a method, the matrix with Jacobi scaling, and the scales of its rows and columns.

    The scales are split evenly over rows and columns where the matrix must stay symmetric, else they are on the rows.
    """
    symmetric = np.ndim(system.weight) == 0 and _is_symmetric(system.kernel) and system.loops.max() < 1.0
    diagonal = 1.0 - system.loops
    inverse = 1.0 / np.where(diagonal == 0.0, 1.0, diagonal)[:, None]
    rows, columns = (np.sqrt(inverse), np.sqrt(inverse)) if symmetric else (inverse, np.ones(1))
    matrix = sp.csr_array(system.sparse() * rows)
    matrix.data *= columns.ravel()[matrix.indices] if symmetric else 1.0
    name, sweep = ("CG", conjugate_gradients) if symmetric else ("BiCGSTAB", bicgstab)
    return f"{name}, Jacobi", sweep, matrix, rows, columns


def _is_symmetric(kernel: Any) -> bool:
    difference = kernel - kernel.T
    return not (difference.data if sp.issparse(difference) else difference).any()


def _in_blocks(
    system: System, rhs: Columns | None, step: Callable[[Any], tuple[Any, int]], entries: int
) -> tuple[Any, float, int]:
    """Solve blocks of columns, each with at most `entries` entries, on a few threads.

    Returns the solution, the worst relative residual over the blocks, and the largest count that `step` returned.
    SciPy's sparse routines release Python's lock. The blocks do not depend on the number of threads.
    """
    columns = system.size if rhs is None else rhs.shape[1]
    width = max(min(entries // system.size, 256, -(-columns // 2)), 1)

    def one(start: int) -> tuple[Any, float, int]:
        stop = min(start + width, columns)
        block = np.eye(system.size, stop - start, -start) if rhs is None else rhs[:, start:stop]
        block = np.ascontiguousarray(block)
        x, count = step(block)
        error = system.residual(block, x)
        return x, float(relative_residuals(system, error, x, block, final=True).max()), count

    if columns == 1:
        return one(0)
    result, worst, most = np.empty((system.size, columns)), 0.0, 0
    starts = range(0, columns, width)
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:
        for start, (x, residual, count) in zip(starts, pool.map(one, starts), strict=True):
            result[:, start : start + x.shape[1]] = x
            worst, most = max(worst, residual), max(most, count)
    return result, worst, most


def _refined(
    system: System, invert: Callable[[Any], Any], rhs: Columns, kind: type[np.floating] = np.float64
) -> tuple[Any, int]:
    """Solve, and refine while it helps: at most once in float64, and in float32 until float64 accuracy is reached.

    Returns the solution and the number of corrections.
    """
    x, last = np.zeros_like(rhs), math.inf
    limit = 6 if kind is np.float32 else 2
    error = rhs
    for taken in range(limit):
        size = largest(error)
        size[size == 0] = 1.0
        # Dividing by the size also keeps tiny residuals within the range of float32.
        x += invert((error / size).astype(kind, copy=False)) * size
        error = system.residual(rhs, x)
        relative = float(relative_residuals(system, error, x, rhs).max())
        if relative <= _REFINE_ABOVE or relative > last / 2:
            return x, taken
        last = relative
    return x, limit - 1
