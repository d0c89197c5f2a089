"""Qλ-learning: control with a λ representation in a table (the paper's Algorithm 1).

    Q(s, ·) = Φ(s, ·) r
    a' = argmax_a Q(s', a)
    δ = 1_s ⊙ (1 + γλ Φ(s', a')) + γ (1 − 1_s) ⊙ Φ(s', a') − Φ(s, a)
    Φ(s, a) ← Φ(s, a) + α δ

Here r is what remains of every reward, which the agent observes at every step ("index+remaining"). With λ = 1 this is
Q-learning on successor features.

The paper keeps a column of Φ for every state. No column depends on another, and in Q the columns of states that pay
nothing are multiplied by 0. This module therefore keeps only the columns of the sites; Q, the actions and these columns
are the same as in the paper. The r that chooses a' is what remains after the step, as when the agent acts in s'. The
target bootstraps even at the end of an episode: Φ is a property of the transitions, and an episode that ends because
nothing remains ends because of its rewards. Only where no state can follow (`MDPWorld.ends`) it does not.

The world may have any depletion; λ is what the agent believes.

    >>> from wane.worlds import make
    >>> world, config = make("two-rooms"), Config(lam=0.5, episodes=40)
    >>> state, info = jax.jit(lambda key: train(key, world, config))(jax.random.key(0))
    >>> state.phi.shape, info.returns.shape
    ((73, 5, 3), (40,))
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from wane.agents.common.contract import Agent
from wane.agents.common.policy import Policy, dot, first_best, no_draws
from wane.agents.common.rollout import Transition, discount_of
from wane.agents.common.training import Returns, train_episodes
from wane.depletion import Geometric
from wane.exact.bellman import bellman_target
from wane.exact.representations import check_parameters
from wane.settings import Checked, Count, Discount, Finite, Probability, Range, Weight
from wane.types import AnyArray, Integer, Numbers, PerSite, Scalar, Tree
from wane.worlds.observe import Seen
from wane.worlds.process import Tabular, at_site, bootstrap_discount

OBSERVATION = "index+remaining"


@dataclass(frozen=True)
class Config(Checked):
    """The settings of Qλ-learning. The defaults are the paper's for TwoRooms."""

    lam: Annotated[PerSite, Range(0, 1, "a λ")] = 0.5
    """fraction of a reward that a visit leaves, as the agent believes: one number, or one for each site"""
    discount: Discount | None = None
    """γ; None takes the world's"""
    step_size: Weight = 0.1
    """α"""
    epsilon: Probability = 0.2
    """ε: probability of a uniformly random action"""
    optimism: Finite = 0.2
    """initial value of every entry of Φ"""
    episodes: Count = 500
    evaluate_every: Count = 20
    """episodes before each evaluation, which is a greedy episode from which nothing is learned"""


class State(NamedTuple):
    """What the agent has learned."""

    phi: Float[Array, "states actions sites"]
    """Φ(s, a, s') for the sites s'."""


def q_values(phi: Float[AnyArray, "*rows sites"], remaining: Float[AnyArray, " sites"]) -> Float[AnyArray, "*rows"]:
    """Line 2 of Algorithm 1: Q = Φ r."""
    return dot(phi, remaining)


def greedy_action(phi_s: Float[AnyArray, "actions sites"], remaining: Float[AnyArray, " sites"]) -> Int[Array, ""]:
    """Line 3: the best action, the first of equally good ones."""
    return first_best(q_values(phi_s, remaining))


def td_error(
    phi_t: Float[AnyArray, " sites"],
    phi_next: Float[AnyArray, " sites"],
    visited: Float[AnyArray, " sites"],
    lam: Numbers,
    discount: Scalar,
) -> Float[AnyArray, " sites"]:
    """Line 4: δ for Φ(s_t, a_t) and Φ(s_{t+1}, a'); `visited` is 1 in the column of s_t, if s_t is a site, else 0."""
    return bellman_target(phi_next, visited, lam, discount) - phi_t


def init(key: jax.Array, world: Tabular, config: Config) -> State:
    """Returns a table whose entries are all `config.optimism`. Nothing is drawn from `key`."""
    check_parameters(Geometric(config.lam), world.n_sites)
    return State(jnp.full((world.n_states, world.n_actions, world.n_sites), config.optimism, float))


def update(
    state: State, data: Transition, world: Tabular, config: Config, key: None = None
) -> tuple[State, Float[AnyArray, " sites"]]:
    """Applies Algorithm 1 to one transition. Returns the new state and the TD error."""
    cell, (next_cell, remaining) = data.observation.view, data.next_observation
    phi_next = state.phi[next_cell]
    phi_next = phi_next[greedy_action(phi_next, remaining)]
    visited = at_site(world.site_of, cell, world.n_sites).astype(phi_next.dtype)
    lam = jnp.asarray(config.lam, phi_next.dtype)
    discount = bootstrap_discount(world, discount_of(world, config), cell, data.action)
    error = td_error(state.phi[cell, data.action], phi_next, visited, lam, discount)
    return State(state.phi.at[cell, data.action].add(config.step_size * data.live * error)), error


def train(
    key: jax.Array,
    world: Tabular,
    config: Config,
    state: State | None = None,
    first: Integer = 0,
    episodes: int | None = None,
) -> tuple[State, Returns]:
    """Learns in episodes `first`, `first` + 1, …, by default as many as the configuration says.

    It is a pure function: `jit` it, `vmap` it over keys and λ.

        states, info = jax.jit(jax.vmap(lambda k, lam: train(k, world, Config(lam=lam))))(keys, lams)
    """
    state = init(key, world, config) if state is None else state
    return train_episodes(key, world, config, state, first, episodes, _values, update, policy)


def _values(state: State, observation: Seen) -> Float[AnyArray, " actions"]:
    return q_values(state.phi[observation.view], observation.remaining)


def policy(params: State, world: Tabular, config: Config) -> Policy:
    """Returns the greedy policy: it takes the best action for what remains of the rewards."""
    return Policy(_act, params, draw=no_draws, observation=OBSERVATION)


def _act(state: State, carry: Tree, observation: Seen, key: None) -> tuple[Int[Array, ""], Tree, None]:
    return greedy_action(state.phi[observation.view], observation.remaining), carry, None


AGENT = Agent("q_lambda", Config, State, init, train, policy, update, unit="episodes", by_site=True)
