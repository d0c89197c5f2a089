"""The networks of λ-features, the weights of the rewards, and the gradient step.

A network φ_θ maps a view to D features for every action. The paper's definition of the λF gives its target,

    y = φ(s) ⊙ (1 + γλ φ_θ(s', a')) + γ (1 − φ(s)) ⊙ φ_θ(s', a'),        a' ~ π(·|s'),

which is `wane.exact.bellman_target` with the base features φ(s) in place of 1(s = s'). Regressing φ_θ(s, a) on y is
target="vector". The paper's Algorithm 2 regresses wᵀφ_θ(s, a) on wᵀy, target="product". The two have the same solution
only for λ = 1: then wᵀy = wᵀφ(s) + γ wᵀφ_θ(s', a') depends on θ only through the product. For λ < 1, wᵀy depends on
every single feature of φ_θ(s', a'), and nothing in the loss determines these. Both losses are the mean of
½ |Aᵀ(y − φ_θ)|² with a matrix A (`projection`): w in its first column, or the identity. So the target is an array, and
one program trains networks with different targets.

Rewards are r̄ ≈ φ W r: column i of W is fitted to the indicator of site i, so w = W r serves any rewards r of the sites.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from wane.agents import laplacian
from wane.agents.common.networks import descend
from wane.agents.common.views import Dataset
from wane.agents.lambda_features.config import Config, Target
from wane.exact.bellman import bellman_target
from wane.types import Scalar, Tree
from wane.worlds.process import single_states
from wane.worlds.world import World


class Params(NamedTuple):
    """Everything that acting needs."""

    base: laplacian.Params
    """φ"""
    weights: Float[Array, "*runs features sites"]
    """W"""
    networks: laplacian.Network
    """φ_θ of every policy, along the first axis of its leaves"""


class State(NamedTuple):
    """Everything that is needed to continue learning."""

    params: Params
    optimiser: Tree
    """the state of the optimiser of each policy; fitted iteration begins each fit with a fresh one"""


class Examples(NamedTuple):
    """Some transitions of one policy, with the targets of φ_θ(s, a)."""

    views: Any
    action: Int[Array, " batch"]
    target: Float[Array, "batch features"]
    weight: Float[Array, " batch"]
    """the weight of each transition in the loss"""


def feature_table(network: laplacian.Network, views: Any, n_actions: int) -> Float[Array, "*batch actions features"]:
    """φ_θ(s, ·) of some views."""
    out = network(views)
    return out.reshape(*out.shape[:-1], n_actions, -1)


def features_at(
    network: laplacian.Network, views: Any, action: Int[Array, " batch"], n_actions: int
) -> Float[Array, "batch features"]:
    """φ_θ(s, a) of some views, with one action for each."""
    table = feature_table(network, views, n_actions)
    return jnp.take_along_axis(table, action[:, None, None], 1)[:, 0]


def targets(
    network: laplacian.Network,
    phi: Float[Array, "batch features"],
    next_views: Any,
    next_action: Int[Array, " batch"],
    lam: Scalar,
    discount: Scalar,
    n_actions: int,
) -> Float[Array, "batch features"]:
    """y, from the base features φ(s) and the views and actions that follow."""
    return bellman_target(features_at(network, next_views, next_action, n_actions), phi, lam, discount)


def projection(target: Target, weights: Float[Array, " features"]) -> Float[Array, "features features"]:
    """A: w in its first column for the target "product", the identity for "vector"."""
    if target == "vector":
        return jnp.eye(len(weights), dtype=weights.dtype)
    return jnp.zeros((len(weights), len(weights)), weights.dtype).at[:, 0].set(weights)


def loss(
    network: laplacian.Network, batch: Examples, project: Float[Array, "features features"], n_actions: int
) -> Float[Array, ""]:
    """The mean of ½ |Aᵀ(y − φ_θ(s, a))|², weighted by how often each transition occurred."""
    error = batch.target - features_at(network, batch.views, batch.action, n_actions)
    return jnp.mean(batch.weight * jnp.sum((error @ project) ** 2, -1)) / 2


def gradient_step(
    network: Any,
    optimiser: Tree,
    batch: Examples,
    project: Float[Array, "features features"],
    learning_rate: float,
    n_actions: int,
) -> tuple[Any, Tree, Float[Array, ""]]:
    """Takes one step of Adam. Returns the network, the optimiser's state and the loss."""
    value, slope = jax.value_and_grad(loss)(network, batch, project, n_actions)
    return *descend(optax.adam(learning_rate), slope, optimiser, network), value


def n_features(world: World, config: Config) -> int:
    """D, the number of base features."""
    return config.base.features if config.features == "laplacian" else world.n_states


def make_network(key: jax.Array, world: World, config: Config) -> Any:
    """A random φ_θ of one policy."""
    outputs = n_features(world, config) * world.n_actions
    return laplacian.make_network(key, world, config.base, config.hidden, outputs)


def fit_weights(phi: Float[Array, "views features"], data: Dataset, world: World) -> Float[Array, "features sites"]:
    """W by least squares over all views that were seen: φ(s) · W[:, i] ≈ 1 if s was seen at site i, else 0."""
    root = jnp.sqrt(data.counts / data.counts.sum())[:, None]
    at_site = data.cells[:, None] == jnp.asarray(single_states(world, "an agent with λ-features"))
    return jnp.linalg.lstsq(root * phi, root * at_site.astype(phi.dtype))[0]


def init(key: jax.Array, world: World, config: Config) -> State:
    """Returns random networks, one for each of the world's policies, and weights of 0.

    Raises ValueError if the world has no policies, or a site of several states.
    """
    if not world.policies:
        raise ValueError("the world has no policies: give it some with policies=…")
    single_states(world, "an agent with λ-features")
    base_key, key = jax.random.split(key)
    keys = jax.random.split(key, len(world.policies))
    networks = jax.vmap(lambda key: make_network(key, world, config))(keys)
    optimiser = jax.vmap(optax.adam(config.learning_rate).init)(networks)
    learned = config.features == "laplacian"
    base = laplacian.init(base_key, world, config.base).params if learned else laplacian.one_hot_params(world.n_states)
    return State(Params(base, jnp.zeros((n_features(world, config), world.n_sites)), networks), optimiser)


def update(
    state: State, data: tuple[int, Examples], world: World, config: Config, key: None = None
) -> tuple[State, Float[Array, ""]]:
    """Takes one gradient step on one policy's network. Returns the new state and the loss.

    `data` is the number of the policy and a batch.
    """
    number, batch = data
    network, optimiser = jax.tree_util.tree_map(lambda leaf: leaf[number], (state.params.networks, state.optimiser))
    weights = state.params.weights @ jnp.asarray(world.rewards, state.params.weights.dtype)
    project = projection(config.target, weights)
    *after, value = gradient_step(network, optimiser, batch, project, config.learning_rate, world.n_actions)
    before = state.params.networks, state.optimiser
    networks, optimisers = jax.tree_util.tree_map(lambda all, one: all.at[number].set(one), before, tuple(after))
    return State(state.params._replace(networks=networks), optimisers), value
