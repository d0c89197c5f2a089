"""How the reward of one site wears off, and how it grows back.

A site pays r̄ · worth(memory). Its memory holds everything that the site keeps of its own past:

    memory ← initial()
    at every time step:    if the site is visited     it pays r̄ · worth(memory), then memory ← visit(memory)
                           if the site is not visited memory ← wait(memory)

The paper's reward λⁿ r̄ (its equation 3.1) is `Geometric(lam)`: the memory is the number n of visits so far. With λ = 0
only the first visit pays (the first-occupancy representation), with λ = 1 every visit pays in full (the successor
representation). A depletion that depends only on the number of visits is a `Diminishing` one. To write your own, define
its curve; every exact result, world and agent then works with it.

    >>> class Bored(Diminishing):
    ...     def worth(self, visits):
    ...         return 1 / (1 + visits) ** 2
    >>> Bored().worth(np.arange(3))
    array([1.        , 0.25      , 0.11111111])

A reward that grows back also defines what waiting does:

    >>> class Meadow(Depletion):
    ...     bite: float
    ...     growth: float
    ...     def initial(self, shape=()):
    ...         return np.ones(shape)
    ...     def worth(self, grass):
    ...         return grass
    ...     def visit(self, grass):
    ...         return (1 - self.bite) * grass
    ...     def wait(self, grass):
    ...         return grass + self.growth * grass * (1 - grass)

All functions act on each element and accept NumPy and JAX arrays alike: `jit`, `vmap` and `grad` go through them. A
parameter of the depletions below is one number or an array with one entry for each site. In a class of your own,
declare such a field with `parameter()`, and override `generating_function`, because the default sums the series for
scalar parameters only.
"""

import abc
import dataclasses
from types import ModuleType
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float
from scipy import special

from wane.types import AnyArray, ArrayLike, Numbers, Scalar

Memory = Any
"""A pytree whose leaves are arrays with one entry for each site: an array, or for instance a tuple of arrays."""


def _per_site(value: ArrayLike) -> Numbers:
    """Turn a list or tuple into an array and return anything else unchanged."""
    return np.asarray(value, float) if isinstance(value, list | tuple) else value  # pyright: ignore[reportReturnType]


def parameter(default: Any = dataclasses.MISSING) -> Any:
    """Declare a field that holds one number, or one number for each site on its last axis.

    A list or a tuple becomes an array. Use it for the parameters of your own depletion that may differ between sites.
    Array fields that are declared without it, for instance a table of worths, are never split over the sites.
    """
    given = {} if default is dataclasses.MISSING else {"default": default}
    return eqx.field(metadata={"per_site": True}, converter=_per_site, **given)


def namespace(*arrays: Any) -> ModuleType:
    """Return `jax.numpy` if any argument is a JAX array (or a tracer), else `numpy`."""
    return jnp if any(isinstance(a, jax.Array) for a in arrays) else np


def is_traced(*arrays: Any) -> bool:
    """Return whether JAX is tracing an argument. The value of such an argument is unknown and cannot be checked."""
    return any(isinstance(a, Tracer) for a in arrays)


class Depletion(eqx.Module):
    """How the reward of a site changes. Subclass it and define `worth`, `visit` and, if waiting matters, `wait`."""

    if not TYPE_CHECKING:
        # Equinox builds a pytree whenever a method is looked up. That takes longer than most methods here run.
        __getattribute__ = object.__getattribute__

    def initial(self, shape: tuple[int, ...] = ()) -> Memory:
        """Return the memory of sites that were never visited. The default is a count of visits, zero."""
        return np.zeros(shape, dtype=np.int64)

    @abc.abstractmethod
    def worth(self, memory: Memory) -> Any:
        """Return what a visit pays now, as a fraction of r̄."""

    @abc.abstractmethod
    def visit(self, memory: Memory) -> Memory:
        """Return the memory one step after a visit."""

    def wait(self, memory: Memory) -> Memory:
        """Return the memory one step after a step that was spent elsewhere. The default leaves it unchanged."""
        return memory

    def at_sites(self, index: Any) -> "Depletion":
        """Return the same depletion for some of the sites: it picks their entries of parameters given for each site."""
        picked = {name: value[..., index] for name, value in self.per_site().items() if np.shape(value)[-1] > 1}
        single = {name: value[..., 0] for name, value in self.per_site().items() if np.shape(value)[-1] == 1}
        return dataclasses.replace(self, **picked, **single) if picked or single else self

    def per_site(self) -> dict[str, Any]:
        """Return the parameters that are arrays, so that their last axis runs over the sites."""
        declared = [field.name for field in dataclasses.fields(self) if "per_site" in field.metadata]
        return {name: getattr(self, name) for name in declared if np.ndim(getattr(self, name))}

    @property
    def bound(self) -> float:
        """An upper bound of |worth|. It limits the error of truncated sums; override it if worth can exceed 1."""
        return 1.0


class Diminishing(Depletion):
    """A depletion that depends only on the number of visits: the n-th visit pays f(n) r̄, for n = 0, 1, …"""

    def visit(self, memory: Memory) -> Memory:
        return one_more(memory)

    def generating_function(self, x: Numbers, visits: Numbers = 0, escape: Numbers | None = None) -> Any:
        """Return G(x) = Σₙ f(visits + n) xⁿ for 0 ≤ x ≤ 1.

        This is what a site pays in total when x is the discounted probability of coming back and `visits` have been
        made before. `escape` is 1 − x, to be passed where it is known more precisely than x. The default sums the
        series until the omitted terms, which `bound` limits, add up to less than 1e-12. A subclass that knows its
        closed form overrides it. While JAX traces, the default takes the first 4,096 terms and returns NaN where these
        do not suffice.
        """
        return power_series(self, x, visits, _complement(x, escape))


def one_more(visits: Numbers) -> Any:
    """Return n + 1, which never wraps around.

    Raises an OverflowError for NumPy counts that have reached the largest integer; JAX counts stay there.
    """
    if not isinstance(visits, jax.Array):
        visits = np.asarray(visits)
        if visits.dtype.kind in "iu" and np.any(visits == np.iinfo(visits.dtype).max):
            raise OverflowError(
                f"a visit count has reached {np.iinfo(visits.dtype).max}, the largest {visits.dtype}: "
                "keep counts in a wider integer type, or restart the episode"
            )
        return visits + np.ones((), visits.dtype)
    if not jnp.issubdtype(visits.dtype, jnp.integer):
        return visits + 1
    return visits + (visits < jnp.iinfo(visits.dtype).max).astype(visits.dtype)


class Geometric(Diminishing):
    """The paper's reward: after each visit the fraction λ of it remains. f(n) = λⁿ, G(x) = 1 / (1 − λx)."""

    lam: Any = parameter()

    def __check_init__(self) -> None:
        check_range("Geometric(lam)", self.lam, 0, 1, "λ is the fraction of a reward that remains after a visit")

    def worth(self, memory: Memory) -> Any:
        return self.lam**memory

    def generating_function(self, x: Numbers, visits: Numbers = 0, escape: Numbers | None = None) -> Any:
        one_minus_x = _complement(x, escape)
        # 1 − λx = (1 − λ) + λ (1 − x) loses no digits where x is close to 1.
        return _divide(self.lam**visits, (1 - self.lam) + self.lam * one_minus_x)


class FirstVisits(Diminishing):
    """The first n visits pay in full, later ones nothing: the paper's N-th occupancy representation."""

    n: Any = parameter()

    def __check_init__(self) -> None:
        check_range("FirstVisits(n)", self.n, 0, np.inf, "n is a number of visits")
        if not is_traced(self.n) and np.any(np.asarray(self.n) % 1):
            raise ValueError(f"FirstVisits(n) must be a whole number of visits, got {self.n}")

    def worth(self, memory: Memory) -> Any:
        return 1.0 * (memory < self.n)

    def generating_function(self, x: Numbers, visits: Numbers = 0, escape: Numbers | None = None) -> Any:
        """Return (1 − x^m) / (1 − x), where m is the number of paying visits that remain."""
        one_minus_x = _complement(x, escape)
        xp = namespace(self.n, x, visits, one_minus_x)
        remaining = xp.maximum(self.n - xp.asarray(visits), 0)
        inside = (one_minus_x > 0) & (one_minus_x < 1)
        # Gradients go through both branches of `where`, so the unused branch must not divide by zero either.
        safe = xp.where(inside, one_minus_x, 0.5)
        total = -xp.expm1(remaining * xp.log1p(-safe)) / safe
        # At the two ends the sum is expanded to first order, in x and in 1 − x, so that its gradient is right there.
        at_zero = xp.minimum(remaining, 1) + x * (remaining > 1)
        at_one = remaining - one_minus_x * remaining * (remaining - 1) / 2
        return xp.where(inside, total, xp.where(one_minus_x > 0, at_zero, at_one) + 0.0 * safe)


class _Mixture(Diminishing):
    """A curve that is an average of geometric ones: f(n) = ∫ e^(−nv) dμ(v). So is its G, which quadrature computes.

    By Bernstein's theorem every completely monotone curve is of this kind. The nodes u = exp(w − e^(−w)) approach 0
    and ∞ double-exponentially, so the singularities at the ends (small x, small 1 − x, small p) do no harm.
    """

    @abc.abstractmethod
    def _mixture(self, u: np.ndarray, xp: ModuleType) -> tuple[Any, Any]:
        """Return the rates v and the weights at the nodes u ∈ (0, ∞), without the factor du."""

    @abc.abstractmethod
    def _finite(self) -> Any:
        """Return whether Σ f(n) is finite."""

    def generating_function(self, x: Numbers, visits: Numbers = 0, escape: Numbers | None = None) -> Any:
        one_minus_x = _complement(x, escape)
        xp = namespace(x, visits, one_minus_x, *jax.tree_util.tree_leaves(self))
        u, du = _NODES
        rate, weight = self._mixture(u, xp)
        x_, rest_, visits_ = (xp.asarray(a)[..., None] for a in (x, one_minus_x, visits))
        # 1 − x e^(−v) = (1 − x) − x (e^(−v) − 1) loses no digits where x is close to 1 and v to 0.
        denominator = rest_ - x_ * xp.expm1(-rate)
        smallest = xp.finfo(denominator.dtype).tiny
        terms = weight * du * xp.exp(-rate * visits_) / xp.maximum(denominator, smallest)
        return xp.where((one_minus_x > 0) | self._finite(), terms.sum(-1), xp.inf)


def _double_exponential_nodes(
    step: float = 1 / 40, low: float = -6.6, high: float = 5.0
) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
    """Return the nodes u on (0, ∞) and their weights du."""
    w = np.arange(low, high, step)
    u = np.exp(w - np.exp(-w))
    keep = (u > 0) & (u < 700)
    return u[keep], (u * (1 + np.exp(-w)) * step)[keep]


_NODES = _double_exponential_nodes()


class Hyperbolic(_Mixture):
    """f(n) = 1 / (1 + kn), the hyperbolic curve of behavioural economics. G(x) = ₂F₁(1, 1/k; 1 + 1/k; x)."""

    k: Any = parameter()

    def __check_init__(self) -> None:
        check_range("Hyperbolic(k)", self.k, 0, np.inf, "k is how fast the reward wears off; with 0 it never does")

    def worth(self, memory: Memory) -> Any:
        return 1 / (1 + self.k * memory)

    def _mixture(self, u: np.ndarray, xp: ModuleType) -> tuple[Any, Any]:
        return xp.asarray(self.k)[..., None] * u, xp.exp(-u)

    def _finite(self) -> Any:
        return False


class PowerLaw(_Mixture):
    """f(n) = (1 + n)^(−p). G(x) = Li_p(x) / x. p must be at least 0.05, because below that the sum is not exact."""

    p: Any = parameter()

    def __check_init__(self) -> None:
        check_range("PowerLaw(p)", self.p, 0.05, np.inf, "for rewards that never wear off use Geometric(1.0)")

    def worth(self, memory: Memory) -> Any:
        return (1.0 + memory) ** (-self.p)

    def generating_function(self, x: Numbers, visits: Numbers = 0, escape: Numbers | None = None) -> Any:
        """Return the quadrature for p ≤ 20. Steeper curves lie beyond its nodes, but 64 terms of their sum suffice."""
        xp = namespace(x, visits, escape, self.p)
        n = np.arange(64)
        x_, visits_, p_ = (xp.asarray(a)[..., None] for a in (x, visits, self.p))
        steep = ((1.0 + visits_ + n) ** -p_ * x_**n).sum(-1)
        mild = _Mixture.generating_function(self, x, visits, escape)
        return xp.where(xp.asarray(self.p) > 20, steep, mild)

    def _mixture(self, u: np.ndarray, xp: ModuleType) -> tuple[Any, Any]:
        p = xp.asarray(self.p)[..., None]
        log_gamma = jax.scipy.special.gammaln if xp is jnp else special.gammaln
        return u, xp.exp((p - 1) * np.log(u) - u - log_gamma(p))

    def _finite(self) -> Any:
        return self.p > 1


def _as_tuple(values: ArrayLike) -> tuple[Any, ...]:
    return tuple(values)  # pyright: ignore[reportArgumentType]


class Listed(Diminishing):
    """The n-th visit pays values[n]; when the list is used up, every further visit pays `tail`."""

    values: tuple[Any, ...] = eqx.field(converter=_as_tuple)
    tail: Any = 0.0

    def __check_init__(self) -> None:
        if len(self.values) == 0 or any(np.ndim(value) for value in self.values):
            raise ValueError(f"Listed(values) needs a non-empty list of numbers, got {self.values}")
        for n, value in enumerate(self.values):
            check_range(f"Listed(values)[{n}]", value, -np.inf, np.inf, "every entry is a finite number")
        check_range("Listed(tail=…)", self.tail, -np.inf, np.inf, "tail is what each later visit pays")

    @property
    def bound(self) -> float:
        return float(max(abs(value) for value in (*self.values, self.tail)))

    def worth(self, memory: Memory) -> Any:
        xp = namespace(*self.values, self.tail, memory)
        values = xp.stack([xp.asarray(value, dtype=float) for value in self.values])
        last = len(self.values) - 1
        return xp.where(memory <= last, values[xp.minimum(memory, last)], self.tail)

    def generating_function(self, x: Numbers, visits: Numbers = 0, escape: Numbers | None = None) -> Any:
        """Return Σₙ values[visits + n] xⁿ + tail · x^N / (1 − x), where N is the length of the list."""
        one_minus_x = _complement(x, escape)
        xp = namespace(*self.values, self.tail, x, visits, one_minus_x)
        n = np.arange(len(self.values))
        x_, visits_ = xp.asarray(x)[..., None], xp.asarray(visits)[..., None]
        listed = (self.worth(visits_ + n) * x_**n).sum(-1)
        safe = xp.where(one_minus_x > 0, one_minus_x, 1.0)
        endless = xp.where(xp.asarray(self.tail) == 0, 0.0, xp.where(xp.asarray(self.tail) > 0, xp.inf, -xp.inf))
        return listed + xp.where(one_minus_x > 0, self.tail * x ** len(n) / safe, endless)


SERIES_TOLERANCE = 1e-12
SERIES_BLOCK = 4096
SERIES_LONGEST = 1 << 24


def power_series(depletion: Diminishing, x: Numbers, visits: Numbers, escape: Numbers) -> Any:
    """Return Σₙ worth(visits + n) xⁿ, summed block by block.

    The sum ends when `bound` · x^N / (1 − x), which limits all terms from the N-th on, is negligible. Raises a
    ValueError if a site is certain to be visited again (x = 1), or if the sum would take too many terms.
    """
    xp = namespace(x, visits, escape, depletion.worth(np.zeros(1, np.int64)))
    base, before, rest = xp.asarray(x), xp.asarray(visits), xp.asarray(escape)
    n = np.arange(SERIES_BLOCK)
    powers = base[..., None] ** n

    def block(start: int) -> tuple[Any, Any]:
        worth = depletion.worth(before[..., None] + (start + n))
        return (worth * powers).sum(-1) * base**start, worth

    if is_traced(base, before, rest, block(0)[0]):
        omitted = depletion.bound * base**SERIES_BLOCK / xp.where(rest > 0, rest, 1.0)
        return xp.where((rest > 0) & (omitted < 1e-6), block(0)[0], xp.nan)
    total = xp.zeros(())
    for start in range(0, _terms_needed(depletion, base, rest), SERIES_BLOCK):
        part, worth = block(start)
        check_bound(depletion, worth)
        total = total + part
    return total


def _terms_needed(depletion: Diminishing, x: AnyArray, escape: AnyArray) -> int:
    """Return how many terms of the power series are needed; raise if there are too many or infinitely many."""
    if not np.all(escape > 0):
        raise ValueError(
            f"{type(depletion).__name__} has no closed form of its sum over visits, and a site that is certain to be "
            "visited again (discount 1, recurrent class) needs one: override generating_function, or discount"
        )
    widest = float(np.max(x, initial=0.0))
    if widest == 0:
        return 1
    terms = np.log(SERIES_TOLERANCE * float(np.min(escape)) / depletion.bound) / np.log(widest)
    if terms > SERIES_LONGEST:
        raise ValueError(
            f"summing {type(depletion).__name__} would take {terms:.1e} terms: override generating_function with a "
            "closed form, or discount more"
        )
    return max(int(np.ceil(terms)), 1)


def check_bound(depletion: Depletion, worth: ArrayLike) -> None:
    """Raise a ValueError if a computed `worth` exceeds `bound`, because stated errors rely on that bound."""
    largest = float(np.max(np.abs(worth), initial=0.0))
    if largest > depletion.bound * (1 + 1e-9):
        raise ValueError(
            f"{type(depletion).__name__}.worth reaches {largest:.4g}, above its bound {depletion.bound:g}: override "
            "the property `bound` with an upper bound of |worth|"
        )


def _complement(x: Numbers, escape: Numbers | None) -> Any:
    """Return 1 − x, which the caller may know more precisely as `escape`."""
    return 1 - x if escape is None else escape


def _divide(a: Numbers, b: Numbers) -> Float[AnyArray, "..."]:
    """Return a / b, with a / 0 = ∞ and without a warning. The caller decides what an infinite sum means."""
    xp = namespace(a, b)
    zero = b == 0
    return xp.where(zero, xp.inf, a / xp.where(zero, 1.0, b))


def check_range(name: str, value: ArrayLike, low: Scalar, high: Scalar, why: str) -> None:
    """Raise a ValueError unless every entry of `value` is finite and lies in [low, high]. Traced values pass."""
    if (type(value) is float and low <= value <= high < np.inf) or is_traced(value):
        return
    array = np.asarray(value, dtype=float)
    bad = ~((array >= low) & (array <= high) & np.isfinite(array))
    if np.any(bad):
        where = "" if array.ndim == 0 else f" at index {tuple(int(i) for i in np.argwhere(bad)[0])}"
        least = f"[{low:g}" if np.isfinite(low) else "(−∞"
        most = f"{high:g}]" if np.isfinite(high) else "∞)"
        raise ValueError(f"{name} must lie in {least}, {most}, got {array[bad].flat[0]:g}{where}: {why}")
