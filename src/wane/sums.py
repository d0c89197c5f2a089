"""Sums over visits: powers, power series and averages of geometric series that keep their digits near certain return.

With x the discounted probability of coming back, a site that pays f(n) at its n-th visit pays Σₙ f(n) xⁿ in all. If x
is close to 1, the digits that matter are those of 1 − x, the `escape`, which is passed along with x. In 32 bits, where
x itself has seven digits only, this already matters at moderate discounts.
"""

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from wane.checks import is_traced
from wane.types import AnyArray, ArrayLike, Numbers

LEAST_ESCAPE = 1e-25
"""Averages of geometric series are not accurate for a smaller 1 − x, unless it is zero."""
SERIES_TOLERANCE = 1e-12
SERIES_BLOCK = 4096
SERIES_LONGEST = 1 << 24


Curve = Any
"""A depletion that counts visits: it has `worth(visits)`, and `bound`, an upper bound of |worth|."""


def namespace(*arrays: Any) -> ModuleType:
    """Return `jax.numpy` if any argument is a JAX array (or a tracer), else `numpy`."""
    return jnp if any(isinstance(a, jax.Array) for a in arrays) else np


def complement(x: Numbers, escape: Numbers | None) -> Any:
    """Return 1 − x, which the caller may know more precisely as `escape`."""
    return 1 - x if escape is None else escape


def divide(a: Numbers, b: Numbers) -> Float[AnyArray, "..."]:
    """Return a / b, with a / 0 = ∞ and without a warning. The caller decides what an infinite sum means."""
    xp = namespace(a, b)
    zero = b == 0
    return xp.where(zero, xp.inf, a / xp.where(zero, 1.0, b))


def fraction_to_power(fraction: Numbers, n: Numbers) -> Any:
    """Return fractionⁿ. In 32 bits, the rounding error of a known fraction, which n multiplies, is corrected."""
    if isinstance(fraction, jax.Array) or not isinstance(n, jax.Array) or jnp.result_type(float) == jnp.float64:
        return fraction**n
    exact = np.asarray(fraction, np.float64)
    rounded = exact.astype(np.float32)
    usable = rounded > 0
    correction = np.log(np.where(usable, exact, 1.0) / np.where(usable, rounded, 1.0))
    return fraction**n * jnp.exp(n * correction) if correction.any() else fraction**n


def return_power(x: Any, escape: Any, n: Any) -> Any:
    """Return xⁿ, from 1 − x where x is close to 1."""
    xp = namespace(x, escape)
    close = escape < 0.5
    return xp.where(close, xp.exp(n * xp.log1p(-xp.where(close, escape, 0.0))), xp.where(close, 0.5, x) ** n)


def power_series(depletion: Curve, x: Numbers, visits: Numbers, escape: Numbers) -> Any:
    """Return Σₙ worth(visits + n) xⁿ, summed block by block.

    The sum ends when `bound` · x^N / (1 − x), which limits all terms from the N-th on, is negligible. Raises a
    ValueError if a site is certain to be visited again (x = 1), or if the sum would take too many terms.
    """
    xp = namespace(x, visits, escape, depletion.worth(np.zeros(1, np.int64)))
    base, before, rest = xp.asarray(x), xp.asarray(visits), xp.asarray(escape)

    def block(start: int, terms: int = SERIES_BLOCK) -> tuple[Any, Any]:
        n = np.arange(terms)
        worth = depletion.worth(before[..., None] + (start + n))
        powers = return_power(base[..., None], rest[..., None], n)
        return (worth * powers).sum(-1) * return_power(base, rest, start), worth

    if is_traced(base, before, rest, block(0, 1)[0]):
        omitted = depletion.bound * return_power(base, rest, SERIES_BLOCK) / xp.where(rest > 0, rest, 1.0)
        return xp.where((rest > 0) & (omitted < 1e-6), block(0)[0], xp.nan)
    total, needed = xp.zeros(()), _terms_needed(depletion, base, rest)
    for start in range(0, needed, SERIES_BLOCK):
        part, worth = block(start, min(SERIES_BLOCK, needed - start))
        check_bound(depletion, worth)
        total = total + part
    return total


def _terms_needed(depletion: Curve, x: AnyArray, escape: AnyArray) -> int:
    """Return how many terms of the power series are needed; raise if there are too many or infinitely many."""
    if not np.all(escape > 0):
        raise ValueError(
            f"{type(depletion).__name__} has no closed form of its sum over visits, and a site that is certain to be "
            "visited again (discount 1, recurrent class) needs one: override generating_function, or use a discount "
            "below 1"
        )
    least = float(np.min(escape, initial=1.0))
    if least >= 1 or float(np.max(x, initial=0.0)) == 0:
        return 1
    terms = np.log(SERIES_TOLERANCE * least / depletion.bound) / np.log1p(-least)
    if terms > SERIES_LONGEST:
        raise ValueError(
            f"summing {type(depletion).__name__} would take {terms:.1e} terms: override generating_function with a "
            "closed form, or use a smaller discount"
        )
    return max(int(np.ceil(terms)), 1)


def check_bound(depletion: Curve, worth: ArrayLike) -> None:
    """Raise a ValueError if a computed `worth` exceeds `bound`, because stated errors rely on that bound."""
    largest = float(np.max(np.abs(worth), initial=0.0))
    if largest > depletion.bound * (1 + 1e-9):
        raise ValueError(
            f"{type(depletion).__name__}.worth reaches {largest:.4g}, above its bound {depletion.bound:g}: override "
            "the property `bound` with an upper bound of |worth|"
        )


def average_of_geometric_series(log_u: Any, log_weight: Any, log_scale: Any, x: Any, escape: Any) -> Any:
    """Return Σⱼ weight(j) / (1 − x e^(−rate(j))), where rate = scale · u: an average of geometric series.

    The nodes j lie on the last axis. They and their weights are given as logarithms, because u and the weights go far
    beyond the range of 32 bits. Nothing can overflow: the denominator is (1 − x) + x (1 − e^(−rate)), and where
    1 − x < rate < 1, weight and denominator are first divided by the rate. The answer is NaN for
    0 < 1 − x < `LEAST_ESCAPE`.
    """
    xp = namespace(log_u, log_weight, log_scale, x, escape)
    x, escape, log_scale = (xp.asarray(a)[..., None] for a in (x, escape, log_scale))
    kind = xp.result_type(x, escape, log_scale)
    largest = float(np.log(xp.finfo(kind).max)) - 10
    # Differences are taken before the logarithms are rounded to 32 bits.
    log_ratio = xp.minimum(xp.asarray(log_weight - log_u, kind) - log_scale, largest)
    log_rate = xp.asarray(log_u, kind) + log_scale
    rate = xp.minimum(xp.asarray(namespace(log_u).exp(log_u), kind) * xp.exp(xp.minimum(log_scale, largest)), 1e4)
    returns = _return_per_rate(rate, xp)
    certain = escape <= 0
    by_rate = (log_rate < 0) & (certain | (log_rate > xp.log(xp.where(certain, 1.0, escape))))
    escape = xp.where(certain, 0.0, escape)
    # `where` also guards the branch that is not taken, because gradients go through both.
    escape_per_rate = escape / xp.where(by_rate & (rate > 0), rate, 1.0)
    above = xp.exp(xp.where(by_rate, log_ratio, -xp.inf)) / xp.where(by_rate, escape_per_rate + x * returns, 1.0)
    below = xp.exp(xp.where(by_rate, -xp.inf, xp.asarray(log_weight, kind)))
    below = below / xp.where(by_rate, 1.0, escape + x * rate * returns)
    too_small = ~certain & (escape < LEAST_ESCAPE)
    return xp.where(too_small[..., 0], xp.nan, (above + below).sum(-1))


def _return_per_rate(rate: Any, xp: ModuleType) -> Any:
    """Return (1 − e^(−rate)) / rate. A Taylor series replaces it where the rate, or its square, may underflow."""
    small = rate < 1e-3
    series = 1 - rate / 2 * (1 - rate / 3 * (1 - rate / 4 * (1 - rate / 5)))
    safe = xp.where(small, 1.0, rate)
    return xp.where(small, series, -xp.expm1(-safe) / safe)


def double_exponential_nodes(
    step: float = 1 / 64, low: float = -7.0, high: float = 4.9
) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
    """Return log u and log du of nodes u = exp(w − e^(−w)) on (0, ∞), which approach both ends double-exponentially.

    So singularities at the ends do no harm. The smallest u, e^(−1103), is below the range of floating point.
    Around u = 1 − x the logarithms of the nodes are step · (1 − log(1 − x)) apart. That is fine enough for 1 − x above
    1e-25, which is `LEAST_ESCAPE`.
    """
    w = np.arange(low, high, step)
    log_u = w - np.exp(-w)
    return log_u, log_u + np.log1p(np.exp(-w)) + np.log(step)


def gamma_nodes(p: Any, count: int, xp: ModuleType) -> tuple[Any, Any]:
    """Return log u and log weights of nodes for the gamma density of large p, u^(p−1) e^(−u) / Γ(p).

    With u = p e^ζ the density is nearly normal with width 1/√p, and equally spaced ζ integrate it to all digits.
    """
    zeta = np.linspace(-12.0, 12.0, count) / xp.sqrt(p)
    log_weight = p * (zeta - xp.expm1(zeta))
    total = xp.exp(log_weight).sum(-1)
    return xp.log(p) + zeta, log_weight - xp.log(total)[..., None]
