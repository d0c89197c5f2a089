"""Every curve over visit counts, in closed form.

Let M = (I − γP)⁻¹ be the successor representation and d its diagonal. The first visit to s' and every return to s' come
after random times. Their expected discount factors are

    F(s, s') = E γ^(time of the first visit) = M(s, s') / d(s'),        R(s') = E γ^(time to return) = 1 − 1/d(s').

If the n-th visit pays f(n) r̄, then, because the times between visits are independent of each other,

    Φ_f(s, s') = F(s, s') · G_f(R(s')),        G_f(x) = Σₙ f(n) xⁿ.

For the paper's λⁿ this is Φ_λ = M / (λ + (1 − λ) d), column by column: the λR is a rescaled SR, one solve gives it for
every λ, and only the columns of rewarded sites are needed. The paper, which has no closed form, iterates its operator
(`wane.exact.bellman`) and calls the first-N-visits representation intractable.

With γ = 1, F is the probability of ever reaching s' and R is the probability of returning. M is infinite on recurrent
classes, but F and R are not: F is the probability of being absorbed in the class of s', and R = 1. Every other site is
transient, and M exists there. `escape` = 1 − R is stored instead of R, because it keeps its digits if R is close to 1.
"""

from dataclasses import dataclass
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from wane.checks import ensure, is_traced
from wane.depletion import Depletion, Diminishing, Geometric, Memory
from wane.exact.dense_jax import solve_jax
from wane.exact.graph import recurrent_classes
from wane.exact.methods import Method
from wane.exact.representations import (
    Representation,
    build,
    check_depletion,
    check_parameters,
    check_sum_over_sites,
    set_own_sites,
)
from wane.exact.solve import solve
from wane.exact.system import ACCEPTED_ERROR, ACCEPTED_ERROR_32, InaccurateSolve, leaving, product
from wane.kernels import Matrix, Operator, check_kernel, require_matrix
from wane.mdp import MDP, check_discount, check_sites
from wane.sums import namespace
from wane.types import AnyArray, ArrayLike, Numbers, Scalar

_SITES_AT_ONCE = 4096
Found = tuple[Float[AnyArray, "states sites"], Float[AnyArray, " sites"], Scalar, str]
"""F, 1 − R, the relative residual, and how they were found."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Occupancy(Representation):
    """The representation of any `Diminishing` depletion: first visits times what the visits pay."""

    first_visit: Float[AnyArray, "states sites"]
    """F(s, s') = E γ^(time of the first visit to s')."""
    escape: Float[AnyArray, " sites"]
    """1 − R(s'). If γ = 1, it is the probability of never returning to s'."""

    @property
    def revisit(self) -> Float[AnyArray, " sites"]:
        """R(s') = E γ^(time to return to s')."""
        return 1 - self.escape

    def paid(self, memory: Memory) -> Float[AnyArray, "*batch sites"]:
        """Return G_f(R): what a site pays in total from the next visit on, discounted to that visit.

        Raises a ValueError if that is infinite, and InaccurateSolve if it cannot be summed accurately.
        """
        assert isinstance(self.depletion, Diminishing)
        if not is_traced(memory) and np.any(memory < 0):
            raise ValueError(
                f"the memory of {type(self.depletion).__name__} is a number of visits from 0 on, got {memory}"
            )
        total = _totals(self.depletion, self.revisit, memory, self.escape)
        if not is_traced(total) and np.isnan(total).any():
            raise InaccurateSolve(
                f"what {self.depletion!r} pays over all visits cannot be summed accurately: the chance that a site is "
                "never visited again is too small. Discount, or use Geometric"
            )
        if not is_traced(total) and not np.isfinite(total).all():
            site = self.sites[np.argwhere(~np.isfinite(np.atleast_1d(total)))[0][-1]]
            raise ValueError(
                f"site {site} is visited again and again with discount {self.discount}, and {self.depletion!r} never "
                "wears off enough: its value is infinite. Discount, or let it wear off"
            )
        return total

    def at(self, memory: Memory) -> Float[AnyArray, "*batch states sites"]:
        return self.first_visit * self.paid(memory)[..., None, :]

    def values(self, rewards: ArrayLike, memory: Memory | None = None) -> Float[AnyArray, "*batch states"]:
        """Return V(s), as for every representation.

        Leading axes of the rewards, of the memory and of a parameter of the depletion are batches: one product gives
        the values for all the λ's of `Geometric(lams[:, None])`.
        """
        weights: Any = self.paid(self.fresh_memory if memory is None else memory) * self.check_rewards(rewards)
        if isinstance(weights, jax.Array) or isinstance(self.first_visit, jax.Array):
            found = jnp.matmul(weights, self.first_visit.T, precision="highest")
        else:
            rows = np.atleast_2d(weights).reshape(-1, len(self.sites))
            found = product(self.first_visit, np.ascontiguousarray(rows.T)).T.reshape(*np.shape(weights)[:-1], -1)
        # F is not negative, so terms cancel only if weights differ in sign. Reading F again takes as long as the sum.
        if is_traced(weights) or (weights.min() < 0 < weights.max()):
            check_sum_over_sites(self.first_visit, weights, rewards, found)
        return found

    def action_matrix(self, mdp: MDP, memory: Memory | None = None) -> Float[AnyArray, "states actions sites"]:
        """Return Φ(s, a, s'). Only F is backed up, once, because what the visits pay is a factor of each column."""
        memory = self.fresh_memory if memory is None else memory
        first_visit_next: Any = mdp.backup(self.discount * self.first_visit)
        returning = first_visit_next[self.sites, :, np.arange(len(self.sites))].T
        at_own_site = self.depletion.worth(memory) + returning * self.paid(self.depletion.visit(memory))
        paid = self.paid(self.depletion.wait(memory))
        # The array is large compared with the kernel, and allocating another one takes longer than the product.
        in_place = isinstance(first_visit_next, np.ndarray) and isinstance(paid, np.ndarray)
        phi = np.multiply(first_visit_next, paid, out=first_visit_next) if in_place else first_visit_next * paid
        return set_own_sites(phi, self.sites, at_own_site.T)

    def with_depletion(self, depletion: Depletion) -> Representation:
        if not isinstance(depletion, Diminishing):
            return super().with_depletion(depletion)
        checked: Any = check_parameters(depletion, len(self.sites))
        found = self.first_visit, self.escape, self.residual, self.method
        return _occupancy(checked, self.kernel, self.discount, self.sites, found)


def _totals(depletion: Diminishing, x: Any, visits: Any, escape: Any) -> Any:
    """Return G_f(x), for a few thousand sites at a time: quadratures and series have thousands of terms for each."""
    size = np.shape(x)[-1] if np.ndim(x) else 1
    if size <= _SITES_AT_ONCE or is_traced(x, visits, escape, *jax.tree_util.tree_leaves(depletion)):
        return depletion.generating_function(x, visits, escape)
    parts = []
    for start in range(0, size, _SITES_AT_ONCE):
        few = slice(start, start + _SITES_AT_ONCE)
        made = visits[..., few] if np.ndim(visits) and np.shape(visits)[-1] > 1 else visits
        curve: Any = depletion.at_sites(few)
        parts.append(curve.generating_function(x[..., few], made, escape[..., few]))
    return namespace(*parts).concatenate(parts, axis=-1)


def _occupancy(
    depletion: Diminishing, kernel: Operator | None, discount: Scalar, sites: Int[np.ndarray, " sites"], found: Found
) -> Occupancy:
    """Return an `Occupancy` whose values are known to be finite."""
    first_visit, escape, residual, how = found
    made = Occupancy(kernel, depletion, discount, sites, residual, how, first_visit, escape)
    made.paid(made.fresh_memory)
    return made


@build.register
def _(
    depletion: Diminishing, kernel: Operator, discount: Scalar, sites: Int[np.ndarray, " sites"], method: str | Method
) -> Occupancy:
    if isinstance(kernel, jax.Array) or is_traced(discount):
        found = first_visit_and_escape_jax(jnp.asarray(kernel), discount, sites)
    else:
        found = first_visit_and_escape(kernel, float(discount), sites, method)
    return _occupancy(depletion, kernel, discount, sites, found)


def first_visit_and_escape(
    kernel: Operator,
    discount: float,
    sites: Int[np.ndarray, " sites"],
    method: str | Method,
    leak: float | None = None,
) -> Found:
    """Return F and 1 − R of the sites, the relative residual, and how they were found.

    `leak` is 1 − discount. Pass it if you know it more precisely than the discount.
    """
    if discount == 1:
        return _undiscounted(require_matrix(kernel, "discount 1"), sites, method)
    n, k = kernel.shape[0], len(sites)
    every = k == n and bool((sites == np.arange(n)).all())
    columns = None if every else _unit_columns(n, sites)
    solution = solve(kernel, columns, discount=discount, method=method, leak=leak)
    d = solution.x[sites, np.arange(k)]
    return solution.x / d, 1 / d, solution.residual, solution.method


def _unit_columns(n: int, sites: Int[np.ndarray, " sites"]) -> Float[np.ndarray, "states sites"]:
    columns = np.zeros((n, len(sites)))
    columns[sites, np.arange(len(sites))] = 1
    return columns


def _undiscounted(kernel: Matrix, sites: Int[np.ndarray, " sites"], method: str | Method) -> Found:
    """Return F as hitting and 1 − R as escape probabilities, by one solve on the transient states.

    A site s' of a recurrent class is reached if and only if the chain is absorbed in that class, so the right-hand side
    is the probability of entering the class. For a transient site the system gives M, and F = M / d as with a discount.
    """
    k = len(sites)
    component = recurrent_classes(kernel)
    transient = np.flatnonzero(component < 0)
    site_class = component[sites]
    first_visit = (component[:, None] == site_class).astype(float) * (site_class >= 0)
    escape = np.zeros(k)
    if not len(transient):
        return first_visit, escape, 0.0, "recurrent classes"
    rows = kernel[transient]
    rhs = np.where(site_class >= 0, rows @ first_visit, transient[:, None] == sites)
    exits = leaving(rows, component < 0)
    solution = solve(rows[:, transient], rhs, discount=1.0, method=method, exits=exits)
    diagonal = np.ones(k)
    passing = np.flatnonzero(site_class < 0)
    diagonal[passing] = solution.x[np.searchsorted(transient, sites[passing]), passing]
    first_visit[transient] = solution.x / diagonal
    escape[passing] = 1 / diagonal[passing]
    return first_visit, escape, solution.residual, f"recurrent classes, {solution.method}"


def first_visit_and_escape_jax(
    kernel: Float[Array, "states states"],
    discount: Scalar,
    sites: Int[np.ndarray, " sites"],
    leak: Scalar | None = None,
) -> Found:
    """Return the same as `first_visit_and_escape` in JAX, differentiable in the kernel and the discount."""
    if not is_traced(discount) and float(discount) == 1:
        return _undiscounted_jax(kernel, sites)
    columns = jnp.asarray(_unit_columns(kernel.shape[0], sites), kernel.dtype)
    x, residual, how = solve_jax(kernel, columns, discount, 1 - discount if leak is None else leak)
    d = x[sites, np.arange(len(sites))]
    return x / d, 1 / d, residual, how


def _undiscounted_jax(kernel: Float[Array, "states states"], sites: Int[np.ndarray, " sites"]) -> Found:
    """Return the result of `_undiscounted` as JAX arrays: NumPy computes it, as JAX cannot find recurrent classes.

    Raises a TypeError if JAX traces the kernel.
    """
    if is_traced(kernel):
        raise TypeError(
            "discount 1 needs the recurrent classes of the kernel, which JAX cannot find while it traces it: call this "
            "outside of jit, grad and vmap over the kernel, or pass a discount below 1"
        )
    first_visit, escape, residual, how = _undiscounted(check_kernel(np.asarray(kernel)), sites, "auto")
    return jnp.asarray(first_visit, kernel.dtype), jnp.asarray(escape, kernel.dtype), residual, how


def equivalent_rewards(rewards: Numbers, depletion: Diminishing, self_occupancy: ArrayLike, visits: Numbers = 0) -> Any:
    """Return the stationary rewards r̃ whose ordinary value is the value of the diminishing r̄: V = M r̃.

    r̃(s') = r̄(s') G_f(1 − 1/d(s')) / d(s'); for the paper's λ this is r̄ / (λ + (1 − λ) d). `self_occupancy` is d, the
    diagonal of the successor representation, from this package or from any successor-feature or forward–backward
    model. With r̃ that model evaluates diminishing rewards without retraining, and exactly for its own policy. For
    control, note that d belongs to that policy: if every site wears off alike, r̃ ranks actions much as r̄ does. Raises a
    ValueError if a d is not finite or below 1.
    """
    xp = namespace(self_occupancy)
    d, checked = xp.asarray(self_occupancy), cast(Diminishing, check_depletion(depletion).checked())
    d = ensure(
        d,
        lambda d: jnp.isfinite(d) & (d >= 1 - 1e-5),
        "self_occupancy must be at least 1, because each state visits itself",
    )
    if not is_traced(d) and not np.all(np.isfinite(d) & (d >= 1 - 1e-5)):
        bad = np.asarray(d)[~(np.isfinite(d) & (d >= 1 - 1e-5))].flat[0]
        raise ValueError(
            f"self_occupancy holds {bad:g}: the diagonal of a successor representation is finite, and 1 or more, "
            "because a state visits itself. If a model has learned less, pass max(d, 1)"
        )
    escape = 1 / d
    return rewards * _totals(checked, 1 - escape, visits, escape) * escape


def from_lambda_representation(
    matrix: ArrayLike, lam: ArrayLike, *, discount: Scalar, sites: ArrayLike | None = None
) -> Occupancy:
    """Return an `Occupancy` from a given Φ_λ with λ > 0, learned or computed. It serves every curve over visit counts.

    1 − R(s') = (1/Φ_λ(s', s') − (1 − λ)) / λ and F(s, s') = Φ_λ(s, s') / Φ_λ(s', s'). The answer has no kernel and no
    residual, but `.with_depletion` gives the representation of every other curve. Raises a ValueError if λ = 0 or if
    Φ_λ is impossible for this λ. Raises InaccurateSolve if the rounding of Φ_λ hides how often the sites are visited
    again: if λ is tiny, or if λ < 1 and the sites are almost certain to be visited again.
    """
    depletion: Any = Geometric(lam).checked()
    discount = check_discount(discount)
    xp = namespace(matrix, lam, discount)
    phi: Any = xp.asarray(matrix)
    sites = check_sites(sites, phi.shape[0])
    if phi.shape[1:] != sites.shape:
        raise ValueError(f"the λR has shape {phi.shape}, but there are {len(sites)} sites: one column for each")
    if not is_traced(lam) and np.any(np.asarray(lam) <= 0):
        raise ValueError("λ must be above 0: the first-occupancy representation (λ = 0) holds nothing about returns")
    if not is_traced(phi) and not np.all(np.isfinite(phi)):
        raise ValueError("the λR holds numbers that are not finite: with λ < 1 or discount < 1 it is finite everywhere")
    diagonal = phi[sites, np.arange(len(sites))]
    escape = _escape_from_lambda(diagonal, depletion.lam, discount, sites)
    return _occupancy(depletion, None, discount, sites, (phi / diagonal, escape, xp.nan, "given"))


def _escape_from_lambda(diagonal: Any, lam: Any, discount: Scalar, sites: Int[np.ndarray, " sites"]) -> Any:
    """Return 1 − R = (1/Φ − (1 − λ)) / λ, which is at least 1 − γ.

    The two terms are rounded in proportion to their size. A value that differs from 1 − γ by no more than this rounding
    is set to 1 − γ: with γ = 1 the site is then certain to be visited again.
    """
    xp = namespace(diagonal, lam, discount)
    terms = 1 / diagonal, 1 - xp.asarray(lam)
    escape = (terms[0] - terms[1]) / lam
    rounding = float(xp.finfo(escape.dtype).eps) * (terms[0] + terms[1]) / lam
    least, accepted = 1 - discount, ACCEPTED_ERROR if escape.dtype == np.float64 else ACCEPTED_ERROR_32
    escape = xp.where((xp.abs(escape - least) <= rounding) & (rounding <= accepted), least, escape)
    possible = (escape >= -rounding) & (escape <= 1 + 1e-9 + rounding)
    clear = (rounding <= accepted * escape) | ((escape == 0) & (least == 0) & (rounding <= accepted))
    if is_traced(escape):
        return xp.where(possible & clear, escape, xp.nan)
    if not np.all(possible):
        i = int(np.argmax(~possible))
        entry = f"Φ({sites[i]}, {sites[i]}) = {float(diagonal[i]):.4g}"
        raise ValueError(f"{entry} cannot belong to a λR with this λ: it must lie between 1 and 1 / (1 − λ)")
    if not np.all(clear):
        site = sites[int(np.argmin(clear))]
        raise InaccurateSolve(
            f"the λR of site {site} in {escape.dtype} is too coarse to tell how often it is visited again: give a Φ of "
            "a larger λ, or in 64 bits"
        )
    return escape


def lambda_derivative(phi: Occupancy) -> Float[AnyArray, "states sites"]:
    """Return dΦ_λ/dλ = F · R / (1 − λR)² of a `Geometric` representation."""
    if phi.depletion.common_ratio is None:
        raise TypeError(f"only Geometric has a λ, this representation has {phi.depletion!r}")
    paid = phi.paid(phi.fresh_memory)
    return phi.first_visit * (phi.revisit * paid**2)
