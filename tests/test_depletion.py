import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import wane
from wane.depletion import one_more
from wane.regrowth import Elapsed
from wane.testing import check_depletion
from wane.worlds.describe import depletion_from_description

EVERY = [
    wane.Geometric(0.5),
    wane.Geometric(0.0),
    wane.Geometric(1.0),
    wane.FirstVisits(3),
    wane.Hyperbolic(2.0),
    wane.PowerLaw(1.5),
    wane.Listed([1.0, 0.5, 0.7], tail=0.1),
    wane.TimeElapsed(0.5, 0.3),
    wane.EligibilityTrace(0.5, 0.6),
    wane.EligibilityTrace(0.5, 0.6, equation="representation"),
    wane.TotalTime(0.5, 0.9),
    wane.TotalTime(0.5, 0.9, equation="representation"),
]


def history(depletion, visits, steps):
    """What a visit would pay at every time, with visits at the given times."""
    memory, worth = depletion.initial(), []
    for t in range(steps):
        worth.append(float(depletion.worth(memory)))
        memory = depletion.visit(memory) if t in visits else depletion.wait(memory)
    return np.array(worth)


def test_curves_by_hand():
    def curve(depletion):
        return history(depletion, range(9), 4)

    np.testing.assert_allclose(curve(wane.Geometric(0.5)), [1, 0.5, 0.25, 0.125])
    np.testing.assert_allclose(curve(wane.Geometric(0.0)), [1, 0, 0, 0])
    np.testing.assert_allclose(curve(wane.FirstVisits(2)), [1, 1, 0, 0])
    np.testing.assert_allclose(curve(wane.Hyperbolic(2.0)), [1, 1 / 3, 1 / 5, 1 / 7])
    np.testing.assert_allclose(curve(wane.PowerLaw(2.0)), [1, 1 / 4, 1 / 9, 1 / 16])
    np.testing.assert_allclose(curve(wane.Listed([3.0, -1.0], tail=0.5)), [3, -1, 0.5, 0.5])


def test_replenishing_schemes_as_the_paper_draws_them():
    """Its last figure: visits at t = 2 and 5; λ = ½; λ_d = λ_r = ½; λ_d = ½, λ_r = 0.9."""
    elapsed = history(wane.TimeElapsed(0.5), (2, 5), 8)
    np.testing.assert_allclose(elapsed, [1, 1, 1, 0.5, 0.5**0.5, 0.5 ** (1 / 3), 0.5**2, 0.5])
    trace = history(wane.EligibilityTrace(0.5, 0.5), (2, 5), 8)
    np.testing.assert_allclose(trace, 1 - 0.5 * np.array([0, 0, 0, 0.5, 0.25, 0.125, 0.0625 + 0.5, 0.03125 + 0.25]))
    total = history(wane.TotalTime(0.5, 0.9), (2, 5), 8)
    away = np.array([0, 1, 2, 2, 3, 4, 4, 5])
    visited = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    np.testing.assert_allclose(total, 0.5**visited * 0.9 ** (-away.astype(float)))
    shrinking = history(wane.TotalTime(0.5, 0.9, equation="representation"), (2, 5), 8)
    np.testing.assert_allclose(shrinking, 0.5**visited * 0.9**away)
    inclusive = history(wane.EligibilityTrace(0.5, 0.5, equation="representation"), (2, 5), 8)
    np.testing.assert_allclose(inclusive, trace - 0.5)


@pytest.mark.parametrize("depletion", [*EVERY, wane.Geometric([0.0, 0.5, 1.0]), wane.FirstVisits([1, 3])], ids=repr)
def test_every_depletion_passes_the_public_check(depletion):
    check_depletion(depletion)


@pytest.mark.parametrize("escape", [0.9, 0.1, 1e-3, 1e-7, 1e-11])
def test_special_functions_near_certain_return(escape):
    """Where x rounds to 1, `escape` still carries the answer."""
    mpmath.mp.dps = 40
    x = 1 - mpmath.mpf(escape)
    for k in (0.1, 1.0, 4.0):
        exact = mpmath.hyp2f1(1, 1 / mpmath.mpf(k), 1 + 1 / mpmath.mpf(k), x)
        np.testing.assert_allclose(
            wane.Hyperbolic(k).generating_function(1 - escape, escape=escape), float(exact), rtol=1e-12
        )
    for p in (0.05, 0.5, 1.0, 3.0):
        exact = mpmath.re(mpmath.polylog(p, x)) / x
        np.testing.assert_allclose(
            wane.PowerLaw(p).generating_function(1 - escape, escape=escape), float(exact), rtol=1e-12
        )
    exact = 1 / mpmath.mpf(escape)
    np.testing.assert_allclose(
        wane.Geometric(1.0).generating_function(1 - escape, escape=escape), float(exact), rtol=1e-12
    )
    np.testing.assert_allclose(
        wane.FirstVisits(10**6).generating_function(1 - escape, escape=escape),
        float((1 - x**10**6) / escape),
        rtol=1e-9,
    )


def test_certain_return_is_finite_just_if_the_curve_sums():
    for depletion, total in [
        (wane.Geometric(0.5), 2.0),
        (wane.FirstVisits(3), 3.0),
        (wane.PowerLaw(2.0), np.pi**2 / 6),
        (wane.Listed([1.0, 0.5]), 1.5),
        (wane.Geometric(1.0), np.inf),
        (wane.Hyperbolic(1.0), np.inf),
        (wane.PowerLaw(1.0), np.inf),
        (wane.Listed([1.0], tail=0.1), np.inf),
    ]:
        np.testing.assert_allclose(depletion.generating_function(1.0), total, rtol=1e-12)


def test_parameters_for_each_site():
    lam = np.array([0.0, 0.5, 1.0])
    depletion = wane.Geometric(lam)
    np.testing.assert_allclose(depletion.worth(np.array([2, 2, 2])), lam**2)
    np.testing.assert_allclose(depletion.at_sites([2, 0]).lam, [1.0, 0.0])
    assert wane.Listed([1.0, 0.5]).at_sites([0]).values == (1.0, 0.5)
    for kind in (wane.Hyperbolic, wane.PowerLaw):
        both = kind(np.array([0.5, 2.0])).generating_function(np.array([0.3, 0.8]))
        np.testing.assert_allclose(both, [kind(0.5).generating_function(0.3), kind(2.0).generating_function(0.8)])


def test_gradients():
    slope = jax.grad(lambda lam: wane.Geometric(lam).generating_function(0.7))(0.5)
    np.testing.assert_allclose(slope, 0.7 / (1 - 0.35) ** 2)
    assert jax.grad(lambda lam: wane.Geometric(lam).worth(0))(0.0) == 0
    for make, at in [(wane.Hyperbolic, 1.0), (wane.PowerLaw, 1.5)]:

        def total(parameter, make=make):
            return make(parameter).generating_function(0.8)

        numeric = (total(at + 1e-6) - total(at - 1e-6)) / 2e-6
        np.testing.assert_allclose(jax.jit(jax.grad(total))(at), numeric, rtol=1e-6)
    assert np.isfinite(jax.grad(lambda x: wane.FirstVisits(3).generating_function(x))(0.0))


class Bored(wane.Diminishing):
    """A user's curve: three lines."""

    def worth(self, visits):
        return 1 / (1 + visits) ** 2


class Gain(wane.Diminishing):
    def worth(self, visits):
        return 2.0 + 0 * visits


class Halved(wane.Diminishing):
    """λⁿ in a class of its own, which says that it has a λ."""

    @property
    def common_ratio(self):
        return 0.5

    def worth(self, visits):
        return 0.5**visits


class Missed(Bored):
    """Waiting counts as a visit too."""

    def wait(self, visits):
        return visits + 1


@pytest.mark.parametrize(
    ("depletion", "counts", "ratio", "paying", "closed"),
    [
        (wane.Geometric(0.3), True, 0.3, np.inf, True),
        (wane.FirstVisits(3), True, None, 3, True),
        (wane.Listed([1.0, 0.5]), True, None, 2, True),
        (wane.Listed([1.0, 0.5], tail=0.1), True, None, np.inf, True),
        (wane.TimeElapsed(0.5), False, None, np.inf, False),
        (wane.TotalTime(0.5, 0.9), False, None, np.inf, False),
        (Bored(), True, None, np.inf, False),
        (Halved(), True, 0.5, np.inf, False),
        (Missed(), False, None, np.inf, False),
    ],
)
def test_a_depletion_says_what_it_can_do(depletion, counts, ratio, paying, closed):
    found = depletion.counts_visits, depletion.common_ratio, depletion.paying_visits, depletion.has_closed_form
    assert found == (counts, ratio, paying, closed)


def test_what_has_a_ratio_is_treated_as_geometric_whatever_its_class():
    kernel, features = np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([[0.3], [0.9]])
    for depletion in (Halved(), wane.Geometric(0.5)):
        found = wane.lambda_features(jnp.asarray(kernel), features, depletion, discount=0.9).matrix
        np.testing.assert_allclose(found, wane.lambda_features(kernel, features, 0.5, discount=0.9).matrix, rtol=1e-12)
    phi = wane.representation(kernel, Halved(), discount=0.9)
    expected = wane.lambda_derivative(wane.lambda_representation(kernel, 0.5, discount=0.9))
    np.testing.assert_allclose(wane.lambda_derivative(phi), expected, rtol=1e-9)
    believed = wane.agents.td.Config(depletion=Halved())
    assert wane.agents.td.target_of(believed.believed) is wane.agents.td.TARGETS[wane.Geometric]


def test_a_curve_without_closed_form_is_summed():
    x = np.array([0.0, 0.5, 0.99, 0.9999])
    np.testing.assert_allclose(Bored().generating_function(x), wane.PowerLaw(2.0).generating_function(x), rtol=1e-11)
    np.testing.assert_allclose(
        Bored().generating_function(x, visits=3), wane.PowerLaw(2.0).generating_function(x, 3), rtol=1e-11
    )
    traced = jax.jit(Bored().generating_function)(jnp.asarray(x))
    np.testing.assert_allclose(traced[:3], wane.PowerLaw(2.0).generating_function(x[:3]), rtol=1e-11)
    assert np.isnan(traced[3]), "4,096 terms do not do for x = 0.9999: that must show"
    with pytest.raises(ValueError, match="Bored has no closed form.*discount 1"):
        Bored().generating_function(1.0)
    with pytest.raises(ValueError, match="would take .* terms"):
        Bored().generating_function(1 - 1e-9, escape=1e-9)
    with pytest.raises(ValueError, match=r"Gain\.worth reaches 2, above its bound 1"):
        Gain().generating_function(0.5)


def test_counts_do_not_wrap_round():
    largest = np.iinfo(np.int32).max
    with pytest.raises(OverflowError, match="a visit count has reached 2147483647, the largest int32.*wider"):
        wane.Geometric(0.5).visit(np.array([3, largest], np.int32))
    saturated = jax.jit(one_more)(jnp.array([3, largest], jnp.int32))
    assert saturated.tolist() == [4, largest]
    with pytest.raises(OverflowError, match="largest int64"):
        wane.TimeElapsed(0.5).wait(Elapsed(np.array(1), np.array(np.iinfo(np.int64).max)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: wane.Geometric(1.2), r"Geometric\(lam\) must lie in \[0, 1\], got 1.2: λ is the fraction"),
        (lambda: wane.Geometric(-0.1), r"must lie in \[0, 1\], got -0.1"),
        (lambda: wane.Geometric(np.array([0.5, np.nan])), r"got nan at index \(1,\)"),
        (lambda: wane.FirstVisits(np.inf), r"FirstVisits\(n\) must be a whole number of visits, got inf"),
        (lambda: wane.FirstVisits(-1), r"FirstVisits\(n\) must lie in \[0, ∞\), got -1"),
        (lambda: wane.Hyperbolic(np.inf), r"Hyperbolic\(k\) must lie in \[0, ∞\), got inf"),
        (lambda: wane.PowerLaw(0.0), r"PowerLaw\(p\) must lie in \[0.05, ∞\).*use Geometric\(1.0\)"),
        (lambda: wane.Listed([]), "non-empty list"),
        (lambda: wane.Listed([1.0, np.nan]), r"Listed\(values\)\[1\]"),
        (lambda: wane.Listed([1.0], tail=np.inf), "tail"),
        (lambda: wane.TimeElapsed(0.5, 0.0), "rate"),
        (lambda: wane.EligibilityTrace(0.5, 1.5), "regrow"),
        (lambda: wane.EligibilityTrace(0.5, 0.5, equation="omega"), "equation is"),  # pyright: ignore
        (lambda: wane.TotalTime(0.5, 0.0), "regrow"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.usefixtures("unchecked_types")
@pytest.mark.parametrize("scheme", [wane.EligibilityTrace, wane.TotalTime])
def test_the_old_name_of_the_equation_works_for_one_release(scheme):
    with pytest.warns(DeprecationWarning, match="`form` is now `equation`"):
        old = scheme(0.5, 0.9, form="representation")
    assert old == scheme(0.5, 0.9, "representation")
    described = {"kind": scheme.__name__, "drop": 0.5, "regrow": 0.9, "form": "representation"}
    assert depletion_from_description(described) == old, "files of 0.2.0 have the old name"
