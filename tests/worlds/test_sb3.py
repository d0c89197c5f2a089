"""The adapter for Stable-Baselines3. What needs that library is skipped where it is not installed."""

import pickle
import sys

import numpy as np
import pytest

from wane.extras import MissingExtra
from wane.worlds import make, sb3
from wane.worlds.sb3 import VecWorld, make_infos

INSTALLED = sb3.VecEnv is not object
needs_sb3 = pytest.mark.skipif(not INSTALLED, reason="Stable-Baselines3 is not installed: pip install 'wane[sb3]'")


def test_infos_hold_something_only_where_an_episode_ended():
    done, truncated = np.array([False, True, True]), np.array([False, False, True])
    final = {"view": np.array([5, 6, 7]), "remaining": np.eye(3)}
    infos = make_infos(done, truncated, final)
    assert infos[0] == {}
    assert [info["TimeLimit.truncated"] for info in infos[1:]] == [False, True]
    assert infos[2]["terminal_observation"]["view"] == 7
    assert infos[2]["terminal_observation"]["remaining"].tolist() == [0, 0, 1]
    assert make_infos(done, truncated, np.eye(3))[1]["terminal_observation"].tolist() == [0, 1, 0]
    nothing = make_infos(np.zeros(2, bool), np.zeros(2, bool), None)
    assert nothing == [{}, {}]
    assert nothing[0] is not nothing[1], "wrappers may write into infos"


def test_without_the_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(MissingExtra, match=r"VecWorld needs Stable-Baselines3, .*: pip install .*\[sb3\]'"):
        VecWorld("four-rooms")
    assert "wane.worlds.sb3" in sys.modules, "the module itself can be imported"


@needs_sb3
def test_episodes_by_hand():
    envs = VecWorld("corridor", num_envs=2, length=5, horizon=3)
    assert envs.reset().tolist() == [2, 2]
    seen, rewards, dones, infos = envs.step(np.array([1, 3]))
    assert (seen.tolist(), rewards.tolist(), dones.tolist(), infos) == ([3, 1], [0, 0], [False, False], [{}, {}])
    envs.step(np.array([1, 3]))
    seen, rewards, dones, infos = envs.step(np.array([4, 1]))
    assert (seen.tolist(), rewards.tolist(), dones.tolist()) == ([2, 2], [0.5, 0], [True, True])
    assert rewards.dtype == np.float32
    assert [info["terminal_observation"] for info in infos] == [4, 1]
    assert all(info["TimeLimit.truncated"] for info in infos)
    with pytest.raises(ValueError, match="unknown action 9"):
        envs.step(np.array([9, 0]))
    with pytest.raises(ValueError, match="a batch of 2 worlds takes 2 actions"):
        envs.step(np.array([0]))


@needs_sb3
def test_it_pays_what_the_environments_of_the_library_pay():
    """DummyVecEnv over single environments, given the same starts and no chance, is the library's own way."""
    from stable_baselines3.common.vec_env import DummyVecEnv

    from wane.worlds.gym import Environment

    settings = dict(length=5, horizon=7, observation="one-hot+remaining+flat")
    ours = VecWorld("corridor", num_envs=3, **settings)
    theirs = DummyVecEnv([lambda: Environment("corridor", **settings)] * 3)
    np.testing.assert_array_equal(ours.reset(), theirs.reset())
    for actions in np.random.default_rng(0).integers(0, 5, (40, 3)):
        (seen, *outcome, infos), (their_seen, *their_outcome, their_infos) = ours.step(actions), theirs.step(actions)
        np.testing.assert_array_equal(seen, their_seen)
        np.testing.assert_array_equal(outcome, their_outcome)
        for i in np.flatnonzero(outcome[1]):
            np.testing.assert_equal(infos[i]["terminal_observation"], their_infos[i]["terminal_observation"])
            assert infos[i]["TimeLimit.truncated"] == their_infos[i]["TimeLimit.truncated"]


@needs_sb3
@pytest.mark.parametrize(
    ("observation", "policy"), [("index+remaining+flat", "MlpPolicy"), ("index+remaining", "MultiInputPolicy")]
)
def test_it_can_be_learned_from(observation, policy):
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecMonitor

    envs = VecMonitor(VecWorld(make("four-rooms-7", observation=observation), num_envs=16))
    model = PPO(policy, envs, n_steps=16, batch_size=64, n_epochs=1, seed=0).learn(2_000)
    assert model.num_timesteps >= 2_000
    assert len(model.ep_info_buffer) > 10


@needs_sb3
def test_seeds_and_copies():
    envs = VecWorld("four-rooms", num_envs=4, slip=0.5)
    starts = []
    for seed in (1, 1, 2):
        envs.seed(seed)
        starts.append([envs.reset().tolist(), envs.step(np.zeros(4, int))[0].tolist()])
    assert starts[0] == starts[1] != starts[2]
    twin = pickle.loads(pickle.dumps(envs))
    np.testing.assert_equal(twin.step(np.ones(4, int)), envs.step(np.ones(4, int)))
    assert envs.get_attr("world") == [envs.world] * 4
    assert envs.env_is_wrapped(object) == [False] * 4
    for call in (lambda: envs.set_attr("world", None), lambda: envs.env_method("render")):
        with pytest.raises(NotImplementedError, match="the copies of a world"):
            call()
