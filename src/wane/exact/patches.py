"""One resource that is spread over many states: the paper's λ operator (its section 4.1) on sets.

A patch X is visited whenever any of its states is, and all of it wears off. Let K(x, x') be the discounted probability
that the next visit to X after one in x is in x'. A curve f over visit counts pays

    u = Σₙ f(n) Kⁿ 1  on X,        Φ(s, X) = E[ γ^(time of the first visit to X) · u(state of that visit) ].

For the paper's λⁿ this is one system, Φ_λ(·, X) = (I − γDP)⁻¹ 1_X with D = λ on X and 1 elsewhere. It is not additive
over X, as the paper proves: splitting a patch into two that wear off separately is worth more
(`wane.exact.bounds.subadditivity`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from wane.depletion import SERIES_TOLERANCE, Diminishing, FirstVisits, Geometric, Listed, check_bound
from wane.exact.graph import can_reach
from wane.exact.methods import Method
from wane.exact.representations import check_parameters
from wane.exact.solve import solve
from wane.mdp import check_discount, check_kernel, check_sites
from wane.types import ArrayLike, KernelLike, Scalar

LONGEST_SUM = 200_000


class PatchRepresentation(NamedTuple):
    """Φ(s, X) for some patches."""

    matrix: Float[np.ndarray, "states patches"]
    residual: float
    """the largest relative residual of the linear systems behind it"""
    method: str
    """how these were solved"""

    def values(self, rewards: ArrayLike) -> Float[np.ndarray, " states"]:
        """Return V(s) for the first-visit reward r̄ of every patch."""
        pay = np.asarray(rewards, dtype=float)
        if pay.shape != self.matrix.shape[1:]:
            raise ValueError(
                f"rewards has shape {pay.shape}: give one r̄ for each of the {self.matrix.shape[1]} patches"
            )
        return self.matrix @ pay


def patch_representation(
    kernel: KernelLike,
    patches: Sequence[ArrayLike],
    depletion: Diminishing,
    *,
    discount: Scalar,
    method: str | Method = "auto",
) -> PatchRepresentation:
    """Return the exact representation of patches, each a list of states or a mask, for any curve over visit counts."""
    checked, gamma = check_kernel(kernel), float(check_discount(discount))
    if not isinstance(depletion, Diminishing):
        raise TypeError(f"a patch takes a depletion that counts visits (Diminishing), not {type(depletion).__name__}")
    if len(patches) == 0:
        raise ValueError("patches is empty: name at least one set of states")
    check_parameters(depletion, len(patches))
    sets = [check_sites(patch, checked.shape[0]) for patch in patches]
    if any(len(states) == 0 for states in sets):
        raise ValueError("a patch without states is never visited: leave it out")
    found = [_patch(checked, states, depletion.at_sites(i), gamma, method) for i, states in enumerate(sets)]
    matrix = np.stack([column for column, _, _ in found], axis=1)
    return PatchRepresentation(matrix, max(residual for _, residual, _ in found), found[0][2])


def _patch(
    kernel: Any, states: Int[np.ndarray, " patch"], depletion: Any, discount: float, method: str | Method
) -> tuple[Float[np.ndarray, " states"], float, str]:
    """Return Φ(·, X), the residual, and how it was solved."""
    n = kernel.shape[0]
    inside = np.zeros(n, bool)
    inside[states] = True
    if isinstance(depletion, Geometric) and discount < 1:
        scale = np.where(inside, float(depletion.lam), 1.0)
        solution = solve(kernel, inside.astype(float), discount=discount, scale=scale, method=method)
        return solution.x, solution.residual, solution.method
    units = np.zeros((n, len(states)))
    units[states, np.arange(len(states))] = 1
    first_visit, residual, how = _first_visits(kernel, inside, units, discount, method)
    next_visit = discount * (kernel[states] @ first_visit)
    return first_visit @ _sum_over_visits(next_visit, depletion), residual, how


def _first_visits(
    kernel: Any,
    inside: Bool[np.ndarray, " states"],
    units: Float[np.ndarray, "states patch"],
    discount: float,
    method: str | Method,
) -> tuple[Float[np.ndarray, "states patch"], float, str]:
    """Return E[γ^time; the first visit to the patch is in x] for every state and x, the residual, and the method.

    Only the states that can reach the patch are solved for: with discount 1 the system of the others is singular.
    """
    outside = np.flatnonzero(~inside & can_reach(kernel, np.flatnonzero(inside)))
    first_visit = units.copy()
    if len(outside) == 0:
        return first_visit, 0.0, "nothing to solve"
    rows = kernel[outside]
    solution = solve(rows[:, outside], discount * (rows @ units), discount=discount, method=method)
    first_visit[outside] = solution.x
    return first_visit, solution.residual, solution.method


def _sum_over_visits(next_visit: Float[np.ndarray, "patch patch"], depletion: Diminishing) -> np.ndarray:
    """Return Σₙ f(n) Kⁿ 1. The sum ends when the rest, at most bound · max Kⁿ1 / (1 − max K1), is negligible."""
    ones = np.ones(len(next_visit))
    escape = 1 - float((next_visit @ ones).max())
    if isinstance(depletion, Geometric) and (escape > 0 or float(depletion.lam) < 1):
        return np.linalg.solve(np.eye(len(next_visit)) - float(depletion.lam) * next_visit, ones)
    paying_visits = _number_of_paying_visits(depletion)
    if paying_visits is None:
        _check_summable(escape, depletion)
    powers, total = ones, np.zeros(len(next_visit))
    for n in range(LONGEST_SUM if paying_visits is None else paying_visits):
        worth = float(depletion.worth(n))
        check_bound(depletion, worth)
        total = total + worth * powers
        powers = next_visit @ powers
        if powers.max() * depletion.bound <= SERIES_TOLERANCE * escape:
            break
    return total


def _check_summable(escape: float, depletion: Diminishing) -> None:
    """Raise a ValueError if the sum over visits has infinitely many terms that count, or too many."""
    if escape <= 1e-12:
        raise ValueError(
            f"the patch is certain to be visited again and again, and the sum of what {depletion!r} pays there has no "
            "closed form or is infinite: discount, or use Geometric (λ < 1), FirstVisits or a Listed without tail"
        )
    terms = np.log(SERIES_TOLERANCE * escape / depletion.bound) / np.log1p(-escape) if escape < 1 else 1
    if terms > LONGEST_SUM:
        raise ValueError(
            f"summing {depletion!r} over the visits to a patch would take {terms:.1e} terms: discount more, or use "
            "Geometric, FirstVisits or a Listed without tail"
        )


def _number_of_paying_visits(depletion: Diminishing) -> int | None:
    """Return after how many visits nothing more is paid, or None if that never happens."""
    if isinstance(depletion, FirstVisits):
        return int(depletion.n)
    return len(depletion.values) if isinstance(depletion, Listed) and depletion.tail == 0 else None
