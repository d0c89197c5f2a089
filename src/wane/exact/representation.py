"""What a policy will have of every site: the common shape of all representations, and the one function that makes them.

Started in s, with the site s' in memory m, a kernel P collects from s'

    Φ(s, s'; m) = E[ Σₖ γᵏ worth(memory of s' at time k) 1(s_k = s') | s₀ = s ],        V(s) = Σ_s' r̄(s') Φ(s, s').

That is the paper's λ representation (definition 4.1) when the depletion is geometric and m says "never visited". How
Φ is computed depends on the depletion only: `wane.exact.occupancy` does the curves over visit counts in closed form,
`wane.exact.replenish` everything with a richer memory. Each registers itself with `build`, and so can you.

The state–action form is one backup of the state form, with the memory moved on by what happens in s:

    Φ(s, a, s'; m) = 1(s = s') (worth(m) + γ E Φ(s₁, s'; visit(m))) + 1(s ≠ s') γ E Φ(s₁, s'; wait(m)),   s₁ ~ p(·|s,
    a).
"""

import abc
from functools import singledispatch
from typing import Any

import equinox as eqx
import jax
import numpy as np

from wane.depletion import Depletion, FirstVisits, Geometric, Memory, is_traced, namespace
from wane.exact.solve import solve
from wane.mdp import MDP, check_discount, check_kernel, check_sites


class Representation(eqx.Module):
    """Φ of one kernel, for some sites. Make one with `wane.representation`."""

    kernel: Any
    depletion: Depletion
    discount: Any
    sites: np.ndarray
    residual: Any
    """relative residual of the linear systems behind Φ"""
    method: str = eqx.field(static=True)
    """how they were solved"""

    @abc.abstractmethod
    def at(self, memory: Memory) -> Any:
        """Φ with the sites in the given memory: an array (states, sites)."""

    @property
    def truncation(self) -> float:
        """A bound on what was left out of infinite sums, in units of r̄: zero for closed forms. Where a memory is a
        real number and interpolated, the part that comes from that is an estimate: the change under the last
        refinement."""
        return 0.0

    @property
    def matrix(self) -> Any:
        """Φ with no site visited yet: an array (states, sites)."""
        return self.at(self.fresh_memory)

    @property
    def fresh_memory(self) -> Memory:
        return self.depletion.initial((len(self.sites),))

    def values(self, rewards: Any, memory: Memory | None = None) -> Any:
        """V(s) for the first-visit rewards r̄ of the sites, with the sites in `memory` (default: never visited)."""
        return self.check_rewards(rewards) @ self.at(self.fresh_memory if memory is None else memory).T

    def action_matrix(self, mdp: MDP, memory: Memory | None = None) -> Any:
        """Φ(s, a, s'): an array (states, actions, sites)."""
        memory = self.fresh_memory if memory is None else memory
        waited, visited = self.at(self.depletion.wait(memory)), self.at(self.depletion.visit(memory))
        phi = self.discount * mdp.backup(waited)
        here = self.depletion.worth(memory) + self.discount * mdp.backup_at(self.sites, visited).T
        k = np.arange(len(self.sites))
        if isinstance(phi, jax.Array):
            return phi.at[self.sites, :, k].set(here.T)
        phi[self.sites, :, k] = here.T
        return phi

    def q_values(self, mdp: MDP, rewards: Any, memory: Memory | None = None) -> Any:
        """Q(s, a) of taking `a` once and following the kernel's policy afterwards: an array (states, actions)."""
        memory = self.fresh_memory if memory is None else memory
        rewards = self.check_rewards(rewards)
        if rewards.ndim != 1:
            raise ValueError(f"q_values takes one reward vector, got shape {rewards.shape}: use jax.vmap for a batch")
        waited, visited = self.at(self.depletion.wait(memory)), self.at(self.depletion.visit(memory))
        q = self.discount * mdp.backup(waited @ rewards)
        now = self.depletion.worth(memory) * rewards
        more = now[:, None] + self.discount * rewards[:, None] * mdp.backup_at(self.sites, visited - waited)
        if isinstance(q, jax.Array):
            return q.at[self.sites].add(more)
        q[self.sites] += more
        return q

    def with_depletion(self, depletion: Depletion) -> "Representation":
        """The representation under another depletion; between curves over visit counts this solves nothing."""
        if self.kernel is None:
            raise ValueError(
                f"{type(depletion).__name__} needs the kernel, which a given λR does not tell: call wane.representation"
            )
        check_parameters(depletion, len(self.sites))
        return build(depletion, self.kernel, self.discount, self.sites, "auto")

    def check_rewards(self, rewards: Any) -> Any:
        xp = namespace(rewards, self.discount, self.kernel)
        rewards = xp.asarray(rewards, dtype=float)
        if rewards.shape[-1:] != (len(self.sites),):
            raise ValueError(
                f"rewards has shape {rewards.shape}, but there are {len(self.sites)} sites: give one r̄ for each site, "
                "in the order of `sites`"
            )
        if not is_traced(rewards) and not np.all(np.isfinite(rewards)):
            raise ValueError("rewards must be finite numbers")
        return rewards


@singledispatch
def build(depletion: Any, kernel: Any, discount: Any, sites: np.ndarray, method: Any) -> Representation:
    """Makes the representation for one kind of depletion; arguments are checked already. Extend it with
    `build.register`.
    """
    raise TypeError(f"{depletion!r} is no Depletion: take one of wane.depletion, or subclass it (ten lines)")


def representation(
    kernel: Any, depletion: Depletion, *, discount: Any, sites: Any = None, method: Any = "auto"
) -> Representation:
    """The exact representation of a kernel under a depletion.

    `kernel` is what `MDP.under` returns, or any stochastic matrix: NumPy, SciPy sparse, or JAX (then the answer is
    JAX, and differentiable in everything). `sites` are the states that can pay (default: all); only their columns are
    solved for. `method` is handed to `wane.exact.solve.solve`.

        >>> phi = representation(np.array([[0.5, 0.5], [0.0, 1.0]]), Geometric(0.5), discount=0.9)
        >>> phi.matrix.round(4)
        array([[1.2903, 1.4876],
               [0.    , 1.8182]])
        >>> phi.values([1.0, 0.0]).round(4)
        array([1.2903, 0.    ])
        >>> phi.with_depletion(Geometric(1.0)).matrix.round(4)      # the SR; nothing is solved anew
        array([[ 1.8182,  8.1818],
               [ 0.    , 10.    ]])
    """
    kernel, discount = check_kernel(kernel), check_discount(discount)
    sites = check_sites(sites, kernel.shape[0])
    if len(sites) == 0:
        raise ValueError("sites is empty: name at least one state that can pay")
    check_parameters(depletion, len(sites))
    return build(depletion, _own(kernel), discount, sites, method)


def _own(kernel: Any) -> Any:
    """A kernel that the caller cannot change later."""
    return kernel if isinstance(kernel, jax.Array) else kernel.copy()


def lambda_representation(kernel: Any, lam: Any, *, discount: Any, sites: Any = None) -> Representation:
    """The paper's λR: every visit leaves the fraction λ, one number or one for each site."""
    return representation(kernel, Geometric(lam), discount=discount, sites=sites)


def successor_representation(kernel: Any, *, discount: Any, sites: Any = None) -> Representation:
    """The SR, λ = 1: rewards never wear off."""
    return lambda_representation(kernel, 1.0, discount=discount, sites=sites)


def first_occupancy_representation(kernel: Any, *, discount: Any, sites: Any = None) -> Representation:
    """The FR, λ = 0: the first visit takes all."""
    return lambda_representation(kernel, 0.0, discount=discount, sites=sites)


def n_occupancy_representation(kernel: Any, n: Any, *, discount: Any, sites: Any = None) -> Representation:
    """The paper's NR (its appendix C): the first n visits pay in full."""
    return representation(kernel, FirstVisits(n), discount=discount, sites=sites)


def evaluate(kernel: Any, rewards: Any, depletion: Depletion, *, discount: Any, method: Any = "auto") -> Any:
    """V of a kernel for one reward vector r̄ over all states, solving for no more than it needs.

    States that pay nothing are no sites, and all sites that never wear off (λ = 1) share one right-hand side.
    """
    kernel, discount = check_kernel(kernel), check_discount(discount)
    rewards = rewards if isinstance(rewards, jax.Array) else np.asarray(rewards, dtype=np.float64)
    n = kernel.shape[0]
    if rewards.shape != (n,):
        raise ValueError(f"rewards has shape {rewards.shape}: give one r̄ for each of the {n} states")
    lam = depletion.lam if isinstance(depletion, Geometric) else None
    if type(lam) is float and lam == 1 and type(discount) is float and discount < 1 and _plain(kernel, rewards):
        return solve(kernel, rewards, discount=discount, method=method).x
    if not isinstance(depletion, Depletion):
        raise TypeError(f"{depletion!r} is no Depletion: take one of wane.depletion, or subclass it (ten lines)")
    if isinstance(rewards, jax.Array) and not is_traced(rewards) and not isinstance(kernel, jax.Array):
        rewards = np.asarray(rewards)
    traced = is_traced(rewards, discount, *jax.tree_util.tree_leaves(depletion))
    if not traced:
        _check_finite(rewards)
    if isinstance(kernel, jax.Array) or traced:
        check_parameters(depletion, n)
        return build(depletion, kernel, discount, np.arange(n), method).values(rewards)
    stays = _never_wears_off(depletion) if discount < 1 else False
    check_parameters(depletion, n)
    constant = np.broadcast_to(stays, (n,))
    values = np.zeros(n)
    if np.any(rewards[constant]):
        values = solve(kernel, np.where(constant, rewards, 0.0), discount=discount, method=method).x
    sites = np.flatnonzero((rewards != 0) & ~constant)
    if len(sites):
        values = values + build(depletion.at_sites(sites), kernel, discount, sites, method).values(rewards[sites])
    return values


def _plain(kernel: Any, rewards: Any) -> bool:
    """Whether nothing here is JAX's; rewards are checked on the way, at a price that a small system does not notice."""
    if isinstance(rewards, jax.Array) or isinstance(kernel, jax.Array):
        return False
    if not np.isfinite(rewards.dot(rewards)):
        _check_finite(rewards)
    return True


def _check_finite(rewards: Any) -> None:
    if not np.isfinite(rewards).all():
        state = int(np.argmin(np.isfinite(rewards)))
        raise ValueError(f"rewards must be finite numbers, that of state {state} is {rewards[state]}")


def _never_wears_off(depletion: Depletion) -> Any:
    """True or False, or an array of them for a λ at each site."""
    if not isinstance(depletion, Geometric):
        return False
    lam = depletion.lam
    return bool(lam == 1) if type(lam) is float or np.ndim(lam) == 0 else np.asarray(lam) == 1


def check_parameters(depletion: Any, n_sites: int) -> None:
    """A parameter is one number, or its last axis runs over the sites."""
    for leaf in depletion.per_site().values() if isinstance(depletion, Depletion) else ():
        if np.shape(leaf)[-1] not in (1, n_sites):
            raise ValueError(
                f"{type(depletion).__name__} has a parameter of shape {np.shape(leaf)} for {n_sites} sites: "
                "give one number, or one for each site (sites last)"
            )
