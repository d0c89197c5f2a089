"""The paper's lemmas, propositions and theorems, in the form in which they hold; their errata are in test_errata.py."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wane
from chains import kernels, lambdas
from wane.exact import bounds
from wane.exact.bellman import bellman_step

discounts = st.sampled_from([0.3, 0.9, 0.97])


def test_impossibility():
    """Lemma 3.1: two chains agree in γ, λ, in r of a state and in the value of its only successor, yet not in its
    value.

    In both, state 0 pays 1 and leads to state 1. From there the first chain goes back to 0, the second on to a state
    that pays just so much that V(1) is the same. No operator that sees r, V and one-step expectations can tell them
    apart.
    """
    gamma, lam = 0.9, 0.5
    back = np.array([[0, 1.0, 0], [1.0, 0, 0], [0, 0, 0]])
    on = np.array([[0, 1.0, 0], [0, 0, 1.0], [0, 0, 0]])
    value_back = wane.lambda_representation(back, lam, discount=gamma).values([1.0, 0, 0])
    value_on = wane.lambda_representation(on, lam, discount=gamma).values([1.0, 0, value_back[1] / gamma])
    np.testing.assert_allclose(value_back[1], value_on[1], rtol=1e-12)
    assert abs(value_back[0] - value_on[0]) > 0.3
    stationary = wane.successor_representation(back, discount=gamma).values([1.0, 0, 0])
    again = wane.successor_representation(on, discount=gamma).values([1.0, 0, stationary[1] / gamma])
    np.testing.assert_allclose(stationary[:2], again[:2], rtol=1e-12)


@given(kernel=kernels(), discount=discounts, lam=lambdas)
def test_recursion_of_the_value(kernel, discount, lam):
    """V = r̄ + γ P V + γ (λ − 1) r̄ ⊙ diag(P Φ): what the impossibility proof starts from."""
    rewards = np.linspace(-1, 2, len(kernel))
    phi = wane.lambda_representation(kernel, lam, discount=discount)
    value = phi.values(rewards)
    back = np.diag(kernel @ phi.matrix)
    np.testing.assert_allclose(
        value,
        rewards + discount * kernel @ value + discount * (lam - 1) * rewards * back,
        rtol=1e-9,
        atol=1e-9,
    )


@given(kernel=kernels(), discount=discounts, lam=lambdas, seed=st.integers(0, 99))
def test_contraction(kernel, discount, lam, seed):
    phi, other = np.random.default_rng(seed).normal(size=(2, *kernel.shape))
    moved = np.abs(bellman_step(phi, kernel, lam, discount) - bellman_step(other, kernel, lam, discount))
    assert np.all(moved <= bounds.contraction(phi, other, discount) + 1e-12)


@given(kernel=kernels(), discount=discounts, lam=lambdas)
def test_convergence(kernel, discount, lam):
    exact = wane.lambda_representation(kernel, lam, discount=discount).matrix
    phi = (1 - lam) * np.eye(len(kernel))
    for k in range(25):
        assert np.abs(phi - exact).max() <= bounds.convergence(k, lam, discount) + 1e-10
        phi = bellman_step(phi, kernel, lam, discount)


@given(kernel=kernels(), discount=discounts, lam=lambdas)
def test_maximum(kernel, discount, lam):
    phi = wane.lambda_representation(kernel, lam, discount=discount).matrix
    on, off = bounds.maximum(lam, discount)
    eye = np.eye(len(kernel), dtype=bool)
    assert np.all(phi <= np.where(eye, on, off) + 1e-9)
    attained = wane.lambda_representation(np.array([[0.0, 1.0], [0.0, 1.0]]), lam, discount=discount).matrix
    np.testing.assert_allclose(attained[:, 1], [off, on], rtol=1e-12)


@given(kernel=kernels(), discount=discounts, lam=lambdas)
def test_subadditivity(kernel, discount, lam):
    n = len(kernel)
    if n == 1:
        return
    a, b = np.arange(n // 2), np.arange(n // 2, n)
    slack = bounds.subadditivity(kernel, a, b, lam, discount=discount)
    assert np.all(slack >= -1e-10)
    if lam == 1:
        np.testing.assert_allclose(slack, 0, atol=1e-8)


def test_subadditivity_is_strict_where_both_can_be_visited():
    slack = bounds.subadditivity(np.array([[0, 1.0], [1.0, 0]]), [0], [1], 0.5, discount=0.9)
    assert np.all(slack > 0.1)
    for depletion in (wane.Hyperbolic(1.0), wane.FirstVisits(1)):
        assert np.all(bounds.subadditivity(np.array([[0, 1.0], [1.0, 0]]), [0], [1], depletion, discount=0.9) > 0.1)


@given(seed=st.integers(0, 500), discount=discounts, lam=lambdas, lam_hat=lambdas)
def test_mismatch(seed, discount, lam, lam_hat):
    rng = np.random.default_rng(seed)
    mdp, rewards = wane.MDP(rng.dirichlet(np.full(4, 0.2), (4, 2))), rng.random(4)
    phi = wane.lambda_representation(mdp.under(rng.integers(0, 2, 4)), lam, discount=discount)
    other = phi.with_depletion(wane.Geometric(lam_hat))
    error = np.abs(phi.q_values(mdp, rewards) - other.q_values(mdp, rewards)).max()
    assert error <= bounds.mismatch(lam, lam_hat, discount, rewards.max()) + 1e-9


def test_mismatch_is_tight_near_one():
    one, lam_hat, gamma = np.ones((1, 1)), 1 - 1e-9, 0.9
    error = (
        wane.successor_representation(one, discount=gamma).matrix
        - wane.lambda_representation(one, lam_hat, discount=gamma).matrix
    )
    np.testing.assert_allclose(error, bounds.mismatch(1.0, lam_hat, gamma, 1.0), rtol=1e-5)


def gpi_values(mdp, policies, rewards, lam, lam_hat, discount, noise):
    """Q_λ̂ of the base policies, and Q_λ of the policy that is greedy on noisy estimates of them."""
    phis = [wane.lambda_representation(mdp.under(p), lam_hat, discount=discount) for p in policies]
    base = np.array([phi.q_values(mdp, rewards) for phi in phis])
    greedy = (base + noise).max(0).argmax(1)
    return (
        base,
        wane.lambda_representation(mdp.under(greedy), lam, discount=discount).q_values(mdp, rewards),
        greedy,
    )


@given(
    seed=st.integers(0, 2000),
    discount=discounts,
    lam=lambdas,
    lam_hat=lambdas,
    epsilon=st.sampled_from([0.0, 0.2]),
)
def test_gpi(seed, discount, lam, lam_hat, epsilon):
    rng = np.random.default_rng(seed)
    mdp, rewards = wane.MDP(rng.dirichlet(np.full(4, 0.2), (4, 3))), rng.random(4)
    noise = rng.uniform(-epsilon, epsilon, (2, 4, 3))
    base, q, _ = gpi_values(mdp, rng.integers(0, 3, (2, 4)), rewards, lam, lam_hat, discount, noise)
    assert np.all(q >= base.max(0) - bounds.gpi(lam, lam_hat, discount, rewards.max(), epsilon) - 1e-9)


@given(seed=st.integers(0, 2000), discount=st.sampled_from([0.5, 0.9]), lam=lambdas, lam_hat=lambdas)
def test_gpi_extension(seed, discount, lam, lam_hat):
    """All policies of a small MDP are tried, so that best ones, and how far from best a base policy is, are known."""
    rng = np.random.default_rng(seed)
    mdp = wane.MDP(rng.dirichlet(np.full(3, 0.3), (3, 2)))
    r, r_i, *r_base = rng.random((4, 3))
    every = [np.array(p) for p in itertools.product(range(2), repeat=3)]

    def all_q(rewards):
        return np.array(
            [wane.lambda_representation(mdp.under(p), lam, discount=discount).q_values(mdp, rewards) for p in every]
        )

    optimality_gaps, base = [], []
    for r_j in r_base:
        q = all_q(r_j)
        best = q.sum((1, 2)).argmax()
        base.append(every[best])
        optimality_gaps.append((q - q[best]).max())
    _, _, greedy = gpi_values(mdp, base, r_i, lam, lam, discount, 0.0)
    acting = wane.lambda_representation(mdp.under(greedy), lam_hat, discount=discount).q_values(mdp, r)
    lost = (all_q(r).max(0) - acting).max()
    bound = bounds.gpi_extension(lam, lam_hat, discount, r, r_i, r_base, optimality_gap=max(optimality_gaps))
    assert lost <= bound + 1e-9


@pytest.mark.parametrize("lam", [0.0, 0.5, 0.9, 1.0])
def test_task_mismatch(lam):
    """Lemma B.8 holds as printed, and without its λ term, which is then attained by rewards that differ everywhere."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        discount, mdp = rng.choice([0.3, 0.9, 0.97]), wane.MDP(rng.dirichlet(np.full(4, 0.2), (4, 2)))
        r, r_i = rng.normal(size=(2, 4))
        phi = wane.lambda_representation(mdp.under(rng.integers(0, 2, 4)), lam, discount=discount)
        error = np.abs(phi.q_values(mdp, r) - phi.q_values(mdp, r_i)).max()
        shorter = bounds.task_mismatch(lam, discount, r, r_i)
        assert error <= shorter + 1e-9
        assert shorter <= bounds.task_mismatch(lam, discount, r, r_i, printed=True)
    on = np.roll(np.eye(60), 1, axis=1)  # No state is met again before the discount has made it negligible.
    values = wane.lambda_representation(on, lam, discount=0.3).values(np.ones(60))
    np.testing.assert_allclose(values, bounds.task_mismatch(lam, 0.3, np.ones(60), np.zeros(60)), rtol=1e-12)


@pytest.mark.parametrize("lam", [0.0, 0.5, 0.9, 1.0])
def test_optimum_mismatch(lam):
    """Lemma B.7, for policies that are best on average over states and actions, among all policies of a small MDP.

    The corrected bound holds whatever "best" means. The printed one holds here too, although its proof does not.
    """
    every = [np.array(p) for p in itertools.product(range(2), repeat=3)]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        discount, mdp = rng.choice([0.5, 0.9]), wane.MDP(rng.dirichlet(np.full(3, 0.3), (3, 2)))
        phis = [wane.lambda_representation(mdp.under(p), lam, discount=discount) for p in every]
        r = rng.random(3)
        r_i = np.abs(r + 0.1 * rng.normal(size=3))
        q, q_i = (np.array([phi.q_values(mdp, task) for phi in phis]) for task in (r, r_i))
        best, best_i = q.sum((1, 2)).argmax(), q_i.sum((1, 2)).argmax()
        optimality_gap = max((q - q[best]).max(), (q_i - q_i[best_i]).max())
        error = np.abs(q[best] - q_i[best_i]).max()
        assert error <= bounds.optimum_mismatch(lam, discount, r, r_i, optimality_gap) + 1e-9
        assert error <= bounds.optimum_mismatch(lam, discount, r, r_i, printed=True) + 1e-9
        if lam == 1:
            assert optimality_gap <= 1e-9


def test_lambda_target_of_the_actor_critic():
    """T V = r + γ (V' + (λ − 1) w·(φ ⊙ φ_λ')): the recursion of λ-features times the reward, with one-hot features."""
    kernel, lam, gamma = np.random.default_rng(0).dirichlet(np.ones(4), 4), 0.4, 0.9
    weights = np.array([1.0, -2.0, 0.5, 3.0])
    phi = wane.lambda_representation(kernel, lam, discount=gamma)
    value, features = phi.values(weights), np.eye(4)
    target_next = gamma * (kernel @ value + (lam - 1) * np.einsum("k,sk,sk->s", weights, features, kernel @ phi.matrix))
    np.testing.assert_allclose(value, features @ weights + target_next, rtol=1e-10)


def test_lambda_operator_loss_is_least_at_the_lambda_representation():
    """The gradient of the paper's loss (4.10) with targets held fixed vanishes at φ = Φ_λ / μ."""
    n, lam, gamma = 4, 0.3, 0.9
    kernel = np.random.default_rng(1).dirichlet(np.ones(n), n)
    mu, rho = np.full(n, 1 / n), np.full(n, 1 / n)
    phi = wane.lambda_representation(kernel, lam, discount=gamma).matrix / mu
    phi_next = kernel @ phi
    slope = 2 * rho[:, None] * mu * (phi - gamma * phi_next)
    slope += np.diag(-2 * rho + 2 * gamma * (1 - lam) * rho * mu * np.diag(phi_next))
    np.testing.assert_allclose(slope, 0, atol=1e-12)
