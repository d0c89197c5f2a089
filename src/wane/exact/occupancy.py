"""Every curve over visit counts, in closed form.

Let M = (I − γP)⁻¹ be the successor representation and d its diagonal. A visit to s' happens for the first time after a
discounted time F(s, s') = E γ^(first hit) = M(s, s') / d(s'), and again after R(s') = E γ^(return) = 1 − 1/d(s'). If
the n-th visit pays f(n) r̄, then, as returns are independent of each other,

    Φ_f(s, s') = F(s, s') · G_f(R(s')),      G_f(x) = Σₙ f(n) xⁿ.

For the paper's λⁿ this is Φ_λ = M / (λ + (1 − λ) d), column by column: the λR is a rescaled SR, one solve gives it
for every λ, and only the columns of rewarded sites are needed. The paper, which has no closed form, iterates its
operator (`wane.exact.iterate`) and calls the first-N-visits representation intractable.

With γ = 1, F is the probability of ever reaching s' and R that of returning. M is infinite on recurrent classes, but
F and R are not: F is the probability of being absorbed in the class of s', R = 1, and every other site is transient,
where M exists.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from wane.depletion import Depletion, Diminishing, Geometric, is_traced, namespace
from wane.exact.graph import recurrent_classes
from wane.exact.representation import Representation, build, check_parameters
from wane.exact.solve import InaccurateSolve, product, solve
from wane.mdp import check_sites


class Occupancy(Representation):
    """Representation of any `Diminishing` depletion: first hits times what the visits pay."""

    first: Any
    """F(s, s') = E γ^(time of the first visit to s'), an array (states, sites)"""
    gap: Any
    """1 − R(s') = 1 − E γ^(time to return to s'), an array (sites,)"""

    @property
    def returns(self) -> Any:
        """R(s')"""
        return 1 - self.gap

    def paid(self, memory: Any) -> Any:
        """G_f(R): what a site pays in all from the next visit on, seen from that visit."""
        assert isinstance(self.depletion, Diminishing)
        total = self.depletion.generating_function(self.returns, memory, self.gap)
        if not is_traced(total) and not np.all(np.isfinite(total)):
            site = self.sites[np.argwhere(~np.isfinite(np.atleast_1d(total)))[0][-1]]
            raise ValueError(
                f"site {site} is visited again and again with discount {self.discount}, and "
                f"{self.depletion!r} never wears off enough: its value is infinite. Discount, or let it wear off"
            )
        return total

    def at(self, memory: Any) -> Any:
        paid = self.paid(memory)
        return self.first * paid[..., None, :]

    def values(self, rewards: Any, memory: Any = None) -> Any:
        """As for every representation. Leading axes of rewards, of the memory and of a parameter of the depletion are
        batches: `Geometric(lams[:, None])` gives the values for all the λ's in one product."""
        weights = self.paid(self.fresh_memory if memory is None else memory) * self.check_rewards(rewards)
        if isinstance(weights, jax.Array) or isinstance(self.first, jax.Array):
            return weights @ self.first.T
        rows = np.atleast_2d(weights).reshape(-1, len(self.sites))
        return product(self.first, np.ascontiguousarray(rows.T)).T.reshape(*np.shape(weights)[:-1], -1)

    def with_depletion(self, depletion: Depletion) -> Representation:
        if not isinstance(depletion, Diminishing):
            return super().with_depletion(depletion)
        check_parameters(depletion, len(self.sites))
        return make(
            depletion,
            self.kernel,
            self.discount,
            self.sites,
            self.residual,
            self.method,
            self.first,
            self.gap,
        )


def make(depletion, kernel, discount, sites, residual, method, first, gap) -> Occupancy:
    """An `Occupancy` whose value is known to be finite."""
    made = Occupancy(kernel, depletion, discount, sites, residual, method, first, gap)
    made.paid(made.fresh_memory)
    return made


@build.register
def _(depletion: Diminishing, kernel: Any, discount: Any, sites: np.ndarray, method: Any) -> Occupancy:
    if is_traced(discount) and sparse.issparse(kernel):
        raise TypeError("a discount can be traced with dense kernels only: pass a NumPy or JAX array")
    if isinstance(kernel, jax.Array) or is_traced(discount):
        found = _first_and_gap_jax(jnp.asarray(kernel), discount, sites)
    else:
        found = first_and_gap(kernel, float(discount), sites, method)
    first, gap, residual, how = found
    return make(depletion, kernel, discount, sites, residual, how, first, gap)


def first_and_gap(kernel: Any, discount: float, sites: np.ndarray, method: Any) -> tuple[Any, Any, float, str]:
    """F and 1 − R of the sites, the relative residual, and how they were found."""
    if discount == 1:
        return _first_and_gap_undiscounted(kernel, sites, method)
    n, k = kernel.shape[0], len(sites)
    every = k == n and np.array_equal(sites, np.arange(n))
    solution = solve(kernel, None if every else _unit_columns(n, sites), discount=discount, method=method)
    d = solution.x[sites, np.arange(k)]
    return solution.x / d, 1 / d, solution.residual, solution.method


def _unit_columns(n: int, sites: np.ndarray) -> np.ndarray:
    columns = np.zeros((n, len(sites)))
    columns[sites, np.arange(len(sites))] = 1
    return columns


def _first_and_gap_undiscounted(kernel: Any, sites: np.ndarray, method: Any) -> tuple[Any, Any, float, str]:
    """F as hitting and 1 − R as escape probabilities: one solve on the transient states."""
    k = len(sites)
    component = recurrent_classes(kernel)
    transient = np.flatnonzero(component < 0)
    home = component[sites]
    first = (component[:, None] == home).astype(float) * (home >= 0)
    gap = np.zeros(k)
    residual, how = 0.0, "recurrent classes"
    if len(transient):
        rows = kernel[transient]
        rhs = np.where(home >= 0, rows @ first, transient[:, None] == sites)
        stay = np.ones((len(transient), 1))
        solution = solve(rows[:, transient], np.hstack([rhs, stay]), discount=1.0, method=method)
        _check_leaving(float(solution.x[:, -1].max()))
        residual, how = solution.residual, f"recurrent classes, {solution.method}"
        diagonal = np.ones(k)
        inside = np.flatnonzero(home < 0)
        diagonal[inside] = solution.x[np.searchsorted(transient, sites[inside]), inside]
        first[transient] = solution.x[:, :-1] / diagonal
        gap[inside] = 1 / diagonal[inside]
    return first, gap, residual, how


def _check_leaving(steps: float) -> None:
    """Rounding in a row is a chance to leave: it matters when true chances are that small."""
    if not np.finfo(float).eps * steps <= 1e-7:
        raise InaccurateSolve(
            f"transient states are left after {steps:.1e} steps on average: with discount 1, rounding of the "
            "kernel's entries then "
            "decides where to. Discount, or merge states that never part"
        )


def _first_and_gap_jax(kernel: jax.Array, discount: Any, sites: np.ndarray) -> tuple[Any, Any, Any, str]:
    """The same by dense LU in JAX, differentiable in the kernel and the discount."""
    if not is_traced(discount) and float(discount) == 1:
        return _first_and_gap_jax_undiscounted(kernel, sites)
    n = kernel.shape[0]
    system = jnp.eye(n, dtype=kernel.dtype) - discount * kernel
    columns = jnp.asarray(_unit_columns(n, sites), kernel.dtype)
    x, residual = _solve_jax(system, columns)
    d = x[sites, np.arange(len(sites))]
    return x / d, 1 / d, residual, "dense LU (JAX)"


def _solve_jax(system: jax.Array, columns: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Solution and relative residual. A bad one is an error where it can be seen, and NaN while JAX traces.

    A nearly singular system has a small residual and a huge, meaningless solution; its size gives it away.
    """
    x = jnp.linalg.solve(system, columns)
    norm, largest = jnp.abs(system).sum(1).max(), jnp.abs(x).max()
    # On some GPUs the default rounds factors to ten bits, and any residual would be bad.
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


def _first_and_gap_jax_undiscounted(kernel: jax.Array, sites: np.ndarray) -> tuple[Any, Any, Any, str]:
    if is_traced(kernel):
        raise TypeError(
            "discount 1 needs the recurrent classes of the kernel, which JAX cannot find while it traces it: call this "
            "outside of jit, grad and vmap over the kernel, or pass a discount below 1"
        )
    component = recurrent_classes(np.asarray(kernel))
    transient, home = np.flatnonzero(component < 0), component[sites]
    first = jnp.asarray((component[:, None] == home) & (home >= 0), kernel.dtype)
    gap, residual = jnp.zeros(len(sites), kernel.dtype), jnp.zeros(())
    if len(transient):
        rows = kernel[transient]
        rhs = jnp.where(home >= 0, rows @ first, jnp.asarray(transient[:, None] == sites, kernel.dtype))
        x, residual = _solve_jax(jnp.eye(len(transient), dtype=kernel.dtype) - rows[:, transient], rhs)
        inside = np.flatnonzero(home < 0)
        diagonal = jnp.ones(len(sites), kernel.dtype)
        diagonal = diagonal.at[inside].set(x[np.searchsorted(transient, sites[inside]), inside])
        first = first.at[transient].set(x / diagonal)
        gap = gap.at[inside].set(1 / diagonal[inside])
    return first, gap, residual, "recurrent classes, dense LU (JAX)"


def equivalent_rewards(rewards: Any, depletion: Diminishing, self_occupancy: Any, visits: Any = 0) -> Any:
    """The stationary rewards r̃ whose ordinary value is the value of the diminishing r̄: V = M r̃.

    r̃(s') = r̄(s') G_f(1 − 1/d(s')) / d(s'), for the paper's λ: r̄ / (λ + (1 − λ) d). `self_occupancy` is d, the
    diagonal of the successor representation, from this package or from any successor-feature or forward–backward
    model: that model then evaluates diminishing rewards with no retraining. Exact for evaluating its policy; d
    belongs to that policy, and where every site wears off alike r̃ ranks actions much as r̄ does.
    """
    gap = 1 / namespace(self_occupancy).asarray(self_occupancy)
    return rewards * depletion.generating_function(1 - gap, visits, gap) * gap


def from_lambda_representation(matrix: Any, lam: Any, *, discount: Any, sites: Any = None) -> Occupancy:
    """Everything else from a given Φ_λ, learned or computed, with λ > 0: R = (1 − 1/Φ_λ(s', s')) / λ and F = Φ_λ /
    diag.

    The answer has no kernel and no residual, but `.with_depletion` gives every other curve.
    """
    xp = namespace(matrix, lam)
    matrix = xp.asarray(matrix)
    sites = check_sites(sites, matrix.shape[0])
    if matrix.shape[1:] != sites.shape:
        raise ValueError(f"the λR has shape {matrix.shape}, but there are {len(sites)} sites: one column for each")
    if not is_traced(lam) and np.any(np.asarray(lam) <= 0):
        raise ValueError("from λ = 0 nothing else follows: the first-occupancy representation does not know of returns")
    diagonal = matrix[sites, np.arange(len(sites))]
    gap = 1 - (1 - 1 / diagonal) / lam
    if not is_traced(gap) and not np.all((gap >= 0) & (gap <= 1 + 1e-9)):
        i = int(np.argmax(~((gap >= 0) & (gap <= 1 + 1e-9))))
        raise ValueError(
            f"Φ({sites[i]}, {sites[i]}) = {float(diagonal[i]):.4g} is no λR of this λ: it lies between 1 and 1 / "
            "(1 − λ)"
        )
    return make(Geometric(lam), None, discount, sites, xp.nan, "given", matrix / diagonal, gap)


def lambda_derivative(phi: Occupancy) -> Any:
    """dΦ_λ/dλ = F · R / (1 − λR)², an array (states, sites), for a `Geometric` representation."""
    if not isinstance(phi.depletion, Geometric):
        raise TypeError(f"only Geometric has a λ, this representation has {phi.depletion!r}")
    paid = phi.paid(phi.fresh_memory)
    return phi.first * (phi.returns * paid**2)
