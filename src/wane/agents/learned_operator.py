"""A λ operator that is trained on exact targets: a network maps any rewards to the Φ_λ of the policy for these rewards.

λO-FB (`wane.agents.forward_backward`) bootstraps its targets from samples, and defines its policies by its own Q. This
agent differs in three points, which make it reach the optimum where λO-FB does not (experiment `learned-operator`):

    The random walk's Q defines the policy of r:    π_r(·|s) = softmax(Q⁰_r(s, ·) / (τ max |Q⁰_r|))
    The network corrects the random walk's Φ:       Φ_r(s, s') = Φ⁰(s, s') exp(f_r(s, s'))
    Its target is the exact Φ of π_r, and a part of the loss measures the differences of Q between actions.

Policies do not depend on the network, so training is plain regression. The temperature τ is relative, so policies do
not depend on the unit of the rewards. With γ = 0.99 the values of two actions differ by about 1 % of their size: errors
that all actions share do no harm, but errors of the differences do.

A policy that moves towards a goal multiplies the visits around the goal, and a factor is easier to learn than a
difference: on FourRooms with λ = 1 the same network had a third of the error with a factor (0.054, not 0.159). Φ(s, a)
is one backup of Φ(s), so the network needs no output for each action.

The kernel is the world's own, or is estimated by counting the transitions of a random walk (`Config.episodes`). All
arrays are dense, so this agent is for worlds of up to a few hundred states.

Solving takes matrix products only. The SR is a geometric series, and two products double the number of its terms:

    M_1 = I,   M_2k = M_k + (γP)ᵏ M_k,   M_∞ = (I − γP)⁻¹

Eleven doublings reach single precision for γ = 0.99. On an H200, 512 policies of FourRooms take 2.0 ms in this way and
4.7 ms with `wane.lambda_representation`, which solves linear systems. The results agree with that function, which is
the reference. The λR is the SR with its columns rescaled, Φ(s, s') = M(s, s') / (λ + (1 − λ) M(s', s')).
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from wane.agents.common.contract import Agent
from wane.agents.common.networks import Linear, descend, require_layer
from wane.agents.common.policy import Policy
from wane.agents.common.training import APART, train_epochs
from wane.agents.forward_backward.acting import acting_on
from wane.agents.forward_backward.model import Config as Walk
from wane.agents.forward_backward.model import Schedule, Units
from wane.agents.forward_backward.training import collect
from wane.agents.lambda_operator import TINY, improve, lam_of
from wane.exact.bellman import bellman_target
from wane.limits import require_memory
from wane.settings import Checked, Count, NotNegative, Positive, Probability, Range
from wane.types import Integer, Scalar, Tree
from wane.worlds.process import Solvable, Tabular

ROUNDING = 1e-8
"""Terms of the series that are smaller than this fraction of its sum are left out."""
LAM_SIZE = 3.0
"""The size of the inputs for λ. The inputs for rewards have a mean square of 1 and are many more."""
SMALLEST = 1e-6
"""The least divisor of errors of Q, in place of a smaller max |Q|. Rewards of 1 have a larger Q."""
Square = Float[Array, "states states"]
Kernel = Float[Array, "states actions states"]
Table = Float[Array, "states actions"]
Rewards = Float[Array, " states"]


@dataclass(frozen=True)
class Config(Checked):
    """The settings of the learned λ operator."""

    lam: Annotated[Scalar, Range(0, 1, "a λ")] | None = None
    """λ as the agent believes; None takes the world's own"""
    conditioned: bool = False
    """whether λ is an input of the network, and drawn anew for every policy of the training"""
    discount: Annotated[float, Range(0, 0.9999, "a discount")] = 0.99
    """γ"""
    temperature: Positive = 0.25
    """τ, relative to the largest value of the random walk"""
    width: Units = 1024
    """units of a hidden layer"""
    depth: Annotated[int, Range(1, 100)] = 3
    """hidden layers"""
    learning_rate: Positive = 5e-4
    """η: it falls to 0 along a cosine"""
    batch: Count = 512
    """policies of one gradient step"""
    epochs: Count = 40
    """epochs of the training; each ends with a measurement of the error"""
    steps: Count = 200
    """gradient steps of an epoch"""
    difference_weight: NotNegative = 100.0
    """weight of errors of the differences of Q between actions"""
    goals: Count = 8
    """the largest number of rewarded states of a sparse task"""
    smallest: Annotated[float, Range(0, 1, above=True)] = 0.03
    """the smallest reward that a sparse task may have; the largest is 1"""
    dense: Probability = 0.1
    """probability that a task has a normal random reward in every state"""
    episodes: Annotated[int, Range(0, 1_000_000)] = 0
    """episodes of a random walk from which the kernel is counted; 0 takes the world's own kernel"""
    horizon: Count = 50
    """steps of each of these episodes"""
    probes: Count = 32
    """tasks whose error is measured after each epoch"""


def successor_matrix(chain: Square, discount: float) -> Square:
    """(I − γP)⁻¹ of a Markov chain P."""
    doublings = math.ceil(math.log2(max(math.log(ROUNDING) / math.log(max(discount, ROUNDING)), 2)))
    total, power = jnp.eye(len(chain), dtype=chain.dtype), discount * chain
    with jax.default_matmul_precision("highest"):  # A GPU would round factors to ten bits.
        for _ in range(doublings):
            total, power = total + power @ total, power @ power
    return total


def lambda_matrix(successor: Square, lam: Scalar) -> Square:
    """Φ_λ(s, s') of a policy from its SR."""
    return successor / (lam + (1 - lam) * jnp.diagonal(successor))


def action_matrix(kernel: Kernel, phi: Square, lam: Scalar, discount: float) -> Kernel:
    """Φ_λ(s, a, s') from Φ_λ(s, s')."""
    own = jnp.eye(len(phi), dtype=phi.dtype)[:, None]
    with jax.default_matmul_precision("highest"):
        return bellman_target(jnp.einsum("sat,tu->sau", kernel, phi), own, lam, discount)


def evaluate(kernel: Kernel, chances: Table, lam: Scalar, discount: float) -> Kernel:
    """The exact Φ_λ(s, a, s') of a policy."""
    successor = successor_matrix(jnp.einsum("sa,sat->st", chances, kernel, precision="highest"), discount)
    return action_matrix(kernel, lambda_matrix(successor, lam), lam, discount)


def q_values(phi: Kernel, rewards: Float[Array, " states"]) -> Table:
    """Q(s, a) = Σ_s' Φ(s, a, s') r(s')."""
    return jnp.einsum("sau,u->sa", phi, rewards, precision="highest")


def q_values_at(
    cell: Integer, kernel: Kernel, phi: Square, rewards: Float[Array, " states"], lam: Scalar, discount: float
) -> Float[Array, " actions"]:
    """Q(s, ·) of one state from Φ_λ(s, s'): what s pays now, plus the value of the next state after the visit to s."""
    with jax.default_matmul_precision("highest"):
        value_next = phi @ rewards - (1 - lam) * phi[:, cell] * rewards[cell]
        return rewards[cell] + discount * kernel[cell] @ value_next


class Network(eqx.Module):
    """f_r(s, s'), the logarithm of the factor by which Φ_r(s, s') differs from Φ⁰(s, s')."""

    inputs: Linear
    blocks: tuple[Linear, ...]
    """Residual layers: each adds its output to its input."""
    column: Linear
    """The part of f that all states s have in common: one number for each s'."""
    states: Linear
    """The part of f for each s and s'."""

    def __call__(self, inputs: Float[Array, " inputs"]) -> Square:
        hidden = jax.nn.relu(self.inputs(inputs))
        for block in self.blocks:
            hidden = hidden + jax.nn.relu(block(hidden))
        # Adam moves every weight by about the learning rate, so a sum over a wide layer would move too far.
        hidden = hidden / np.sqrt(hidden.shape[-1])
        common = self.column(hidden)
        return common + self.states(hidden).reshape(-1, common.shape[-1])


class Params(NamedTuple):
    """What acting needs."""

    network: Network
    kernel: Float[Array, "*runs states actions states"]
    """p(s'|s, a), the world's own or estimated from counts."""
    walk: Float[Array, "*runs states states"]
    """The SR of the random walk."""
    lam: Float[Array, "*runs"]
    """The λ to act under. In a conditioned model it may be replaced by any other λ."""


def make_network(key: jax.Array, n_states: int, config: Config) -> Network:
    """A random network. Its last layers are nearly 0, so that it begins with the Φ of the random walk."""
    keys, width = jax.random.split(key, config.depth + 2), config.width
    inputs = _layer(keys[0], n_states + 2 * config.conditioned, width, 2.0)
    blocks = tuple(_layer(each, width, width, 1.0) for each in keys[1:-2])
    return Network(inputs, blocks, _layer(keys[-2], width, n_states, 0.01), _layer(keys[-1], width, n_states**2, 0.01))


def _layer(key: jax.Array, n_in: int, n_out: int, variance: float) -> Linear:
    require_layer(n_in, n_out)
    return Linear(jax.random.normal(key, (n_in, n_out)) * np.sqrt(variance / n_in), jnp.zeros(n_out))


def policy_of(params: Params, rewards: Rewards, lam: Scalar, config: Config) -> Table:
    """π_r(a|s): the policy after one improvement of the random walk."""
    walk = action_matrix(params.kernel, lambda_matrix(params.walk, lam), lam, config.discount)
    return improve(q_values(walk, rewards), config.temperature)


def state_representation(params: Params, rewards: Rewards, lam: Scalar, config: Config) -> Square:
    """The learned Φ_r(s, s')."""
    inputs = rewards * jax.lax.rsqrt(jnp.mean(rewards**2) + TINY)
    if config.conditioned:
        inputs = jnp.append(inputs, LAM_SIZE * jnp.stack([jnp.asarray(lam), 1 - jnp.asarray(lam)]))
    return lambda_matrix(params.walk, lam) * jnp.exp(params.network(inputs))


def operate(params: Params, rewards: Rewards, lam: Scalar, config: Config) -> tuple[Table, Kernel]:
    """The policy π_r(a|s) of some rewards, and its learned Φ_r(s, a, s')."""
    phi = state_representation(params, rewards, lam, config)
    return policy_of(params, rewards, lam, config), action_matrix(params.kernel, phi, lam, config.discount)


class State(NamedTuple):
    """Everything that is needed to continue training. Acting needs only the `params`."""

    params: Params
    optimiser: Tree


class Problems(NamedTuple):
    """Rewards of all states and a λ, of many problems, or one λ for all of them."""

    rewards: Float[Array, "problems states"]
    lam: Float[Array, "*problems"]


class Misfit(NamedTuple):
    """How far the learned Φ is from the exact Φ of the same policy, one number for each problem."""

    phi: Float[Array, "*problems"]
    """The mean square of the error of Φ, relative to the mean square of Φ."""
    differences: Float[Array, "*problems"]
    """The mean square of the error of Q(s, a) − mean_a Q(s, a), relative to the largest Q²."""


class Info(NamedTuple):
    """Measurements of each epoch of training."""

    loss: Float[Array, " epochs"]
    error: Float[Array, " epochs"]
    """The median relative error of Φ (root mean square) for random problems at the end of the epoch."""


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
        size, schedule = config.episodes * config.horizon, Schedule(episodes=config.episodes)
        walking = Walk(horizon=config.horizon, replay=size, schedule=schedule)
        steps = collect(walk_key, None, world, walking, config.episodes)
        assert steps.action is not None
        kernel = counted_kernel(steps.cell.ravel(), steps.action.ravel(), steps.next_cell.ravel(), (n, a))
    else:
        kernel = jnp.asarray(world.mdp.dense(), float)
    walk = successor_matrix(kernel.mean(1), config.discount)
    lam = jnp.asarray(lam_of(world) if config.lam is None else config.lam, float)
    network: Any = make_network(network_key, n, config)
    return State(Params(network, kernel, walk, lam), adam(config).init(network))


def adam(config: Config) -> optax.GradientTransformation:
    """Adam with a learning rate that rises over the first 5 % of the steps and then falls to 0 along a cosine."""
    total = config.epochs * config.steps
    return optax.adam(optax.warmup_cosine_decay_schedule(0.0, config.learning_rate, total // 20, total))


def sample_problems(key: jax.Array, n_states: int, lam: Float[Array, ""], config: Config) -> Problems:
    """Draws random problems, which resemble what an agent may meet before and after its visits.

    A problem has 1 to `goals` rewarded states. In half of them the rewards have different sizes, nearly equal in some
    and far apart in others. In the other half each goal paid 1 before a random number of visits. A share `dense`
    of the problems has rewards in all states instead.
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
    return Problems(jnp.where(everywhere, jax.random.normal(keys[7], shape), sparse), lam)


def misfit(params: Params, rewards: Rewards, lam: Scalar, config: Config) -> Misfit:
    """The error of the learned Φ for the policy of one problem."""
    rewards = rewards / (jnp.abs(rewards).max() + TINY)  # A problem without rewards must not divide by 0.
    chances, phi = operate(params, rewards, lam, config)
    truth = jax.lax.stop_gradient(evaluate(params.kernel, chances, lam, config.discount))
    error = phi - truth
    q_error, q = q_values(error, rewards), q_values(truth, rewards)
    centred = q_error - q_error.mean(-1, keepdims=True)
    largest = jnp.maximum(jnp.abs(q).max(), SMALLEST)
    return Misfit(jnp.mean(error**2) / jnp.mean(truth**2), jnp.mean((centred / largest) ** 2))


def misfits(params: Params, problems: Problems, config: Config) -> Misfit:
    """The errors of many problems."""
    axes = (0, 0 if problems.lam.ndim else None)
    return jax.vmap(lambda rewards, lam: misfit(params, rewards, lam, config), axes)(problems.rewards, problems.lam)


def loss(network: Network, params: Params, problems: Problems, config: Config) -> Float[Array, ""]:
    """The mean error of Φ, plus the weighted mean error of the differences of Q between actions."""
    found = misfits(params._replace(network=network), problems, config)
    return found.phi.mean() + config.difference_weight * found.differences.mean()


def update(
    state: State, data: Problems, world: Solvable, config: Config, key: None = None
) -> tuple[State, Float[Array, ""]]:
    """Takes one gradient step on some problems. Returns the new state and the loss."""
    value, slope = jax.value_and_grad(loss)(state.params.network, state.params, data, config)
    network, optimiser = descend(adam(config), slope, state.optimiser, state.params.network)
    return State(state.params._replace(network=network), optimiser), value


def train(
    key: jax.Array,
    world: Solvable,
    config: Config,
    state: State | None = None,
    first: Integer = 0,
    epochs: int | None = None,
) -> tuple[State, Info]:
    """Trains for epochs `first`, `first` + 1, …, by default as many as the configuration says.

    It is a pure function: `jit` it, `vmap` it over keys and λ.
    """
    state = init(key, world, config) if state is None else state
    lam = state.params.lam

    def step(state: State, key: jax.Array) -> tuple[State, Float[Array, ""]]:
        return update(state, sample_problems(key, world.n_states, lam, config), world, config)

    def epoch(key: jax.Array, state: State) -> tuple[State, Info]:
        step_key, probe_key = jax.random.split(key)
        state, losses = jax.lax.scan(step, state, jax.random.split(step_key, config.steps))
        probes = sample_problems(probe_key, world.n_states, lam, config)
        probes = jax.tree_util.tree_map(lambda leaf: leaf[: config.probes] if leaf.ndim else leaf, probes)
        error = jnp.sqrt(jnp.median(misfits(state.params, probes, config).phi))
        return state, Info(losses.mean(), error)

    return train_epochs(key, state, first, config.epochs if epochs is None else epochs, epoch)


def policy(params: Params, world: Tabular, config: Config) -> Policy:
    """Returns the policy that takes argmax_a Σ_s' Φ_r(s, a, s') r(s'), under the λ of the params.

    It solves nothing: an action costs one pass through the network.
    """
    return acting_on(partial(_choose, config), params, world)


def _choose(config: Config, params: Params, cell: Integer, rewards: Float[Array, " states"]) -> Int[Array, ""]:
    phi = state_representation(params, rewards, params.lam, config)
    q = q_values_at(cell, params.kernel, phi, rewards, params.lam, config.discount)
    return jnp.argmax(q).astype(jnp.int32)


AGENT = Agent("learned_operator", Config, State, init, train, policy, update, unit="epochs")
