"""The settings of a world: what is kept of them, what is made from them, and what is refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.worlds import World, make
from worlds.uneven import UNEVEN


def test_a_changed_world_is_made_anew():
    """What follows from a setting follows when it is replaced, and is checked again."""
    base = World(UNEVEN, sites="ab", rewards=[1.0, 2.0], observation="symbolic")
    moved = dataclasses.replace(base, sites=[(1, 5), (1, 1)], start=(1, 1), n_actions=4, slip=0.3, timing="departure")
    fresh = World(
        UNEVEN,
        sites=[(1, 5), (1, 1)],
        rewards=[1.0, 2.0],
        start=(1, 1),
        n_actions=4,
        slip=0.3,
        timing="departure",
        observation="symbolic",
    )
    for key in jax.random.split(jax.random.key(0), 5):
        one, two = (room.step(key, room.reset(key)[1], 1) for room in (moved, fresh))
        jax.tree_util.tree_map(np.testing.assert_array_equal, one, two)
    assert moved.reset(jax.random.key(0))[0][1, 5] == 3
    with pytest.raises(ValueError, match="cell .* is a wall"):
        dataclasses.replace(base, sites=[(0, 0), (1, 1)])
    again = dataclasses.replace(World("###\n#a#\n###", sites="a", rewards=[1.0]), horizon=3)
    assert again.start.tolist() == [1.0]
    rewards = jax.jit(lambda r: dataclasses.replace(base, rewards=r).step(jax.random.key(0), base.begin(1)[1], 3)[2])
    assert float(rewards(jnp.array([7.0, 1.0]))) == 7


def test_what_is_derived_is_made_once():
    room = make("four-rooms", slip=0.1)
    assert room.mdp is room.mdp
    assert room.tables is room.tables
    assert room.tables is room.tables
    assert dataclasses.replace(room, slip=0.2).mdp is not room.mdp

    def first_step(rewards):
        other = dataclasses.replace(room, rewards=rewards)
        return other.step(jax.random.key(0), other.reset(jax.random.key(1))[1], 0)[2]

    assert jax.jit(first_step)(room.rewards) == first_step(room.rewards), "tables made while tracing are not traced"


def test_settings_are_kept_in_one_form():
    room = World(
        UNEVEN,
        sites="ab",
        rewards=jnp.array([1, 2]),
        horizon=np.int64(7),
        n_actions=np.int32(4),
        slip=np.float32(0.5),
        discount=1,
        threshold=1,
    )
    kept = (room.horizon, room.n_actions, room.slip, room.discount)
    assert [type(value) for value in kept] == [int, int, float, float]
    assert jnp.issubdtype(room.rewards.dtype, jnp.floating)
    assert room.step(jax.random.key(0), room.begin("a")[1], np.int64(0))[2].dtype == room.rewards.dtype


def test_wrong_kinds(unchecked_types):
    for wrong, meant in ((0.5, r"0\.5"), (jnp.ones(()), r"1\.0"), ([0.5, 1], r"\[0\.5, 1\.0\]"), (wane.Geometric, "…")):
        with pytest.raises(TypeError, match=rf"is not a Depletion: did you mean wane.Geometric\({meant}\)"):
            World(UNEVEN, sites="a", rewards=[1], depletion=wrong)
    with pytest.raises(TypeError, match=r"observation is a name, an observation .* or a function, got 5"):
        World(UNEVEN, sites="a", rewards=[1], observation=5)
    with pytest.raises(TypeError, match=r"a world has no setting 'horison': did you mean 'horizon'\? It has map"):
        make("toy", horison=3)
    for call in (make, lambda name, **settings: dataclasses.replace(make(name), **settings)):
        with pytest.raises(TypeError, match=r"render_mode belongs to an environment.*gymnasium.make\("):
            call("toy", render_mode="ansi")


def test_an_unknown_action_cannot_go_unnoticed():
    room = make("corridor")
    assert np.isnan(room.step(jax.random.key(0), room.begin(0)[1], 7)[2])


def test_the_longest_horizon_steps():
    room = make("corridor", horizon=2**31 - 1)
    assert not jax.jit(room.step)(jax.random.key(0), room.begin(0)[1], 1)[4]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make("five-rooms"), r"unknown world 'five-rooms': did you mean 'four-rooms'\? There are asymmetric"),
        (lambda: World("###\n#!#\n###", sites=[0], rewards=[1]), "unknown character '!'"),
        (lambda: World(UNEVEN, sites=[(0, 0)], rewards=[1]), r"cell \(0, 0\) is a wall"),
        (lambda: World(UNEVEN, sites="z", rewards=[1]), "'z' stands 0 times"),
        (lambda: World(UNEVEN, sites=[99], rewards=[1]), "site 99 is not a letter"),
        (lambda: World(UNEVEN, sites="a", rewards=[1, 2]), "one finite r̄ for each of the 1 sites"),
        (lambda: World(UNEVEN, sites="a", rewards=[1], start=(1, 4)), "is a wall"),
        (lambda: World(UNEVEN, sites="a", rewards=[1], start=np.full(8, 0.2)), "these sum to 1.6"),
        (lambda: World(UNEVEN, sites="a", rewards=[1], slip=2), "slip is a probability"),
        (lambda: World(UNEVEN, sites="a", rewards=[1], n_actions=6), "n_actions is 4"),
        (lambda: World(UNEVEN, sites="a", rewards=[1], timing="late"), "timing is"),
        *[
            (lambda horizon=horizon: World(UNEVEN, sites="a", rewards=[1], horizon=horizon), "from 1 to 2,147,483,647")
            for horizon in (0, -1, 2.5, 2**31, 10**12, 10**400, np.nan, np.inf, "ten", [3])
        ],
        (lambda: World(UNEVEN, sites="a", rewards=[1], slip="often"), "slip is a probability, from 0 to 1"),
        (lambda: World(UNEVEN, sites="a", rewards=[10**400]), "rewards must be one finite number for each site"),
        (lambda: World(UNEVEN, sites="a", rewards=["much"]), "rewards must be one finite number for each site"),
        (lambda: World(UNEVEN, sites="a", rewards=[1], threshold=10**400), "threshold must be a finite number"),
        (lambda: World(UNEVEN, sites="a", rewards=[1], observation="index+flat+remaining"), "unknown observation"),
        (
            lambda: World(UNEVEN, sites="a", rewards=[1], observation="smell"),
            "unknown observation 'smell': there are index",
        ),
        (
            lambda: World("S#a", sites="a", rewards=[1], start="S"),
            r"no site can be reached from the start in cell \(0, 0\)",
        ),
        (lambda: World("", sites=[], rewards=[]), "a map needs a free cell"),
        (lambda: World(UNEVEN, sites="a", rewards=[1], threshold=np.nan), "threshold must be a finite number"),
        (lambda: World(UNEVEN, sites="a", rewards=[1], wall_penalty=np.inf), "wall_penalty must be a finite number"),
        (lambda: World(UNEVEN, sites=[1.7], rewards=[1]), "site 1.7 is not a letter"),
        (lambda: World(UNEVEN, sites="a", rewards=[1], start=None), "start None is not a letter"),
        (lambda: World(UNEVEN, sites="a", rewards=[1], depletion=wane.Geometric([0.1, 0.2, 0.3])), "for 1 sites"),
        (lambda: make("corridor").begin(99), "start 99 is not a letter"),
        (lambda: make("four-rooms", size=8), "an odd number from 7 on"),
        (lambda: make("patches-2", distance=9), "distance between patches"),
        (lambda: make("corridor", length=2), "at least 3 long"),
        (lambda: make("open-field", patches=99), "99 patches do not fit"),
    ],
)
def test_refusals(unchecked_types, call, message):
    with pytest.raises(ValueError, match=message):
        call()
