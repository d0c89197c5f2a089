"""Policies that are the softmax of their own Q_λ, with the exact Φ: what λO-FB would act by had it learned Φ exactly.

Q = Φ_λ^π r,    π(·|s) = softmax(Q(s, ·) / τ)
"""

import numpy as np
from jaxtyping import Float
from scipy.special import softmax

MOST_SWEEPS = 500


def soft_q_values(
    transitions: Float[np.ndarray, "actions states states"],
    rewards: Float[np.ndarray, " states"],
    lam: float | Float[np.ndarray, " states"],
    discount: float,
    temperature: float,
    sweeps: int = MOST_SWEEPS,
) -> Float[np.ndarray, "states actions"]:
    """Q of the policy that is the softmax of its own Q, on given rewards of all states.

    `lam` is one number, or one for each state. The fixed point is iterated from the uniform policy until no probability
    changes by more than 1e-12, or for so many sweeps. Sharp policies may go round in a circle, like policy iteration on
    Q_λ does; then the last one is taken.
    """
    actions, n, _ = transitions.shape
    own, chances = np.arange(n), np.full((n, actions), 1 / actions)
    q = np.zeros((n, actions))
    for _ in range(sweeps):
        successor = np.linalg.inv(np.eye(n) - discount * np.einsum("sa,ast->st", chances, transitions))
        phi_next = transitions @ (successor / (lam + (1 - lam) * np.diag(successor)))
        # A state's own reward pays in full now, and λ times as much on every return.
        q = (discount * phi_next @ rewards + rewards * (1 - (1 - lam) * discount * phi_next[:, own, own])).T
        before, chances = chances, softmax(q / temperature, axis=1)
        if np.abs(chances - before).max() < 1e-12:
            break
    return q
