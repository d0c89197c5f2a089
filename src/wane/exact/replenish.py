"""Exact representations of rewards that grow back (the paper's appendix J).

Two schemes have closed forms in the successor representation M_γ of the kernel. With d_γ its diagonal and, for the
total time, D = λ_d in the row of s' and q in all other rows:

    eligibility trace:    Φ = M_γ · diag(c − (1 − λ_d) (d_{γλ_r} − 1)),
    total time:           Φ(·, s') = (I − γDP)⁻¹ 1_s'.

The constant c is 1 for the paper's reward, which counts the visits before the present one, and λ_d for its Ω, which
includes the present visit. The factor q is 1/λ_r for the paper's reward, which grows while the agent is away, and λ_r
for its representation, which shrinks (see the errata). The total-time sum can be infinite; then a ValueError is raised.

`wane.exact.renewal` evaluates everything else: the time-elapsed scheme and the depletions that users define.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy import sparse

from wane.checks import is_traced
from wane.depletion import Geometric, Memory
from wane.exact.dense_jax import solve_each_jax, solve_jax
from wane.exact.graph import can_reach
from wane.exact.methods import Method
from wane.exact.occupancy import first_visit_and_escape
from wane.exact.representations import Representation, build
from wane.exact.solve import solve
from wane.exact.system import USE_64_BITS, InaccurateSolve, check_cancellation, leaving
from wane.kernels import Operator, require_matrix
from wane.limits import require_memory
from wane.regrowth import EligibilityTrace, TotalTime
from wane.types import AnyArray, Scalar


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Trace(Representation):
    """The closed form of the eligibility-trace scheme."""

    visits: Float[AnyArray, "states sites"]
    """M_γ"""
    fading: Float[AnyArray, "states sites"]
    """M_{γλ_r}"""
    returns: Float[AnyArray, " sites"]
    """d_{γλ_r} − 1, which is not computed by subtraction and therefore keeps its digits if it is small"""

    def at(self, memory: Memory) -> Float[AnyArray, "*batch states sites"]:
        assert isinstance(self.depletion, EligibilityTrace)
        lost, fresh = 1 - self.depletion.drop, self.depletion.worth(0.0)
        # The present trace decays until the next visits come, so the last term contains M_{γλ_r}.
        phi = self.visits * (fresh - lost * self.returns) - lost * memory * self.fading
        if not is_traced(phi):
            size = self.visits * (fresh + lost * self.returns) + lost * np.abs(memory) * self.fading
            # A Φ of exactly zero has no digits, so the error is compared with the reward of one visit.
            largest = np.abs(phi).max(axis=-2)
            check_cancellation(np.max(size, axis=-2), np.where(largest == 0, 1, largest).astype(phi.dtype))
        return phi


@build.register
def _(
    depletion: EligibilityTrace,
    given: Operator,
    discount: Scalar,
    sites: Int[np.ndarray, " sites"],
    method: str | Method,
) -> Trace:
    kernel = require_matrix(given, f"a representation under {type(depletion).__name__}")
    if np.ndim(depletion.regrow) and (isinstance(kernel, jax.Array) or is_traced(depletion.regrow)):
        _require_system_for_each_site(kernel.shape[0], len(sites))
    visits = build(Geometric(1.0), kernel, discount, sites, method)
    regrow = depletion.regrow
    # 1 − γλ_r as a sum keeps its digits where γ and λ_r are both close to 1.
    leak = (1 - discount) + discount * (1 - regrow)
    if isinstance(visits.matrix, jax.Array) or is_traced(regrow):
        matrix = jnp.asarray(kernel)
        rates, leaks = (jnp.broadcast_to(jnp.asarray(a, matrix.dtype), sites.shape) for a in (discount * regrow, leak))
        units = jnp.eye(len(matrix), dtype=matrix.dtype)[:, sites]
        fading, _ = solve_each_jax(matrix, units, rates, leaks, "the eligibility trace")
        returns = rates * jnp.einsum("it,ti->i", matrix[sites], fading, precision="highest")
    else:
        rates, leaks = np.broadcast_to(discount * regrow, sites.shape), np.broadcast_to(leak, sites.shape)
        fading = np.zeros_like(visits.matrix)
        for rate, rest in {*zip(rates.tolist(), leaks.tolist(), strict=True)}:
            mine = leaks == rest
            first_visit, escape, _, _ = first_visit_and_escape(kernel, rate, sites[mine], method, rest)
            fading[:, mine] = first_visit / escape
        rows: Any = kernel[sites]
        returns = rates * np.ravel((rows.multiply(fading.T) if sparse.issparse(rows) else rows * fading.T).sum(1))
    return Trace(kernel, depletion, discount, sites, visits.residual, visits.method, visits.matrix, fading, returns)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Total(Representation):
    """The closed form of the total-time scheme."""

    unit: Float[AnyArray, "states sites"]
    """Φ for sites that are worth 1 now"""

    def at(self, memory: Memory) -> Float[AnyArray, "*batch states sites"]:
        return self.unit * memory


class _Factors(NamedTuple):
    """The factors of the discounted reward in a step: γλ_d at the site, γq elsewhere. One number, or one per site."""

    discount: Any
    drop: Any
    """λ_d"""
    growth: Any
    """q"""
    leak_at_site: Any
    """1 − γλ_d"""
    leak_elsewhere: Any
    """1 − γq"""

    @classmethod
    def of(cls, depletion: TotalTime, discount: Scalar) -> "_Factors":
        """Return the factors. Their distances from 1 are sums, which keep their digits if the factors are near 1."""
        drop, regrow = depletion.drop, depletion.regrow
        grows = depletion.equation == "reward"
        elsewhere = (regrow - discount) / regrow if grows else (1 - discount) + discount * (1 - regrow)
        return cls(discount, drop, depletion.growth, (1 - discount) + discount * (1 - drop), elsewhere)

    def per_site(self, xp: Any, count: int) -> "_Factors":
        """Return the same with one entry of every factor for each site."""
        return _Factors(*(xp.broadcast_to(xp.asarray(each), (count,)) for each in self))

    def site(self, i: Any) -> "_Factors":
        return _Factors(*(each[i] for each in self))


@build.register
def _(
    depletion: TotalTime, given: Operator, discount: Scalar, sites: Int[np.ndarray, " sites"], method: str | Method
) -> Total:
    kernel = require_matrix(given, f"a representation under {type(depletion).__name__}")
    factors = _Factors.of(depletion, discount)
    if isinstance(kernel, jax.Array) or is_traced(*factors):
        known_to_shrink = not is_traced(factors.leak_elsewhere) and bool(np.all(factors.leak_elsewhere >= 0))
        may_grow = depletion.equation == "reward" and not known_to_shrink
        unit = _total_time_jax(jnp.asarray(kernel), sites, factors, may_grow)
        return Total(kernel, depletion, discount, sites, jnp.zeros(()), "a system for each site (JAX)", unit)
    factors = factors.per_site(np, len(sites))
    rate, leak, growth = float(discount) * float(factors.growth[0]), factors.leak_elsewhere[0], factors.growth[0]
    unit, apart, residuals, how = np.zeros((kernel.shape[0], len(sites))), np.arange(len(sites)), [0.0], ""
    if np.all(factors.leak_elsewhere == leak) and 0 < rate < 1:
        # If all sites grow alike, the discount changes from γ to γq, and only visits differ, by the factor λ_d/q.
        first_visit, escape, residual, how = first_visit_and_escape(kernel, rate, sites, method, float(leak))
        rest = (growth - factors.drop) + factors.drop * escape
        unit = first_visit * np.divide(growth, rest, where=rest > 0, out=np.full_like(rest, np.nan))
        # If a visit reduces a reward less than a step elsewhere, the two terms cancel, and the site is solved alone.
        apart, residuals = np.flatnonzero(rest < 1e-3 * factors.drop), [residual]
    for i in apart:
        unit[:, i], residual, how_apart = _total_time(kernel, int(sites[i]), factors.site(i))
        residuals, how = [*residuals, residual], how or how_apart
    return Total(kernel, depletion, discount, sites, max(residuals), how, unit)


def _total_time(kernel: Any, site: int, factors: _Factors) -> tuple[Float[np.ndarray, " states"], float, str]:
    """Solve for one site, on the states that can reach it. Raises a ValueError if the sum is infinite.

    The sum is finite if and only if the spectral radius of A = γDP is below one. A nonnegative matrix A has this
    property if and only if (I − A) y = 1 has a solution y ≥ 1, so y is solved for as a second column.
    """
    reach = can_reach(kernel, np.array([site]))
    states = np.flatnonzero(reach)
    rows = kernel[states]
    scale, leak = (
        np.where(states == site, at_site, elsewhere)
        for at_site, elsewhere in ((factors.drop, factors.growth), (factors.leak_at_site, factors.leak_elsewhere))
    )
    rhs = np.stack([states == site, np.ones(len(states))], axis=1).astype(float)
    exits = leaving(rows, reach)
    discount = float(factors.discount)
    try:
        solution = solve(rows[:, states], rhs, discount=discount, scale=scale, exits=exits, leak=leak)
        diverges = not np.all(solution.x[:, 1] >= 1 - 1e-9)
    except InaccurateSolve:
        diverges, solution = True, None
    if diverges or solution is None:
        raise ValueError(
            f"the total-time reward of site {site} is multiplied by {factors.growth:g} with every step away and by "
            f"{factors.drop:g} with every visit. With discount {discount:g} it grows too fast or wears off too slowly: "
            "its value is infinite, or too large to be told from that. Use a smaller discount, a larger `regrow`, or "
            'equation="representation", which shrinks'
        )
    column = np.zeros(kernel.shape[0])
    column[states] = solution.x[:, 0]
    return column, solution.residual, f"{solution.method} for each site"


def _total_time_jax(
    kernel: Float[Array, "states states"], sites: Int[np.ndarray, " sites"], factors: _Factors, may_grow: bool
) -> Float[Array, "states sites"]:
    """Solve a dense system for each site. Raises a ValueError if a sum is infinite; while JAX traces, it is NaN."""
    n = kernel.shape[0]
    _require_system_for_each_site(n, len(sites))
    # JAX may be tracing the kernel, so the states that can reach a site are found by squaring: 2ʲ steps after j rounds.
    reach = (kernel > 0) | jnp.eye(n, dtype=bool)
    for _ in range(max(n - 1, 1).bit_length()):
        reach = (reach.astype(kernel.dtype) @ reach.astype(kernel.dtype)) > 0

    def column(site: Any, factors: _Factors) -> Any:
        at_site = jnp.arange(n) == site
        weight = factors.discount * jnp.where(at_site, factors.drop, factors.growth)
        leak = jnp.where(at_site, factors.leak_at_site, factors.leak_elsewhere)
        rhs = jnp.stack([at_site, jnp.ones(n, bool)], axis=1).astype(kernel.dtype)
        # States that cannot reach the site are cut off: their weights are zero.
        weight, leak = jnp.where(reach[:, site], weight, 0.0), jnp.where(reach[:, site], leak, 1.0)
        x, _, _ = solve_jax(kernel, rhs, weight, leak, may_grow)
        return jnp.where(jnp.all(x[:, 1] >= 1 - 1e-4), x[:, 0], jnp.nan)

    unit = jax.vmap(column, out_axes=1)(jnp.asarray(sites), factors.per_site(jnp, len(sites)))
    if not is_traced(unit) and bool(jnp.isnan(unit).any()):
        raise ValueError(
            "a total-time reward grows faster than the discount takes it down: its value is infinite, or too large for "
            f"{unit.dtype}. If it is finite, {USE_64_BITS}"
        )
    return unit


def _require_system_for_each_site(n: int, n_sites: int) -> None:
    cure = "name fewer `sites`, or pass a NumPy or sparse kernel, whose sites are solved for one after the other"
    sizes = (n_sites, "sites"), (n, "states"), (n, "states")
    require_memory("a dense system for each site", *sizes, copies=2, cure=cure)
