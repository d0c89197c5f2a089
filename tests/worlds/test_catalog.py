"""The worlds of the catalogue, and the numbers that are known of them."""

import gymnasium
import numpy as np
import pytest

import wane
from wane.worlds import World, make, names, register, shortest_paths


def test_rooms_of_other_sizes():
    for size in (7, 9, 17):
        room = make("four-rooms", size=size)
        for policy, letter in zip(room.policies, "0123", strict=True):
            goal = room.map.find(letter)
            reached = wane.first_occupancy_representation(room.mdp.under(policy), discount=1.0, sites=[goal]).matrix
            assert reached.min() == 1
        assert make("two-rooms", size=size).n_states == (size - 2) ** 2 - (size - 3)


def test_shortest_paths_are_shortest():
    room = make("four-rooms")
    goal = room.map.find("1")
    policy = shortest_paths(room.map, goal)
    mine = wane.first_occupancy_representation(room.mdp.under(policy), discount=0.9, sites=[goal]).matrix
    paper = wane.first_occupancy_representation(room.mdp.under(room.policies[1]), discount=0.9, sites=[goal]).matrix
    assert np.all(mine >= paper - 1e-12)
    without_staying = shortest_paths(make("grid-6x6").map, 0, n_actions=4)
    assert make("grid-6x6").map.bumps(4)[0, without_staying[0]], "bumps into a wall to remain"


def test_asymmetric_has_more_on_the_side_of_the_small_ones():
    room = make("asymmetric")
    large, *small = room.rewards
    assert max(small) < large < sum(small)
    columns = room.map.cells[room.sites][:, 1]
    start = room.map.cells[room.map.find("S")][1]
    assert columns[0] < start < columns[1:].min()


def test_patches_differ_in_distance_only():
    rooms = [make(f"patches-{d}") for d in (2, 4, 6)]
    assert len({room.n_states for room in rooms}) == 1
    assert len({int(room.start.argmax()) for room in rooms}) == 1
    assert [np.diff(room.map.cells[room.sites][:, 1]).tolist() for room in rooms] == [[2, 2], [4, 4], [6, 6]]


def test_open_field_is_reproducible_and_as_rich_as_asked():
    one, two, other = (make("open-field", seed=s, patches=6, richness=8.0) for s in (1, 1, 2))
    assert one.sites.tolist() == two.sites.tolist() != other.sites.tolist()
    assert one.rewards.sum() == 48
    assert one.n_sites == 24


def test_register_your_own():
    register(
        "my-line", lambda **settings: World("#####\n#a.b#\n#####", **({"sites": "ab", "rewards": [1, 2]} | settings))
    )
    assert make("my-line", slip=0.5).slip == 0.5
    assert "my-line" in names()
    assert gymnasium.make("wane/MyLine-v0", slip=0.5).unwrapped.world.slip == 0.5
    with pytest.raises(ValueError, match="a world's name is lower-case"):
        register("My Line", make)
    with pytest.raises(ValueError, match="a world 'my-line' is registered already"):
        register("my-line", make)


def test_four_rooms_numbers():
    """The world's own optimum, as it is and written out."""
    room = make("four-rooms")
    best = wane.optimum(
        room.mdp,
        room.rewards,
        room.depletion,
        discount=room.discount,
        sites=room.sites,
        horizon=room.horizon,
        timing=room.timing,
        action_rewards=-room.wall_penalty * room.map.bumps(),
    )
    assert round(best.values @ room.start, 3) == 26.178
    np.testing.assert_array_equal(room.optimum().values, best.values)
