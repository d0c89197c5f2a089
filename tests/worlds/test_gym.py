import gymnasium
import jax
import matplotlib
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import wane
from wane.worlds import World, make, names
from wane.worlds.gym import Environment, VectorEnvironment, environment_id
from wane.worlds.payments import Jitted

UNEVEN = """
    #######
    #a..#.#
    #.#..b#
    #######
"""


KINDS = ["index", "one-hot", "cell", "symbolic", "top-down", "first-person"]
TELLING = ["index+remaining", "symbolic+remaining", "top-down+remaining", "index+remaining+flat"]


@pytest.mark.parametrize(
    "observation",
    [*KINDS[:-1], *TELLING, pytest.param(KINDS[-1], marks=pytest.mark.fuzz)],  # First-person views are slow to draw.
)
def test_the_checker_finds_nothing(observation):
    env = gymnasium.make("wane/Corridor-v0", length=5, observation=observation, render_mode="rgb_array")
    check_env(env.unwrapped)
    seen, _ = env.reset(seed=0)
    assert env.observation_space.contains(seen)


def test_the_whole_catalog_is_registered():
    for name in names():
        assert environment_id(name) in gymnasium.registry
    assert environment_id("four-rooms-17") == "wane/FourRooms17-v0"
    env = gymnasium.make("wane.worlds.gym:wane/FourRooms-v0", depletion=wane.FirstVisits(1), slip=0.1)
    assert env.unwrapped.world.slip == 0.1
    assert env.action_space.n == 5


def test_an_episode_by_hand():
    env = gymnasium.make("wane/Corridor-v0", length=5, horizon=4, render_mode="ansi")
    seen, info = env.reset(seed=3)
    assert seen == 2
    assert info["remaining"].tolist() == [1, 1]
    assert env.render() == "#######\n#0.@.1#\n#######"
    paid = []
    for action in (1, 1, 4, 4):
        seen, reward, terminated, truncated, info = env.step(action)
        paid.append(reward)
    assert (seen, paid, terminated, truncated) == (4, [0, 1, 0.5, 0.25], False, True)
    assert info["remaining"].tolist() == [1, 0.125]
    assert env.reset(options={"state": 1})[0] == 1


def test_used_up_rewards_end_an_episode():
    env = Environment(World(UNEVEN, sites="a", rewards=[1.0], start="a", depletion=wane.Geometric(0.0), threshold=0.1))
    env.reset(seed=0)
    _, reward, terminated, truncated, _ = env.step(4)
    assert (reward, terminated, truncated) == (1.0, True, False)
    env.render_mode = "ansi"
    assert env.render().count("@") == 1
    assert "0" not in env.render()


@pytest.mark.parametrize("observation", ["index+remaining", "one-hot+flat", "cell", "symbolic+remaining+flat"])
def test_steps_call_no_compiled_program(monkeypatch, observation):
    """What can be looked up is: a call of JAX in every step would make a single environment 30 times slower."""
    envs = [
        (kind("four-rooms-7", slip=0.2, depletion=depletion, observation=observation), actions)
        for depletion in (wane.Geometric(0.5), wane.TimeElapsed(0.5))
        for kind, actions in ((Environment, 1), (VectorEnvironment, [1]))
    ]
    monkeypatch.setattr(Jitted, "__call__", lambda *_: pytest.fail("a compiled program was called"))
    for env, actions in envs:
        env.reset(seed=0)
        with jax.transfer_guard("disallow_explicit"):
            env.step(actions)


def test_one_vector_of_what_is_seen_and_what_remains():
    env = gymnasium.make("wane/Corridor-v0", length=3, rewards=[4.0, -8.0], observation="index+remaining+flat")
    assert isinstance(env.observation_space, gymnasium.spaces.Box)
    np.testing.assert_allclose(env.observation_space.high, [1, 1, 1, 0.5, 1], rtol=2e-5)
    np.testing.assert_allclose(env.observation_space.low, [0, 0, 0, -0.5, -1], rtol=2e-5)
    seen = [env.reset(seed=0)[0], env.step(1)[0]]
    assert np.array(seen).tolist() == [[0, 1, 0, 0.5, -1], [0, 0, 1, 0.5, -0.5]]
    batch = gymnasium.make_vec("wane/Corridor-v0", num_envs=2, length=3, observation="cell+remaining+flat")
    assert batch.reset(seed=0)[0].tolist() == [[1, 2, 1, 1]] * 2
    assert batch.observation_space.contains(batch.step([1, 3])[0])


@pytest.mark.parametrize(
    ("depletion", "most"),
    [(wane.TotalTime(0.5, 0.5), np.inf), (wane.EligibilityTrace(0.5, 1.0), np.inf), (wane.Listed([1, -3]), 6)],
)
def test_the_space_holds_rewards_that_grow(depletion, most):
    env = Environment("corridor", length=3, rewards=[2.0, 0.0], depletion=depletion, observation="index+remaining")
    space = env.observation_space["remaining"]
    np.testing.assert_allclose(space.high, [most, 0], rtol=1e-4)
    env.reset(seed=0)
    assert env.step(3)[0] in env.observation_space


def test_same_seed_same_episode():
    def play(seed):
        env = gymnasium.make("wane/FourRooms-v0", slip=0.5)
        seen = [env.reset(seed=seed)[0]]
        for action in range(20):
            seen.append(env.step(action % 5)[0])
        return seen

    assert play(1) == play(1) != play(2)


def test_pictures():
    env = gymnasium.make("wane/FourRooms-v0", render_mode="rgb_array")
    env.reset(seed=0)
    first = env.render()
    assert first.shape == (11 * 32, 11 * 32, 3)
    assert first.dtype == np.uint8
    env.reset(options={"state": (1, 1)})
    second = env.render()
    cell = second[32:64, 32:64]
    assert (cell != first[32:64, 32:64]).any(), "the agent is drawn in the cell it was put in"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_human_mode_shows_a_window():
    matplotlib.use("agg")
    env = gymnasium.make("wane/Corridor-v0", render_mode="human")
    env.reset(seed=0)
    before = env.unwrapped._window.get_array().copy()
    env.step(1)
    assert (env.unwrapped._window.get_array() != before).any()
    env.close()
    assert env.unwrapped._window is None


def test_a_batch_is_the_same_world():
    """Every copy of the batch follows the transitions and pays what the single world pays."""
    batch = gymnasium.make_vec("wane/FourRooms-v0", num_envs=16)
    assert isinstance(batch.unwrapped, VectorEnvironment)
    seen, info = batch.reset(seed=0)
    assert seen.shape == (16,)
    room = batch.unwrapped.world
    table, bumps = room.map.next_states(), room.map.bumps()
    rng, cells, remaining = np.random.default_rng(0), np.asarray(seen), np.array(info["remaining"])
    finished = np.zeros(16, bool)
    for t in range(60):
        actions = rng.integers(0, 5, 16)
        seen, reward, terminated, truncated, info = batch.step(actions)
        expected = np.where(finished, seen, table[cells, actions])
        np.testing.assert_array_equal(seen, expected)
        visited = (room.sites == seen[:, None]) & ~finished[:, None]
        paid = (remaining * visited).sum(1) - bumps[cells, actions]
        np.testing.assert_allclose(reward, np.where(finished, 0, paid), rtol=1e-6)
        remaining = np.where(finished[:, None], room.rewards, np.where(visited, 0.5 * remaining, remaining))
        np.testing.assert_allclose(info["remaining"], remaining, rtol=1e-6)
        finished, cells = terminated | truncated, seen
        assert not (terminated & truncated).any()
        assert truncated.all() == (t == 39), "40 steps, and after the fresh start at step 41 not again so soon"
    assert batch.single_observation_space.n == 68


def test_observations_that_tell_what_remains_are_dictionaries():
    env = gymnasium.make("wane/Corridor-v0", length=5, observation="index+remaining")
    assert env.observation_space["view"] == gymnasium.spaces.Discrete(5)
    assert env.observation_space["remaining"].shape == (2,)
    np.testing.assert_allclose(env.observation_space["remaining"].high, 1, rtol=1e-4)
    env.reset(seed=0, options={"state": 3})
    seen, reward, *_, info = env.step(1)
    assert (int(seen["view"]), reward, seen["remaining"].tolist()) == (4, 1.0, [1.0, 0.5])
    assert info["remaining"].tolist() == seen["remaining"].tolist()
    assert env.observation_space.contains(seen)


def test_a_batch_tells_what_remains_in_dictionaries():
    batch = gymnasium.make_vec("wane/Corridor-v0", num_envs=3, length=5, horizon=2, observation="one-hot+remaining")
    assert batch.observation_space["view"].shape == (3, 5)
    assert batch.observation_space["remaining"].shape == (3, 2)
    seen, _ = batch.reset(seed=0)
    for actions, place, remaining in [([1, 3, 4], [3, 1, 2], [1, 1]), ([1, 1, 4], [4, 2, 2], [1, 0.5])]:
        seen, *_, info = batch.step(actions)
        assert batch.observation_space.contains(seen)
        assert seen["view"].argmax(1).tolist() == place
        assert seen["remaining"][0].tolist() == info["remaining"][0].tolist() == remaining
    seen, reward, terminated, truncated, _ = batch.step([0, 0, 0])
    assert seen["remaining"].tolist() == [[1, 1]] * 3, "all copies have begun anew"
    assert not np.stack([reward, terminated, truncated]).any()


@pytest.mark.parametrize(
    ("see", "space"),
    [
        (lambda cell, facing, worth: worth * 10 - 5, gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)),
        (lambda cell, facing, worth: worth.sum() * 0.7, gymnasium.spaces.Box(-np.inf, np.inf, (), np.float32)),
        (lambda cell, facing, worth: worth > 0.5, gymnasium.spaces.MultiBinary((2,))),
    ],
)
def test_own_observations_have_a_space_that_holds_them(see, space):
    env = Environment("corridor", observation=see)
    seen, _ = env.reset(seed=0)
    assert type(env.observation_space) is type(space)
    assert env.observation_space.shape == space.shape
    assert env.observation_space.contains(np.asarray(seen, env.observation_space.dtype))
    assert np.asarray(seen).dtype.kind == np.dtype(space.dtype).kind or isinstance(space, gymnasium.spaces.MultiBinary)


def test_seeds_options_and_order():
    batch = gymnasium.make_vec("wane/FourRooms-v0", num_envs=4, max_episode_steps=5)
    assert batch.unwrapped.world.horizon == 5
    starts = [batch.reset(seed=seed)[0].tolist() for seed in (3, np.int64(3), [1, 2, 3, 4], [1, 9, 9, 9])]
    assert starts[0] == starts[1] != starts[2] != starts[3]
    with pytest.raises(ValueError, match="a batch of 4 worlds takes one seed or 4 seeds, got 2"):
        batch.reset(seed=[1, 2])
    with pytest.raises(ValueError, match="takes no options"):
        batch.reset(options={"state": 0})
    for fresh in (Environment("corridor"), VectorEnvironment("corridor", num_envs=1)):
        with pytest.raises(RuntimeError, match="call reset first"):
            fresh.step([0] if isinstance(fresh, VectorEnvironment) else 0)
    for made in (Environment(make("corridor"), horizon=7), VectorEnvironment(make("corridor"), horizon=7)):
        assert made.world.horizon == 7, "settings change a world that is given as it is, too"
    env = Environment("corridor")
    assert env.reset(options={"state": "S"})[0] == 4
    with pytest.raises(ValueError, match="start 99 is not a letter"):
        env.reset(options={"state": 99})
    with pytest.raises(ValueError, match="unknown option 'cell'"):
        env.reset(options={"cell": 1})


def test_bad_actions_and_settings():
    env = Environment("corridor")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="unknown action 9: there are 0 up, 1 right, 2 down, 3 left, 4 stay"):
        env.step(9)
    for wrong in (0.5, np.float32(0.5), -1, np.int64(-1), np.nan, "up", None):
        with pytest.raises(ValueError, match=f"unknown action {wrong}: there are"):
            env.step(wrong)
    batch = VectorEnvironment("corridor", num_envs=2)
    batch.reset(seed=0)
    for wrong in ([0, 7], [0.5, 0], [np.nan, 0]):
        with pytest.raises(ValueError, match="unknown action"):
            batch.step(wrong)
    with pytest.raises(ValueError, match=r"a batch of 2 worlds takes 2 actions, got shape \(3,\)"):
        batch.step([0, 0, 0])
    with pytest.raises(ValueError, match="unknown render_mode 'hologram'"):
        Environment("corridor", render_mode="hologram")
    with pytest.raises(ValueError, match="a batch of worlds has no picture"):
        VectorEnvironment("corridor", render_mode="rgb_array")
