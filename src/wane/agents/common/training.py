"""Loops of training that several agents share.

Episode (or epoch) e uses fold_in(key, e), so training in chunks gives the same result as training in one call.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from wane.agents.common.policy import Policy, epsilon_greedy, uniforms
from wane.agents.common.rollout import play
from wane.checks import is_traced
from wane.types import AnyArray, Integer
from wane.worlds.process import Process

APART = 2**32 - 1
"""Folded into a key, this number gives a key that no episode, no epoch, no step and no split has."""


class Returns(NamedTuple):
    """The returns of training and of evaluations."""

    returns: Float[Array, " episodes"]
    """The discounted return of every training episode."""
    evaluated_after: Int[Array, " evaluations"]
    """The number of training episodes before each evaluation."""
    greedy: Float[Array, " evaluations"]
    """The discounted return of each evaluation, which is a greedy episode from which nothing is learned."""


def train_episodes(
    key: jax.Array,
    world: Process,
    config: Any,
    state: Any,
    first: Integer,
    episodes: int | None,
    q_values: Callable[[Any, Any], Float[AnyArray, " actions"]],
    update: Callable[..., tuple[Any, Any]],
    policy: Callable[..., Policy],
) -> tuple[Any, Returns]:
    """Learns at every step of ε-greedy episodes, with a greedy episode after each `config.evaluate_every`-th of them.

    `q_values(state, observation)` are what is acted on; `update` and `policy` are those of the agent. If JAX traces
    `first` and `evaluate_every` does not divide `episodes`, the number of evaluations is not known. Then the result has
    room for the largest possible number, and the last entry of `greedy` is NaN if that evaluation was not due.
    """
    count = int(config.episodes if episodes is None else episodes)

    def act(state, carry, observation, draws):
        return epsilon_greedy(q_values(state, observation), draws, config.epsilon), carry, None

    def episode(state: Any, number: Any) -> tuple[Any, tuple[Array, Array]]:
        learn_key, evaluate_key = jax.random.split(jax.random.fold_in(key, number))
        greedy = policy(state, world, config)
        explore = Policy(act, state, draw=uniforms(2), observation=greedy.observation)
        learn = lambda state, data, _: update(state, data, world, config)[0]  # noqa: E731
        state, played = play(learn_key, world, explore, learn=learn)
        none = jnp.full_like(played.value, jnp.nan)
        # `vmap` batches keys and λ but not the numbers, so `cond` really skips the evaluations that are not due.
        due = (number + 1) % config.evaluate_every == 0
        evaluate = lambda: play(evaluate_key, world, policy(state, world, config))[1].value  # noqa: E731
        return state, (played.value, jax.lax.cond(due, evaluate, lambda: none))

    state, (returns, greedy) = jax.lax.scan(episode, state, numbered(first, count))
    due = _evaluations(first, count, config.evaluate_every)
    return state, Returns(returns, jnp.asarray(first) + due + 1, jnp.take(greedy, due, mode="fill", fill_value=jnp.nan))


def _evaluations(first: Integer, episodes: int, evaluate_every: int) -> Int[Array, " evaluations"]:
    """The indices, counted from `first`, of the episodes after which an evaluation is due."""
    if episodes % evaluate_every == 0:
        count = episodes // evaluate_every
    elif is_traced(first):
        count = -(-episodes // evaluate_every)
    else:
        count = (int(first) + episodes) // evaluate_every - int(first) // evaluate_every
    return jnp.asarray(evaluate_every - 1 - first % evaluate_every) + evaluate_every * jnp.arange(count)


def train_epochs(
    key: jax.Array,
    state: Any,
    first: Integer,
    epochs: int,
    epoch: Callable[[jax.Array, Any], tuple[Any, Any]],
    watch: Callable[[jax.Array, Any], Any] | None = None,
) -> tuple[Any, Any]:
    """Calls `epoch(key, state)`, which returns the state and its measurements, for each number from `first` on.

    `watch(key, state)` is called after each epoch, and the field `watched` of the measurements holds what it returns.
    """

    def one(state: Any, number: Any) -> tuple[Any, Any]:
        epoch_key = jax.random.fold_in(key, number)
        state, info = epoch(epoch_key, state)
        if watch is not None:
            info = info._replace(watched=watch(watch_key(key, number), state))
        return state, info

    return jax.lax.scan(one, state, numbered(first, epochs))


def watch_key(key: jax.Array, number: Integer) -> jax.Array:
    """The key that `watch` receives after epoch `number`. With it, the same tasks can be sampled again."""
    return jax.random.fold_in(jax.random.fold_in(key, number), APART)


def numbered(first: Integer, count: int) -> Int[Array, " numbers"]:
    """The numbers of `count` episodes or epochs, beginning with `first`."""
    return jnp.asarray(first) + jnp.arange(count)
