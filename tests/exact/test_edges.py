"""At the edges γ → 1 and λ → 0, 1: right to the last digits, refused in words, or infinite where the truth is.

The truth is computed in rational arithmetic (`tests/rational.py`), so it shares nothing with the package.
"""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import rational
import wane
from wane.exact import bounds, renewal_representation
from wane.exact.bellman import bellman_target
from wane.exact.solve import solve
from wane.kernels import check_kernel

CHAINS = {
    "loop": np.ones((1, 1)),
    "swap": np.array([[0.0, 1.0], [1.0, 0.0]]),
    "two": np.array([[0.3, 0.7], [0.6, 0.4]]),
    "absorbing": np.array([[0.5, 0.5], [0.0, 1.0]]),
    "never reached": np.array([[0.5, 0.5, 0.0], [0.9, 0.1, 0.0], [0.3, 0.3, 0.4]]),
    "ends": np.array([[0.1, 0.6, 0.3], [0.5, 0.2, 0.3], [0.0, 0.0, 0.0]]),
    "sticky": np.array([[1 - 1e-12, 1e-12, 0.0], [0.0, 0.5, 0.5], [1e-10, 0.0, 1 - 1e-10]]),
    "hardly ever left": np.array([[1 - 1e-13, 1e-13], [0.0, 0.0]]),
}
NEAR_ONE = [1 - 1e-12, 1 - 1e-14]
DISCOUNTS = [0.5, *NEAR_ONE, 1.0]
LAMBDAS = [0.0, 1e-300, 1e-12, 0.5, *NEAR_ONE, 1.0]
CURVES = [
    *map(wane.Geometric, LAMBDAS),
    wane.FirstVisits(5),
    wane.Listed([1.0, 0.5]),
    wane.Listed([1.0, 0.5], tail=0.25),
    wane.Hyperbolic(1.0),
    wane.PowerLaw(0.3),
    wane.PowerLaw(1.001),
    wane.PowerLaw(2.0),
]
INFINITE = "infinite|certain to be visited again"


def compare(truth, compute, refused=INFINITE):
    """The numbers are right; if the truth is infinite the answer says so. Returns whether there was an answer."""
    if None in truth:
        with pytest.raises(ValueError, match=refused):
            compute()
        return False
    np.testing.assert_allclose(np.ravel(compute()), [float(t) for t in truth], rtol=1e-12)
    return True


@pytest.mark.parametrize("discount", DISCOUNTS)
@pytest.mark.parametrize("name", CHAINS)
def test_curves(name, discount):
    kernel, site = CHAINS[name], len(CHAINS[name]) - 1
    rewards = np.eye(len(kernel))[site]
    for depletion in CURVES:
        truth = rational.curve(kernel, depletion, discount, site)
        compare(truth, lambda d=depletion: wane.representation(kernel, d, discount=discount, sites=[site]).matrix)
        if isinstance(depletion, wane.Geometric):
            compare(truth, lambda d=depletion: wane.evaluate(kernel, rewards, d, discount=discount))


@pytest.mark.parametrize("discount", DISCOUNTS)
@pytest.mark.parametrize("name", CHAINS)
def test_patches(name, discount):
    kernel = CHAINS[name]
    inside = np.arange(len(kernel)) < 2
    for lam in LAMBDAS:
        weights = [Fraction(discount) * (Fraction(lam) if here else 1) for here in inside]
        truth = rational.weighted(kernel, weights, inside.tolist())
        patch = wane.Geometric(lam)
        compare(truth, lambda d=patch: wane.patch_representation(kernel, [inside], d, discount=discount).matrix)


@pytest.mark.parametrize("discount", DISCOUNTS)
@pytest.mark.parametrize("name", CHAINS)
def test_total_time(name, discount):
    kernel, site = CHAINS[name], len(CHAINS[name]) - 1
    for drop in (0.0, 0.5, 1 - 1e-14, 1.0):
        for regrow in (0.3, 1 - 1e-14, 1.0):
            weights = [Fraction(discount) * Fraction(drop if i == site else regrow) for i in range(len(kernel))]
            truth = rational.weighted(kernel, weights, [i == site for i in range(len(kernel))])
            scheme = wane.TotalTime(drop, regrow, equation="representation")
            compare(truth, lambda d=scheme: wane.representation(kernel, d, discount=discount, sites=[site]).matrix)


@pytest.mark.parametrize("discount", NEAR_ONE)
def test_eligibility_traces(discount):
    """Where pay and loss cancel to more than nine digits the answer is refused, otherwise it is right."""
    answered = 0
    for name, kernel in CHAINS.items():
        site = len(kernel) - 1
        unit = [i == site for i in range(len(kernel))]
        for drop in (0.0, 0.5, 1 - 1e-14):
            for regrow in (0.0, 0.5, 1 - 1e-14):
                visits = rational.weighted(kernel, [Fraction(discount)] * len(kernel), unit)
                fading = rational.weighted(kernel, [Fraction(discount) * Fraction(regrow)] * len(kernel), unit)
                pay = 1 - (1 - Fraction(drop)) * (fading[site] - 1)
                try:
                    scheme = wane.EligibilityTrace(drop, regrow)
                    phi = wane.representation(kernel, scheme, discount=discount, sites=[site]).matrix[:, 0]
                except wane.InaccurateSolve:
                    assert abs(pay) < 1e-8, f"{name}, {scheme}: there is nothing to refuse"
                    continue
                np.testing.assert_allclose(phi, [float(v * pay) for v in visits], rtol=1e-7)
                answered += 1
    assert answered > 60


def test_a_given_lambda_representation():
    """From Φ_λ every other curve follows, or it is said that Φ_λ does not tell."""
    kernel, refused, answered = CHAINS["two"], 0, 0
    for discount in (0.9, *NEAR_ONE, 1.0):
        for lam in (1e-300, 1e-12, 1e-3, 0.5, 1 - 1e-12, 1.0):
            given = rational.curve(kernel, wane.Geometric(lam), discount, 0)
            if None in given:
                continue
            try:
                known = wane.from_lambda_representation(np.array(given)[:, None], lam, discount=discount, sites=[0])
            except wane.InaccurateSolve:
                refused += 1
                continue
            for curve in (wane.Geometric(0.3), wane.PowerLaw(1.0)):
                truth = rational.curve(kernel, curve, discount, 0)
                if None in truth:
                    with pytest.raises(ValueError, match="its value is infinite"):
                        known.with_depletion(curve)
                else:
                    np.testing.assert_allclose(known.with_depletion(curve).matrix[:, 0], truth, rtol=1e-6)
            answered += 1
    assert refused >= 8
    assert answered >= 8
    small = wane.lambda_representation(kernel, 1e-12, discount=0.9).matrix
    with pytest.raises(wane.InaccurateSolve, match="too coarse to tell how often it is visited again.*a larger λ"):
        wane.from_lambda_representation(small, 1e-12, discount=0.9)


@pytest.mark.parametrize("traced", [False, True], ids=["concrete", "traced"])
def test_jax(traced):
    """In JAX the answer is right, or NaN where the discount is traced and turns out to be 1."""
    kernel = CHAINS["sticky"]

    def phi(discount):
        return wane.lambda_representation(jnp.asarray(kernel), 0.5, discount=discount, sites=[0]).matrix

    compute = jax.jit(phi) if traced else phi
    for discount in (0.5, *NEAR_ONE, 1.0):
        found = compute(discount)[:, 0]
        if traced and discount == 1:
            assert np.isnan(found).all()
        else:
            np.testing.assert_allclose(found, rational.curve(kernel, wane.Geometric(0.5), discount, 0), rtol=1e-10)


def test_rewards_that_cancel_are_refused():
    """V = ½ is the difference of two numbers of 5·10¹¹, which are rounded to 6·10⁻⁵."""
    kernel, rewards, discount = CHAINS["swap"], np.array([1.0, -1.0]), 1 - 1e-12
    phi = wane.successor_representation(kernel, discount=discount)
    patches = wane.patch_representation(kernel, [[0], [1]], wane.Geometric(1.0), discount=discount)
    for compute in (
        lambda: phi.values(rewards),
        lambda: phi.q_values(wane.MDP(kernel[:, None]), rewards),
        lambda: wane.successor_representation(jnp.asarray(kernel), discount=discount).values(rewards),
        lambda: wane.evaluate(kernel, rewards, wane.Geometric(1.0), discount=discount),
        lambda: patches.values(rewards),
    ):
        with pytest.raises(wane.InaccurateSolve, match="terms of opposite signs.*cancel"):
            compute()
    np.testing.assert_allclose(phi.values([1.0, 1.0]), 1 / (1 - discount), rtol=1e-14)
    # Half as far from 1 nothing is refused.
    np.testing.assert_allclose(
        wane.evaluate(kernel, rewards, wane.Geometric(1.0), discount=0.999999), [0.5, -0.5], 1e-6
    )


def test_every_method_is_right_or_refuses():
    kernel, discount = CHAINS["two"], 1 - 1e-12
    exact = [float(x) for x in rational.weighted(kernel, [Fraction(discount)] * 2, [1, 0])]
    for method in ("dense", "sparse", "krylov", "banded"):
        with pytest.raises(wane.InaccurateSolve, match="discounted steps|singular|residual"):
            solve(sparse.csr_array(kernel), np.array([1.0, 0.0]), discount=discount, method=method)
    for method in ("auto", "elimination"):
        np.testing.assert_allclose(
            solve(kernel, np.array([1.0, 0.0]), discount=discount, method=method).x, exact, 1e-14
        )


def test_elimination_in_halves_agrees_with_one_state_after_the_other():
    """200 states are eliminated in blocks. Rows of the SR sum to 1 / (1 − γ) exactly."""
    kernel, discount = np.random.default_rng(0).dirichlet(np.ones(200), 200), 1 - 1e-13
    sr = wane.successor_representation(kernel, discount=discount).matrix
    np.testing.assert_allclose(sr.sum(1) * (1 - discount), 1, rtol=1e-13)


class Switch(wane.Depletion):
    """It pays every other visit: a memory of two values, so nothing but rounding limits the answer."""

    def initial(self, shape=()):
        return np.ones(shape)

    def worth(self, memory):
        return memory

    def visit(self, memory):
        return 1 - memory


def test_the_error_of_a_renewal_is_stated_or_refused():
    fine = renewal_representation(CHAINS["loop"], Switch(), discount=0.99)
    assert abs(fine.matrix.item() - 1 / (1 - 0.99**2)) <= fine.truncation <= 1e-6
    with pytest.raises(ValueError, match="with a larger tolerance"):
        renewal_representation(CHAINS["loop"], Switch(), discount=1 - 1e-12)


class Drift(wane.Depletion):
    """Its memory grows with every visit and never settles."""

    def initial(self, shape=()):
        return np.zeros(shape)

    def worth(self, memory):
        return 1 / (1 + memory)

    def visit(self, memory):
        return memory + 0.1234567


def test_sums_over_very_many_visits_are_refused_at_once():
    """At γ = 1 − 1e-7 a hundred million visits count. To follow them one by one would look like a hang."""
    with pytest.raises(ValueError, match="have an error of .*more than the tolerance"):
        wane.representation(CHAINS["loop"], Drift(), discount=1 - 1e-7)
    with pytest.raises(ValueError, match="Drift would be summed over .* visits"):
        renewal_representation(CHAINS["loop"], Drift(), discount=1 - 1e-7, tolerance=1.0)


def test_bounds_at_the_edges():
    for discount, lam in ((1 - 1e-14, 1 - 1e-14), (1.0, 1 - 1e-14), (1 - 1e-14, 1.0)):
        exact = float(1 / (1 - Fraction(discount) * Fraction(lam)))
        np.testing.assert_allclose(bounds.maximum(lam, discount), [exact, discount * exact], rtol=1e-14)
        np.testing.assert_allclose(bounds.convergence(0, lam, discount), exact, rtol=1e-14)
    assert bounds.maximum(1.0, 1.0) == (np.inf, np.inf)
    assert bounds.convergence(3, 1.0, 1.0) == np.inf
    assert bounds.mismatch(0.5, 0.4, 1.0, 1.0) == bounds.gpi(0.5, 0.5, 1.0, 1.0) == np.inf
    assert bounds.mismatch(0.5, 0.5, 1.0, 1.0) == 0
    assert bounds.gpi_extension(0.5, 0.4, 1.0, [1.0], [1.0], [[1.0]]) == np.inf


K, MDP = CHAINS["two"], wane.MDP(CHAINS["two"][:, None])
PHI = wane.lambda_representation(K, 0.5, discount=0.9).matrix
WITH_DISCOUNT = {
    "evaluate_local": lambda g: wane.evaluate_local(K, {0: 1.0}, wane.Geometric(0.5), discount=g, at=[0]),
    "representation": lambda g: wane.representation(K, wane.Geometric(0.5), discount=g),
    "lambda_representation": lambda g: wane.lambda_representation(K, 0.5, discount=g),
    "successor_representation": lambda g: wane.successor_representation(K, discount=g),
    "first_occupancy_representation": lambda g: wane.first_occupancy_representation(K, discount=g),
    "n_occupancy_representation": lambda g: wane.n_occupancy_representation(K, 2, discount=g),
    "evaluate": lambda g: wane.evaluate(K, np.ones(2), wane.Geometric(0.5), discount=g),
    "patch_representation": lambda g: wane.patch_representation(K, [[0]], wane.Geometric(0.5), discount=g),
    "from_lambda_representation": lambda g: wane.from_lambda_representation(PHI, 0.5, discount=g),
    "iterate": lambda g: wane.iterate(K, 0.5, discount=g),
    "optimum": lambda g: wane.optimum(MDP, [1.0], wane.Geometric(0.5), discount=g, sites=[0]),
    "renewal_representation": lambda g: renewal_representation(K, wane.TimeElapsed(0.5), discount=g),
    "bellman_target": lambda g: bellman_target(PHI, np.eye(2), 0.5, g),
    "bellman_step": lambda g: wane.exact.bellman_step(PHI, K, 0.5, g),
    "bellman_action_step": lambda g: wane.exact.bellman_action_step(PHI[:, None], MDP, np.zeros(2, int), 0.5, g),
    "bounds.contraction": lambda g: bounds.contraction(PHI, PHI, g),
    "bounds.convergence": lambda g: bounds.convergence(3, 0.5, g),
    "bounds.maximum": lambda g: bounds.maximum(0.5, g),
    "bounds.mismatch": lambda g: bounds.mismatch(0.5, 0.4, g, 1.0),
    "bounds.gpi": lambda g: bounds.gpi(0.5, 0.4, g, 1.0),
    "bounds.gpi_extension": lambda g: bounds.gpi_extension(0.5, 0.4, g, [1.0], [1.0], [[1.0]]),
    "bounds.task_mismatch": lambda g: bounds.task_mismatch(0.5, g, [1.0], [0.5]),
    "bounds.optimum_mismatch": lambda g: bounds.optimum_mismatch(0.5, g, [1.0], [0.5]),
    "lambda_features": lambda g: wane.lambda_features(K, np.eye(2), 0.5, discount=g),
    "bounds.subadditivity": lambda g: bounds.subadditivity(K, [0], [1], 0.5, discount=g),
}


@pytest.mark.parametrize("name", WITH_DISCOUNT)
def test_a_discount_outside_of_the_unit_interval_is_refused(name):
    for discount in (5.0, 1 + 1e-12, -0.1, np.nan, np.inf):
        with pytest.raises(ValueError, match="discount must"):
            WITH_DISCOUNT[name](discount)


def test_the_list_of_functions_with_a_discount_is_complete():
    import inspect

    names = [(name, getattr(wane, name)) for name in wane.__all__] + list(vars(wane.exact).items())
    names += [(f"bounds.{name}", each) for name, each in vars(bounds).items() if not name.startswith("_")]
    functions = {n: f for n, f in names if inspect.isfunction(inspect.unwrap(f)) and not n.startswith("_")}
    taking = {name for name, each in functions.items() if "discount" in inspect.signature(each).parameters}
    # `build` takes arguments that have been checked; the others are imported by `bounds` from elsewhere.
    elsewhere = {"build", "bounds.patch_representation", "bounds.check_discount"}
    assert taking - elsewhere == set(WITH_DISCOUNT)


@pytest.mark.parametrize(
    "call",
    [
        lambda lam: wane.Geometric(lam),
        lambda lam: wane.from_lambda_representation(PHI, lam, discount=0.9),
        lambda lam: wane.iterate(K, lam, discount=0.9),
        lambda lam: bellman_target(PHI, np.eye(2), lam, 0.9),
        lambda lam: bounds.maximum(lam, 0.9),
        lambda lam: bounds.convergence(3, lam, 0.9),
        lambda lam: bounds.mismatch(0.5, lam, 0.9, 1.0),
    ],
)
def test_a_lambda_outside_of_the_unit_interval_is_refused(call):
    for lam in (1.5, 1 + 1e-12, -0.1, np.nan):
        with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
            call(lam)


def test_other_numbers_that_make_no_sense_are_refused():
    for d in (0.5, 0.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"self_occupancy holds .*pass max\(d, 1\)"):
            wane.equivalent_rewards(np.ones(2), wane.Geometric(0.5), np.array([1.0, d]))
    with pytest.raises(ValueError, match="not finite"):
        wane.from_lambda_representation(np.array([[1.5, np.nan], [0.2, 1.5]]), 0.5, discount=0.9)
    for tolerance in (-1.0, np.nan):
        with pytest.raises(ValueError, match="tolerance must be a finite number above 0"):
            wane.iterate(K, 0.5, discount=0.9, tolerance=tolerance)
        with pytest.raises(ValueError, match="tolerance must be a finite number above 0"):
            renewal_representation(K, wane.TimeElapsed(0.5), discount=0.9, tolerance=tolerance)


def test_repeated_entries_of_a_sparse_kernel_are_added():
    """SciPy's search for strong components never ends if a row names a column twice (300 states stay sparse)."""
    n = 300
    columns = np.stack([np.arange(n), np.arange(n) + 1, np.arange(n) + 1], axis=1) % n
    data = np.tile([0.5, 0.25, 0.25], n)
    repeated = sparse.csr_array((data, columns.ravel(), np.arange(0, 3 * n + 1, 3)), shape=(n, n))
    assert repeated.nnz == 3 * n
    tidy = repeated.copy()
    tidy.sum_duplicates()
    for form in (repeated, sparse.csr_matrix(repeated), repeated.tocsc()):
        assert check_kernel(form).has_canonical_format, "the search below would never end"
        phi = wane.representation(form, wane.Geometric(0.5), discount=1.0, sites=[0, 7])
        np.testing.assert_allclose(phi.matrix, 2.0)
        assert wane.evaluate(form, np.eye(n)[0], wane.Geometric(0.5), discount=1.0)[5] == 2
        np.testing.assert_allclose(
            wane.patch_representation(form, [[0, 7]], wane.Geometric(0.5), discount=1.0).matrix, 2
        )
    assert repeated.nnz == 3 * n, "the caller's matrix is left alone"
    mdp = wane.MDP([repeated, tidy])
    assert (mdp.under(np.zeros(n, int)) != tidy).nnz == 0
