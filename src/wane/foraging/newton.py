"""Minimising a smooth function of few numbers by Newton's method, many times side by side, and profiles of it.

Every step solves (|H| + μ) p = −g, where |H| is the Hessian with its eigenvalues made positive. A step that does not
lower the function is taken back, and μ grows; otherwise μ shrinks. The numbers stay within ±LARGEST, which is beyond
the range where a parameter still changes anything.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

LARGEST = 20.0
"""The largest size of an unbounded number: e²⁰ is 5 · 10⁸."""
LONGEST_STEP = 2.0
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


def minimise(
    objective: Objective,
    start: Float[Array, " parameters"],
    free: Bool[Array, " parameters"] | None = None,
    most_steps: int = 60,
) -> Minimum:
    """The minimum that is reached from a start. Parameters that are not `free` stay where they are."""
    mask = jnp.ones(start.shape, start.dtype) if free is None else free.astype(start.dtype)

    def measure(z: Any, steps: Any) -> Minimum:
        value, gradient = jax.value_and_grad(objective)(z)
        hessian = jax.jacfwd(jax.grad(objective))(z)
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
        gain = found.value - new.value
        ended = (fine & (gain < 1e-10 * (1 + jnp.abs(new.value))) & (damping < 1e-3)) | (damping > 1e12)
        kept = jax.tree_util.tree_map(lambda a, b: jnp.where(fine, a, b), new, found)
        kept = kept._replace(steps=new.steps)
        return _Search(kept, jnp.where(fine, damping / 8, 10 * damping + 1e-3), ended | (kept.steps >= most_steps))

    first = measure(jnp.clip(start, -LARGEST, LARGEST), jnp.zeros((), jnp.int32))
    search = _Search(first, jnp.ones((), start.dtype), ~jnp.isfinite(first.value))
    return jax.lax.while_loop(lambda s: ~s.done, step, search).found


def profile_end(
    objective: Objective, best: Minimum, index: Int[Array, ""], direction: Float[Array, ""], rise: Any
) -> Float[Array, ""]:
    """How far one parameter can go in a direction until the minimum over the others is `rise` higher.

    Returns the end as an unbounded number, ±∞ if the minimum never rises so far.
    """
    free = jnp.arange(len(best.z)) != index

    def excess(distance: Any, guess: Any) -> tuple[Any, Any]:
        start = jnp.where(free, guess, best.z + direction * distance)
        found = minimise(objective, start, free, 40)
        return found.value - best.value - rise, found.z

    width = jnp.sqrt(2 * rise / jnp.maximum(best.hessian[index, index], 1e-6))
    room = LARGEST - direction * best.z[index]

    def widen(_: Any, state: Any) -> Any:
        low, high, guess = state
        above, z = excess(high, guess)
        inside = above < 0
        wider = jnp.minimum(2 * high, room)
        return jnp.where(inside, high, low), jnp.where(inside, wider, high), jnp.where(inside, z, guess)

    zero = jnp.zeros((), best.z.dtype)
    low, high, guess = jax.lax.fori_loop(0, 8, widen, (zero, jnp.minimum(width, room), best.z))

    def halve(_: Any, state: Any) -> Any:
        low, high, guess = state
        middle = (low + high) / 2
        above, z = excess(middle, guess)
        return jnp.where(above < 0, middle, low), jnp.where(above < 0, high, middle), jnp.where(above < 0, z, guess)

    low, high, _ = jax.lax.fori_loop(0, 20, halve, (low, high, guess))
    never = low >= room - 1e-4
    return jnp.where(never, direction * jnp.inf, best.z[index] + direction * (low + high) / 2)
