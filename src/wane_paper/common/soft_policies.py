"""Policies that are the softmax of their own Q, with the exact Φ: λO-FB would use these had it learned Φ exactly.

Q = Φ_λ^π r,    π(·|s) = softmax(Q(s, ·) / τ)

The iteration for the fixed point starts from the uniform policy. Sharp policies may cycle, as policy iteration on Q_λ
can. `wane.agents.lambda_operator` stops this iteration after a few sweeps, and its τ is relative to the values.
"""

import numpy as np
from jaxtyping import Float
from scipy.special import softmax

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
    n, own = world.n_states, np.arange(world.n_states)
    transitions = np.stack([world.mdp.action(a).toarray() for a in range(world.n_actions)])
    chances, q = np.full((n, world.n_actions), 1 / world.n_actions), np.zeros((n, world.n_actions))
    for _ in range(MOST_SWEEPS):
        successor = np.linalg.inv(np.eye(n) - discount * np.einsum("sa,ast->st", chances, transitions))
        phi_next = transitions @ (successor / (lam + (1 - lam) * np.diag(successor)))
        # A state's own reward pays in full now, and λ times as much on every return.
        q = (discount * phi_next @ rewards + rewards * (1 - (1 - lam) * discount * phi_next[:, own, own])).T
        before, chances = chances, softmax(q / temperature, axis=1)
        if np.abs(chances - before).max() <= SETTLED:
            break
    return q


def first_best(q: Float[np.ndarray, " actions"]) -> int:
    """Returns the first of the best actions. Rounding must not decide between actions of equal worth."""
    return int((q >= q.max() - TIE * np.abs(q).max()).argmax())
