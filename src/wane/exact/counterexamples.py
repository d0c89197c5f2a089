"""Errors of the paper, each with the smallest case that shows it. `wane errata` prints them all.

Every function computes its case with the exact code of this package. It returns how much the case violates the paper's
statement, and how much it violates the corrected statement (never by more than 0).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wane.depletion import Geometric
from wane.exact import bounds
from wane.exact.bellman import bellman_step, bellman_target
from wane.exact.occupancy import first_visit_and_escape
from wane.exact.representations import lambda_representation, representation, successor_representation
from wane.mdp import MDP
from wane.regrowth import EligibilityTrace, TotalTime


class Counterexample(NamedTuple):
    """A statement of the paper, its correction, and a case that separates them."""

    where: str
    """the place in the paper"""
    claim: str
    """the statement as printed"""
    correction: str
    """the statement that holds"""
    case: str
    """the case in words"""
    violation: float
    """by how much the claim fails: positive"""
    corrected_violation: float
    """by how much the correction fails: zero or negative"""


ROUNDING = 1e-9

_LOOP = np.ones((1, 1))
_SWAP = np.array([[0.0, 1.0], [1.0, 0.0]])


def contraction() -> Counterexample:
    """Entries of Φ that agree need not agree after one step, because P mixes rows."""
    phi, other = np.zeros((2, 2)), np.array([[0.0, 0.0], [1.0, 0.0]])
    moved = np.abs(bellman_step(phi, _SWAP, 0.5, 0.9) - bellman_step(other, _SWAP, 0.5, 0.9))
    return Counterexample(
        "lemma B.2, contraction",
        "|GΦ − GΦ'|(s, s') ≤ γ |Φ − Φ'|(s, s')",
        "|GΦ − GΦ'|(s, s') ≤ γ max over s of |Φ − Φ'|(·, s')",
        "two states that swap, γ = 0.9, λ = ½; Φ and Φ' differ in one entry",
        float((moved - bounds.contraction(phi, other, 0.9, printed=True)).max()),
        float((moved - bounds.contraction(phi, other, 0.9)).max()),
    )


def convergence() -> Counterexample:
    """One state, λ = 1: the error after k steps is γ^k / (1 − γ), all of it on the diagonal."""
    discount, k, phi = 0.9, 5, np.zeros((1, 1))
    for _ in range(k):
        phi = bellman_step(phi, _LOOP, 1.0, discount)
    error = abs(float(phi[0, 0]) - 1 / (1 - discount))
    return Counterexample(
        "proposition 4.1, convergence",
        "|Φᵏ − Φ| ≤ γ^(k+1) / (1 − λγ)",
        "|Φᵏ − Φ| ≤ γ^k / (1 − λγ)",
        "one state, λ = 1, γ = 0.9, k = 5: the ratio is 1/γ, the largest possible",
        error - float(bounds.convergence(k, 1.0, discount, printed=True)),
        error - float(bounds.convergence(k, 1.0, discount)),
    )


def maximum() -> Counterexample:
    """The bound itself is right, but its proof is not: rows of Φ need not peak on the diagonal."""
    kernel = np.array([[0.0, 1.0], [0.0, 1.0]])
    phi = lambda_representation(kernel, 0.9, discount=0.9).matrix
    return Counterexample(
        "lemma B.3, proof",
        "Φ(s, s) ≥ Φ(s, s') for s' ≠ s",
        "Φ(s', s') ≥ Φ(s, s'): columns peak on the diagonal (the lemma itself holds)",
        "two states, the second absorbing, λ = γ = 0.9",
        float(phi[0, 1] - phi[0, 0]),
        float((phi - np.diag(phi)).max()),
    )


def subadditivity() -> Counterexample:
    """A set that is never reached adds nothing, so that equality holds."""
    slack = bounds.subadditivity(np.eye(2), [0], [1], 0.5, discount=0.9)
    return Counterexample(
        "lemma B.4, subadditivity",
        "Φ(s, A ∪ B) < Φ(s, A) + Φ(s, B) for all s, A, B and λ < 1",
        "≤, strict where A can be visited before B or B before A",
        "two absorbing states, A the one, B the other, λ = ½: equality at a share of 1 of the states",
        float((slack <= ROUNDING).mean()),
        -float(slack.min()) - ROUNDING,
    )


def mismatch() -> Counterexample:
    """One state, λ = 1 against λ̂ = 0.999: differences add up with every visit."""
    discount, lam, lam_hat = 0.99, 1.0, 0.999
    error = abs(_loop_value(lam, discount) - _loop_value(lam_hat, discount))
    return Counterexample(
        "lemma B.6, wrong λ",
        "‖Q_λ − Q_λ̂‖ ≤ |λ − λ̂| ‖r‖ / (1 − γ)",
        "‖Q_λ − Q_λ̂‖ ≤ γ |λ − λ̂| ‖r‖ / (1 − γ)²",
        "one state, r = 1, γ = 0.99, λ = 1, λ̂ = 0.999: exceeded 90-fold",
        error - bounds.mismatch(lam, lam_hat, discount, 1.0, printed=True),
        error - bounds.mismatch(lam, lam_hat, discount, 1.0),
    )


def trap() -> tuple[MDP, np.ndarray, np.ndarray]:
    """Return an MDP of four states and two actions, rewards, and the policy that is best if only the last state pays.

    State 0 leads to 1. State 1 leads to 3 (action 0) or to 2 (action 1). State 2 leads to 1, and 3 stays. The rewards
    are 0, 1, 1, 5. Greedy improvement of the policy loops between 1 and 2 for ever, because in each of them the other
    looks unvisited.
    """
    mdp = MDP(np.array([[1, 1], [3, 2], [1, 1], [3, 3]]))
    return mdp, np.array([0.0, 1.0, 1.0, 5.0]), np.array([0, 0, 0, 0])


def gpi() -> Counterexample:
    """At a state without reward the paper allows the GPI policy to lose nothing; here it loses 3.24 of 4.95."""
    discount, lam = 0.9, 0.0
    mdp, rewards, base = trap()
    q_base = lambda_representation(mdp.under(base), lam, discount=discount).q_values(mdp, rewards)
    q = lambda_representation(mdp.under(q_base.argmax(1)), lam, discount=discount).q_values(mdp, rewards)
    lost = q_base - q
    allowed = np.array([bounds.gpi(lam, lam, discount, 5.0, r_state_action=r, printed=True) for r in rewards])
    return Counterexample(
        "theorem 5.1, GPI",
        "Q^π ≥ max Q^{π_j} − (… + γ (1 − λ) r(s, a) / (1 − λγ)) / (1 − γ)",
        "‖r‖∞ in place of r(s, a), and the corrected term for a wrong λ",
        "four states, λ = λ̂ = 0, γ = 0.9, ε = 0: at a state with r = 0 the GPI policy loses 3.24",
        float((lost - allowed[:, None]).max()),
        float(lost.max()) - bounds.gpi(lam, lam, discount, 5.0),
    )


def optimum_mismatch() -> Counterexample:
    """Two policies are equally good on average, and their values differ by more than any of their Q.

    State 0 stays for ever. States 1 and 2 lead to 0 or to each other, and all three pay 1 once. The best policies visit
    both 1 and 2: from 1 by way of 2, or from 2 by way of 1. Neither is best from both, or greedy on its own Q.
    """
    discount, lam, rewards = 0.9, 0.0, np.ones(3)
    mdp = MDP(np.array([[0, 0], [0, 2], [0, 1]]))
    policies = np.array([[0, a, b] for a in range(2) for b in range(2)])
    phis = [lambda_representation(mdp.under(policy), lam, discount=discount) for policy in policies]
    q = np.array([phi.q_values(mdp, rewards) for phi in phis])
    one, other = 1, 2  # from 2 by way of 1, and from 1 by way of 2
    optimality_gap = max(float((q - q[each]).max()) for each in (one, other))
    values = q[np.arange(4)[:, None], np.arange(3), policies]
    return Counterexample(
        "lemma B.7, proof",
        "|Q^{π*}(s, π*(s)) − Q_i^{π_i*}(s, π_i*(s))| ≤ ‖Q^{π*} − Q_i^{π_i*}‖∞",
        "‖Q^{π*} − Q_i^{π_i*}‖∞ ≤ ‖r − r_i‖∞ / (1 − γ) + by how much a policy can be beaten on its own task",
        "three states, λ = 0, γ = 0.9, r = r_i: values differ by 0.81, and no Q by more than 0.081",
        float(np.abs(values[one] - values[other]).max() - np.abs(q[one] - q[other]).max()),
        float(np.abs(q[one] - q[other]).max())
        - bounds.optimum_mismatch(lam, discount, rewards, rewards, optimality_gap)
        - ROUNDING,
    )


def gpi_extension() -> Counterexample:
    """One state and one action: all policies are optimal, and the wrong λ alone breaks the bound."""
    discount, lam, lam_hat, r = 0.99, 1.0, 0.999, np.ones(1)
    error = abs(_loop_value(lam, discount) - _loop_value(lam_hat, discount))
    return Counterexample(
        "theorem B.1, extension of GPI",
        "‖Q_λ^{π*} − Q_λ̂^π‖ ≤ 2/(1 − γ) (½ |λ − λ̂| ‖r‖ + …) + (1 − λ)/(1 − λγ) C",
        "with γ |λ − λ̂| ‖r‖ / (1 − γ)² for a wrong λ, and C = γ ‖r_i‖ / (1 − γ)",
        "one state, one action, γ = 0.99, λ = 1, λ̂ = 0.999",
        error - bounds.gpi_extension(lam, lam_hat, discount, r, r, r[None], printed=True),
        error - bounds.gpi_extension(lam, lam_hat, discount, r, r, r[None]),
    )


def target_action() -> Counterexample:
    """T* as printed takes a_{t+1} as the best action of s_t; the optimal values are not its fixed point."""
    discount, rewards, table = 0.9, np.array([1.0, 0.0]), np.array([[0, 1], [1, 0]])
    mdp, visited = MDP(table), np.eye(2)[:, None]
    phi = successor_representation(mdp.under([0, 1]), discount=discount).action_matrix(mdp)
    best = (phi @ rewards).argmax(1)
    right = bellman_target(phi[table, best[table]], visited, 1.0, discount)
    printed = bellman_target(phi[table, best[:, None]], visited, 1.0, discount)
    return Counterexample(
        "section 5.2, T*_λ",
        "a_{t+1} = argmax_a Q_λ(s_t, a)",
        "a_{t+1} = argmax_a Q_λ(s_{t+1}, a), as in the paper's own algorithm 1",
        "two states, stay or go, λ = 1: the optimal Φ is not a fixed point of the printed operator",
        float(np.abs(printed - phi).max()),
        float(np.abs(right - phi).max()) - ROUNDING,
    )


def lambda_operator() -> Counterexample:
    """The squared Bellman error with (11ᵀ + I), as printed, is not zero at the λR."""
    discount, lam = 0.9, 0.5
    phi = lambda_representation(_SWAP, lam, discount=discount).matrix
    phi_next, eye = _SWAP @ phi, np.eye(2)
    printed = eye * (1 + lam * discount * phi_next) + discount * (1 + eye) * phi_next
    return Counterexample(
        "appendix H, derivation of the λ operator's loss",
        "Φ = I ⊙ (11ᵀ + λγ PΦ) + γ (11ᵀ + I) ⊙ PΦ",
        "Φ = I ⊙ (11ᵀ + λγ PΦ) + γ (11ᵀ − I) ⊙ PΦ, as in the definition of the operator",
        "two states that swap, λ = ½, γ = 0.9",
        float(np.abs(printed - phi).max()),
        float(np.abs(bellman_step(phi, _SWAP, lam, discount) - phi).max()) - ROUNDING,
    )


def eligibility_trace() -> Counterexample:
    """The paper's Ω is not the value of the eligibility-trace reward, because Ω counts the present visit too."""
    discount, drop, regrow = 0.9, 0.5, 0.5
    omega = representation(_LOOP, EligibilityTrace(drop, regrow, equation="representation"), discount=discount).matrix
    value = _simulate_loop(EligibilityTrace(drop, regrow), discount)
    ours = representation(_LOOP, EligibilityTrace(drop, regrow), discount=discount).matrix
    return Counterexample(
        "appendix J, eligibility trace",
        "Ω = E Σ γᵏ (1 − (1 − λ_d) Σ_{j ≤ k} …) is the representation of r = 1 − (1 − λ_d) Σ_{j < t} …",
        "the sums must agree: M diag(1 − (1 − λ_d)(d_{γλ_r} − 1)) belongs to the reward, with λ_d for the 1 to Ω",
        "one state, λ_d = λ_r = ½, γ = 0.9",
        abs(float(omega[0, 0]) - value),
        abs(float(ours[0, 0]) - value) - ROUNDING,
    )


def total_time() -> Counterexample:
    """The total-time reward grows while the agent is away, but its representation shrinks."""
    discount, drop, regrow = 0.8, 0.5, 0.9
    paper, ours = (
        representation(_SWAP, TotalTime(drop, regrow, equation), discount=discount, sites=[0]).matrix
        for equation in ("representation", "reward")
    )
    cycle = drop / regrow * discount**2
    value = 1 / (1 - cycle)
    return Counterexample(
        "appendix J, total time",
        "P = E Σ γᵏ λ_d^n λ_r^(k − n) is the representation of r = λ_d^n λ_r^(n − t)",
        "the exponent of λ_r must be n − k in both (or k − n in both)",
        "two states that swap, λ_d = ½, λ_r = 0.9, γ = 0.8",
        abs(float(paper[0, 0]) - value),
        abs(float(ours[0, 0]) - value) - ROUNDING,
    )


def improvement() -> Counterexample:
    """Improvement makes a policy better, not worse; and with λ < 1 even that can fail (see `gpi`)."""
    mdp, rewards = MDP(np.array([[0, 1], [0, 1]])), np.array([0.0, 1.0])
    worse = successor_representation(mdp.under([0, 0]), discount=0.9).q_values(mdp, rewards)
    better = successor_representation(mdp.under(worse.argmax(1)), discount=0.9).q_values(mdp, rewards)
    return Counterexample(
        "section 2, policy improvement",
        "π' improves on π if Q^π ≥ Q^π'",
        "π' improves on π if Q^π' ≥ Q^π",
        "two states, stay or go, λ = 1, one of them pays",
        float((better - worse).max()),
        float((worse - better).max()),
    )


ALL: tuple[Callable[[], Counterexample], ...] = (
    contraction,
    convergence,
    maximum,
    subadditivity,
    mismatch,
    gpi,
    optimum_mismatch,
    gpi_extension,
    target_action,
    lambda_operator,
    eligibility_trace,
    total_time,
    improvement,
)


def _loop_value(lam: float, discount: float) -> float:
    """Return the value of staying at a site for ever."""
    first_visit, escape, _, _ = first_visit_and_escape(_LOOP, discount, np.array([0]), "auto")
    return float(first_visit[0, 0] * Geometric(lam).generating_function(1 - escape, escape=escape)[0])


def _simulate_loop(depletion: EligibilityTrace, discount: float, steps: int = 400) -> float:
    """Return the discounted return of staying at a site, summed visit by visit."""
    memory, total = depletion.initial(), 0.0
    for t in range(steps):
        total += discount**t * float(depletion.worth(memory))
        memory = depletion.visit(memory)
    return total
