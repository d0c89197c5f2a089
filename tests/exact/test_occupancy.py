import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

import wane
from chains import CHAINS, kernels, monte_carlo
from wane.exact.graph import can_reach, recurrent_classes

CURVES = [
    wane.Geometric(0.0),
    wane.Geometric(0.5),
    wane.FirstVisits(3),
    wane.PowerLaw(2.5),
    wane.Listed([1.0, 0.5, 0.25]),
]


FORMS = {"dense": np.asarray, "sparse": sparse.csr_array, "jax": jnp.asarray}


@pytest.mark.parametrize(
    ("form", "depletion"),
    # With JAX most of the time goes into compiling, and the curves share all code but their sums.
    [
        pytest.param(form, curve, id=f"{form}-{curve!r}")
        for form in FORMS
        for curve in CURVES[:: 3 if form == "jax" else 1]
    ],
)
@pytest.mark.parametrize("name", CHAINS)
def test_undiscounted(form, name, depletion):
    """γ = 1 has its own path; it is the limit of γ → 1, and what playing gives where episodes are short."""
    kernel, form = CHAINS[name], FORMS[form]
    phi = wane.representation(form(kernel), depletion, discount=1.0).matrix
    limit = wane.representation(kernel, depletion, discount=1 - 1e-9).matrix
    np.testing.assert_allclose(phi, limit, atol=2e-6)
    if name == "ends":
        for start in range(len(kernel)):
            mean, error = monte_carlo(kernel, depletion, 1.0, 1, start, steps=200, episodes=5000)
            assert abs(phi[start, 1] - mean) <= 5 * error + 1e-9


@given(kernel=kernels())
def test_undiscounted_on_all_kinds_of_chains(kernel):
    """The defining recursion leaves the answer unmoved; hitting chances are chances."""
    lam = 0.5
    phi = wane.lambda_representation(kernel, lam, discount=1.0)
    again = np.eye(len(kernel)) + (1 - (1 - lam) * np.eye(len(kernel))) * (kernel @ phi.matrix)
    np.testing.assert_allclose(phi.matrix, again, atol=1e-10)
    assert np.all((phi.first_visit >= -1e-12) & (phi.first_visit <= 1 + 1e-12))
    recurrent = recurrent_classes(kernel) >= 0
    np.testing.assert_allclose(phi.escape[recurrent], 0, atol=1e-15)
    assert np.all(phi.escape[~recurrent] > 0)


def test_undiscounted_stationary_rewards_where_episodes_end():
    kernel = CHAINS["ends"]
    phi = wane.successor_representation(kernel, discount=1.0).matrix
    np.testing.assert_allclose(phi, np.linalg.inv(np.eye(3) - kernel), rtol=1e-12)


def test_states_that_are_hardly_ever_left():
    """An escape of 1e-12 a step drowns in the rounding of 1 − 1e-12, but not in that of the other entries."""
    kernel = np.array([[1 - 1e-12, 1e-12], [0, 0]])
    phi = wane.successor_representation(kernel, discount=1.0)
    np.testing.assert_allclose(phi.matrix, [[1e12, 1], [0, 1]], rtol=1e-14)
    np.testing.assert_allclose(phi.with_depletion(wane.Geometric(0.5)).matrix[0, 0], 1 / (0.5 + 0.5e-12), rtol=1e-15)


def test_classes_and_reach():
    kernel = np.array([[0, 0.5, 0.5, 0], [0, 1, 0, 0], [0, 0, 0, 1.0], [0, 0, 0, 0]])
    classes = recurrent_classes(kernel)
    assert (classes >= 0).tolist() == [False, True, False, False]
    assert can_reach(kernel, np.array([3])).tolist() == [True, False, True, True]
    assert can_reach(sparse.csr_array(kernel), np.array([1, 2])).tolist() == [True, True, True, False]


def test_from_a_given_lambda_representation():
    kernel = CHAINS["mixing"]
    for lam in (0.3, np.array([0.1, 0.5, 0.9, 1.0, 0.7])):
        learned = wane.lambda_representation(kernel, lam, discount=0.9).matrix
        known = wane.from_lambda_representation(learned, lam, discount=0.9)
        for depletion in CURVES:
            exact = wane.representation(kernel, depletion, discount=0.9).matrix
            np.testing.assert_allclose(known.with_depletion(depletion).matrix, exact, rtol=1e-10)
    part = wane.lambda_representation(kernel, 0.5, discount=0.9, sites=[4, 2]).matrix
    some = wane.from_lambda_representation(part, 0.5, discount=0.9, sites=[4, 2]).with_depletion(wane.FirstVisits(2))
    exact = wane.n_occupancy_representation(kernel, 2, discount=0.9, sites=[4, 2]).matrix
    np.testing.assert_allclose(some.matrix, exact, rtol=1e-10)
    with pytest.raises(ValueError, match="λ must be above 0"):
        wane.from_lambda_representation(learned, 0.0, discount=0.9)


def test_equivalent_rewards_by_hand():
    """One state that stays: d = 1/(1 − γ) = 10, λ = ½: r̃ = r̄ / (½ + ½ · 10) = r̄ / 5.5."""
    np.testing.assert_allclose(wane.equivalent_rewards(11.0, wane.Geometric(0.5), 10.0), 2.0)
    np.testing.assert_allclose(wane.equivalent_rewards(11.0, wane.Geometric(0.5), 10.0, visits=1), 1.0)


def test_lambda_derivative():
    kernel = CHAINS["mixing"]
    phi = wane.lambda_representation(kernel, 0.5, discount=0.9)
    up, down = (wane.lambda_representation(kernel, 0.5 + e, discount=0.9).matrix for e in (1e-6, -1e-6))
    np.testing.assert_allclose(wane.lambda_derivative(phi), (up - down) / 2e-6, rtol=1e-7)
    with pytest.raises(TypeError, match="only Geometric has a λ"):
        wane.lambda_derivative(phi.with_depletion(wane.FirstVisits(2)))
