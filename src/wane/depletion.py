"""How the reward of one site wears off, and how it grows back.

A site pays r̄ · worth(memory). Its memory holds everything that the site remembers of its past:

    memory ← initial()
    at every time step:    if the site is visited     it pays r̄ · worth(memory), then memory ← visit(memory)
                           if the site is not visited memory ← wait(memory)

The paper's reward λⁿ r̄ (its equation 3.1) is `Geometric(lam)`: the memory is the number n of visits so far. With λ = 0
only the first visit pays (the first-occupancy representation), with λ = 1 every visit pays in full (the successor
representation). A depletion that depends only on the number of visits is a `Diminishing` one. To write your own, define
its curve: exact evaluation, the optimum, worlds and agents then work with it. Where more is needed (a λ, say), they ask
the depletion what it has (`common_ratio`, `paying_visits`, …), and not of which class it is.

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
import functools
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from wane.checks import as_floats, check_range, is_traced
from wane.sums import (
    average_of_geometric_series,
    complement,
    divide,
    double_exponential_nodes,
    fraction_to_power,
    gamma_nodes,
    namespace,
    power_series,
    return_power,
)
from wane.texts import shown
from wane.types import AnyArray, ArrayLike, Numbers

Memory = Any
"""A pytree whose leaves are arrays with one entry for each site: an array, or for instance a tuple of arrays."""


def _per_site(value: ArrayLike) -> Any:
    """Turn a list or tuple into an array, and an integer of more than 64 bits into a float. The rest stays as it is."""
    try:
        if isinstance(value, list | tuple):
            return np.asarray(value, float)
        return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value
    except OverflowError:  # The checks that follow know the name of the parameter, and refuse it.
        return np.asarray(value, object)


class Limits(NamedTuple):
    """The range of a parameter, and the explanation that an error message gives."""

    low: float
    high: float
    why: str


def parameter(default: Any = dataclasses.MISSING, limits: Limits | None = None) -> Any:
    """Declare a field that holds one number, or one number for each site on its last axis.

    A list or a tuple becomes an array. Use it for the parameters of your own depletion that may differ between sites.
    Array fields that are declared without it, for instance a table of worths, are never split over the sites. A value
    outside of the `limits` raises a ValueError that says why.
    """
    given = {} if default is dataclasses.MISSING else {"default": default}
    return eqx.field(metadata={"per_site": True, "limits": limits}, converter=_per_site, **given)


class Depletion(eqx.Module):
    """How the reward of a site changes. Subclass it and define `worth`, `visit` and, if waiting matters, `wait`."""

    if not TYPE_CHECKING:
        # Equinox builds a pytree whenever a method is looked up. That takes longer than most methods here run.
        __getattribute__ = object.__getattribute__

    def __check_init__(self) -> None:
        self.checked()

    def checked(self) -> "Depletion":
        """Return the same depletion. Raises a ValueError if a parameter lies outside of its limits.

        Parameters that JAX traces are checked at run time (`wane.checks.ensure`), if the caller uses the returned
        depletion.
        """
        limited = [(f.name, f.metadata["limits"]) for f in dataclasses.fields(self) if f.metadata.get("limits")]
        kind = type(self).__name__
        found = {name: check_range(f"{kind}({name})", getattr(self, name), *limits) for name, limits in limited}
        traced = {name: value for name, value in found.items() if is_traced(value)}
        return (
            eqx.tree_at(lambda d: [getattr(d, name) for name in traced], self, list(traced.values()))
            if traced
            else self
        )

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
        """Return the depletion for some of the sites: parameters given for each site keep only the chosen entries."""
        picked = {name: value[..., index] for name, value in self.per_site().items() if np.shape(value)[-1] > 1}
        single = {name: value[..., 0] for name, value in self.per_site().items() if np.shape(value)[-1] == 1}
        return dataclasses.replace(self, **picked, **single) if picked or single else self

    def per_site(self) -> dict[str, Any]:
        """Return the parameters that are arrays; their last axis runs over the sites."""
        declared = [field.name for field in dataclasses.fields(self) if "per_site" in field.metadata]
        return {name: getattr(self, name) for name in declared if np.ndim(getattr(self, name))}

    @property
    def bound(self) -> float:
        """An upper bound of |worth|. It limits the error of truncated sums; override it if worth can exceed 1."""
        return 1.0

    @property
    def counts_visits(self) -> bool:
        """Whether the memory is the number of visits, so that waiting changes nothing."""
        return False

    @property
    def common_ratio(self) -> Any | None:
        """λ, if every visit leaves the same fraction of the reward, else None. It may be one number for each site."""
        return None

    @property
    def paying_visits(self) -> Any:
        """The number of visits after which nothing is paid any more; infinite if it is not known."""
        return np.inf

    @property
    def has_closed_form(self) -> bool:
        """Whether its sum over visits, the generating function, has a closed form, which discount 1 may need."""
        return False


class Diminishing(Depletion):
    """A depletion that depends only on the number of visits: the n-th visit pays f(n) r̄, for n = 0, 1, …"""

    def visit(self, memory: Memory) -> Memory:
        return one_more(memory)

    @property
    def counts_visits(self) -> bool:
        # A subclass may have changed what the memory is.
        own = type(self)
        kept = own.visit is Diminishing.visit, own.wait is Depletion.wait, own.initial is Depletion.initial
        return all(kept)

    @property
    def has_closed_form(self) -> bool:
        return type(self).generating_function is not Diminishing.generating_function

    def generating_function(self, x: Numbers, visits: Numbers = 0, escape: Numbers | None = None) -> Any:
        """Return G(x) = Σₙ f(visits + n) xⁿ for 0 ≤ x ≤ 1.

        This is what a site pays in total when x is the discounted probability of coming back and `visits` have been
        made before. `escape` is 1 − x, to be passed where it is known more precisely than x. The default sums the
        series until the omitted terms, which `bound` limits, add up to less than 1e-12. A subclass that knows its
        closed form overrides it. While JAX traces, the default takes the first 4,096 terms and returns NaN where these
        do not suffice.
        """
        return power_series(self, x, visits, complement(x, escape))


def one_more(visits: Numbers, where: AnyArray | np.bool_ | bool = True) -> Any:
    """Return n + 1, or n where a condition does not hold. The count never wraps around.

    Raises an OverflowError for NumPy counts that have reached the largest integer; JAX counts stay there.
    """
    if type(visits) is np.ndarray or not isinstance(visits, jax.Array):
        visits = np.asarray(visits)
        if visits.dtype.kind in "iu" and (visits == _largest(visits.dtype)).any():
            raise OverflowError(
                f"a visit count has reached {_largest(visits.dtype)}, the largest {visits.dtype}: "
                "keep counts in a wider integer type, or restart the episode"
            )
        return visits + (np.ones((), visits.dtype) if where is True else where)
    if not jnp.issubdtype(visits.dtype, jnp.integer):
        return visits + jnp.asarray(where, visits.dtype)
    return visits + ((visits < jnp.iinfo(visits.dtype).max) & where).astype(visits.dtype)


@functools.cache
def _largest(dtype: np.dtype) -> int:
    """Return the largest integer of a type. It is cached, because `np.iinfo` takes as long as a step of a world."""
    return int(np.iinfo(dtype).max)


LAMBDA = Limits(0, 1, "λ is the fraction of a reward that remains after a visit")


class Geometric(Diminishing):
    """The paper's reward: after each visit the fraction λ of it remains. f(n) = λⁿ, G(x) = 1 / (1 − λx)."""

    lam: Any = parameter(limits=LAMBDA)

    @property
    def common_ratio(self) -> Any:
        return self.lam

    def worth(self, memory: Memory) -> Any:
        return fraction_to_power(self.lam, memory)

    def generating_function(self, x: Numbers, visits: Numbers = 0, escape: Numbers | None = None) -> Any:
        # 1 − λx = (1 − λ) + λ (1 − x) loses no digits where x is close to 1.
        return divide(self.worth(visits), (1 - self.lam) + self.lam * complement(x, escape))


class FirstVisits(Diminishing):
    """The first n visits pay in full, later ones nothing: the paper's N-th occupancy representation."""

    n: Any = parameter(limits=Limits(0, np.inf, "n is a number of visits"))

    def __check_init__(self) -> None:
        if is_traced(self.n):
            return
        n = as_floats("FirstVisits(n)", self.n)
        if not np.all(np.isfinite(n) & (np.floor(n) == n)):
            raise ValueError(f"FirstVisits(n) must be a whole number of visits, got {self.n}")

    @property
    def paying_visits(self) -> Any:
        return self.n

    def worth(self, memory: Memory) -> Any:
        return 1.0 * (memory < self.n)

    def generating_function(self, x: Numbers, visits: Numbers = 0, escape: Numbers | None = None) -> Any:
        """Return (1 − x^m) / (1 − x), where m is the number of paying visits that remain."""
        one_minus_x = complement(x, escape)
        xp = namespace(self.n, x, visits, one_minus_x)
        remaining = xp.maximum(self.n - xp.asarray(visits), 0)
        inside = (one_minus_x > 0) & (one_minus_x < 1)
        # Gradients go through both branches of `where`, so the unused branch must not divide by zero either.
        safe = xp.where(inside, one_minus_x, 0.5)
        total = -xp.expm1(remaining * xp.log1p(-safe)) / safe
        # At the two ends the sum is expanded to first order, in x and in 1 − x, so that its gradient is right there.
        at_zero = xp.minimum(remaining, 1) + x * (remaining > 1)
        few = xp.minimum(remaining, 1e15)  # The square of a larger number may overflow.
        at_one = remaining - one_minus_x * few * (few - 1) / 2
        return xp.where(inside, total, xp.where(one_minus_x > 0, at_zero, at_one) + 0.0 * safe)


class _Mixture(Diminishing):
    """An average of geometric curves: f(n) = ∫ e^(−nv) dμ(v). Its G is the same average of their G, by quadrature.

    By Bernstein's theorem every completely monotone curve is of this kind. After some visits,
    the rest of such a curve is the same average at other rates: f(visits + n) = f(visits) ∫ e^(−n · scale · u) dμ(u).
    """

    @abc.abstractmethod
    def _nodes(self, xp: ModuleType) -> tuple[Any, Any]:
        """Return the logarithms of the nodes u ∈ (0, ∞) and of their weights."""

    @abc.abstractmethod
    def _log_scale(self, visits: Any, xp: ModuleType) -> Any:
        """Return the logarithm of `scale`, the factor of the nodes after some visits."""

    def generating_function(self, x: Numbers, visits: Numbers = 0, escape: Numbers | None = None) -> Any:
        one_minus_x = complement(x, escape)
        parameters = jax.tree_util.tree_leaves(self)
        xp = namespace(x, visits, one_minus_x, *parameters)
        # Parameters whose values are known are handled in 64 bits, whatever the precision of x is.
        known = self if is_traced(*parameters) else jax.tree_util.tree_map(lambda a: np.asarray(a, float), self)
        log_u, log_weight = known._nodes(jnp if known is self else np)
        return self.worth(visits) * average_of_geometric_series(
            log_u, log_weight, known._log_scale(visits, xp), xp.asarray(x), xp.asarray(one_minus_x)
        )


_LOG_U, _LOG_DU = double_exponential_nodes()


class Hyperbolic(_Mixture):
    """f(n) = 1 / (1 + kn), the hyperbolic curve of behavioural economics. G(x) = ₂F₁(1, 1/k; 1 + 1/k; x)."""

    k: Any = parameter(limits=Limits(0, np.inf, "k is how fast the reward wears off; with 0 it never does"))

    def worth(self, memory: Memory) -> Any:
        # k · 0 must be 0 in 32 bits too, so a k beyond their range is set to the largest number in it.
        largest = float(jnp.finfo(jnp.result_type(float)).max) if isinstance(memory, jax.Array) else np.inf
        k = self.k if isinstance(self.k, jax.Array) else np.minimum(self.k, largest)
        with np.errstate(over="ignore"):
            return 1 / (1 + k * memory)

    def generating_function(self, x: Numbers, visits: Numbers = 0, escape: Numbers | None = None) -> Any:
        one_minus_x = complement(x, escape)
        total = _Mixture.generating_function(self, x, visits, escape)
        return namespace(total).where(one_minus_x > 0, total, np.inf)

    def _nodes(self, xp: ModuleType) -> tuple[Any, Any]:
        return _LOG_U, _LOG_DU - np.exp(_LOG_U)

    def _log_scale(self, visits: Any, xp: ModuleType) -> Any:
        # The scale is k / (1 + k · visits). Beyond 1e±37 more makes no difference, and 32 bits end.
        own = namespace(self.k)
        inverse = own.maximum(1 / own.maximum(self.k, 1e-37), 1e-37)
        return -xp.log(xp.asarray(inverse, xp.result_type(float)) + xp.asarray(visits))


class PowerLaw(_Mixture):
    """f(n) = (1 + n)^(−p). G(x) = Li_p(x) / x. p must be at least 0.05, because below that the sum is not exact."""

    p: Any = parameter(limits=Limits(0.05, np.inf, "for rewards that never wear off use Geometric(1.0)"))

    def worth(self, memory: Memory) -> Any:
        return (1.0 + memory) ** (-self.p)

    def generating_function(self, x: Numbers, visits: Numbers = 0, escape: Numbers | None = None) -> Any:
        one_minus_x = complement(x, escape)
        total = _Mixture.generating_function(self, x, visits, escape)
        xp = namespace(total)
        return xp.where(one_minus_x > 0, total, xp.where(self.p > 1, self._endless(total, visits), xp.inf))

    def _endless(self, total: Any, visits: Numbers) -> Any:
        """Return Σₙ f(visits + n) for p > 1, which the quadrature finds unless p is close to 1.

        Close to 1, its nodes do not reach the smallest u that matter, so the sum comes from the Hurwitz zeta function.
        Only SciPy computes that accurately, so the answer is NaN where JAX traces p or the visits and p ≤ 1.04.
        """
        if is_traced(self.p, visits):
            return jnp.where(self.p > 1.04, total, jnp.nan)
        p = np.asarray(self.p, float)
        zeta = special.zeta(np.where((p > 1) & (p < 1.5), p, 1.5), 1.0 + np.asarray(visits))
        return namespace(total).where(p < 1.5, zeta, total)

    def _nodes(self, xp: ModuleType) -> tuple[Any, Any]:
        """Return nodes for the density u^(p−1) e^(−u) / Γ(p), which is too narrow for the general nodes if p > 20."""
        p = xp.asarray(self.p)[..., None]
        mild = xp.minimum(p, 20.0)
        log_weight = (mild - 1) * _LOG_U - np.exp(_LOG_U) + _LOG_DU - _log_gamma(mild, xp)
        log_u_steep, log_weight_steep = gamma_nodes(xp.maximum(p, 20.0), len(_LOG_U), xp)
        return xp.where(p > 20, log_u_steep, _LOG_U), xp.where(p > 20, log_weight_steep, log_weight)

    def _log_scale(self, visits: Any, xp: ModuleType) -> Any:
        return -xp.log1p(xp.asarray(visits, xp.result_type(float)))


def _log_gamma(p: Any, xp: ModuleType) -> Any:
    return jax.scipy.special.gammaln(p) if xp is jnp else special.gammaln(p)


def without_overflow(value: Numbers, other: Numbers) -> Any:
    """Return a value, or 10²⁸⁰ if that is smaller: its product with any count is finite, and as good as infinite.

    JAX values, which may have 32 bits, stay as they are, because JAX does not warn about products that overflow.
    """
    if type(value) is float and value <= 1e280:  # This case comes first, because every step of a world takes it.
        return value
    return np.minimum(value, 1e280) if namespace(value, other) is np else value


def _as_tuple(values: ArrayLike) -> tuple[Any, ...]:
    try:
        return tuple(values)  # pyright: ignore[reportArgumentType]
    except TypeError as error:
        raise ValueError(f"Listed(values) needs a non-empty list of numbers, got {shown(values)}") from error


class Listed(Diminishing):
    """The n-th visit pays values[n]; when the list is used up, every further visit pays `tail`."""

    values: tuple[Any, ...] = eqx.field(converter=_as_tuple)
    tail: Any = 0.0

    def __check_init__(self) -> None:
        if len(self.values) == 0 or any(np.ndim(value) for value in self.values):
            raise ValueError(f"Listed(values) needs a non-empty list of numbers, got {shown(self.values)}")
        finite = not is_traced(*self.values) and np.isfinite(as_floats("Listed(values)", self.values)).all()
        for n, value in enumerate(() if finite else self.values):
            check_range(f"Listed(values)[{n}]", value, -np.inf, np.inf, "every entry is a finite number")
        check_range("Listed(tail=…)", self.tail, -np.inf, np.inf, "tail is what each later visit pays")

    def __repr__(self) -> str:
        values = tuple(each.item() if isinstance(each, np.generic) else each for each in self.values)
        return f"Listed(values={shown(values)}, tail={self.tail!r})"

    @property
    def bound(self) -> float:
        return float(np.max(np.abs(np.asarray((*self.values, self.tail), float))))

    @property
    def paying_visits(self) -> Any:
        return len(self.values) if self.tail == 0 else np.inf

    def worth(self, memory: Memory) -> Any:
        xp = namespace(*self.values, self.tail, memory)
        values = np.asarray(self.values, float) if xp is np else xp.stack([xp.asarray(v, float) for v in self.values])
        last = len(self.values) - 1
        return xp.where(memory <= last, values[xp.minimum(memory, last)], self.tail)

    def generating_function(self, x: Numbers, visits: Numbers = 0, escape: Numbers | None = None) -> Any:
        """Return Σₙ f(visits + n) xⁿ over n < N, plus tail · x^N / (1 − x), where N is the length of the list."""
        one_minus_x = complement(x, escape)
        xp = namespace(*self.values, self.tail, x, visits, one_minus_x)
        n, length = np.arange(len(self.values)), len(self.values)
        x_, visits_ = xp.asarray(x)[..., None], xp.asarray(visits)[..., None]
        if not is_traced(x_) and 0 < (largest := float(np.max(x_, initial=0.0))) < 1:
            n = n[: int(-745 / np.log(largest)) + 2]  # Higher powers of x are zero in floating point.
        # A long list is summed in parts, so that sites × entries do not fill the memory.
        size = int(np.prod(np.broadcast_shapes(x_.shape, visits_.shape)))
        width = max(_TERMS_AT_ONCE // max(size, 1), 1)
        parts = (n[start : start + width] for start in range(0, len(n), width))
        rest = xp.asarray(one_minus_x)[..., None]
        listed = sum(
            ((self.worth(visits_ + part) * return_power(x_, rest, part)).sum(-1) for part in parts), xp.zeros(())
        )
        safe = xp.where(one_minus_x > 0, one_minus_x, 1.0)
        endless = xp.where(xp.asarray(self.tail) == 0, 0.0, xp.where(xp.asarray(self.tail) > 0, xp.inf, -xp.inf))
        return listed + xp.where(one_minus_x > 0, self.tail * return_power(x, safe, length) / safe, endless)


_TERMS_AT_ONCE = 1 << 24
