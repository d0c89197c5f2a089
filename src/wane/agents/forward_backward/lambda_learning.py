"""Learning λ from the rewards of states in which the agent stayed (section 6 and Algorithm 3, lines 20 to 22).

A visit leaves the fraction λ of a reward, so a state in which the agent stays for a step reveals λ. Let r_t(s) be what
a visit to s would pay at time t. If s_{t+1} = s_t, then r_{t+1}(s_{t+1}) = λ r_t(s_t). The paper minimises

    L(λ) = ½ E[ 1(s_{t+1} = s_t) (r_{t+1}(s_{t+1}) − λ r_t(s_t))² ]

by Adam, while it learns the representation. This is a regression through the origin, which has a closed form. With
x = r_t(s_t) and y = r_{t+1}(s_{t+1}) over the steps in which the agent stayed, and with weights w,

    λ̂ = Σ w y / Σ w x,        w = x for the paper's least squares.

Slips do no harm: they only make staying rarer, independently of the rewards. Noise does harm. If both rewards are read
with an error of variance σ², least squares divides by E x² + σ², and its result is too small by the factor
E x² / (E x² + σ²), however much data there is. (The regressor has an error, so the paper's "provably recovers" needs
noiseless rewards.) Weights that do not depend on the errors in x and y do not have this bias. The simplest is w = 1,
the ratio of sums, which fails only where rewards average to zero. It adds up the noise of all states, so better weights
are larger where there is more to earn: for example 1 in the states that are known to pay and 0 elsewhere, or the
reading before x and y, if all three belong to one stay ("earlier"; good if rewards last).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from wane.agents.common.networks import descend


class Step(NamedTuple):
    """One step of a collected episode, or many with further axes."""

    cell: Int[Array, "*steps"]
    """s_t"""
    next_cell: Int[Array, "*steps"]
    """s_{t+1}"""
    reward: Float[Array, "*steps"]
    """r_t(s_t): what a visit to s_t would pay at time t."""
    next_reward: Float[Array, "*steps"]
    """r_{t+1}(s_{t+1})"""
    action: Int[Array, "*steps"] | None = None


def loss(lam: Float[Array, "*states"], steps: Step) -> Float[Array, ""]:
    """The paper's L(λ) on a batch; `lam` is one number, or one for each state."""
    lam_t = lam if lam.ndim == 0 else lam[steps.cell]
    error = steps.next_reward - lam_t * steps.reward
    return 0.5 * jnp.mean(stayed(steps) * error**2)


def update(
    lam: Float[Array, "*states"], state: Any, steps: Step, optimiser: optax.GradientTransformation
) -> tuple[Float[Array, "*states"], Any]:
    """Takes one step of the optimiser on L(λ). Returns λ and the optimiser's state.

    λ is clipped to [0, 1], which the paper does not mention.
    """
    lam, state = descend(optimiser, jax.grad(loss)(lam, steps), state, lam)
    return jnp.clip(lam, 0, 1), state


def estimate(steps: Step, weights: str | Float[Array, " steps"] = "least squares") -> Float[Array, ""]:
    """λ̂ in closed form, one for all states; NaN if the agent stayed in no state that pays.

    `weights` is "least squares", "ratio", "earlier" (the steps must then be those of one episode, in order), or your
    own array: an instrument, which is correlated with the rewards but not with the errors of reading them.

        >>> steps = Step(*map(jnp.array, ([0, 0, 1], [0, 1, 1], [4.0, 2.0, 1.0], [2.0, 1.0, 0.5])))
        >>> float(estimate(steps))
        0.5
    """
    w = stayed(steps) * instrument(steps, weights)
    return (w * steps.next_reward).sum() / (w * steps.reward).sum()


def stayed(steps: Step) -> Float[Array, "*steps"]:
    """1(s_{t+1} = s_t)"""
    return (steps.next_cell == steps.cell).astype(steps.reward.dtype)


def instrument(steps: Step, weights: str | Float[Array, " steps"]) -> Float[Array, " steps"]:
    """The weight of each step. Raises ValueError for an unknown name."""
    if not isinstance(weights, str):
        return jnp.asarray(weights)
    if weights == "least squares":
        return steps.reward
    if weights == "ratio":
        return jnp.ones_like(steps.reward)
    if weights == "earlier":
        before = jnp.roll(stayed(steps), 1) * jnp.roll(steps.reward, 1)
        follows = (jnp.roll(steps.next_cell, 1) == steps.cell) & (jnp.arange(len(before)) > 0)
        return jnp.where(follows, before, 0)
    raise ValueError(f'weights is "least squares", "ratio", "earlier" or an array, got {weights!r}')
