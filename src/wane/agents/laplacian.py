"""Laplacian eigenfunction features, learned from transitions (the base features of the paper's λF).

A network φ with D outputs, scaled to ‖φ(s)‖ = √D, is trained so that φ changes little along a transition s → s⁺, and
so that different states of a batch get different features:

    loss = mean ‖φ(s) − φ(s⁺)‖² + mean_{i ≠ j} (φ_iᵀ φ_j)² − 2 · mean ‖φ_i‖²

At its minimum φ spans the smoothest functions on the states, the first eigenfunctions of the Laplacian of the walk.
They are known exactly for a tabular world (`wane.exact.eigenfunctions`), and `wane.exact.principal_angles` measures how
far the learned span is from theirs. The scaling to a length of √D is the paper's. It restricts φ, so the learned span
need not reach the exact one.

The λF needs features in [0, 1]: `base_features` shifts and scales each one by the smallest and largest value that it
has in the data.

Data are the paper's trajectories (`wane.agents.common.views`) of the world's policies or of a uniform walk, from every
state and after every first action. `policy` is the uniform walk, because features alone have no goal.

    >>> from wane.worlds import make
    >>> world, config = make("grid-6x6"), Config(features=4, vision=Vision("index"), hidden=(16,), epochs=2)
    >>> state, info = train(jax.random.key(0), world, config)
    >>> base_features(state.params, jnp.eye(world.n_states)).shape, info.loss.shape
    ((16, 4), (2,))
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from wane.agents.common.contract import Agent
from wane.agents.common.networks import MLP, ConvolutionalNetwork, descend, make_convolutional_network, make_mlp
from wane.agents.common.policy import Policy
from wane.agents.common.training import APART, train_epochs
from wane.agents.common.views import Dataset, Vision, collect
from wane.settings import Checked, Count, Positive, Probability, Range, renamed
from wane.types import Integer, Tree
from wane.worlds.world import World

VIEWS_AT_A_TIME = 256
Network = Callable[[Any], Any]
"""An Equinox module: an MLP, a convolutional network, or `Identity`."""


@renamed(sight="vision")
@dataclass(frozen=True)
class Config(Checked):
    """The settings of Laplacian features. The defaults are the paper's for pixels."""

    vision: Vision = field(default_factory=Vision)
    """what the agent sees"""
    features: Annotated[int, Range(1, 10_000)] = 50
    """D"""
    channels: Annotated[int, Range(1, 10_000)] = 32
    """filters of each convolution"""
    strides: tuple[Annotated[int, Range(1, 100)], ...] = (2, 2, 2, 1)
    """one convolution for each"""
    hidden: tuple[Annotated[int, Range(1, 100_000)], ...] = (64, 64)
    """units of the fully connected layers before the last one"""
    learning_rate: Positive = 1e-4
    batch: Annotated[int, Range(2, 100_000)] = 64
    """B: transitions of a gradient step"""
    epochs: Count = 10
    """passes through the data, of which repetitions count"""
    walk: Literal["policies", "uniform"] = "policies"
    """who walks: the world's policies (the paper's for pixels), or a uniform walk (the paper's for the 6 × 6 grid)"""
    horizon: Annotated[int, Range(2, 10_000)] = 19
    """H: moments of a trajectory"""
    epsilon: Probability = 0.0
    """probability of a uniformly random action after the first one, which is each action in turn; 0 in the paper"""


class Params(NamedTuple):
    """A network, and the range of each of its features in the data."""

    network: Network
    low: Float[Array, "*runs features"]
    high: Float[Array, "*runs features"]


class State(NamedTuple):
    """Everything that is needed to continue learning."""

    params: Params
    optimiser: Tree


class Info(NamedTuple):
    """Measurements of each epoch of training."""

    loss: Float[Array, " epochs"]


def make_network(
    key: jax.Array, world: World, config: Config, hidden: tuple[int, ...], outputs: int
) -> MLP | ConvolutionalNetwork:
    """A random network from views to `outputs` numbers. Raises ValueError for pictures that are not square."""
    shape = config.vision.shape(world)
    if not config.vision.is_picture:
        return make_mlp(key, [*shape, *hidden, outputs])
    if shape[0] != shape[1]:
        raise ValueError(f"networks take square pictures, and {config.vision.observation} has {shape[0]} × {shape[1]}")
    sizes = (*hidden, outputs)
    return make_convolutional_network(key, shape[0], config.vision.frames, config.channels, config.strides, sizes)


def scaled_features(network: Network, views: Any) -> Float[Array, "*batch features"]:
    """φ, scaled to a length of √D."""
    phi = network(views)
    return phi * jax.lax.rsqrt(jnp.mean(phi**2, -1, keepdims=True) + 1e-12)


def base_features(params: Params, views: Any) -> Float[Array, "*batch features"]:
    """φ in [0, 1]: features of views that were not in the data are clipped to the range of the data."""
    phi = scaled_features(params.network, views)
    return jnp.clip((phi - params.low) / (params.high - params.low), 0, 1)


def loss(phi: Float[Array, "batch features"], phi_next: Float[Array, "batch features"]) -> Float[Array, ""]:
    """The loss of a batch: successive states should have equal features, and all others different ones."""
    gram, size = phi @ phi.T, len(phi)
    alike = jnp.sum((phi - phi_next) ** 2, -1).mean()
    others = (jnp.sum(gram**2) - jnp.sum(jnp.diag(gram) ** 2)) / (size * (size - 1))
    return alike + others - 2 * jnp.diag(gram).mean()


class Identity(eqx.Module):
    """The network that returns its input."""

    def __call__(self, views: Float[Array, "*batch inputs"]) -> Float[Array, "*batch inputs"]:
        return views


def one_hot_params(n_states: int) -> Params:
    """Base features that are the one-hot states themselves, with nothing to learn."""
    return Params(Identity(), jnp.zeros(n_states), jnp.full(n_states, jnp.sqrt(n_states)))


def init(key: jax.Array, world: World, config: Config) -> State:
    """Returns a random network, whose features are not scaled to any data yet."""
    network: Any = make_network(key, world, config, config.hidden, config.features)
    low = jnp.full(config.features, -np.sqrt(config.features))
    return State(Params(network, low, -low), optax.adam(config.learning_rate).init(network))


def update(
    state: State, data: tuple[Any, Any], world: World, config: Config, key: None = None
) -> tuple[State, Float[Array, ""]]:
    """Takes one gradient step on a batch of views and the views after them. Returns the state and the loss."""

    def of_batch(network: Network) -> Float[Array, ""]:
        phi = scaled_features(network, jnp.concatenate(data))
        return loss(phi[: len(data[0])], phi[len(data[0]) :])

    value, slope = jax.value_and_grad(of_batch)(state.params.network)
    adam = optax.adam(config.learning_rate)
    network, optimiser = descend(adam, slope, state.optimiser, state.params.network)
    return State(state.params._replace(network=network), optimiser), value


def collect_data(key: jax.Array, world: World, config: Config) -> Dataset:
    """Collects the data of `config.walk`. Raises ValueError if the world's policies should walk and it has none."""
    uniform = np.full((world.n_states, world.n_actions), 1 / world.n_actions)
    policies = [uniform] if config.walk == "uniform" else list(world.policies)
    if not policies:
        raise ValueError('the world has no policies to walk with: use walk="uniform", or give it some')
    return collect(key, world, policies, config.horizon, config.vision, config.epsilon)


def train(
    key: jax.Array,
    world: World,
    config: Config,
    state: State | None = None,
    first: Integer = 0,
    epochs: int | None = None,
    data: Dataset | None = None,
) -> tuple[State, Info]:
    """Trains for epochs `first`, `first` + 1, …, by default as many as the configuration says.

    If no `data` are given, they are collected first, which cannot be jitted; else this is a pure function.
    """
    data = collect_data(jax.random.fold_in(key, APART), world, config) if data is None else data
    state = init(key, world, config) if state is None else state
    run, count = partial(run_epoch, world=world, config=config, data=data), config.epochs if epochs is None else epochs
    after, losses = train_epochs(key, state, first, count, run)
    return after._replace(params=fit_range(after.params, data)), Info(losses)


def run_epoch(
    key: jax.Array, state: State, world: World, config: Config, data: Dataset
) -> tuple[State, Float[Array, ""]]:
    """Trains on as many transitions as the data hold, repetitions included. Returns the state and the mean loss.

    A transition is drawn with a probability proportional to how often it occurred.
    """
    steps, chances = data.transitions, jnp.cumsum(data.transitions.counts.ravel())
    batches = max(1, len(steps.counts) * data.n_steps // config.batch)
    draws = jax.random.uniform(key, (batches, config.batch)) * chances[-1]
    chosen = jnp.minimum(jnp.searchsorted(chances, draws, side="right"), len(chances) - 1)

    def step(state: State, chosen: Int[Array, " batch"]) -> tuple[State, Array]:
        pair = data.views[steps.view.ravel()[chosen]], data.views[steps.next_view.ravel()[chosen]]
        return update(state, pair, world, config)

    state, losses = jax.lax.scan(step, state, chosen)
    return state, losses.mean()


def fit_range(params: Params, data: Dataset) -> Params:
    """Returns the parameters with the range of every feature over all views that were seen."""
    phi = map_views(lambda views: scaled_features(params.network, views), data.views)
    seen = (data.counts > 0)[:, None]
    low, high = jnp.where(seen, phi, jnp.inf).min(0), jnp.where(seen, phi, -jnp.inf).max(0)
    return params._replace(low=low, high=jnp.maximum(high, low + 1e-6))


def map_views(function: Any, views: Any, numbers: Int[Array, " chosen"] | None = None) -> Any:
    """Applies a function of batches to all views, or to those with the given `numbers`, a few hundred at a time."""
    numbers = jnp.arange(len(views)) if numbers is None else numbers
    size = min(VIEWS_AT_A_TIME, len(numbers))
    index = jnp.arange(-(-len(numbers) // size) * size).reshape(-1, size) % len(numbers)
    found = jax.lax.map(lambda chosen: function(views[numbers[chosen]]), index)
    return jax.tree_util.tree_map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[: len(numbers)], found)


def policy(params: Params, world: World, config: Config) -> Policy:
    """Returns the policy of uniformly random actions."""
    return Policy(partial(_act, world.n_actions), params)


def _act(
    n_actions: int, params: Params, carry: None, observation: Any, key: jax.Array
) -> tuple[Int[Array, ""], None, None]:
    return jax.random.randint(key, (), 0, n_actions), carry, None


AGENT = Agent("laplacian", Config, State, init, train, policy, update, unit="epochs", traceable=("init",))
