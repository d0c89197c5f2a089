"""The networks: a policy, two critics and a λF, all fully connected with ReLUs, as plain trees of arrays.

There are always two critics and a λF, so that one program trains agents of all kinds. An agent of a kind with fewer
networks neither uses nor changes the others.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wane.agents.common.networks import MLP, make_mlp
from wane.agents.sac.config import Config
from wane.worlds.control import Task

Normal = tuple[Float[Array, "*batch actions"], Float[Array, "*batch actions"]]
"""The mean and the log of the standard deviation of actions before tanh."""


class Critics(NamedTuple):
    """The networks that value actions: the critics and the λF."""

    q: MLP
    """Two critics along the first axis of all arrays."""
    features: MLP
    """The λF φ_λ(s, a)."""


def make_actor(key: jax.Array, task: Task, config: Config) -> MLP:
    """A random policy."""
    return make_mlp(key, [task.n_observations, *config.hidden, 2 * task.n_actions])


def make_critics(key: jax.Array, task: Task, config: Config) -> Critics:
    """Random critics and a random λF."""
    q_key, feature_key = jax.random.split(key)
    features = task.n_observations + task.n_actions
    q: MLP = jax.vmap(lambda key: make_mlp(key, [features, *config.hidden, 1]))(jax.random.split(q_key))
    return Critics(q, make_mlp(feature_key, [features, *config.hidden, features]))


def look(actor: MLP, observation: Float[Array, "*batch observations"], config: Config) -> Normal:
    """The mean and the log of the standard deviation of the policy's action in a state, before tanh."""
    mean, raw = jnp.split(actor(observation), 2, -1)
    limited = jnp.clip(raw, *config.limits)
    return mean, limited / 2 if config.spread == "variance" else limited


def join(observation: Float[Array, "*batch observations"], action: Float[Array, "*batch actions"]) -> Array:
    """[s, a]: the input of the critics and of the λF, and also the features before they are scaled."""
    return jnp.concatenate([observation, action], -1)


def q_values(q: MLP, inputs: Float[Array, "*batch inputs"], critics: int = 2) -> Float[Array, "critics *batch"]:
    """The values of [s, a] by the first `critics` critics."""
    used: MLP = jax.tree_util.tree_map(lambda leaf: leaf[:critics], q)
    return jax.vmap(lambda critic: critic(inputs)[..., 0])(used)
