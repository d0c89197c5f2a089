"""λO-FB: the λ operator by forward–backward learning (the paper's section 6 and Algorithm 3).

Φ_λ of every policy of a family, at once and before any reward is known, in the form

    Φ_λ^{π_z}(s, a, s') ≈ F(s, a, z)ᵀ B(s') μ(s'),        π_z(·|s) = softmax(F(s, ·, z)ᵀ z / τ).

Rewards r name their policy, z_R = Σ_s μ(s) r(s) B(s), and F(s, a, z_R)ᵀ z_R is then its Q_λ. As they wear off, z_R is
made anew from what is left at every step. F and B are learned on random transitions by the sum of four terms, each a
function below. Let F_j = F(s_j, a_j, z_j) and F⁻_j = Σ_a π_z(a|s_{j+1}) F⁻(s_{j+1}, a, z_j), ⁻ for the target networks:

    Bellman           ½ mean_jk (F_jᵀ B(s'_k) − γ F⁻_jᵀ B⁻(s'_k))²                  s'_k ~ μ
    diagonal          −mean_j F_jᵀ B(s_j)
    correction        γ mean_j (1 − λ) μ(s_j) F_jᵀ B(s_j) F⁻_jᵀ B⁻(s_j)             none if λ = 1: the successor measure
    orthonormality    β mean_jk B(s_j)ᵀ B̄(s̃_k) B̄(s_j)ᵀ B̄(s̃_k) − β mean_j B(s_j)ᵀ B̄(s_j)

The last has a quarter of the gradient of ‖E B Bᵀ − I‖², for which the paper gives it.

Where we differ: taken literally, the paper's table is 2,500 gradient steps (`LITERAL`), and does not learn. The default
schedule is that of the method it builds on, 100,000. Between two updates of the target networks, all that comes from
them is constant, so it is computed for all batches of that time at once; and if actions are uniform (ε = 1, as in the
paper), the episodes of an epoch need no network and are played at once too. Neither changes what is computed.

    world, config = make("four-rooms", threshold=None, wall_penalty=0.0, horizon=50), Config(lam=0.5)
    state, info = jax.jit(lambda key: train(key, world, config))(jax.random.key(0))
    goals.returns(jax.random.key(1), world, zero_shot.trained(state.params), episodes=10)
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from wane.agents import fb_model, learn_lambda, replay
from wane.agents.episode import epsilon_greedy, play
from wane.agents.fb_model import Error, Params, backward, forward, rows, sample_lam, sample_z
from wane.agents.goals import with_goals
from wane.agents.replay import Replay, Transitions
from wane.depletion import Geometric, check_range, is_traced
from wane.mdp import check_discount
from wane.worlds.world import World

APART = 2**32 - 1
"""folded into a key, it gives one that no epoch and no split has"""


@dataclass(frozen=True)
class Schedule:
    """`epochs` × `cycles` × (`episodes` played, `batches` gradient steps, one update of the target networks)."""

    epochs: int = 100
    cycles: int = 25
    episodes: int = 4
    batches: int = 40


LITERAL = Schedule(cycles=1, episodes=100, batches=25)
"""the paper's table as it reads: M = 100, E = 100, N = 25"""


@dataclass(frozen=True)
class Config:
    """The paper's table of λO-FB, and what it leaves out."""

    lam: Any = 0.5
    """λ as the agent believes, one number or one for each state; where it is learned, what it starts from"""
    learn_lam: bool = False
    """whether λ is learned beside Φ (the paper: from 1 on)"""
    condition: Literal["nothing", "uniform", "per state"] = "nothing"
    """λ as an input of F, drawn for each sample: one for all states, or one for each (`wane.agents.zero_shot`)"""
    discount: float = 0.99
    """γ; 1 is fine if λ < 1"""
    dimension: int = 100
    """d, of F and B"""
    width: int = 256
    depth: int = 3
    """hidden layers"""
    learning_rate: float = 1e-3
    """η"""
    batch: int = 128
    """B"""
    polyak: float = 0.95
    """α: what the target networks keep of themselves"""
    temperature: float = 200.0
    """τ"""
    epsilon: float = 1.0
    """ε: probability of a uniformly random action in collection"""
    horizon: int = 50
    """T: steps of an episode in collection"""
    regulariser: float = 1.0
    """β"""
    spread: float = 0.5
    """scale of the Cauchy factor of z"""
    schedule: Schedule = Schedule()
    memory: int = 100_000
    """transitions that are kept"""
    goals: int = 0
    """random unit rewards of each episode in collection, to learn λ from; 0: the world's own"""
    noise: float = 0.0
    """standard deviation of the errors of reading those rewards"""
    probes: int = 8
    """policies whose error against the exact Φ is measured after each epoch"""

    def __post_init__(self):
        Geometric(self.lam)
        check_discount(self.discount)
        check_range("epsilon", self.epsilon, 0, 1, "it is a probability")
        if self.condition not in ("nothing", "uniform", "per state"):
            raise ValueError(f'condition is "nothing", "uniform" or "per state", got {self.condition!r}')
        endless = self.condition != "nothing" or (not is_traced(self.lam) and np.any(np.asarray(self.lam) == 1))
        if self.discount == 1 and endless:
            raise ValueError("discount 1 with λ = 1 makes Φ infinite: discount, or let every reward wear off (λ < 1)")


class State(NamedTuple):
    params: Params
    target: Params
    optimiser: Any
    replay: Replay
    lam: Any
    lam_optimiser: Any
    steps: Any
    """gradient steps taken"""


class Batch(NamedTuple):
    """Samples of one gradient step, or of many with an axis more."""

    step: Transitions
    other: Any
    """s̃_k"""
    column: Any
    """s'_k"""
    z: Any
    lam: Any
    """λ inputs of F, or None"""
    rewards: Transitions
    """to learn λ from"""


class Terms(NamedTuple):
    bellman: Any
    diagonal: Any
    correction: Any
    orthonormality: Any


class Info(NamedTuple):
    terms: Terms
    """means over the epoch; all else is of its end"""
    lam: Any
    error: Error
    """of FᵀBμ, for some random z (and λ, where F is conditioned on it)"""
    watched: Any = None


def bellman_term(f: Any, b: Any, ahead: Any, discount: Any) -> Any:
    """½ mean_jk (F_jᵀ B(s'_k) − γ F⁻_jᵀ B⁻(s'_k))², with `ahead` the (j, k) array of F⁻_jᵀ B⁻(s'_k)."""
    return 0.5 * jnp.mean((f @ b.T - discount * ahead) ** 2)


def diagonal_term(own: Any) -> Any:
    """−mean_j F_jᵀ B(s_j)"""
    return -jnp.mean(own)


def correction_term(own: Any, ahead_own: Any, lam: Any, mu: Any, discount: Any) -> Any:
    """γ mean_j (1 − λ(s_j)) μ(s_j) F_jᵀ B(s_j) F⁻_jᵀ B⁻(s_j): what keeps a visited state from counting in full."""
    return discount * jnp.mean((1 - lam) * mu * own * ahead_own)


def orthonormality_term(b: Any, other: Any) -> Any:
    """mean_jk B_jᵀ B̄(s̃_k) B̄_jᵀ B̄(s̃_k) − mean_j B_jᵀ B̄_j: its gradient is a quarter of ‖E B Bᵀ − I‖²'s."""
    fixed, other = jax.lax.stop_gradient(b), jax.lax.stop_gradient(other)
    second_moment = other.T @ other / len(other)
    return jnp.mean(jnp.sum((b @ second_moment - b) * fixed, -1))


def init(key: jax.Array, world: World, config: Config) -> State:
    """Random networks and an empty memory; takes the key that `train` is given."""
    keys = jax.random.split(jax.random.fold_in(key, APART), 2)
    n, d, hidden = world.n_states, config.dimension, [config.width] * config.depth
    lam_inputs = {"nothing": 0, "uniform": 1, "per state": n}[config.condition]
    params = Params(
        fb_model.layers(keys[0], [n + d + lam_inputs, *hidden, d * world.n_actions]),
        fb_model.layers(keys[1], [n, *hidden, d]),
    )
    adam, lam, zero = optax.adam(config.learning_rate), jnp.asarray(config.lam, float), jnp.zeros((), jnp.int32)
    return State(params, params, adam.init(params), replay.empty(config.memory), lam, adam.init(lam), zero)


def collect(key: jax.Array, params: Params, world: World, config: Config, episodes: int) -> Transitions:
    """Transitions of so many episodes, (episodes, T), each under a random z: ε-greedy, or uniform if ε = 1."""
    playing = dataclasses.replace(world, horizon=config.horizon, threshold=None)

    def act(inputs, cell, left, draws):
        q = jnp.zeros(world.n_actions) if config.epsilon == 1 else fb_model.q_values(params, cell, *inputs)
        return epsilon_greedy(q, draws, config.epsilon)

    def episode(key):
        play_key, goal_key, z_key, lam_key, noise_key = jax.random.split(key, 5)
        room = with_goals(goal_key, playing, config.goals) if config.goals else playing
        z = sample_z(z_key, (), config.dimension, config.spread)
        lam = sample_lam(lam_key, (), world.n_states, config.condition)
        seen = play(play_key, room, act, (z, lam), draws=2)[1]
        reward = (seen.remaining * (seen.cells[:, None] == room.sites)).sum(-1)
        reward = reward + config.noise * jax.random.normal(noise_key, reward.shape)
        return Transitions(seen.cells[:-1], seen.cells[1:], reward[:-1], reward[1:], seen.actions)

    return jax.vmap(episode)(jax.random.split(key, episodes))


def sample(key: jax.Array, memory: Replay, world: World, config: Config) -> Batch:
    """The batches of one cycle: arrays (batches, batch, …)."""
    keys = jax.random.split(key, 3)
    shape = (config.schedule.batches, config.batch)
    *draws, draw = jax.random.uniform(keys[0], (4, *shape))
    step, other, rewards = (replay.pick(memory, draw) for draw in draws)
    column = jnp.floor(draw * world.n_states).astype(jnp.int32)
    z = sample_z(keys[1], shape, config.dimension, config.spread)
    return Batch(step, other.cell, column, z, sample_lam(keys[2], shape, world.n_states, config.condition), rewards)


def targets(target: Params, batch: Batch, config: Config) -> tuple[jax.Array, jax.Array]:
    """F⁻_jᵀ B⁻(s'_k) and F⁻_jᵀ B⁻(s_j): arrays (…, j, k) and (…, j)."""
    features = fb_model.policy_features(target.forward, batch.step.next_cell, batch.z, batch.lam, config.temperature)
    table = backward(target.backward)
    own = jnp.einsum("...d,...d->...", features, table[batch.step.cell])
    return jnp.einsum("...jd,...kd->...jk", features, table[batch.column]), own


def loss(params: Params, batch: Batch, target: tuple[Any, Any], lam: Any, config: Config) -> tuple[Any, Terms]:
    """The loss of Algorithm 3 and its terms; `target` is what `targets` gives, `lam` λ(s_j)."""
    features = forward(params.forward, batch.step.cell, batch.z, batch.lam)
    taken = jax.nn.one_hot(batch.step.action, features.shape[1], dtype=features.dtype)
    f = jnp.einsum("ja,jad->jd", taken, features)
    table = backward(params.backward)
    b, b_column, b_other = rows(table, jnp.stack([batch.step.cell, batch.column, batch.other]))
    own, (ahead, ahead_own) = jnp.sum(f * b, -1), target
    terms = Terms(
        bellman_term(f, b_column, ahead, config.discount),
        diagonal_term(own),
        correction_term(own, ahead_own, lam, 1 / len(table), config.discount),
        config.regulariser * orthonormality_term(b, b_other),
    )
    return sum(terms), terms


def lam_at(lam: Any, batch: Batch) -> Any:
    """λ(s_j): the drawn one if F is conditioned on it, else the agent's."""
    cell = batch.step.cell
    if batch.lam is None:
        return learn_lambda.at(lam, cell)
    return batch.lam[:, 0] if batch.lam.shape[-1] == 1 else batch.lam[jnp.arange(len(cell)), cell]


def update(state: State, batch: Batch, target: tuple[Any, Any], config: Config) -> tuple[State, Terms]:
    """One gradient step (lines 14 to 22 of Algorithm 3)."""
    adam = optax.adam(config.learning_rate)
    lam = lam_at(state.lam, batch)
    slope, terms = jax.grad(loss, has_aux=True)(state.params, batch, target, lam, config)
    change, optimiser = adam.update(slope, state.optimiser, state.params)
    params = jax.tree_util.tree_map(jnp.add, state.params, change)
    state = state._replace(params=params, optimiser=optimiser, steps=state.steps + 1)
    if config.learn_lam:
        lam, lam_optimiser = learn_lambda.update(state.lam, state.lam_optimiser, batch.rewards, adam)
        state = state._replace(lam=lam, lam_optimiser=lam_optimiser)
    return state, terms


def cycle(key: jax.Array, state: State, world: World, config: Config) -> tuple[State, Terms]:
    """The gradient steps between two updates of the target networks, and that update."""
    batches, keep = sample(key, state.replay, world, config), config.polyak
    fixed = targets(state.target, batches, config)
    state, terms = jax.lax.scan(lambda state, now: update(state, *now, config), state, (batches, fixed))
    target = jax.tree_util.tree_map(lambda old, new: keep * old + (1 - keep) * new, state.target, state.params)
    return state._replace(target=target), terms


def epoch(key: jax.Array, state: State, world: World, config: Config) -> tuple[State, Info]:
    """One epoch of Algorithm 3."""
    play_key, learn_key, probe_key = jax.random.split(key, 3)
    play_keys, learn_keys = (jax.random.split(key, config.schedule.cycles) for key in (play_key, learn_key))

    def gather(key, params):
        return collect(key, params, world, config, config.schedule.episodes)

    early = jax.vmap(gather, (0, None))(play_keys, state.params) if config.epsilon == 1 else None

    def turn(state, now):
        play_key, learn_key, fresh = now
        fresh = gather(play_key, state.params) if fresh is None else fresh
        state = state._replace(replay=replay.remember(state.replay, fresh))
        return cycle(learn_key, state, world, config)

    state, terms = jax.lax.scan(turn, state, (play_keys, learn_keys, early))
    return state, Info(Terms(*(term.mean() for term in terms)), state.lam, probe(probe_key, state, world, config))


def probe(key: jax.Array, state: State, world: World, config: Config) -> Error:
    """`representation_error` for some random z, and λ where F is conditioned on it."""
    z_key, lam_key = jax.random.split(key)
    z = sample_z(z_key, (config.probes,), config.dimension, config.spread)
    drawn = sample_lam(lam_key, (config.probes,), world.n_states, config.condition)
    lam = jnp.broadcast_to(state.lam, (config.probes, *state.lam.shape)) if drawn is None else drawn
    return jax.vmap(lambda z, lam: representation_error(state.params, z, lam, world, config))(z, lam)


def train(
    key: jax.Array,
    world: World,
    config: Config,
    state: State | None = None,
    first: Any = 0,
    epochs: int | None = None,
    watch: Callable[[jax.Array, State], Any] | None = None,
) -> tuple[State, Info]:
    """Epochs `first`, `first` + 1, …, each with a key of its own: in parts it comes to the same as at once.

    A pure function: `jit` it, `vmap` it over keys and λ. What `watch` makes of each epoch's end is kept.

        states, info = jax.jit(jax.vmap(lambda k, lam: train(k, world, Config(lam=lam))))(keys, lams)
    """
    state = init(key, world, config) if state is None else state

    def turn(state, e):
        e_key = jax.random.fold_in(key, e)
        state, info = epoch(e_key, state, world, config)
        return state, info if watch is None else info._replace(watched=watch(jax.random.fold_in(e_key, APART), state))

    numbers = first + jnp.arange(config.schedule.epochs if epochs is None else epochs)
    return jax.lax.scan(turn, state, numbers)


def exact(params: Params, z: Any, lam: Any, world: World, config: Config) -> jax.Array:
    """Φ_λ(s, a, s') of the softmax policy of z, exactly: an array (states, actions, states)."""
    features = fb_model.everywhere(params, z, None if config.condition == "nothing" else lam)
    return fb_model.exact(world, fb_model.policy(features, z, config.temperature), lam, config.discount)


def representation_error(params: Params, z: Any, lam: Any, world: World, config: Config) -> Error:
    """How far F(s, a, z)ᵀ B(s') μ(s') is from that."""
    found = fb_model.model(params, z, None if config.condition == "nothing" else lam)
    return fb_model.compare(found, exact(params, z, lam, world, config))
