import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from chains import CHAINS, forward_sum

KERNEL = CHAINS["absorbing"]


@pytest.mark.parametrize(
    "depletion",
    [
        wane.EligibilityTrace(0.5, 0.6),
        wane.EligibilityTrace(0.5, 0.6, equation="representation"),
        wane.EligibilityTrace(0.2, 0.0),
        wane.EligibilityTrace(1.0, 1.0),
        wane.TotalTime(0.5, 0.9),
        wane.TotalTime(0.5, 0.9, equation="representation"),
        wane.TotalTime(0.0, 0.5, equation="representation"),
        wane.TotalTime(0.7, 0.0, equation="representation"),
    ],
    ids=repr,
)
def test_against_the_sum_over_all_histories(depletion):
    exact = wane.representation(KERNEL, depletion, discount=0.3, sites=[2]).matrix[:, 0]
    np.testing.assert_allclose(exact, forward_sum(KERNEL, depletion, 0.3, 2, steps=13), atol=1e-6)


def test_growth_faster_than_the_discount_is_fine_if_the_site_is_soon_revisited():
    """γq = 1.6, but on a cycle of two every second step takes the reward down again: 1 + γ² q λ_d + … is finite."""
    kernel = np.array([[0, 1.0], [1.0, 0]])
    phi = wane.representation(kernel, wane.TotalTime(0.3, 0.5), discount=0.8, sites=[0]).matrix
    cycle = 0.8 * 0.3 * 0.8 * 2
    np.testing.assert_allclose(phi[:, 0], np.array([1, 1.6]) / (1 - cycle), rtol=1e-12)
    traced = jax.jit(
        lambda drop: wane.representation(jnp.asarray(kernel), wane.TotalTime(drop, 0.5), discount=0.8).matrix
    )(0.3)
    np.testing.assert_allclose(traced[:, :1], phi, rtol=1e-9)


def test_states_that_cannot_reach_the_site_do_not_diverge():
    for form in (np.asarray, jnp.asarray):
        phi = wane.representation(form(CHAINS["reducible"]), wane.TotalTime(0.1, 0.6), discount=0.7, sites=[0]).matrix
        assert phi[2:, 0].tolist() == [0, 0]
        assert np.all(phi[:2, 0] > 0)


@pytest.mark.parametrize("form", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_a_diverging_total_is_refused(form):
    with pytest.raises(ValueError, match="grows.*its value is infinite"):
        wane.representation(form(CHAINS["mixing"]), wane.TotalTime(0.5, 0.5), discount=0.9, sites=[2])
    kernel = jnp.asarray(CHAINS["mixing"])
    traced = jax.jit(
        lambda regrow: wane.representation(kernel, wane.TotalTime(0.5, regrow), discount=0.9, sites=[2]).matrix
    )(0.5)
    assert np.isnan(traced).all(), "while JAX traces, a diverging sum is NaN, not a number"


def test_undiscounted_trace_needs_a_transient_site():
    ends = CHAINS["ends"]
    trace = wane.EligibilityTrace(0.5, 0.5)
    exact = wane.representation(ends, trace, discount=1.0).matrix
    np.testing.assert_allclose(exact, wane.representation(ends, trace, discount=1 - 1e-9).matrix, rtol=1e-6)
    with pytest.raises(ValueError, match="site 1 is visited again and again with discount 1"):
        wane.representation(KERNEL, trace, discount=1.0, sites=[1])
