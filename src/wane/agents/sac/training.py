"""One update of SAC or λ-SAC, and what one more step of the task changes.

An update draws a batch from the replay memory. Then, in this order, it

1. finds w by least squares of the batch's rewards on its features;
2. moves the critics towards the soft target and the λF towards its definition, both with target networks;
3. moves the policy towards actions that the new critics value, and α so that the entropy approaches its target;
4. moves the target networks towards the networks, by the fraction `polyak`.

The number of critics, λ, whether the bandit chooses λ, and whether there is a λF are all numbers, so one program trains
all kinds of agents and `vmap` batches it. If such a number is known when the program is made (not traced), the program
leaves out the networks that the agent does not use, so that `costs` can count its FLOPs.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from wane.agents import bandit
from wane.agents.common import replay
from wane.agents.common.networks import MLP
from wane.agents.common.replay import Replay
from wane.agents.sac import equations
from wane.agents.sac.config import Config
from wane.agents.sac.networks import Critics, evaluate, first, join, look, make_actor, make_critics, q_values
from wane.checks import is_traced
from wane.settings import check_setting
from wane.types import AnyArray, Scalar, Tree
from wane.worlds.control import Task

APART = 2**32 - 1
"""Folded into a key, this number gives a key that no step has."""


class Batch(NamedTuple):
    """Transitions."""

    observation: Float[Array, "*batch observations"]
    action: Float[Array, "*batch actions"]
    reward: Float[Array, "*batch"]
    next_observation: Float[Array, "*batch observations"]
    terminated: Float[Array, "*batch"]
    """1 where nothing more can be earned. A truncated step has 0: its future is bootstrapped."""


class Optimisers(NamedTuple):
    """The states of the three optimisers."""

    actor: Tree
    critics: Tree
    temperature: Tree


class State(NamedTuple):
    """Everything that is needed to continue learning. Acting needs only the `params`."""

    params: MLP
    """The policy."""
    critics: Critics
    target: Critics
    log_temperature: Float[Array, "*runs"]
    optimisers: Optimisers
    limits: Float[Array, "*runs two features"]
    """The lowest and the highest value of each feature in all batches so far."""
    bandit: bandit.State
    arm: Int[Array, "*runs"]
    """The arm that was drawn for the present episode."""
    replay: Replay
    simulator: Tree = None
    """The state of the task between two calls of `train`."""


class Terms(NamedTuple):
    """Measurements of an update."""

    critic: Float[AnyArray, "..."]
    features: Float[AnyArray, "..."]
    """The λF's loss."""
    actor: Float[AnyArray, "..."]
    entropy: Float[AnyArray, "..."]
    temperature: Float[AnyArray, "..."]
    value: Float[AnyArray, "..."]
    """The mean of the first critic's values."""
    correction: Float[AnyArray, "..."]
    """The mean of (λ − 1) wᵀ(φ ⊙ φ_λ)."""
    lam: Float[AnyArray, "..."]


def init(key: jax.Array, world: Task, config: Config) -> State:
    """Returns random networks and an empty replay memory. `key` is the key that `train` takes.

    Raises SettingError for two critics and a λF with only two networks.
    """
    if not any(map(is_traced, (config.critics, config.feature_weight))):
        require_networks(config, config.critics, config.feature_weight)
    actor_key, critic_key, arm_key = jax.random.split(jax.random.fold_in(key, APART), 3)
    actor: Any = make_actor(actor_key, world, config)
    critics: Any = make_critics(critic_key, world, config)
    adam, temperature = optax.adam(config.learning_rate), jnp.log(jnp.asarray(config.temperature, float))
    features = world.n_observations + world.n_actions
    limits = jnp.stack([jnp.full(features, jnp.inf), jnp.full(features, -jnp.inf)])
    arms = bandit.init(len(config.lambdas))
    memory = replay.empty(jnp.zeros(row_size(world)), config.memory)
    return State(
        actor,
        critics,
        critics,
        temperature,
        Optimisers(adam.init(actor), adam.init(critics), adam.init(temperature)),
        limits,
        arms,
        bandit.draw(arms, jax.random.uniform(arm_key)),
        memory,
    )


def require_networks(config: Config, critics: ArrayLike, feature_weight: ArrayLike) -> None:
    """Raises SettingError if an agent has two critics and a λF, but the configuration has only two networks."""
    needed = int(np.max(np.asarray(critics) + (np.asarray(feature_weight) > 0)))
    reason = f"{needed} are needed, because an agent has two critics and a λF (feature_weight = 0 leaves the λF out)"
    check_setting(needed <= config.networks, config, "networks", reason)


def row_size(world: Task) -> int:
    """The number of entries of a transition. The memory holds a transition as one row, so one look-up fetches it."""
    return 2 * world.n_observations + world.n_actions + 2


def unpack(rows: Float[Array, "*batch numbers"], world: Task) -> Batch:
    """Returns rows of the memory as transitions."""
    n, m = world.n_observations, world.n_actions
    observation, action, reward, after, terminated = jnp.split(rows, (n, n + m, n + m + 1, 2 * n + m + 1), -1)
    return Batch(observation, action, reward[..., 0], after, terminated[..., 0])


def lam_of(state: State, config: Config) -> Float[Array, ""]:
    """The λ of the present episode."""
    drawn = jnp.asarray(config.lambdas, float)[state.arm]
    return jnp.where(jnp.asarray(config.adaptive) > 0, drawn, jnp.asarray(config.lam, float))


def has_features(config: Config) -> bool:
    """Whether a program must compute the λF: it must, unless the weight of the λF's loss is known to be 0."""
    return is_traced(config.feature_weight) or bool(config.feature_weight > 0)


def n_critics(config: Config) -> int:
    """The number of critics that a program must compute: two, unless the agent is known to have one."""
    return 2 if is_traced(config.critics) or config.critics > 1 else 1


def n_networks(config: Config) -> int:
    """The number of networks that a program must compute, critics and λF together."""
    known = not any(map(is_traced, (config.critics, config.feature_weight)))
    # With two networks, an agent's networks are always the first ones.
    return n_critics(config) + has_features(config) if known and config.networks == 2 else config.networks


def ranges(
    state: State, inputs: Float[Array, "batch features"], config: Config
) -> tuple[State, Float[Array, "..."], Float[Array, "..."]]:
    """The state with the ranges of all batches so far, and the lowest and highest values to scale features by."""
    if config.ranges == "global":
        return state, inputs.min(), inputs.max()
    low, high = inputs.min(0), inputs.max(0)
    if config.ranges == "dimension":
        return state, low, high
    low, high = jnp.minimum(state.limits[0], low), jnp.maximum(state.limits[1], high)
    return state._replace(limits=jnp.stack([low, high])), low, high


class Goals(NamedTuple):
    """The targets of the critics and of the λF, which are constants, and the mean correction."""

    q: Float[Array, " batch"]
    features: Float[Array, "batch features"] | None
    correction: Float[Array, ""]


def goals(
    state: State, data: Batch, phi_t: Float[Array, "batch features"] | None, noise: Array, config: Config
) -> Goals:
    """The soft target and the λF's target of a batch. The present policy draws the actions in the next states."""
    action, log_prob = equations.squash(*look(state.params, data.next_observation, config), noise)
    after, lam = join(data.next_observation, action), lam_of(state, config)
    discount = config.discount * (1 - data.terminated)
    q, phi_lam_next = evaluate(used(state.target, config), after)
    q_next = equations.lower(q, config.critics)
    change, features = jnp.zeros_like(q_next), None
    if phi_t is not None:
        assert phi_lam_next is not None
        weights = equations.reward_weights(phi_t, data.reward, config.ridge)
        change = equations.correction(phi_t, phi_lam_next, weights, lam)
        features = equations.feature_target(phi_t, phi_lam_next, lam, discount)
    temperature = jnp.exp(state.log_temperature)
    q = equations.soft_target(data.reward, discount, q_next, log_prob, temperature, change)
    return Goals(q, features, change.mean())


def update_critics(state: State, data: Batch, noise: Array, config: Config) -> tuple[State, tuple[Array, ...]]:
    """Moves the critics and the λF. Returns the new state and (both losses, the mean value, the mean correction)."""
    inputs, phi_t = join(data.observation, data.action), None
    if has_features(config):
        state, low, high = ranges(state, inputs, config)
        phi_t = equations.scale(inputs, low, high)
    goal = goals(state, data, phi_t, noise, config)

    def loss(critics: Any) -> tuple[Array, tuple[Array, ...]]:
        q, phi_lam = evaluate(critics, inputs)
        error, mismatch = equations.critic_loss(goal.q, q, config.critics), jnp.zeros_like(goal.correction)
        if goal.features is not None and phi_lam is not None:
            mismatch = equations.feature_loss(goal.features, phi_lam)
        return error + config.feature_weight * mismatch, (error, mismatch, q[0].mean())

    critics, optimiser = used(state.critics, config), used(state.optimisers.critics, config)
    slope, (error, mismatch, value) = jax.grad(loss, has_aux=True)(critics)
    change, optimiser = optax.adam(config.learning_rate).update(slope, optimiser, critics)
    new = put_back(state.critics, optax.apply_updates(critics, change))
    optimisers = state.optimisers._replace(critics=put_back(state.optimisers.critics, optimiser))
    return state._replace(critics=new, optimisers=optimisers), (error, mismatch, value, goal.correction)


def used(tree: Tree, config: Config) -> Any:
    """Returns the tree with only those networks in its `Critics` that a program must compute."""

    def take(critics: Any) -> Any:
        if not isinstance(critics, Critics):
            return critics
        hidden, q = first(critics.hidden, n_networks(config)), first(critics.q, n_critics(config))
        return Critics(hidden, q, critics.features if has_features(config) else None)  # pyright: ignore

    return jax.tree_util.tree_map(take, tree, is_leaf=lambda each: isinstance(each, Critics))


def put_back(old: Tree, new: Tree) -> Any:
    """Returns the tree `old` with its networks replaced by those of `new`, which has only the networks of `used`."""

    def put(old: Any, new: Any) -> Any:
        if not isinstance(old, Critics):
            return new
        hidden, q = jax.tree_util.tree_map(fill, (old.hidden, old.q), (new.hidden, new.q))
        return Critics(hidden, q, new.features or old.features)

    def fill(old: Array, new: Array) -> Array:
        return new if len(new) == len(old) else old.at[: len(new)].set(new)

    return jax.tree_util.tree_map(put, old, new, is_leaf=lambda each: isinstance(each, Critics))


def update_actor(
    state: State, data: Batch, noise: Array, world: Task, config: Config
) -> tuple[State, tuple[Array, ...]]:
    """Moves the policy and α. Returns the new state and (the policy's loss, its entropy)."""
    temperature = jnp.exp(state.log_temperature)

    def loss(actor: MLP) -> tuple[Array, Array]:
        action, log_prob = equations.squash(*look(actor, data.observation, config), noise)
        q = q_values(state.critics, join(data.observation, action), n_critics(config))
        return equations.actor_loss(log_prob, equations.lower(q, config.critics), temperature), log_prob

    adam, actor = optax.adam(config.learning_rate), state.params
    (error, log_prob), slope = jax.value_and_grad(loss, has_aux=True)(actor)
    change, actor_optimiser = adam.update(slope, state.optimisers.actor, actor)  # pyright: ignore[reportArgumentType]
    entropy = -world.n_actions if config.entropy is None else config.entropy
    slope = jax.grad(equations.temperature_loss)(state.log_temperature, log_prob, entropy)
    shift, temperature_optimiser = adam.update(slope, state.optimisers.temperature, state.log_temperature)
    state = state._replace(
        params=optax.apply_updates(actor, change),  # pyright: ignore[reportArgumentType]
        log_temperature=optax.apply_updates(state.log_temperature, shift),  # pyright: ignore[reportArgumentType]
        optimisers=Optimisers(actor_optimiser, state.optimisers.critics, temperature_optimiser),
    )
    return state, (error, -log_prob.mean())


def update(state: State, data: Batch, world: Task, config: Config, key: jax.Array) -> tuple[State, Terms]:
    """Takes one gradient step on a batch. Returns the new state and measurements of the step."""
    noise = jax.random.normal(key, (2, *data.action.shape), data.action.dtype)
    state, (error, mismatch, value, change) = update_critics(state, data, noise[0], config)
    state, (loss, entropy) = update_actor(state, data, noise[1], world, config)
    state = state._replace(target=_follow(state, config))
    temperature, lam = jnp.exp(state.log_temperature), lam_of(state, config)
    return state, Terms(error, mismatch, loss, entropy, temperature, value, change, lam)


def _follow(state: State, config: Config) -> Critics:
    """Returns the target networks after they moved towards the networks."""
    new, old = used(state.critics, config), used(state.target, config)
    mixed = jax.tree_util.tree_map(lambda new, old: old + config.polyak * (new - old), new, old)
    return put_back(state.target, mixed)


def remember(
    state: State,
    row: Float[Array, " numbers"],
    ended: bool | Bool[Array, ""],
    earned: Scalar,
    key: jax.Array,
    config: Config,
) -> State:
    """Returns the state after one more step of the task.

    If the step ended an episode, the bandit learns what the episode `earned` and draws the arm of the next episode.
    """
    told = bandit.record(state.bandit, state.arm, earned, config.bandit)
    drawn = bandit.draw(told, jax.random.uniform(key))
    chosen = jax.tree_util.tree_map(
        lambda new, old: jnp.where(ended, new, old), (told, drawn), (state.bandit, state.arm)
    )
    return state._replace(replay=replay.add(state.replay, row[None]), bandit=chosen[0], arm=chosen[1])


def learn(state: State, world: Task, config: Config, key: jax.Array) -> tuple[State, Terms]:
    """Takes one update on a batch from the replay memory. Returns the new state and measurements of the update."""
    draw_key, noise_key = jax.random.split(key)
    draws = jax.random.uniform(draw_key, (config.batch,), dtype=jnp.float32)
    return update(state, unpack(replay.sample(state.replay, draws), world), world, config, noise_key)


class Variant(NamedTuple):
    """The numbers of a `Config` that distinguish kinds of agents."""

    critics: Any = 1
    lam: Any = 1.0
    adaptive: Any = 0
    feature_weight: Any = 0
    averaging: Any = 0.0
    """The bandit's setting of that name."""

    def applied(self, config: Config) -> Config:
        """Returns the settings of an agent of this kind. The numbers may be traced."""
        own = dataclasses.replace(config.bandit, averaging=self.averaging)
        numbers = {name: value for name, value in self._asdict().items() if name != "averaging"}
        return dataclasses.replace(config, bandit=own, **numbers)


def variant_of(config: Config) -> Variant:
    """The kind of agent that a configuration describes."""
    return Variant(config.critics, config.lam, config.adaptive, config.feature_weight, config.bandit.averaging)
