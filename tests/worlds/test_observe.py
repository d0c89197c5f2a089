"""What an agent sees of a world."""

import dataclasses
import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.testing import check_observation
from wane.worlds import Cell, FirstPerson, Index, MDPWorld, OneHot, Seen, Symbolic, TopDown, World, make
from wane.worlds.describe import describe, from_description
from wane.worlds.observe import Function, name_of_observation, read_observation
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
    made = wane.worlds.observe._pictures
    gc.collect()  # Worlds of earlier tests must not be counted.
    before = len(made)
    room = make("corridor", observation="first-person", length=3)
    assert len(made) == before + 1
    again = dataclasses.replace(room, horizon=7)
    assert again.observation._drawn(again) is room.observation._drawn(room)
    del again
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


NAMES = {
    "index": Index(),
    "index+flat": Index(flat=True),
    "one-hot+remaining": OneHot(remaining=True),
    "cell+remaining+flat": Cell(remaining=True, flat=True),
    "symbolic": Symbolic(),
    "top-down": TopDown(),
    "top-down:5+remaining": TopDown(5, remaining=True),
    "first-person:32:unfading": FirstPerson(32, fading=False),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_and_objects_are_the_same_observations(name):
    assert read_observation(name) == NAMES[name]
    assert name_of_observation(NAMES[name]) == f"{NAMES[name]}" == name
    room = World(UNEVEN, sites="ab", rewards=[1.0, 1.0], observation=NAMES[name])
    assert room.observation == dataclasses.replace(room, observation=name).observation
    assert describe(room)["observation"] == name


def test_what_no_name_says_is_saved_as_settings():
    wide = FirstPerson(8, field_of_view=90.0, remaining=True)
    room = World(UNEVEN, sites="ab", rewards=[1.0, 1.0], observation=wide)
    assert name_of_observation(wide) is None
    assert describe(room)["observation"]["field_of_view"] == 90.0
    assert from_description(describe(room)).observation == wide


@pytest.mark.parametrize("shown", [*NAMES.values(), FirstPerson(8, cache=False, flat=True)])
def test_observations_keep_their_contract(shown):
    check_observation(shown if not isinstance(shown, FirstPerson) else dataclasses.replace(shown, size=8))


def test_observations_that_need_no_map_keep_their_contract_in_an_mdp():
    ring = MDPWorld(np.array([[1, 2], [2, 0], [0, 1]]), sites=[0], rewards=[1.0])
    check_observation(Index(remaining=True), ring)
    check_observation(OneHot(), ring)
    with pytest.raises(ValueError, match="the observation top-down needs a map, and MDPWorld has none"):
        check_observation(TopDown(), ring)


def mistake(**names):
    """An observation with one mistake."""
    return type("Mistaken", (Index,), names)()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Index, "no object of a dataclass"),
        (lambda cell, facing, worth: cell, "no object of a dataclass"),
        (mistake(__hash__=None), "it has no hash"),
        (mistake(see=lambda self, world, cell, facing, worth: {"cell": cell}), "`see` returns no array"),
        (mistake(see=lambda self, *given: jnp.asarray(np.random.default_rng().random())), "no pure function"),
        (mistake(see_numpy=lambda self, world, cell, facing, worth: cell + 1), "`see_numpy` of many places"),
        (mistake(see_numpy=lambda self, world, cell, facing, worth: jnp.asarray(cell)), "is an array of JAX"),
        (
            mistake(
                see=lambda self, world, cell, facing, worth: worth.sum(),
                see_numpy=lambda self, world, cell, facing, worth: worth.sum(-1),
            ),
            "depends on what remains",
        ),
        (mistake(bounds=lambda self, world: (0, 1)), "not within its bounds, 0 to 1"),
    ],
)
def test_mistakes_are_found(wrong, message):
    with pytest.raises(AssertionError, match=message):
        check_observation(wrong)


def test_a_class_is_no_observation():
    with pytest.raises(TypeError, match=r"the observation Index is a class: give an object of it, Index\(\)"):
        World(UNEVEN, sites="a", rewards=[1.0], observation=Index)
    function = np.add
    assert read_observation(function) == Function(function)


def test_views_of_a_map_are_made_as_up_to_the_last_release():
    for observation, view in ((FirstPerson, wane.worlds.FirstPersonView), (TopDown, wane.worlds.TopDownView)):
        with pytest.warns(DeprecationWarning, match=f"is now wane.worlds.{view.__name__}"):
            made = observation(wane.worlds.Map(UNEVEN), [0])
        assert isinstance(made, view)


def test_an_array_is_no_observation():
    """JAX's arrays raise an error when they are asked for `flat`, which observations have."""
    with pytest.raises(TypeError, match="observation is a name, an observation such as Index"):
        read_observation(jnp.zeros(2))
