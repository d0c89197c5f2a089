"""A world that is no grid: stalls around a carousel, which turns a little further now and then."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wane.depletion import Depletion
from wane.worlds.process import at_site, numbered_sites


class State(NamedTuple):
    """The stall that the agent stands at, what the sites remember, and the steps so far."""

    cell: Any
    memory: Any
    steps: Any


@dataclass(frozen=True, eq=False)
class Carousel:
    """Two of the stalls, and a pair of neighbours that share one supply, pay those who arrive."""

    depletion: Depletion
    n_states: int = 8
    slip: float = 0.2
    """the probability that the carousel turns one stall further than was asked for"""
    discount: float = 0.9
    horizon: int | None = 20
    observation: Any = "index"
    timing: Literal["arrival"] = "arrival"
    policies: tuple[Any, ...] = field(default=(), repr=False)

    n_actions = 3
    n_sites = 2

    @property
    def rewards(self) -> np.ndarray:
        return np.array([1.0, 2.0], np.float32)

    @property
    def patches(self) -> tuple[np.ndarray, ...]:
        half = self.n_states // 2
        return np.array([1]), np.array([half, half + 1])

    @property
    def site_of(self) -> np.ndarray:
        return numbered_sites(self.patches, self.n_states)

    @property
    def start(self) -> np.ndarray:
        return np.full(self.n_states, 1 / self.n_states)

    def reset(self, key):
        return self.begin(jax.random.randint(key, (), 0, self.n_states))

    def begin(self, cell):
        state = State(jnp.asarray(cell, jnp.int32), self.depletion.initial((self.n_sites,)), jnp.zeros((), jnp.int32))
        return self._observe(state), state

    def step(self, key, state, action):
        """Moves back, stays or moves on, and pays the site that is entered."""
        turned = jax.random.bernoulli(key, self.slip).astype(jnp.int32)
        cell = ((state.cell + action - 1 + turned) % self.n_states).astype(jnp.int32)
        here, remaining = at_site(self.site_of, cell, self.n_sites), self.remaining(state)
        visited, waited = self.depletion.visit(state.memory), self.depletion.wait(state.memory)
        memory = jax.tree_util.tree_map(lambda new, old: jnp.where(here, new, old), visited, waited)
        state = State(cell, memory, state.steps + 1)
        ended = jnp.zeros((), bool) if self.horizon is None else state.steps >= self.horizon
        return self._observe(state), state, jnp.sum(here * remaining), jnp.zeros((), bool), ended, {}

    def remaining(self, state):
        return jnp.asarray(self.rewards) * self.depletion.worth(state.memory)

    def _observe(self, state):
        return state.cell
