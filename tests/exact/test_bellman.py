import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import wane
from chains import CHAINS, discounts, kernels, lambdas
from wane.exact.bellman import bellman_action_step, bellman_step

KERNEL = CHAINS["mixing"]


@given(kernel=kernels(), discount=discounts, lam=lambdas, seed=st.integers(0, 99))
def test_iteration_ends_at_the_closed_form(kernel, discount, lam, seed):
    lams = np.random.default_rng(seed).choice([0.0, lam, 1.0], len(kernel))
    for each in (lam, lams):
        exact = wane.lambda_representation(kernel, each, discount=discount).matrix
        np.testing.assert_allclose(
            wane.iterate(kernel, each, discount=discount, tolerance=1e-12).matrix, exact, atol=1e-9
        )


def test_one_step_by_hand():
    """Definition 4.2 on two states that swap, λ = ½, γ = 0.8, Φ = [[1, 2], [3, 4]]: PΦ = [[3, 4], [1, 2]]."""
    swap, phi = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[1.0, 2.0], [3.0, 4.0]])
    expected = np.array([[1 + 0.8 * 0.5 * 3, 0.8 * 4], [0.8 * 1, 1 + 0.8 * 0.5 * 2]])
    np.testing.assert_allclose(bellman_step(phi, swap, 0.5, 0.8), expected)
    np.testing.assert_allclose(bellman_step(phi, sparse.csr_array(swap), 0.5, 0.8), expected)
    np.testing.assert_allclose(jax.jit(bellman_step)(jnp.asarray(phi), jnp.asarray(swap), 0.5, 0.8), expected)


def test_state_action_form():
    rng = np.random.default_rng(3)
    mdp = wane.MDP(rng.dirichlet(np.ones(4), (4, 3)))
    for policy in (np.array([0, 2, 1, 1]), rng.dirichlet(np.ones(3), 4)):
        for lam in (0.5, np.array([0.0, 0.4, 1.0, 0.7])):
            exact = wane.lambda_representation(mdp.under(policy), lam, discount=0.9).action_matrix(mdp)
            found = wane.iterate(policy, lam, discount=0.9, mdp=mdp, tolerance=1e-12)
            np.testing.assert_allclose(found.matrix, exact, atol=1e-10)
            np.testing.assert_allclose(bellman_action_step(exact, mdp, policy, lam, 0.9), exact, rtol=1e-12)
    some = wane.iterate(policy, 0.5, discount=0.9, mdp=mdp, sites=[2])
    whole = wane.iterate(policy, 0.5, discount=0.9, mdp=mdp)
    np.testing.assert_allclose(some.matrix[..., 0], whole.matrix[..., 2], atol=1e-8)


def test_trace_and_stopping():
    by_error = wane.iterate(KERNEL, 0.5, discount=0.9, tolerance=1e-6)
    assert by_error.errors[-1] <= 1e-6 < by_error.errors[-2]
    by_bound = wane.iterate(KERNEL, 0.5, discount=0.9, tolerance=1e-6, stop="bound")
    assert by_bound.bound <= 1e-6
    exact = wane.lambda_representation(KERNEL, 0.5, discount=0.9).matrix
    for run in (by_error, by_bound):
        assert np.abs(run.matrix - exact).max() <= run.bound
    some = wane.iterate(KERNEL, 0.5, discount=0.9, sites=[1, 4])
    np.testing.assert_allclose(some.matrix, exact[:, [1, 4]], atol=1e-8)


def test_lower_lambda_converges_faster():
    """The paper's figure on dynamic programming: fewer sweeps for smaller λ."""
    steps = [len(wane.iterate(KERNEL, lam, discount=0.97, tolerance=1e-6).errors) for lam in (0.0, 0.5, 1.0)]
    assert steps[0] < steps[1] < steps[2]


def test_refusals():
    with pytest.raises(ValueError, match="after 5 steps the Bellman error is .*wane.lambda_representation"):
        wane.iterate(KERNEL, 0.9, discount=0.99, max_steps=5)
    with pytest.raises(ValueError, match='stop is "error" or "bound"'):
        wane.iterate(KERNEL, 0.5, discount=0.9, stop="never")
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\], got 1.2"):
        wane.iterate(KERNEL, 1.2, discount=0.9)
