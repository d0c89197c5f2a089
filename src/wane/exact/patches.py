"""One resource spread over many states: the paper's λ operator (its section 4.1) on sets.

A patch X is visited whenever any of its states is, and all of it wears off. With K(x, x') the discounted probability
that the next visit to X after one in x is in x', a curve f over visit counts pays

    u = Σₙ f(n) Kⁿ 1  on X,      Φ(s, X) = E[γ^(first visit to X) u(where it is)].

For the paper's λⁿ that is one system, Φ_λ(·, X) = (I − γ D P)⁻¹ 1_X with D = λ on X and 1 elsewhere. It is not
additive over X, as the paper proves: splitting a patch into two that wear off separately is worth more
(`wane.exact.bounds.subadditivity`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wane.depletion import SERIES_TOLERANCE, Diminishing, FirstVisits, Geometric, check_bound
from wane.depletion import Sequence as ListedWorths
from wane.exact.graph import can_reach
from wane.exact.representation import check_parameters
from wane.exact.solve import solve
from wane.mdp import check_discount, check_kernel, check_sites

LONGEST_SUM = 200_000


class PatchRepresentation(NamedTuple):
    """Φ(s, X) for some patches."""

    matrix: np.ndarray
    """an array (states, patches)"""
    residual: float
    method: str

    def values(self, rewards: Any) -> np.ndarray:
        """V(s) for the first-visit reward r̄ of every patch."""
        rewards = np.asarray(rewards, dtype=float)
        if rewards.shape != self.matrix.shape[1:]:
            raise ValueError(
                f"rewards has shape {rewards.shape}: give one r̄ for each of the {self.matrix.shape[1]} patches"
            )
        return self.matrix @ rewards


def patch_representation(
    kernel: Any, patches: Sequence[Any], depletion: Diminishing, *, discount: float, method: Any = "auto"
) -> PatchRepresentation:
    """The exact representation of patches, each a list of states (or a mask), for any curve over visit counts."""
    kernel, discount = check_kernel(kernel), float(check_discount(discount))
    if not isinstance(depletion, Diminishing):
        raise TypeError(f"a patch takes a depletion that counts visits (Diminishing), not {type(depletion).__name__}")
    if len(patches) == 0:
        raise ValueError("patches is empty: name at least one set of states")
    check_parameters(depletion, len(patches))
    sets = [check_sites(patch, kernel.shape[0]) for patch in patches]
    if any(len(states) == 0 for states in sets):
        raise ValueError("a patch without states is never visited: leave it out")
    found = [_patch(kernel, states, depletion.at_sites(i), discount, method) for i, states in enumerate(sets)]
    matrix = np.stack([column for column, _, _ in found], axis=1)
    return PatchRepresentation(matrix, max(residual for _, residual, _ in found), found[0][2])


def _patch(kernel: Any, states: np.ndarray, depletion: Any, discount: float, method: Any):
    n = kernel.shape[0]
    inside = np.zeros(n, bool)
    inside[states] = True
    if isinstance(depletion, Geometric) and (discount < 1):
        scale = np.where(inside, float(depletion.lam), 1.0)
        solution = solve(kernel, inside.astype(float), discount=discount, scale=scale, method=method)
        return solution.x, solution.residual, solution.method
    hits = np.zeros((n, len(states)))
    hits[states, np.arange(len(states))] = 1
    first, residual, how = _first_hits(kernel, inside, hits, discount, method)
    back = discount * (kernel[states] @ first)
    return first @ _sum_over_visits(back, depletion), residual, how


def _first_hits(kernel: Any, inside: np.ndarray, hits: np.ndarray, discount: float, method: Any):
    """E[γ^time; where] of the first visit to the patch from every state, by a solve on the states that can reach it."""
    outside = np.flatnonzero(~inside & can_reach(kernel, np.flatnonzero(inside)))
    first = hits.copy()
    if len(outside) == 0:
        return first, 0.0, "nothing to solve"
    rows = kernel[outside]
    solution = solve(rows[:, outside], discount * (rows @ hits), discount=discount, method=method)
    first[outside] = solution.x
    return first, solution.residual, solution.method


def _sum_over_visits(back: np.ndarray, depletion: Diminishing) -> np.ndarray:
    """Σₙ f(n) Kⁿ 1, until Σ over the rest, at most bound · max Kⁿ1 / (1 − max K1), is negligible."""
    ones = np.ones(len(back))
    leaves = 1 - float((back @ ones).max())
    if isinstance(depletion, Geometric) and (leaves > 0 or float(depletion.lam) < 1):
        return np.linalg.solve(np.eye(len(back)) - float(depletion.lam) * back, ones)
    last = _last_paying_visit(depletion)
    if leaves <= 1e-12 and last is None:
        raise ValueError(
            f"the patch is certain to be visited again and again, and what {depletion!r} pays there in all has no "
            "closed form or is "
            "infinite: discount, or use Geometric (λ < 1), FirstVisits or a Sequence without tail"
        )
    terms = np.log(SERIES_TOLERANCE * leaves / depletion.bound) / np.log1p(-leaves) if 0 < leaves < 1 else 1
    if last is None and terms > LONGEST_SUM:
        raise ValueError(
            f"summing {depletion!r} over the visits to a patch would take {terms:.1e} terms: discount more, or "
            "use Geometric, "
            "FirstVisits or a Sequence without tail"
        )
    ahead, total = ones, np.zeros(len(back))
    for n in range(LONGEST_SUM if last is None else last):
        worth = float(depletion.worth(n))
        check_bound(depletion, worth)
        total = total + worth * ahead
        ahead = back @ ahead
        if ahead.max() * depletion.bound <= SERIES_TOLERANCE * leaves:
            break
    return total


def _last_paying_visit(depletion: Diminishing) -> int | None:
    if isinstance(depletion, FirstVisits):
        return int(depletion.n)
    return len(depletion.values) if isinstance(depletion, ListedWorths) and depletion.tail == 0 else None
