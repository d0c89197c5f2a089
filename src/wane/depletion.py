"""How one site's reward wears off, and how it grows back.

A site pays r̄ · worth(memory). Its memory is all it keeps of its own past:

    memory ← initial()
    at every time step:    the site is visited    it pays r̄ · worth(memory), then memory ← visit(memory)
                           the site is not        memory ← wait(memory)

The paper's reward λⁿ r̄ (its equation 3.1) is `Geometric(lam)`: the memory is the number n of visits so far.
λ = 0 leaves the first visit only (the first-occupancy representation), λ = 1 every visit (the successor
representation). A depletion that depends on nothing but that number is a `Diminishing` one: to write your own,
give its curve, and every exact result, world and agent works with it.

    >>> class Bored(Diminishing):
    ...     def worth(self, visits):
    ...         return 1 / (1 + visits) ** 2
    >>> Bored().worth(np.arange(3))
    array([1.        , 0.25      , 0.11111111])

A reward that grows back says in addition what waiting does:

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

All functions are elementwise and written for NumPy and JAX alike: `jit`, `vmap` and `grad` go through them. A parameter
of the depletions below may be one number or an array with one entry for each site. In a class of your own, declare such
a field with `parameter()`, and give a curve that has one a `generating_function`, as the default sums over scalars.
"""

import abc
import dataclasses
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from scipy import special

Memory = Any
"""an array of one entry for each site, or a tuple of such arrays"""


def parameter(default: Any = dataclasses.MISSING) -> Any:
    """A field for one number or one for each site (the last axis): a list or tuple becomes an array.

    Declare the parameters of your own depletion with it if they may differ between sites; other array fields, a
    table of worths say, are left alone.
    """
    more = {} if default is dataclasses.MISSING else {"default": default}
    return eqx.field(
        metadata={"per_site": True},
        converter=lambda value: np.asarray(value, float) if isinstance(value, list | tuple) else value,
        **more,
    )


def namespace(*arrays: Any) -> ModuleType:
    """`jax.numpy` if any argument is a JAX array (or a tracer), else `numpy`."""
    return jnp if any(isinstance(a, jax.Array) for a in arrays) else np


def is_traced(*arrays: Any) -> bool:
    """Whether a value is unknown because JAX is tracing; such values cannot be checked."""
    return any(isinstance(a, Tracer) for a in arrays)


class Depletion(eqx.Module):
    """What a site's reward does. Subclass it and give `worth`, `visit` and, if waiting matters, `wait`."""

    def initial(self, shape: tuple[int, ...] = ()) -> Memory:
        """The memory of sites that were never visited: by default a count of visits, zero."""
        return np.zeros(shape, dtype=np.int64)

    @abc.abstractmethod
    def worth(self, memory: Memory) -> Any:
        """What a visit pays now, as a fraction of r̄."""

    @abc.abstractmethod
    def visit(self, memory: Memory) -> Memory:
        """The memory one step after a visit."""

    def wait(self, memory: Memory) -> Memory:
        """The memory one step after a step spent elsewhere: by default unchanged."""
        return memory

    def at_sites(self, index: Any) -> "Depletion":
        """The same depletion for some of the sites: parameters that are given for each site are picked out."""
        picked = {name: value[..., index] for name, value in self.per_site().items() if np.shape(value)[-1] > 1}
        single = {name: value[..., 0] for name, value in self.per_site().items() if np.shape(value)[-1] == 1}
        return dataclasses.replace(self, **picked, **single) if picked or single else self

    def per_site(self) -> dict[str, Any]:
        """The parameters that are given for each site."""
        own = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(self) if "per_site" in field.metadata
        }
        return {name: value for name, value in own.items() if np.ndim(value)}

    @property
    def bound(self) -> float:
        """An upper bound of |worth|. Used to state the error of a truncated sum; override it if 1 is not one."""
        return 1.0


class Diminishing(Depletion):
    """A depletion that depends on nothing but the number of visits: the n-th visit pays f(n) r̄, n = 0, 1, …"""

    def visit(self, memory: Memory) -> Memory:
        return one_more(memory)

    def generating_function(self, x: Any, visits: Any = 0, gap: Any = None) -> Any:
        """G(x) = Σₙ f(visits + n) xⁿ for 0 ≤ x ≤ 1: what a site pays in all, x the discounted chance of coming back.

        `visits` have been made before; `gap` is 1 − x, where it is known more precisely than x. This default sums
        the series until the terms left out add up to less than 1e-12 (`bound` limits them); a subclass that knows
        its closed form overrides it. While JAX traces, the first 4,096 terms are taken, and the answer is NaN
        wherever that is not enough.
        """
        gap = 1 - x if gap is None else gap
        return power_series(self, x, visits, gap)


def one_more(visits: Any) -> Any:
    """n + 1, never wrapping round: an error where n can be seen to be the largest integer, else it stays there."""
    if namespace(visits) is np:
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
    """The paper's reward: each visit leaves the fraction λ. f(n) = λⁿ, G(x) = 1 / (1 − λx)."""

    lam: Any = parameter()

    def __check_init__(self):
        check_range("Geometric(lam)", self.lam, 0, 1, "λ is the fraction of a reward that a visit leaves")

    def worth(self, memory):
        return self.lam**memory

    def generating_function(self, x, visits=0, gap=None):
        gap = 1 - x if gap is None else gap
        return _divide(self.lam**visits, (1 - self.lam) + self.lam * gap)


class FirstVisits(Diminishing):
    """The first n visits pay in full, later ones nothing: the paper's N-th occupancy representation."""

    n: Any = parameter()

    def __check_init__(self):
        check_range("FirstVisits(n)", self.n, 0, np.inf, "n is a number of visits")
        if not is_traced(self.n) and np.any(np.asarray(self.n) % 1):
            raise ValueError(f"FirstVisits(n) must be a whole number of visits, got {self.n}")

    def worth(self, memory):
        return 1.0 * (memory < self.n)

    def generating_function(self, x, visits=0, gap=None):
        gap = 1 - x if gap is None else gap
        xp = namespace(self.n, x, visits, gap)
        left = xp.maximum(self.n - xp.asarray(visits), 0)
        inside = (gap > 0) & (gap < 1)
        safe = xp.where(inside, gap, 0.5)
        total = -xp.expm1(left * xp.log1p(-safe)) / safe
        never = xp.minimum(left, 1) + x * (left > 1)  # to first order in x, and below in gap: gradients want it
        always = left - gap * left * (left - 1) / 2
        return xp.where(inside, total, xp.where(gap > 0, never, always) + 0.0 * safe)


class _Mixture(Diminishing):
    """A curve that is an average of geometric ones, f(n) = ∫ e^(−nv) dμ(v): so is its G, and quadrature does it.

    By Bernstein's theorem that is every completely monotone curve. The nodes run double-exponentially towards 0
    and ∞ (u = exp(w − e^(−w))), which takes the end-point singularities of small x, small gap and small p in its
    stride.
    """

    @abc.abstractmethod
    def _mixture(self, u: Any, xp: ModuleType) -> tuple[Any, Any]:
        """Rates v and weights at the nodes u ∈ (0, ∞), with du not yet included."""

    @abc.abstractmethod
    def _finite(self) -> Any:
        """Whether Σ f(n) is finite."""

    def generating_function(self, x, visits=0, gap=None):
        gap = 1 - x if gap is None else gap
        xp = namespace(x, visits, gap, *jax.tree_util.tree_leaves(self))
        u, du = _NODES
        rate, weight = self._mixture(u, xp)
        x_, gap_, visits_ = (xp.asarray(a)[..., None] for a in (x, gap, visits))
        left = gap_ - x_ * xp.expm1(-rate)
        terms = weight * du * xp.exp(-rate * visits_) / xp.maximum(left, xp.finfo(left.dtype).tiny)
        return xp.where((gap > 0) | self._finite(), terms.sum(-1), xp.inf)


def _double_exponential_nodes(step: float = 1 / 40, low: float = -6.6, high: float = 5.0):
    w = np.arange(low, high, step)
    u = np.exp(w - np.exp(-w))
    keep = (u > 0) & (u < 700)
    return u[keep], (u * (1 + np.exp(-w)) * step)[keep]


_NODES = _double_exponential_nodes()


class Hyperbolic(_Mixture):
    """f(n) = 1 / (1 + kn), the hyperbolic curve of behavioural economics. G(x) = ₂F₁(1, 1/k; 1 + 1/k; x)."""

    k: Any = parameter()

    def __check_init__(self):
        check_range("Hyperbolic(k)", self.k, 0, np.inf, "k says how fast the reward wears off; 0 is never")

    def worth(self, memory):
        return 1 / (1 + self.k * memory)

    def _mixture(self, u, xp):
        return xp.asarray(self.k)[..., None] * u, xp.exp(-u)

    def _finite(self):
        return False


class PowerLaw(_Mixture):
    """f(n) = (1 + n)^(−p). G(x) = Li_p(x) / x. p is at least 0.05: below, the sum is not exact."""

    p: Any = parameter()

    def __check_init__(self):
        check_range("PowerLaw(p)", self.p, 0.05, np.inf, "for rewards that never wear off use Geometric(1.0)")

    def worth(self, memory):
        return (1.0 + memory) ** (-self.p)

    def generating_function(self, x, visits=0, gap=None):
        """By quadrature; steep curves, which live beyond its nodes, by their first terms."""
        xp = namespace(x, visits, gap, self.p)
        n = np.arange(64)
        x_, visits_, p_ = (xp.asarray(a)[..., None] for a in (x, visits, self.p))
        steep = ((1.0 + visits_ + n) ** -p_ * x_**n).sum(-1)
        mild = _Mixture.generating_function(self, x, visits, gap)
        return xp.where(xp.asarray(self.p) > 20, steep, mild)

    def _mixture(self, u, xp):
        p = xp.asarray(self.p)[..., None]
        log_gamma = jax.scipy.special.gammaln if xp is jnp else special.gammaln
        return u, xp.exp((p - 1) * np.log(u) - u - log_gamma(p))

    def _finite(self):
        return self.p > 1


class Sequence(Diminishing):
    """The n-th visit pays values[n]; when the list is used up, every further visit pays `tail`."""

    values: tuple = eqx.field(converter=tuple)
    tail: Any = 0.0

    def __check_init__(self):
        if len(self.values) == 0 or any(np.ndim(value) for value in self.values):
            raise ValueError(f"Sequence(values) wants a non-empty list of numbers, got {self.values}")
        for n, value in enumerate(self.values):
            check_range(f"Sequence(values)[{n}]", value, -np.inf, np.inf, "every entry is a finite number")
        check_range("Sequence(tail=…)", self.tail, -np.inf, np.inf, "tail is what each later visit pays")

    @property
    def bound(self) -> float:
        return float(max(abs(value) for value in (*self.values, self.tail)))

    def worth(self, memory):
        xp = namespace(*self.values, self.tail, memory)
        values = xp.stack([xp.asarray(value, dtype=float) for value in self.values])
        last = len(self.values) - 1
        return xp.where(memory <= last, values[xp.minimum(memory, last)], self.tail)

    def generating_function(self, x, visits=0, gap=None):
        gap = 1 - x if gap is None else gap
        xp = namespace(*self.values, self.tail, x, visits, gap)
        n = np.arange(len(self.values))
        x_, visits_ = xp.asarray(x)[..., None], xp.asarray(visits)[..., None]
        listed = (self.worth(visits_ + n) * x_**n).sum(-1)
        safe = xp.where(gap > 0, gap, 1.0)
        endless = xp.where(xp.asarray(self.tail) == 0, 0.0, xp.where(xp.asarray(self.tail) > 0, xp.inf, -xp.inf))
        return listed + xp.where(gap > 0, self.tail * x ** len(n) / safe, endless)


SERIES_TOLERANCE = 1e-12
SERIES_BLOCK = 4096
SERIES_LONGEST = 1 << 24


def power_series(depletion: Diminishing, x: Any, visits: Any, gap: Any) -> Any:
    """Σₙ worth(visits + n) xⁿ, block by block, until `bound` · x^N / (1 − x), the most that is left, is negligible."""
    xp = namespace(x, visits, gap, depletion.worth(np.zeros(1, np.int64)))
    x, visits, gap = xp.asarray(x), xp.asarray(visits), xp.asarray(gap)
    n = np.arange(SERIES_BLOCK)
    powers = x[..., None] ** n

    def block(start):
        worth = depletion.worth(visits[..., None] + (start + n))
        return (worth * powers).sum(-1) * x**start, worth

    if is_traced(x, visits, gap, block(0)[0]):
        rest = depletion.bound * x**SERIES_BLOCK / xp.where(gap > 0, gap, 1.0)
        return xp.where((gap > 0) & (rest < 1e-6), block(0)[0], xp.nan)
    if not np.all(gap > 0):
        raise ValueError(
            f"{type(depletion).__name__} has no closed form of its sum over visits, and a site that is certain to be "
            "visited again (discount 1, recurrent class) needs one: override generating_function, or discount"
        )
    widest = float(np.max(x, initial=0.0))
    terms = np.log(SERIES_TOLERANCE * float(np.min(gap)) / depletion.bound) / np.log(widest) if widest > 0 else 1
    if terms > SERIES_LONGEST:
        raise ValueError(
            f"summing {type(depletion).__name__} would take {terms:.1e} terms: override generating_function with a "
            "closed form, or discount more"
        )
    total = xp.zeros(())
    for start in range(0, max(int(np.ceil(terms)), 1), SERIES_BLOCK):
        part, worth = block(start)
        check_bound(depletion, worth)
        total = total + part
    return total


def check_bound(depletion: Depletion, worth: Any) -> None:
    """`bound` is taken at its word when errors are stated, so what is seen of `worth` must keep to it."""
    largest = float(np.max(np.abs(worth), initial=0.0))
    if largest > depletion.bound * (1 + 1e-9):
        raise ValueError(
            f"{type(depletion).__name__}.worth reaches {largest:.4g}, above its bound {depletion.bound:g}: override "
            "the property `bound` with an upper bound of |worth|"
        )


def _divide(a: Any, b: Any) -> Any:
    """a / b with a / 0 = ∞ and no warning: whoever asked for the sum says what an infinite one means."""
    xp = namespace(a, b)
    zero = b == 0
    return xp.where(zero, xp.inf, a / xp.where(zero, 1.0, b))


def check_range(name: str, value: Any, low: float, high: float, why: str) -> None:
    if (type(value) is float and low <= value <= high < np.inf) or is_traced(value):
        return
    array = np.asarray(value, dtype=float)
    bad = ~((array >= low) & (array <= high) & np.isfinite(array))
    if np.any(bad):
        where = "" if array.ndim == 0 else f" at index {tuple(int(i) for i in np.argwhere(bad)[0])}"
        least = f"[{low:g}" if np.isfinite(low) else "(−∞"
        most = f"{high:g}]" if np.isfinite(high) else "∞)"
        raise ValueError(f"{name} must lie in {least}, {most}, got {array[bad].flat[0]:g}{where}: {why}")
