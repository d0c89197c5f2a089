"""The linear system (I − γ · diag(scale) · P) X = B of a Markov kernel P, and how its error is measured.

Near γ = 1 the matrix is nearly singular, and a small residual says little about the error of X. Two things then matter.
The excess of a row, 1 − Σⱼ γ · scale(i) · P(i, j), must be known to full accuracy. The rounded matrix does not contain
it, so callers pass what they know (`exits`, `leak`). And rounding is amplified by ‖A⁻¹‖, which for these matrices is
the largest entry of A⁻¹ 1: the discounted number of steps before the chain is lost.
"""

import math
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float
from scipy.linalg import blas as _blas

from wane.exact.graph import GraphShape, graph_shape
from wane.exact.krylov import largest
from wane.kernels import Operator

blas: Any = _blas  # SciPy makes its routines at import, so type checkers do not see them.

ACCEPTED_ERROR = 1e-7
"""The largest accepted bound on the relative error that rounding causes in a solution."""
ACCEPTED_ERROR_32 = 1e-5
"""The largest accepted bound in 32 bits."""
USE_64_BITS = 'switch on 64 bits with jax.config.update("jax_enable_x64", True)'
"""The cure for what 32 bits cannot hold."""
NEAR_ONE = 1e-5
"""If γ · scale is nearer to 1 than this, the rounding errors of a solution may matter and are bounded."""
_ROUNDED = 1e-12  # A row sum this close to 1 is 1 up to rounding.
_ENORMOUS = 4e12  # A solution this many times larger than b has an error of 1e-3 from rounding alone.
_SINGULAR = "the matrix is singular to working precision (x exceeds b 10¹⁴ times)"
_PROBES = 16


class InaccurateSolve(ArithmeticError):
    """Raised when the system is singular, or when no method reached the accepted residual."""


def check_cancellation(size: Any, result: Any) -> None:
    """Raise InaccurateSolve if a result is the small difference of parts whose absolute values sum to `size`.

    The parts are rounded in proportion to `size`. The resulting error may be at most 1e-7 of the result, or 1e-5 in 32
    bits.
    """
    size, result = np.asarray(size), np.asarray(result)
    accepted = ACCEPTED_ERROR if result.dtype == np.float64 else ACCEPTED_ERROR_32
    if np.any(np.finfo(result.dtype).eps * size > accepted * result):
        raise InaccurateSolve(
            f"terms of opposite signs that add up to {float(np.max(size)):.1e} cancel: rounding to {result.dtype} "
            "spoils their difference. Evaluate positive and negative rewards apart, use a smaller discount, or, in 32 "
            f"bits, {USE_64_BITS}"
        )


def product(matrix: Any, x: Float[np.ndarray, "inner columns"]) -> Float[np.ndarray, "rows columns"]:
    """Return matrix @ x.

    Dense products use SciPy's BLAS, whose threads LAPACK has already woken. NumPy has another BLAS, whose threads would
    compete with these.
    """
    return matrix @ x if not isinstance(matrix, np.ndarray) else blas.dgemm(1.0, matrix.T, x, trans_a=1)


def leaving(rows: Any, kept: Bool[np.ndarray, " states"]) -> Float[np.ndarray, " rows"]:
    """Return the probability that each of some rows of a kernel leaves the kept states. It is 1 where a row is zero."""
    ends = np.ravel(rows @ np.ones((rows.shape[1], 1))) == 0
    return np.where(ends, 1.0, np.ravel(rows @ (~kept).astype(float)[:, None]))


class System:
    """A = I − diag(weight) · P, where weight is γ · scale. A itself is formed only if a method asks for it.

    `exits` is 1 minus the sum of each row of P, and `leak` is 1 − weight. They are computed if they are not given.
    """

    def __init__(
        self,
        kernel: Operator,
        discount: float,
        scale: Float[np.ndarray, " states"] | None,
        exits: Float[np.ndarray, " states"] | None = None,
        leak: float | Float[np.ndarray, " states"] | None = None,
    ) -> None:
        self.kernel: Any = kernel
        self.size: int = self.kernel.shape[0]
        self._exits = exits
        if leak is None:
            leak = 1.0 - discount if scale is None else (1.0 - discount) + discount * (1.0 - np.asarray(scale))
        self.leak = leak
        self.weight: Any = discount if scale is None else discount * np.asarray(scale, np.float64)[:, None]
        self.largest_weight = discount if scale is None else float(np.max(self.weight))
        # This is ‖I‖ + ‖diag(weight) · P‖ and not ‖A‖: near γ = 1 the two terms cancel in A, but x − γPx is still
        # rounded in proportion to its two terms.
        self.norm = 1.0 + (discount if scale is None else float(self.row_sums.max()))

    @cached_property
    def loops(self) -> Float[np.ndarray, " states"]:
        """The diagonal of diag(weight) · P: how likely each state is to stay where it is."""
        return np.ravel(self.weight) * self.kernel.diagonal()

    @cached_property
    def row_sums(self) -> Float[np.ndarray, " states"]:
        return np.ravel(self.weight * product(self.kernel, np.ones((self.size, 1))))

    @property
    def is_near_one(self) -> bool:
        return self.largest_weight > 1.0 - NEAR_ONE

    @cached_property
    def excess(self) -> Float[np.ndarray, " states"]:
        """1 − Σⱼ weight(i) P(i, j) of each row. Its terms are added, so it has full accuracy even if it is small."""
        exits = self._exits
        if exits is None:
            missing = 1.0 - np.ravel(product(self.kernel, np.ones((self.size, 1))))
            exits = np.where(np.abs(missing) <= _ROUNDED, 0.0, missing)
        return self.leak + np.ravel(self.weight) * exits

    @cached_property
    def graph(self) -> GraphShape:
        """The measures of the sparse kernel's graph that predict the costs of the methods."""
        return graph_shape(self.kernel)

    def residual(
        self, rhs: Float[np.ndarray, "states columns"], x: Float[np.ndarray, "states columns"]
    ) -> Float[np.ndarray, "states columns"]:
        """Return rhs − A x."""
        rest = product(self.kernel, x)
        rest *= self.weight
        rest -= x
        rest += rhs
        return rest

    def dense(self) -> Float[np.ndarray, "states states"]:
        """Return A as a new array in C order."""
        kernel = self.kernel.toarray() if sp.issparse(self.kernel) else self.kernel
        matrix = np.multiply(kernel, -self.weight, order="C")
        matrix.reshape(-1)[:: self.size + 1] += 1.0
        return matrix

    def sparse(self) -> Any:
        """Return A as a CSR array."""
        kernel = sp.csr_array(self.kernel)
        weight = np.broadcast_to(np.ravel(self.weight), self.size)
        data = kernel.data * np.repeat(-weight, np.diff(kernel.indptr))
        scaled = sp.csr_array((data, kernel.indices, kernel.indptr), shape=kernel.shape)
        return sp.eye_array(self.size, format="csr") + scaled


def relative_residuals(
    system: System,
    error: Float[np.ndarray, "states columns"],
    x: Float[np.ndarray, "states columns"],
    rhs: Float[np.ndarray, "states columns"],
    final: bool = False,
) -> Float[np.ndarray, " columns"]:
    """Return ‖error‖∞ / (‖A‖‖x‖∞ + ‖rhs‖∞) of each column. NaN counts as infinite.

    A backward-stable method solves even a singular system to a small residual, but x is then enormous: with `final`,
    InaccurateSolve is raised for such an x.
    """
    if x.shape[1] == 1:  # Plain floats: NumPy's overhead would take as long as solving a small system.
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


def probed_residual(
    system: System, rhs: Float[np.ndarray, "states columns"] | None, x: Float[np.ndarray, "states columns"]
) -> float:
    """Return a bound on the relative residual of many columns, at a fraction of the cost of the product A X.

    Let E = B − A X with each column divided by its size, and v a vector of random signs. Every ‖E v‖∞ is at least the
    largest entry of E with probability one half or more: flipping the sign on that entry cannot lower both outcomes.
    Sixteen such vectors fail to bound it with probability 2⁻¹⁶.
    """
    given = np.ones(system.size) if rhs is None else largest(rhs)
    grown = system.norm * largest(x)
    if (grown > _ENORMOUS * given).any():
        raise InaccurateSolve(_SINGULAR)
    size = given + grown
    size[size == 0.0] = 1.0
    signs = _random_signs(x.shape[1]) / size[:, None]
    error = np.abs(system.residual(signs if rhs is None else product(rhs, signs), product(x, signs))).max()
    return math.inf if np.isnan(error) else float(error)


@lru_cache(maxsize=8)
def _random_signs(columns: int) -> Float[np.ndarray, "columns probes"]:
    return np.random.default_rng(0).choice([-1.0, 1.0], (columns, _PROBES))
