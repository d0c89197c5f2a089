"""Random tasks: a start and a few unit rewards for each episode (the paper's appendix H).

An agent that can act for any rewards is tested on many of them. Its return is the undiscounted sum of its rewards, as
in the paper's plots. `sample_tasks` makes the tasks. To use the same tasks again (for their optimum, say), pass on the
same object.
"""

import dataclasses
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from wane.agents.common.policy import Policy
from wane.agents.common.rollout import play
from wane.worlds.process import Tabular, single_states

ATabular = TypeVar("ATabular", bound=Tabular)


class Tasks(NamedTuple):
    """Many tasks in one world."""

    rewards: Float[Array, "tasks states"]
    """r̄ of every state."""
    starts: Int[Array, " tasks"]
    keys: Array
    """A random key for the episode of each task."""


def random_goals(key: jax.Array, n_states: int, goals: int) -> Float[Array, " states"]:
    """Rewards of every state: 1 in `goals` random states, 0 elsewhere. Raises ValueError if `goals` is impossible."""
    if not 1 <= goals <= n_states:
        raise ValueError(f"goals is a number of states, 1 to {n_states}, got {goals}")
    return (jax.random.permutation(key, n_states) < goals).astype(float)


def with_rewards(world: ATabular, rewards: Float[Array, " states"]) -> ATabular:
    """Returns the world with every state as a site, and with the given rewards.

    The world must have the setting `sites`, as a `World` and an `MDPWorld` have.
    """
    settings: Any = {"sites": np.arange(world.n_states), "rewards": rewards}
    return dataclasses.replace(world, **settings)


def sample_tasks(key: jax.Array, world: Tabular, count: int, goals: int) -> Tasks:
    """Draws `count` tasks with random starts and random goals."""

    def sample(key: jax.Array) -> Tasks:
        goal_key, play_key = jax.random.split(key)
        start = world.reset(jax.random.split(play_key, 3)[0])[1].cell
        return Tasks(random_goals(goal_key, world.n_states, goals), start, play_key)

    return jax.vmap(sample)(jax.random.split(key, count))


def undiscounted_returns(world: Tabular, policy: Policy, tasks: Tasks) -> Float[Array, " tasks"]:
    """The undiscounted sum of the rewards of one episode for each task."""

    def one(task: Tasks) -> Float[Array, ""]:
        return play(task.keys, with_rewards(world, task.rewards), policy, start=task.starts)[1].rewards.sum()

    return jax.vmap(one)(tasks)


def all_rewards(world: Tabular, remaining: Float[Array, " sites"]) -> Float[Array, " states"]:
    """What remains of the reward of every state, given what remains at the sites.

    In a task of `with_rewards` every state is a site, and `remaining` is returned as it is. Raises ValueError if a site
    has several states: what they share belongs to none of them.
    """
    if len(remaining) == world.n_states != world.n_sites:
        return remaining
    return jnp.zeros(world.n_states, remaining.dtype).at[single_states(world, "a reward of every state")].set(remaining)
