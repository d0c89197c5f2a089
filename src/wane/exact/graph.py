"""Who can get where: the structure of a kernel that discount 1 and diverging sums depend on."""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components


def _pattern(kernel: Any) -> sparse.csr_array:
    pattern = sparse.csr_array(kernel if sparse.issparse(kernel) else np.asarray(kernel))
    if pattern.nnz and not pattern.data.all():
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
