"""Acting with the learned λ operator: the greedy policy on the Q of what remains of the rewards."""

from functools import partial

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from wane.agents.common.policy import Policy
from wane.agents.forward_backward.acting import acting_on
from wane.agents.learned_operator.config import Config
from wane.agents.learned_operator.networks import Params, state_representation
from wane.agents.learned_operator.solving import q_values_at
from wane.types import Integer
from wane.worlds.process import Tabular


def policy(params: Params, world: Tabular, config: Config) -> Policy:
    """Returns the policy that takes argmax_a Σ_s' Φ_r(s, a, s') r(s'), under the λ of the params.

    It solves nothing: an action costs one pass through the network.
    """
    return acting_on(partial(_choose, config), params, world)


def _choose(config: Config, params: Params, cell: Integer, rewards: Float[Array, " states"]) -> Int[Array, ""]:
    phi = state_representation(params, rewards, params.lam, config)
    q = q_values_at(cell, params.kernel, phi, rewards, params.lam, config.discount)
    return jnp.argmax(q).astype(jnp.int32)
