"""Who can get where, which discount 1 and diverging sums depend on, and how much a factorisation would fill up."""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components, reverse_cuthill_mckee


def _pattern(kernel: Any) -> sparse.csr_array:
    pattern = sparse.csr_array(kernel if sparse.issparse(kernel) else np.asarray(kernel))
    if pattern.nnz and not pattern.data.all():
        pattern = pattern.copy()  # the caller's own buffers otherwise
        pattern.eliminate_zeros()
    return pattern


def recurrent_classes(kernel: Any) -> np.ndarray:
    """The number of the recurrent class of each state, −1 for transient ones. Where an episode ends nothing recurs."""
    pattern = _pattern(kernel)
    count, component = connected_components(pattern, directed=True, connection="strong")
    source, target = component[pattern.tocoo().coords[0]], component[pattern.indices]
    transient = np.zeros(count, bool)
    transient[source[source != target]] = True
    transient[component[np.diff(pattern.indptr) == 0]] = True
    return np.where(transient[component], -1, component)


def can_reach(kernel: Any, states: np.ndarray) -> np.ndarray:
    """Whether each state can get to any of the given ones (they themselves can): a mask."""
    pattern, n = _pattern(kernel), kernel.shape[0]
    door = sparse.csr_array((np.ones(len(states)), (np.zeros(len(states), int), states)), shape=(1, n))
    backwards = sparse.block_array([[pattern.T, None], [door, sparse.csr_array((1, 1))]], format="csr")
    found = np.zeros(n + 1, bool)
    found[breadth_first_order(backwards, n, return_predecessors=False)] = True
    return found[:n]


def graph_shape(kernel: Any) -> tuple[float, float, float]:
    """Width of the separator that fill depends on, fronts from end to end, sum of squared degrees."""
    n = kernel.shape[0]
    pattern = sparse.csr_array((np.ones(kernel.nnz, np.int8), kernel.indices, kernel.indptr), shape=kernel.shape)
    graph = sparse.csr_array(pattern + pattern.T + sparse.eye_array(n, format="csr").astype(np.int8))
    order = reverse_cuthill_mckee(graph, symmetric_mode=True)
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    entered = np.minimum.reduceat(place[graph.indices], graph.indptr[:-1])
    front = np.cumsum(np.bincount(entered, minlength=n) - 1)  # from first neighbour to itself
    width = _separator_work(front) ** (1 / 3)
    edges = (graph.nnz - n) // 2
    if edges - n < width:
        parts = connected_components(graph, directed=False, return_labels=False)
        width = min(width, edges - n + parts + 1.0)
    degree = np.diff(graph.indptr).astype(np.float64)
    return width, n / (front.mean() + 1.0), float(degree @ degree)


def _separator_work(front: np.ndarray) -> float:
    """Cube of the widest front, or of the parts' widest if the chain has a bottleneck near its middle."""
    widest, quarter = float(front.max()) ** 3, front.size // 4
    if front.size < 16:
        return widest
    cut = quarter + int(np.argmin(front[quarter:-quarter]))
    narrow = float(front[cut]) ** 3
    if 2.0 * narrow > widest:
        return widest
    return min(widest, narrow + _separator_work(front[:cut]) + _separator_work(front[cut + 1 :]))
