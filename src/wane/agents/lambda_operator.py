"""The λ operator of a known world: one network that gives Φ_λ for every reward, learned from exact targets.

λO-FB (`wane.agents.forward_backward`) learns Φ_λ of a family of policies from samples. Where the world's kernel is
known, the Φ_λ of any policy is known too, by one linear solve, so that nothing needs to be bootstrapped: a gradient
step draws rewards, reads the network's own policies for them, solves for their Φ_λ, and regresses on these.

    Φ̂(s, a, s'; r) = Φ_walk(s, a, s') + C(s, s'; r) + A(s, a, s'; r),   Σ_a A(s, a, s'; r) = 0
    Q̂(s, a) = Σ_s' Φ̂(s, a, s'; r) r(s')
    π_r(·|s) = softmax(Q̂(s, ·) / (τ max |Q̂|))
    target: Φ_λ(s, a, s') of π_r, exactly

It differs from λO-FB in what decides between actions. With γ = 0.99 the values of two actions differ by about 1 % of
their size, so a small relative error of Φ hides the difference.

- The temperature τ is relative to the largest value, so the policy does not depend on the unit of the rewards. With
  the paper's absolute temperature the policies of small rewards are nearly uniform.
- The part A that tells actions apart is separate from the common part C, and the loss counts the error of the
  centred values Q̂(s, a) − mean_a Q̂(s, a) beside that of Φ.
- Φ_walk of the uniform policy is exact and is not learned.
- B(s') is √n 1_{s'} with d = n states. This B is orthonormal, which λO-FB has to learn, and z_R is r up to a factor.

The network's input is r scaled to a fixed size. If λ is drawn for each sample (`condition="uniform"`), λ is an input
too, and one network acts under every λ. The network's last layer holds every pair of states, so this agent is for
worlds of up to a few hundred states.

    >>> from wane.worlds import make
    >>> world, config = make("corridor", length=3), Config(lam=0.5, width=16, epochs=2, steps=5, batch=4)
    >>> state, info = train(jax.random.key(0), world, config)
    >>> info.misfit.shape
    (2,)
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from wane.agents.common.networks import Linear, make_linear
from wane.agents.common.policy import Policy, no_draws
from wane.agents.forward_backward.tasks import all_rewards
from wane.settings import Checked, Count, Positive, Probability, Range, require
from wane.types import Integer, Scalar, Tree
from wane.worlds.observe import Seen
from wane.worlds.world import World

OBSERVATION = "index+remaining"
LARGEST = 2_000_000_000
"""The most weights of the last layer: 8 GB in single precision."""
COMMON = 10.0
"""The scale of C relative to A. Adam moves all weights at one rate, and C is by far the larger part of Φ̂."""
Phi = Float[Array, "*batch states actions states"]
Rewards = Float[Array, "*batch states"]


@dataclass(frozen=True)
class Config(Checked):
    """The settings of the λ operator."""

    lam: Annotated[Scalar, Range(0, 1, "a λ")] = 0.5
    """λ of all states, where it is no input"""
    condition: Literal["nothing", "uniform"] = "nothing"
    """λ as an input of the network: "uniform" draws one in [0, 1] for every sample"""
    discount: Annotated[Scalar, Range(0, 0.999999)] = 0.99
    """γ"""
    temperature: Positive = 0.1
    """τ, relative to the largest value"""
    width: Annotated[int, Range(1, 100_000)] = 512
    """units of a hidden layer"""
    depth: Annotated[int, Range(1, 100)] = 3
    """hidden layers; from the second one on, each adds to the one before it"""
    learning_rate: Positive = 1e-3
    """η at the beginning; it falls to 0 along a cosine"""
    batch: Count = 128
    """rewards, and so policies, of a gradient step"""
    epochs: Count = 100
    steps: Count = 100
    """gradient steps of an epoch"""
    most_goals: Count = 8
    """the largest number of rewarded states of a sample with few of them"""
    dense: Probability = 0.15
    """the share of samples with normally distributed rewards in every state"""
    contrast: Annotated[float, Range(0, 1_000_000)] = 100.0
    """weight of the error of the centred values, relative to that of Φ"""


class Operator(eqx.Module):
    """The network: from rewards, and λ where it is an input, to C and A of all states."""

    hidden: tuple[Linear, ...]
    common: Float[Array, "*runs width states states"]
    """The last layer of C."""
    apart: Float[Array, "*runs width states actions states"]
    """The last layer of A."""

    def features(self, rewards: Rewards, lam: Float[Array, "*batch"] | None = None) -> Float[Array, "*batch width"]:
        """The last hidden layer."""
        x = rewards * jax.lax.rsqrt(jnp.mean(rewards**2, -1, keepdims=True) + 1e-30) / 3
        x = x if lam is None else jnp.concatenate([x, lam[..., None]], -1)
        first, *others = self.hidden
        x = jax.nn.relu(first(x))
        for layer in others:
            x = x + jax.nn.relu(layer(x))
        return x


class State(NamedTuple):
    """All that learning goes on from. Acting needs the `params` alone."""

    params: Operator
    optimiser: Tree


class Info(NamedTuple):
    """What training tells about each epoch: means over its gradient steps."""

    loss: Float[Array, " epochs"]
    misfit: Float[Array, " epochs"]
    """The root mean square error of Φ̂ relative to that of Φ, the median over the policies of a step."""


class Known(NamedTuple):
    """What is known of the world."""

    transitions: Float[Array, "actions states states"]
    walk: Float[Array, "states actions states"]
    """Φ_λ of the uniform policy; of λ = 1 where λ is an input."""
    size: Float[Array, ""]
    """The root mean square of `walk`."""


def know(world: World, config: Config) -> Known:
    """The world's kernel, and Φ of its uniform policy."""
    transitions = jnp.asarray(np.stack([world.mdp.action(i).toarray() for i in range(world.n_actions)]), float)
    uniform = jnp.full((world.n_states, world.n_actions), 1 / world.n_actions)
    lam = config.lam if config.condition == "nothing" else 1.0
    walk = exact_phi(transitions, uniform, jnp.asarray(lam, float), config.discount)
    return Known(transitions, walk, jnp.sqrt(jnp.mean(walk**2)))


def exact_phi(
    transitions: Float[Array, "actions states states"],
    chances: Float[Array, "states actions"],
    lam: Float[Array, ""],
    discount: Scalar,
) -> Float[Array, "states actions states"]:
    """Φ_λ(s, a, s') of a policy, from its SR M: Φ_λ(s, s') = M(s, s') / (λ + (1 − λ) M(s', s'))."""
    own = jnp.eye(len(chances), dtype=chances.dtype)
    with jax.default_matmul_precision("highest"):  # A GPU would round factors to ten bits.
        kernel = jnp.einsum("sa,ast->st", chances, transitions)
        successor = jnp.linalg.solve(own - discount * kernel, own)
        phi = successor / (lam + (1 - lam) * jnp.diagonal(successor))
        later = discount * jnp.einsum("ast,tu->sau", transitions, phi)
    return own[:, None] + later * (1 - (1 - lam) * own[:, None])


def init(key: jax.Array, world: World, config: Config) -> State:
    """A random network with a last layer of zeros, so that it begins with the random walk."""
    n, a, width = world.n_states, world.n_actions, config.width
    needed = f"a smaller width is needed, because {n} states and {a} actions make {width * n * n * (a + 1):,} weights"
    require(width * n * n * (a + 1) <= LARGEST, config, "width", needed)
    sizes = [n + (config.condition == "uniform"), *[width] * config.depth]
    keys = jax.random.split(key, config.depth)
    hidden = tuple(make_linear(k, i, o) for k, i, o in zip(keys, sizes, sizes[1:], strict=False))
    params: Any = Operator(hidden, jnp.zeros((width, n, n)), jnp.zeros((width, n, a, n)))
    return State(params, _optimiser(config).init(params))


def _optimiser(config: Config) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(config.learning_rate, config.epochs * config.steps))


def learned_phi(params: Operator, known: Known, rewards: Rewards, lam: Float[Array, "*batch"] | None = None) -> Phi:
    """Φ̂(s, a, s'; r) of all states."""
    x = params.features(rewards, lam)
    common = jnp.einsum("...w,wst->...st", x, params.common)
    apart = _centred(jnp.einsum("...w,wsat->...sat", x, params.apart))
    return known.walk + known.size * (COMMON * common[..., None, :] + apart)


def _centred(apart: Float[Array, "... actions states"]) -> Float[Array, "... actions states"]:
    return apart - apart.mean(-2, keepdims=True)


def q_values(phi: Phi, rewards: Rewards) -> Float[Array, "*batch states actions"]:
    """Σ_s' Φ(s, a, s') r(s')."""
    return jnp.einsum("...sat,...t->...sa", phi, rewards)


def chances_of(q: Float[Array, "*batch states actions"], temperature: float) -> Float[Array, "*batch states actions"]:
    """π_r from Q̂: a softmax whose temperature is relative to the largest |Q̂|."""
    largest = jnp.abs(q).max((-1, -2), keepdims=True)
    return jax.nn.softmax(q / (temperature * jnp.maximum(largest, 1e-30)))


def sample_rewards(key: jax.Array, world: World, config: Config) -> Rewards:
    """Rewards of the kinds that an agent meets: a few states, fresh or worn off, and at times normal ones everywhere.

    Half of the sparse samples have sizes between 0.03 and 1 that are uniform in their logarithm, the other half have
    λⁿ with a random n (of a random λ, where it is an input, and where rewards never wear off).
    """
    shape, keys = (config.batch, world.n_states), jax.random.split(key, 7)
    orders = jax.vmap(lambda key: jax.random.permutation(key, world.n_states))(jax.random.split(keys[0], config.batch))
    most = min(config.most_goals, world.n_states)
    is_goal = orders < jax.random.randint(keys[1], (config.batch, 1), 1, most + 1)
    sizes = jnp.exp(jax.random.uniform(keys[2], shape, minval=np.log(0.03), maxval=0.0))
    visits = jax.random.geometric(keys[3], 0.5, shape) - 1
    worn = jnp.maximum(jax.random.uniform(keys[4], (config.batch, 1)) ** visits, 1e-4)
    is_worn, is_dense = (
        jax.random.uniform(keys[5], (2, config.batch, 1)) < jnp.array([0.5, config.dense])[:, None, None]
    )
    sparse = is_goal * jnp.where(is_worn, worn, sizes)
    return jnp.where(is_dense, jax.random.normal(keys[6], shape), sparse)


def _errors(
    params: Operator, known: Known, rewards: Rewards, lams: Float[Array, " batch"], config: Config
) -> tuple[Float[Array, " batch"], Phi, Phi]:
    """The squared relative error of Φ̂ for each reward, Φ̂, and the exact Φ of the policy that Φ̂ leads to."""
    phi = learned_phi(params, known, rewards, lams if config.condition == "uniform" else None)
    chances = jax.lax.stop_gradient(chances_of(q_values(phi, rewards), config.temperature))
    target = jax.vmap(lambda pi, lam: exact_phi(known.transitions, pi, lam, config.discount))(chances, lams)
    return jnp.mean((phi - target) ** 2, (1, 2, 3)) / jnp.mean(target**2, (1, 2, 3)), phi, target


def loss(
    params: Operator, known: Known, rewards: Rewards, lams: Float[Array, " batch"], config: Config
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The relative error of Φ̂ against the exact Φ of the network's own policies, and of the centred values.

    Returns the loss and the median relative error of Φ̂.
    """
    error, phi, target = _errors(params, known, rewards, lams, config)
    wrong, right = q_values(phi - target, rewards), q_values(target, rewards)
    wrong = wrong / jnp.maximum(jnp.abs(right).max((1, 2), keepdims=True), 1e-30)
    contrast = jnp.mean((wrong - wrong.mean(-1, keepdims=True)) ** 2, (1, 2))
    total = jnp.mean(error + jnp.mean(wrong**2, (1, 2)) + config.contrast * contrast)
    return total, jnp.median(jnp.sqrt(error))


def misfit(
    params: Operator, world: World, config: Config, rewards: Float[Array, "batch states"], lam: Any = None
) -> Float[Array, " batch"]:
    """The root mean square error of Φ̂ relative to that of Φ, for the policy of each reward."""
    known = know(world, config)
    lams = jnp.broadcast_to(jnp.asarray(config.lam if lam is None else lam, float), (len(rewards),))
    return jnp.sqrt(_errors(params, known, rewards, lams, config)[0])


def update(
    state: State, data: tuple[Rewards, Float[Array, " batch"]], world: World, config: Config, key: None = None
) -> tuple[State, tuple[Float[Array, ""], Float[Array, ""]]]:
    """One gradient step on rewards and their λ. Returns the loss and the median error of Φ̂ too."""
    return _update(state, data, know(world, config), config)


def _update(
    state: State, data: tuple[Rewards, Float[Array, " batch"]], known: Known, config: Config
) -> tuple[State, tuple[Float[Array, ""], Float[Array, ""]]]:
    params: Any = state.params  # Optax's own type of trees does not know Equinox modules.
    told, slope = jax.value_and_grad(loss, has_aux=True)(params, known, *data, config)
    change, optimiser = _optimiser(config).update(slope, state.optimiser, params)
    updated: Any = optax.apply_updates(params, change)
    return State(updated, optimiser), told


def train(
    key: jax.Array,
    world: World,
    config: Config,
    state: State | None = None,
    first: Integer = 0,
    epochs: int | None = None,
) -> tuple[State, Info]:
    """Trains for epochs `first`, `first` + 1, …, by default as many as the configuration says.

    Epoch e uses fold_in(key, e), so training in chunks gives the same result as training in one call. `jit` it, and
    `vmap` it over keys and λ.
    """
    state = init(jax.random.fold_in(key, 2**32 - 1), world, config) if state is None else state
    known = know(world, config)

    def step(state: State, key: jax.Array) -> tuple[State, Any]:
        reward_key, lam_key = jax.random.split(key)
        lams = jnp.broadcast_to(jnp.asarray(config.lam, float), (config.batch,))
        lams = lams if config.condition == "nothing" else jax.random.uniform(lam_key, (config.batch,))
        return _update(state, (sample_rewards(reward_key, world, config), lams), known, config)

    def epoch(state: State, number: Integer) -> tuple[State, Info]:
        keys = jax.random.split(jax.random.fold_in(key, number), config.steps)
        state, told = jax.lax.scan(step, state, keys)
        return state, Info(*(each.mean() for each in told))

    return jax.lax.scan(epoch, state, first + jnp.arange(config.epochs if epochs is None else epochs))


def policy(params: Operator, world: World, config: Config, lam: Any = None) -> Policy:
    """The greedy policy on Q̂ of what remains of the rewards; `lam` is for a network that has λ as an input."""
    known = know(world, config)
    given = config.lam if lam is None else lam
    told = jnp.asarray(given, float) if config.condition == "uniform" else None
    return Policy(partial(_act, world), (params, known, told), draw=no_draws, observation=OBSERVATION)


def _act(world: World, params: Any, carry: Tree, observation: Seen, key: None) -> tuple[Any, Tree, None]:
    network, known, lam = params
    rewards = all_rewards(world, observation.remaining)
    x, cell = network.features(rewards, lam), observation.view
    common = jnp.einsum("w,wt->t", x, network.common[:, cell])
    apart = _centred(jnp.einsum("w,wat->at", x, network.apart[:, cell]))
    phi = known.walk[cell] + known.size * (COMMON * common + apart)
    return jnp.argmax(phi @ rewards).astype(jnp.int32), carry, None
