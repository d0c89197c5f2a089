"""Learning λ from the rewards of states that were stayed in (the paper's section 6 and Algorithm 3, lines 20 to 22).

A visit leaves the fraction λ, so a state that is stayed in for a step shows it: with r_t(s) what a visit to s would pay
at time t, s_{t+1} = s_t means r_{t+1}(s_{t+1}) = λ r_t(s_t). The paper minimises

    L(λ) = ½ E[ 1(s_{t+1} = s_t) (r_{t+1}(s_{t+1}) − λ r_t(s_t))² ]

by Adam, beside the representation. That is a regression through the origin, which has a closed form: with x = r_t(s_t),
y = r_{t+1}(s_{t+1}) over the steps that stayed, and weights w,

    λ̂ = Σ w y / Σ w x,        w = x for the paper's least squares.

Slipping only makes staying rarer: which steps stay does not depend on what they pay. Noise is another matter. If both
rewards are read with an error of variance σ², least squares divides by E x² + σ² and comes out too small, by the factor
E x² / (E x² + σ²), however much data there is (an error in the regressor, so the paper's "provably recovers" needs
noiseless rewards). Weights that know nothing of the errors in x and y do not have this bias: w = 1, the ratio of sums,
is the simplest, and fails only where rewards average to zero. It adds up the noise of all states, so better weights are
those that are larger where there is something to be had: 1 in the states known to pay and 0 elsewhere, say, or the
reading before the two, where all three are of one stay ("earlier"; good if rewards last).
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from wane.agents.replay import Transitions


def loss(lam: Any, seen: Transitions) -> jax.Array:
    """The paper's L(λ) on a batch; `lam` is one number, or one for each state."""
    error = seen.ahead - at(lam, seen.cell) * seen.here
    return 0.5 * jnp.mean(stayed(seen) * error**2)


def update(lam: jax.Array, state: Any, seen: Transitions, optimiser: optax.GradientTransformation):
    """One step of the optimiser on L(λ); λ is kept in [0, 1], where the paper says nothing. Returns λ and its state."""
    change, state = optimiser.update(jax.grad(loss)(lam, seen), state, lam)
    return jnp.clip(lam + jnp.asarray(change), 0, 1), state


def estimate(seen: Transitions, weights: Any = "least squares") -> jax.Array:
    """λ̂ in closed form, one for all states; NaN where nothing that pays was stayed in.

    `weights` is "least squares", "ratio", "earlier" (readings are then in their order), or an array of your own: an
    instrument, related to the rewards but not to the errors of reading them.

        >>> steps = Transitions(*map(jnp.array, ([0, 0, 1], [0, 1, 1], [4.0, 2.0, 1.0], [2.0, 1.0, 0.5])))
        >>> float(estimate(steps))
        0.5
    """
    w = stayed(seen) * instrument(seen, weights)
    return (w * seen.ahead).sum() / (w * seen.here).sum()


def estimate_each(seen: Transitions, n_states: int, weights: Any = "least squares") -> jax.Array:
    """λ̂ of every state from its own stays, and the common one where a state has none."""
    w = stayed(seen) * instrument(seen, weights)
    sums = [jnp.zeros(n_states, value.dtype).at[seen.cell].add(value) for value in (w * seen.ahead, w * seen.here)]
    known = sums[1] != 0
    return jnp.where(known, sums[0] / jnp.where(known, sums[1], 1), estimate(seen, weights))


def stayed(seen: Transitions) -> jax.Array:
    """1(s_{t+1} = s_t)"""
    return (seen.next_cell == seen.cell).astype(seen.here.dtype)


def instrument(seen: Transitions, weights: Any) -> jax.Array:
    """What a step weighs; `earlier` needs the seen of one episode in their order."""
    if not isinstance(weights, str):
        return jnp.asarray(weights)
    if weights == "least squares":
        return seen.here
    if weights == "ratio":
        return jnp.ones_like(seen.here)
    if weights == "earlier":
        before = jnp.roll(stayed(seen), 1) * jnp.roll(seen.here, 1)
        follows = (jnp.roll(seen.next_cell, 1) == seen.cell) & (jnp.arange(len(before)) > 0)
        return jnp.where(follows, before, 0)
    raise ValueError(f'weights is "least squares", "ratio", "earlier" or an array, got {weights!r}')


def at(lam: Any, cell: Any) -> jax.Array:
    """λ(s), for one λ or one for each state."""
    lam = jnp.asarray(lam)
    return lam if lam.ndim == 0 else lam[cell]
