"""Plain Q-learning, for comparison: values of states and actions, and no idea that rewards wear off.

    Q(s, a) ← Q(s, a) + α (r + γ max_a' Q(s', a') − Q(s, a))

It is paid what the world pays, walls included, but what is left of the rewards it neither sees nor represents: as the
paper shows (lemma 3.1), no Bellman equation over values alone fits such rewards. It is not the λ = 1 of
`wane.agents.q_lambda`, which holds a representation and multiplies it by what is left. An episode that ends (and is
not merely cut off) has no future: its last target is r.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from wane.agents.episode import Episode, Info, Transition, discount_of, epsilon_greedy, first_best, lessons, play
from wane.depletion import check_range
from wane.worlds.world import World


@dataclass(frozen=True)
class Config:
    """As in `wane.agents.q_lambda`."""

    discount: float | None = None
    """γ; None: the world's"""
    step_size: float = 0.1
    epsilon: float = 0.2
    """probability of a uniformly random action"""
    optimism: float = 0.2
    """first value of every entry of Q"""
    episodes: int = 500
    evaluate_every: int = 20
    """episodes between greedy ones, which teach nothing"""

    def __post_init__(self):
        check_range("step_size", self.step_size, 0, 1, "it is the weight of one sample")
        check_range("epsilon", self.epsilon, 0, 1, "it is a probability")
        check_range("evaluate_every", self.evaluate_every, 1, 1e9, "it is a number of episodes")


class State(NamedTuple):
    q: Any
    """(states, actions)"""


def td_error(q_sa: Any, reward: Any, q_next: Any, terminated: Any, discount: Any) -> Any:
    """r + γ max_a' Q(s', a') − Q(s, a), with nothing to come where the episode ended."""
    return reward + discount * jnp.where(terminated, 0.0, q_next.max()) - q_sa


def init(key: jax.Array, world: World, config: Config) -> State:
    """A table of optimism; nothing is drawn from `key`."""
    return State(jnp.full((world.n_states, world.n_actions), config.optimism, float))


def update(state: State, t: Transition, world: World, config: Config) -> State:
    """One transition."""
    error = td_error(
        state.q[t.cell, t.action], t.reward, state.q[t.next_cell], t.terminated, discount_of(world, config)
    )
    return State(state.q.at[t.cell, t.action].add(config.step_size * t.live * error))


def train(
    key: jax.Array,
    world: World,
    config: Config,
    state: State | None = None,
    first: Any = 0,
    episodes: int | None = None,
) -> tuple[State, Info]:
    """Episodes `first`, `first` + 1, …, each with a key of its own: in parts it comes to the same as at once.

    A pure function: `jit` it, `vmap` it over keys.
    """
    state = init(key, world, config) if state is None else state

    def act(state, cell, left, draws):
        return epsilon_greedy(state.q[cell], draws, config.epsilon)

    def learn(state, transition, draws):
        return update(state, transition, world, config)

    numbers = first + jnp.arange(config.episodes if episodes is None else episodes)
    return lessons(
        key,
        state,
        numbers,
        config.evaluate_every,
        lambda key, state: play(key, world, act, state, learn, draws=2),
        lambda key, state: evaluate(key, state, world, config),
    )


def evaluate(key: jax.Array, state: State, world: World, config: Config) -> Episode:
    """A greedy episode."""
    return play(key, world, lambda _, cell, left, __: first_best(state.q[cell]))[1]
