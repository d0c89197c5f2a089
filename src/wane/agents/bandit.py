"""The exponentially weighted forecaster that chooses λ in λ-SAC: a bandit whose arms are a few values of λ.

    p_k ∝ exp(w_k)                                     arm k is drawn once for each episode
    f = R_ℓ − R_{ℓ−1},  R_0 = 0                        the feedback: by how much the return has changed (the paper)
    f = R_ℓ − (R_1 + … + R_{ℓ−1}) / (ℓ − 1)            the feedback that the paper proposes as an improvement
    g = (f − m) / d                                    m, d: mean and standard deviation of the last five feedbacks
    w_k ← 0.9 w_k,  then  w_k ← w_k + 0.1 g / max(exp(w_k), 1e-4)        for the arm that was drawn, and no other

The last five feedbacks include the newest one. d is the population's standard deviation, or 1 while there are fewer
than two feedbacks or all of them are equal. So the very first feedback changes nothing: it is its own mean. The
division by exp(w_k) compensates arms that are drawn rarely.

All functions are pure and take one bandit; `vmap` them for many.

    >>> bandit = record(init(3), 1, 5.0, Config())
    >>> [round(float(p), 3) for p in probabilities(bandit)]
    [0.333, 0.333, 0.333]
    >>> [round(float(p), 3) for p in probabilities(record(bandit, 1, 11.0, Config()))]
    [0.322, 0.356, 0.322]
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from wane.lazy import attach
from wane.settings import Checked, Positive, Share
from wane.types import Flag, Integer, Scalar

WINDOW = 5
"""The number of feedbacks whose mean and standard deviation standardise the newest one."""
LEAST = 1e-4
"""The smallest divisor of a feedback."""


@dataclass(frozen=True)
class Config(Checked):
    """The settings of the bandit."""

    step_size: Positive = 0.1
    decay: Share = 0.9
    """what the weight of the drawn arm is multiplied by before it is changed"""
    averaging: Flag = False
    """whether a return is compared with the mean of all returns before it, in place of the last one (the paper)"""


class State(NamedTuple):
    """What the bandit remembers."""

    weights: Float[Array, "*runs arms"]
    feedbacks: Float[Array, "*runs window"]
    """The last feedbacks: feedback number i is at index i mod 5."""
    episodes: Int[Array, "*runs"]
    """The number of returns so far."""
    last: Float[Array, "*runs"]
    """The last return, 0 before the first one."""
    mean: Float[Array, "*runs"]
    """The mean of all returns so far, 0 before the first one."""


def init(arms: int) -> State:
    """Returns a bandit that has learned nothing: all arms are equally probable."""
    zero = jnp.zeros(())
    return State(jnp.zeros(arms), jnp.zeros(WINDOW), jnp.zeros((), jnp.int32), zero, zero)


def probabilities(state: State) -> Float[Array, " arms"]:
    """The probability of each arm, p_k ∝ exp(w_k)."""
    return jax.nn.softmax(state.weights)


def sample(state: State, uniform: Scalar) -> Int[Array, ""]:
    """Draws an arm, given a uniform number in [0, 1)."""
    return jnp.sum(uniform >= jnp.cumsum(probabilities(state))[:-1]).astype(jnp.int32)


def feedback(state: State, earned: Scalar, averaging: Flag) -> Float[Array, ""]:
    """The difference between a return and the last return, or the mean of all returns before it."""
    return jnp.asarray(earned - jnp.where(averaging, state.mean, state.last))


def standardise(feedbacks: Float[Array, " window"], count: Integer, newest: Scalar) -> Float[Array, ""]:
    """(f − m) / d of the newest feedback, where only the first `count` entries of the window are filled."""
    filled = jnp.arange(len(feedbacks)) < count
    size = jnp.maximum(filled.sum(), 1)
    mean = jnp.sum(jnp.where(filled, feedbacks, 0)) / size
    deviation = jnp.sqrt(jnp.sum(jnp.where(filled, (feedbacks - mean) ** 2, 0)) / size)
    usable = (size > 1) & (deviation > 0)
    return jnp.asarray((newest - mean) / jnp.where(usable, deviation, 1))


def reweight(weight: Scalar, feedback: Scalar, step_size: Scalar, decay: Scalar) -> Float[Array, ""]:
    """The new weight of the arm that was drawn, after a standardised feedback."""
    kept = decay * weight
    return jnp.asarray(kept + step_size * feedback / jnp.maximum(jnp.exp(kept), LEAST))


def record(state: State, arm: Integer, earned: Scalar, config: Config) -> State:
    """Returns the bandit after an episode that used arm `arm` and whose return was `earned` (without discounting)."""
    newest = feedback(state, earned, config.averaging)
    feedbacks = state.feedbacks.at[state.episodes % WINDOW].set(newest)
    count = state.episodes + 1
    changed = reweight(state.weights[arm], standardise(feedbacks, count, newest), config.step_size, config.decay)
    mean = state.mean + (earned - state.mean) / count
    last = jnp.asarray(earned, state.last.dtype)
    return State(state.weights.at[arm].set(changed), feedbacks, count, last, mean.astype(state.mean.dtype))


__getattr__, __dir__ = attach(__name__, {"draw": "wane.agents.bandit.sample"})
