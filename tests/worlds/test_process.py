"""Worlds keep the contract that agents rely on, and the public check of it notices what breaks it."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.testing import check_world
from wane.worlds import World, make, names
from wane.worlds.process import SamplesAhead, Solvable, Tabular
from worlds.uneven import UNEVEN


@pytest.mark.parametrize("name", names())
def test_the_catalogue_keeps_the_contract(name):
    check_world(make(name))


@pytest.mark.parametrize(
    "settings",
    [
        dict(timing="departure", slip=0.3, depletion=wane.TotalTime(0.5, 0.9), horizon=7, n_actions=4),
        dict(rewards=[-1.0, 2.0], depletion=wane.Listed([1.0, -0.5], tail=0.1), observation="symbolic+remaining"),
        dict(threshold=0.4, horizon=50, wall_penalty=0.5, observation="one-hot+remaining+flat"),
    ],
)
def test_other_rules_keep_the_contract(settings):
    world = World(UNEVEN, **(dict(sites="ab", rewards=[1.0, 2.0], discount=0.9) | settings))
    assert isinstance(world, Solvable)
    assert isinstance(world, SamplesAhead)
    check_world(world)


@dataclasses.dataclass(frozen=True)
class Ring:
    """A world that is no grid: three states in a ring, of which two are one site. It inherits nothing."""

    horizon: int | None = 6
    observation: Any = "index"
    fault: str = ""

    n_states, n_actions, n_sites, timing, discount, policies = 3, 2, 1, "arrival", 0.9, ()
    rewards, depletion, ends_early = np.array([2.0]), wane.Geometric(0.5), False
    patches, site_of, start = (np.array([0, 2]),), np.array([0, -1, 0]), np.array([0.5, 0.5, 0.0])

    def reset(self, key):
        return self.begin(jnp.asarray(0))

    def begin(self, cell):
        state = _State(jnp.asarray(cell, jnp.int32), jnp.zeros(1, int), jnp.zeros((), jnp.int32))
        return state.cell, state

    def remaining(self, state):
        lost = 3.0 if self.fault == "negative" else 0.0
        return self.rewards * (1.0 if self.fault == "lasting" else 0.5) ** state.visits - lost * (state.time > 1)

    def step(self, key, state, action):
        cell = ((state.cell + 2 * action - 1) % 3).astype(jnp.int32)
        paying = jnp.asarray(self.site_of)[cell] == 0
        time = state.time + 1
        truncated = time >= self.horizon + (self.fault == "long")
        after = _State(cell, state.visits + paying, time)
        terminated = truncated if self.fault == "both" else jnp.zeros((), bool)
        seen = cell.astype(float) if self.fault == "type" else cell
        return seen, after, jnp.where(paying, self.remaining(state)[0], 0.0), terminated, truncated, {}


@dataclasses.dataclass(frozen=True)
class _State:
    cell: Any
    visits: Any
    time: Any


jax.tree_util.register_dataclass(_State)


def test_a_world_that_is_no_grid_keeps_the_contract():
    assert isinstance(Ring(), Tabular)
    assert not isinstance(Ring(), Solvable)
    check_world(Ring())


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("lasting", "not what its depletion leaves"),
        ("negative", "not what its depletion leaves"),
        ("long", "goes on after its horizon of 6 steps"),
        ("both", "terminated and truncated at once"),
        ("type", "a step changes the shape or the type of its observation"),
    ],
)
def test_what_breaks_the_contract_is_told(fault, message):
    with pytest.raises(AssertionError, match=message):
        check_world(Ring(fault=fault))


class Broken(World):
    """A grid whose steps or whose answers are not those of its map."""

    def values(self, policy, **changes):
        return 1.2 * super().values(policy, **changes)


class Crossed(World):
    def step(self, key, state, action):
        return super().step(key, state, (action + 1) % 5)


@pytest.mark.parametrize(
    ("kind", "message"), [(Broken, "its `values` say"), (Crossed, "to which its mdp gives no chance")]
)
def test_what_is_computed_must_be_what_is_played(kind, message):
    with pytest.raises(AssertionError, match=message):
        check_world(kind(UNEVEN, sites="ab", rewards=[1.0, 2.0], horizon=9))


def test_missing_names_are_listed():
    with pytest.raises(AssertionError, match="int is not a world .* it lacks begin, depletion, discount"):
        check_world(3)
