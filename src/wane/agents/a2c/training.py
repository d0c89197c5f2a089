"""Training: the present network plays sequences, and each batch of them is used for one gradient step.

    loss = policy loss + (G_t − V(s_t))² − entropy weight · entropy + feature weight · |F_t − φ_λ(s_t)|² / D

G_t are the value's targets and F_t the λF's targets; both are constants. After each step the network is applied once
more, to the observation that the step led to, with the recurrent state of the same episode: this gives V(s_{t+1}) and
φ_λ(s_{t+1}). So a truncated episode is bootstrapped from its own last observation, not from the first one of the next.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from wane.agents.a2c import equations
from wane.agents.a2c.acting import input_mask, n_inputs, policy, sampled_policy, watched
from wane.agents.a2c.config import Config
from wane.agents.a2c.networks import LSTMState, Output, Params, heads, make_network, see, unroll
from wane.agents.common.networks import descend
from wane.agents.common.policy import Policy
from wane.agents.common.rollout import Position, Transition, begin, discount_of, play, rollout
from wane.agents.common.training import APART, train_epochs
from wane.types import Integer, Tree
from wane.worlds.process import single_states
from wane.worlds.world import World


class State(NamedTuple):
    """Everything that is needed to continue learning. Acting needs only the `params`."""

    params: Params
    optimiser: Tree
    position: Position
    """The present position of the roll-out in each environment."""
    earned: Float[Array, " environments"]
    """What the open episode of each environment has earned so far, discounted."""


class Sequences(NamedTuple):
    """Sequences that the present network played: steps along the first axis, environments along the second.

    The observations are `Moment`s.
    """

    carry: LSTMState
    """The recurrent state before the first step."""
    steps: Transition


class Terms(NamedTuple):
    """The parts of the loss, without their weights."""

    policy: Float[Array, "*epochs"]
    value: Float[Array, "*epochs"]
    entropy: Float[Array, "*epochs"]
    features: Float[Array, "*epochs"]


class Info(NamedTuple):
    """Measurements of each epoch of training."""

    terms: Terms
    """Means over the epoch."""
    returns: Float[Array, " epochs"]
    """The mean discounted return of the training episodes that ended in the epoch; NaN if none ended."""
    greedy: Float[Array, " epochs"]
    """The mean return of greedy episodes after the epoch, from which nothing is learned."""
    sampled: Float[Array, " epochs"]
    """The mean return of episodes with drawn actions after the epoch, from which nothing is learned."""
    watched: Any = None
    """What `watch` returned after each epoch."""


def feature_numbers(world: World, config: Config) -> tuple[Int[np.ndarray, " states"], int]:
    """The index of the feature of each state (−1 if the state has none), and the number of features."""
    if config.features == "states":
        return np.arange(world.n_states), world.n_states
    if config.features == "sites":
        return np.asarray(world.tables.site_of), world.n_sites
    rows, columns = world.map.shape
    return columns * world.map.cells[:, 0] + world.map.cells[:, 1], rows * columns


def site_states(world: World, config: Config) -> Int[np.ndarray, " sites"]:
    """A state of each site, whose feature is that of the site. Raises ValueError if the site has several features."""
    if config.features == "sites":
        return np.array([states[0] for states in world.patches], int)
    return single_states(world, f'a2c with features="{config.features}" instead of "sites"')


def init(key: jax.Array, world: World, config: Config) -> State:
    """Returns a random network, and a fresh episode in every environment. `key` is the key that `train` takes."""
    network_key, play_key = jax.random.split(jax.random.fold_in(key, APART))
    sizes = n_inputs(world), config.hidden, world.n_actions, feature_numbers(world, config)[1]
    params: Any = make_network(network_key, *sizes)
    explore, env = sampled_policy(params, world, config), watched(world)
    position = jax.vmap(lambda key: begin(key, env, explore))(jax.random.split(play_key, config.environments))
    zeros = jnp.zeros(config.environments)
    return State(params, optax.adam(config.learning_rate).init(params), position, zeros)


def collect(key: jax.Array, state: State, world: World, config: Config) -> tuple[Position, Sequences]:
    """Plays one sequence in every environment. Returns the new positions of the environments, and the sequences."""
    explore, env = sampled_policy(state.params, world, config), watched(world)

    def one(key: Array, position: Position) -> tuple[Position, Transition]:
        after = rollout(key, env, explore, config.length, position)
        return after.position, after.transitions

    keys = jax.random.split(key, config.environments)
    position, steps = jax.vmap(one, out_axes=(0, 1))(keys, state.position)
    return position, Sequences(state.position.carry, steps)


def ended(steps: Transition) -> Bool[Array, "steps environments"]:
    """Whether each step ended its episode, by termination or by truncation."""
    return jnp.logical_or(steps.terminated, steps.truncated)


def outputs(params: Params, data: Sequences, world: World, config: Config) -> tuple[Output, Output]:
    """The network's outputs at each step, and after the observation that the step led to. The latter are constants."""
    steps, mask, done = data.steps, input_mask(world, config), ended(data.steps)
    fresh = jnp.concatenate([jnp.zeros_like(done[:1]), done[:-1]])
    kept = jnp.asarray(config.recurrent, float)
    keep = jnp.where(fresh, 0.0, kept).astype(params.lstm.recurrent.dtype)
    gates = params.lstm.inputs(steps.observation.x * mask)
    states = unroll(params.lstm.recurrent, gates, keep, data.carry)
    constant: Params = jax.lax.stop_gradient(params)
    after = see(constant, steps.next_observation.x * mask, jax.lax.stop_gradient(states), kept)
    return heads(params, states.h), heads(constant, after.h)


class Targets(NamedTuple):
    """The targets of the value and of the λF."""

    value: Float[Array, "steps environments"]
    features: Float[Array, "steps environments features"]


def targets(after: Output, data: Sequences, world: World, config: Config) -> Targets:
    """G_t and F_t, from the network's outputs after each step."""
    steps, (numbers, size) = data.steps, feature_numbers(world, config)
    own = jax.nn.one_hot(numbers, size, dtype=after.features.dtype)  # the feature of each state
    departing, arriving = own[steps.observation.cell], own[steps.next_observation.cell]
    phi = departing + jnp.asarray(config.arrival, own.dtype) * (arriving - departing)
    remaining = steps.observation.remaining
    rewards = remaining if config.weights == "remaining" else jnp.broadcast_to(world.rewards, remaining.shape)
    weights = rewards @ own[site_states(world, config)]
    discount = discount_of(world, config) * (1.0 - steps.terminated)
    cut = ended(steps).at[-1].set(True).astype(discount.dtype)
    change = equations.correction(phi, after.features, weights, config.lam, discount)
    each = jax.vmap(equations.mixed_returns, (1, 1, 1, 1, None), 1)
    reward = steps.reward + jnp.asarray(config.correction, change.dtype) * change
    value = each(reward, discount, after.value, cut, config.mixing)
    each = jax.vmap(equations.feature_returns, (1, 1, None, 1, 1, None), 1)
    return Targets(value, each(phi, after.features, config.lam, discount, cut, config.feature_mixing))


def loss(params: Params, data: Sequences, world: World, config: Config) -> tuple[Float[Array, ""], Terms]:
    """The loss of some sequences, and its parts."""
    said, after = outputs(params, data, world, config)
    goal = targets(after, data, world, config)
    actors = jax.vmap(equations.policy_loss, 1)(said.logits, data.steps.action, goal.value - said.value)
    terms = Terms(
        actors.mean(),
        equations.squared_error(goal.value, said.value),
        jax.vmap(equations.mean_entropy, 1)(said.logits).mean(),
        equations.squared_error(goal.features, said.features),
    )
    total = terms.policy + terms.value - config.entropy_weight * terms.entropy + config.feature_weight * terms.features
    return total, terms


def update(state: State, data: Sequences, world: World, config: Config, key: None = None) -> tuple[State, Terms]:
    """Takes one gradient step on sequences of the present network. Returns the new state and the parts of the loss."""
    slope, terms = jax.grad(loss, has_aux=True)(state.params, data, world, config)
    params, optimiser = descend(optax.adam(config.learning_rate), slope, state.optimiser, state.params)
    return state._replace(params=params, optimiser=optimiser), terms


def play_and_learn(key: jax.Array, state: State, world: World, config: Config) -> tuple[State, Any]:
    """Plays one sequence in every environment, and takes one gradient step on them.

    Returns the state and (parts of the loss, sum of the returns of episodes that ended, number of these episodes).
    """
    time = state.position.state.time
    position, data = collect(key, state, world, config)
    state, terms = update(state, data, world, config)
    done = ended(data.steps)
    paid = data.steps.reward * _discounts(world, time, done)
    total, earned = jax.vmap(equations.finished_returns, (1, 1, 0))(paid, done.astype(paid.dtype), state.earned)
    return state._replace(position=position, earned=earned), (terms, total.sum(), done.sum())


def _discounts(
    world: World, time: Int[Array, " environments"], done: Bool[Array, "steps environments"]
) -> Float[Array, "steps environments"]:
    """γᵗ of each step's reward, in the world's convention, given the time of the first step."""

    def step(time: Array, done: Array) -> tuple[Array, Array]:
        return jnp.where(done, 0, time + 1), time

    exponent = jax.lax.scan(step, time, done)[1] + (world.timing == "arrival")
    return jnp.power(jnp.asarray(world.discount, float), exponent)


def _epoch(world: World, config: Config, key: jax.Array, state: State) -> tuple[State, Info]:
    """Runs one epoch and the evaluation after it."""
    learn_key, *test_keys = jax.random.split(key, 3)

    def turn(state: State, key: Array) -> tuple[State, Any]:
        return play_and_learn(key, state, world, config)

    state, (terms, total, ended) = jax.lax.scan(turn, state, jax.random.split(learn_key, config.updates))
    makers = policy, sampled_policy
    greedy, sampled = (
        evaluate(key, make(state.params, world, config), world, config.evaluation_episodes)
        for key, make in zip(test_keys, makers, strict=True)
    )
    means: Terms = jax.tree_util.tree_map(jnp.mean, terms)
    return state, Info(means, total.sum() / ended.sum(), greedy, sampled)


def evaluate(key: jax.Array, policy: Policy, world: World, episodes: int) -> Float[Array, ""]:
    """The mean discounted return of `episodes` episodes."""
    return jax.vmap(lambda key: play(key, world, policy)[1].value)(jax.random.split(key, episodes)).mean()


def train(
    key: jax.Array,
    world: World,
    config: Config,
    state: State | None = None,
    first: Integer = 0,
    epochs: int | None = None,
    watch: Callable[[jax.Array, State], Any] | None = None,
) -> tuple[State, Info]:
    """Trains for epochs `first`, `first` + 1, …, by default as many as the configuration says.

    It is a pure function: `jit` it, and `vmap` it over keys and over the settings that are a `Scalar` or a `Flag`.
    `watch(key, state)` is called after each epoch, and `Info.watched` holds what it returns.

        states, info = jax.jit(jax.vmap(lambda k, lam: train(k, world, Config(lam=lam))))(keys, lams)
    """
    state = init(key, world, config) if state is None else state
    count = config.epochs if epochs is None else epochs
    return train_epochs(key, state, first, count, partial(_epoch, world, config), watch)
