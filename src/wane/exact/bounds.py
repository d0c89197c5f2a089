"""The paper's bounds, as printed and as they hold.

With `printed=True` a function returns the bound as the paper prints it, otherwise the bound that holds. Where the
printed bound or its proof fails, `wane.exact.counterexamples` has a function of the same name. It returns a case in
which the printed bound or a step of its proof fails and the corrected bound holds.

| bound | the paper | here |
| --- | --- | --- |
| contraction (lemma B.2) | γ · the difference, entry by entry | γ · the largest difference in the column |
| convergence (proposition 4.1) | γ^(k+1) / (1 − λγ) | γ^k / (1 − λγ) |
| maximum (lemma B.3) | 1 / (1 − λγ), off the diagonal γ times that | the same; a step of its proof is false |
| subadditivity (lemma B.4) | Φ(A ∪ B) < Φ(A) + Φ(B) | ≤, strict if the agent can visit A and then B, or B and then A |
| λ mismatch (lemma B.6) | δ ‖r‖ / (1 − γ), δ = |λ − λ̂| | γ δ ‖r‖ / (1 − γ)² |
| GPI (theorem 5.1) | (2ε + δ ‖r‖ + γ (1 − λ) r(s, a) / (1 − λγ)) / (1 − γ) | ‖r‖ for r(s, a), mismatch corrected |
| another task, best policies (lemma B.7) | see `optimum_mismatch` | shorter; a step of its proof is false |
| another task, one policy (lemma B.8) | see `task_mismatch` | shorter: it holds without the λ term |
| GPI extension (theorem B.1) | see `gpi_extension` | shorter: two of its lemmas hold without their λ terms |

The corrected proofs, in short. Mismatch: |λⁿ − λ̂ⁿ| ≤ n δ, and a state was visited at most k times before step k, so the
error is at most Σ γᵏ k δ ‖r‖. GPI: the paper iterates an operator that mixes states, so its slack must be the largest
over states. Extension: for a fixed policy the value is linear in r, with weights that sum to at most 1/(1 − γ), so
‖Q_r − Q_r'‖ ≤ ‖r − r'‖ / (1 − γ) without a λ term. This is lemma B.8. Lemma B.7 compares the best policies of two
tasks, Q_r^π − Q_r'^π' = (Q_r^π − Q_r'^π) + (Q_r'^π − Q_r'^π'). The second bracket is the amount by which π beats π' on
the task of π'. It is at most 0 if π' is best from every state, but with λ < 1 there need not be a policy that is best
from every state. The paper's proof compares the two policies at different actions, which is valid only for policies
that are greedy on their own Q. Theorem B.1's constant C drops the ‖r_i‖ of its lemma B.5.
"""

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from jaxtyping import Float

from wane.checks import check_range, is_traced
from wane.depletion import Diminishing, Geometric
from wane.exact.patches import patch_representation
from wane.exact.system import check_cancellation
from wane.kernels import KernelLike
from wane.mdp import check_discount
from wane.types import ArrayLike, Integer, Numbers, Real, Scalar

Bound = TypeVar("Bound", bound=Callable[..., Any])


def _printed_was_form(bound: Bound) -> Bound:
    """Let `form="paper"` and `form="corrected"`, the words of 0.2.0, stand for `printed` for one release."""

    @wraps(bound)
    def either(*args: Any, form: str | None = None, **named: Any) -> Any:
        if form is not None:
            warnings.warn("`form` is now `printed`, True for the paper's bound", DeprecationWarning, stacklevel=2)
            named["printed"] = form == "paper"
        return bound(*args, **named)

    return cast(Bound, either)


def _check(lam: ArrayLike, discount: Scalar, *others: ArrayLike) -> None:
    """Raise a ValueError unless λ and γ lie in [0, 1] and the other numbers are sizes: finite and not negative."""
    check_discount(discount)
    for each in np.atleast_1d(np.asarray(lam)) if not is_traced(lam) else ():
        Geometric(float(each))
    for each in others:
        check_range("the size of a reward, error or difference", each, 0, np.inf, "give its absolute value, and finite")


def _one_minus(lam: Any, discount: Any) -> Any:
    """Return 1 − λγ as a sum, which loses no digits where both are close to 1."""
    return (1 - discount) + discount * (1 - lam)


def _over(numerator: Any, denominator: Any) -> Any:
    """Return the quotient: 0 / 0 is 0, because it stands for a sum of zeros, and anything else over 0 is infinite."""
    if is_traced(numerator, denominator):
        return numerator / denominator
    top, bottom = np.broadcast_arrays(np.asarray(numerator, float), np.asarray(denominator, float))
    infinite = np.where(top == 0, 0.0, np.inf)
    return np.divide(top, bottom, out=infinite, where=bottom > 0)[()]


@_printed_was_form
def contraction(phi: ArrayLike, other: ArrayLike, discount: Real, printed: bool = False) -> np.ndarray:
    """Return an upper bound of |G Φ − G Φ'|, entry by entry."""
    check_discount(discount)
    difference = np.abs(np.asarray(phi) - np.asarray(other))
    if not printed:
        difference = np.broadcast_to(difference.max(axis=0), difference.shape)
    return discount * difference


@_printed_was_form
def convergence(k: Integer, lam: ArrayLike, discount: Scalar, printed: bool = False) -> Numbers:
    """Return an upper bound of |Φᵏ − Φ_λ| after k applications of G_λ to (1 − λ) I. It is infinite if λ = γ = 1."""
    _check(lam, discount, k)
    return _over(discount ** (k + printed), _one_minus(np.asarray(lam), discount))


def maximum(lam: Numbers, discount: Scalar) -> tuple[Numbers, Numbers]:
    """Return the largest values that Φ_λ can take on and off the diagonal. Both are attained, or infinite."""
    _check(lam, discount)
    largest = _over(1.0, _one_minus(lam, discount))
    return largest, discount * largest


@_printed_was_form
def mismatch(lam: Real, lam_hat: Real, discount: Real, r_max: Real, printed: bool = False) -> float:
    """Return an upper bound of ‖Q_λ − Q_λ̂‖∞ for one policy. It is infinite if γ = 1 and the λ's differ."""
    _check([lam, lam_hat], discount, r_max)
    difference, rest = abs(lam - lam_hat) * r_max, 1 - discount
    return float(_over(difference, rest) if printed else _over(discount * difference, rest * rest))


@_printed_was_form
def gpi(
    lam: Real,
    lam_hat: Real,
    discount: Real,
    r_max: Real,
    epsilon: Real = 0.0,
    r_state_action: Real | None = None,
    printed: bool = False,
) -> float:
    """Return a bound b on how far the GPI policy can fall below its base policies: Q_λ^π ≥ max_j Q_λ̂^{π_j} − b.

    The agent believes in λ̂ and ranks actions by estimates within ε of Q_λ̂. The printed bound needs r(s, a) as
    `r_state_action` and raises a ValueError without it. The corrected one applies the theorem in the world that the
    agent believes in and then passes to the true world, so its last term contains λ̂.
    """
    _check([lam, lam_hat], discount, r_max, epsilon)
    if printed:
        if r_state_action is None:
            raise ValueError("the printed bound needs r(s, a): pass r_state_action")
        last = _over(discount * (1 - lam), _one_minus(lam, discount)) * r_state_action
        return float(_over(2 * epsilon + abs(lam - lam_hat) * r_max + last, 1 - discount))
    last = _over(discount * (1 - lam_hat), _one_minus(lam_hat, discount)) * r_max
    return float(_over(2 * epsilon + last, 1 - discount) + mismatch(lam, lam_hat, discount, r_max))


@_printed_was_form
def task_mismatch(lam: Real, discount: Real, r: ArrayLike, r_i: ArrayLike, printed: bool = False) -> float:
    """Return an upper bound of ‖Q_r^π − Q_{r_i}^π‖∞ for one policy on two tasks (lemma B.8). Both bounds hold."""
    off = np.abs(np.asarray(r, float) - np.asarray(r_i, float)).max()
    _check(lam, discount, off)
    extra = _over(discount * (1 - lam), _one_minus(lam, discount)) if printed else 0.0
    return float(_over(off * (1 + extra), 1 - discount))


@_printed_was_form
def optimum_mismatch(
    lam: Real,
    discount: Real,
    r: ArrayLike,
    r_i: ArrayLike,
    optimality_gap: Real = 0.0,
    printed: bool = False,
) -> float:
    """Return an upper bound of ‖Q_r^{π*} − Q_{r_i}^{π_i*}‖∞ for the best policies of two tasks (lemma B.7).

    `optimality_gap` is the largest amount by which another policy beats either of them on its own task, at any state
    and action. It is 0 if each is best from every state, as with λ = 1. The printed bound has a larger term with λ
    instead.
    """
    _check(lam, discount, optimality_gap)
    one_policy = task_mismatch(lam, discount, r, r_i, printed)
    if not printed:
        return one_policy + float(optimality_gap)
    size = min(np.abs(np.asarray(r, float)).max(), np.abs(np.asarray(r_i, float)).max())
    fading = _over(discount * (1 - lam), _one_minus(lam, discount))
    return one_policy + float(_over(fading * size, 1 - discount))


@_printed_was_form
def gpi_extension(
    lam: Real,
    lam_hat: Real,
    discount: Real,
    r: ArrayLike,
    r_i: ArrayLike,
    r_base: ArrayLike,
    epsilon: Real = 0.0,
    optimality_gap: Real = 0.0,
    printed: bool = False,
) -> float:
    """Return how far GPI over policies of tasks r_base, acting for task r_i, can fall below the best policy of task r.

    As in the paper, the agent ranks actions by λ and is judged by λ̂: the corrected bound is one of Q_λ^{π*} − Q_λ̂^π.
    Unlike for stationary rewards, one policy need not be best from all states: `optimality_gap` is the largest amount
    by which another policy beats a base policy on the base policy's own task.
    """
    task, acted, base = np.asarray(r, float), np.asarray(r_i, float), np.atleast_2d(np.asarray(r_base, float))
    size, size_acted, sizes_base = np.abs(task).max(), np.abs(acted).max(), np.abs(base).max(axis=1)
    _check([lam, lam_hat], discount, size, size_acted, sizes_base, epsilon, optimality_gap)
    off, nearest = np.abs(task - acted).max(), np.abs(acted - base).max(axis=1).min()
    rest, fading = 1 - discount, _over(1 - lam, _one_minus(lam, discount))
    if printed:
        sizes = min(size, size_acted) + min(size_acted, sizes_base.min())
        c = _over(discount * fading * (2 * off + 2 * nearest + sizes), rest)
        return float(_over(2 * (0.5 * abs(lam - lam_hat) * size + epsilon + off + nearest), rest) + c)
    acting = _over(2 * epsilon + discount * fading * size_acted, rest)
    wrong_lam = mismatch(lam, lam_hat, discount, size)
    return float(_over(2 * (off + nearest), rest) + acting + optimality_gap + wrong_lam)


def subadditivity(
    kernel: KernelLike, a: ArrayLike, b: ArrayLike, depletion: Diminishing | ArrayLike, *, discount: Scalar
) -> Float[np.ndarray, " states"]:
    """Return Φ(s, A) + Φ(s, B) − Φ(s, A ∪ B) for disjoint patches, which is never negative.

    Raises InaccurateSolve if all Φ are so large that their rounding hides the difference.
    """
    curve = depletion if isinstance(depletion, Diminishing) else Geometric(depletion)
    both = np.concatenate([np.atleast_1d(a), np.atleast_1d(b)])
    phi = patch_representation(kernel, [a, b, both], curve, discount=discount).matrix
    slack = phi[:, 0] + phi[:, 1] - phi[:, 2]
    # In 64 bits an error far below the reward of one visit does no harm, however small the difference is.
    check_cancellation(phi.sum(1).max(), np.maximum(slack.max(), 1.0))
    return slack
