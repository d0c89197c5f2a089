"""The networks: a policy, critics and a λF, all fully connected with ReLUs, as plain trees of arrays.

An agent has a critic, and beside it a second critic or a λF. Both are networks with the same hidden layers, so one
program trains agents of all kinds: their second network is a critic for some agents and a λF for others. Agents with
two critics and a λF have three networks (`Config.networks`). An agent of a kind with fewer networks neither uses nor
changes the others.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wane.agents.common.networks import MLP, Linear, make_linear, make_mlp
from wane.agents.sac.config import Config
from wane.types import Tree
from wane.worlds.control import Task

Normal = tuple[Float[Array, "*batch actions"], Float[Array, "*batch actions"]]
"""The mean and the log of the standard deviation of actions before tanh."""


class Critics(NamedTuple):
    """The networks that value actions: the critics and the λF."""

    hidden: MLP
    """The hidden layers of all networks along the first axis: the critics come first, and the λF is the last one."""
    q: Linear
    """The last layers of two critics along the first axis."""
    features: Linear
    """The last layer of the λF φ_λ(s, a)."""


def make_actor(key: jax.Array, task: Task, config: Config) -> MLP:
    """A random policy."""
    return make_mlp(key, [task.n_observations, *config.hidden, 2 * task.n_actions])


def make_critics(key: jax.Array, task: Task, config: Config) -> Critics:
    """Random critics and a random λF."""
    hidden_key, q_key, feature_key = jax.random.split(key, 3)
    features = task.n_observations + task.n_actions
    hidden: MLP = jax.vmap(lambda key: make_mlp(key, [features, *config.hidden]))(
        jax.random.split(hidden_key, config.networks)
    )
    q: Linear = jax.vmap(lambda key: make_linear(key, config.hidden[-1], 1))(jax.random.split(q_key))
    return Critics(hidden, q, make_linear(feature_key, config.hidden[-1], features))


def look(actor: MLP, observation: Float[Array, "*batch observations"], config: Config) -> Normal:
    """The mean and the log of the standard deviation of the policy's action in a state, before tanh."""
    mean, raw = jnp.split(actor(observation), 2, -1)
    limited = jnp.clip(raw, *config.limits)
    return mean, limited / 2 if config.spread == "variance" else limited


def join(observation: Float[Array, "*batch observations"], action: Float[Array, "*batch actions"]) -> Array:
    """[s, a]: the input of the critics and of the λF, and also the features before they are scaled."""
    return jnp.concatenate([observation, action], -1)


def first(tree: Tree, count: int) -> Any:
    """Returns a tree with the first `count` entries of all its arrays."""
    return jax.tree_util.tree_map(lambda leaf: leaf[:count], tree)


def evaluate(
    critics: Critics, inputs: Float[Array, "*batch inputs"]
) -> tuple[Float[Array, "critics *batch"], Float[Array, "*batch features"] | None]:
    """Returns the values of [s, a] by all critics that have a last layer, and φ_λ, or None without a last layer."""
    hidden = jax.nn.relu(jax.vmap(lambda network: network(inputs))(critics.hidden))
    q = jax.vmap(lambda layer, units: layer(units)[..., 0])(critics.q, hidden[: len(critics.q.bias)])
    return q, critics.features(hidden[-1]) if critics.features is not None else None


def q_values(critics: Critics, inputs: Float[Array, "*batch inputs"], count: int = 2) -> Float[Array, "critics *batch"]:
    """The values of [s, a] by the first `count` critics."""
    only: Any = Critics(first(critics.hidden, count), first(critics.q, count), None)  # pyright: ignore[reportArgumentType]
    return evaluate(only, inputs)[0]
