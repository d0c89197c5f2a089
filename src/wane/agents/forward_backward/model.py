"""The settings of λO-FB, and its two networks.

    Φ_λ^{π_z}(s, a, s') ≈ F(s, a, z)ᵀ B(s') μ(s')
    π_z(·|s) = softmax(F(s, ·, z)ᵀ z / τ)
    z_R = Σ_s μ(s) r(s) B(s)

μ is uniform. F takes [1_s, z / √(1 + ‖z‖²/d)] and B takes 1_s. The first layer of a one-hot input is a row of its
weights, so B of all states is one small product, and z is the only input of F that costs a product there.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from wane.agents.common.networks import MLP, Linear, make_linear, make_mlp
from wane.checks import is_traced
from wane.settings import (
    Checked,
    Count,
    Discount,
    NotNegative,
    Positive,
    Probability,
    Range,
    Share,
    check_setting,
    renamed,
)
from wane.types import Integer, PerSite, Scalar
from wane.worlds.process import Tabular

Condition = Literal["nothing", "uniform", "per state"]
Units = Annotated[int, Range(1, 100_000)]
"""Units of a layer."""
Vector = Float[Array, "*batch dimension"]


@dataclass(frozen=True)
class Schedule(Checked):
    """Training is `epochs` × `cycles` × (`episodes` played, `batches` gradient steps, one update of the targets)."""

    epochs: Count = 100
    """M"""
    cycles: Count = 25
    """updates of the target networks in an epoch"""
    episodes: Count = 4
    """episodes played before each of them"""
    batches: Count = 40
    """gradient steps before each of them"""

    @property
    def steps(self) -> int:
        """Gradient steps of an epoch."""
        return self.cycles * self.batches


LITERAL = Schedule(cycles=1, episodes=100, batches=25)
"""The paper's table as it reads: M = 100, E = 100, N = 25."""


@renamed(memory="replay")
@dataclass(frozen=True)
class Config(Checked):
    """The paper's table of λO-FB, and what it leaves out."""

    lam: Annotated[PerSite, Range(0, 1, "a λ")] = 0.5
    """λ as the agent believes, one number or one for each state; if it is learned, the initial value"""
    learn_lam: bool = False
    """whether λ is learned together with Φ (the paper starts from 1)"""
    condition: Condition = "nothing"
    """λ as an input of F, drawn for each sample: one for all states ("uniform"), or one for each ("per state")"""
    discount: Discount = 0.99
    """γ; it may be 1 if λ < 1"""
    dimension: Units = 100
    """d, of F and B"""
    width: Units = 256
    """units of a hidden layer"""
    depth: Annotated[int, Range(1, 100)] = 3
    """hidden layers"""
    learning_rate: Positive = 1e-3
    """η"""
    batch: Count = 128
    """B"""
    polyak: Share = 0.95
    """α: the share that the target networks keep of themselves at an update"""
    temperature: Positive = 200.0
    """τ"""
    epsilon: Probability = 1.0
    """ε: probability of a uniformly random action while data are collected"""
    horizon: Count = 50
    """T: steps of an episode while data are collected"""
    regulariser: NotNegative = 1.0
    """β"""
    spread: NotNegative = 0.5
    """scale of the Cauchy factor of z"""
    schedule: Schedule = Schedule()
    replay: Annotated[int, Range(1, 1_000_000_000)] = 100_000
    """transitions that are kept"""
    goals: Annotated[int, Range(0, 1_000_000)] = 0
    """random unit rewards of each collected episode, from which λ is learned; 0 takes the world's own rewards"""
    noise: Annotated[Scalar, Range(0, 1_000_000)] = 0.0
    """standard deviation of the errors with which those rewards are read"""
    probes: Count = 8
    """policies whose error against the exact Φ is measured after each epoch"""

    def rules(self) -> None:
        """Raises SettingError if Φ would be infinite, or if the replay cannot hold what is collected at once."""
        endless = self.condition != "nothing" or (not is_traced(self.lam) and np.any(np.asarray(self.lam) == 1))
        finite = is_traced(self.discount) or self.discount < 1 or not endless
        check_setting(
            finite, self, "discount", "a discount below 1 is needed, because Φ is infinite with λ = 1 and γ = 1"
        )
        collected = self.schedule.episodes * self.horizon
        needed = f"at least {collected:,} is needed, because so many transitions are collected at once"
        check_setting(self.replay >= collected, self, "replay", needed)


class Forward(eqx.Module):
    """F(s, ·, z), with λ as a further input where the configuration says so."""

    states: Float[Array, "*runs states width"]
    """The first layer's weights for 1_s: one row for each state."""
    inputs: Linear
    """The first layer's weights for z and λ, and its biases."""
    rest: MLP
    """The layers after the first one."""

    def __call__(
        self, cell: Integer | Int[Array, "*batch"], z: Vector, lam: Float[Array, "*batch lams"] | None = None
    ) -> Float[Array, "*batch actions dimension"]:
        """F(s, ·, z) of one state and one z, or of a batch of both."""
        inputs = z / jnp.sqrt(1 + jnp.mean(z**2, -1, keepdims=True))
        inputs = inputs if lam is None else jnp.concatenate([inputs, lam], -1)
        out = self.rest(jax.nn.relu(rows(self.states, cell) + self.inputs(inputs)))
        return out.reshape(*out.shape[:-1], -1, z.shape[-1])


class Backward(eqx.Module):
    """B of every state."""

    first: Linear
    """The first layer. Its input is 1_s, so its output for s is row s of its weights, plus the bias."""
    rest: MLP

    def __call__(self) -> Float[Array, "states dimension"]:
        return self.rest(jax.nn.relu(self.first.weight + self.first.bias))


class Params(NamedTuple):
    """Both networks."""

    forward: Forward
    backward: Backward


def make_networks(key: jax.Array, world: Tabular, config: Config) -> Params:
    """Random networks."""
    forward_key, backward_key = jax.random.split(key)
    n, d, hidden = world.n_states, config.dimension, [config.width] * config.depth
    n_lams = {"nothing": 0, "uniform": 1, "per state": n}[config.condition]
    first = make_linear(jax.random.fold_in(forward_key, 0), n + d + n_lams, config.width)
    rest = make_mlp(forward_key, [*hidden, d * world.n_actions], first=1)
    forward = Forward(first.weight[:n], Linear(first.weight[n:], first.bias), rest)
    first = make_linear(jax.random.fold_in(backward_key, 0), n, config.width)
    return Params(forward, Backward(first, make_mlp(backward_key, [*hidden, d], first=1)))


def rows(table: Float[Array, "states width"], cell: Int[Array, "*batch"] | Integer) -> Float[Array, "*batch width"]:
    """table[cell] as a product. Its gradient is a product too; on a GPU that of indexing sums in no fixed order."""
    return jax.nn.one_hot(cell, len(table), dtype=table.dtype) @ table


def softmax_policy(
    features: Float[Array, "*batch actions dimension"], z: Float[Array, "... dimension"], temperature: float
) -> Float[Array, "*batch actions"]:
    """π_z(·|s) from F(s, ·, z). There may be one z for the whole batch."""
    return jax.nn.softmax(jnp.einsum("...ad,...d->...a", features, z) / temperature)


def q_values(
    params: Params, cell: Integer, z: Float[Array, " dimension"], lam: Float[Array, " lams"] | None = None
) -> Float[Array, " actions"]:
    """F(s, ·, z)ᵀ z."""
    return jnp.einsum("ad,d->a", params.forward(cell, z, lam), z)


def reward_vector(
    table: Float[Array, "states dimension"], rewards: Float[Array, " states"]
) -> Float[Array, " dimension"]:
    """z_R, from B of every state and the rewards of every state."""
    return rewards @ table / len(table)


def all_features(
    params: Params, z: Float[Array, " dimension"], lam: Float[Array, " lams"] | None = None
) -> Float[Array, "states actions dimension"]:
    """F(s, a, z) of all s and a."""
    cells = jnp.arange(len(params.forward.states))
    return jax.vmap(lambda cell: params.forward(cell, z, lam))(cells)


def sample_z(key: jax.Array, shape: tuple[int, ...], dimension: int, spread: float) -> Vector:
    """Draws z from ν: a random direction of length √d, times `spread` times a Cauchy number."""
    direction, length = jax.random.split(key)
    z = jax.random.normal(direction, (*shape, dimension))
    z = z * jax.lax.rsqrt(jnp.mean(z**2, -1, keepdims=True))
    return z * spread * jax.random.cauchy(length, (*shape, 1))


def sample_lam(
    key: jax.Array, shape: tuple[int, ...], n_states: int, condition: Condition
) -> Float[Array, "*batch lams"] | None:
    """Draws the λ inputs of F, uniform in [0, 1].

    They are one number ("uniform"), or one for each state ("per state"; all states share one λ with probability ½), or
    None ("nothing").
    """
    if condition == "nothing":
        return None
    keys = jax.random.split(key, 3)
    common = jax.random.uniform(keys[0], (*shape, 1))
    if condition == "uniform":
        return common
    each = jax.random.uniform(keys[1], (*shape, n_states))
    return jnp.where(jax.random.bernoulli(keys[2], shape=(*shape, 1)), common, each)
