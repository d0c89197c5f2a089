"""What an agent sees of a world."""

import dataclasses
import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.worlds import Seen, World, make
from worlds.uneven import UNEVEN


def test_small_observations():
    seen = {}
    for kind in ("index", "one-hot", "cell", "symbolic"):
        room = World(UNEVEN, sites="ab", rewards=[1.0, 1.0], observation=kind)
        seen[kind] = np.asarray(room.begin(room.map.state(2, 4))[0])
    assert seen["index"] == 6
    assert seen["one-hot"].tolist() == [0, 0, 0, 0, 0, 0, 1, 0]
    assert seen["cell"].tolist() == [2, 4]
    assert seen["symbolic"].tolist() == [
        [1, 1, 1, 1, 1, 1, 1],
        [1, 3, 0, 0, 1, 0, 1],
        [1, 0, 1, 0, 2, 4, 1],
        [1, 1, 1, 1, 1, 1, 1],
    ]


@pytest.mark.parametrize("kind", ["top-down", "first-person"])
def test_pictures_fade_with_what_is_left(kind):
    room = make("corridor", observation=kind, depletion=wane.Geometric(0.0), length=3)
    middle = room.map.find("S")
    _, state = room.begin(middle, facing=1)
    before = np.asarray(room.observe(state), float)
    state = state._replace(memory=state.memory.at[1].set(1))
    after = np.asarray(room.observe(state), float)
    assert before.shape == after.shape
    assert np.abs(before - after).max() > 50, "the site ahead is gone"
    turned = np.asarray(room.observe(state._replace(facing=jnp.asarray(3))), float)
    assert np.abs(turned - after).max() > 20


def test_own_observation():
    room = World(UNEVEN, sites="ab", rewards=[1.0, 1.0], observation=lambda cell, facing, worth: worth * 10)
    assert room.begin(0)[0].tolist() == [10.0, 10.0]


def test_pixels_are_drawn_once_and_freed_with_their_map():
    made = wane.worlds.observe._made
    gc.collect()  # Worlds of earlier tests must not be counted.
    before = len(made)
    room = make("corridor", observation="first-person", length=3)
    assert len(made) == before + 1
    assert dataclasses.replace(room, horizon=7).view is room.view
    del room
    gc.collect()
    assert len(made) == before


@pytest.mark.parametrize("kind", ["index", "symbolic", "top-down"])
def test_observations_can_tell_what_remains(kind):
    plain, telling = (
        World(UNEVEN, sites="ab", rewards=[1.0, 2.0], start="a", observation=name)
        for name in (kind, f"{kind}+remaining")
    )
    for room in (telling, dataclasses.replace(telling, timing="departure")):
        (view, remaining), state = jax.jit(room.reset)(jax.random.key(0))
        np.testing.assert_array_equal(view, plain.observe(state))
        assert remaining.tolist() == [1.0, 2.0]
        seen, state, *_, info = jax.jit(room.auto_step)(jax.random.key(0), state, 4)
        assert isinstance(seen, Seen)
        assert seen.remaining.tolist() == info["remaining"].tolist() == [0.5, 2.0]
        np.testing.assert_array_equal(info["final_observation"].view, seen.view)
    with pytest.raises(ValueError, match=r"unknown observation 'smell': there are index.*each of them with"):
        World(UNEVEN, sites="a", rewards=[1.0], observation="smell+remaining")
