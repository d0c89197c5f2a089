"""The network of the learned λ operator, and the policy and the Φ of some rewards.

Φ⁰ is the λR of the random walk, which is known exactly. It defines a policy for rewards r. The network f gives its λR:

    π_r(·|s) = softmax(Q⁰_r(s, ·) / (τ max |Q⁰_r|)),   Q⁰_r(s, a) = Σ_s' Φ⁰(s, a, s') r(s')
    Φ_r(s, s') = Φ⁰(s, s') exp(f_r(s, s'))

A policy that moves towards a goal multiplies the visits around the goal, and a factor is easier to learn than a
difference: on FourRooms with λ = 1 the same network had a third of the error with a factor (0.054, not 0.159).
The state–action form of Φ is one backup of the state form, so the network needs no output for each action.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wane.agents.common.networks import Linear, require_layer
from wane.agents.learned_operator.config import Config
from wane.agents.learned_operator.solving import Kernel, Square, Table, action_matrix, lambda_matrix, q_values
from wane.types import Scalar

TINY = 1e-30
"""Added to a divisor, so that nothing is divided by 0."""
LAM_SIZE = 3.0
"""The size of the inputs for λ. The inputs for rewards have a mean square of 1 and are many more."""
Rewards = Float[Array, " states"]


class Network(eqx.Module):
    """f_r(s, s'), the logarithm of the factor by which Φ_r(s, s') differs from Φ⁰(s, s')."""

    inputs: Linear
    blocks: tuple[Linear, ...]
    """Residual layers: each adds its output to its input."""
    column: Linear
    """The part of f that all states s have in common: one number for each s'."""
    states: Linear
    """The part of f for each s and s'."""

    def __call__(self, inputs: Float[Array, " inputs"]) -> Square:
        hidden = jax.nn.relu(self.inputs(inputs))
        for block in self.blocks:
            hidden = hidden + jax.nn.relu(block(hidden))
        # Adam moves every weight by about the learning rate, so a sum over a wide layer would move too far.
        hidden = hidden / np.sqrt(hidden.shape[-1])
        common = self.column(hidden)
        return common + self.states(hidden).reshape(-1, common.shape[-1])


class Params(NamedTuple):
    """What acting needs."""

    network: Network
    kernel: Float[Array, "*runs states actions states"]
    """p(s'|s, a), the world's own or estimated from counts."""
    walk: Float[Array, "*runs states states"]
    """The SR of the random walk."""
    lam: Float[Array, "*runs"]
    """The λ to act under. In a conditioned model it may be replaced by any other λ."""


def make_network(key: jax.Array, n_states: int, config: Config) -> Network:
    """A random network. Its last layers are nearly 0, so that it begins with the Φ of the random walk."""
    keys, width = jax.random.split(key, config.depth + 2), config.width
    inputs = _layer(keys[0], n_states + 2 * config.conditioned, width, 2.0)
    blocks = tuple(_layer(each, width, width, 1.0) for each in keys[1:-2])
    return Network(inputs, blocks, _layer(keys[-2], width, n_states, 0.01), _layer(keys[-1], width, n_states**2, 0.01))


def _layer(key: jax.Array, n_in: int, n_out: int, variance: float) -> Linear:
    require_layer(n_in, n_out)
    return Linear(jax.random.normal(key, (n_in, n_out)) * np.sqrt(variance / n_in), jnp.zeros(n_out))


def policy_of(params: Params, rewards: Rewards, lam: Scalar, config: Config) -> Table:
    """π_r(a|s): the policy after one improvement of the random walk."""
    walk = action_matrix(params.kernel, lambda_matrix(params.walk, lam), lam, config.discount)
    q = q_values(walk, rewards)
    return jax.nn.softmax(q / (config.temperature * (jnp.abs(q).max() + TINY)))


def state_representation(params: Params, rewards: Rewards, lam: Scalar, config: Config) -> Square:
    """The learned Φ_r(s, s')."""
    inputs = rewards * jax.lax.rsqrt(jnp.mean(rewards**2) + TINY)
    if config.conditioned:
        inputs = jnp.append(inputs, LAM_SIZE * jnp.stack([jnp.asarray(lam), 1 - jnp.asarray(lam)]))
    return lambda_matrix(params.walk, lam) * jnp.exp(params.network(inputs))


def operate(params: Params, rewards: Rewards, lam: Scalar, config: Config) -> tuple[Table, Kernel]:
    """The policy π_r(a|s) of some rewards, and its learned Φ_r(s, a, s')."""
    phi = state_representation(params, rewards, lam, config)
    return policy_of(params, rewards, lam, config), action_matrix(params.kernel, phi, lam, config.discount)
