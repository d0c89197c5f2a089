"""Policies that are the softmax of their own Q, with the exact Φ: λO-FB would use these had it learned Φ exactly.

Q = Φ_λ^π r,    π(·|s) = softmax(Q(s, ·) / τ)

The iteration for the fixed point starts from the uniform policy. Sharp policies may cycle, as policy iteration on Q_λ
can. The fixed point is no optimum, so `wane.optimum` does not give it; and `wane.agents.lambda_operator` stops the
iteration after a few sweeps, with a τ that is relative to the values.
"""

import numpy as np
from jaxtyping import Float
from scipy.special import softmax

from wane.exact.representations import lambda_representation
from wane.worlds.world import World

MOST_SWEEPS = 500
SETTLED = 1e-12
"""A policy counts as consistent with its values if no probability changes by more than this."""
TIE = 1e-9
"""Values that differ by less than this fraction count as equal."""


def soft_q_values(
    world: World, rewards: Float[np.ndarray, " states"], lam: float, discount: float, temperature: float
) -> Float[np.ndarray, "states actions"]:
    """Returns Q_λ of the policy that is the softmax of its own Q_λ, for given rewards of all states.

    If the iteration does not settle, this is Q_λ of the last policy.
    """
    chances = np.full((world.n_states, world.n_actions), 1 / world.n_actions)
    q = np.zeros_like(chances)
    for _ in range(MOST_SWEEPS):
        phi = lambda_representation(world.mdp.under(chances), lam, discount=discount)
        q = np.asarray(phi.q_values(world.mdp, rewards))
        before, chances = chances, softmax(q / temperature, axis=1)
        if np.abs(chances - before).max() <= SETTLED:
            break
    return q


def rewards_of_states(world: World) -> Float[np.ndarray, " states"]:
    """Returns r̄ of every state, which is 0 where there is no site."""
    rewards = np.zeros(world.n_states)
    rewards[world.sites] = np.asarray(world.rewards)
    return rewards


def first_best(q: Float[np.ndarray, " actions"]) -> int:
    """Returns the first of the best actions. Rounding must not decide between actions of equal worth."""
    return int((q >= q.max() - TIE * np.abs(q).max()).argmax())
