"""What a policy will collect from every site: the base class of all representations, and the function that makes them.

If the chain of a kernel P starts in s, with the site s' in memory m, it collects from s'

    Φ(s, s'; m) = E[ Σₖ γᵏ worth(memory of s' at time k) 1(s_k = s') | s₀ = s ],        V(s) = Σ_s' r̄(s') Φ(s, s').

This is the paper's λ representation (definition 4.1) when the depletion is geometric and no site has been visited yet.
How Φ is computed depends only on the depletion. `wane.exact.occupancy` has the closed forms of all curves over visit
counts, `wane.exact.replenish` has those of two schemes that grow back, and `wane.exact.renewal` treats any other
memory. Each registers its function with `build`, and you can register yours.

With actions, Φ is one backup of Φ without. The memory of a site changes with the visit to s:

    Φ(s, a, s; m)  = worth(m) + γ E[ Φ(s₁, s; visit(m)) ],
    Φ(s, a, s'; m) = γ E[ Φ(s₁, s'; wait(m)) ]  for s' ≠ s,        s₁ ~ p(·|s, a).
"""

import abc
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from wane.checks import check_whole, ensure, is_traced
from wane.depletion import Depletion, FirstVisits, Geometric, Memory
from wane.exact.finite import finite_representation
from wane.exact.methods import Method
from wane.exact.solve import SMALL, solve
from wane.exact.system import check_cancellation
from wane.kernels import KernelLike, Operator, check_operator
from wane.limits import memory_limit, require_memory
from wane.mdp import MDP, check_discount, check_sites
from wane.sums import namespace
from wane.types import AnyArray, ArrayLike, Integer, Scalar

ARRAYS = 4
"""The number of arrays (states, sites) that are stored at the same time while a representation is solved for."""


@dataclass(frozen=True, eq=False, repr=False)
class Representation(abc.ABC):
    """Φ of one kernel, for some sites. Make one with `wane.representation`.

    Every subclass is a frozen dataclass that JAX knows as a pytree. It is not an Equinox module, because making one of
    these takes as long as solving a small chain.
    """

    kernel: Operator | None
    """The kernel, or None if Φ was given and the kernel is unknown."""
    depletion: Depletion
    discount: Scalar
    sites: Int[np.ndarray, " sites"]
    residual: Scalar
    """The relative residual of the linear systems behind Φ."""
    method: str = field(metadata={"static": True})
    """How these systems were solved."""

    def __repr__(self) -> str:
        name, n_sites = type(self).__name__, len(self.sites)
        return f"{name}({n_sites} sites, {self.depletion!r}, discount={self.discount}, solved by {self.method})"

    @abc.abstractmethod
    def at(self, memory: Memory) -> Float[AnyArray, "*batch states sites"]:
        """Return Φ with the sites in the given memory."""

    @property
    def truncation(self) -> float:
        """A bound on what was left out of infinite sums, in units of r̄. It is zero for closed forms.

        If Φ is interpolated over a memory that is a real number, that part of the bound is an estimate: the change
        under the last refinement.
        """
        return 0.0

    @property
    def matrix(self) -> Float[AnyArray, "*batch states sites"]:
        """Φ with no site visited yet."""
        return self.at(self.fresh_memory)

    @property
    def fresh_memory(self) -> Memory:
        """The memory of sites that were never visited."""
        return self.depletion.initial((len(self.sites),))

    def values(self, rewards: ArrayLike, memory: Memory | None = None) -> Float[AnyArray, "*batch states"]:
        """Return V(s) for the first-visit rewards r̄ of the sites, which are in `memory` (default: never visited)."""
        phi, weights = self.at(self.fresh_memory if memory is None else memory), self.check_rewards(rewards)
        found = _product(weights, phi.T)
        check_sum_over_sites(phi, weights, rewards, found)
        return found

    def action_matrix(self, mdp: MDP, memory: Memory | None = None) -> Float[AnyArray, "states actions sites"]:
        """Return Φ(s, a, s'), with the sites in `memory` (default: never visited)."""
        memory = self.fresh_memory if memory is None else memory
        waited, visited = self.at(self.depletion.wait(memory)), self.at(self.depletion.visit(memory))
        at_own_site = self.depletion.worth(memory) + self.discount * mdp.backup_at(self.sites, visited).T
        return set_own_sites(self.discount * mdp.backup(waited), self.sites, at_own_site.T)

    def q_values(self, mdp: MDP, rewards: ArrayLike, memory: Memory | None = None) -> Float[AnyArray, "states actions"]:
        """Return Q(s, a) of taking `a` once and following the kernel's policy afterwards.

        It is −∞ where `a` is not available.
        """
        memory = self.fresh_memory if memory is None else memory
        weights: Any = self.check_rewards(rewards)
        if weights.ndim != 1:
            raise ValueError(f"q_values takes one reward vector, got shape {weights.shape}: use jax.vmap for a batch")
        waited, visited = self.at(self.depletion.wait(memory)), self.at(self.depletion.visit(memory))
        values = _product(waited, weights)
        check_sum_over_sites(waited, weights, rewards, values)
        q: Any = self.discount * mdp.backup(values)
        # At its own site the agent is paid now, and the memory of that site then changes by a visit, not by waiting.
        paid_now = self.depletion.worth(memory) * weights
        difference = mdp.backup_at(self.sites, visited - waited)
        change = paid_now[:, None] + self.discount * weights[:, None] * difference
        if isinstance(q, jax.Array):
            q = q.at[self.sites].add(change)
            return q if mdp.available is None else jnp.where(mdp.available, q, -jnp.inf)
        q[self.sites] += change
        return q if mdp.available is None else np.where(mdp.available, q, -np.inf)

    def with_depletion(self, depletion: Depletion) -> "Representation":
        """Return the representation under another depletion. Between curves over visit counts this solves nothing."""
        if self.kernel is None:
            name = type(depletion).__name__
            raise ValueError(f"{name} needs the kernel, which is unknown for a given λR: call wane.representation")
        depletion = check_parameters(depletion, len(self.sites))
        check_columns(self.kernel, self.sites)
        return build(depletion, self.kernel, self.discount, self.sites, "auto")

    def check_rewards(self, rewards: ArrayLike) -> Float[AnyArray, "*batch sites"]:
        """Return the rewards as an array. Raises a ValueError if there is not one finite r̄ for each site."""
        xp = namespace(rewards, self.discount, self.kernel)
        array = xp.asarray(rewards, dtype=float)
        if array.shape[-1:] != (len(self.sites),):
            raise ValueError(
                f"rewards has shape {array.shape}, but there are {len(self.sites)} sites: give one r̄ for each site, "
                "in the order of `sites`"
            )
        if not is_traced(array) and not np.all(np.isfinite(array)):
            raise ValueError(f"rewards must be finite numbers, got {array[~np.isfinite(array)][0]}")
        return ensure(array, jnp.isfinite, "rewards must be finite numbers")


def _product(a: Any, b: Any) -> Any:
    """Return a @ b. On some GPUs the default precision would round the factors to ten bits."""
    jax_array = isinstance(a, jax.Array) or isinstance(b, jax.Array)
    return jnp.matmul(a, b, precision="highest") if jax_array else a @ b


def check_sum_over_sites(phi: Any, weights: Any, rewards: ArrayLike, found: Any) -> None:
    """Raise InaccurateSolve if rewards of opposite signs have cancelled in found = Σ phi · weights.

    Near discount 1 every Φ is huge, but V is small if some sites take away what others pay.
    """
    if is_traced(found, phi, weights, rewards) or found.size == 0:
        return
    size = np.abs(np.asarray(rewards, float)).max(axis=-1, initial=0.0)
    parts = np.abs(np.asarray(weights)).sum(axis=-1) * float(np.abs(phi).max(initial=0.0))
    if np.all(parts <= 1e4 * size):  # Far from losing digits in 64 or 32 bits; no further check is needed.
        return
    largest = np.abs(weights) @ np.abs(np.swapaxes(phi, -1, -2))
    check_cancellation(np.max(largest, axis=-1), np.maximum(np.abs(found).max(axis=-1), size).astype(found.dtype))


def set_own_sites(
    phi: Float[AnyArray, "states actions sites"],
    sites: Int[np.ndarray, " sites"],
    at_own_site: Float[AnyArray, "sites actions"],
) -> Float[AnyArray, "states actions sites"]:
    """Return Φ(s, a, s') with the entries s = s' replaced by `at_own_site`. NumPy arrays are changed in place."""
    column = np.arange(len(sites))
    if isinstance(phi, jax.Array):
        return phi.at[sites, :, column].set(at_own_site)
    phi[sites, :, column] = at_own_site
    return phi


@singledispatch
def build(
    depletion: Any, kernel: Operator, discount: Scalar, sites: Int[np.ndarray, " sites"], method: str | Method
) -> Representation:
    """Make the representation for one kind of depletion, from arguments that have been checked.

    Extend it with `build.register` if you know a closed form for your own depletion.
    """
    raise _no_depletion(depletion)


def representation(
    kernel: KernelLike,
    depletion: Depletion,
    *,
    discount: Scalar,
    sites: ArrayLike | None = None,
    method: str | Method = "auto",
) -> Representation:
    """Return the exact representation of a kernel under a depletion.

    `kernel` is what `MDP.under` returns, or any stochastic matrix: NumPy, SciPy sparse, a SciPy `LinearOperator` (which
    only multiplies vectors: below discount 1 that is enough for curves over visit counts), or JAX (then the answer is
    JAX, and differentiable in everything). `sites` are the states that can pay (default: all); only their columns are
    solved for. `method` is passed to `wane.exact.solve.solve`. Raises a ValueError for bad arguments or an infinite
    value, and InaccurateSolve if rounding would spoil the answer. While JAX traces, nothing can be raised, and the
    answer is NaN in all these cases (`wane.jit_checks` gives errors for bad arguments).

        >>> phi = representation(np.array([[0.5, 0.5], [0.0, 1.0]]), Geometric(0.5), discount=0.9)
        >>> phi.matrix.round(4)
        array([[1.2903, 1.4876],
               [0.    , 1.8182]])
        >>> phi.values([1.0, 0.0]).round(4)
        array([1.2903, 0.    ])
        >>> phi.with_depletion(Geometric(1.0)).matrix.round(4)      # the SR; nothing is solved again
        array([[ 1.8182,  8.1818],
               [ 0.    , 10.    ]])
    """
    checked, discount = _check_arguments(kernel, discount)
    sites = check_sites(sites, checked.shape[0])
    if len(sites) == 0:
        raise ValueError("sites is empty: name at least one state that can pay")
    depletion = check_parameters(depletion, len(sites))
    check_columns(checked, sites)
    return build(depletion, _own(checked), discount, sites, method)


def _check_arguments(kernel: KernelLike, discount: Scalar) -> tuple[Operator, Any]:
    """Return the kernel and γ. Raises a TypeError if JAX traces γ and the kernel is sparse (solved outside of JAX)."""
    checked, gamma = check_operator(kernel), check_discount(discount)
    if is_traced(gamma) and not isinstance(checked, np.ndarray | jax.Array):
        raise TypeError("a discount can be traced with dense kernels only: pass a NumPy or JAX array")
    return checked, gamma


def check_columns(kernel: Operator, sites: Int[np.ndarray, " sites"]) -> None:
    """Raise a ValueError if arrays (states, sites) take more memory than the limit of `wane.limits`."""
    if not isinstance(kernel, jax.Array):
        cure = "name fewer `sites`, or call wane.evaluate, which returns values only and works on some sites at a time"
        sizes = (kernel.shape[0], "states"), (len(sites), "sites")
        require_memory("the representation", *sizes, copies=ARRAYS, cure=cure)


def _own(kernel: Any) -> Operator:
    """Return a kernel that the caller cannot change later. A small one becomes dense, because dense LU solves it."""
    if isinstance(kernel, jax.Array | LinearOperator):
        return kernel
    return kernel.toarray() if sparse.issparse(kernel) and kernel.shape[0] <= SMALL else kernel.copy()


def lambda_representation(
    kernel: KernelLike, lam: ArrayLike, *, discount: Scalar, sites: ArrayLike | None = None
) -> Representation:
    """Return the paper's λR: after every visit the fraction λ remains, one number or one for each site."""
    return representation(kernel, Geometric(lam), discount=discount, sites=sites)


def successor_representation(kernel: KernelLike, *, discount: Scalar, sites: ArrayLike | None = None) -> Representation:
    """Return the SR, λ = 1: rewards never wear off."""
    return lambda_representation(kernel, 1.0, discount=discount, sites=sites)


def first_occupancy_representation(
    kernel: KernelLike, *, discount: Scalar, sites: ArrayLike | None = None
) -> Representation:
    """Return the FR, λ = 0: only the first visit pays."""
    return lambda_representation(kernel, 0.0, discount=discount, sites=sites)


def n_occupancy_representation(
    kernel: KernelLike, n: ArrayLike, *, discount: Scalar, sites: ArrayLike | None = None
) -> Representation:
    """Return the paper's NR (its appendix C): the first n visits pay in full."""
    return representation(kernel, FirstVisits(n), discount=discount, sites=sites)


def evaluate(
    kernel: KernelLike,
    rewards: ArrayLike,
    depletion: Depletion,
    *,
    discount: Scalar,
    horizon: Integer | None = None,
    method: str | Method = "auto",
) -> Float[AnyArray, " states"]:
    """Return V(s), given an r̄ for every state. It solves only for the columns that it needs.

    With a `horizon`, V is what the first `horizon` rewards are worth, those of the times 0 to `horizon` − 1, and no
    system is solved (`wane.exact.finite`); otherwise the chain goes on for ever.

    States that pay nothing are not sites, and all sites that never wear off (λ = 1) share one right-hand side. If the
    columns of all sites would take more memory than the limit of `wane.limits`, they are solved for in blocks.
    """
    checked, discount = _check_arguments(kernel, discount)
    steps = None if horizon is None else check_whole("horizon", horizon, 0)
    pay: Any = rewards if isinstance(rewards, jax.Array) else np.asarray(rewards, dtype=np.float64)
    n = checked.shape[0]
    if pay.shape != (n,):
        raise ValueError(f"rewards has shape {pay.shape}: give one r̄ for each of the {n} states")
    check_depletion(depletion)
    if isinstance(pay, jax.Array) and not is_traced(pay) and not isinstance(checked, jax.Array):
        pay = np.asarray(pay)
    if not is_traced(pay) and not np.isfinite(pay).all():
        state = int(np.argmin(np.isfinite(pay)))
        raise ValueError(f"rewards must be finite numbers, but that of state {state} is {pay[state]}")
    if steps is not None:
        return _evaluate_until(checked, pay, depletion, discount, steps)
    if isinstance(checked, jax.Array) or is_traced(pay, discount, *jax.tree_util.tree_leaves(depletion)):
        depletion = check_parameters(depletion, n)
        pay = ensure(pay, jnp.isfinite, "rewards must be finite numbers")
        return build(depletion, checked, discount, np.arange(n), method).values(pay)
    return _evaluate_in_parts(checked, np.asarray(pay), depletion, float(discount), method)


def _evaluate_until(
    kernel: Any, rewards: Any, depletion: Depletion, discount: Any, horizon: int
) -> Float[np.ndarray, " states"]:
    """Return V of the first `horizon` rewards. Sites that never wear off share one vector."""
    if is_traced(kernel, rewards, discount, *jax.tree_util.tree_leaves(depletion)):
        raise TypeError("values until a horizon are computed outside of JAX: call this without jit, grad or vmap")
    kernel, rewards, n = (
        np.asarray(kernel) if isinstance(kernel, jax.Array) else kernel,
        np.asarray(rewards),
        len(rewards),
    )
    check_parameters(depletion, n)
    constant = np.broadcast_to(_never_wears_off(depletion), (n,))
    values, lasting = np.zeros(n), np.where(constant, rewards, 0.0)
    for _ in range(horizon if lasting.any() else 0):
        values = lasting + float(discount) * (kernel @ values)
    sites = np.flatnonzero((rewards != 0) & ~constant)
    if len(sites) and horizon:
        phi = finite_representation(kernel, depletion.at_sites(sites), float(discount), sites, horizon)
        values = values + phi @ rewards[sites]
    return values


def _evaluate_in_parts(
    kernel: Any, rewards: Float[np.ndarray, " states"], depletion: Depletion, discount: float, method: str | Method
) -> Float[np.ndarray, " states"]:
    """Return V: one system gives the part of the sites that never wear off, and representations give the rest."""
    n = len(rewards)
    lam = depletion.common_ratio
    if discount < 1 and type(lam) is float and lam == 1:
        return solve(kernel, rewards, discount=discount, method=method).x
    check_parameters(depletion, n)
    constant = np.broadcast_to(_never_wears_off(depletion) if discount < 1 else np.False_, (n,))
    values = np.zeros(n)
    if np.any(rewards[constant]):
        values = solve(kernel, np.where(constant, rewards, 0.0), discount=discount, method=method).x
    every = np.flatnonzero((rewards != 0) & ~constant)
    width = int(min(max(memory_limit() / (8 * ARRAYS * n), 1), n)) if n * len(every) > SMALL**2 else n
    for sites in np.split(every, range(width, len(every), width)) if len(every) else ():
        remaining = build(depletion.at_sites(sites), kernel, discount, sites, method)
        values = values + np.asarray(remaining.values(rewards[sites]))
    return values


def _never_wears_off(depletion: Depletion) -> np.bool_ | Bool[np.ndarray, "..."]:
    """Return whether the reward never wears off: one answer, or one for each site."""
    return np.False_ if depletion.common_ratio is None else np.asarray(depletion.common_ratio) == 1


def check_depletion(depletion: object) -> Depletion:
    """Return the depletion. Raises a TypeError if it is not a `Depletion`."""
    if not isinstance(depletion, Depletion):
        raise _no_depletion(depletion)
    return depletion


def _no_depletion(given: object) -> TypeError:
    meant = ""
    if isinstance(given, int | float | np.number | np.ndarray | jax.Array | list | tuple):
        meant = f"did you mean wane.Geometric({given if is_traced(given) else np.asarray(given).tolist()})? Else "
    elif isinstance(given, type) and issubclass(given, Depletion):
        meant = f"did you mean wane.{given.__name__}(…), with its parameters? Else "
    return TypeError(f"{given!r} is not a Depletion: {meant}take one of wane.depletion, or subclass it (ten lines)")


def check_parameters(depletion: Any, n_sites: int) -> Any:
    """Return the depletion. Raises a ValueError unless every parameter is one number, or one for each site.

    Raises a TypeError for what is not a depletion. Parameters that JAX traces are checked at run time.
    """
    for leaf in check_depletion(depletion).per_site().values():
        if np.shape(leaf)[-1] not in (1, n_sites):
            raise ValueError(
                f"{type(depletion).__name__} has a parameter of shape {np.shape(leaf)} for {n_sites} sites: "
                "give one number, or one for each site (sites last)"
            )
    return depletion.checked()
