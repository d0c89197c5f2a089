"""What users do that examples do not: odd parameters, other precisions, reused buffers, tracing in unusual places."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import wane

KERNEL = np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])
REWARDS = np.array([0.0, 1.0, 2.0])


@pytest.mark.parametrize("p", [5.0, 20.0, 21.0, 100.0, 1000.0])
def test_steep_power_laws(p):
    n = np.arange(2000)
    for x in (0.0, 0.5, 0.99):
        exact = ((1.0 + n) ** -p * x**n).sum()
        np.testing.assert_allclose(wane.PowerLaw(p).generating_function(x), exact, rtol=1e-12)


@pytest.mark.parametrize("k", [0.0, 5e-324, 1e-300, 1e300, 1e308, np.finfo(float).max])
def test_extreme_hyperbolic_curves(k):
    """Without warnings, which are errors here: k · n may overflow."""
    curve = wane.Hyperbolic(k)
    np.testing.assert_allclose(curve.worth(np.array([0, 1, 2**62])), [1.0, 1 / (1 + k), float(k < 1)], atol=1e-270)
    sr, fr = (wane.lambda_representation(KERNEL, lam, discount=0.9).matrix for lam in (1.0, 0.0))
    for kernel in (KERNEL, jnp.asarray(KERNEL))[: 1 + (k == 1e308)]:
        phi = wane.representation(kernel, curve, discount=0.9)
        np.testing.assert_allclose(phi.matrix, sr if k < 1 else fr, rtol=1e-12)
        np.testing.assert_allclose(
            phi.values(REWARDS, np.ones(3, int)), (sr if k < 1 else 0 * sr) @ REWARDS, atol=1e-12
        )


def test_curves_in_32_bits_give_no_warnings():
    """Warnings are errors here: no constant of the curves may be too large for 32 bits."""
    with jax.enable_x64(False):
        counts = jnp.arange(3)
        np.testing.assert_allclose(wane.Hyperbolic(2.0).worth(counts), [1, 1 / 3, 1 / 5], rtol=1e-6)
        elapsed = wane.TimeElapsed(0.5).initial((3,))._replace(visits=counts, steps=jnp.ones(3, int))
        np.testing.assert_allclose(wane.TimeElapsed(0.5).worth(elapsed), [1, 0.5, 0.25], rtol=1e-6)
        total = wane.Hyperbolic(2.0).generating_function(jnp.float32(0.5))
        np.testing.assert_allclose(total, wane.Hyperbolic(2.0).generating_function(0.5), rtol=1e-5)


@pytest.mark.parametrize(
    ("depletion", "alike"),
    [
        (wane.Geometric(5e-324), wane.Geometric(0.0)),
        (wane.FirstVisits(10**18), wane.Geometric(1.0)),
        (wane.FirstVisits(1e308), wane.Geometric(1.0)),
        (wane.PowerLaw(1e308), wane.Geometric(0.0)),
        (wane.TimeElapsed(0.5, rate=1e-300), wane.Geometric(0.0)),
        (wane.TimeElapsed(0.5, rate=1e308), wane.Geometric(1.0)),
        (wane.EligibilityTrace(1.0, 1.0), wane.Geometric(1.0)),
        (wane.EligibilityTrace(1.0, 5e-324), wane.Geometric(1.0)),
        (wane.TotalTime(5e-324, 1.0), wane.Geometric(0.0)),
        (wane.TotalTime(1.0, 1.0), wane.Geometric(1.0)),
    ],
    ids=repr,
)
def test_extreme_parameters(depletion, alike):
    found, expected = (wane.representation(KERNEL, each, discount=0.9).matrix for each in (depletion, alike))
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_first_visits_are_whole_and_have_gradients_where_nothing_returns():
    with pytest.raises(ValueError, match="whole number of visits, got 2.5"):
        wane.FirstVisits(2.5)
    loop = jnp.ones((1, 1))
    slope = jax.grad(lambda g: wane.n_occupancy_representation(loop, 3, discount=g).matrix[0, 0])(0.0)
    np.testing.assert_allclose(slope, 1.0)
    once = jax.grad(lambda g: wane.n_occupancy_representation(loop, 1, discount=g).matrix[0, 0])(0.0)
    np.testing.assert_allclose(once, 0.0)


def test_listed_curves_have_gradients_in_their_tail():
    def total(k):
        return wane.representation(jnp.asarray(KERNEL), wane.Listed([1.0, k], tail=k), discount=0.9).matrix.sum()

    np.testing.assert_allclose(jax.grad(total)(1.0), (total(1 + 1e-6) - total(1 - 1e-6)) / 2e-6, rtol=1e-6)


def test_single_precision():
    """Kernels and policies out of a network come in float32, and sum to one only so far."""
    rough = np.random.default_rng(0).dirichlet(np.ones(7), 7).astype(np.float32)
    exact = wane.lambda_representation(
        rough.astype(float) / rough.sum(1, dtype=float)[:, None], 0.5, discount=0.9
    ).matrix
    for form in (np.asarray, sparse.csr_array, jnp.asarray):
        np.testing.assert_allclose(wane.lambda_representation(form(rough), 0.5, discount=0.9).matrix, exact, rtol=1e-4)
    logits = np.random.default_rng(1).normal(size=(7, 2)).astype(np.float32)
    mdp = wane.MDP(np.stack([rough, rough], axis=1))
    kernel = mdp.under(np.asarray(jax.nn.softmax(jnp.asarray(logits, jnp.float32))))
    np.testing.assert_allclose(kernel.sum(1), 1, rtol=1e-12)
    elapsed = wane.representation(jnp.asarray(rough), wane.TimeElapsed(0.5), discount=0.9, sites=[0])
    assert elapsed.truncation <= 1e-6
    forever = wane.PowerLaw(2.0).generating_function(jnp.float32(1.0), escape=jnp.float32(0.0))
    np.testing.assert_allclose(forever, np.pi**2 / 6, rtol=1e-4)


def test_rows_within_tolerance_are_scaled():
    """A row sum of 1 + 5e-9 would make the chain explode at discount 1 − 1e-9."""
    for kernel in (np.array([[1 + 5e-9]]), np.array([[0.5, 0.5 + 9e-9], [0.5, 0.5]])):
        for form in (np.asarray, sparse.csr_array):
            sr = wane.successor_representation(form(kernel), discount=1 - 1e-9).matrix
            np.testing.assert_allclose(sr.sum(1), 1e9, rtol=1e-5)


def test_too_near_to_one_is_refused_where_elimination_would_take_too_long():
    n = 5000
    walk = sparse.diags_array([np.full(n - 1, 0.5), np.full(n - 1, 0.5)], offsets=[-1, 1]).tolil()
    walk[0, 0] = walk[-1, -1] = 0.5
    with pytest.raises(wane.InaccurateSolve, match=r"goes on for 1\.0e\+12 discounted steps.*a smaller discount"):
        wane.successor_representation(walk.tocsr(), discount=1 - 1e-12, sites=[7])


def test_the_callers_arrays_are_left_alone_and_not_watched():
    rows, columns = np.indices((3, 3)).reshape(2, -1)
    kernel = sparse.csr_array((KERNEL.ravel(), (rows, columns)), shape=(3, 3))
    assert kernel.nnz == 9, "zeros are there explicitly"
    before = kernel.nnz, kernel.data.copy()
    wane.lambda_representation(kernel, 0.5, discount=1.0)
    assert kernel.nnz == before[0]
    np.testing.assert_array_equal(kernel.data, before[1])
    mine = KERNEL.copy()
    phi = wane.lambda_representation(mine, 0.5, discount=0.9)
    transitions = np.stack([KERNEL, KERNEL], axis=1)
    mdp = wane.MDP(transitions)
    mine[:], transitions[:] = np.eye(3), 9
    elapsed = wane.representation(KERNEL, wane.TimeElapsed(0.5), discount=0.9).matrix
    np.testing.assert_allclose(phi.with_depletion(wane.TimeElapsed(0.5)).matrix, elapsed)
    np.testing.assert_array_equal(mdp.under([0, 1, 0]), KERNEL)


class Tabled(wane.Diminishing):
    """A user's look-up table: not a parameter for each site, whatever its length."""

    table: np.ndarray

    def worth(self, memory):
        return self.table[np.minimum(memory, len(self.table) - 1)]


@pytest.mark.parametrize("length", [3, 5])
def test_tables_of_users_are_not_cut(length):
    curve = Tabled(np.linspace(1, 0, length))
    exact = wane.representation(KERNEL, wane.Listed(list(curve.table)), discount=0.9).values(REWARDS)
    np.testing.assert_allclose(wane.representation(KERNEL, curve, discount=0.9).values(REWARDS), exact, rtol=1e-9)
    np.testing.assert_allclose(wane.evaluate(KERNEL, REWARDS, curve, discount=0.9), exact, rtol=1e-9)


def test_one_number_in_a_list_is_one_number():
    for depletion in (wane.Geometric([0.5]), wane.TimeElapsed([0.5])):
        single = type(depletion)(0.5)
        expected = wane.representation(KERNEL, single, discount=0.9).values(REWARDS)
        np.testing.assert_allclose(wane.evaluate(KERNEL, REWARDS, depletion, discount=0.9), expected, rtol=1e-9)
        np.testing.assert_allclose(wane.representation(KERNEL, depletion, discount=0.9).values(REWARDS), expected)


def test_traces_with_a_rate_for_each_site_under_jit():
    rates = np.array([0.3, 0.6, 0.9])
    exact = wane.representation(KERNEL, wane.EligibilityTrace(0.5, rates), discount=0.9).matrix

    def traced(rates, kernel):
        return wane.representation(kernel, wane.EligibilityTrace(0.5, rates), discount=0.9).matrix

    np.testing.assert_allclose(jax.jit(traced)(jnp.asarray(rates), jnp.asarray(KERNEL)), exact, rtol=1e-9)
    assert np.isfinite(jax.grad(lambda k: traced(rates, k).sum())(jnp.asarray(KERNEL))).all()


def test_evaluate_under_tracing():
    def value(lam):
        return wane.evaluate(KERNEL, REWARDS, wane.Geometric(lam), discount=0.9)

    for lam in (0.5, 1.0):
        np.testing.assert_allclose(jax.jit(value)(lam), value(lam), rtol=1e-9)
    many = jax.vmap(value)(jnp.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(many[1], value(0.5), rtol=1e-9)


@pytest.mark.parametrize(
    "depletion", [wane.Geometric(0.5), wane.EligibilityTrace(0.5, 0.5), wane.TimeElapsed(0.5)], ids=repr
)
def test_batches_of_rewards(depletion):
    phi = wane.representation(KERNEL, depletion, discount=0.9)
    batch = np.random.default_rng(0).random((3, 3))
    np.testing.assert_allclose(phi.values(batch), [phi.values(r) for r in batch], rtol=1e-12)


class Growing(wane.Diminishing):
    def worth(self, memory):
        return 1.0 + memory


class Lasting(wane.Diminishing):
    def worth(self, memory):
        return 1.0 + 0 * memory


MDP = wane.MDP(np.stack([KERNEL, KERNEL[::-1]], axis=1))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: wane.patch_representation(np.ones((1, 1)), [[0]], Lasting(), discount=1 - 1e-6),
            ValueError,
            "would take .* terms",
        ),
        (lambda: wane.patch_representation(KERNEL, [[0]], Growing(), discount=0.9), ValueError, "above its bound 1"),
        (
            lambda: wane.patch_representation(KERNEL, [], wane.Geometric(0.5), discount=0.9),
            ValueError,
            "patches is empty",
        ),
        (
            lambda: wane.patch_representation(KERNEL, [[0], [1]], wane.Geometric([0.1, 0.2, 0.3]), discount=0.9),
            ValueError,
            "for 2 sites",
        ),
        (lambda: wane.optimum(MDP, [1.0], Growing(), discount=0.9, sites=[0]), ValueError, "above its bound 1"),
        (lambda: wane.optimum(KERNEL, [1.0], wane.Geometric(0.5), discount=0.9, sites=[0]), TypeError, "pass wane.MDP"),
        (
            lambda: wane.optimum(MDP, [1.0], wane.Geometric(0.5), discount=0.9, sites=[0], tolerance=-1),
            ValueError,
            "tolerance",
        ),
        (
            lambda: wane.optimum(
                MDP,
                [1.0],
                wane.Geometric(0.5),
                discount=0.9,
                sites=[0],
                timing="arrival",
                action_rewards=np.full((3, 2), np.nan),
            ),
            ValueError,
            r"action_rewards must be finite numbers of shape \(3, 2\)",
        ),
        (
            lambda: wane.optimum(MDP, [1.0], wane.Geometric(0.5), discount=0.9, sites=[0], caps=[1, 2]),
            ValueError,
            "caps must be one",
        ),
        (
            lambda: wane.optimum(MDP, [1.0], wane.Geometric(0.5), discount=0.9, sites=[0], horizon=3).action(0, [0, 0]),
            ValueError,
            "a finite number for each of the 1 sites",
        ),
        (
            lambda: wane.optimum(MDP, [1.0], wane.Geometric(0.5), discount=0.9, sites=[0], horizon=1).action(0, [0]),
            ValueError,
            "no action is ever taken",
        ),
        (lambda: wane.lambda_representation(KERNEL, 0.5, discount=0.9, sites=[]), ValueError, "sites is empty"),
        (lambda: wane.lambda_representation(MDP, 0.5, discount=0.9), TypeError, r"pass mdp.under\(policy\)"),
        (
            lambda: wane.successor_representation(KERNEL, discount=0.9).with_depletion(wane.Geometric([0.1, 0.2])),
            ValueError,
            "for 3 sites",
        ),
        (lambda: wane.iterate(KERNEL, [0.5, 0.2], discount=0.9), ValueError, "for 3 sites"),
        (lambda: wane.iterate(KERNEL, 0.5, discount=1.0, stop="bound"), ValueError, "does not shrink"),
        (
            lambda: wane.successor_representation(KERNEL, discount=0.9).q_values(MDP, np.ones((2, 3))),
            ValueError,
            "one reward vector",
        ),
        (
            lambda: wane.evaluate(KERNEL, [1.0, np.nan, 0.0], wane.Geometric(1.0), discount=0.9),
            ValueError,
            "that of state 1 is nan",
        ),
        (lambda: wane.evaluate(KERNEL, REWARDS, 0.5, discount=0.9), TypeError, "0.5 is not a Depletion"),
        (
            lambda: wane.from_lambda_representation([[0.9, 0.2], [0.2, 2.5]], 0.5, discount=0.9),
            ValueError,
            "cannot belong to a λR with this λ",
        ),
        (
            lambda: wane.from_lambda_representation(np.eye(2), 0.5, discount=0.9, sites=[0]),
            ValueError,
            "one column for each",
        ),
        (
            lambda: wane.from_lambda_representation(np.eye(2), 0.5, discount=0.9).with_depletion(wane.TimeElapsed(0.5)),
            ValueError,
            "TimeElapsed needs the kernel",
        ),
        (
            lambda: jax.grad(
                lambda g: wane.successor_representation(sparse.csr_array(KERNEL), discount=g).matrix.sum()
            )(0.9),
            TypeError,
            "dense kernels only",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_nothing_is_earned_after_the_end():
    mdp = wane.MDP([sparse.csr_array(np.array([[0.0, 1.0], [0.0, 0.0]]))])
    best = wane.optimum(
        mdp,
        [0.0],
        wane.Geometric(0.5),
        discount=0.5,
        sites=[0],
        timing="arrival",
        action_rewards=np.ones((2, 1)),
        horizon=4,
    )
    np.testing.assert_allclose(best.values, [0.5, 0.0])
