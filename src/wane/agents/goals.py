"""Acting on the rewards that are left, with goals drawn anew for each episode: the task of the paper's appendix H.

An agent that is ready for any rewards is a function `choose(cell, rewards) → action`, where `rewards` is what is left
of the reward of every state, not only of the world's sites. It is tested from random starts with a few random unit
rewards, and its return is the plain sum of what it was paid, as the paper plots it.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wane.agents.episode import Episode, play
from wane.worlds.world import World

Choose = Callable[[Any, Any], Any]
"""(cell, what is left of the reward of every state) → action"""


def with_goals(key: jax.Array, world: World, goals: int) -> World:
    """The world with so many random unit rewards instead of its own, every state a site."""
    if not 1 <= goals <= world.n_states:
        raise ValueError(f"goals is a number of states, 1 to {world.n_states}, got {goals}")
    chosen = jax.random.permutation(key, world.n_states) < goals
    return dataclasses.replace(world, sites=np.arange(world.n_states), rewards=chosen.astype(float))


def rollout(key: jax.Array, world: World, choose: Choose, start: Any = None) -> Episode:
    """An episode with the world's own rewards."""

    def step(_, cell, left, __):
        return choose(cell, jnp.zeros(world.n_states, left.dtype).at[world.sites].set(left))

    return play(key, world, step, start=start)[1]


def returns(key: jax.Array, world: World, choose: Choose, episodes: int, goals: int = 2) -> jax.Array:
    """Undiscounted returns of so many episodes, with random goals or, if there are 0, the world's own rewards."""

    def one(key):
        goal_key, play_key = jax.random.split(key)
        return rollout(play_key, with_goals(goal_key, world, goals) if goals else world, choose).rewards.sum()

    return jax.vmap(one)(jax.random.split(key, episodes))
