"""What a kernel is, and how it is checked when it enters the package.

A kernel P(s, s') holds the probability that s' follows s. A row sums to one, or it is all zero if the episode ends in
that state. Two things can be asked of a kernel, and a function names the one that it needs:

| capability | what is asked | who has it |
| --- | --- | --- |
| `Operator` | the product with a block of vectors | a `Matrix`, and SciPy's `LinearOperator` |
| `Rows` | which states follow some states, and how likely | whatever has `rows`; no vector over its states need fit |

A `Matrix` (NumPy, JAX or SciPy sparse) can do both and more: it shows its rows, its diagonal and its transpose. Sparse
input stays sparse.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse
from scipy.linalg import blas as _blas
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import LinearOperator

from wane.checks import ensure, is_traced
from wane.types import AnyArray

blas: Any = _blas  # SciPy makes its routines at import, so type checkers do not see them.
ROW_TOLERANCE = 1e-8
"""How far the sum of a row may be from one. Kernels in single precision get 1e-5."""


@runtime_checkable
class Operator(Protocol):
    """A kernel that multiplies a block of vectors."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(states, states)"""
        ...

    def __matmul__(self, block: Any, /) -> Any:
        """Return Σ_s' P(s, s') block(s')."""
        ...


@runtime_checkable
class Rows(Protocol):
    """A kernel that shows the rows of some states."""

    def rows(self, states: Any) -> tuple[Any, Any]:
        """Return up to k states that may follow each of n states, and how likely each of them is: arrays (n, k)."""
        ...


if TYPE_CHECKING:
    # SciPy's sparse arrays have no annotations, so a type checker cannot follow what is done with one.
    Matrix = Any
else:
    Matrix = Float[np.ndarray, "states states"] | Float[jax.Array, "states states"] | sparse.csr_array
"""A kernel that has been checked and can do everything: an array or a CSR array (states, states)."""
KernelLike = AnyArray | sparse.sparray | sparse.spmatrix | LinearOperator | Sequence
"""A stochastic matrix as a user gives it: NumPy, JAX, SciPy sparse, a LinearOperator, or a list of lists."""


def check_operator(kernel: KernelLike) -> Operator:
    """Return a kernel that multiplies vectors: what `check_kernel` returns, or a SciPy LinearOperator.

    Of the latter only the sums of its rows can be checked. That its entries are not negative is taken on trust.
    """
    if not isinstance(kernel, LinearOperator):
        return check_kernel(kernel)
    check_square(kernel.shape)
    if np.dtype(kernel.dtype).kind not in "fiub":
        raise TypeError(f"a kernel holds real numbers, but this one has dtype {kernel.dtype}")
    sums = np.ravel(np.asarray(kernel @ np.ones(kernel.shape[1]), float))
    wrong = ~((np.abs(sums - 1) <= ROW_TOLERANCE) | (sums == 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"kernel row {row} sums to {sums[row]:.6g}{_others(wrong)}: rows must sum to 1, or to 0")
    return kernel


def require_matrix(kernel: Operator, what: str) -> Matrix:
    """Return a checked kernel. Raises a TypeError if it only multiplies vectors, and `what` needs more."""
    if isinstance(kernel, LinearOperator):
        raise TypeError(
            f"{what} looks at single rows of the kernel, and a {type(kernel).__name__} only multiplies vectors: pass "
            "the matrix itself, dense or sparse"
        )
    return kernel


def check_kernel(kernel: KernelLike) -> Matrix:
    """Return a kernel that is ready for use: a float64 array, a CSR array, or a JAX array.

    Raises a ValueError that names the shape or the first bad row, or a TypeError if the entries are not real numbers.
    """
    if isinstance(kernel, jax.Array):
        check_square(kernel.shape)
        if not is_traced(kernel):
            check_rows(np.asarray(kernel, np.float64), tolerance=tolerance_of(kernel.dtype))
        return ensure_rows(kernel, "kernel")
    tidy: Any = kernel if sparse.issparse(kernel) else _as_array(kernel)
    if tidy.dtype.kind not in "fiub":
        raise TypeError(f"a kernel holds real numbers, but this one has dtype {tidy.dtype}")
    check_square(tidy.shape)
    if sparse.issparse(kernel):
        return check_rows(canonical(tidy), tolerance=tolerance_of(tidy.dtype))
    return check_rows(np.ascontiguousarray(tidy, dtype=np.float64), tolerance=tolerance_of(tidy.dtype))


def _as_array(kernel: Any) -> np.ndarray:
    """Return a dense kernel as an array. Raises a TypeError for what is none, a ValueError for rows that differ."""
    if isinstance(kernel, LinearOperator):
        require_matrix(kernel, "this function")
    if not isinstance(kernel, np.ndarray | list | tuple) and not hasattr(kernel, "__array__"):
        name, cure = type(kernel).__name__, ""
        if hasattr(kernel, "under"):
            raise TypeError("an MDP becomes a kernel under a policy: pass mdp.under(policy)")
        if hasattr(getattr(kernel, "mdp", None), "under"):
            cure = ": pass its mdp.under(policy)"
        elif isinstance(kernel, Rows):
            cure = ", which shows the rows of some states, and here vectors over all states are multiplied"
            cure += ": call wane.evaluate_local"
        raise TypeError(f"a kernel is a square array or a sparse matrix, got the type {name}{cure}")
    try:
        return np.asarray(kernel)
    except ValueError as error:
        raise ValueError(f"the rows of a kernel must have the same length ({error})") from error


def canonical(matrix: Any) -> Any:
    """Return a sparse matrix as a CSR array of float64 that has each entry once. The caller's matrix is not changed.

    Repeated entries are summed, because SciPy's search for strong components never ends if it meets one.
    """
    ready = isinstance(matrix, sparse.csr_array) and matrix.dtype == np.float64
    tidy: Any = matrix if ready else sparse.csr_array(matrix, dtype=np.float64)
    if not tidy.has_canonical_format:
        tidy = tidy.copy()
        tidy.sum_duplicates()
    return tidy


def reachable(graph: Any, sources: Int[np.ndarray, " sources"]) -> Bool[np.ndarray, " states"]:
    """Return a mask of the states to which a path leads from any of the sources (these included).

    `graph` is a sparse array (states, states) whose stored entries are edges from row to column.
    """
    n = graph.shape[0]
    # One more node, with an edge to every source, turns the search from many sources into a search from one.
    root = sparse.csr_array((np.ones(len(sources)), (np.zeros(len(sources), int), sources)), shape=(1, n))
    extended = sparse.block_array([[graph, None], [root, sparse.csr_array((1, 1))]], format="csr")
    found = np.zeros(n + 1, bool)
    found[breadth_first_order(extended, n, return_predecessors=False)] = True
    return found[:n]


def check_square(shape: tuple[int, ...]) -> None:
    """Raise a ValueError unless the shape is that of a square matrix with a state."""
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise ValueError(f"a kernel is a square matrix (states, states) with at least one state, got shape {shape}")


def tolerance_of(dtype: Any) -> float:
    """Return how far the sum of a row of such numbers may be from one."""
    return 1e-5 if dtype.kind == "f" and dtype.itemsize < 8 else ROW_TOLERANCE


def check_rows(matrix: Any, what: str = "kernel", may_end: bool = True, tolerance: float = ROW_TOLERANCE) -> Any:
    """Return the matrix if its rows are probabilities; raise a ValueError that names the first row that is not.

    Rows are finite, not negative, and sum to one (or are all zero, where an episode may end). Rows that are off by more
    than rounding, but within the tolerance, are scaled, because near discount 1 the difference matters.
    """
    entries = matrix.data if sparse.issparse(matrix) else matrix
    sums = _row_sums(matrix)
    deviation = sums - 1
    negative = entries.size and not entries.min() >= 0
    if not negative and deviation.dot(deviation) <= 1e-28 * len(deviation):
        return matrix
    if negative or not entries.max(initial=0.0) <= 1 + tolerance:
        row, column, value = _first_bad_entry(matrix, tolerance)
        raise ValueError(f"{what} row {row}, column {column} is {value:g}: probabilities lie in [0, 1]")
    wrong = np.abs(deviation) > tolerance
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
    if sparse.issparse(matrix):
        return sparse.csr_array(sparse.diags_array(1 / scale) @ matrix)
    return matrix / scale[:, None]


def ensure_rows(matrix: Any, what: str, may_end: bool = True) -> Any:
    """Return a traced matrix whose rows are checked at run time (`wane.checks.ensure`)."""
    tolerance = tolerance_of(matrix.dtype)

    def sums_to_one(rows: Any) -> Any:
        sums = rows.sum(-1)
        return (jnp.abs(sums - 1) <= tolerance) | (may_end & (sums == 0))

    ends = ", nor to 0 as where an episode ends" if may_end else ""
    outside = "call this outside of jit to see which one"
    checked = ensure(matrix, lambda p: p >= 0, f"the {what} has an entry that is negative or NaN: {outside}")
    return ensure(checked, sums_to_one, f"a row of the {what} does not sum to 1{ends}: {outside}")


def _first_bad_entry(matrix: Any, tolerance: float) -> tuple[int, int, float]:
    """Return row, column and value of the first entry that is not a probability."""
    entries = matrix.data if sparse.issparse(matrix) else matrix
    bad = np.argwhere(~((entries >= 0) & (entries <= 1 + tolerance)))[0]
    if sparse.issparse(matrix):
        row = int(np.searchsorted(matrix.indptr, bad[0], side="right")) - 1
        return row, int(matrix.indices[bad[0]]), float(entries[bad[0]])
    return int(bad[0]), int(bad[1]), float(entries[tuple(bad)])


def _row_sums(matrix: Any) -> Float[np.ndarray, " rows"]:
    ones = np.ones(matrix.shape[1])
    if sparse.issparse(matrix):
        return matrix @ ones
    if matrix.dtype == np.float64 and matrix.flags.c_contiguous:
        return blas.dgemv(1.0, matrix.T, ones, trans=1)  # This is faster than a sum over an axis.
    return matrix.sum(axis=1, dtype=np.float64)


def _others(wrong: Bool[np.ndarray, " rows"]) -> str:
    count = int(wrong.sum()) - 1
    return f" (and {count} more such row{'s' if count > 1 else ''})" if count else ""
