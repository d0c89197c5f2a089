"""Training λO-FB (the paper's Algorithm 3): it collects random transitions, and takes gradient steps on the loss.

The loss has four terms, each a function (lines 14 to 19). With F_j = F(s_j, a_j, z_j) and
F⁻_j = Σ_a π_z(a|s_{j+1}) F⁻(s_{j+1}, a, z_j), where ⁻ marks the target networks and B̄ is B without a gradient, they are

    Bellman           ½ mean_jk (F_jᵀ B(s'_k) − γ F⁻_jᵀ B⁻(s'_k))²,                        s'_k ~ μ
    diagonal          −mean_j F_jᵀ B(s_j)
    correction        γ mean_j (1 − λ) μ(s_j) F_jᵀ B(s_j) F⁻_jᵀ B⁻(s_j)
    orthonormality    β mean_jk B(s_j)ᵀ B̄(s̃_k) B̄(s_j)ᵀ B̄(s̃_k) − β mean_j B(s_j)ᵀ B̄(s_j)

The correction vanishes for λ = 1, the successor measure. The gradient of the orthonormality term is a quarter of the
gradient of ‖E B Bᵀ − I‖², which is the paper's regulariser.

Between two updates of the target networks their outputs are constants, which are computed for all samples in between
together. If actions are uniform (ε = 1, as in the paper), the episodes of an epoch need no network and are also played
together. Neither changes the result.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from wane.agents.common import replay
from wane.agents.common.networks import descend
from wane.agents.common.policy import Policy, epsilon_greedy, uniforms
from wane.agents.common.replay import Replay
from wane.agents.common.rollout import play
from wane.agents.common.training import APART, train_epochs
from wane.agents.forward_backward import lambda_learning
from wane.agents.forward_backward.lambda_learning import Step
from wane.agents.forward_backward.model import (
    Config,
    Params,
    make_networks,
    q_values,
    rows,
    sample_lam,
    sample_z,
    softmax_policy,
)
from wane.agents.forward_backward.probing import Misfit, probe
from wane.agents.forward_backward.tasks import random_goals, with_rewards
from wane.types import Integer, Scalar, Tree
from wane.worlds.process import Solvable, Tabular, without_threshold

Features = Float[Array, "batch dimension"]


class Samples(NamedTuple):
    """The samples of one gradient step, or of many with a further axis."""

    step: Step
    other: Int[Array, "*batch"]
    """s̃_k"""
    column: Int[Array, "*batch"]
    """s'_k"""
    z: Float[Array, "*batch dimension"]
    lam: Float[Array, "*batch lams"] | None
    """The λ inputs of F."""
    rewards: Step
    """The steps from which λ is learned."""
    target: Float[Array, "*batch columns"] | None = None
    """F⁻_jᵀ B⁻(s'_k), with j along the last axis but one."""
    target_own: Float[Array, "*batch"] | None = None
    """F⁻_jᵀ B⁻(s_j)"""


class Terms(NamedTuple):
    """The four terms of the loss."""

    bellman: Float[Array, "*steps"]
    diagonal: Float[Array, "*steps"]
    correction: Float[Array, "*steps"]
    orthonormality: Float[Array, "*steps"]


def bellman_term(
    f: Features, b_column: Float[Array, "columns dimension"], target: Float[Array, "batch columns"], discount: Scalar
) -> Float[Array, ""]:
    """½ mean_jk (F_jᵀ B(s'_k) − γ F⁻_jᵀ B⁻(s'_k))², where `target` is F⁻_jᵀ B⁻(s'_k)."""
    return 0.5 * jnp.mean((f @ b_column.T - discount * target) ** 2)


def diagonal_term(own: Float[Array, " batch"]) -> Float[Array, ""]:
    """−mean_j F_jᵀ B(s_j), where `own` is F_jᵀ B(s_j)."""
    return -jnp.mean(own)


def correction_term(
    own: Float[Array, " batch"],
    target_own: Float[Array, " batch"],
    lam: Scalar | Float[Array, " batch"],
    mu: Scalar,
    discount: Scalar,
) -> Float[Array, ""]:
    """γ mean_j (1 − λ(s_j)) μ(s_j) F_jᵀ B(s_j) F⁻_jᵀ B⁻(s_j): later visits to a visited state count for less."""
    return jnp.asarray(discount * jnp.mean((1 - lam) * mu * own * target_own))


def orthonormality_term(b: Features, b_other: Features) -> Float[Array, ""]:
    """mean_jk B_jᵀ B̄(s̃_k) B̄_jᵀ B̄(s̃_k) − mean_j B_jᵀ B̄_j."""
    fixed, b_other = jax.lax.stop_gradient(b), jax.lax.stop_gradient(b_other)
    second_moment = b_other.T @ b_other / len(b_other)
    return jnp.mean(jnp.sum((b @ second_moment - b) * fixed, -1))


def with_targets(samples: Samples, target: Params, config: Config) -> Samples:
    """Adds F⁻_jᵀ B⁻(s'_k) and F⁻_jᵀ B⁻(s_j) to a samples. They are constant between two updates of the targets."""
    features = target.forward(samples.step.next_cell, samples.z, samples.lam)
    chances = softmax_policy(features, samples.z, config.temperature)
    f_next = jnp.einsum("...a,...ad->...d", chances, features)
    table = target.backward()
    own = jnp.einsum("...d,...d->...", f_next, table[samples.step.cell])
    columns = jnp.einsum("...jd,...kd->...jk", f_next, table[samples.column])
    return samples._replace(target=columns, target_own=own)


def loss(
    params: Params, samples: Samples, lam: Scalar | Float[Array, " batch"], config: Config
) -> tuple[Float[Array, ""], Terms]:
    """The loss of Algorithm 3 and its terms, for samples with their targets and λ(s_j)."""
    features = params.forward(samples.step.cell, samples.z, samples.lam)
    taken = jax.nn.one_hot(samples.step.action, features.shape[1], dtype=features.dtype)
    f = jnp.einsum("ja,jad->jd", taken, features)
    table = params.backward()
    b, b_column, b_other = rows(table, jnp.stack([samples.step.cell, samples.column, samples.other]))
    own = jnp.sum(f * b, -1)
    assert samples.target is not None
    assert samples.target_own is not None
    terms = Terms(
        bellman_term(f, b_column, samples.target, config.discount),
        diagonal_term(own),
        correction_term(own, samples.target_own, lam, 1 / len(table), config.discount),
        config.regulariser * orthonormality_term(b, b_other),
    )
    return terms.bellman + terms.diagonal + terms.correction + terms.orthonormality, terms


def lam_of_samples(lam: Any, samples: Samples) -> Any:
    """λ(s_j): the λ that was drawn if F is conditioned on λ, else the agent's."""
    cell = samples.step.cell
    if samples.lam is None:
        lam = jnp.asarray(lam)
        return lam if lam.ndim == 0 else lam[cell]
    return samples.lam[:, 0] if samples.lam.shape[-1] == 1 else samples.lam[jnp.arange(len(cell)), cell]


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
    """Returns random networks and an empty replay. `key` is the key that `train` takes."""
    params: Any = make_networks(jax.random.fold_in(key, APART), world, config)
    adam, lam = optax.adam(config.learning_rate), jnp.asarray(config.lam, float)
    zero, real = jnp.zeros((), jnp.int32), jnp.zeros(())
    empty = replay.empty(Step(zero, zero, real, real, zero), config.replay)
    return State(params, params, adam.init(params), empty, lam, adam.init(lam))


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


def sample(key: jax.Array, steps: Replay, world: Tabular, config: Config) -> Samples:
    """Draws the batches of one cycle: arrays (batches, batch, …)."""
    keys = jax.random.split(key, 3)
    shape = (config.schedule.batches, config.batch)
    *draws, draw = jax.random.uniform(keys[0], (4, *shape))
    step, other, rewards = (replay.sample(steps, draw) for draw in draws)
    column = jnp.floor(draw * world.n_states).astype(jnp.int32)
    z = sample_z(keys[1], shape, config.dimension, config.spread)
    return Samples(step, other.cell, column, z, sample_lam(keys[2], shape, world.n_states, config.condition), rewards)


def update(state: State, data: Samples, world: Tabular, config: Config, key: None = None) -> tuple[State, Terms]:
    """Takes one gradient step on a batch with its targets (lines 14 to 22 of Algorithm 3).

    Returns the new state and the terms of the loss.
    """
    adam = optax.adam(config.learning_rate)
    lam = lam_of_samples(state.lam, data)
    slope, terms = jax.grad(loss, has_aux=True)(state.params, data, lam, config)
    params, optimiser = descend(adam, slope, state.optimiser, state.params)
    state = state._replace(params=params, optimiser=optimiser)
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


def _epoch(world: Solvable, config: Config, key: jax.Array, state: State) -> tuple[State, Info]:
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

    It is a pure function: `jit` it, `vmap` it over keys and λ. `watch(key, state)` is called after each epoch, and
    `Info.watched` holds what it returns.

        states, info = jax.jit(jax.vmap(lambda k, lam: train(k, world, Config(lam=lam))))(keys, lams)
    """
    state = init(key, world, config) if state is None else state
    count = config.schedule.epochs if epochs is None else epochs
    return train_epochs(key, state, first, count, partial(_epoch, world, config), watch)
