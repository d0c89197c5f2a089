"""Control tasks in batches: equal to Gymnasium's step by step, and back exactly to where they were."""

import os
import subprocess
import sys
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import wane
from wane.extras import MissingExtra
from wane.worlds.control import ControlTask, describe, episode_seed, from_description, mujoco
from wane.worlds.control.point_mass import REWARDS, SITES

NAMES = ["Pendulum-v1", "HalfCheetah-v5", "Hopper-v5"]
SEED = 5


def actions_for(task, steps, copies=1, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (steps, copies, task.n_actions)).astype(np.float32)


@pytest.mark.parametrize("name", [*NAMES, "InvertedPendulum-v5", "Reacher-v5"])
def test_episodes_are_gymnasium_s(name):
    """12 steps of the second copy out of two, with the beginning of each episode, and not put back in between."""
    task, episode = ControlTask(name), 0
    batch, env = task.copies([1, SEED], threads=2), gymnasium.make(name)
    seen, _ = env.reset(seed=episode_seed(SEED, 0))
    assert (task.n_observations, task.n_actions) == (env.observation_space.shape[0], env.action_space.shape[0])
    assert task.steps == env.spec.max_episode_steps
    for actions in actions_for(task, 12, copies=2):
        np.testing.assert_allclose(batch.observation[1], seen.astype(np.float32), atol=1e-6)
        seen, reward, terminated, _, _ = env.step(actions[1] * env.action_space.high)
        outcome = batch.step(actions)
        assert outcome.reward[1] == pytest.approx(reward, abs=1e-6)
        assert outcome.terminated[1] == terminated
        if terminated:
            episode += 1
            seen, _ = env.reset(seed=episode_seed(SEED, episode))
    assert (episode > 0) == (name == "InvertedPendulum-v5")


def physics(batch, env):
    """Positions and velocities of both."""
    data = env.unwrapped.data
    return (batch.positions, data.qpos), (batch.velocities, data.qvel)


@pytest.mark.parametrize(("name", "steps"), [("HalfCheetah-v5", 150), ("Hopper-v5", 150)])
def test_every_step_from_the_same_state_is_gymnasium_s(name, steps):
    """Chaos makes whole episodes drift apart, so Gymnasium's environment is put to the batch's state at each step."""
    task = ControlTask(name)
    batch, env = task.copies([SEED], threads=1), gymnasium.make(name)
    env.reset(seed=0)
    worst, ends = 0.0, 0
    for actions in actions_for(task, steps):
        env.unwrapped.set_state(batch.positions[0].copy(), batch.velocities[0].copy())
        env._elapsed_steps = 0
        seen, reward, terminated, _, _ = env.step(actions[0])
        outcome = batch.step(actions)
        assert outcome.terminated[0] == terminated
        ends += bool(terminated)
        # Gymnasium adds up the squares of the actions in 32 bits too, in another order.
        assert outcome.reward[0] == pytest.approx(reward, abs=2e-7)
        np.testing.assert_allclose(outcome.next_observation[0], seen.astype(np.float32), rtol=1e-6, atol=1e-9)
        if not terminated:
            worst = max(worst, *(np.abs(mine[0] - theirs).max() for mine, theirs in physics(batch, env)))
    assert worst < 1e-9
    assert (ends > 0) == (name == "Hopper-v5")


def test_pendulum_is_gymnasium_s_bit_for_bit():
    task = ControlTask("Pendulum-v1")
    batch, env = task.copies([SEED]), gymnasium.make("Pendulum-v1")
    seen, _ = env.reset(seed=episode_seed(SEED, 0))
    for actions in actions_for(task, 200):
        np.testing.assert_array_equal(batch.observation[0], seen)
        seen, reward, _, truncated, _ = env.step(2 * actions[0])
        outcome = batch.step(actions)
        assert outcome.reward[0] == reward
        assert outcome.truncated[0] == truncated
    assert truncated
    np.testing.assert_array_equal(outcome.next_observation[0], seen)
    np.testing.assert_array_equal(batch.observation[0], env.reset(seed=episode_seed(SEED, 1))[0])


@pytest.mark.parametrize("name", [*NAMES, "InvertedPendulum-v5", "wane/PointMass-v0"])
def test_get_and_set_go_back_exactly(name):
    """Another batch goes on from where the first one was: in the middle of an episode, after episodes of any length."""
    depletion = wane.Geometric(0.5) if name.startswith("wane/") else None
    task = ControlTask(name, horizon=9, depletion=depletion)
    one, other = task.copies([3, 4]), task.copies([3, 4])
    actions = actions_for(task, 24, copies=2)
    for each in actions[:14]:
        one.step(each)
    other.set({key: value.tolist() if value.ndim == 1 else value for key, value in one.get().items()})
    np.testing.assert_array_equal(one.observation, other.observation)
    for each in actions[14:]:
        for mine, theirs in zip(one.step(each), other.step(each), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_copies_do_not_depend_on_each_other_or_on_threads():
    task = ControlTask("Hopper-v5")
    together, alone = task.copies([1, 2, 3], threads=2), task.copies([2], threads=1)
    for actions in actions_for(task, 40, copies=3):
        np.testing.assert_array_equal(
            together.step(actions).next_observation[1], alone.step(actions[1:2]).next_observation[0]
        )


def test_ends_belong_to_the_old_episode():
    task = ControlTask("Pendulum-v1", horizon=3)
    batch = task.copies([0])
    outcomes = [batch.step(np.zeros((1, 1), np.float32)) for _ in range(4)]
    assert [bool(outcome.truncated[0]) for outcome in outcomes] == [False, False, True, False]
    assert outcomes[2].earned[0] == pytest.approx(sum(outcome.reward[0] for outcome in outcomes[:3]))
    assert outcomes[3].earned[0] == outcomes[3].reward[0]
    assert not np.allclose(outcomes[2].next_observation, task.copies([0]).observation)
    angle = batch.final_states[0, 0]
    np.testing.assert_allclose(outcomes[2].next_observation[0, :2], [np.cos(angle), np.sin(angle)], rtol=1e-6)


def stay(batch, site, steps):
    """Rewards of a mass that is put onto a site and stays."""
    batch.positions[:] = SITES[site]
    batch.velocities[:] = 0
    return [batch.step(np.zeros((1, 2), np.float32)).reward[0] for _ in range(steps)]


def test_sites_wear_off_and_are_fresh_in_the_next_episode():
    task = ControlTask("wane/PointMass-v0", horizon=5, depletion=wane.Geometric(0.5), remaining=True)
    batch = task.copies([0])
    assert batch.observation.shape == (1, 7)
    # The other sites are far away, but pay a little: exp(−(1.2² + 0.2²) / 0.4²) and exp(−(0.6² + 1.3²) / 0.4²).
    far = 0.5 * np.exp(-1.48 / 0.16) + 0.5 * np.exp(-2.05 / 0.16)
    np.testing.assert_allclose(stay(batch, 0, 3), REWARDS[0] * np.array([1, 0.5, 0.25]) + far)
    np.testing.assert_allclose(batch.observation[0, 4:], [0.125, 1, 1])
    near = 0.125 * np.exp(-1.48 / 0.16) + 0.5 * np.exp(-(0.36 + 1.21) / 0.16)
    np.testing.assert_allclose(stay(batch, 1, 2), REWARDS[1] * np.array([1, 0.5]) + near)
    np.testing.assert_allclose(batch.observation[0, 4:], 1)
    forever = ControlTask("wane/PointMass-v0").copies([0])
    np.testing.assert_allclose(stay(forever, 0, 3), REWARDS[0] + far)


@pytest.mark.parametrize("name", ["Pendulum-v1", "wane/PointMass-v0"])
def test_films(name, tmp_path):
    task = ControlTask(name, horizon=6)
    batch = task.copies([0])
    states, rewards = [batch.states[0]], []
    for actions in actions_for(task, 6):
        outcome = batch.step(actions)
        rewards.append(outcome.reward[0])
        states.append(batch.states[0])
    episode = SimpleNamespace(states=np.stack(states), rewards=np.array(rewards), live=np.ones(6))
    assert task.film(episode, tmp_path / "film.gif", "a title").read_bytes().startswith(b"GIF8")


@pytest.mark.skipif(os.environ.get("MUJOCO_GL") in mujoco.DISABLED, reason="MuJoCo cannot draw here")
def test_floors_are_drawn_wherever_a_runner_goes():
    states = np.repeat(ControlTask("HalfCheetah-v5").copies([0]).states, 2, 0)
    states[1, 1] += 500  # metres
    for picture in ControlTask("HalfCheetah-v5").pictures(states):
        assert picture[-20:].std() > 30  # black and white squares


def test_without_a_screen_and_egl_the_error_says_so(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "disable")
    states = ControlTask("Hopper-v5").copies([0]).states
    with pytest.raises(RuntimeError, match="no screen and no EGL"):
        list(ControlTask("Hopper-v5").pictures(states))


def test_descriptions_come_back():
    for task in (
        ControlTask("Hopper-v5", horizon=7),
        ControlTask("wane/PointMass-v0", depletion=wane.Geometric(0.5), remaining=True),
    ):
        assert from_description(describe(task)) == task
    with pytest.raises(ValueError, match="a task has no 'speed'"):
        from_description({"task": "Hopper-v5", "speed": 3})
    with pytest.raises(ValueError, match="a task has a name"):
        from_description({"task": 7})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ControlTask("NoSuchTask-v0").steps, "there is no task 'NoSuchTask-v0'"),
        (lambda: ControlTask("CartPole-v1").steps, "the actions of CartPole-v1 are Discrete"),
        (lambda: ControlTask("Pendulum-v1", remaining=True), "Pendulum-v1 has no sites"),
        (lambda: ControlTask("Pendulum-v1", horizon=0), "horizon is a whole number of steps"),
        (lambda: ControlTask("Pendulum-v1", horizon=10**400), "horizon is a whole number of steps"),
        (lambda: ControlTask("nowhere:Swim-v0").steps, "there is no task 'nowhere:Swim-v0': No module named 'nowhere'"),
        (lambda: ControlTask("InvertedPendulum-v5").pictures(np.zeros((1, 4))), "cannot be drawn from here"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_without_mujoco_the_error_names_the_extra():
    """In a process of its own, because MuJoCo is imported here already."""
    code = "import sys; sys.modules['mujoco'] = None\nfrom wane.worlds import control\ncontrol.ControlTask('Hopper-v5')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "[control]'" in run.stderr
    assert MissingExtra.__name__ in run.stderr
