"""Acting under any λ, also one that was never trained for. Beyond the paper, whose model is trained for one λ.

Two ways. A **conditioned** model has λ as an input, F(s, a, z, λ), and meets another λ with every sample of its
training (`Config(condition="uniform")` for one λ in all states, "per state" for one in each):

    Φ_λ^{π_z,λ}(s, a, s') ≈ F(s, a, z, λ)ᵀ B(s') μ(s').

An **ordinary** model is trained once, with λ = 1. For a fixed policy the λR is the SR with its columns rescaled, so
diminishing rewards r are worth what the stationary r̃ = r / c are, c = λ + (1 − λ) d, where d(s') = M(s', s') is the
diagonal of the SR (`wane.equivalent_rewards`). The model knows it: d(s') = Σ_a π_z(a|s') F(s', a, z)ᵀ B(s') μ(s').
For V that is all there is to it. For Q it is not, in the state that the agent is in: what a first action does to the
return to s is no matter of the policy's d(s). From the state–action form of the λR,

    Q_λ(s, a) = Σ_s' M(s, a, s') r̃(s')  +  (1 − λ(s)) r̃(s) (d(s) − M(s, a, s)).

The second part is against actions that come back to s sooner than the policy does, staying above all; `own=False`
leaves it out. What either way can gain is bounded: with exact Φ and rewards refreshed at every step, an agent that
believes in λ = 1 loses next to nothing on the paper's task, so there a learned Φ is as good as it is accurate.
"""

from typing import Any

import jax
import jax.numpy as jnp

from wane.agents.fb_model import Params, act, backward, everywhere, policy, reward_vector
from wane.agents.forward_backward import Config
from wane.agents.goals import Choose
from wane.depletion import Geometric
from wane.exact.occupancy import equivalent_rewards


def trained(params: Params) -> Choose:
    """An agent that acts as in the paper, under the λ that it was trained for."""
    table = backward(params.backward)
    return lambda cell, rewards: act(params, cell, rewards, table)


def conditioned(params: Params, lam: Any, config: Config) -> Choose:
    """An agent that gives λ to a conditioned model: one number, or one for each state if it was trained so."""
    table = backward(params.backward)
    inputs = lam_inputs(lam, len(table), config)
    return lambda cell, rewards: act(params, cell, rewards, table, inputs)


def lam_inputs(lam: Any, n_states: int, config: Config) -> jax.Array:
    """λ as F takes it."""
    lam = jnp.asarray(lam, float)
    if config.condition == "per state":
        return jnp.broadcast_to(lam, (n_states,))
    if config.condition == "uniform" and lam.ndim == 0:
        return lam[None]
    raise ValueError(
        f"a model with condition={config.condition!r} takes no λ of shape {lam.shape}: train with "
        'condition="uniform" for one λ in all states, with "per state" for one in each'
    )


def equivalent(params: Params, lam: Any, config: Config, own: bool = True) -> Choose:
    """An agent that acts on Q_λ of π_z, z = z_R, from a model that was trained with λ = 1."""
    if config.condition != "nothing":
        raise ValueError("the equivalent rewards are for a model without λ as an input: use `conditioned`")
    table = backward(params.backward)

    def choose(cell, rewards):
        z = reward_vector(table, rewards)
        features = everywhere(params, z)
        returning = jnp.einsum("sad,sd->sa", features, table) / len(table)
        chances = policy(features, z, config.temperature)
        successor = features[cell] @ table.T / len(table)
        q = lambda_q_values(successor, (chances * returning).sum(-1), cell, rewards, lam, own)
        return jnp.argmax(q).astype(jnp.int32)

    return choose


def lambda_q_values(successor: Any, diagonal: Any, cell: Any, rewards: Any, lam: Any, own: bool = True) -> jax.Array:
    """Q_λ(s, ·) of a policy from its SR: M(s, a, s') for the present s, and d(s'), which is at least 1."""
    lam = jnp.broadcast_to(jnp.asarray(lam, successor.dtype), rewards.shape)
    diagonal = jnp.maximum(diagonal, 1)
    worth = equivalent_rewards(rewards, Geometric(lam), diagonal)
    q = successor @ worth
    return q + (1 - lam[cell]) * worth[cell] * (diagonal[cell] - successor[:, cell]) if own else q
