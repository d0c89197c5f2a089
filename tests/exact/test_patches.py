import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wane
from chains import CHAINS, kernels

CURVES = [
    wane.Geometric(0.0),
    wane.Geometric(0.5),
    wane.Geometric(1.0),
    wane.FirstVisits(2),
    wane.Hyperbolic(1.0),
    wane.Listed([1.0, 0.4], tail=0.1),
]


def by_counting(kernel, inside, depletion, discount, visits):
    """Value iteration over (state, visits to the patch), visits beyond the last counting as the last."""
    worth = np.asarray(depletion.worth(np.arange(visits + 1)), dtype=float) + np.zeros(visits + 1)
    value = np.zeros((len(kernel), visits + 1))
    more = np.minimum(np.arange(visits + 1) + 1, visits)
    for _ in range(400):
        value_next = discount * kernel @ value
        value = np.where(inside[:, None], worth + value_next[:, more], value_next)
    return value[:, 0]


@pytest.mark.parametrize("depletion", CURVES, ids=repr)
@given(kernel=kernels(), seed=st.integers(0, 99))
def test_against_counting_visits(depletion, kernel, seed):
    inside = np.random.default_rng(seed).random(len(kernel)) < 0.5
    inside[0] = True
    phi = wane.patch_representation(kernel, [inside], depletion, discount=0.8)
    np.testing.assert_allclose(phi.matrix[:, 0], by_counting(kernel, inside, depletion, 0.8, 150), atol=1e-9)


@given(kernel=kernels())
def test_a_patch_of_one_state_is_a_site(kernel):
    n = len(kernel)
    for depletion in CURVES:
        patches = wane.patch_representation(kernel, [[s] for s in range(n)], depletion, discount=0.9)
        np.testing.assert_allclose(
            patches.matrix, wane.representation(kernel, depletion, discount=0.9).matrix, atol=1e-9
        )


@pytest.mark.parametrize("name", CHAINS)
def test_undiscounted(name):
    kernel = CHAINS[name]
    patches = [list(range((len(kernel) + 1) // 2)), [len(kernel) - 1]]
    for depletion in (wane.Geometric(0.5), wane.FirstVisits(3), wane.Listed([1.0, 0.5])):
        exact = wane.patch_representation(kernel, patches, depletion, discount=1.0)
        limit = wane.patch_representation(kernel, patches, depletion, discount=1 - 1e-9)
        np.testing.assert_allclose(exact.matrix, limit.matrix, atol=1e-6)


def test_values_and_per_patch_lambda():
    kernel = CHAINS["mixing"]
    phi = wane.patch_representation(kernel, [[0, 1], [3]], wane.Geometric([0.2, 0.8]), discount=0.9)
    alone = wane.patch_representation(kernel, [[3]], wane.Geometric(0.8), discount=0.9)
    np.testing.assert_allclose(phi.matrix[:, 1:], alone.matrix, rtol=1e-12)
    np.testing.assert_allclose(phi.values([1.0, 3.0]), phi.matrix @ [1.0, 3.0])
    assert phi.residual < 1e-10
    assert phi.method


@pytest.mark.usefixtures("unchecked_types")
def test_refusals():
    kernel = CHAINS["mixing"]
    with pytest.raises(ValueError, match="a patch without states"):
        wane.patch_representation(kernel, [[]], wane.Geometric(0.5), discount=0.9)
    with pytest.raises(ValueError, match="unknown site 8"):
        wane.patch_representation(kernel, [[8]], wane.Geometric(0.5), discount=0.9)
    with pytest.raises(TypeError, match="a patch takes a depletion that counts visits"):
        wane.patch_representation(kernel, [[0]], wane.TimeElapsed(0.5), discount=0.9)
    with pytest.raises(ValueError, match="certain to be visited again and again"):
        wane.patch_representation(kernel, [[0, 1]], wane.Hyperbolic(1.0), discount=1.0)
    with pytest.raises(ValueError, match="certain to be visited again and again"):
        wane.patch_representation(kernel, [[0, 1]], wane.Geometric(1.0), discount=1.0)
