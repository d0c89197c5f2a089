"""A world: what its steps pay is what is computed, and episodes begin and end as its settings say."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.worlds import World, make, names
from worlds.uneven import UNEVEN

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
    expected = room.start @ room.values(uniform, horizon=None)
    assert abs(found.mean() - expected) <= 5 * found.std() / np.sqrt(len(found)) + 1e-4


PAIRS = [
    pytest.param(name, depletion, marks=[] if (i + j) % 4 == 0 else [pytest.mark.fuzz], id=f"{name}-{depletion!r}")
    for i, name in enumerate(names())
    for j, depletion in enumerate(DEPLETIONS)
]
"""`make test` tries every world with two depletions, and every depletion with several worlds; `make fuzz` the rest."""


@pytest.mark.parametrize(("name", "depletion"), PAIRS)
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


def test_starts():
    for start, expected in [("a", [0]), ((2, 5), [7]), (3, [3]), ([0, 0, 0.5, 0, 0, 0, 0.5, 0], [2, 6])]:
        room = World(UNEVEN, sites="ab", rewards=[1.0, 1.0], start=start)
        keys = jax.random.split(jax.random.key(0), 200)
        assert np.unique(jax.vmap(lambda key, room=room: room.reset(key)[1].cell)(keys)).tolist() == expected
    everywhere = World(UNEVEN, sites="ab", rewards=[1.0, 1.0])
    keys = jax.random.split(jax.random.key(1), 4000)
    counts = np.bincount(np.asarray(jax.vmap(lambda key: everywhere.reset(key)[1].cell)(keys)), minlength=8)
    assert np.all(np.abs(counts - 500) < 5 * np.sqrt(500))


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


def test_episodes_end_early_with_a_threshold_and_a_site():
    room = World(UNEVEN, sites="a", rewards=[1.0], threshold=0.0)
    assert room.ends_early
    assert not dataclasses.replace(room, threshold=None).ends_early
    assert not World(UNEVEN, sites=[], rewards=[], threshold=0.1).ends_early
