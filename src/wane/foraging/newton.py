"""Minimises a smooth function of few numbers by Newton's method, such that `vmap` can batch it, and finds profiles.

Every step solves (|H| + μ) p = −g, where |H| is the Hessian with its eigenvalues made positive. A step that raises the
function is undone, and μ grows; otherwise μ shrinks. The numbers stay within ±LARGEST, which is beyond the range where
a parameter still changes anything.

Why not SciPy: a search here is one compiled program for many animals. For eight rats `scipy.optimize.minimize` with
exact gradients is faster, because less is compiled (all sixteen named models with intervals: L-BFGS-B 35 s,
trust-exact 49 s, this module 64 s). For the 80 simulated animals of a recovery it is slower, the more the model has
kinks (a bias 1.0 s instead of 0.3 s, learned averages 3.0 s instead of 2.1 s, a believed drop with a bias 21 s instead
of 5 s, quasi-hyperbolic 12 s instead of 0.6 s; the first call of this module, which compiles, took 2.4, 4.0, 12 and
5.4 s). At kinks it loses intervals: 33 and 9 ends of profiles of the last two were not found. The maxima agree to 1e-4
for models without kinks; at kinks either search can be better by 0.07.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

LARGEST = 20.0
"""The largest size of an unbounded number: e²⁰ is 5 · 10⁸."""
LONGEST_STEP = 2.0
PRECISION = 5e-4
"""How precisely the ends of profiles are found, as a fraction of the width of the interval."""
Objective = Callable[[Float[Array, " parameters"]], Any]


class Minimum(NamedTuple):
    """Where the search ended."""

    z: Float[Array, " parameters"]
    value: Float[Array, ""]
    gradient: Float[Array, " parameters"]
    hessian: Float[Array, "parameters parameters"]
    steps: Int[Array, ""]


class _Search(NamedTuple):
    found: Minimum
    damping: Float[Array, ""]
    done: Bool[Array, ""]


class _Bracket(NamedTuple):
    """The distances between which a profile ends."""

    low: Float[Array, ""]
    high: Float[Array, ""]
    below: Float[Array, ""]
    """How far above its end the profile is at `low`, a number below 0."""
    above: Float[Array, ""]
    """How far above its end the profile is at `high`; below 0 until a distance beyond the end has been tried."""
    last: Float[Array, ""]
    """The distance that was tried last."""
    miss: Float[Array, ""]
    """How far above its end the profile is at `last`."""
    guess: Float[Array, " parameters"]
    """The parameters at `low`, from which the next search starts."""
    steps: Int[Array, ""]


def minimise(
    objective: Objective,
    start: Float[Array, " parameters"],
    free: Bool[Array, " parameters"] | None = None,
    most_steps: int = 60,
) -> Minimum:
    """The minimum that is reached from a start. Parameters that are not `free` stay where they are."""
    mask = jnp.ones(start.shape, start.dtype) if free is None else free.astype(start.dtype)

    def measure(z: Any, steps: Any) -> Minimum:
        hessian, (value, gradient) = jax.jacfwd(_slope(objective), has_aux=True)(z)
        hessian = hessian * mask[:, None] * mask + jnp.diag(1 - mask)
        return Minimum(z, value, gradient * mask, hessian, steps)

    def step(search: _Search) -> _Search:
        found, damping, _ = search
        size, axes = jnp.linalg.eigh(found.hessian)
        move = -axes @ ((axes.T @ found.gradient) / (jnp.maximum(jnp.abs(size), 1e-9) + damping))
        move = move * jnp.minimum(1.0, LONGEST_STEP / (jnp.linalg.norm(move) + 1e-30))
        z = jnp.clip(found.z + move, -LARGEST, LARGEST)
        new = measure(z, found.steps + 1)
        fine = jnp.isfinite(new.value) & jnp.all(jnp.isfinite(new.hessian)) & (new.value <= found.value)
        expected = -jnp.sum(found.gradient * move)
        # The search ends when a step is expected to gain almost nothing. At a kink every step is undone, and the steps
        # become shorter until that is so.
        ended = (expected < jnp.where(fine, 1e-9, 1e-5)) & (found.steps > 0)
        kept = jax.tree_util.tree_map(lambda a, b: jnp.where(fine, a, b), new, found)
        kept = kept._replace(steps=new.steps)
        ended = ended | (kept.steps > most_steps) | ~jnp.isfinite(kept.value)
        return _Search(kept, jnp.where(fine, damping / 8, 10 * damping + 1e-3), ended)

    # The first step moves nowhere and measures the start, so that the objective is compiled once, inside the loop.
    nowhere = Minimum(
        jnp.clip(start, -LARGEST, LARGEST),
        jnp.full((), jnp.inf, start.dtype),
        jnp.zeros_like(start),
        jnp.eye(len(start), dtype=start.dtype),
        jnp.zeros((), jnp.int32),
    )
    search = _Search(nowhere, jnp.full((), 8.0, start.dtype), jnp.zeros((), bool))
    return jax.lax.while_loop(lambda s: ~s.done, step, search).found


def _slope(objective: Objective) -> Callable[[Array], tuple[Array, tuple[Array, Array]]]:
    """Returns a function for `jacfwd` that returns the gradient and, as auxiliary data, the value and the gradient."""

    def slope(z: Array) -> tuple[Array, tuple[Array, Array]]:
        value, gradient = jax.value_and_grad(objective)(z)
        return gradient, (value, gradient)

    return slope


def profile_end(
    objective: Objective, best: Minimum, index: Int[Array, ""], direction: Float[Array, ""], rise: Any
) -> Float[Array, ""]:
    """How far one parameter can go in a direction until the minimum over the others is `rise` higher.

    Returns the end as an unbounded number, ±∞ if the minimum never rises that far.
    """
    free = jnp.arange(len(best.z)) != index
    target = jnp.sqrt(rise)

    def excess(distance: Any, guess: Any) -> tuple[Any, Any]:
        start = jnp.where(free, guess, best.z + direction * distance)
        found = minimise(objective, start, free, 15)
        # The square root of the rise is nearly linear in the distance, so its end is found in few steps.
        return jnp.sqrt(jnp.maximum(found.value - best.value, 0.0)) - target, found.z

    width = jnp.sqrt(2 * rise / jnp.maximum(best.hessian[index, index], 1e-6))
    room = LARGEST - direction * best.z[index]

    zero = jnp.zeros((), best.z.dtype)
    state = _Bracket(zero, jnp.minimum(width, room), -target, -target, zero, -target, best.z, jnp.zeros((), jnp.int32))
    state = jax.lax.while_loop(lambda s: _goes_on(s, room, target), lambda s: _advance(s, room, excess), state)
    return jnp.where(state.above < 0, direction * jnp.inf, best.z[index] + direction * state.last)


def _advance(state: _Bracket, room: Any, excess: Callable[[Any, Any], tuple[Any, Any]]) -> _Bracket:
    """The bracket after one more distance was tried: further out until the end is bracketed, then inside."""
    bracketed = state.above >= 0
    share = jnp.clip(state.below / (state.below - state.above), 0.02, 0.98)
    # Every third step halves the bracket, in case the rise is too curved for linear interpolation.
    share = jnp.where(state.steps % 3 == 2, 0.5, share)
    distance = jnp.where(bracketed, state.low + (state.high - state.low) * share, state.high)
    value, z = excess(distance, state.guess)
    inside = value < 0
    beyond = jnp.where(bracketed, state.high, jnp.minimum(2 * state.high, room))
    return _Bracket(
        low=jnp.where(inside, distance, state.low),
        high=jnp.where(inside, beyond, distance),
        below=jnp.where(inside, value, state.below),
        above=jnp.where(inside & bracketed, state.above, value),
        last=distance,
        miss=value,
        guess=jnp.where(inside, z, state.guess),
        steps=state.steps + 1,
    )


def _goes_on(state: _Bracket, room: Any, target: Any) -> Bool[Array, ""]:
    """Whether the end is not yet known precisely, and there is room to look for it."""
    wide = (jnp.abs(state.miss) > PRECISION * target) & (state.high - state.low > PRECISION * state.high)
    return jnp.where(state.above < 0, (state.low < room) & (state.steps < 14), wide & (state.steps < 30))


def minimise_from(objective: Objective, starts: Float[Array, "starts parameters"], rise: Any) -> tuple[Minimum, Array]:
    """The best minimum that is reached from some starts, and the ends of its profiles (parameters, 2)."""
    found = jax.vmap(lambda start: minimise(objective, start))(starts)
    best = jax.tree_util.tree_map(lambda a: a[jnp.nanargmin(found.value)], found)
    return best, profiles(objective, best, rise)


def profiles(objective: Objective, best: Minimum, rise: Any) -> Float[Array, "parameters 2"]:
    """`profile_end` of every parameter, downwards and upwards."""

    def end(index: Array, direction: Array) -> Array:
        return profile_end(objective, best, index, direction, rise)

    return jax.vmap(jax.vmap(end, (None, 0)), (0, None))(jnp.arange(len(best.z)), jnp.array([-1.0, 1.0]))
