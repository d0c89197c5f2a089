"""λ-features of random chains, close to discount 1 and at it, against rational arithmetic, in 64 and in 32 bits.

A feature φ is a soft site: a step in s counts as a visit with probability φ(s). With n counted visits behind it, the
chain is worth x_n = φ (f(n) + γ P x_{n+1}) + (1 − φ) γ P x_n, which is one system in fractions for every n.
"""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

import rational
import wane
from adversary.chains import ACCURACY, random_form, random_kernel
from adversary.frame import Fuzzer, assert_in_words, one_of

DISCOUNTS = (0.0, 0.5, 0.97, 0.9999, 1 - 1e-9, 1 - 1e-12, 1.0, 1.0)
LAMBDAS = (0.0, 0.3, 0.5, 0.999, 0.9999, 1 - 1e-6, 1 - 1e-12, 1.0)


def truth(kernel: np.ndarray, phi: np.ndarray, curve: wane.Diminishing, discount: float) -> list[float | None]:
    """The λF of one feature; None where it is infinite."""
    exact, gamma = [Fraction(float(p)) for p in phi], Fraction(discount)
    if isinstance(curve, wane.Geometric):
        worn = 1 - Fraction(float(curve.lam))
        found = rational.weighted(kernel, [gamma * (1 - worn * p) for p in exact], exact)
        return [None if x is None else float(x) for x in found]
    paid = [1.0] * curve.n if isinstance(curve, wane.FirstVisits) else list(curve.values)
    rows, after = rational.rational_kernel(kernel), [Fraction(0)] * len(phi)
    for worth in reversed(paid):
        later = [gamma * sum(p * x for p, x in zip(row, after, strict=True)) for row in rows]
        rhs = [p * (Fraction(worth) + x) for p, x in zip(exact, later, strict=True)]
        after = rational.weighted(kernel, [gamma * (1 - p) for p in exact], rhs)
    return [float(x) for x in after]


def random_feature(rng: np.random.Generator, n: int, least: float = 1e-300) -> np.ndarray:
    """Zeros, ones, halves and numbers so small that 1 − φ is rounded to 1."""
    choices = (0.0, 0.0, 1.0, 0.5, 1e-3, 1e-9, 1e-16, 1e-17, 1e-40, 1 - 2**-53)
    return np.array(
        [one_of(rng, *(c for c in choices if c == 0 or c >= least), rng.integers(65) / 64) for _ in range(n)]
    )


def features_case(rng: np.random.Generator) -> None:
    """Equal to eight digits, and refused just where the truth is infinite."""
    kernel, discount = random_kernel(rng), float(one_of(rng, *DISCOUNTS))
    phi = random_feature(rng, len(kernel))
    curve = one_of(
        rng, wane.Geometric(one_of(rng, *LAMBDAS)), wane.FirstVisits(int(rng.integers(4))), wane.Listed((1.0, 0.5, 2.0))
    )
    expected = truth(kernel, phi, curve, discount)
    about = f"{curve!r}, discount {discount!r}, φ {phi.tolist()}, kernel\n{kernel!r}"
    try:
        given = random_form(rng, kernel)
        given = kernel if isinstance(given, jax.Array) else given
        found = wane.lambda_features(given, phi[:, None], curve, discount=discount).matrix[:, 0]
    except (ValueError, wane.InaccurateSolve) as error:
        assert_in_words(error)
        # Where the answer exceeds what floats resolve, both refusing and answering are right.
        if None in expected or max(expected) > 1e14:
            return
        raise AssertionError(f"refused ({error}), but the truth is {expected}: {about}") from error
    assert None not in expected, f"the truth is infinite, the answer is {found}: {about}"
    np.testing.assert_allclose(found, expected, rtol=ACCURACY, atol=1e-13 * max(expected), err_msg=about)


def single_case(rng: np.random.Generator) -> None:
    """In 32 bits within 1e-5, or refused: λ and γ are known in 64 bits, and 1 − λ must not be taken after rounding."""
    kernel = random_kernel(rng)
    while len(kernel) != 3:  # JAX compiles for every shape, so only one has its turn.
        kernel = random_kernel(rng)
    discount, lam = float(one_of(rng, 0.5, 0.97, 0.9999, 1 - 1e-6)), float(one_of(rng, *LAMBDAS))
    phi = np.float32(random_feature(rng, 3, least=1e-16))
    expected = truth(kernel, phi, wane.Geometric(lam), discount)
    with jax.enable_x64(False):
        try:
            found = wane.lambda_features(jnp.asarray(kernel, jnp.float32), phi[:, None], lam, discount=discount).matrix
        except wane.InaccurateSolve as error:
            return assert_in_words(error)
    about = f"λ = {lam!r}, discount {discount!r}, φ {phi.tolist()}, kernel\n{kernel!r}"
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-5, atol=1e-30, err_msg=about)


FUZZERS = (Fuzzer("features", features_case, 300), Fuzzer("features-32", single_case, 100))
