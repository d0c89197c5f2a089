"""The algorithm from top to bottom: networks, targets, one update, the policy; with the functions of `equations`.

An update takes a batch from the replay. Then, in this order, it

1. finds w by least squares of the batch's rewards on its features;
2. moves the critics towards the soft target and the λF towards its definition, both with target networks;
3. moves the policy towards actions that the new critics value, and α so that the entropy approaches its target;
4. moves the target networks towards the networks, by the fraction `polyak`.

An agent has one critic or two, and a λF or none. All are networks with the same hidden layers, and JAX may trace the
settings that choose, so one program trains agents of all kinds: the second network is a critic for some agents and a λF
for others. An agent neither uses nor changes networks that it does not need, and where the settings are not traced, the
program leaves them out (`needed_networks`).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from wane.agents import bandit
from wane.agents.common import replay
from wane.agents.common.networks import MLP, Linear, descend, make_linear, make_mlp
from wane.agents.common.policy import Policy, no_draws
from wane.agents.common.replay import Replay
from wane.agents.common.training import APART
from wane.agents.sac import equations
from wane.agents.sac.config import Config
from wane.checks import is_traced
from wane.types import AnyArray, Flag, Scalar, Tree
from wane.worlds.base import select
from wane.worlds.control import ControlTask


class Critics(NamedTuple):
    """The networks that value actions: the critics and the λF."""

    hidden: MLP
    """The hidden layers of all networks along the first axis: the critics come first, and the λF is the last one."""
    q: Linear
    """The last layers of two critics along the first axis."""
    features: Linear | None
    """The last layer of the λF φ_λ(s, a)."""


def make_actor(key: jax.Array, task: ControlTask, config: Config) -> MLP:
    """A random policy."""
    return make_mlp(key, [task.n_observations, *config.hidden, 2 * task.n_actions])


def make_critics(key: jax.Array, task: ControlTask, config: Config) -> Critics:
    """Random critics and a random λF."""
    hidden_key, q_key, feature_key = jax.random.split(key, 3)
    inputs, width = task.n_observations + task.n_actions, config.hidden[-1]
    hidden_keys = jax.random.split(hidden_key, config.networks)
    hidden: MLP = jax.vmap(lambda key: make_mlp(key, [inputs, *config.hidden]))(hidden_keys)
    q: Linear = jax.vmap(lambda key: make_linear(key, width, 1))(jax.random.split(q_key))
    return Critics(hidden, q, make_linear(feature_key, width, inputs))


def join(observation: Float[Array, "*batch observations"], action: Float[Array, "*batch actions"]) -> Array:
    """[s, a]: the input of the critics and of the λF, and also the features before they are scaled."""
    return jnp.concatenate([observation, action], -1)


def evaluate(
    critics: Critics, inputs: Float[Array, "*batch inputs"]
) -> tuple[Float[Array, "critics *batch"], Float[Array, "*batch features"] | None]:
    """Returns the values of [s, a] by all critics that have a last layer, and φ_λ, or None without a last layer."""
    hidden = jax.nn.relu(jax.vmap(lambda network: network(inputs))(critics.hidden))
    q = jax.vmap(lambda layer, units: layer(units)[..., 0])(critics.q, hidden[: len(critics.q.bias)])
    return q, critics.features(hidden[-1]) if critics.features is not None else None


def q_values(critics: Critics, inputs: Float[Array, "*batch inputs"], count: int = 2) -> Float[Array, "critics *batch"]:
    """The values of [s, a] by the first `count` critics."""
    return evaluate(Critics(first(critics.hidden, count), first(critics.q, count), None), inputs)[0]


def first(tree: Tree, count: int) -> Any:
    """Returns a tree with the first `count` entries of all its arrays."""
    return jax.tree_util.tree_map(lambda leaf: leaf[:count], tree)


def needed_networks(tree: Tree, config: Config) -> Any:
    """Returns the tree with only those networks in its `Critics` that a program must compute."""

    def only(critics: Any) -> Any:
        if not isinstance(critics, Critics):
            return critics
        hidden, q = first(critics.hidden, config.n_networks), first(critics.q, config.n_critics)
        return Critics(hidden, q, critics.features if config.has_features else None)

    return jax.tree_util.tree_map(only, tree, is_leaf=lambda each: isinstance(each, Critics))


def replace_networks(old: Tree, new: Tree) -> Any:
    """Returns the tree `old` with its networks replaced by those of `new`, which has only the needed ones."""

    def replace(old: Any, new: Any) -> Any:
        if not isinstance(old, Critics):
            return new
        hidden, q = jax.tree_util.tree_map(fill, (old.hidden, old.q), (new.hidden, new.q))
        return Critics(hidden, q, new.features or old.features)

    def fill(old: Array, new: Array) -> Array:
        return new if len(new) == len(old) else old.at[: len(new)].set(new)

    return jax.tree_util.tree_map(replace, old, new, is_leaf=lambda each: isinstance(each, Critics))


def action_distribution(
    actor: MLP, observation: Float[Array, "*batch observations"], config: Config
) -> tuple[Float[Array, "*batch actions"], Float[Array, "*batch actions"]]:
    """The mean and the log of the standard deviation of the policy's action in a state, before tanh."""
    mean, raw = jnp.split(actor(observation), 2, -1)
    limited = jnp.clip(raw, *config.limits)
    return mean, limited / 2 if config.spread == "variance" else limited


class Transitions(NamedTuple):
    """A batch of transitions."""

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


def init(key: jax.Array, world: ControlTask, config: Config) -> State:
    """Returns random networks and an empty replay. `key` is the key that `train` takes.

    Raises SettingError for two critics and a λF with only two networks.
    """
    if not is_traced(config.critics, config.lambda_features):
        config.require_networks(config.critics, config.lambda_features)
    actor_key, critic_key, arm_key = jax.random.split(jax.random.fold_in(key, APART), 3)
    actor: Any = make_actor(actor_key, world, config)
    critics: Any = make_critics(critic_key, world, config)
    adam, temperature = optax.adam(config.learning_rate), jnp.log(jnp.asarray(config.temperature, float))
    features = world.n_observations + world.n_actions
    arms = bandit.init(len(config.lambdas))
    return State(
        actor,
        critics,
        critics,
        temperature,
        Optimisers(adam.init(actor), adam.init(critics), adam.init(temperature)),
        jnp.stack([jnp.full(features, jnp.inf), jnp.full(features, -jnp.inf)]),
        arms,
        bandit.sample(arms, jax.random.uniform(arm_key)),
        replay.empty(jnp.zeros(row_size(world)), config.replay),
    )


def row_size(world: ControlTask) -> int:
    """The number of entries of a transition. The replay holds a transition as one row, so one look-up fetches it."""
    return 2 * world.n_observations + world.n_actions + 2


def unpack(rows: Float[Array, "*batch numbers"], world: ControlTask) -> Transitions:
    """Returns rows of the replay as transitions."""
    n, m = world.n_observations, world.n_actions
    observation, action, reward, after, terminated = jnp.split(rows, (n, n + m, n + m + 1, 2 * n + m + 1), -1)
    return Transitions(observation, action, reward[..., 0], after, terminated[..., 0])


def lam_of(state: State, config: Config) -> Float[Array, ""]:
    """The λ of the present episode."""
    return jnp.where(config.adaptive, jnp.asarray(config.lambdas, float)[state.arm], jnp.asarray(config.lam, float))


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


class Targets(NamedTuple):
    """The targets of the critics and of the λF, which are constants, and the mean correction."""

    q: Float[Array, " batch"]
    features: Float[Array, "batch features"] | None
    correction: Float[Array, ""]


def targets(
    state: State, data: Transitions, phi_t: Float[Array, "batch features"] | None, noise: Array, config: Config
) -> Targets:
    """The soft target and the λF's target of a batch. The present policy draws the actions in the next states."""
    action, log_prob = equations.squash(*action_distribution(state.params, data.next_observation, config), noise)
    discount, lam = config.discount * (1 - data.terminated), lam_of(state, config)
    q, phi_lam_next = evaluate(needed_networks(state.target, config), join(data.next_observation, action))
    q_next = equations.lower(q, config.critics)
    change, features = jnp.zeros_like(q_next), None
    if phi_t is not None:
        assert phi_lam_next is not None
        weights = equations.reward_weights(phi_t, data.reward, config.ridge)
        change = equations.correction(phi_t, phi_lam_next, weights, lam)
        features = equations.feature_target(phi_t, phi_lam_next, lam, discount)
    temperature = jnp.exp(state.log_temperature)
    q = equations.soft_target(data.reward, discount, q_next, log_prob, temperature, change)
    return Targets(q, features, change.mean())


def update_critics(state: State, data: Transitions, noise: Array, config: Config) -> tuple[State, tuple[Array, ...]]:
    """Moves the critics and the λF. Returns the new state and (both losses, the mean value, the mean correction)."""
    inputs, phi_t = join(data.observation, data.action), None
    if config.has_features:
        state, low, high = ranges(state, inputs, config)
        phi_t = equations.scale(inputs, low, high)
    goal = targets(state, data, phi_t, noise, config)

    def loss(critics: Any) -> tuple[Array, tuple[Array, ...]]:
        q, phi_lam = evaluate(critics, inputs)
        error, mismatch = equations.critic_loss(goal.q, q, config.critics), jnp.zeros_like(goal.correction)
        if goal.features is not None and phi_lam is not None:
            mismatch = equations.feature_loss(goal.features, phi_lam)
        # An agent without a λF may be trained together with others that have one.
        return error + jnp.asarray(config.lambda_features, error.dtype) * mismatch, (error, mismatch, q[0].mean())

    old = state.critics, state.optimisers.critics
    critics, optimiser = needed_networks(old, config)
    slope, (error, mismatch, value) = jax.grad(loss, has_aux=True)(critics)
    new = descend(optax.adam(config.learning_rate), slope, optimiser, critics)
    critics, optimiser = replace_networks(old, new)
    state = state._replace(critics=critics, optimisers=state.optimisers._replace(critics=optimiser))
    return state, (error, mismatch, value, goal.correction)


def update_actor(
    state: State, data: Transitions, noise: Array, world: ControlTask, config: Config
) -> tuple[State, tuple[Array, ...]]:
    """Moves the policy and α. Returns the new state and (the policy's loss, its entropy)."""
    temperature = jnp.exp(state.log_temperature)

    def loss(actor: MLP) -> tuple[Array, Array]:
        action, log_prob = equations.squash(*action_distribution(actor, data.observation, config), noise)
        q = q_values(state.critics, join(data.observation, action), config.n_critics)
        return equations.actor_loss(log_prob, equations.lower(q, config.critics), temperature), log_prob

    adam, optimisers = optax.adam(config.learning_rate), state.optimisers
    (error, log_prob), slope = jax.value_and_grad(loss, has_aux=True)(state.params)
    actor, actor_optimiser = descend(adam, slope, optimisers.actor, state.params)
    entropy = -world.n_actions if config.entropy is None else config.entropy
    slope = jax.grad(equations.temperature_loss)(state.log_temperature, log_prob, entropy)
    log_temperature, optimiser = descend(adam, slope, optimisers.temperature, state.log_temperature)
    optimisers = Optimisers(actor_optimiser, optimisers.critics, optimiser)
    state = state._replace(params=actor, log_temperature=log_temperature, optimisers=optimisers)
    return state, (error, -log_prob.mean())


def update(state: State, data: Transitions, world: ControlTask, config: Config, key: jax.Array) -> tuple[State, Terms]:
    """Takes one gradient step on a batch. Returns the new state and measurements of the step."""
    noise = jax.random.normal(key, (2, *data.action.shape), data.action.dtype)
    state, (error, mismatch, value, change) = update_critics(state, data, noise[0], config)
    state, (loss, entropy) = update_actor(state, data, noise[1], world, config)
    state = state._replace(target=follow(state, config))
    temperature, lam = jnp.exp(state.log_temperature), lam_of(state, config)
    return state, Terms(error, mismatch, loss, entropy, temperature, value, change, lam)


def follow(state: State, config: Config) -> Critics:
    """Returns the target networks after they moved towards the networks."""
    new, old = needed_networks((state.critics, state.target), config)
    mixed = jax.tree_util.tree_map(lambda new, old: old + config.polyak * (new - old), new, old)
    return replace_networks(state.target, mixed)


def learn(state: State, world: ControlTask, config: Config, key: jax.Array) -> tuple[State, Terms]:
    """Takes one update on a batch from the replay. Returns the new state and measurements of the update."""
    draw_key, noise_key = jax.random.split(key)
    draws = jax.random.uniform(draw_key, (config.batch,), dtype=jnp.float32)
    return update(state, unpack(replay.sample(state.replay, draws), world), world, config, noise_key)


def remember(
    state: State, row: Float[Array, " numbers"], ended: Flag, earned: Scalar, key: jax.Array, config: Config
) -> State:
    """Returns the state after one more step of the task, whose transition is put into the replay.

    If the step ended an episode, the bandit learns what the episode `earned` and draws the arm of the next episode.
    """
    arms = bandit.record(state.bandit, state.arm, earned, config.bandit)
    arm = bandit.sample(arms, jax.random.uniform(key))
    arms, arm = select(jnp.asarray(ended), (arms, arm), (state.bandit, state.arm))
    return state._replace(replay=replay.add(state.replay, row[None]), bandit=arms, arm=arm)


def best_action(actor: MLP, observation: Float[Array, "*batch observations"]) -> Float[Array, "*batch actions"]:
    """The action without noise: tanh of the mean."""
    return jnp.tanh(jnp.split(actor(observation), 2, -1)[0])


def sampled_action(actor: MLP, observation: Float[Array, " observations"], key: jax.Array, config: Config) -> Array:
    """An action drawn from the policy."""
    mean, log_deviation = action_distribution(actor, observation, config)
    return equations.squash(mean, log_deviation, jax.random.normal(key, mean.shape, mean.dtype))[0]


def policy(params: MLP, world: ControlTask, config: Config) -> Policy:
    """Returns the policy without noise: its action is tanh of the mean."""
    return Policy(_act_best, params, draw=no_draws)


def sampled_policy(params: MLP, world: ControlTask, config: Config) -> Policy:
    """Returns the policy that is trained: it draws its actions."""
    return Policy(partial(_act_at_random, config), params)


def _act_best(params: MLP, carry: None, observation: Any, key: None) -> tuple[Array, None, None]:
    return best_action(params, jnp.asarray(observation)), None, None


def _act_at_random(
    config: Config, params: MLP, carry: None, observation: Any, key: jax.Array
) -> tuple[Array, None, None]:
    return sampled_action(params, jnp.asarray(observation), key, config), None, None
