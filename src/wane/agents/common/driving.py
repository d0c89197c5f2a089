"""Plays policies in tasks that are simulated on the host (`wane.worlds.control`)."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from wane.agents.common.policy import Policy
from wane.agents.common.rollout import require_episodes
from wane.worlds.control import ControlTask


class Played(NamedTuple):
    """One episode of a control task, or many with the episodes along the first axis."""

    states: Float[np.ndarray, "*episodes moments numbers"]
    """The physical states, the start included."""
    actions: Float[np.ndarray, "*episodes steps actions"]
    rewards: Float[np.ndarray, "*episodes steps"]
    """What each step paid; 0 after the end."""
    live: Float[np.ndarray, "*episodes steps"]
    """1 for each step that was taken, 0 for those after the end."""
    value: Float[np.ndarray, "*episodes"]
    """The discounted return, Σ γᵗ rₜ from t = 0 on."""


def drive(key: jax.Array, task: ControlTask, policy: Policy, episodes: int, discount: float) -> Played:
    """Plays `episodes` episodes at the same time, one in each copy of the task.

    Raises ValueError if they need too much memory.
    """
    numbers = len(Played._fields) + task.n_observations + task.n_actions
    require_episodes(episodes, task.steps, numbers, "task")
    start_key, policy_key = jax.random.split(key)
    batch = task.copies(np.asarray(jax.random.bits(start_key, (episodes,))).tolist())
    keys = jax.random.split(policy_key, episodes)
    draws = jax.vmap(lambda key: policy.draw(key, task.steps))(keys) if policy.draw(key, 1) is not None else None
    act = jax.jit(jax.vmap(policy.act, (None, 0, 0, 0)))
    carry = jax.tree_util.tree_map(lambda leaf: np.stack([leaf] * episodes), policy.carry)
    states, actions, rewards, live = [batch.states], [], [], [np.ones(episodes)]
    for t in range(task.steps):
        now: Any = None if draws is None else draws[:, t]
        action, carry, _ = act(policy.params, carry, batch.observation, now)
        outcome = batch.step(np.asarray(action))
        rewards.append(outcome.reward * live[-1])
        actions.append(np.asarray(action))
        # A copy whose episode ended is already in its next episode. After the end the last state is repeated.
        after = batch.final_states if outcome.ended.any() else batch.states
        states.append(np.where(live[-1][:, None] > 0, after, states[-1]))
        live.append(live[-1] * ~outcome.ended)
    paid = np.stack(rewards, 1)
    value = paid @ discount ** np.arange(task.steps)
    return Played(np.stack(states, 1), np.stack(actions, 1), paid, np.stack(live[:-1], 1), value)
