"""Acting with the networks of λO-FB, under the λ they were trained for or under any other.

The plain policy takes argmax_a F(s, a, z_R)ᵀ z_R, with z_R computed at every step from what remains of the rewards.
The paper's model is trained for one λ. There are two ways to act under another one, both beyond the paper.

A **conditioned** model has λ as an input, F(s, a, z, λ), and every sample of its training has another λ
(`Config(condition="uniform")` for one λ in all states, "per state" for one in each):

    Φ_λ^{π_z,λ}(s, a, s') ≈ F(s, a, z, λ)ᵀ B(s') μ(s')

An **ordinary** model is trained once, with λ = 1. For a fixed policy the λR is the SR with its columns rescaled, so
diminishing rewards r have the same value as the stationary rewards r̃ = r / c, with c = λ + (1 − λ) d, where
d(s') = M(s', s') is the diagonal of the SR (`wane.equivalent_rewards`). The model gives d:

    d(s') = Σ_a π_z(a|s') F(s', a, z)ᵀ B(s') μ(s')

This suffices for V. Q needs one more term, in the present state s: the policy's d(s) does not say how a first action
changes the return to s. From the λR of states and actions,

    Q_λ(s, a) = Σ_s' M(s, a, s') r̃(s') + (1 − λ(s)) r̃(s) (d(s) − M(s, a, s))

The second term lowers the value of actions that come back to s sooner than the policy does, above all that of staying;
`own=False` leaves it out. The gain of both ways is limited: on the paper's task, an agent with the exact Φ of λ = 1
that looks up the rewards at every step loses almost nothing. There only the accuracy of a learned Φ matters.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from wane.agents.common.policy import Policy, no_draws
from wane.agents.forward_backward.model import (
    Config,
    Params,
    all_features,
    q_values,
    reward_vector,
    softmax_policy,
)
from wane.agents.forward_backward.tasks import all_rewards
from wane.depletion import Geometric
from wane.exact.occupancy import equivalent_rewards
from wane.types import Integer, Tree
from wane.worlds.observe import Seen
from wane.worlds.process import Tabular

OBSERVATION = "index+remaining"
Choose = Callable[[Any, Any, Any], Int[Array, ""]]
"""(params, state, what remains of the reward of every state) → action"""


def acting_on(choose: Choose, params: Any, world: Tabular) -> Policy:
    """Returns the policy that chooses its actions by what remains of the reward of every state."""
    return Policy(partial(_act, choose, world), params, draw=no_draws, observation=OBSERVATION)


def _act(
    choose: Choose, world: Tabular, params: Any, carry: Tree, observation: Seen, key: None
) -> tuple[Int[Array, ""], Tree, None]:
    return choose(params, observation.view, all_rewards(world, observation.remaining)), carry, None


def policy(params: Params, world: Tabular, config: Config | None = None) -> Policy:
    """Returns the paper's policy, for the λ that the model was trained for."""
    return acting_on(_choose, (params, params.backward(), None), world)


def _choose(params: Any, cell: Integer, rewards: Float[Array, " states"]) -> Int[Array, ""]:
    networks, table, lam = params
    return jnp.argmax(q_values(networks, cell, reward_vector(table, rewards), lam)).astype(jnp.int32)


def conditioned_policy(params: Params, world: Tabular, config: Config, lam: Any) -> Policy:
    """Returns the policy that gives λ to a conditioned model: one number, or one for each state if trained for that.

    Raises ValueError if the model was not trained for such a λ.
    """
    return acting_on(_choose, (params, params.backward(), lam_inputs(lam, world.n_states, config)), world)


def lam_inputs(lam: Any, n_states: int, config: Config) -> Float[Array, " lams"]:
    """λ as F takes it. Raises ValueError if the model was not trained for such a λ."""
    lam = jnp.asarray(lam, float)
    if config.condition == "per state":
        return jnp.broadcast_to(lam, (n_states,))
    if config.condition == "uniform" and lam.ndim == 0:
        return lam[None]
    raise ValueError(
        f"a model with condition={config.condition!r} takes no λ of shape {lam.shape}: train with "
        'condition="uniform" for one λ in all states, with "per state" for one in each'
    )


def equivalent_policy(params: Params, world: Tabular, config: Config, lam: Any, own: bool = True) -> Policy:
    """Returns the policy that acts on the Q_λ of π_z, z = z_R, with a model that was trained for λ = 1.

    Raises ValueError if the model has λ as an input.
    """
    if config.condition != "nothing":
        raise ValueError("equivalent rewards are for a model without λ as an input: use conditioned_policy")
    return acting_on(partial(_choose_equivalent, config, lam, own), (params, params.backward()), world)


def _choose_equivalent(
    config: Config, lam: Any, own: bool, params: Any, cell: Integer, rewards: Float[Array, " states"]
) -> Int[Array, ""]:
    networks, table = params
    z = reward_vector(table, rewards)
    features = all_features(networks, z)
    returning = jnp.einsum("sad,sd->sa", features, table) / len(table)
    chances = softmax_policy(features, z, config.temperature)
    successor = features[cell] @ table.T / len(table)
    q = lambda_q_values(successor, (chances * returning).sum(-1), cell, rewards, lam, own)
    return jnp.argmax(q).astype(jnp.int32)


def lambda_q_values(
    successor: Float[Array, "actions states"],
    diagonal: Float[Array, " states"],
    cell: Integer,
    rewards: Float[Array, " states"],
    lam: Any,
    own: bool = True,
) -> Float[Array, " actions"]:
    """Q_λ(s, ·) of a policy from its SR: M(s, a, s') for the present s, and d(s'), which is at least 1."""
    lam = jnp.broadcast_to(jnp.asarray(lam, successor.dtype), rewards.shape)
    diagonal = jnp.maximum(diagonal, 1)
    worth = equivalent_rewards(rewards, Geometric(lam), diagonal)
    q = successor @ worth
    return q + (1 - lam[cell]) * worth[cell] * (diagonal[cell] - successor[:, cell]) if own else q
