"""An agent: it prefers the actions after which rewards came."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from wane.agents import Agent
from wane.agents.common.policy import Policy
from wane.agents.common.rollout import play


@dataclass(frozen=True)
class Config:
    """The settings of the agent, which are our own."""

    step_size: float = 0.2
    epsilon: float = 0.3
    episodes: int = 50


class State(NamedTuple):
    """What was learned."""

    preference: jax.Array


def init(key, world, config):
    return State(jnp.zeros((world.n_states, world.n_actions)))


def update(state, data, world, config, key=None):
    """Moves the preference for an action towards the reward that followed it."""
    cell, action, reward = data
    change = config.step_size * (reward - state.preference[cell, action])
    return State(state.preference.at[cell, action].add(change)), change


def policy(params, world, config):
    def act(params, carry, cell, key):
        explore, which = jax.random.split(key)
        random = jax.random.randint(which, (), 0, world.n_actions)
        greedy = params.preference[cell].argmax()
        return jnp.where(jax.random.uniform(explore) < config.epsilon, random, greedy), carry, None

    return Policy(act, params, observation="index")


def train(key, world, config, state=None, first=0, episodes=None):
    state = init(key, world, config) if state is None else state

    def learn(params, transition, key):
        return update(params, (transition.observation, transition.action, transition.reward), world, config)[0]

    def episode(state, number):
        key_e = jax.random.fold_in(key, number)
        state, played = play(key_e, world, policy(state, world, config), learn=learn)
        return state, played.value

    return jax.lax.scan(episode, state, first + jnp.arange(episodes or config.episodes))


AGENT = Agent("preference", Config, State, init, train, policy, update, unit="episodes")
