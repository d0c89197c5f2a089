"""GPI with learned λ-features: a = argmax_a max_π wᵀφ_θ^π(s, a), or the action of the policy that is best.

A policy of the world is a function of the state. So an agent with choose="policies", which follows such policies, sees
the index of the state in addition to its view; its values depend only on the view.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from wane.agents import gpi
from wane.agents.common.policy import Policy, compose, no_draws
from wane.agents.common.views import push
from wane.agents.lambda_features.config import Config
from wane.agents.lambda_features.networks import Params, feature_table
from wane.types import Integer
from wane.worlds.world import World


class Placed(NamedTuple):
    """A view, what remains of the rewards, and the state."""

    view: Any
    remaining: Float[Array, " sites"]
    cell: Int[Array, ""]


@dataclass(frozen=True, eq=False)
class PlacedView:
    """The observation that shows both a view and the state. It is compared by identity, so JAX can hash it."""

    view: Callable[..., Any]
    rewards: Float[Any, " sites"]

    def __call__(self, cell: Integer, facing: Integer, worth: Float[Array, " sites"]) -> Placed:
        """Returns what the agent sees in a state."""
        return Placed(self.view(cell, facing, worth), jnp.asarray(self.rewards) * worth, jnp.asarray(cell, jnp.int32))


def policy(params: Params, world: World, config: Config) -> Policy:
    """Returns the policy that composes the world's policies. It sees one picture a step and remembers the last ones."""
    if config.choose == "policies":
        return composed(params, world, config, config.refresh, True)
    return _make(params, world, config, config.refresh, None, replace(config.base.vision.shown, remaining=True))


def composed(
    params: Params, world: World, config: Config, refresh: bool | Bool[Array, ""], follows: bool | Bool[Array, ""]
) -> Policy:
    """Returns the policy of the agent. `refresh` (w is updated at every step) and `follows` may be traced.

    With `follows` it takes the action of the best policy, else the best of all actions.
    """
    return _make(params, world, config, refresh, follows, PlacedView(config.base.vision.view(world), world.rewards))


def _make(params: Params, world: World, config: Config, refresh: Any, follows: Any, observation: Any) -> Policy:
    vision = config.base.vision
    pictures = jnp.zeros(vision.shape(world), jnp.uint8) if vision.is_picture else None
    return Policy(partial(_act, world, config), (params, refresh, follows), pictures, no_draws, observation)


def _act(
    world: World, config: Config, params: tuple[Params, Any, Any], carry: Any, observation: Any, key: None
) -> tuple[Int[Array, ""], Any, None]:
    learned, refresh, follows = params
    if config.base.vision.is_picture:
        carry = view = push(carry, observation.view)
    else:
        view = jax.nn.one_hot(observation.view, world.n_states)
    rewards = jnp.where(refresh, observation.remaining, jnp.asarray(world.rewards))
    q = q_values(learned, view, learned.weights @ rewards.astype(learned.weights.dtype), world.n_actions)
    if follows is None:
        return compose(q), carry, None
    own_actions = jnp.asarray(gpi.action_table(world.policies, world))[:, observation.cell]
    return jnp.where(follows, compose(q, own_actions), compose(q)), carry, None


def q_values(params: Params, view: Any, weights: Any, n_actions: int) -> Any:
    """wᵀφ_θ^π(s, a) of every policy and action for one view, (policies, actions)."""
    count = jax.tree_util.tree_leaves(params.networks)[0].shape[0]
    networks = [jax.tree_util.tree_map(lambda leaf, i=i: leaf[i], params.networks) for i in range(count)]
    return jnp.stack([feature_table(network, view, n_actions) @ weights for network in networks])
