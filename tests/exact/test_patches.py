import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wane
from chains import CHAINS, Tank, kernels

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
    with pytest.raises(TypeError, match="0.5 is not a Depletion"):
        wane.patch_representation(kernel, [[0]], 0.5, discount=0.9)
    with pytest.raises(ValueError, match="grid must be a whole number from 4 on, got 1"):
        wane.patch_representation(kernel, [[0]], wane.TimeElapsed(0.5), discount=0.9, grid=1)
    with pytest.raises(wane.InaccurateSolve, match="Use a discount below 1"):
        wane.patch_representation(kernel, [[0]], wane.TimeElapsed(0.5), discount=1.0, grid=16)
    with pytest.raises(ValueError, match="the memory of TotalTime has no bounds"):
        wane.patch_representation(kernel, [[0]], wane.TotalTime(0.5, 0.5), discount=0.1)
    with pytest.raises(ValueError, match="certain to be visited again and again"):
        wane.patch_representation(kernel, [[0, 1]], wane.Hyperbolic(1.0), discount=1.0)
    with pytest.raises(ValueError, match="certain to be visited again and again"):
        wane.patch_representation(kernel, [[0, 1]], wane.Geometric(1.0), discount=1.0)


@pytest.mark.parametrize("n", [10**6, 10**9, 10**15])
def test_very_many_paying_visits(n):
    """They are summed by doubling: no loop over visits would end."""
    for chain in ("periodic", "mixing"):
        phi = wane.patch_representation(CHAINS[chain], [[0, 1]], wane.FirstVisits(n), discount=1.0)
        np.testing.assert_allclose(phi.matrix, n, rtol=1e-12)
    leaving = np.array([[0.2, 0.5, 0.3], [0.4, 0.3, 0.2], [0.0, 0.0, 0.0]])
    leaving[1] /= leaving[1].sum()
    total = wane.patch_representation(leaving, [[0, 1]], wane.Geometric(1.0), discount=1.0).matrix
    all_of_them = wane.patch_representation(leaving, [[0, 1]], wane.FirstVisits(n), discount=1.0).matrix
    np.testing.assert_allclose(all_of_them, total, rtol=1e-12)


def test_doubling_is_the_sum():
    """For numbers of visits with all kinds of binary digits, and an escape that is so small that many visits count."""
    kernel = CHAINS["mixing"].copy()
    kernel[4] = [0.0, 0.0, 0.0, 0.001, 0.999]
    for n in (9, 16, 37, 255, 256, 1000):
        exact = by_counting(kernel, np.array([1, 1, 0, 0, 0], bool), wane.FirstVisits(n), 0.9, n)
        phi = wane.patch_representation(kernel, [[0, 1]], wane.FirstVisits(n), discount=0.9)
        np.testing.assert_allclose(phi.matrix[:, 0], exact, atol=1e-12)
        one = wane.patch_representation(kernel, [[4]], wane.FirstVisits(n), discount=1.0)
        np.testing.assert_allclose(one.matrix[4], n, rtol=1e-12)


def test_listed_visits_to_a_patch():
    """The worth of the visits is looked up in blocks, not visit by visit."""
    curve = wane.Listed(np.linspace(1, 0, 20_000))
    phi = wane.patch_representation(CHAINS["periodic"], [[0]], curve, discount=1.0)
    np.testing.assert_allclose(phi.matrix, 10_000, rtol=1e-9)
    with pytest.raises(ValueError, match=r"summing Listed over the visits to a patch would take 2.5e\+05 terms"):
        wane.patch_representation(CHAINS["periodic"], [[0]], wane.Listed([1.0] * 250_000), discount=1.0)


GROWING = [
    wane.TimeElapsed(0.5, 0.3),
    wane.EligibilityTrace(0.4, 0.7),
    wane.EligibilityTrace(0.4, 0.7, equation="representation"),
    wane.TotalTime(0.5, 0.8, equation="representation"),
    Tank(0.6, 0.2),
]


def by_history(kernel, inside, depletion, discount, steps):
    """Σₖ γᵏ E[worth] by following all histories of visits, step by step."""
    totals = np.zeros(len(kernel))
    for start in range(len(kernel)):
        table = {(start, ()): 1.0}
        for t in range(steps):
            after = {}
            for (s, history), p in table.items():
                memory = depletion.initial(())
                for visited in history:
                    memory = depletion.visit(memory) if visited else depletion.wait(memory)
                totals[start] += discount**t * p * float(depletion.worth(memory)) * inside[s]
                for s_next in np.flatnonzero(kernel[s]):
                    key = (s_next, (*history, bool(inside[s])))
                    after[key] = after.get(key, 0.0) + p * kernel[s, s_next]
            table = after
    return totals


@pytest.mark.parametrize("depletion", GROWING, ids=repr)
def test_patches_that_grow_back(depletion):
    kernel, inside = CHAINS["never reached"], np.array([True, False, True])
    phi = wane.patch_representation(kernel, [inside], depletion, discount=0.2, grid=64)
    exact = by_history(kernel, inside, depletion, 0.2, 7)
    assert 0 <= phi.truncation < 0.02
    assert np.abs(phi.matrix[:, 0] - exact).max() <= phi.truncation + 3 * 0.2**7
    sites = wane.patch_representation(CHAINS["mixing"], [[1], [3]], depletion, discount=0.8, grid=200)
    known = wane.representation(CHAINS["mixing"], depletion, discount=0.8, sites=[1, 3])
    assert np.abs(sites.matrix - known.matrix).max() <= sites.truncation + 1e-6
    assert sites.truncation < 0.02
    assert sites.residual < 1e-10
    assert "memories" in sites.method


def test_growing_patches_without_discount():
    """Where the chain leaves the patch for good, its value is finite; what cannot reach it gets nothing."""
    depletion = wane.EligibilityTrace(0.4, 0.7)
    phi = wane.patch_representation(CHAINS["absorbing"], [[0, 2]], depletion, discount=1.0, grid=100)
    limit = wane.patch_representation(CHAINS["absorbing"], [[0, 2]], depletion, discount=1 - 1e-9, grid=100)
    np.testing.assert_allclose(phi.matrix, limit.matrix, atol=1e-6)
    assert phi.matrix[1] == 0
