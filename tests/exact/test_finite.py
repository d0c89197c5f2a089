"""Values until a horizon, against the definition: a recursion over what the site remembers."""

import jax
import numpy as np
import pytest
from scipy import sparse

import wane
from wane.exact.finite import finite_representation

KERNEL = np.random.default_rng(0).dirichlet(np.ones(5), 5)
KERNEL[3] = 0  # The episode ends.
SITES = np.array([2, 0])


class Sleepy(wane.Depletion):
    """A site sleeps for two steps after a visit: a memory that is no count, and not affine."""

    def initial(self, shape=()):
        return np.zeros(shape)

    def worth(self, memory):
        return 1.0 * (memory == 0)

    def visit(self, memory):
        return 0 * memory + 2

    def wait(self, memory):
        return np.maximum(memory - 1, 0)


def by_recursion(depletion, discount, site, horizon, memory=None):
    """x(s; m) with h rewards ahead: a visit pays and changes the memory, a step elsewhere changes it too."""
    known = {}

    def value(memory, left):
        if left == 0:
            return np.zeros(len(KERNEL))
        key = (left, *(float(leaf[0]) for leaf in jax.tree_util.tree_leaves(memory)))
        if key not in known:
            found = discount * KERNEL @ value(depletion.wait(memory), left - 1)
            after = discount * KERNEL[site] @ value(depletion.visit(memory), left - 1)
            found[site] = float(depletion.worth(memory)[0]) + after
            known[key] = found
        return known[key]

    return value(depletion.initial((1,)) if memory is None else memory, horizon)


DEPLETIONS = [
    wane.Geometric(0.5),
    wane.Geometric(1.0),
    wane.FirstVisits(2),
    wane.Hyperbolic(1.0),
    wane.Listed([1.0, -0.5, 2.0], tail=0.3),
    wane.TimeElapsed(0.5, 0.4),
    wane.EligibilityTrace(0.5, 0.9),
    wane.TotalTime(0.5, 0.9),
    wane.TotalTime(0.5, 0.9, "representation"),
    Sleepy(),
]


@pytest.mark.parametrize("depletion", DEPLETIONS, ids=repr)
@pytest.mark.parametrize("discount", [0.0, 0.9, 1.0])
def test_definition(depletion, discount):
    for horizon in (0, 1, 2, 9):
        expected = [by_recursion(depletion, discount, site, horizon) for site in SITES]
        for kernel in (KERNEL, sparse.csr_array(KERNEL)):
            found = finite_representation(kernel, depletion, discount, SITES, horizon)
            np.testing.assert_allclose(found.T, expected, atol=1e-13)


@pytest.mark.parametrize("depletion", [each for each in DEPLETIONS if not isinstance(each, wane.TimeElapsed | Sleepy)])
def test_sites_that_were_visited(depletion):
    after = depletion.visit(depletion.initial((2,)))
    found = finite_representation(KERNEL, depletion, 0.9, SITES, 7, after)
    expected = [by_recursion(depletion, 0.9, site, 7, depletion.visit(depletion.initial((1,)))) for site in SITES]
    np.testing.assert_allclose(found.T, expected, atol=1e-13)


def test_long_horizons_end_at_the_endless_value():
    kernel, rewards = np.random.default_rng(1).dirichlet(np.ones(6), 6), np.array([1.0, 0.0, -2.0, 0.0, 3.0, 0.5])
    for depletion in (
        wane.Geometric(np.array([0.5, 1.0, 0.0, 0.3, 1.0, 0.9])),
        wane.Hyperbolic(2.0),
        wane.FirstVisits(3),
    ):
        endless = wane.evaluate(kernel, rewards, depletion, discount=0.9)
        found = wane.evaluate(kernel, rewards, depletion, discount=0.9, horizon=400)
        np.testing.assert_allclose(found, endless, rtol=1e-12)
        assert not np.allclose(wane.evaluate(kernel, rewards, depletion, discount=0.9, horizon=3), endless, rtol=1e-3)


@pytest.mark.usefixtures("unchecked_types")
def test_refusals():
    elapsed = wane.TimeElapsed(0.5)
    with pytest.raises(ValueError, match="horizon must be a whole number from 0 on, got 2.5"):
        wane.evaluate(KERNEL, np.ones(5), wane.Geometric(0.5), discount=0.9, horizon=2.5)
    with pytest.raises(TypeError, match="values until a horizon are computed outside of JAX"):
        jax.grad(lambda r: wane.evaluate(KERNEL, r, wane.Geometric(0.5), discount=0.9, horizon=2).sum())(np.ones(5))
    with pytest.raises(ValueError, match="what TimeElapsed.* pays until a horizon is not known"):
        finite_representation(KERNEL, elapsed, 0.9, SITES, 3, elapsed.visit(elapsed.initial((2,))))
