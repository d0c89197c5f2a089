"""The paper's bounds, as printed and as they hold.

Every function takes form="corrected" (default) or form="paper". Where the two differ, `wane.exact.counterexamples`
has a function of the same name that returns a case where the paper's form fails and the corrected one holds.

| bound | the paper | here |
| --- | --- | --- |
| contraction (lemma B.2) | γ · the difference, entry by entry | γ · the largest difference in the column |
| convergence (proposition 4.1) | γ^(k+1) / (1 − λγ) | γ^k / (1 − λγ) |
| maximum (lemma B.3) | 1 / (1 − λγ), off the diagonal γ times that | the same; a step of its proof is false |
| subadditivity (lemma B.4) | Φ(A ∪ B) < Φ(A) + Φ(B) | ≤, strict if the agent can visit A and then B, or B and then A |
| λ mismatch (lemma B.6) | δ ‖r‖ / (1 − γ), δ = |λ − λ̂| | γ δ ‖r‖ / (1 − γ)² |
| GPI (theorem 5.1) | (2ε + δ ‖r‖ + γ (1 − λ) r(s, a) / (1 − λγ)) / (1 − γ) | ‖r‖ for r(s, a), mismatch corrected |
| GPI extension (theorem B.1) | see `gpi_extension` | shorter: two of its lemmas hold without their λ terms |

Corrected proofs in one line each. Mismatch: |λⁿ − λ̂ⁿ| ≤ n δ, and a state was visited at most k times before step k,
so Σ γᵏ k δ ‖r‖. GPI: the paper iterates an operator that mixes states, so its slack must be the largest over states.
Extension: for a fixed policy the value is linear in r with weights that sum to at most 1/(1 − γ), so ‖Q_r − Q_r'‖ ≤
‖r − r'‖ / (1 − γ) with no λ term; the paper's lemma B.7 in addition compares each policy with itself at different
actions, which needs the policies to be greedy, and its constant C drops the ‖r_i‖ that its lemma B.5 brings in.
"""

from typing import Any, Literal

import numpy as np

from wane.depletion import Diminishing, Geometric
from wane.exact.patches import patch_representation

Form = Literal["corrected", "paper"]


def _is_paper(form: str) -> bool:
    if form not in ("corrected", "paper"):
        raise ValueError(f'form is "corrected" or "paper", got {form!r}')
    return form == "paper"


def contraction(phi: Any, other: Any, discount: float, form: Form = "corrected") -> np.ndarray:
    """An upper bound of |G Φ − G Φ'|, entry by entry."""
    difference = np.abs(np.asarray(phi) - np.asarray(other))
    if not _is_paper(form):
        difference = np.broadcast_to(difference.max(axis=0), difference.shape)
    return discount * difference


def convergence(k: int, lam: Any, discount: float, form: Form = "corrected") -> Any:
    """An upper bound of |Φᵏ − Φ_λ| after k applications of G_λ to (1 − λ) I."""
    return discount ** (k + _is_paper(form)) / np.maximum(1 - np.asarray(lam) * discount, 1e-300)


def maximum(lam: Any, discount: float) -> tuple[Any, Any]:
    """The largest values that Φ_λ can take on and off the diagonal; both are attained."""
    largest = 1 / (1 - lam * discount)
    return largest, discount * largest


def mismatch(lam: float, lam_hat: float, discount: float, r_max: float, form: Form = "corrected") -> float:
    """An upper bound of ‖Q_λ − Q_λ̂‖∞ for one policy."""
    wide = abs(lam - lam_hat) * r_max / (1 - discount)
    return wide if _is_paper(form) else wide * discount / (1 - discount)


def gpi(
    lam: float,
    lam_hat: float,
    discount: float,
    r_max: float,
    epsilon: float = 0.0,
    r_here: float | None = None,
    form: Form = "corrected",
) -> float:
    """How far the GPI policy can fall below its base policies: Q_λ^π ≥ max_j Q_λ̂^{π_j} − this.

    The agent ranks actions by estimates within ε of Q_λ̂, as it believes in λ̂. The paper's form wants r(s, a) as
    `r_here`. The corrected form applies the theorem in the agent's believed world and then crosses over, hence λ̂ in
    its last term.
    """
    if _is_paper(form):
        if r_here is None:
            raise ValueError("the paper's form needs r(s, a): pass r_here")
        last = discount * (1 - lam) * r_here / (1 - lam * discount)
        return (2 * epsilon + abs(lam - lam_hat) * r_max + last) / (1 - discount)
    last = discount * (1 - lam_hat) * r_max / (1 - lam_hat * discount)
    return (2 * epsilon + last) / (1 - discount) + mismatch(lam, lam_hat, discount, r_max)


def gpi_extension(
    lam: float,
    lam_hat: float,
    discount: float,
    r: Any,
    r_i: Any,
    r_base: Any,
    epsilon: float = 0.0,
    optimality_gap: float = 0.0,
    form: Form = "corrected",
) -> float:
    """How far GPI over policies of tasks r_base, acting for the task r_i, can fall below the best policy of the task r.

    As in the paper, the agent ranks actions by λ and is judged by λ̂: the corrected form bounds Q_λ^{π*} − Q_λ̂^π.
    Unlike for stationary rewards one policy need not be best from all states at once: `optimality_gap` is how much
    better than a base policy another can be on the base policy's own task.
    """
    r, r_i, r_base = np.asarray(r, float), np.asarray(r_i, float), np.atleast_2d(np.asarray(r_base, float))
    size, size_i, sizes = np.abs(r).max(), np.abs(r_i).max(), np.abs(r_base).max(axis=1)
    off, offs = np.abs(r - r_i).max(), np.abs(r_i - r_base).max(axis=1)
    far = 1 / (1 - discount)
    fading = (1 - lam) / (1 - lam * discount)
    if _is_paper(form):
        c = discount * far * (2 * off + 2 * offs.min() + min(size, size_i) + min(size_i, sizes.min()))
        return 2 * far * (0.5 * abs(lam - lam_hat) * size + epsilon + off + offs.min()) + fading * c
    acting = far * (2 * epsilon + discount * fading * size_i)
    return 2 * far * (off + offs.min()) + acting + optimality_gap + mismatch(lam, lam_hat, discount, size)


def subadditivity(kernel: Any, a: Any, b: Any, depletion: Diminishing | float, *, discount: float) -> np.ndarray:
    """Φ(s, A) + Φ(s, B) − Φ(s, A ∪ B) for disjoint patches: never negative."""
    depletion = depletion if isinstance(depletion, Diminishing) else Geometric(depletion)
    both = np.concatenate([np.atleast_1d(a), np.atleast_1d(b)])
    phi = patch_representation(kernel, [a, b, both], depletion, discount=discount).matrix
    return phi[:, 0] + phi[:, 1] - phi[:, 2]
