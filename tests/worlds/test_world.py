import dataclasses
import gc

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.worlds import Seen, World, make, names, register, shortest_paths

DEPLETIONS = [
    wane.Geometric(0.5),
    wane.FirstVisits(2),
    wane.Hyperbolic(1.0),
    wane.PowerLaw(1.5),
    wane.Listed([1.0, 0.2, 0.6], tail=0.1),
    wane.TimeElapsed(0.5, 0.5),
    wane.EligibilityTrace(0.5, 0.6),
    wane.TotalTime(0.5, 0.95),
]
UNEVEN = """
    #######
    #a..#.#
    #.#..b#
    #######
"""


def play(room, key, steps):
    """Rewards of one episode under uniformly random actions."""
    reset_key, steps_key = jax.random.split(key)
    state = room.reset(reset_key)[1]

    def step(state, key):
        act_key, step_key = jax.random.split(key)
        action = jax.random.randint(act_key, (), 0, room.n_actions)
        _, state, reward, *_ = room.step(step_key, state, action)
        return state, reward

    return jax.lax.scan(step, state, jax.random.split(steps_key, steps))[1]


def returns(room, episodes=3000, steps=60):
    """Discounted returns of episodes with uniformly random actions, those and the starts drawn beforehand."""
    rng = np.random.default_rng(0)
    starts = rng.choice(room.n_states, episodes, p=room.start)
    actions = rng.integers(0, room.n_actions, (steps, episodes))
    keys = jax.random.split(jax.random.key(0), steps) if room.slip else jnp.zeros(steps)

    def step(states, now):
        key, action = now
        each = jax.random.split(key, episodes) if room.slip else jnp.zeros(episodes)
        _, states, reward, *_ = jax.vmap(room.step)(each, states, action)
        return states, reward

    def run(starts, actions):
        return jax.lax.scan(step, jax.vmap(room.begin)(starts)[1], (keys, actions))[1]

    first = 1 if room.timing == "arrival" else 0
    return room.discount ** (np.arange(steps) + first) @ np.asarray(jax.jit(run)(starts, actions))


def assert_simulated_is_computed(room):
    found = returns(room)
    uniform = np.full((room.n_states, room.n_actions), 1 / room.n_actions)
    expected = room.start @ room.values(uniform)
    assert abs(found.mean() - expected) <= 5 * found.std() / np.sqrt(len(found)) + 1e-4


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("depletion", DEPLETIONS, ids=repr)
def test_simulated_is_computed(name, depletion):
    assert_simulated_is_computed(make(name, depletion=depletion, discount=0.8))


@pytest.mark.parametrize("timing", ["arrival", "departure"])
@pytest.mark.parametrize("slip", [0.0, 0.3])
def test_slip_penalties_and_timing(timing, slip):
    room = World(
        UNEVEN, sites="ab", rewards=[1.0, 2.0], slip=slip, timing=timing, discount=0.8, wall_penalty=0.5, n_actions=4
    )
    assert_simulated_is_computed(room)


def test_arrival_and_departure_by_hand():
    """A corridor a.b, stepping right twice and staying: arrival pays b twice, departure a, then nothing, then b."""
    for timing, expected in [("arrival", [0.0, 2.0, 1.0]), ("departure", [1.0, 0.0, 2.0])]:
        room = World("#####\n#a.b#\n#####", sites="ab", rewards=[1.0, 2.0], start="a", timing=timing)
        _, state = room.reset(jax.random.key(0))
        paid = []
        for action in (1, 1, 4):
            _, state, reward, _, _, info = room.step(jax.random.key(0), state, action)
            paid.append(float(reward))
        assert paid == expected
        assert info["remaining"].tolist() == ([1.0, 0.5] if timing == "arrival" else [0.5, 1.0])


def test_geometry_of_every_action():
    room = World(UNEVEN, sites="b", rewards=[1.0])
    step = jax.jit(room.step)
    for s in range(room.n_states):
        row, column = room.map.cells[s]
        for action, (down, right) in enumerate([(-1, 0), (0, 1), (1, 0), (0, -1), (0, 0)]):
            aim = (row + down, column + right)
            expected = aim if room.map.free[aim] else (row, column)
            state = step(jax.random.key(0), room.begin(s, facing=2)[1], action)[1]
            assert tuple(room.map.cells[int(state.cell)]) == expected
            assert int(state.facing) == (action if expected != (row, column) else 2)


def test_slip_goes_to_neighbours():
    room = World(UNEVEN, sites="b", rewards=[1.0], slip=1.0)
    start = room.map.state(2, 4)
    keys = jax.random.split(jax.random.key(0), 2000)
    cells = jax.vmap(lambda key: room.step(key, room.begin(start)[1], 4)[1].cell)(keys)
    places, counts = np.unique(np.asarray(cells), return_counts=True)
    assert places.tolist() == [room.map.state(2, 3), room.map.state(2, 5)]
    assert abs(counts[0] - 1000) < 5 * np.sqrt(500)


def test_terminated_is_not_truncated():
    room = World("###\n#a#\n###", sites="a", rewards=[1.0], threshold=0.2, horizon=2)
    longer = dataclasses.replace(room, horizon=50)
    state = short = room.reset(jax.random.key(0))[1]
    flags = []
    for _ in range(3):
        _, state, _, terminated, truncated, _ = longer.step(jax.random.key(0), state, 4)
        _, short, _, ended, cut, _ = room.step(jax.random.key(0), short, 4)
        flags.append((bool(terminated), bool(truncated), bool(ended), bool(cut)))
    assert flags == [(False,) * 4, (False, False, False, True), (True, False, True, False)]


def test_a_lambda_can_be_traced_and_differentiated():
    base = make("corridor", discount=0.9)

    def total(lam):
        room = dataclasses.replace(base, depletion=wane.Geometric(lam))
        return jnp.sum(play(room, jax.random.key(3), 80))

    many = jax.jit(jax.vmap(total))(jnp.array([0.0, 0.5, 1.0]))
    assert many[0] < many[1] < many[2]
    assert jax.grad(total)(0.5) > 0


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


def test_starts():
    for start, expected in [("a", [0]), ((2, 5), [7]), (3, [3]), ([0, 0, 0.5, 0, 0, 0, 0.5, 0], [2, 6])]:
        room = World(UNEVEN, sites="ab", rewards=[1.0, 1.0], start=start)
        keys = jax.random.split(jax.random.key(0), 200)
        assert np.unique(jax.vmap(lambda key, room=room: room.reset(key)[1].cell)(keys)).tolist() == expected
    everywhere = World(UNEVEN, sites="ab", rewards=[1.0, 1.0])
    keys = jax.random.split(jax.random.key(1), 4000)
    counts = np.bincount(np.asarray(jax.vmap(lambda key: everywhere.reset(key)[1].cell)(keys)), minlength=8)
    assert np.all(np.abs(counts - 500) < 5 * np.sqrt(500))


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


def test_negative_rewards_do_not_end_an_episode():
    room = World("a..", sites="a", rewards=[-1.0])
    assert not room.step(jax.random.key(0), room.begin(1)[1], 1)[3]


def test_auto_step_shows_what_the_new_episode_has():
    room = World("#####\n#a.b#\n#####", sites="ab", rewards=[1.0, 2.0], start="a", horizon=1)
    _, state, _, _, truncated, info = room.auto_step(jax.random.key(0), room.begin("a")[1], 4)
    assert truncated
    assert info["remaining"].tolist() == room.remaining(state).tolist() == [1.0, 2.0]
    assert info["final_remaining"].tolist() == [0.5, 2.0]


def test_a_world_without_sites():
    room = World("...", sites=[], rewards=[], wall_penalty=1.0, discount=0.5)
    assert room.values([0, 0, 0]).tolist() == [-1.0] * 3, "bumping for ever: ½ + ¼ + …"
    assert not room.step(jax.random.key(0), room.begin(1)[1], 1)[3]


def test_pixels_are_drawn_once_and_freed_with_their_map():
    made = wane.worlds.observe._made
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


def test_the_optimum_of_small_worlds_by_hand():
    """From a to b in two steps; with one step there is nothing to earn; without an end b is worth 2 Σ γ^(t+2) / 2ᵗ."""
    room = World("#####\n#a.b#\n#####", sites="b", rewards=[2.0], start="a", discount=0.5, horizon=3)
    assert room.optimum().values[0] == 0.25 * 2 + 0.125 * 1
    assert dataclasses.replace(room, horizon=1).optimum().values[0] == 0
    endless = dataclasses.replace(room, horizon=None).optimum(tolerance=1e-9)
    np.testing.assert_allclose(endless.values[0], 0.5 / (1 - 0.25), atol=1e-9)
    believed = room.optimum(wane.Geometric(1.0))
    assert believed.values[0] == 0.25 * 2 + 0.125 * 2
    departing = dataclasses.replace(room, timing="departure", horizon=4).optimum()
    assert departing.values[0] == 0.25 * 2 + 0.125 * 1
    assert dataclasses.replace(room, timing="departure", horizon=1).optimum().values.tolist() == [0, 0, 2]


def test_action_costs_are_what_bumping_costs_on_average():
    room = World(UNEVEN, sites=[], rewards=[], wall_penalty=2.0, slip=0.25, n_actions=4, discount=0.0)
    np.testing.assert_array_equal(room.action_costs, 1.5 * room.map.bumps(4))
    keys = jax.random.split(jax.random.key(0), 4000)
    corner, up = room.map.find("a"), 0
    rewards = jax.vmap(lambda key: room.step(key, room.begin(corner)[1], up)[2])(keys)
    assert abs(float(rewards.mean()) + room.action_costs[corner, up]) < 5 * 2 * np.sqrt(0.25 * 0.75 / 4000)
    free = World(UNEVEN, sites="a", rewards=[1.0])
    assert free.action_costs.shape == (8, 5)
    assert not free.action_costs.any()
    traced = jax.jit(lambda cost: dataclasses.replace(free, wall_penalty=cost).action_costs)(2.0)
    np.testing.assert_array_equal(traced, 2.0 * free.map.bumps())


def test_what_is_derived_is_made_once():
    room = make("four-rooms", slip=0.1)
    assert room.mdp is room.mdp
    assert room.view is room.view
    assert room.tables is room.tables
    assert dataclasses.replace(room, slip=0.2).mdp is not room.mdp

    def first_step(rewards):
        other = dataclasses.replace(room, rewards=rewards)
        return other.step(jax.random.key(0), other.reset(jax.random.key(1))[1], 0)[2]

    assert jax.jit(first_step)(room.rewards) == first_step(room.rewards), "tables made while tracing are not traced"


def test_episodes_end_early_with_a_threshold_and_a_site():
    room = World(UNEVEN, sites="a", rewards=[1.0], threshold=0.0)
    assert room.ends_early
    assert not dataclasses.replace(room, threshold=None).ends_early
    assert not World(UNEVEN, sites=[], rewards=[], threshold=0.1).ends_early


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
    with pytest.raises(TypeError, match="0.5 is not a Depletion"):
        World(UNEVEN, sites="a", rewards=[1], depletion=0.5)
    with pytest.raises(TypeError, match="observation is a name or a function, got 5"):
        World(UNEVEN, sites="a", rewards=[1], observation=5)


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
