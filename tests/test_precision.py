"""In JAX's 32 bits every quantity of every depletion is within 1e-5 of its 64-bit value, or an error asks for 64 bits.

The 64-bit values come from the NumPy path. Relative errors are taken entry by entry.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane

KERNEL = np.array([[0.25, 0.5, 0.25], [0.0, 0.5, 0.5], [0.625, 0.125, 0.25]])
ENDS = np.array([[0.125, 0.625, 0.25], [0.5, 0.25, 0.25], [0.0, 0.0, 0.0]])
MDP = wane.MDP(np.stack([KERNEL, KERNEL[::-1]], axis=1))
REWARDS = np.array([0.5, 1.0, 2.0])
# All arrays have three entries, as the kernel has states, so that JAX compiles each operation once.
ESCAPES = np.array([[1.0, 0.5, 0.1], [1e-3, 1e-6, 0.0]])


class Bored(wane.Diminishing):
    """A user's curve, summed as a series."""

    def worth(self, visits):
        return 1 / (1 + visits) ** 2


DEPLETIONS = [
    *(wane.Geometric(lam) for lam in (0.0, 0.1, 0.5, 0.9, 0.999, 1 - 1e-9, 1.0)),
    *(wane.FirstVisits(n) for n in (0, 1, 3, 1000, 10**6)),
    *(wane.Hyperbolic(k) for k in (0.0, 1e-6, 0.1, 1.0, 4.0, 1e6, 1e308)),
    *(wane.PowerLaw(p) for p in (0.05, 0.1, 0.3, 0.5, 0.89, 1.0, 1.0001, 1.5, 3.0, 19.0, 25.0, 400.0)),
    wane.Listed([1.0, 0.5, 0.7]),
    wane.Listed([1.0, 0.5, 0.7], tail=0.1),
    wane.Listed(list(np.linspace(1, 0, 200))),
    wane.TimeElapsed(0.5, 0.3),
    *(
        scheme(drop, regrow, equation=equation)
        for scheme in (wane.EligibilityTrace, wane.TotalTime)
        for drop, regrow in ((0.0, 0.6), (0.5, 0.1), (0.99, 1.0))
        for equation in ("reward", "representation")
    ),
    Bored(),
]
CURVES = [d for d in DEPLETIONS if isinstance(d, wane.Diminishing)]
ONE_OF_EACH = [*{type(d): d for d in CURVES if type(d) is not wane.Listed}.values(), wane.PowerLaw(0.3)]


def name(depletion):
    return repr(depletion)[:50].replace("\n", "")


def agree(in_64_bits, in_32_bits):
    """Compares two functions, of which the second runs in 32 bits and may refuse. Returns whether it answered."""
    try:
        with jax.enable_x64(True):
            exact = np.asarray(in_64_bits(), float)
    except (ValueError, wane.InaccurateSolve) as error:
        with jax.enable_x64(False), pytest.raises(type(error)):
            in_32_bits()
        return False
    rough = answer_or_none(in_32_bits)
    if rough is None:
        return False
    assert rough.dtype in (np.float32, np.float64)
    np.testing.assert_allclose(rough, exact, rtol=1e-5, atol=1e-37)
    return True


def answer_or_none(compute):
    """What a function returns in 32 bits; None if it raises an error that says to switch on 64 bits."""
    with jax.enable_x64(False):
        try:
            return np.asarray(compute())
        except (ValueError, wane.InaccurateSolve) as error:
            if "64 bits" in str(error):
                return None
            raise


def history(depletion, to_array):
    """What a visit would pay at twelve times, with visits at three of them."""
    memory, worth = jax.tree_util.tree_map(to_array, depletion.initial()), []
    for t in range(12):
        worth.append(float(depletion.worth(memory)))
        memory = depletion.visit(memory) if t in (2, 3, 7) else depletion.wait(memory)
    return worth


@pytest.mark.parametrize("depletion", DEPLETIONS, ids=name)
def test_worth(depletion):
    if isinstance(depletion, wane.Diminishing):
        visits = np.array([0, 1, 2, 5, 50, 1000])
        assert agree(lambda: depletion.worth(visits), lambda: depletion.worth(jnp.asarray(visits)))
    else:
        assert agree(lambda: history(depletion, np.asarray), lambda: history(depletion, jnp.asarray))


@pytest.mark.parametrize("depletion", [d for d in CURVES if not isinstance(d, Bored)], ids=name)
def test_generating_function(depletion):
    for escape in ESCAPES:
        for visits in (0, 3, 100):

            def total(make, escape=escape, visits=visits):
                return depletion.generating_function(make(1 - escape), np.full(3, visits), make(escape))

            assert agree(lambda total=total: total(np.asarray), lambda total=total: total(jnp.asarray))


def phi(depletion, to_array, discount):
    return wane.representation(to_array(KERNEL), depletion, discount=discount)


def test_representation():
    """Errors are the exception: rewards that grow, and pay and loss that cancel."""
    answered = [
        agree(lambda d=d: phi(d, np.asarray, 0.9).matrix, lambda d=d: phi(d, jnp.asarray, 0.9).matrix)
        for d in DEPLETIONS
    ]
    assert sum(answered) >= 0.9 * len(answered)


@pytest.mark.parametrize("depletion", [d for d in CURVES if not isinstance(d, Bored)], ids=name)
def test_representation_close_to_discount_one(depletion):
    assert agree(
        lambda: phi(depletion, np.asarray, 0.999999).matrix, lambda: phi(depletion, jnp.asarray, 0.999999).matrix
    )


@pytest.mark.parametrize(
    "depletion", [wane.Geometric(0.9), wane.PowerLaw(0.3), wane.EligibilityTrace(0.5, 0.6)], ids=name
)
def test_values(depletion):
    for quantity in (lambda p: p.values(REWARDS), lambda p: p.q_values(MDP, REWARDS), lambda p: p.action_matrix(MDP)):
        assert agree(
            lambda quantity=quantity: quantity(phi(depletion, np.asarray, 0.99)),
            lambda quantity=quantity: quantity(phi(depletion, jnp.asarray, 0.99)),
        )


@pytest.mark.parametrize("depletion", ONE_OF_EACH, ids=name)
def test_other_exact_answers(depletion):
    for answer in (
        lambda make: wane.patch_representation(make(KERNEL), [[0, 1], [2]], depletion, discount=0.99).matrix,
        lambda make: wane.evaluate(make(ENDS), make(REWARDS), depletion, discount=1.0),
        lambda make: wane.equivalent_rewards(make(REWARDS), depletion, make(np.array([1.0, 10.0, 1e3]))),
    ):
        assert agree(lambda answer=answer: answer(np.asarray), lambda answer=answer: answer(jnp.asarray))


def test_from_one_lambda_to_others():
    """A small λ says little about returns, and in 32 bits it says less."""

    def others(lam, make):
        given = phi(wane.Geometric(lam), make, 0.9)
        known = wane.from_lambda_representation(given.matrix, lam, discount=0.9)
        return np.stack([known.with_depletion(wane.FirstVisits(3)).matrix, wane.lambda_derivative(given)])

    for lam, expected in ((1.0, True), (0.9, True), (0.01, False), (1e-6, False)):
        assert agree(lambda lam=lam: others(lam, np.asarray), lambda lam=lam: others(lam, jnp.asarray)) == expected


@pytest.mark.parametrize(
    "depletion",
    [wane.Geometric(0.9), wane.FirstVisits(3), wane.Hyperbolic(1.0), wane.PowerLaw(0.3), wane.TotalTime(0.5, 1.0)],
    ids=name,
)
def test_under_jit(depletion):
    """Everything is traced: the kernel, the discount and the parameters."""

    def matrix(kernel, discount, depletion):
        return wane.representation(kernel, depletion, discount=discount).matrix

    exact = matrix(KERNEL, 0.999, depletion)
    with jax.enable_x64(False):
        as_arrays = jax.tree_util.tree_map(jnp.asarray, depletion)
        rough = jax.jit(matrix)(jnp.asarray(KERNEL), jnp.float32(0.999), as_arrays)
    assert rough.dtype == jnp.float32
    discount = float(np.float32(0.999))
    known = jax.tree_util.tree_map(lambda a: np.asarray(a, float), as_arrays)
    exact = matrix(KERNEL, discount, known)
    np.testing.assert_allclose(rough, exact, rtol=1e-5)


def test_gradients_in_32_bits():
    def value(discount, kernel):
        return wane.successor_representation(kernel, discount=discount).matrix[0, 0]

    # dM = M dγ P M + M γ dP M, so that the slopes of M(0, 0) are known.
    sr = wane.successor_representation(KERNEL, discount=0.99).matrix
    with jax.enable_x64(False):
        by_discount, by_kernel = jax.jit(jax.grad(value, argnums=(0, 1)))(jnp.float32(0.99), jnp.asarray(KERNEL))
    np.testing.assert_allclose(by_discount, (sr @ KERNEL @ sr)[0, 0], rtol=1e-3)
    np.testing.assert_allclose(by_kernel, 0.99 * np.outer(sr[0], sr[:, 0]), rtol=1e-3)
