"""The paper's bounds, as printed and as they hold.

Every function takes form="corrected" (default) or form="paper". Where the two differ, `wane.exact.counterexamples` has
a function of the same name, which returns a case where the paper's form fails and the corrected one holds.

| bound | the paper | here |
| --- | --- | --- |
| contraction (lemma B.2) | γ · the difference, entry by entry | γ · the largest difference in the column |
| convergence (proposition 4.1) | γ^(k+1) / (1 − λγ) | γ^k / (1 − λγ) |
| maximum (lemma B.3) | 1 / (1 − λγ), off the diagonal γ times that | the same; a step of its proof is false |
| subadditivity (lemma B.4) | Φ(A ∪ B) < Φ(A) + Φ(B) | ≤, strict if the agent can visit A and then B, or B and then A |
| λ mismatch (lemma B.6) | δ ‖r‖ / (1 − γ), δ = |λ − λ̂| | γ δ ‖r‖ / (1 − γ)² |
| GPI (theorem 5.1) | (2ε + δ ‖r‖ + γ (1 − λ) r(s, a) / (1 − λγ)) / (1 − γ) | ‖r‖ for r(s, a), mismatch corrected |
| GPI extension (theorem B.1) | see `gpi_extension` | shorter: two of its lemmas hold without their λ terms |

The corrected proofs, in short. Mismatch: |λⁿ − λ̂ⁿ| ≤ n δ, and a state was visited at most k times before step k, so the
error is at most Σ γᵏ k δ ‖r‖. GPI: the paper iterates an operator that mixes states, so its slack must be the largest
over states. Extension: for a fixed policy the value is linear in r, with weights that sum to at most 1/(1 − γ), so
‖Q_r − Q_r'‖ ≤ ‖r − r'‖ / (1 − γ) without a λ term. The paper's lemma B.7 in addition compares each policy with itself
at different actions, which needs the policies to be greedy, and its constant C drops the ‖r_i‖ of its lemma B.5.
"""

from typing import Literal

import numpy as np
from jaxtyping import Float

from wane.depletion import Diminishing, Geometric
from wane.exact.patches import patch_representation
from wane.types import ArrayLike, Integer, KernelLike, Numbers, Real, Scalar

Form = Literal["corrected", "paper"]


def _is_paper(form: str) -> bool:
    if form not in ("corrected", "paper"):
        raise ValueError(f'form is "corrected" or "paper", got {form!r}')
    return form == "paper"


def contraction(phi: ArrayLike, other: ArrayLike, discount: Real, form: Form = "corrected") -> np.ndarray:
    """Return an upper bound of |G Φ − G Φ'|, entry by entry."""
    difference = np.abs(np.asarray(phi) - np.asarray(other))
    if not _is_paper(form):
        difference = np.broadcast_to(difference.max(axis=0), difference.shape)
    return discount * difference


def convergence(k: Integer, lam: ArrayLike, discount: Scalar, form: Form = "corrected") -> Numbers:
    """Return an upper bound of |Φᵏ − Φ_λ| after k applications of G_λ to (1 − λ) I."""
    return discount ** (k + _is_paper(form)) / np.maximum(1 - np.asarray(lam) * discount, 1e-300)


def maximum(lam: Numbers, discount: Scalar) -> tuple[Numbers, Numbers]:
    """Return the largest values that Φ_λ can take on and off the diagonal. Both are attained."""
    largest = 1 / (1 - lam * discount)
    return largest, discount * largest


def mismatch(lam: Real, lam_hat: Real, discount: Real, r_max: Real, form: Form = "corrected") -> float:
    """Return an upper bound of ‖Q_λ − Q_λ̂‖∞ for one policy."""
    paper = abs(lam - lam_hat) * r_max / (1 - discount)
    return float(paper if _is_paper(form) else paper * discount / (1 - discount))


def gpi(
    lam: Real,
    lam_hat: Real,
    discount: Real,
    r_max: Real,
    epsilon: Real = 0.0,
    r_state_action: Real | None = None,
    form: Form = "corrected",
) -> float:
    """Return how far the GPI policy can fall below its base policies: Q_λ^π ≥ max_j Q_λ̂^{π_j} − this.

    The agent believes in λ̂ and ranks actions by estimates within ε of Q_λ̂. The paper's form needs r(s, a) as
    `r_state_action`. The corrected form applies the theorem in the world that the agent believes in and then crosses
    over to the true one, hence λ̂ in its last term.
    """
    if _is_paper(form):
        if r_state_action is None:
            raise ValueError("the paper's form needs r(s, a): pass r_state_action")
        last = discount * (1 - lam) * r_state_action / (1 - lam * discount)
        return float((2 * epsilon + abs(lam - lam_hat) * r_max + last) / (1 - discount))
    last = discount * (1 - lam_hat) * r_max / (1 - lam_hat * discount)
    return float((2 * epsilon + last) / (1 - discount) + mismatch(lam, lam_hat, discount, r_max))


def gpi_extension(
    lam: Real,
    lam_hat: Real,
    discount: Real,
    r: ArrayLike,
    r_i: ArrayLike,
    r_base: ArrayLike,
    epsilon: Real = 0.0,
    optimality_gap: Real = 0.0,
    form: Form = "corrected",
) -> float:
    """Return how far GPI over policies of tasks r_base, acting for task r_i, can fall below the best policy of task r.

    As in the paper, the agent ranks actions by λ and is judged by λ̂: the corrected form bounds Q_λ^{π*} − Q_λ̂^π.
    Unlike for stationary rewards, one policy need not be best from all states at once: `optimality_gap` is how much
    better than a base policy another can be on the base policy's own task.
    """
    task, acted, base = np.asarray(r, float), np.asarray(r_i, float), np.atleast_2d(np.asarray(r_base, float))
    size, size_acted, sizes_base = np.abs(task).max(), np.abs(acted).max(), np.abs(base).max(axis=1)
    off, nearest = np.abs(task - acted).max(), np.abs(acted - base).max(axis=1).min()
    horizon = 1 / (1 - discount)
    fading = (1 - lam) / (1 - lam * discount)
    if _is_paper(form):
        sizes = min(size, size_acted) + min(size_acted, sizes_base.min())
        c = discount * horizon * (2 * off + 2 * nearest + sizes)
        return float(2 * horizon * (0.5 * abs(lam - lam_hat) * size + epsilon + off + nearest) + fading * c)
    acting = horizon * (2 * epsilon + discount * fading * size_acted)
    return float(2 * horizon * (off + nearest) + acting + optimality_gap + mismatch(lam, lam_hat, discount, size))


def subadditivity(
    kernel: KernelLike, a: ArrayLike, b: ArrayLike, depletion: Diminishing | ArrayLike, *, discount: Scalar
) -> Float[np.ndarray, " states"]:
    """Return Φ(s, A) + Φ(s, B) − Φ(s, A ∪ B) for disjoint patches, which is never negative."""
    curve = depletion if isinstance(depletion, Diminishing) else Geometric(depletion)
    both = np.concatenate([np.atleast_1d(a), np.atleast_1d(b)])
    phi = patch_representation(kernel, [a, b, both], curve, discount=discount).matrix
    return phi[:, 0] + phi[:, 1] - phi[:, 2]
