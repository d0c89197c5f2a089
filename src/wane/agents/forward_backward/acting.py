"""Acting with the networks of λO-FB, under the λ they were trained for or under any other.

The plain policy takes argmax_a F(s, a, z_R)ᵀ z_R, with z_R made anew at every step from what remains of the rewards.
The paper's model is trained for one λ. There are two ways to act under another one, both beyond the paper.

A **conditioned** model has λ as an input, F(s, a, z, λ), and meets another λ with every sample of its training
(`Config(condition="uniform")` for one λ in all states, "per state" for one in each):

    Φ_λ^{π_z,λ}(s, a, s') ≈ F(s, a, z, λ)ᵀ B(s') μ(s')

An **ordinary** model is trained once, with λ = 1. For a fixed policy the λR is the SR with its columns rescaled, so
diminishing rewards r are worth what the stationary rewards r̃ = r / c are, with c = λ + (1 − λ) d, where
d(s') = M(s', s') is the diagonal of the SR (`wane.equivalent_rewards`). The model knows d:

    d(s') = Σ_a π_z(a|s') F(s', a, z)ᵀ B(s') μ(s')

For V that is all. For Q it is not, in the state where the agent is: how a first action changes the return to s is not
told by the policy's d(s). From the state–action form of the λR,

    Q_λ(s, a) = Σ_s' M(s, a, s') r̃(s') + (1 − λ(s)) r̃(s) (d(s) − M(s, a, s))

The second part lowers the value of actions that come back to s sooner than the policy does, staying above all;
`own=False` leaves it out. What either way can gain is bounded: with the exact Φ and rewards that are looked up at every
step, an agent that believes in λ = 1 loses next to nothing on the paper's task, so there a learned Φ is as good as it
is accurate.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from wane.agents.common.policy import Policy, no_draws
from wane.agents.forward_backward.config import Config
from wane.agents.forward_backward.networks import Params, all_features, q_values, reward_vector, softmax_policy
from wane.agents.forward_backward.tasks import all_rewards
from wane.depletion import Geometric
from wane.exact.occupancy import equivalent_rewards
from wane.types import Integer, Tree
from wane.worlds.observe import Seen
from wane.worlds.world import World

OBSERVATION = "index+remaining"
Choose = Callable[[Any, Any, Any], Int[Array, ""]]
"""(params, state, what remains of the reward of every state) → action"""


def acting_on(choose: Choose, params: Any, world: World) -> Policy:
    """The policy that chooses by what remains of the reward of every state."""
    return Policy(partial(_act, choose, world), params, draw=no_draws, observation=OBSERVATION)


def _act(
    choose: Choose, world: World, params: Any, carry: Tree, observation: Seen, key: None
) -> tuple[Int[Array, ""], Tree, None]:
    return choose(params, observation.view, all_rewards(world, observation.remaining)), carry, None


def policy(params: Params, world: World, config: Config | None = None) -> Policy:
    """The paper's policy, for the λ that the model was trained for."""
    return acting_on(_choose, (params, params.backward(), None), world)


def _choose(params: Any, cell: Integer, rewards: Float[Array, " states"]) -> Int[Array, ""]:
    networks, table, lam = params
    return jnp.argmax(q_values(networks, cell, reward_vector(table, rewards), lam)).astype(jnp.int32)


def conditioned_policy(params: Params, world: World, config: Config, lam: Any) -> Policy:
    """The policy that gives λ to a conditioned model: one number, or one for each state if it was trained so."""
    return acting_on(_choose, (params, params.backward(), lam_inputs(lam, world.n_states, config)), world)


def lam_inputs(lam: Any, n_states: int, config: Config) -> Float[Array, " lams"]:
    """λ in the form that F takes. Raises ValueError if the model was not trained for that form."""
    lam = jnp.asarray(lam, float)
    if config.condition == "per state":
        return jnp.broadcast_to(lam, (n_states,))
    if config.condition == "uniform" and lam.ndim == 0:
        return lam[None]
    raise ValueError(
        f"a model with condition={config.condition!r} takes no λ of shape {lam.shape}: train with "
        'condition="uniform" for one λ in all states, with "per state" for one in each'
    )


def equivalent_policy(params: Params, world: World, config: Config, lam: Any, own: bool = True) -> Policy:
    """The policy that acts on Q_λ of π_z, z = z_R, with a model that was trained for λ = 1."""
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
