"""Training the learned λ operator: rewards are drawn, and the network is fitted to the exact Φ of their policies."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from wane.agents import forward_backward
from wane.agents.forward_backward.training import APART, collect
from wane.agents.lambda_operator import lam_of
from wane.agents.learned_operator.config import Config
from wane.agents.learned_operator.networks import TINY, Network, Params, Rewards, make_network, operate
from wane.agents.learned_operator.solving import Kernel, evaluate, q_values, successor_matrix
from wane.limits import require_memory
from wane.types import Integer, Scalar, Tree
from wane.worlds.process import Solvable

SMALLEST = 1e-6
"""The least divisor of errors of Q, in place of a smaller max |Q|. Rewards of 1 have a larger Q."""


class State(NamedTuple):
    """Everything that is needed to continue training. Acting needs only the `params`."""

    params: Params
    optimiser: Tree


class Batch(NamedTuple):
    """Tasks. Each has the rewards of all states and a λ."""

    rewards: Float[Array, "batch states"]
    lam: Float[Array, "*batch"]


class Misfit(NamedTuple):
    """How far the learned Φ is from the exact Φ of the same policy, one number for each task."""

    phi: Float[Array, "*tasks"]
    """The mean square of the error of Φ, relative to the mean square of Φ."""
    differences: Float[Array, "*tasks"]
    """The mean square of the error of Q(s, a) − mean_a Q(s, a), relative to the largest Q²."""


class Info(NamedTuple):
    """Measurements of each epoch of training."""

    loss: Float[Array, " epochs"]
    error: Float[Array, " epochs"]
    """The median relative error of Φ (root mean square) for random tasks at the end of the epoch."""


def counted_kernel(
    cells: Int[Array, " steps"], actions: Int[Array, " steps"], next_cells: Int[Array, " steps"], sizes: tuple[int, int]
) -> Kernel:
    """p(s'|s, a), estimated by counting transitions. Actions never tried in a state are assumed to stay there."""
    states, n_actions = sizes
    counts = jnp.zeros((states, n_actions, states)).at[cells, actions, next_cells].add(1.0)
    total = counts.sum(-1, keepdims=True)
    return jnp.where(total > 0, counts / jnp.maximum(total, 1), jnp.eye(states)[:, None])


def init(key: jax.Array, world: Solvable, config: Config) -> State:
    """Returns a random network, the kernel, and the SR of the random walk. `key` is the key that `train` takes.

    Raises ValueError if the network needs too much memory, or if the world's rewards do not wear off by one λ.
    """
    n, a = world.n_states, world.n_actions
    cure = "take a smaller world, or a smaller width"
    copies = 4 * config.width
    require_memory("the network's last layer", (n, "states"), (n, "states"), copies=copies, cure=cure)
    network_key, walk_key = jax.random.split(jax.random.fold_in(key, APART))
    if config.episodes:
        schedule = forward_backward.Schedule(episodes=config.episodes)
        memory = config.episodes * config.horizon
        walking = forward_backward.Config(horizon=config.horizon, memory=memory, schedule=schedule)
        steps = collect(walk_key, None, world, walking, config.episodes)
        assert steps.action is not None
        kernel = counted_kernel(steps.cell.ravel(), steps.action.ravel(), steps.next_cell.ravel(), (n, a))
    else:
        kernel = jnp.asarray(np.stack([world.mdp.action(i).toarray() for i in range(a)], 1), float)
    walk = successor_matrix(kernel.mean(1), config.discount)
    lam = jnp.asarray(lam_of(world) if config.lam is None else config.lam, float)
    network: Any = make_network(network_key, n, config)
    return State(Params(network, kernel, walk, lam), adam(config).init(network))


def adam(config: Config) -> optax.GradientTransformation:
    """Adam with a learning rate that rises over the first 5 % of the steps and then falls to 0 along a cosine."""
    total = config.epochs * config.steps
    return optax.adam(optax.warmup_cosine_decay_schedule(0.0, config.learning_rate, total // 20, total))


def draw_tasks(key: jax.Array, n_states: int, lam: Float[Array, ""], config: Config) -> Batch:
    """Draws random tasks, which resemble what an agent may meet before and after its visits.

    A task has 1 to `goals` rewarded states. In half of the tasks the rewards have different sizes, nearly equal in some
    tasks and far apart in others. In the other half each goal paid 1 before a random number of visits. A share `dense`
    of the tasks has rewards in all states instead.
    """
    keys, shape = jax.random.split(key, 9), (config.batch, n_states)
    if config.conditioned:
        lam = jnp.clip(jax.random.uniform(keys[0], (config.batch,), minval=-0.1, maxval=1.1), 0, 1)
    goals = jax.random.randint(keys[1], (config.batch, 1), 1, min(config.goals, n_states) + 1)
    ranks = jnp.argsort(jax.random.uniform(keys[2], shape), -1)
    spread = np.log(config.smallest) * jax.random.uniform(keys[8], (config.batch, 1))
    sizes = jnp.exp(spread * jax.random.uniform(keys[3], shape))
    visits = jax.random.geometric(keys[4], 0.5, shape) - 1
    worn = jnp.reshape(lam, (-1, 1)) ** visits
    sparse = (ranks < goals) * jnp.where(jax.random.bernoulli(keys[5], 0.5, (config.batch, 1)), sizes, worn)
    everywhere = jax.random.bernoulli(keys[6], config.dense, (config.batch, 1))
    return Batch(jnp.where(everywhere, jax.random.normal(keys[7], shape), sparse), lam)


def misfit(params: Params, rewards: Rewards, lam: Scalar, config: Config) -> Misfit:
    """The error of the learned Φ for the policy of one task."""
    rewards = rewards / (jnp.abs(rewards).max() + TINY)  # A task without rewards must not divide by 0.
    chances, phi = operate(params, rewards, lam, config)
    truth = jax.lax.stop_gradient(evaluate(params.kernel, chances, lam, config.discount))
    error = phi - truth
    q_error, q = q_values(error, rewards), q_values(truth, rewards)
    centred = q_error - q_error.mean(-1, keepdims=True)
    largest = jnp.maximum(jnp.abs(q).max(), SMALLEST)
    return Misfit(jnp.mean(error**2) / jnp.mean(truth**2), jnp.mean((centred / largest) ** 2))


def misfits(params: Params, batch: Batch, config: Config) -> Misfit:
    """The errors of many tasks."""
    axes = (0, 0 if batch.lam.ndim else None)
    return jax.vmap(lambda rewards, lam: misfit(params, rewards, lam, config), axes)(batch.rewards, batch.lam)


def loss(network: Network, params: Params, batch: Batch, config: Config) -> Float[Array, ""]:
    """The mean error of Φ, plus the weighted mean error of the differences of Q between actions."""
    found = misfits(params._replace(network=network), batch, config)
    return found.phi.mean() + config.difference_weight * found.differences.mean()


def update(
    state: State, data: Batch, world: Solvable, config: Config, key: None = None
) -> tuple[State, Float[Array, ""]]:
    """Takes one gradient step on some tasks. Returns the new state and the loss."""
    network: Any = state.params.network  # Optax's own type of trees does not know Equinox modules.
    value, slope = jax.value_and_grad(loss)(network, state.params, data, config)
    change, optimiser = adam(config).update(slope, state.optimiser)
    return State(state.params._replace(network=optax.apply_updates(network, change)), optimiser), value


def train(
    key: jax.Array,
    world: Solvable,
    config: Config,
    state: State | None = None,
    first: Integer = 0,
    epochs: int | None = None,
) -> tuple[State, Info]:
    """Trains for epochs `first`, `first` + 1, …, by default as many as the configuration says.

    Epoch e uses fold_in(key, e), so training in chunks gives the same result as training in one call. It is a pure
    function: `jit` it, `vmap` it over keys and λ.
    """
    state = init(key, world, config) if state is None else state
    lam = state.params.lam

    def step(state: State, key: jax.Array) -> tuple[State, Float[Array, ""]]:
        return update(state, draw_tasks(key, world.n_states, lam, config), world, config)

    def epoch(state: State, number: Integer) -> tuple[State, Info]:
        step_key, probe_key = jax.random.split(jax.random.fold_in(key, number))
        state, losses = jax.lax.scan(step, state, jax.random.split(step_key, config.steps))
        probes = draw_tasks(probe_key, world.n_states, lam, config)
        probes = jax.tree_util.tree_map(lambda leaf: leaf[: config.probes] if leaf.ndim else leaf, probes)
        error = jnp.sqrt(jnp.median(misfits(state.params, probes, config).phi))
        return state, Info(losses.mean(), error)

    return jax.lax.scan(epoch, state, first + jnp.arange(config.epochs if epochs is None else epochs))
