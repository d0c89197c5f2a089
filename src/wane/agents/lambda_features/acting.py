"""GPI with learned λ-features: a = argmax_a max_π wᵀφ_θ^π(s, a)."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from wane.agents.common.policy import Policy, first_best, no_draws
from wane.agents.common.views import push
from wane.agents.lambda_features.config import Config
from wane.agents.lambda_features.networks import Params, feature_table
from wane.worlds.observe import REMAINING
from wane.worlds.world import World


def policy(params: Params, world: World, config: Config) -> Policy:
    """The policy that composes the world's policies. It sees pictures one by one, and remembers the last ones."""
    sight = config.base.sight
    carry = jnp.zeros(sight.shape(world), jnp.uint8) if sight.is_picture else None
    return Policy(partial(_act, world, config), params, carry, no_draws, sight.observation + REMAINING)


def _act(
    world: World, config: Config, params: Params, carry: Any, observation: Any, key: None
) -> tuple[Int[Array, ""], Any, None]:
    if config.base.sight.is_picture:
        carry = view = push(carry, observation.view)
    else:
        view = jax.nn.one_hot(observation.view, world.n_states)
    rewards = observation.remaining if config.refresh else jnp.asarray(world.rewards)
    q = q_values(params, view, params.weights @ rewards.astype(params.weights.dtype), world.n_actions)
    return first_best(q.max(0)), carry, None


def q_values(params: Params, view: Any, weights: Any, n_actions: int) -> Any:
    """wᵀφ_θ^π(s, a) of every policy and action for one view, (policies, actions)."""
    count = jax.tree_util.tree_leaves(params.networks)[0].shape[0]
    networks = [jax.tree_util.tree_map(lambda leaf, i=i: leaf[i], params.networks) for i in range(count)]
    return jnp.stack([feature_table(network, view, n_actions) @ weights for network in networks])
