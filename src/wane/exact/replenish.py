"""Rewards that grow back (the paper's appendix J), exactly.

Two schemes have closed forms in the successor representation M_γ of the kernel, with d_γ its diagonal:

    eligibility trace    Φ = M_γ · diag(c − (1 − λ_d) (d_{γλ_r} − 1)),    c = 1 for the paper's reward, λ_d for the
    paper's Ω total time           Φ(·, s') = (I − γ D P)⁻¹ 1_s',                   D = λ_d in the row of s', q in all
    others

(the paper's reward counts visits before now, its Ω also the present one; its reward grows while away, q = 1/λ_r, its
representation shrinks, q = λ_r: see the errata). The second sum need not be finite, and is refused when it is not.

Everything else, the time-elapsed scheme and whatever a user writes, goes through `wane.exact.renewal`.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wane.depletion import Geometric, is_traced
from wane.exact.graph import can_reach
from wane.exact.occupancy import first_and_gap
from wane.exact.representation import Representation, build
from wane.exact.solve import InaccurateSolve, solve
from wane.regrowth import EligibilityTrace, TotalTime


class Trace(Representation):
    """Closed form of the eligibility-trace scheme."""

    visits: Any
    """M_γ, an array (states, sites)"""
    fading: Any
    """M_{γλ_r}"""

    def at(self, memory: Any) -> Any:
        assert isinstance(self.depletion, EligibilityTrace)
        d = self.fading[self.sites, np.arange(len(self.sites))]
        lost = 1 - self.depletion.drop
        return self.visits * (self.depletion.worth(0.0) - lost * (d - 1)) - lost * memory * self.fading


@build.register
def _(depletion: EligibilityTrace, kernel: Any, discount: Any, sites: np.ndarray, method: Any) -> Trace:
    stays = Geometric(1.0)
    visits = build(stays, kernel, discount, sites, method)
    if np.ndim(depletion.regrow) == 0:
        fading = build(stays, kernel, discount * depletion.regrow, sites, method).matrix
    elif isinstance(visits.matrix, jax.Array) or is_traced(depletion.regrow):
        rates = jnp.broadcast_to(depletion.regrow, sites.shape)
        fading = _fading_jax(jnp.asarray(kernel), discount * rates, sites)
    else:
        fading = np.zeros_like(visits.matrix)
        rates = np.broadcast_to(np.asarray(depletion.regrow), sites.shape)
        for rate in np.unique(rates):
            mine = rates == rate
            fading[:, mine] = build(stays, kernel, discount * rate, sites[mine], method).matrix
    return Trace(kernel, depletion, discount, sites, visits.residual, visits.method, visits.matrix, fading)


def _fading_jax(kernel: jax.Array, discounts: jax.Array, sites: np.ndarray) -> jax.Array:
    """Columns of the SR, each for a discount of its own."""
    eye = jnp.eye(kernel.shape[0], dtype=kernel.dtype)
    return jax.vmap(lambda rate, one: jnp.linalg.solve(eye - rate * kernel, one), out_axes=1)(discounts, eye[sites])


class Total(Representation):
    """Closed form of the total-time scheme."""

    unit: Any
    """Φ for sites worth 1 now, an array (states, sites)"""

    def at(self, memory: Any) -> Any:
        return self.unit * memory


@build.register
def _(depletion: TotalTime, kernel: Any, discount: Any, sites: np.ndarray, method: Any) -> Total:
    drop, growth = depletion.drop, depletion.growth
    if isinstance(kernel, jax.Array) or is_traced(discount, drop, growth):
        unit = _total_time_jax(jnp.asarray(kernel), discount, sites, drop, growth)
        return Total(kernel, depletion, discount, sites, jnp.zeros(()), "dense LU for each site (JAX)", unit)
    shape = (len(sites),)
    drop, growth = np.broadcast_to(drop, shape), np.broadcast_to(growth, shape)
    rate = discount * float(growth[0])
    if np.all(growth == growth[0]) and 0 < rate < 1:
        first, gap, residual, how = first_and_gap(kernel, rate, sites, method)
        unit = first / (1 - drop / growth[0] * (1 - gap))
        return Total(kernel, depletion, discount, sites, residual, how, unit)
    columns = [_total_time(kernel, discount, site, *both) for site, *both in zip(sites, drop, growth, strict=True)]
    unit = np.stack([x for x, _, _ in columns], axis=1)
    return Total(kernel, depletion, discount, sites, max(r for _, r, _ in columns), columns[0][2], unit)


def _total_time(kernel: Any, discount: float, site: int, drop: float, growth: float) -> tuple[Any, float, str]:
    """One site by its own system, on the states that can reach it; refused if the sum is infinite.

    A nonnegative matrix A has spectral radius below one just if (I − A) y = 1 has a solution y ≥ 1.
    """
    reach = np.flatnonzero(can_reach(kernel, np.array([site])))
    scale = np.where(reach == site, drop, growth)
    rhs = np.stack([reach == site, np.ones(len(reach))], axis=1).astype(float)
    try:
        solution = solve(kernel[reach][:, reach], rhs, discount=discount, scale=scale, method="auto")
        diverges = not np.all(solution.x[:, 1] >= 1 - 1e-9)
    except InaccurateSolve:
        diverges, solution = True, None
    if diverges or solution is None:
        raise ValueError(
            f"the total-time reward of site {site} grows by {growth:g} with every step away, faster than discount "
            f"{discount:g} "
            "and the visits take it down: its value is infinite. Use a smaller discount, a larger `regrow`, or "
            'form="representation", which shrinks'
        )
    column = np.zeros(kernel.shape[0])
    column[reach] = solution.x[:, 0]
    return column, solution.residual, f"{solution.method} for each site"


def _total_time_jax(kernel: jax.Array, discount: Any, sites: np.ndarray, drop: Any, growth: Any) -> jax.Array:
    """All sites by dense systems of their own; NaN where the sum is infinite."""
    n = kernel.shape[0]
    reach = (kernel > 0) | jnp.eye(n, dtype=bool)
    for _ in range(max(n - 1, 1).bit_length()):
        reach = (reach.astype(kernel.dtype) @ reach.astype(kernel.dtype)) > 0

    def column(site, drop, growth):
        scale = jnp.where(reach[:, site], jnp.where(jnp.arange(n) == site, drop, growth), 0.0)
        rhs = jnp.stack([jnp.arange(n) == site, jnp.ones(n, bool)], axis=1).astype(kernel.dtype)
        x = jnp.linalg.solve(jnp.eye(n) - discount * scale[:, None] * kernel, rhs)
        return jnp.where(jnp.all(x[:, 1] >= 1 - 1e-4), x[:, 0], jnp.nan)

    shape = (len(sites),)
    drop, growth = jnp.broadcast_to(drop, shape), jnp.broadcast_to(growth, shape)
    unit = jax.vmap(column, out_axes=1)(jnp.asarray(sites), drop, growth)
    if not is_traced(unit) and bool(jnp.isnan(unit).any()):
        raise ValueError("a total-time reward grows faster than the discount takes it down: its value is infinite")
    return unit
