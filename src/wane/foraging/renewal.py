"""The best a forager can do in a task with fresh patches, exactly: Charnov's theorem with and without discounting.

A patch of kind k pays r_k(i) at the end of its i-th harvest, each harvest takes h, and after n of them the forager
leaves and is away for τ. Let a(t) = (1 − e^(−st)) / s be the annuity of the time t, which is t itself for s = 0. With
G_k(n) = Σ_{i ≤ n} e^(−sih) r_k(i), the value of arriving at a random patch is V = ρ / s, where ρ is the rate with

    Σ_k p_k max_{n ≥ 1} [ G_k(n) − ρ a(nh + τ) ] = 0                                                            (1)

For s = 0 the ρ of (1) is the largest long-run rate of reward, and (1) is Charnov's theorem for harvests: leave when the
next harvest pays less than ρh. With discounting, too, one threshold serves all patches: the surplus of a harvest is

    x_i = e^(−sh) r_i − ρ e^(−sτ) a(h)

and leaving after n harvests is worth −S_n more than staying, where

    S_n = x_{n+1} + e^(−sh) max(0, S_{n+1})                                                                      (2)

(1) is solved by policy iteration: the best n for a ρ give a better ρ, until nothing changes, after a few rounds. All of
this is a function of JAX arrays. Its gradients are exact, because at the optimum the choice of n does not matter to
first order.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wane.types import AnyArray, Scalar

Curve = Float[AnyArray, "kinds harvests"]


def annuity(rate: Scalar, time: Any) -> Any:
    """(1 − e^(−rate · time)) / rate, which is the time itself for rate 0."""
    x = rate * jnp.asarray(time)
    small = jnp.abs(x) < 1e-5
    # Gradients go through both branches of `where`, so the unused branch must not divide by zero either.
    safe = jnp.where(small, 1.0, x)
    return time * jnp.where(small, 1 - x / 2 + x * x / 6, -jnp.expm1(-safe) / safe)


def gains(curve: Curve, harvest: Scalar, rate: Scalar) -> Float[Array, "kinds harvests"]:
    """G_k(n) for n = 1, 2, …"""
    count = jnp.arange(1, curve.shape[1] + 1)
    return jnp.cumsum(curve * jnp.exp(-rate * harvest * count), axis=1)


def best_rate(
    curve: Curve, weights: Float[AnyArray, " kinds"], harvest: Scalar, away: Scalar, rate: Scalar
) -> Float[Array, ""]:
    """The ρ of equation (1)."""
    gained = gains(jnp.asarray(curve), harvest, rate)
    worth = annuity(rate, harvest * jnp.arange(1, curve.shape[1] + 1) + away)

    def improve(rho: Any, gained: Any, worth: Any, weights: Any) -> Any:
        n = jnp.argmax(gained - rho * worth, axis=1)
        return jnp.sum(weights * jnp.take_along_axis(gained, n[:, None], 1)[:, 0]) / jnp.sum(weights * worth[n])

    fixed = jax.tree_util.tree_map(jax.lax.stop_gradient, (gained, worth, jnp.asarray(weights)))
    start = improve(jnp.zeros((), gained.dtype), *fixed)

    def grows(state: Any) -> Any:
        return state[1] > state[0]

    before, _ = jax.lax.while_loop(grows, lambda s: (s[1], improve(s[1], *fixed)), (start, improve(start, *fixed)))
    return improve(jax.lax.stop_gradient(before), gained, worth, jnp.asarray(weights))


def surplus_of_staying(
    rewards: Float[AnyArray, "*rows harvests"], rho: Any, harvest: Scalar, away: Any, rate: Scalar
) -> Float[Array, "*rows harvests"]:
    """S_n of equation (2) for n = 0, 1, …, along the last axis of rewards; nothing is paid after its end.

    `rho` and `away` are numbers, or arrays that fit the other axes.
    """
    price = jnp.asarray(rho * jnp.exp(-rate * away) * annuity(rate, harvest))
    factor = jnp.exp(-rate * harvest)
    x = jnp.moveaxis(factor * jnp.asarray(rewards) - jnp.broadcast_to(price[..., None], rewards.shape), -1, 0)

    def back(later: Any, surplus: Any) -> tuple[Any, Any]:
        now = surplus + factor * jnp.maximum(later, 0.0)
        return now, now

    # After the end of the rewards, every harvest costs the price and pays nothing.
    last = -price * jnp.ones(x.shape[1:], x.dtype)
    return jnp.moveaxis(jax.lax.scan(back, last, x, reverse=True)[1], 0, -1)
