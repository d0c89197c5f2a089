"""Every curve over visit counts, in closed form.

Let M = (I − γP)⁻¹ be the successor representation and d its diagonal. The first visit to s' comes after a random time;
so does every return. Their discount factors are

    F(s, s') = E γ^(time of the first visit) = M(s, s') / d(s'),        R(s') = E γ^(time to return) = 1 − 1/d(s').

If the n-th visit pays f(n) r̄, then, because the times between visits are independent of each other,

    Φ_f(s, s') = F(s, s') · G_f(R(s')),        G_f(x) = Σₙ f(n) xⁿ.

For the paper's λⁿ this is Φ_λ = M / (λ + (1 − λ) d), column by column: the λR is a rescaled SR, one solve gives it for
every λ, and only the columns of rewarded sites are needed. The paper, which has no closed form, iterates its operator
(`wane.exact.bellman`) and calls the first-N-visits representation intractable.

With γ = 1, F is the probability of ever reaching s' and R that of returning. M is infinite on recurrent classes, but F
and R are not: F is the probability of being absorbed in the class of s', and R = 1. Every other site is transient, and
M exists there. `escape` = 1 − R is stored in place of R, because it keeps its digits where R is close to 1.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from wane.depletion import Depletion, Diminishing, Geometric, Memory, is_traced, namespace
from wane.exact.graph import recurrent_classes
from wane.exact.methods import Method
from wane.exact.representations import Representation, build, check_parameters, set_own_sites
from wane.exact.solve import solve
from wane.exact.system import InaccurateSolve, product
from wane.mdp import MDP, check_sites
from wane.types import AnyArray, ArrayLike, Kernel, Numbers, Scalar

Found = tuple[Float[AnyArray, "states sites"], Float[AnyArray, " sites"], Scalar, str]
"""F, 1 − R, the relative residual, and how they were found."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Occupancy(Representation):
    """The representation of any `Diminishing` depletion: first visits times what the visits pay."""

    first_visit: Float[AnyArray, "states sites"]
    """F(s, s') = E γ^(time of the first visit to s')."""
    escape: Float[AnyArray, " sites"]
    """1 − R(s'), with γ = 1 the probability of never returning to s'."""

    @property
    def revisit(self) -> Float[AnyArray, " sites"]:
        """R(s') = E γ^(time to return to s')."""
        return 1 - self.escape

    def paid(self, memory: Memory) -> Float[AnyArray, "*batch sites"]:
        """Return G_f(R): what a site pays in total from the next visit on, discounted to that visit.

        Raises a ValueError if that is infinite.
        """
        assert isinstance(self.depletion, Diminishing)
        total = self.depletion.generating_function(self.revisit, memory, self.escape)
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

        Leading axes of the rewards, of the memory and of a parameter of the depletion are batches:
        `Geometric(lams[:, None])` gives the values for all the λ's in one product.
        """
        weights: Any = self.paid(self.fresh_memory if memory is None else memory) * self.check_rewards(rewards)
        if isinstance(weights, jax.Array) or isinstance(self.first_visit, jax.Array):
            return weights @ self.first_visit.T
        rows = np.atleast_2d(weights).reshape(-1, len(self.sites))
        return product(self.first_visit, np.ascontiguousarray(rows.T)).T.reshape(*np.shape(weights)[:-1], -1)

    def action_matrix(self, mdp: MDP, memory: Memory | None = None) -> Float[AnyArray, "states actions sites"]:
        """Return Φ(s, a, s'). Only F is backed up, once, because what the visits pay is a factor of each column."""
        memory = self.fresh_memory if memory is None else memory
        first_visit_next: Any = mdp.backup(self.discount * self.first_visit)
        returning = first_visit_next[self.sites, :, np.arange(len(self.sites))].T
        at_own_site = self.depletion.worth(memory) + returning * self.paid(self.depletion.visit(memory))
        paid = self.paid(self.depletion.wait(memory))
        # The array is large beside the kernel, and to allocate another one takes longer than the product.
        in_place = isinstance(first_visit_next, np.ndarray) and isinstance(paid, np.ndarray)
        phi = np.multiply(first_visit_next, paid, out=first_visit_next) if in_place else first_visit_next * paid
        return set_own_sites(phi, self.sites, at_own_site.T)

    def with_depletion(self, depletion: Depletion) -> Representation:
        if not isinstance(depletion, Diminishing):
            return super().with_depletion(depletion)
        check_parameters(depletion, len(self.sites))
        found = self.first_visit, self.escape, self.residual, self.method
        return _occupancy(depletion, self.kernel, self.discount, self.sites, found)


def _occupancy(
    depletion: Diminishing, kernel: Kernel | None, discount: Scalar, sites: Int[np.ndarray, " sites"], found: Found
) -> Occupancy:
    """Return an `Occupancy` whose values are known to be finite."""
    first_visit, escape, residual, how = found
    made = Occupancy(kernel, depletion, discount, sites, residual, how, first_visit, escape)
    made.paid(made.fresh_memory)
    return made


@build.register
def _(
    depletion: Diminishing, kernel: Kernel, discount: Scalar, sites: Int[np.ndarray, " sites"], method: str | Method
) -> Occupancy:
    if isinstance(kernel, jax.Array) or is_traced(discount):
        found = _first_visit_and_escape_jax(jnp.asarray(kernel), discount, sites)
    else:
        found = first_visit_and_escape(kernel, float(discount), sites, method)
    return _occupancy(depletion, kernel, discount, sites, found)


def first_visit_and_escape(
    kernel: Kernel, discount: float, sites: Int[np.ndarray, " sites"], method: str | Method
) -> Found:
    """Return F and 1 − R of the sites, the relative residual, and how they were found."""
    if discount == 1:
        return _undiscounted(kernel, sites, method)
    n, k = kernel.shape[0], len(sites)
    every = k == n and bool((sites == np.arange(n)).all())
    solution = solve(kernel, None if every else _unit_columns(n, sites), discount=discount, method=method)
    d = solution.x[sites, np.arange(k)]
    return solution.x / d, 1 / d, solution.residual, solution.method


def _unit_columns(n: int, sites: Int[np.ndarray, " sites"]) -> Float[np.ndarray, "states sites"]:
    columns = np.zeros((n, len(sites)))
    columns[sites, np.arange(len(sites))] = 1
    return columns


def _undiscounted(kernel: Any, sites: Int[np.ndarray, " sites"], method: str | Method) -> Found:
    """Return F as hitting and 1 − R as escape probabilities, by one solve on the transient states.

    A site s' of a recurrent class is reached just if the chain is absorbed in that class, so the right-hand side is the
    probability of entering the class. For a transient site the system gives M, and F = M / d as with a discount.
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
    # One more column, all ones: its solution is the mean number of steps among the transient states.
    ones = np.ones((len(transient), 1))
    solution = solve(rows[:, transient], np.hstack([rhs, ones]), discount=1.0, method=method)
    _check_leaving(float(solution.x[:, -1].max()))
    diagonal = np.ones(k)
    passing = np.flatnonzero(site_class < 0)
    diagonal[passing] = solution.x[np.searchsorted(transient, sites[passing]), passing]
    first_visit[transient] = solution.x[:, :-1] / diagonal
    escape[passing] = 1 / diagonal[passing]
    return first_visit, escape, solution.residual, f"recurrent classes, {solution.method}"


def _check_leaving(steps: float) -> None:
    """Raise InaccurateSolve where the chance to leave the transient states is as small as the rounding of a row."""
    if not np.finfo(float).eps * steps <= 1e-7:
        raise InaccurateSolve(
            f"the chain leaves its transient states after {steps:.1e} steps on average: with discount 1, the rounding "
            "of the kernel's entries then decides where to. Discount, or merge states that never part"
        )


def _first_visit_and_escape_jax(
    kernel: Float[Array, "states states"], discount: Scalar, sites: Int[np.ndarray, " sites"]
) -> Found:
    """Return the same by dense LU in JAX, differentiable in the kernel and the discount."""
    if not is_traced(discount) and float(discount) == 1:
        return _undiscounted_jax(kernel, sites)
    n = kernel.shape[0]
    system = jnp.eye(n, dtype=kernel.dtype) - discount * kernel
    columns = jnp.asarray(_unit_columns(n, sites), kernel.dtype)
    x, residual = _solve_jax(system, columns)
    d = x[sites, np.arange(len(sites))]
    return x / d, 1 / d, residual, "dense LU (JAX)"


def _solve_jax(
    system: Float[Array, "states states"], columns: Float[Array, "states columns"]
) -> tuple[Float[Array, "states columns"], Float[Array, ""]]:
    """Return the solution and its relative residual. A bad one raises InaccurateSolve, or is NaN while JAX traces.

    A nearly singular system has a small residual and a huge, meaningless solution, so its size is checked too.
    """
    x = jnp.linalg.solve(system, columns)
    norm, largest = jnp.abs(system).sum(1).max(), jnp.abs(x).max()
    # On some GPUs the default precision rounds factors to ten bits, and every residual would look bad.
    product = jnp.matmul(system, x, precision="highest")
    residual = jnp.abs(columns - product).max() / (norm * largest + jnp.abs(columns).max())
    forward = float(jnp.finfo(system.dtype).eps) * jnp.maximum(norm, 1) * largest
    good = (residual <= (1e-10 if system.dtype == jnp.float64 else 1e-4)) & (forward <= 1e-3)
    if not is_traced(good) and not bool(good):
        raise InaccurateSolve(
            f"dense LU in {system.dtype} left a relative residual of {float(residual):.1e} and an error of up to "
            f"{float(forward):.1e}: discount more, or switch on double precision with "
            'jax.config.update("jax_enable_x64", True)'
        )
    return jnp.where(good, x, jnp.nan), residual


def _undiscounted_jax(kernel: Float[Array, "states states"], sites: Int[np.ndarray, " sites"]) -> Found:
    if is_traced(kernel):
        raise TypeError(
            "discount 1 needs the recurrent classes of the kernel, which JAX cannot find while it traces it: call this "
            "outside of jit, grad and vmap over the kernel, or pass a discount below 1"
        )
    component = recurrent_classes(np.asarray(kernel))
    transient, site_class = np.flatnonzero(component < 0), component[sites]
    first_visit = jnp.asarray((component[:, None] == site_class) & (site_class >= 0), kernel.dtype)
    escape, residual = jnp.zeros(len(sites), kernel.dtype), jnp.zeros(())
    if len(transient):
        rows = kernel[transient]
        rhs = jnp.where(site_class >= 0, rows @ first_visit, jnp.asarray(transient[:, None] == sites, kernel.dtype))
        x, residual = _solve_jax(jnp.eye(len(transient), dtype=kernel.dtype) - rows[:, transient], rhs)
        passing = np.flatnonzero(site_class < 0)
        diagonal = jnp.ones(len(sites), kernel.dtype)
        diagonal = diagonal.at[passing].set(x[np.searchsorted(transient, sites[passing]), passing])
        first_visit = first_visit.at[transient].set(x / diagonal)
        escape = escape.at[passing].set(1 / diagonal[passing])
    return first_visit, escape, residual, "recurrent classes, dense LU (JAX)"


def equivalent_rewards(rewards: Numbers, depletion: Diminishing, self_occupancy: ArrayLike, visits: Numbers = 0) -> Any:
    """Return the stationary rewards r̃ whose ordinary value is the value of the diminishing r̄: V = M r̃.

    r̃(s') = r̄(s') G_f(1 − 1/d(s')) / d(s'); for the paper's λ this is r̄ / (λ + (1 − λ) d). `self_occupancy` is d, the
    diagonal of the successor representation, from this package or from any successor-feature or forward–backward
    model. That model then evaluates diminishing rewards without retraining. This is exact for evaluating the model's
    policy. For control, note that d belongs to that policy: where every site wears off alike, r̃ ranks actions much as
    r̄ does.
    """
    escape = 1 / namespace(self_occupancy).asarray(self_occupancy)
    return rewards * depletion.generating_function(1 - escape, visits, escape) * escape


def from_lambda_representation(
    matrix: ArrayLike, lam: ArrayLike, *, discount: Scalar, sites: ArrayLike | None = None
) -> Occupancy:
    """Return every other curve's representation from a given Φ_λ with λ > 0, learned or computed.

    R(s') = (1 − 1/Φ_λ(s', s')) / λ and F(s, s') = Φ_λ(s, s') / Φ_λ(s', s'). The answer has no kernel and no residual,
    but `.with_depletion` gives every other curve. Raises a ValueError if λ = 0 or if Φ_λ is impossible for this λ.
    """
    xp = namespace(matrix, lam)
    phi: Any = xp.asarray(matrix)
    sites = check_sites(sites, phi.shape[0])
    if phi.shape[1:] != sites.shape:
        raise ValueError(f"the λR has shape {phi.shape}, but there are {len(sites)} sites: one column for each")
    if not is_traced(lam) and np.any(np.asarray(lam) <= 0):
        raise ValueError("λ must be above 0: the first-occupancy representation (λ = 0) holds nothing about returns")
    diagonal = phi[sites, np.arange(len(sites))]
    escape = 1 - (1 - 1 / diagonal) / xp.asarray(lam)
    possible = (escape >= 0) & (escape <= 1 + 1e-9)
    if not is_traced(escape) and not np.all(possible):
        i = int(np.argmax(~possible))
        entry = f"Φ({sites[i]}, {sites[i]}) = {float(diagonal[i]):.4g}"
        raise ValueError(f"{entry} is no λR of this λ: it must lie between 1 and 1 / (1 − λ)")
    return _occupancy(Geometric(lam), None, discount, sites, (phi / diagonal, escape, xp.nan, "given"))


def lambda_derivative(phi: Occupancy) -> Float[AnyArray, "states sites"]:
    """Return dΦ_λ/dλ = F · R / (1 − λR)² of a `Geometric` representation."""
    if not isinstance(phi.depletion, Geometric):
        raise TypeError(f"only Geometric has a λ, this representation has {phi.depletion!r}")
    paid = phi.paid(phi.fresh_memory)
    return phi.first_visit * (phi.revisit * paid**2)
