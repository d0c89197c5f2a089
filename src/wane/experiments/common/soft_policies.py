"""Policies that are the softmax of their own Q, with the exact Φ: λO-FB would use these had it learned Φ exactly.

Q = Φ_λ^π r,    π(·|s) = softmax(Q(s, ·) / τ)

The iteration for the fixed point starts from the uniform policy. Sharp policies may cycle, as policy iteration on Q_λ
can. `wane.agents.lambda_operator` stops this iteration after a few sweeps, and its τ is relative to the values.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int

MOST_SWEEPS = 500
SETTLED = 1e-12
"""A policy counts as consistent with its values if no probability changes by more than this."""

Tables = Float[np.ndarray, "cases states actions"]
Evaluate = Callable[[Tables, Int[np.ndarray, " cases"]], Tables]
"""Takes the policies (probabilities) of some cases and the numbers of these cases; returns Q of these policies."""


def settle(
    evaluate: Evaluate,
    shape: tuple[int, int],
    temperatures: Float[np.ndarray, " cases"],
    sweeps: int = MOST_SWEEPS,
    tolerance: float = SETTLED,
) -> tuple[Tables, Bool[np.ndarray, " cases"]]:
    """Returns Q of policies that are the softmax of their own Q, one for each temperature, and whether each settled.

    `shape` is the number of states and of actions. A case that has settled is not evaluated again. A case that has not
    settled after `sweeps` sweeps keeps the Q of the last policy that was evaluated.
    """
    chances = np.full((len(temperatures), *shape), 1 / shape[1])
    q, open_cases = np.zeros_like(chances), np.arange(len(temperatures))
    for _ in range(sweeps):
        q[open_cases] = evaluate(chances[open_cases], open_cases)
        new = _softmax(q[open_cases], temperatures[open_cases, None, None])
        change = np.abs(new - chances[open_cases]).max((1, 2))
        chances[open_cases] = new
        open_cases = open_cases[change > tolerance]
        if not len(open_cases):
            break
    return q, ~np.isin(np.arange(len(temperatures)), open_cases)


def _softmax(values: Tables, temperatures: Float[np.ndarray, "cases 1 1"]) -> Tables:
    with np.errstate(over="ignore"):  # With a tiny temperature a difference may become −∞; its exponential is then 0.
        powers = np.exp((values - values.max(-1, keepdims=True)) / temperatures)
    return powers / powers.sum(-1, keepdims=True)


def soft_q_values(
    transitions: Float[np.ndarray, "actions states states"],
    rewards: Float[np.ndarray, " states"],
    lam: float | Float[np.ndarray, " states"],
    discount: float,
    temperature: float,
    sweeps: int = MOST_SWEEPS,
) -> Float[np.ndarray, "states actions"]:
    """Returns Q_λ of the policy that is the softmax of its own Q_λ, for given rewards of all states.

    `lam` is one number, or one for each state. If the iteration does not settle, this is Q_λ of the last policy.
    """
    actions, n, _ = transitions.shape
    own = np.arange(n)

    def evaluate(chances: Tables, _: Int[np.ndarray, " cases"]) -> Tables:
        successor = np.linalg.inv(np.eye(n) - discount * np.einsum("sa,ast->st", chances[0], transitions))
        phi_next = transitions @ (successor / (lam + (1 - lam) * np.diag(successor)))
        # A state's own reward pays in full now, and λ times as much on every return.
        return (discount * phi_next @ rewards + rewards * (1 - (1 - lam) * discount * phi_next[:, own, own])).T[None]

    return settle(evaluate, (n, actions), np.array([temperature]), sweeps)[0][0]
