"""Patches whose reward grows back: the memory of the patch is represented by finitely many levels.

With L levels (`wane.exact.levels`), (state, level) is a chain with n · L states. A visit to the patch X moves the level
by the matrix V, any other step moves it by W, and

    Φ(·, X) = (I − γ (1_X P ⊗ V + (1 − 1_X) P ⊗ W))⁻¹ (1_X ⊗ worth),        at the level of a fresh patch.

Low levels give a lower bound of Φ, and high levels an upper bound.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse

from wane.depletion import Depletion
from wane.exact.graph import can_reach
from wane.exact.levels import Levels, enclosing_levels
from wane.exact.methods import Method
from wane.exact.representations import check_whole
from wane.exact.solve import solve
from wane.kernels import Matrix
from wane.limits import require_memory
from wane.types import Integer

USUAL_PAIRS = 200_000
"""Pairs of state and level that are made if `grid` is not given: solving for them takes about a second."""


def growing_patches(
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
    found = [_patch(checked, states, depletion.at_sites(i), discount, method, size) for i, states in enumerate(patches)]
    low, high = (np.stack([columns[side] for columns, _, _ in found], axis=1) for side in (0, 1))
    return low, high, max(residual for _, residual, _ in found), found[0][2]


def _patch(
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
