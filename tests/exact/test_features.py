"""The λF against its definition, against brute force, and against the λR and patches, which it contains."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import wane
from wane.depletion import FirstVisits, Geometric, Hyperbolic, Listed
from wane.exact import bellman_target, eigenfunctions, lambda_features, patch_representation, principal_angles
from wane.regrowth import TimeElapsed
from wane.worlds import make

CHAIN = np.random.default_rng(0).dirichlet(np.ones(6), 6)
PHI = np.random.default_rng(1).random((6, 3))
GAMMA = 0.9


def by_iteration(kernel, phi, lam, discount, steps=400):
    """The definition, applied until it changes nothing more."""
    found = np.zeros_like(phi)
    for _ in range(steps):
        found = phi * (1 + discount * lam * (kernel @ found)) + discount * (1 - phi) * (kernel @ found)
    return found


def by_counting(kernel, phi, worth, discount, counts=60, steps=300):
    """E Σ γᵏ c_k f(count), from the joint distribution of the state and the number of counted visits."""
    found = np.zeros(len(kernel))
    for start in range(len(kernel)):
        chance = np.zeros((len(kernel), counts))
        chance[start, 0] = 1
        for k in range(steps):
            counted = chance * phi[:, None]
            found[start] += discount**k * (counted.sum(0) * worth).sum()
            moved = chance - counted
            moved[:, 1:] += counted[:, :-1]
            chance = kernel.T @ moved
    return found


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0, [0.1, 0.5, 0.9]])
def test_definition(lam):
    expected = by_iteration(CHAIN, PHI, np.asarray(lam), GAMMA)
    for kernel in (CHAIN, sparse.csr_array(CHAIN), jnp.asarray(CHAIN)):
        found = lambda_features(kernel, PHI, lam, discount=GAMMA)
        np.testing.assert_allclose(found.matrix, expected, rtol=1e-12)
        assert found.residual < 1e-12


@pytest.mark.parametrize(
    ("phi", "lam", "discount", "expected"),
    [
        (1e-16, 0.5, 1.0, 2.0),
        (0.5, 1 - 2.0**-40, 1.0, 2.0**40),
        (1e-16, FirstVisits(3), 1.0, 3.0),
        (1e-16, Listed([1.0, 0.25]), 1.0, 1.25),
        (2.0**-60, FirstVisits(1), 1 - 2.0**-50, 1 / (1 + 2.0**10)),
        (0.0, 0.5, 1.0, 0.0),
    ],
)
def test_features_that_hardly_count_near_discount_one(phi, lam, discount, expected):
    found = lambda_features(np.eye(1), [[phi]], lam, discount=discount).matrix
    np.testing.assert_allclose(found, [[expected]], rtol=1e-12)


@pytest.mark.parametrize(
    "depletion",
    [Geometric(0.5), FirstVisits(2), Hyperbolic(1.0), Listed([1.0, 0.2, 0.6])],
    ids=lambda d: type(d).__name__,
)
def test_every_curve_over_counts(depletion):
    worth = np.asarray(depletion.worth(np.arange(60)), float)
    found = lambda_features(CHAIN, PHI[:, :1], depletion, discount=0.7)
    np.testing.assert_allclose(found.matrix[:, 0], by_counting(CHAIN, PHI[:, 0], worth, 0.7), atol=1e-9)


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_one_hot_features_give_the_lambda_representation(lam):
    expected = wane.lambda_representation(CHAIN, lam, discount=GAMMA).matrix
    np.testing.assert_allclose(lambda_features(CHAIN, np.eye(6), lam, discount=GAMMA).matrix, expected, rtol=1e-12)


def test_an_indicator_gives_a_patch():
    inside = np.isin(np.arange(6), [1, 4])[:, None].astype(float)
    for depletion in (Geometric(0.3), FirstVisits(3), Hyperbolic(2.0)):
        expected = patch_representation(CHAIN, [[1, 4]], depletion, discount=GAMMA).matrix
        np.testing.assert_allclose(
            lambda_features(CHAIN, inside, depletion, discount=GAMMA).matrix, expected, rtol=1e-9
        )


def test_without_discounting():
    """State 3 is absorbing and counts nothing, so the sums are finite."""
    kernel = np.array([[0.5, 0.5, 0, 0], [0.2, 0.3, 0.5, 0], [0.1, 0, 0.4, 0.5], [0, 0, 0, 1.0]])
    phi = np.array([[0.3], [1.0], [0.0], [0.0]])
    for lam in (0.0, 0.5):
        expected = by_iteration(kernel, phi, lam, 1.0)
        np.testing.assert_allclose(lambda_features(kernel, phi, lam, discount=1.0).matrix, expected, atol=1e-12)


def test_action_form_is_one_backup():
    world = make("four-rooms-7")
    policy = world.policies[0]
    phi = np.random.default_rng(2).random((world.n_states, 2))
    found = lambda_features(world.mdp.under(policy), phi, 0.5, discount=GAMMA)
    by_action = found.action_matrix(world.mdp)
    np.testing.assert_allclose(by_action[np.arange(world.n_states), policy], found.matrix, rtol=1e-12)
    weights = np.array([1.0, -2.0])
    np.testing.assert_allclose(found.q_values(world.mdp, weights), by_action @ weights)
    np.testing.assert_allclose(found.values(weights), found.matrix @ weights)


def test_the_span_holds_values_for_lambda_one_only():
    """r̄ = φ w has V = φ_λ w for λ = 1; for λ < 1 the features wear off, and not the states."""
    weights = np.array([1.0, 2.0, 0.5])
    stationary = wane.successor_representation(CHAIN, discount=GAMMA).values(PHI @ weights)
    np.testing.assert_allclose(lambda_features(CHAIN, PHI, 1.0, discount=GAMMA).values(weights), stationary)
    diminishing = wane.lambda_representation(CHAIN, 0.5, discount=GAMMA).values(PHI @ weights)
    assert np.abs(lambda_features(CHAIN, PHI, 0.5, discount=GAMMA).values(weights) - diminishing).max() > 0.1


def test_gradients_go_through():
    slope = jax.grad(lambda lam: lambda_features(jnp.asarray(CHAIN), PHI, lam, discount=GAMMA).matrix.sum())(0.5)
    ends = [lambda_features(CHAIN, PHI, lam, discount=GAMMA).matrix.sum() for lam in (0.5 - 1e-5, 0.5 + 1e-5)]
    assert float(slope) == pytest.approx((ends[1] - ends[0]) / 2e-5, rel=1e-6)


def test_the_target_is_the_definition():
    """Worked out by hand: φ = ½, λ = ½, γ = 0.9, φ' = 2 gives ½ (1 + 0.9) + 0.9 · ½ · 2 = 1.85."""
    assert bellman_target(2.0, 0.5, 0.5, 0.9) == pytest.approx(1.85)


@pytest.mark.parametrize(
    ("features", "lam", "message"),
    [
        (PHI * 3, 0.5, r"features must lie in \[0, 1\], got .* at index"),
        (PHI - 1, 0.5, r"features must lie in \[0, 1\]"),
        (PHI[:4], 0.5, "a row for each of 6 states"),
        (PHI[:, :0], 0.5, "a row for each of 6 states"),
        (PHI * np.nan, 0.5, r"features must lie in \[0, 1\]"),
        (PHI, 1.5, r"Geometric\(lam\) must lie in"),
        (PHI, [0.1, 0.2], "3"),
    ],
)
def test_bad_input(features, lam, message):
    with pytest.raises(ValueError, match=message):
        lambda_features(CHAIN, features, lam, discount=GAMMA)


def test_regrowth_has_no_meaning(unchecked_types):
    with pytest.raises(TypeError, match="the λF has no meaning for TimeElapsed"):
        lambda_features(CHAIN, PHI, TimeElapsed(0.5, 0.1), discount=GAMMA)


def test_eigenfunctions_of_a_ring_are_waves():
    ring = (np.roll(np.eye(12), 1, 1) + np.roll(np.eye(12), -1, 1)) / 2
    found = eigenfunctions(ring, 5)
    np.testing.assert_allclose(found.eigenvalues, 1 - np.cos(2 * np.pi * np.array([0, 1, 1, 2, 2]) / 12), atol=1e-12)
    np.testing.assert_allclose(found.functions.T * found.weights @ found.functions, np.eye(5), atol=1e-12)
    angle = 2 * np.pi * np.arange(12) / 12
    waves = np.stack([np.ones(12), np.cos(angle), np.sin(angle)], 1)
    np.testing.assert_allclose(principal_angles(found.functions[:, :3], waves, found.weights), 0, atol=1e-5)
    assert principal_angles(found.functions[:, 3:], waves)[0] == pytest.approx(90)


def test_eigenfunctions_minimise_the_objective():
    walk = make("four-rooms-7").mdp.under(np.full((make("four-rooms-7").n_states, 5), 0.2))
    found = eigenfunctions(walk, 4)
    dense = walk.toarray() if sparse.issparse(walk) else walk
    change = found.functions[:, None] - found.functions[None]
    half = 0.5 * np.einsum("s,st,stk->k", found.weights, dense, change**2)
    np.testing.assert_allclose(half, found.eigenvalues, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: eigenfunctions(CHAIN, 7), "1 to 6"),
        (lambda: eigenfunctions(np.eye(3), 1), "does not visit all states"),
        (lambda: eigenfunctions(CHAIN, 2, np.zeros(6)), "weights must be above 0"),
        (lambda: principal_angles(PHI, PHI[:3]), "of the same states"),
    ],
)
def test_bad_eigenfunctions(call, message):
    with pytest.raises(ValueError, match=message):
        call()
