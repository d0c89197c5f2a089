"""Qλ-learning: control with a λ representation in a table (the paper's Algorithm 1; λ = 1 is Q-learning on SFs).

    Q(s, ·)  =  Φ(s, ·) r,        r what is left of every reward
    a'       =  argmax_a Q(s', a)
    Φ(s, a)  ←  Φ(s, a) + α δ,    δ = 1_s ⊙ (1 + γλ Φ(s', a')) + γ (1 − 1_s) ⊙ Φ(s', a') − Φ(s, a)

The paper keeps a column of Φ for every state. A column never looks at another, and those of states that pay nothing
meet a zero in Q: here only the columns of the sites are kept, and Q, the actions and these columns are the same.
r is the vector after the step, with which the agent is going to act in s'. The target always looks ahead: Φ is a
property of the transitions, and an episode that ends because nothing is left ends by its rewards.

The world may deplete as it likes; λ is what the agent believes.

    >>> from wane.worlds import make
    >>> world, config = make("two-rooms"), Config(lam=0.5, episodes=40)
    >>> state, info = jax.jit(lambda key: train(key, world, config))(jax.random.key(0))
    >>> state.phi.shape, info.returns.shape
    ((73, 5, 3), (40,))
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from wane.agents.episode import Episode, Info, Transition, discount_of, dot, epsilon_greedy, first_best, lessons, play
from wane.depletion import Geometric, check_range
from wane.exact.iterate import operator
from wane.exact.representation import check_parameters
from wane.worlds.world import World


@dataclass(frozen=True)
class Config:
    """The paper's settings for TwoRooms."""

    lam: Any = 0.5
    """fraction of a reward that a visit leaves, as the agent believes: one number, or one for each site"""
    discount: float | None = None
    """γ; None: the world's"""
    step_size: float = 0.1
    epsilon: float = 0.2
    """probability of a uniformly random action"""
    optimism: float = 0.2
    """first value of every entry of Φ"""
    episodes: int = 500
    evaluate_every: int = 20
    """episodes between greedy ones, which teach nothing"""

    def __post_init__(self):
        Geometric(self.lam)
        check_range("step_size", self.step_size, 0, 1, "it is the weight of one sample")
        check_range("epsilon", self.epsilon, 0, 1, "it is a probability")
        check_range("evaluate_every", self.evaluate_every, 1, 1e9, "it is a number of episodes")


class State(NamedTuple):
    phi: Any
    """Φ(s, a, site): (states, actions, sites)"""


def q_values(phi: Any, left: Any) -> Any:
    """Line 2 of Algorithm 1: Q = Φ r, for Φ of shape (…, actions, sites)."""
    return dot(phi, left)


def greedy(phi_s: Any, left: Any) -> Any:
    """Line 3: the best action, the first of equal ones."""
    return first_best(q_values(phi_s, left))


def td_error(phi_sa: Any, phi_next: Any, here: Any, lam: Any, discount: Any) -> Any:
    """Line 4: δ; `here` is 1 at the site that was left, if s is one."""
    return operator(phi_next, here, lam, discount) - phi_sa


def init(key: jax.Array, world: World, config: Config) -> State:
    """A table of optimism; nothing is drawn from `key`."""
    check_parameters(Geometric(config.lam), world.n_sites)
    return State(jnp.full((world.n_states, world.n_actions, world.n_sites), config.optimism, float))


def update(state: State, t: Transition, world: World, config: Config) -> State:
    """Algorithm 1 for one transition."""
    ahead = state.phi[t.next_cell]
    ahead = ahead[greedy(ahead, t.left)]
    here = (t.cell == world.sites).astype(ahead.dtype)
    error = td_error(state.phi[t.cell, t.action], ahead, here, config.lam, discount_of(world, config))
    return State(state.phi.at[t.cell, t.action].add(config.step_size * t.live * error))


def train(
    key: jax.Array,
    world: World,
    config: Config,
    state: State | None = None,
    first: Any = 0,
    episodes: int | None = None,
) -> tuple[State, Info]:
    """Episodes `first`, `first` + 1, …, each with a key of its own: in parts it comes to the same as at once.

    A pure function: `jit` it, `vmap` it over keys and λ.

        states, info = jax.jit(jax.vmap(lambda k, lam: train(k, world, Config(lam=lam))))(keys, lams)
    """
    state = init(key, world, config) if state is None else state

    def act(state, cell, left, draws):
        return epsilon_greedy(q_values(state.phi[cell], left), draws, config.epsilon)

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
    return play(key, world, lambda _, cell, left, __: greedy(state.phi[cell], left))[1]
