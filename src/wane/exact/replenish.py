"""Rewards that grow back (the paper's appendix J), exactly.

Two schemes have closed forms in the successor representation M_γ of the kernel. With d_γ its diagonal and, for the
total time, D = λ_d in the row of s' and q in all other rows:

    eligibility trace:    Φ = M_γ · diag(c − (1 − λ_d) (d_{γλ_r} − 1)),
    total time:           Φ(·, s') = (I − γDP)⁻¹ 1_s'.

The constant c is 1 for the paper's reward, which counts the visits before the present one, and λ_d for its Ω, which
includes the present visit. The factor q is 1/λ_r for the paper's reward, which grows while the agent is away, and λ_r
for its representation, which shrinks (see the errata). The total-time sum need not be finite; it is refused if it is
not.

Everything else, the time-elapsed scheme and what users write, goes through `wane.exact.renewal`.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from wane.depletion import Geometric, Memory, is_traced
from wane.exact.graph import can_reach
from wane.exact.methods import Method
from wane.exact.occupancy import first_visit_and_escape
from wane.exact.representations import Representation, build
from wane.exact.solve import solve
from wane.exact.system import InaccurateSolve
from wane.regrowth import EligibilityTrace, TotalTime
from wane.types import AnyArray, Kernel, Numbers, Scalar


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Trace(Representation):
    """The closed form of the eligibility-trace scheme."""

    visits: Float[AnyArray, "states sites"]
    """M_γ"""
    fading: Float[AnyArray, "states sites"]
    """M_{γλ_r}"""

    def at(self, memory: Memory) -> Float[AnyArray, "*batch states sites"]:
        assert isinstance(self.depletion, EligibilityTrace)
        d = self.fading[self.sites, np.arange(len(self.sites))]
        lost = 1 - self.depletion.drop
        # The trace that is there already decays until the next visits come, hence M_{γλ_r} in the last term.
        return self.visits * (self.depletion.worth(0.0) - lost * (d - 1)) - lost * memory * self.fading


@build.register
def _(
    depletion: EligibilityTrace,
    kernel: Kernel,
    discount: Scalar,
    sites: Int[np.ndarray, " sites"],
    method: str | Method,
) -> Trace:
    stationary = Geometric(1.0)
    visits = build(stationary, kernel, discount, sites, method)
    if np.ndim(depletion.regrow) == 0:
        fading = build(stationary, kernel, discount * depletion.regrow, sites, method).matrix
    elif isinstance(visits.matrix, jax.Array) or is_traced(depletion.regrow):
        rates = jnp.broadcast_to(depletion.regrow, sites.shape)
        fading = _fading_jax(jnp.asarray(kernel), jnp.asarray(discount * rates), sites)
    else:
        fading = np.zeros_like(visits.matrix)
        rates = np.broadcast_to(np.asarray(depletion.regrow), sites.shape)
        for rate in np.unique(rates):
            mine = rates == rate
            fading[:, mine] = build(stationary, kernel, discount * rate, sites[mine], method).matrix
    return Trace(kernel, depletion, discount, sites, visits.residual, visits.method, visits.matrix, fading)


def _fading_jax(
    kernel: Float[Array, "states states"], discounts: Float[Array, " sites"], sites: Int[np.ndarray, " sites"]
) -> Float[Array, "states sites"]:
    """Return columns of the SR, each for a discount of its own."""
    eye = jnp.eye(kernel.shape[0], dtype=kernel.dtype)
    return jax.vmap(lambda rate, unit: jnp.linalg.solve(eye - rate * kernel, unit), out_axes=1)(discounts, eye[sites])


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Total(Representation):
    """The closed form of the total-time scheme."""

    unit: Float[AnyArray, "states sites"]
    """Φ for sites that are worth 1 now"""

    def at(self, memory: Memory) -> Float[AnyArray, "*batch states sites"]:
        return self.unit * memory


@build.register
def _(
    depletion: TotalTime, kernel: Kernel, discount: Scalar, sites: Int[np.ndarray, " sites"], method: str | Method
) -> Total:
    drop, growth = depletion.drop, depletion.growth
    if isinstance(kernel, jax.Array) or is_traced(discount, drop, growth):
        unit = _total_time_jax(jnp.asarray(kernel), discount, sites, drop, growth)
        return Total(kernel, depletion, discount, sites, jnp.zeros(()), "dense LU for each site (JAX)", unit)
    shape = (len(sites),)
    drop, growth = np.broadcast_to(drop, shape), np.broadcast_to(growth, shape)
    rate = float(discount) * float(growth[0])
    if np.all(growth == growth[0]) and 0 < rate < 1:
        # One growth for all sites is a change of discount from γ to γq; only the visits differ, by the factor λ_d/q.
        first_visit, escape, residual, how = first_visit_and_escape(kernel, rate, sites, method)
        unit = first_visit / (1 - drop / growth[0] * (1 - escape))
        return Total(kernel, depletion, discount, sites, residual, how, unit)
    columns = [
        _total_time(kernel, float(discount), int(site), float(each_drop), float(each_growth))
        for site, each_drop, each_growth in zip(sites, drop, growth, strict=True)
    ]
    unit = np.stack([x for x, _, _ in columns], axis=1)
    return Total(kernel, depletion, discount, sites, max(r for _, r, _ in columns), columns[0][2], unit)


def _total_time(
    kernel: Any, discount: float, site: int, drop: float, growth: float
) -> tuple[Float[np.ndarray, " states"], float, str]:
    """Solve for one site, on the states that can reach it. Raises a ValueError if the sum is infinite.

    The sum is finite just if the spectral radius of A = γDP is below one. A nonnegative matrix A has that property just
    if (I − A) y = 1 has a solution y ≥ 1, so y is solved for as a second column.
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
            f"{discount:g} and the visits take it down: its value is infinite. Use a smaller discount, a larger "
            '`regrow`, or form="representation", which shrinks'
        )
    column = np.zeros(kernel.shape[0])
    column[reach] = solution.x[:, 0]
    return column, solution.residual, f"{solution.method} for each site"


def _total_time_jax(
    kernel: Float[Array, "states states"],
    discount: Scalar,
    sites: Int[np.ndarray, " sites"],
    drop: Numbers,
    growth: Numbers,
) -> Float[Array, "states sites"]:
    """Solve a dense system for each site. An infinite sum raises a ValueError, or is NaN while JAX traces."""
    n = kernel.shape[0]
    # JAX may be tracing the kernel, so the states that can reach a site are found by squaring: 2ʲ steps after j rounds.
    reach = (kernel > 0) | jnp.eye(n, dtype=bool)
    for _ in range(max(n - 1, 1).bit_length()):
        reach = (reach.astype(kernel.dtype) @ reach.astype(kernel.dtype)) > 0

    def column(site: Any, drop: Any, growth: Any) -> Any:
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
