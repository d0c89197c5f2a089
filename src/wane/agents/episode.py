"""One episode of a world, played or learned from, as one `scan`: what the tabular agents share.

An agent gives `act(learner, cell, left, draws) → action` and, to learn, `learn(learner, transition, draws) → learner`;
`left` is what is left of every reward, which the paper gives to its agents at every step. Returns are the world's:
Σ_{t ≥ 1} γᵗ rₜ where it pays on arrival, Σ_{t ≥ 0} γᵗ rₜ on departure.

An episode that ends early (the world's threshold) stands still from there on: it pays nothing, and `live` is 0. A
learner multiplies its step by `live`, which costs one product; choosing between two whole tables at every step would
cost more than all the rest.

All random numbers of an episode are drawn before it begins. Only slipping draws while it goes on, in `World.step`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wane.mdp import check_discount
from wane.worlds.world import World

TIE = 1e-5
"""actions within this fraction of the best value are as good as it: coarser than single precision rounds"""


class Transition(NamedTuple):
    """What one step of a world shows."""

    cell: Any
    action: Any
    reward: Any
    next_cell: Any
    left: Any
    """what is left of every reward after the step"""
    terminated: Any
    live: Any
    """1.0, or 0.0 once the episode is over"""


class Episode(NamedTuple):
    cells: Any
    """where the agent was, the start included: (steps + 1,)"""
    actions: Any
    """(steps,)"""
    rewards: Any
    """what each step paid: (steps,)"""
    remaining: Any
    """what was left of every reward, the start included: (steps + 1, sites)"""
    live: Any
    """1.0 for each step that was taken, 0.0 for those after the end: (steps,)"""
    value: Any
    """the discounted return"""


class Info(NamedTuple):
    """What training tells."""

    returns: Any
    """discounted return of every episode, as it was learned from"""
    greedy: Any
    """discounted return of a greedy episode after it, which teaches nothing; NaN where there was none"""


def play(
    key: jax.Array,
    world: World,
    act: Callable[..., Any],
    learner: Any = None,
    learn: Callable[..., Any] | None = None,
    *,
    start: Any = None,
    draws: int = 0,
) -> tuple[Any, Episode]:
    """The learner after the episode, and the episode; `draws` uniform numbers go to `act` and `learn` at every step."""
    if world.horizon is None:
        raise ValueError("an episode needs an end: give the world a horizon, dataclasses.replace(world, horizon=…)")
    reset_key, draw_key, step_key = jax.random.split(key, 3)
    state = world.reset(reset_key)[1] if start is None else world.begin(start)[1]
    numbers = jax.random.uniform(draw_key, (world.horizon, draws))
    keys = jax.random.split(step_key, world.horizon) if world.slip else None

    def step(carry, now):
        learner, state, left, live = carry
        key, draw = now
        action = act(learner, state.cell, left, draw)
        _, moved, reward, terminated, _, info = world.step(key, state, action)
        after, reward = info["remaining"], reward * live
        if learn is not None:
            seen = Transition(state.cell, action, reward, moved.cell, after, terminated, live)
            learner = learn(learner, seen, draw)
        if world.threshold is not None:
            moved, after = jax.tree_util.tree_map(
                lambda new, old: jnp.where(live > 0, new, old), (moved, after), (state, left)
            )
        done = jnp.where(terminated, 0.0, live)
        return (learner, moved, after, done), (moved.cell, jnp.asarray(action, jnp.int32), reward, after, live)

    left = world.remaining(state)
    carry = (learner, state, left, jnp.ones((), left.dtype))
    (learner, *_), (cells, actions, rewards, remaining, live) = jax.lax.scan(step, carry, (keys, numbers))
    cells, remaining = jnp.append(state.cell, cells), jnp.concatenate([left[None], remaining])
    value = discounts(world) @ rewards
    return learner, Episode(cells, actions, rewards, remaining, live, value)


def lessons(
    key: jax.Array, state: Any, numbers: jax.Array, every: int, practise: Callable[..., Any], test: Callable[..., Any]
) -> tuple[Any, Info]:
    """Episodes with the given numbers: `practise(key, state)` each, and `test(key, state)` after each `every`-th.

    The key of an episode depends on its number alone, so training in parts comes to the same as at once. Numbers are
    not batched where keys and λ's are, so `cond` really leaves out the tests that are not due.
    """

    def episode(state, e):
        learn_key, test_key = jax.random.split(jax.random.fold_in(key, e))
        state, played = practise(learn_key, state)
        no, due = jnp.full_like(played.value, jnp.nan), (e + 1) % every == 0
        return state, Info(played.value, jax.lax.cond(due, lambda: test(test_key, state).value, lambda: no))

    return jax.lax.scan(episode, state, numbers)


def discount_of(world: World, config: Any) -> Any:
    """The γ that an agent learns with: its own if it has one, else the world's."""
    return world.discount if config.discount is None else check_discount(config.discount)


def discounts(world: World) -> np.ndarray:
    """γᵗ of each step's reward, t from 1 where the world pays on arrival, else from 0."""
    first = 1 if world.timing == "arrival" else 0
    return world.discount ** (np.arange(world.horizon or 0) + first)


def dot(phi: Any, left: Any) -> Any:
    """Φ r over the last axis. A product and a sum, which XLA fuses with what follows; its batched `dot` it does not."""
    return (phi * left).sum(-1)


def first_best(q: jax.Array, tolerance: float = TIE) -> jax.Array:
    """The first action as good as the best. Equal values are common, and what rounding does to them decides nothing:
    single and double precision, one agent and a batch of them act alike."""
    best = q.max()
    return jnp.argmax(q >= best - tolerance * jnp.abs(best)).astype(jnp.int32)


def epsilon_greedy(q: jax.Array, draws: jax.Array, epsilon: Any) -> jax.Array:
    """The best action, or with probability ε a uniformly random one; takes two uniform numbers."""
    random = jnp.floor(draws[1] * len(q)).astype(jnp.int32)
    return jnp.where(draws[0] < epsilon, random, first_best(q))
