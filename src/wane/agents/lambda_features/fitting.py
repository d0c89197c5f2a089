"""Fitted iteration (the paper's Algorithm 2), and TD along episodes.

Fitted iteration k computes the targets of all transitions with network k − 1, and trains a fresh network on them for L
epochs. An epoch visits each different transition once, and the loss weights it by how often it occurred.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from wane.agents import laplacian
from wane.agents.common.policy import Policy, sample_action, uniforms
from wane.agents.common.rollout import discount_of, play
from wane.agents.common.training import APART, numbered
from wane.agents.common.views import Dataset, Transitions
from wane.agents.lambda_features.config import Config
from wane.agents.lambda_features.networks import (
    Examples,
    Params,
    State,
    feature_table,
    fit_weights,
    gradient_step,
    init,
    make_network,
    projection,
    targets,
)
from wane.checks import is_traced
from wane.exact.bellman import bellman_target
from wane.mdp import probabilities
from wane.types import Integer
from wane.worlds.world import World

AT_ONCE = 9
"""The most networks that a GPU trains at the same time. Nine of the paper's networks that share their batches take 0.40
ms a step each on an H200 and 4.3 GiB. Eighteen of them, with batches of two policies, are no faster and take 17 GB."""


class Info(NamedTuple):
    """Measurements of training. The axes of `loss` and `measured` are policies and iterations (or episodes)."""

    base_loss: Float[Array, " epochs"]
    """The loss of the base features."""
    loss: Float[Array, "policies iterations"]
    """The mean loss of the last epoch of each iteration, or the last loss of each episode."""
    measured: Any
    """What `measure` returned for the network after each iteration or episode."""


def prepare(key: jax.Array, world: World, config: Config, data: Dataset) -> tuple[State, Float[Array, " epochs"]]:
    """Returns random networks with base features trained on the data and the weights of the rewards, and the losses."""
    state = init(key, world, config)
    if config.features == "one-hot":
        return with_base(state, state.params.base, world, data), jnp.zeros(0)
    base, info = laplacian.train(key, world, config.base, data=data)
    return with_base(state, base.params, world, data), info.loss


def with_base(state: State, base: laplacian.Params, world: World, data: Dataset) -> State:
    """Returns the state with other base features, and with the weights of the rewards for these features."""
    phi = all_features(base, data)
    return state._replace(params=state.params._replace(base=base, weights=fit_weights(phi, data, world)))


@jax.jit
def all_features(base: laplacian.Params, data: Dataset) -> Float[Array, "views features"]:
    """φ of all views."""
    return laplacian.map_views(lambda views: laplacian.base_features(base, views), data.views)


def fit_iteration(
    key: jax.Array,
    network: Any,
    steps: Transitions,
    phi: Float[Array, "views features"],
    project: Float[Array, "features features"],
    data: Dataset,
    world: World,
    config: Config,
    shuffle_key: jax.Array | None = None,
) -> tuple[Any, Float[Array, ""]]:
    """Makes one iteration for one policy: it fits a network to targets that `network` gives.

    `steps` are the policy's transitions, `phi` the base features of all views, `project` is the A of the loss. Networks
    with the same `shuffle_key` see the same batches, which `vmap` then reads once for all of them. Returns the fitted
    network and its mean loss in the last epoch.
    """
    discount, total = discount_of(world, config), len(steps.view)
    tables = laplacian.map_views(
        lambda views: feature_table(network, views, world.n_actions), data.views, steps.next_view
    )
    phi_next = jnp.take_along_axis(tables, steps.next_action[:, None, None], 1)[:, 0]
    y = bellman_target(phi_next, phi[steps.view], config.lam, discount)
    count = steps.counts / steps.counts.mean()
    batches = -(-total // config.batch)
    begin = make_network(jax.random.fold_in(key, 0), world, config) if config.fresh else network

    def epoch(now: tuple[Any, Any], key: Array) -> tuple[Any, Array]:
        order = jax.random.permutation(key, total)
        # The last batch is padded with transitions whose weight is 0.
        weight = jnp.pad(count[order], (0, batches * config.batch - total)).reshape(batches, -1)
        chosen = jnp.pad(order, (0, batches * config.batch - total)).reshape(batches, -1)

        def step(now: tuple[Any, Any], batch: tuple[Array, Array]) -> tuple[Any, Array]:
            index, weight = batch
            sample = Examples(data.views[steps.view[index]], steps.action[index], y[index], weight)
            network, optimiser, value = gradient_step(*now, sample, project, config.learning_rate, world.n_actions)
            return (network, optimiser), value

        now, losses = jax.lax.scan(step, now, (chosen, weight))
        return now, losses.mean()

    shuffle_key = jax.random.fold_in(key, 1) if shuffle_key is None else shuffle_key
    keys = jax.random.split(shuffle_key, config.epochs)
    (fitted, _), losses = jax.lax.scan(epoch, (begin, optax.adam(config.learning_rate).init(begin)), keys)
    return fitted, losses[-1]


def train_each(function: Callable[[Any], Any], xs: Any, networks: int = 1) -> Any:
    """Applies to each entry of `xs` a function that trains `networks` networks.

    On a GPU, up to AT_ONCE networks are trained at the same time. On a CPU they are trained one after the other, which
    is faster there.
    """
    size = None if jax.default_backend() == "cpu" else max(1, AT_ONCE // networks)
    return jax.lax.map(function, xs, batch_size=size)


Measure = Callable[[Params, Any], Any]
"""(params, one policy's network) → what to record of it"""


def _fit(key: jax.Array, state: State, world: World, config: Config, data: Dataset, measure: Measure):
    """Runs fitted iteration for all policies. Returns the state, the losses and the measurements."""
    params = state.params
    phi, weights = all_features(params.base, data), params.weights @ jnp.asarray(world.rewards, params.weights.dtype)
    project = projection(config.target, weights)

    def fit(one: tuple[Any, ...]) -> tuple[Any, Any]:
        number, network, steps = one

        def iteration(network: Any, k: Array) -> tuple[Any, Any]:
            own = jax.random.fold_in(jax.random.fold_in(key, number), k)
            network, value = fit_iteration(own, network, steps, phi, project, data, world, config)
            return network, (value, measure(params, network))

        return jax.lax.scan(iteration, network, jnp.arange(config.iterations))

    numbers = jnp.arange(len(world.policies))
    networks, (losses, measured) = train_each(fit, (numbers, params.networks, data.transitions))
    return state._replace(params=params._replace(networks=networks)), losses, measured


def _learn_online(key: jax.Array, state: State, world: World, config: Config, first: Integer, count: int, measure):
    """Learns by TD in episodes from every state in turn, for all policies together. Returns the same as `_fit`."""
    params, discount = state.params, discount_of(world, config)
    base = laplacian.base_features(params.base, jnp.eye(world.n_states))
    project = jnp.eye(base.shape[1])  # TD learns all features.
    eye = jnp.eye(world.n_states)

    def learn_policy(key: Array, network: Any, optimiser: Any, chances: Array):
        evaluated = jnp.cumsum(chances, 1)
        walked = jnp.cumsum((1 - config.epsilon) * chances + config.epsilon / world.n_actions, 1)

        def act(learned, carry, cell, draws):
            return sample_action(walked[cell], draws[0]), carry, None

        def learn(learned, step, draws):
            network, optimiser, _ = learned
            cell, after = step.observation[None], step.next_observation[None]
            next_action = sample_action(evaluated[after[0]], draws[1])[None]
            y = targets(network, base[cell], eye[after], next_action, config.lam, discount, world.n_actions)
            batch = Examples(eye[cell], step.action[None], y, step.live[None])
            return gradient_step(network, optimiser, batch, project, config.learning_rate, world.n_actions)

        def episode(learned, number):
            policy = Policy(act, (*learned, jnp.zeros(())), draw=uniforms(2), observation="index")
            start = jnp.asarray(number % world.n_states, jnp.int32)
            (*learned, value), _ = play(jax.random.fold_in(key, number), world, policy, start=start, learn=learn)
            return tuple(learned), (value, measure(params, learned[0]))

        return jax.lax.scan(episode, (network, optimiser), numbered(first, count))

    chances = jnp.asarray(np.stack([probabilities(policy, world.n_actions) for policy in world.policies]))
    keys = jax.vmap(lambda number: jax.random.fold_in(key, number))(jnp.arange(len(chances)))
    (networks, optimisers), measured = jax.vmap(learn_policy)(keys, params.networks, state.optimiser, chances)
    return State(params._replace(networks=networks), optimisers), *measured


def train(
    key: jax.Array,
    world: World,
    config: Config,
    state: State | None = None,
    first: Integer = 0,
    episodes: int | None = None,
    data: Dataset | None = None,
    measure: Measure = lambda params, network: None,
) -> tuple[State, Info]:
    """Trains base features and weights first, unless `state` contains them, and then the networks of all policies.

    `first` and `episodes` divide TD into chunks. Fitted iteration runs as a whole; `fit_iteration` is one iteration of
    it. If no `data` are given, they are collected first, which cannot be jitted. Raises ValueError for TD on pictures.
    """
    base_loss = jnp.zeros(0)
    data = collect_data(jax.random.fold_in(key, APART), world, config) if data is None else data
    if config.method == "fitted":
        check_data(data, world, config)
    if state is None:
        state, base_loss = prepare(jax.random.fold_in(key, APART), world, config, data)
    if config.method == "fitted":
        state, losses, measured = _fit(key, state, world, config, data, measure)
    else:
        if config.base.vision.is_picture:
            raise ValueError('TD along episodes sees one-hot states: take method="fitted" for pictures')
        count = config.episodes if episodes is None else episodes
        state, losses, measured = _learn_online(key, state, world, config, first, count, measure)
    return state, Info(base_loss, losses, measured)


def check_data(data: Dataset, world: World, config: Config) -> None:
    """Raises ValueError if the data do not contain all policies and actions whose values the agent compares.

    The data must be those of the world's policies. If the agent compares all actions, the data of each policy must
    contain every action. Data that JAX traces are not checked.
    """
    steps = data.transitions
    if len(steps.counts) != len(world.policies):
        raise ValueError(f"the data hold {len(steps.counts)} policies, and the world brings {len(world.policies)}")
    if is_traced(steps.action, steps.counts) or config.choose == "policies":
        return
    for number, (actions, counts) in enumerate(zip(steps.action, steps.counts, strict=True)):
        missing = sorted(set(range(world.n_actions)) - set(np.asarray(actions)[np.asarray(counts) > 0].tolist()))
        if missing:
            raise ValueError(
                f"the data of policy {number} never take action {missing[0]}, whose value is compared: add "
                'trajectories that begin with it, or take choose="policies"'
            )


def collect_data(key: jax.Array, world: World, config: Config) -> Dataset:
    """Collects the data of the base features. Raises ValueError if these are not what fitted iteration needs."""
    if config.method == "fitted" and config.base.walk != "policies":
        raise ValueError('fitted iteration needs data of the policies that it evaluates: take base.walk="policies"')
    return laplacian.collect_data(key, world, config.base)
