"""What a policy is, and the rules by which agents choose actions.

A policy acts by `act(params, carry, observation, key) → (action, carry, extras)`: `params` is what was learned, `carry`
is what the policy remembers from step to step (None if it remembers nothing), and `extras` is anything else that the
roll-out should record. `wane.agents.common.rollout` plays any policy in any environment.

The `key` that `act` receives comes from `draw(key, steps)`, which draws for many steps at once: random keys by default.
Agents with tables take uniform numbers instead (`uniforms`), because drawing from a key inside every step would take
longer than the rest of the step.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from wane.types import AnyArray, Scalar, Tree

TIE = 1e-5
"""Actions within this fraction of the best value count as equally good. It exceeds the rounding of single precision."""

Act = Callable[[Any, Any, Any, Any], tuple[Any, Any, Any]]
"""(params, carry, observation, key) → (action, carry, extras)"""


class Policy(eqx.Module):
    """Something that acts. Agents make one with their `policy(params, world, config)`.

    Their `act` is a function of a module, or a `partial` of one, so that a policy can be pickled and copied.
    """

    act: Act = eqx.field(static=True)
    params: Tree = None
    """The first argument of `act`: what was learned."""
    carry: Tree = None
    """What the policy remembers when an episode begins."""
    draw: Callable[[jax.Array, int], Any] = eqx.field(static=True, default=jax.random.split)
    """Makes the randomness of many steps from one key; `act` receives one entry of it at each step."""
    observation: Any = eqx.field(static=True, default=None)
    """The observation that the policy acts on, as a `World` takes it; None stands for the world's own."""


def no_draws(key: jax.Array, steps: int) -> None:
    """The `draw` of a policy that needs no randomness."""


def uniforms(count: int) -> Callable[[jax.Array, int], Float[Array, "steps count"]]:
    """Returns a `draw` that gives `act` `count` uniform numbers at each step."""
    return partial(_draw_uniforms, count)


def _draw_uniforms(count: int, key: jax.Array, steps: int) -> Float[Array, "steps count"]:
    return jax.random.uniform(key, (steps, count))


def first_best(q: Float[AnyArray, " actions"], tolerance: float = TIE) -> Int[Array, ""]:
    """The first of the actions that are as good as the best one.

    Equal values are common, and rounding must not choose between them: this way single and double precision, one agent
    and a batch of agents act alike.
    """
    best = q.max()
    return jnp.argmax(q >= best - tolerance * jnp.abs(best)).astype(jnp.int32)


def epsilon_greedy(q: Float[AnyArray, " actions"], draws: Float[AnyArray, " two"], epsilon: Scalar) -> Int[Array, ""]:
    """The best action, or with probability ε a uniformly random one. It takes two uniform numbers."""
    random = jnp.floor(draws[1] * len(q)).astype(jnp.int32)
    return jnp.where(draws[0] < epsilon, random, first_best(q))


def compose(
    q: Float[AnyArray, "policies actions"], own_actions: Int[AnyArray, " policies"] | None = None
) -> Int[Array, ""]:
    """GPI: the action with the highest value under any of the policies, argmax_a max_π Q^π(s, a).

    If `own_actions` gives the policies' actions π(s), it is the action of the best policy, argmax_π Q^π(s, π(s)): this
    needs no values of actions that no policy takes.
    """
    if own_actions is None:
        return first_best(q.max(0))
    own_values = jnp.take_along_axis(jnp.asarray(q), own_actions[:, None], 1)[:, 0]
    return own_actions[first_best(own_values)]


def sample_action(cumulative: Float[AnyArray, " actions"], draw: Scalar) -> Int[Array, ""]:
    """Draws an action, given the cumulative probabilities of all actions and one uniform number."""
    return jnp.sum(draw >= cumulative[:-1]).astype(jnp.int32)


def dot(phi: Float[AnyArray, "*rows sites"], rewards: Float[AnyArray, " sites"]) -> Float[AnyArray, "*rows"]:
    """Φ r over the last axis.

    It is written as a product and a sum because XLA fuses these with the operations that follow, and does not do so
    with a batched `dot`.
    """
    return (phi * rewards).sum(-1)
