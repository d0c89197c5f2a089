"""Plain Q-learning, for comparison: it learns values of states and actions and does not know that rewards wear off.

    Q(s, a) ← Q(s, a) + α (r + γ max_a' Q(s', a') − Q(s, a))

The agent receives what the world pays, walls included, but it neither observes nor represents what remains of the
rewards. As the paper shows (lemma 3.1), no Bellman equation over values alone fits diminishing rewards. This agent
differs from `wane.agents.q_lambda` with λ = 1, which holds a representation and multiplies it by what remains. If an
episode terminates (and is not merely truncated), its last target is r, because nothing follows.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from wane.agents.common.contract import Agent
from wane.agents.common.policy import Policy, first_best, no_draws
from wane.agents.common.rollout import Transition, discount_of
from wane.agents.common.training import Returns, train_episodes
from wane.settings import Checked, Count, Discount, Finite, Probability, Weight
from wane.types import AnyArray, Integer, Scalar, Tree
from wane.worlds.process import Tabular

OBSERVATION = "index"


@dataclass(frozen=True)
class Config(Checked):
    """The settings of Q-learning. The defaults are those of `wane.agents.q_lambda`."""

    discount: Discount | None = None
    """γ; None takes the world's"""
    step_size: Weight = 0.1
    """α"""
    epsilon: Probability = 0.2
    """ε: probability of a uniformly random action"""
    optimism: Finite = 0.2
    """initial value of every entry of Q"""
    episodes: Count = 500
    evaluate_every: Count = 20
    """episodes before each evaluation, which is a greedy episode from which nothing is learned"""


class State(NamedTuple):
    """What the agent has learned."""

    q: Float[Array, "states actions"]


def td_error(
    q_t: Scalar,
    reward: Scalar,
    q_next: Float[AnyArray, " actions"],
    terminated: Bool[AnyArray, ""] | bool,
    discount: Scalar,
) -> Float[AnyArray, ""]:
    """r + γ max_a' Q(s', a') − Q(s, a), without the second term where the episode terminated."""
    return reward + discount * jnp.where(terminated, 0.0, q_next.max()) - q_t


def init(key: jax.Array, world: Tabular, config: Config) -> State:
    """Returns a table whose entries are all `config.optimism`. Nothing is drawn from `key`."""
    return State(jnp.full((world.n_states, world.n_actions), config.optimism, float))


def update(
    state: State, data: Transition, world: Tabular, config: Config, key: None = None
) -> tuple[State, Float[AnyArray, ""]]:
    """Learns from one transition. Returns the new state and the TD error."""
    cell, q_next = data.observation, state.q[data.next_observation]
    error = td_error(state.q[cell, data.action], data.reward, q_next, data.terminated, discount_of(world, config))
    return State(state.q.at[cell, data.action].add(config.step_size * data.live * error)), error


def train(
    key: jax.Array,
    world: Tabular,
    config: Config,
    state: State | None = None,
    first: Integer = 0,
    episodes: int | None = None,
) -> tuple[State, Returns]:
    """Learns in episodes `first`, `first` + 1, …, as `wane.agents.q_lambda.train` does."""
    state = init(key, world, config) if state is None else state
    return train_episodes(key, world, config, state, first, episodes, _values, update, policy)


def _values(state: State, observation: Integer) -> Float[AnyArray, " actions"]:
    return state.q[observation]


def policy(params: State, world: Tabular, config: Config) -> Policy:
    """Returns the greedy policy: it takes the action of the highest value."""
    return Policy(_act, params, draw=no_draws, observation=OBSERVATION)


def _act(state: State, carry: Tree, observation: Integer, key: None) -> tuple[Int[Array, ""], Tree, None]:
    return first_best(state.q[observation]), carry, None


AGENT = Agent("q_learning", Config, State, init, train, policy, update, unit="episodes")
