"""Which states can be reached from which, and how large the factors of a sparse kernel would be.

The recurrent classes decide whether sums at discount 1 are finite; the costs of the solvers in `wane.exact.methods`
depend on the shape of the graph.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int
from scipy import sparse
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from wane.kernels import Matrix, reachable


def _pattern(kernel: Matrix) -> Any:
    """Return the kernel as a CSR array without explicit zeros. The caller's arrays are not changed."""
    pattern = sparse.csr_array(kernel if sparse.issparse(kernel) else np.asarray(kernel))
    if pattern.nnz and not pattern.data.all():
        pattern = pattern.copy()
        pattern.eliminate_zeros()
    return pattern


def recurrent_classes(kernel: Matrix) -> Int[np.ndarray, " states"]:
    """Return the index of the recurrent class of each state, or −1 if the state is transient or ends an episode."""
    pattern = _pattern(kernel)
    count, component = connected_components(pattern, directed=True, connection="strong")
    source, target = component[pattern.tocoo().coords[0]], component[pattern.indices]
    transient = np.zeros(count, bool)
    transient[source[source != target]] = True
    transient[component[np.diff(pattern.indptr) == 0]] = True
    return np.where(transient[component], -1, component)


def can_reach(kernel: Matrix, states: Int[np.ndarray, " goals"]) -> Bool[np.ndarray, " states"]:
    """Return a mask of the states from which any of the given states can be reached (these included)."""
    return reachable(_pattern(kernel).T, states)


class GraphShape(NamedTuple):
    """The properties of a graph on which the costs of sparse solvers depend."""

    width: float
    """the size of the separator that determines the fill of a factorisation"""
    depth: float
    """the number of fronts between the two ends of the chain"""
    squared_degrees: float
    """the sum of the squared degrees, which is large where some states have very many neighbours"""


def graph_shape(kernel: Any) -> GraphShape:
    """Return the shape of the graph of a CSR kernel, with edges in both directions."""
    n = kernel.shape[0]
    pattern = sparse.csr_array((np.ones(kernel.nnz, np.int8), kernel.indices, kernel.indptr), shape=kernel.shape)
    graph = sparse.csr_array(pattern + pattern.T + sparse.eye_array(n, format="csr").astype(np.int8))
    order = reverse_cuthill_mckee(graph, symmetric_mode=True)
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    # A state belongs to the front from the place of its first neighbour to its own place.
    entered = np.minimum.reduceat(place[graph.indices], graph.indptr[:-1])
    front = np.cumsum(np.bincount(entered, minlength=n) - 1)
    width = _separator_work(front) ** (1 / 3)
    edges = (graph.nnz - n) // 2
    # A graph with c independent cycles has separators of at most c + 1 states: decisive for trees.
    if edges - n < width:
        parts = connected_components(graph, directed=False, return_labels=False)
        width = min(width, edges - n + parts + 1.0)
    degree = np.diff(graph.indptr).astype(np.float64)
    return GraphShape(width, n / (front.mean() + 1.0), float(degree @ degree))


def _separator_work(front: Int[np.ndarray, " places"]) -> float:
    """Return the cube of the widest front, or the sum over the parts if cutting at a bottleneck makes it smaller."""
    widest, quarter = float(front.max()) ** 3, front.size // 4
    if front.size < 16:
        return widest
    cut = quarter + int(np.argmin(front[quarter:-quarter]))
    narrow = float(front[cut]) ** 3
    if 2.0 * narrow > widest:
        return widest
    return min(widest, narrow + _separator_work(front[:cut]) + _separator_work(front[cut + 1 :]))
