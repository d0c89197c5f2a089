"""What a policy is worth in a world, exactly, and the best one: the mean return of the episodes that are played.

Let V_H(s) be what the sites pay at the times 0 to H − 1 to an agent that begins in s (H may be infinite), and C_H(s)
what bumping into walls costs in H steps. Then

    departure:  V(s) = V_H(s) − C_H(s),        arrival:  V(s) = γ (E V_H(s₁) − C_H(s)),        s₁ ~ P(·|s),

because a world that pays on arrival does not pay its start, and discounts its first reward once.
"""

from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from wane.depletion import Depletion, Diminishing, Geometric
from wane.exact.finite import ACCEPTED_ERROR, finite_patches, finite_representation
from wane.exact.patches import patch_representation
from wane.exact.planning import Optimum, optimum
from wane.exact.representations import Representation, evaluate, representation
from wane.exact.system import InaccurateSolve
from wane.mdp import check_policy, kept_sites, probabilities
from wane.worlds.process import Solvable, single_states


def values(world: Solvable, policy: Any) -> Float[np.ndarray, " states"]:
    """Returns V(s)."""
    kernel: Any = world.mdp.under(policy)
    paid, costs = _paid(world, kernel, world.horizon), _costs(world, kernel, policy, world.horizon)
    if world.timing == "arrival":
        return world.discount * ((kernel @ paid) - costs)
    return paid - costs


def q_values(world: Solvable, policy: Any) -> Float[np.ndarray, "states actions"]:
    """Returns Q(s, a): one step of the definition of V, in which the action is free."""
    kernel: Any = world.mdp.under(policy)
    later = None if world.horizon is None else world.horizon - 1
    costs = world.action_costs + world.discount * world.mdp.backup(_costs(world, kernel, policy, later))
    if world.timing == "arrival":
        paid = world.mdp.backup(_paid(world, kernel, world.horizon))
        return np.asarray(world.discount * (paid - costs))
    return np.asarray(_departing(world, kernel, later) - costs)


def best(world: Solvable, believed: Depletion | None, *, tolerance: float, grid: int | None) -> Optimum:
    """Returns the best that any policy can earn, in a world that depletes as it does or as is `believed`."""
    costs = np.asarray(world.action_costs)
    return optimum(
        world.mdp,
        world.rewards,
        world.depletion if believed is None else believed,
        discount=world.discount,
        sites=kept_sites(world.patches) if world.n_sites else [],
        horizon=world.horizon,
        timing=world.timing,
        action_rewards=-costs if costs.any() else None,
        tolerance=tolerance,
        grid=grid,
    )


def _endless_phi(world: Solvable, kernel: Any) -> Representation:
    sites = single_states(world, "this")
    return representation(kernel, world.depletion, discount=world.discount, sites=sites)


def _has_patches(world: Solvable) -> bool:
    return any(len(states) > 1 for states in world.patches)


def _paid(world: Solvable, kernel: Any, horizon: int | None) -> Float[np.ndarray, " states"]:
    """Returns V_H(s)."""
    if world.n_sites == 0:
        return np.zeros(world.n_states)
    if horizon is None and not _has_patches(world):
        return np.asarray(_endless_phi(world, kernel).values(world.rewards))
    return _phi(world, kernel, horizon, "fresh") @ np.asarray(world.rewards, float)


def _costs(world: Solvable, kernel: Any, policy: Any, horizon: int | None) -> Float[np.ndarray, " states"]:
    """Returns C_H(s)."""
    if not np.any(world.action_costs):
        return np.zeros(world.n_states)
    policy = check_policy(policy, world.n_states, world.n_actions)
    now = (probabilities(policy, world.n_actions) * world.action_costs).sum(1)
    return np.asarray(evaluate(kernel, now, Geometric(1.0), discount=world.discount, horizon=horizon))


def _departing(world: Solvable, kernel: Any, horizon: int | None) -> Float[np.ndarray, "states actions"]:
    """Returns what the sites pay if the state that is left pays now, and `horizon` more rewards follow.

    The site that is left has been visited afterwards, and all others have waited.
    """
    if world.n_sites == 0:
        return np.zeros((world.n_states, world.n_actions))
    if horizon is None and not _has_patches(world):
        return np.asarray(_endless_phi(world, kernel).q_values(world.mdp, world.rewards))
    gamma, rewards = float(world.discount), np.asarray(world.rewards, float)
    waited, visited = (_phi(world, kernel, horizon, after) for after in ("wait", "visit"))
    q = gamma * np.asarray(world.mdp.backup(waited @ rewards))
    fresh = np.broadcast_to(world.depletion.worth(world.depletion.initial((world.n_sites,))), world.n_sites)
    for i, states in enumerate(world.patches):
        change = gamma * np.asarray(world.mdp.backup(visited[:, i] - waited[:, i]))
        q[states] += rewards[i] * (fresh[i] + change[states])
    return q


def _phi(
    world: Solvable, kernel: Any, horizon: int | None, after: Literal["fresh", "visit", "wait"]
) -> Float[np.ndarray, "states sites"]:
    """Returns Φ_H of fresh sites, or of sites one step after a visit or elsewhere."""
    depletion, gamma = world.depletion, float(world.discount)
    if horizon is not None and _has_patches(world):
        return finite_patches(kernel, world.patches, depletion, gamma, horizon, after)
    if horizon is not None:
        fresh = depletion.initial((world.n_sites,))
        memory = {"fresh": None, "visit": depletion.visit(fresh), "wait": depletion.wait(fresh)}[after]
        return finite_representation(kernel, depletion, gamma, single_states(world, "this"), horizon, memory)
    if after == "visit" and isinstance(depletion, Diminishing):
        depletion = _Later(depletion)
    elif after != "fresh" and not isinstance(depletion, Diminishing):
        raise ValueError(
            f"what {depletion!r} pays on departure from a site of several states is not known without an end: give a "
            'horizon, or take timing="arrival"'
        )
    found = patch_representation(kernel, world.patches, depletion, discount=gamma)
    if found.truncation > ACCEPTED_ERROR:
        accuracy = f"what {depletion!r} pays at sites of several states is known to {found.truncation:.1e} only"
        raise InaccurateSolve(f"{accuracy}: give a horizon, or call wane.patch_representation with a larger grid")
    return found.matrix


class _Later(Diminishing):
    """A curve from its second visit on."""

    curve: Any

    def worth(self, memory: Any) -> Any:
        return self.curve.worth(memory + 1)

    @property
    def bound(self) -> float:
        return self.curve.bound

    def at_sites(self, index: Any) -> "_Later":
        return _Later(self.curve.at_sites(index))
