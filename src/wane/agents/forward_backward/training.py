"""Training λO-FB (the paper's Algorithm 3): it collects random transitions, and takes gradient steps on the loss.

Between two updates of the target networks their outputs are constants, which are computed for all batches in between
together. If actions are uniform (ε = 1, as in the paper), the episodes of an epoch need no network and are also played
together. Neither changes the result.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from wane.agents.common import replay
from wane.agents.common.policy import Policy, epsilon_greedy, uniforms
from wane.agents.common.replay import Replay
from wane.agents.common.rollout import play
from wane.agents.forward_backward import lambda_learning
from wane.agents.forward_backward.config import Config
from wane.agents.forward_backward.loss import Batch, Step, Terms, lam_of_batch, loss, with_targets
from wane.agents.forward_backward.networks import Params, make_networks, q_values, sample_lam, sample_z
from wane.agents.forward_backward.probing import Misfit, probe
from wane.agents.forward_backward.tasks import random_goals, with_rewards
from wane.types import Integer, Tree
from wane.worlds.process import Solvable, Tabular, without_threshold

APART = 2**32 - 1
"""Folded into a key, this number gives a key that no epoch and no split has."""


class State(NamedTuple):
    """Everything that is needed to continue training. Acting needs only the `params`."""

    params: Params
    target: Params
    optimiser: Tree
    replay: Replay
    lam: Float[Array, "*states"]
    lam_optimiser: Tree


class Info(NamedTuple):
    """Measurements of each epoch of training."""

    terms: Terms
    """Means over the epoch. All other fields are measured at its end."""
    lam: Float[Array, "epochs *states"]
    misfit: Misfit
    """The error of the learned Φ, for some random z (and random λ, if F is conditioned on λ)."""
    watched: Any = None
    """What `watch` returned after each epoch."""


def init(key: jax.Array, world: Tabular, config: Config) -> State:
    """Returns random networks and an empty replay memory. `key` is the key that `train` takes."""
    params: Any = make_networks(jax.random.fold_in(key, APART), world, config)
    adam, lam = optax.adam(config.learning_rate), jnp.asarray(config.lam, float)
    zero, real = jnp.zeros((), jnp.int32), jnp.zeros(())
    memory = replay.empty(Step(zero, zero, real, real, zero), config.memory)
    return State(params, params, adam.init(params), memory, lam, adam.init(lam))


def collect(key: jax.Array, params: Params | None, world: Tabular, config: Config, episodes: int) -> Step:
    """Plays episodes with ε-greedy actions, each for a random z. Returns their steps, (episodes, T).

    If ε = 1 the actions are uniform and need no networks: then `params` may be None.
    """
    settings: Any = {"horizon": config.horizon}
    room = dataclasses.replace(without_threshold(world), **settings)

    def act(inputs, carry, cell, draws):
        q = jnp.zeros(world.n_actions) if params is None or config.epsilon == 1 else q_values(params, cell, *inputs)
        return epsilon_greedy(q, draws, config.epsilon), carry, None

    def episode(key):
        play_key, goal_key, z_key, lam_key, noise_key = jax.random.split(key, 5)
        task = with_rewards(room, random_goals(goal_key, room.n_states, config.goals)) if config.goals else room
        z = sample_z(z_key, (), config.dimension, config.spread)
        lam = sample_lam(lam_key, (), world.n_states, config.condition)
        played = play(play_key, task, Policy(act, (z, lam), draw=uniforms(2), observation="index"))[1]
        visited = jnp.asarray(task.site_of)[played.cells][:, None] == jnp.arange(task.n_sites)
        reward = (played.remaining * visited).sum(-1)
        reward = reward + config.noise * jax.random.normal(noise_key, reward.shape)
        return Step(played.cells[:-1], played.cells[1:], reward[:-1], reward[1:], played.actions)

    return jax.vmap(episode)(jax.random.split(key, episodes))


def sample(key: jax.Array, memory: Replay, world: Tabular, config: Config) -> Batch:
    """Draws the batches of one cycle: arrays (batches, batch, …)."""
    keys = jax.random.split(key, 3)
    shape = (config.schedule.batches, config.batch)
    *draws, draw = jax.random.uniform(keys[0], (4, *shape))
    step, other, rewards = (replay.sample(memory, draw) for draw in draws)
    column = jnp.floor(draw * world.n_states).astype(jnp.int32)
    z = sample_z(keys[1], shape, config.dimension, config.spread)
    return Batch(step, other.cell, column, z, sample_lam(keys[2], shape, world.n_states, config.condition), rewards)


def update(state: State, data: Batch, world: Tabular, config: Config, key: None = None) -> tuple[State, Terms]:
    """Takes one gradient step on a batch with its targets (lines 14 to 22 of Algorithm 3).

    Returns the new state and the terms of the loss.
    """
    adam = optax.adam(config.learning_rate)
    lam = lam_of_batch(state.lam, data)
    params: Any = state.params  # Optax's own type of trees does not know Equinox modules
    slope, terms = jax.grad(loss, has_aux=True)(params, data, lam, config)
    change, optimiser = adam.update(slope, state.optimiser, params)
    state = state._replace(params=optax.apply_updates(params, change), optimiser=optimiser)
    if config.learn_lam:
        lam, lam_optimiser = lambda_learning.update(state.lam, state.lam_optimiser, data.rewards, adam)
        state = state._replace(lam=lam, lam_optimiser=lam_optimiser)
    return state, terms


def cycle(key: jax.Array, state: State, world: Tabular, config: Config) -> tuple[State, Terms]:
    """Takes the gradient steps between two updates of the target networks, and then updates these."""
    batches = with_targets(sample(key, state.replay, world, config), state.target, config)
    state, terms = jax.lax.scan(lambda state, batch: update(state, batch, world, config), state, batches)
    params: Any = state.params
    target: Any = optax.incremental_update(params, cast(Any, state.target), 1 - config.polyak)
    return state._replace(target=target), terms


def epoch(key: jax.Array, state: State, world: Solvable, config: Config) -> tuple[State, Info]:
    """Runs one epoch of Algorithm 3."""
    play_key, learn_key, probe_key = jax.random.split(key, 3)
    play_keys, learn_keys = (jax.random.split(key, config.schedule.cycles) for key in (play_key, learn_key))

    def gather(key, params):
        return collect(key, params, world, config, config.schedule.episodes)

    early = jax.vmap(gather, (0, None))(play_keys, state.params) if config.epsilon == 1 else None

    def turn(state, now):
        play_key, learn_key, steps = now
        steps = gather(play_key, state.params) if steps is None else steps
        state = state._replace(replay=replay.add(state.replay, steps))
        return cycle(learn_key, state, world, config)

    state, terms = jax.lax.scan(turn, state, (play_keys, learn_keys, early))
    misfit = probe(probe_key, state.params, state.lam, world, config)
    return state, Info(Terms(*(term.mean() for term in terms)), state.lam, misfit)


def watch_key(key: jax.Array, number: Integer) -> jax.Array:
    """The key that `watch` receives after epoch `number`. With it, the same tasks can be drawn again."""
    return jax.random.fold_in(jax.random.fold_in(key, number), APART)


def train(
    key: jax.Array,
    world: Solvable,
    config: Config,
    state: State | None = None,
    first: Integer = 0,
    epochs: int | None = None,
    watch: Callable[[jax.Array, State], Any] | None = None,
) -> tuple[State, Info]:
    """Trains for epochs `first`, `first` + 1, …, by default as many as the configuration says.

    Epoch e uses fold_in(key, e), so training in chunks gives the same result as training in one call. It is a pure
    function: `jit` it, `vmap` it over keys and λ. `watch(key, state)` is called after each epoch, and `Info.watched`
    holds what it returns.

        states, info = jax.jit(jax.vmap(lambda k, lam: train(k, world, Config(lam=lam))))(keys, lams)
    """
    state = init(key, world, config) if state is None else state

    def turn(state, number):
        epoch_key = jax.random.fold_in(key, number)
        state, info = epoch(epoch_key, state, world, config)
        if watch is not None:
            info = info._replace(watched=watch(watch_key(key, number), state))
        return state, info

    numbers = first + jnp.arange(config.schedule.epochs if epochs is None else epochs)
    return jax.lax.scan(turn, state, numbers)
