import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

import wane
from chains import CHAINS, discounts, kernels, monte_carlo
from wane.exact import eigenfunctions
from wane.exact.occupancy import Occupancy
from wane.exact.solve import solve
from wane.kernels import Rows

KERNEL = CHAINS["mixing"]
DEPLETIONS = [
    wane.Geometric(0.0),
    wane.Geometric(0.5),
    wane.Geometric(1.0),
    wane.FirstVisits(2),
    wane.Hyperbolic(1.5),
    wane.PowerLaw(0.8),
    wane.Listed([1.0, 0.2, 0.6], tail=0.1),
    wane.TimeElapsed(0.5, 0.4),
    wane.EligibilityTrace(0.4, 0.7),
    wane.EligibilityTrace(0.4, 0.7, equation="representation"),
    wane.TotalTime(0.5, 0.95),
    wane.TotalTime(0.5, 0.8, equation="representation"),
]


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("depletion", DEPLETIONS, ids=repr)
def test_exact_is_what_playing_gives(name, depletion):
    kernel, site = CHAINS[name], len(CHAINS[name]) - 1
    phi = wane.representation(kernel, depletion, discount=0.8, sites=[site]).matrix
    for start in {0, site}:
        mean, error = monte_carlo(kernel, depletion, 0.8, site, start, episodes=4000, steps=70)
        assert abs(phi[start, 0] - mean) <= 5 * error + 1e-4


@given(kernel=kernels(), discount=discounts, seed=st.integers(0, 100))
def test_state_action_form_is_consistent(kernel, discount, seed):
    """Under the policy that a row of transitions is, Φ(s, a, ·) averages to Φ(s, ·), for every depletion."""
    n = len(kernel)
    transitions = np.stack([kernel, kernel], axis=1)
    mdp = wane.MDP(transitions)
    rewards = np.random.default_rng(seed).normal(size=n)
    for depletion in [
        wane.Geometric(0.5),
        wane.Hyperbolic(1.0),
        wane.FirstVisits(2),
        wane.EligibilityTrace(0.5, 0.5),
    ]:
        phi = wane.representation(kernel, depletion, discount=discount)
        np.testing.assert_allclose(phi.action_matrix(mdp)[:, 0], phi.matrix, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(phi.q_values(mdp, rewards)[:, 1], phi.values(rewards), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("depletion", DEPLETIONS, ids=repr)
def test_values_after_visits_continue_where_the_memory_stands(depletion):
    """V from a memory is one step of reward and the value from the next memory."""
    phi = wane.representation(KERNEL, depletion, discount=0.7, sites=[1, 3])
    memory = depletion.wait(depletion.visit(depletion.visit(phi.fresh_memory)))
    now, visited, waited = (phi.at(m) for m in (memory, depletion.visit(memory), depletion.wait(memory)))
    worth = np.broadcast_to(depletion.worth(memory), 2)
    for j, site in enumerate([1, 3]):
        expected = 0.7 * KERNEL @ waited[:, j]
        expected[site] = worth[j] + 0.7 * KERNEL[site] @ visited[:, j]
        np.testing.assert_allclose(now[:, j], expected, rtol=3e-6)
    np.testing.assert_allclose(phi.values([2.0, 1.0], memory), now @ [2.0, 1.0], rtol=1e-12)


def test_per_site_parameters_and_batches():
    lam = np.array([0.0, 0.3, 0.5, 1.0, 0.8])
    phi = wane.lambda_representation(KERNEL, lam, discount=0.9)
    for j, one in enumerate(lam):
        column = wane.lambda_representation(KERNEL, one, discount=0.9, sites=[j]).matrix[:, 0]
        np.testing.assert_allclose(phi.matrix[:, j], column, rtol=1e-12)
    many = np.linspace(0, 1, 7)
    batch = phi.with_depletion(wane.Geometric(many[:, None])).values(np.arange(5.0))
    single = [wane.lambda_representation(KERNEL, one, discount=0.9).values(np.arange(5.0)) for one in many]
    np.testing.assert_allclose(batch, single, rtol=1e-12)
    trace = wane.EligibilityTrace(np.array([0.2, 0.9]), np.array([0.5, 0.8]))
    both = wane.representation(KERNEL, trace, discount=0.9, sites=[0, 4]).matrix
    alone = wane.representation(KERNEL, wane.EligibilityTrace(0.9, 0.8), discount=0.9, sites=[4]).matrix
    np.testing.assert_allclose(both[:, 1:], alone, rtol=1e-12)


def test_sites_select_columns():
    every = wane.lambda_representation(KERNEL, 0.5, discount=0.9).matrix
    some = wane.lambda_representation(KERNEL, 0.5, discount=0.9, sites=[3, 1])
    np.testing.assert_allclose(some.matrix, every[:, [3, 1]], rtol=1e-12)
    np.testing.assert_allclose(some.values([1.0, 2.0]), every @ [0, 2.0, 0, 1.0, 0], rtol=1e-12)


def test_with_depletion_solves_nothing_between_curves():
    phi = wane.successor_representation(KERNEL, discount=0.9)
    assert isinstance(phi, Occupancy)
    for depletion in DEPLETIONS:
        other = phi.with_depletion(depletion)
        fresh = wane.representation(KERNEL, depletion, discount=0.9)
        np.testing.assert_allclose(other.matrix, fresh.matrix, rtol=1e-9)
        if isinstance(depletion, wane.Diminishing):
            assert isinstance(other, Occupancy)
            assert other.first_visit is phi.first_visit


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, jnp.asarray], ids=["dense", "sparse", "jax"])
@pytest.mark.parametrize("depletion", DEPLETIONS, ids=repr)
def test_every_form_of_kernel(form, depletion):
    reference = wane.representation(KERNEL, depletion, discount=0.9, sites=[0, 2])
    phi = wane.representation(form(KERNEL), depletion, discount=0.9, sites=[0, 2])
    np.testing.assert_allclose(phi.matrix, reference.matrix, rtol=1e-9)
    assert isinstance(phi.matrix, jax.Array) == (form is jnp.asarray)
    assert float(phi.residual) < 1e-10
    assert phi.method
    assert phi.truncation <= 1e-6


def test_gradients_in_everything():
    kernel, rewards = jnp.asarray(KERNEL), jnp.arange(5.0)
    tangent = jnp.asarray(np.roll(KERNEL, 1, axis=0) - KERNEL)

    def value(lam, discount, shift, rewards):
        phi = wane.representation(kernel + shift * tangent, wane.Geometric(lam), discount=discount)
        return phi.values(rewards)[0]

    point = (0.5, 0.9, 0.1, rewards)
    slopes = jax.jit(jax.grad(value, argnums=(0, 1, 2, 3)))(*point)
    for i, slope in enumerate(slopes[:3]):
        up, down = (tuple(p + e * (i == j) if j < 3 else p for j, p in enumerate(point)) for e in (1e-6, -1e-6))
        np.testing.assert_allclose(slope, (value(*up) - value(*down)) / 2e-6, rtol=1e-6)
    phi = wane.representation(kernel + 0.1 * tangent, wane.Geometric(0.5), discount=0.9)
    np.testing.assert_allclose(slopes[3], phi.matrix[0], rtol=1e-9)


def test_vmap_over_lambda_and_kernels():
    lams = jnp.linspace(0, 1, 4)
    many = jax.jit(jax.vmap(lambda lam: wane.lambda_representation(jnp.asarray(KERNEL), lam, discount=0.9).matrix))(
        lams
    )
    for lam, phi in zip(lams, many, strict=True):
        np.testing.assert_allclose(phi, wane.lambda_representation(KERNEL, float(lam), discount=0.9).matrix, rtol=1e-9)
    stack = jnp.stack([jnp.asarray(KERNEL), jnp.roll(jnp.asarray(KERNEL), 1, axis=1)])
    values = jax.vmap(lambda p: wane.successor_representation(p, discount=0.9).values(jnp.ones(5)))(stack)
    np.testing.assert_allclose(values, 10.0, rtol=1e-9)
    with pytest.raises(TypeError, match="recurrent classes.*while it traces"):
        jax.jit(lambda p: wane.lambda_representation(p, 0.5, discount=1.0).matrix)(stack[0])
    with pytest.raises(TypeError, match="TimeElapsed has no closed form.*without jit"):
        jax.jit(lambda p: wane.representation(p, wane.TimeElapsed(0.5), discount=0.9).matrix)(stack[0])


@given(kernel=kernels(), discount=discounts, seed=st.integers(0, 100))
def test_evaluate_is_the_same_with_less_solving(kernel, discount, seed):
    rng = np.random.default_rng(seed)
    n = len(kernel)
    rewards = rng.normal(size=n) * rng.integers(0, 2, n)
    for lam in (1.0, 0.5, rng.choice([0.0, 0.5, 1.0], n)):
        values = wane.evaluate(kernel, rewards, wane.Geometric(lam), discount=discount)
        expected = wane.lambda_representation(kernel, lam, discount=discount).values(rewards)
        np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-9)


def test_evaluate_other_forms():
    rewards = np.array([0.0, 1.0, 0.0, 2.0, 0.0])
    expected = wane.representation(KERNEL, wane.TimeElapsed(0.5), discount=0.8).values(rewards)
    np.testing.assert_allclose(wane.evaluate(KERNEL, rewards, wane.TimeElapsed(0.5), discount=0.8), expected, rtol=1e-6)
    slope = jax.grad(lambda r: wane.evaluate(jnp.asarray(KERNEL), r, wane.Geometric(0.5), discount=0.8)[0])(
        jnp.asarray(rewards)
    )
    np.testing.assert_allclose(slope, wane.lambda_representation(KERNEL, 0.5, discount=0.8).matrix[0], rtol=1e-9)
    assert not wane.evaluate(KERNEL, np.zeros(5), wane.Geometric(0.5), discount=0.8).any()


def test_single_precision_and_tracing_do_not_hide_a_bad_solve():
    kernel = jnp.asarray([[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]])
    poisoned = jax.jit(lambda discount: wane.successor_representation(kernel, discount=discount).matrix)(1.0)
    assert not np.isfinite(poisoned).all(), "a singular system must not look like an answer"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: wane.lambda_representation(KERNEL, 0.5, discount=1.5),
            ValueError,
            "discount must be one number",
        ),
        (
            lambda: wane.lambda_representation(KERNEL, 0.5, discount=0.9, sites=[9]),
            ValueError,
            "unknown site 9",
        ),
        (
            lambda: wane.lambda_representation(KERNEL * 0.93, 0.5, discount=0.9),
            ValueError,
            "row 0 sums to 0.93",
        ),
        (
            lambda: wane.lambda_representation(KERNEL, [0.5, 0.5], discount=0.9),
            ValueError,
            r"shape \(2,\) for 5 sites",
        ),
        (lambda: wane.representation(KERNEL, 0.5, discount=0.9), TypeError, r"did you mean wane.Geometric\(0.5\)\?"),
        (lambda: wane.equivalent_rewards(np.ones(5), 0.5, np.ones(5)), TypeError, "0.5 is not a Depletion"),
        (lambda: wane.exact.renewal_representation(KERNEL, 0.5, discount=0.9), TypeError, "0.5 is not a Depletion"),
        (
            lambda: wane.successor_representation(KERNEL, discount=0.9).values([1.0]),
            ValueError,
            r"rewards has shape \(1,\), but there are 5 sites",
        ),
        (
            lambda: wane.successor_representation(KERNEL, discount=0.9).values([np.nan] * 5),
            ValueError,
            "finite",
        ),
        (
            lambda: wane.evaluate(KERNEL, [1.0], wane.Geometric(0.5), discount=0.9),
            ValueError,
            "one r̄ for each of the 5 states",
        ),
        (
            lambda: wane.successor_representation(KERNEL, discount=1.0),
            ValueError,
            r"site 0 is visited again and again with discount 1.0, and Geometric\(lam=1.0\) never wears off enough",
        ),
        (
            lambda: wane.successor_representation(jnp.asarray(KERNEL), discount=1.0),
            ValueError,
            "its value is infinite. Discount, or let it wear off",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, jnp.asarray], ids=["dense", "sparse", "jax"])
@pytest.mark.parametrize("depletion", [wane.Geometric([0.2, 0.5, 1.0]), wane.Hyperbolic(1.0)], ids=repr)
def test_action_form_of_curves_is_the_backup_of_both_memories(form, depletion):
    """Curves back up F only once; that must be the same as to back up Φ after a visit and after waiting."""
    mdp = wane.MDP(np.stack([KERNEL, KERNEL[::-1]], axis=1))
    phi = wane.representation(form(KERNEL), depletion, discount=0.9, sites=[0, 3, 4])
    for memory in (None, np.array([0, 2, 5])):
        twice = wane.Representation.action_matrix(phi, mdp, memory)
        np.testing.assert_allclose(phi.action_matrix(mdp, memory), twice, rtol=1e-13)
    jitted = jax.jit(lambda lam: phi.with_depletion(wane.Geometric(lam)).action_matrix(mdp))(0.5)
    np.testing.assert_allclose(jitted, phi.with_depletion(wane.Geometric(0.5)).action_matrix(mdp), rtol=1e-12)


def test_representations_are_pytrees_with_a_readable_name():
    phi = wane.lambda_representation(jnp.asarray(KERNEL), 0.5, discount=0.9, sites=[0, 3])
    assert repr(phi) == "Occupancy(2 sites, Geometric(lam=0.5), discount=0.9, solved by dense LU (JAX))"
    leaves, structure = jax.tree_util.tree_flatten(phi)
    again = jax.tree_util.tree_unflatten(structure, leaves)
    np.testing.assert_array_equal(again.matrix, phi.matrix)
    assert again.method == phi.method
    with pytest.raises(FrozenInstanceError):
        phi.method = "magic"


def test_importing_the_exact_part_imports_no_tables_plots_or_environments():
    """The package itself is replaced by an empty one, as its own imports are tested elsewhere."""
    code = (
        "import sys, types; package = types.ModuleType('wane'); package.__path__ = [sys.argv[1]]; "
        "sys.modules['wane'] = package; import wane.exact; "
        "print([name for name in ('pandas', 'matplotlib', 'gymnasium', 'ray') if name in sys.modules]); "
        "print([name for name in wane.exact.__all__ if not hasattr(wane.exact, name)])"
    )
    folder = str(Path(wane.__file__).parent)
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]


def test_user_written_registration():
    """A user who knows a closed form can register it."""

    class Forever(wane.Depletion):
        def worth(self, memory):
            return 1.0 + 0 * memory

        def visit(self, memory):
            return memory

    chain = wane.representation(KERNEL, Forever(), discount=0.8, sites=[1])
    np.testing.assert_allclose(
        chain.matrix, wane.successor_representation(KERNEL, discount=0.8, sites=[1]).matrix, atol=1e-6
    )

    @wane.exact.representations.build.register
    def _(depletion: Forever, kernel, discount, sites, method):
        return wane.exact.representations.build(wane.Geometric(1.0), kernel, discount, sites, method)

    known = wane.representation(KERNEL, Forever(), discount=0.8, sites=[1])
    assert isinstance(known, Occupancy)


def test_visits_below_zero_and_actions_that_do_not_exist():
    phi = wane.lambda_representation(KERNEL, 0.5, discount=0.9)
    mdp = wane.MDP(np.stack([KERNEL, KERNEL], axis=1))
    for query in (phi.at, lambda m: phi.values(np.ones(5), m), lambda m: phi.q_values(mdp, np.ones(5), m)):
        with pytest.raises(ValueError, match="the memory of Geometric is a number of visits from 0 on"):
            query(np.array([0, -2, 1, 0, 0]))
    for action in (-1, 2):
        with pytest.raises(ValueError, match=f"there is no action {action}: actions are numbered 0 to 1"):
            mdp.action(action)


WALK = np.random.default_rng(5).dirichlet(np.ones(30), 30)
OPERATOR = LinearOperator(WALK.shape, lambda x: WALK @ x, dtype=float)


@pytest.mark.parametrize(
    "depletion", [wane.Geometric(0.5), wane.Geometric(1.0), wane.FirstVisits(3), wane.Hyperbolic(1.0)], ids=repr
)
def test_a_kernel_that_only_multiplies(depletion):
    sites = [3, 0, 17]
    found, exact = (wane.representation(kernel, depletion, discount=0.95, sites=sites) for kernel in (OPERATOR, WALK))
    np.testing.assert_allclose(found.matrix, exact.matrix, rtol=1e-9)
    assert found.residual < 1e-10
    assert "matrix-free" in found.method
    rewards = np.arange(30.0)
    for horizon in (None, 7):
        values, expected = (
            wane.evaluate(kernel, rewards, depletion, discount=0.95, horizon=horizon) for kernel in (OPERATOR, WALK)
        )
        np.testing.assert_allclose(values, expected, rtol=1e-9)


def test_a_million_states_without_a_matrix():
    """A walk on a torus of 1000 × 1000 cells, given as shifts. By symmetry Φ depends on the distance only."""
    side = 1000

    def step(x):
        grid = x.reshape(side, side)
        return (sum(np.roll(grid, shift, axis) for axis in (0, 1) for shift in (-1, 1)) / 4).ravel()

    torus = LinearOperator((side**2, side**2), step, dtype=float)
    phi = wane.representation(torus, wane.Geometric(0.5), discount=0.9, sites=[0]).matrix.reshape(side, side)
    assert phi[0, 0] == phi.max()
    np.testing.assert_allclose([phi[0, 7], phi[7, 0], phi[0, -7]], phi[-7, 0], rtol=1e-9)
    np.testing.assert_allclose(phi[0, 0], 1 + 0.9 * 0.5 * phi[0, 1], rtol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(discount=1.0), "discount 1 looks at single rows"),
        (dict(depletion=wane.TotalTime(0.5, 0.9)), "under TotalTime looks at single"),
        (dict(method="dense"), "the method 'dense' looks at"),
        (dict(kernel=2 * OPERATOR), "kernel row 0 sums to 2 .and 29 more"),
    ],
)
def test_what_an_operator_cannot_do(arguments, message):
    given = dict(kernel=OPERATOR, depletion=wane.Geometric(0.5), discount=0.9) | arguments
    with pytest.raises((TypeError, ValueError), match=message):
        wane.representation(**given)


@pytest.mark.parametrize(
    "answer",
    [
        lambda kernel: wane.iterate(kernel, 0.5, discount=0.8, sites=[3, 0]).matrix,
        lambda kernel: wane.lambda_features(kernel, np.linspace(0, 1, 60).reshape(30, 2), 0.5, discount=0.9).matrix,
        lambda kernel: wane.patch_representation(kernel, [[0, 4], [7]], wane.Geometric(0.5), discount=0.9).matrix,
    ],
    ids=["iterate", "features", "patches"],
)
def test_what_needs_only_products(answer):
    np.testing.assert_allclose(answer(OPERATOR), answer(WALK), rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: wane.patch_representation(OPERATOR, [[0]], wane.Geometric(0.5), discount=1.0), "discount 1"),
        (lambda: wane.patch_representation(OPERATOR, [[0]], wane.Hyperbolic(1.0), discount=0.9), "under Hyperbolic"),
        (lambda: wane.patch_representation(OPERATOR, [[0]], wane.TimeElapsed(0.5), discount=0.9), "under TimeElapsed"),
        (lambda: wane.lambda_features(OPERATOR, jnp.eye(30), 0.5, discount=0.9), "a λF in JAX"),
        (lambda: eigenfunctions(OPERATOR, 2), "this function"),
    ],
)
def test_what_needs_a_matrix_says_so(call, what):
    with pytest.raises(TypeError, match=f"{what} looks at single rows.*only multiplies vectors"):
        call()


class _Endless:
    def rows(self, states):
        return states[:, None] + 1, np.ones((len(states), 1))


@pytest.mark.usefixtures("unchecked_types")
def test_a_kernel_that_only_shows_rows_is_refused_where_vectors_are_multiplied():
    kernel: Any = _Endless()
    assert isinstance(kernel, Rows)
    with pytest.raises(TypeError, match="_Endless, which shows the rows of some states"):
        wane.successor_representation(kernel, discount=0.9)


def _answers():
    mdp, features = wane.MDP(np.stack([WALK, WALK], axis=1)), np.linspace(0, 1, 60).reshape(30, 2)
    yield mdp
    yield wane.optimum(mdp, np.ones(2), wane.Geometric(0.5), discount=0.9, sites=[0, 1], horizon=20)
    yield wane.optimum(mdp, np.ones(1), wane.TotalTime(0.5, 0.9, "representation"), discount=0.9, sites=[0]).levels[0]
    for depletion in (wane.Geometric(np.full(30, 0.5)), wane.Listed(np.linspace(1, 0, 100)), wane.TimeElapsed(0.5)):
        yield depletion
        yield wane.representation(WALK, depletion, discount=0.8)
    yield wane.patch_representation(WALK, [[0, 1]], wane.Geometric(0.5), discount=0.9)
    yield wane.lambda_features(WALK, features, 0.5, discount=0.9)
    yield eigenfunctions(WALK, 3)
    yield wane.iterate(WALK, 0.5, discount=0.9)
    yield solve(WALK, None, discount=0.9)


def test_every_answer_fits_a_screen():
    for answer in _answers():
        text = repr(answer)
        assert type(answer).__name__ in text
        assert len(text) <= 400, text
        assert text.count("\n") < 5, text
    assert repr(wane.iterate(WALK, 0.5, discount=0.9)).startswith("Iteration(matrix=float64[30, 30], errors=float64[")
    assert repr(wane.Listed([1.0, 0.5])) == "Listed(values=(1.0, 0.5), tail=0.0)"
