"""How the agent acts: it takes its mean action when it is evaluated, and draws its action while it learns."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wane.agents.common.networks import MLP
from wane.agents.common.policy import Policy, no_draws
from wane.agents.sac import equations
from wane.agents.sac.config import Config
from wane.agents.sac.networks import look
from wane.worlds.control import Task


def policy(params: MLP, world: Task, config: Config) -> Policy:
    """Returns the policy without noise: its action is tanh of the mean."""
    return Policy(_act_best, params, draw=no_draws)


def sampled_policy(params: MLP, world: Task, config: Config) -> Policy:
    """Returns the policy that is trained: it draws its actions."""
    return Policy(partial(_act_at_random, config), params)


def best_action(actor: MLP, observation: Float[Array, "*batch observations"]) -> Float[Array, "*batch actions"]:
    """The action without noise: tanh of the mean."""
    return jnp.tanh(jnp.split(actor(observation), 2, -1)[0])


def drawn_action(actor: MLP, observation: Float[Array, " observations"], key: jax.Array, config: Config) -> Array:
    """An action drawn from the policy."""
    mean, log_deviation = look(actor, observation, config)
    return equations.squash(mean, log_deviation, jax.random.normal(key, mean.shape, mean.dtype))[0]


def _act_best(params: MLP, carry: None, observation: Any, key: None) -> tuple[Array, None, None]:
    return best_action(params, jnp.asarray(observation)), None, None


def _act_at_random(
    config: Config, params: MLP, carry: None, observation: Any, key: jax.Array
) -> tuple[Array, None, None]:
    return drawn_action(params, jnp.asarray(observation), key, config), None, None
