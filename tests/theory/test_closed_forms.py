"""One test for each closed form: on random chains, against the paper's recursion or the sum over all histories."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import wane
from chains import CHAINS, discounts, forward_sum, kernels, lambdas

KERNEL = CHAINS["mixing"]


@given(kernel=kernels(), discount=discounts, lam=lambdas, seed=st.integers(0, 99))
def test_1_the_lambda_representation_is_the_rescaled_sr(kernel, discount, lam, seed):
    """Φ_λ = M / (λ + (1 − λ) d) solves the paper's recursion, uniform λ or not."""
    n, eye = len(kernel), np.eye(len(kernel))
    sr = np.linalg.inv(eye - discount * kernel)
    for lams in (lam, np.random.default_rng(seed).random(n)):
        phi = wane.lambda_representation(kernel, lams, discount=discount).matrix
        np.testing.assert_allclose(phi, sr / (lams + (1 - lams) * np.diag(sr)), rtol=1e-10, atol=1e-12)
        phi_next = discount * kernel @ phi
        np.testing.assert_allclose(phi, eye * (1 + lams * phi_next) + (1 - eye) * phi_next, rtol=1e-10, atol=1e-12)


def test_1_special_cases():
    sr = np.linalg.inv(np.eye(5) - 0.9 * KERNEL)
    np.testing.assert_allclose(wane.successor_representation(KERNEL, discount=0.9).matrix, sr, rtol=1e-12)
    fr = wane.first_occupancy_representation(KERNEL, discount=0.9).matrix
    np.testing.assert_allclose(fr, sr / np.diag(sr), rtol=1e-12)
    np.testing.assert_allclose(np.diag(fr), 1.0)
    for gamma_zero in (0.0, 0.5, 1.0):
        np.testing.assert_allclose(wane.lambda_representation(KERNEL, gamma_zero, discount=0.0).matrix, np.eye(5))


@given(kernel=kernels(), discount=discounts, lam=lambdas)
def test_2_diminishing_rewards_are_stationary_rewards_rescaled(kernel, discount, lam):
    rewards = np.arange(1.0, len(kernel) + 1)
    sr = np.linalg.inv(np.eye(len(kernel)) - discount * kernel)
    for depletion in (wane.Geometric(lam), wane.FirstVisits(2), wane.Hyperbolic(1.0)):
        stationary = wane.equivalent_rewards(rewards, depletion, np.diag(sr))
        value = wane.representation(kernel, depletion, discount=discount).values(rewards)
        np.testing.assert_allclose(sr @ stationary, value, rtol=1e-9)


def test_3_any_curve():
    """Φ_f = F · G_f(R), against the sum over all histories."""
    kernel = CHAINS["never reached"]
    for depletion in (
        wane.Geometric(0.3),
        wane.FirstVisits(3),
        wane.Hyperbolic(1.0),
        wane.Hyperbolic(0.4),
        wane.PowerLaw(1.7),
        wane.Listed([0.2, 1.0, -1.0], tail=0.5),
    ):
        phi = wane.representation(kernel, depletion, discount=0.5).matrix
        for site in range(3):
            np.testing.assert_allclose(phi[:, site], forward_sum(kernel, depletion, 0.5, site, steps=32), atol=1e-9)


def test_3_first_visits_solve_the_papers_recursion():
    """Its appendix C: Φ_(N) = 1(s = s') (1 + γ P Φ_(N−1)) + 1(s ≠ s') γ P Φ_(N), which it calls intractable."""
    eye, before = np.eye(5), np.zeros((5, 5))
    for n in range(1, 6):
        phi = wane.n_occupancy_representation(KERNEL, n, discount=0.9).matrix
        np.testing.assert_allclose(
            phi, eye * (1 + 0.9 * KERNEL @ before) + (1 - eye) * (0.9 * KERNEL @ phi), rtol=1e-10
        )
        before = phi
    np.testing.assert_allclose(
        wane.n_occupancy_representation(KERNEL, 10_000, discount=0.9).matrix,
        wane.successor_representation(KERNEL, discount=0.9).matrix,
        rtol=1e-10,
    )


@given(kernel=kernels(), discount=discounts, known=st.sampled_from([0.2, 0.9, 1.0]), wanted=lambdas)
def test_4_any_lambda_above_zero_gives_every_other(kernel, discount, known, wanted):
    phi = wane.lambda_representation(kernel, known, discount=discount).matrix
    other = wane.from_lambda_representation(phi, known, discount=discount).with_depletion(wane.Geometric(wanted)).matrix
    np.testing.assert_allclose(
        other, wane.lambda_representation(kernel, wanted, discount=discount).matrix, rtol=1e-8, atol=1e-10
    )


def test_5_derivatives():
    exact = wane.lambda_derivative(wane.lambda_representation(KERNEL, 0.4, discount=0.9))
    traced = jax.jacfwd(lambda lam: wane.lambda_representation(jnp.asarray(KERNEL), lam, discount=0.9).matrix)(0.4)
    np.testing.assert_allclose(traced, exact, rtol=1e-9)


@given(seed=st.integers(0, 200), discount=discounts, lam=lambdas)
def test_6_the_state_action_form_is_one_backup(seed, discount, lam):
    rng = np.random.default_rng(seed)
    mdp = wane.MDP(rng.dirichlet(np.full(4, 0.3), (4, 3)))
    policy = rng.dirichlet(np.ones(3), 4)
    phi = wane.lambda_representation(mdp.under(policy), lam, discount=discount)
    phi_next, visited = mdp.backup(phi.matrix), np.eye(4)[:, None]
    by_hand = visited * (1 + discount * lam * phi_next) + discount * (1 - visited) * phi_next
    np.testing.assert_allclose(phi.action_matrix(mdp), by_hand, rtol=1e-9, atol=1e-12)
    rewards = rng.normal(size=4)
    np.testing.assert_allclose(phi.q_values(mdp, rewards), by_hand @ rewards, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose((policy * phi.q_values(mdp, rewards)).sum(1), phi.values(rewards), rtol=1e-9, atol=1e-9)


@given(kernel=kernels(), discount=discounts, lam=lambdas)
def test_7_patches(kernel, discount, lam):
    n = len(kernel)
    patch = np.arange((n + 1) // 2)
    inside = np.isin(np.arange(n), patch)
    phi = wane.patch_representation(kernel, [patch], wane.Geometric(lam), discount=discount).matrix[:, 0]
    phi_next = discount * kernel @ phi
    np.testing.assert_allclose(phi, np.where(inside, 1 + lam * phi_next, phi_next), rtol=1e-9, atol=1e-10)


def test_8_eligibility_traces_in_both_conventions():
    """M diag(c − (1 − λ_d)(d_{γλ_r} − 1)) with c = 1 for the reward, λ_d for the paper's Ω; and Ω solves the paper's
    recursion.
    """
    drop, regrow, gamma, eye = 0.4, 0.7, 0.9, np.eye(5)
    sr, fading = (np.linalg.inv(eye - g * KERNEL) for g in (gamma, gamma * regrow))
    lost = (1 - drop) * (np.diag(fading) - 1)
    omega = wane.representation(
        KERNEL, wane.EligibilityTrace(drop, regrow, equation="representation"), discount=gamma
    ).matrix
    np.testing.assert_allclose(omega, sr * (drop - lost), rtol=1e-10)
    recursion = eye * (drop - gamma * regrow * (1 - drop) * KERNEL @ fading) + gamma * KERNEL @ omega
    np.testing.assert_allclose(omega, recursion, rtol=1e-9)
    reward = wane.representation(KERNEL, wane.EligibilityTrace(drop, regrow), discount=gamma).matrix
    np.testing.assert_allclose(reward, sr * (1 - lost), rtol=1e-10)


def test_9_total_time_in_both_signs():
    """F_{γq} / (1 − (λ_d/q) R_{γq}); with q = λ_r it solves the paper's recursion."""
    drop, regrow, gamma, eye = 0.4, 0.95, 0.9, np.eye(5)
    for form, q in [("reward", 1 / regrow), ("representation", regrow)]:
        sr = np.linalg.inv(eye - gamma * q * KERNEL)
        d = np.diag(sr)
        total = wane.representation(KERNEL, wane.TotalTime(drop, regrow, equation=form), discount=gamma).matrix
        np.testing.assert_allclose(total, sr / d / (1 - drop / q * (1 - 1 / d)), rtol=1e-9)
    recursion = eye + gamma * (drop * eye + 1 - eye) * (regrow * (1 - eye) + eye) * (KERNEL @ total)
    np.testing.assert_allclose(total, recursion, rtol=1e-9)


def test_10_time_elapsed_by_the_full_chain_of_state_and_memory():
    """The n · L linear system of (state, visits, steps since), cut at 25 visits and 60 steps, for γ = 0.6."""
    depletion, gamma, site, visits, steps = wane.TimeElapsed(0.5, 0.5), 0.6, 1, 25, 60
    kernel, n = CHAINS["never reached"], 3
    value = np.zeros((n, visits + 1, steps + 1))
    count, since = np.meshgrid(np.arange(visits + 1), np.maximum(np.arange(steps + 1), 1), indexing="ij")
    worth = depletion.worth(type(depletion.initial())(count, since))
    more, later = np.minimum(np.arange(visits + 1) + 1, visits), np.minimum(np.arange(steps + 1) + 1, steps)
    for _ in range(80):
        value_next = gamma * np.tensordot(kernel, value, axes=1)
        waited = np.where(count > 0, value_next[:, :, later], value_next)
        waited[site] = worth + value_next[site][more, 1][:, None]
        value = waited
    exact = wane.representation(kernel, depletion, discount=gamma, sites=[site])
    np.testing.assert_allclose(exact.matrix[:, 0], value[:, 0, 1], atol=1e-7)


@given(kernel=kernels(), lam=st.sampled_from([0.0, 0.5, 0.9]))
def test_11_undiscounted(kernel, lam):
    phi = wane.lambda_representation(kernel, lam, discount=1.0)
    limit = wane.lambda_representation(kernel, lam, discount=1 - 1e-10).matrix
    np.testing.assert_allclose(phi.matrix, limit, atol=1e-3)
    np.testing.assert_allclose(phi.matrix, phi.first_visit / (1 - lam * phi.revisit), rtol=1e-12)
