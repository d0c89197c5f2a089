import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import wane
from wane.worlds import Depleting, DepletingVector
from wane.worlds.gym import Environment, VectorEnvironment

TAXI = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"
CLIFF = "CliffWalking-v1" if "CliffWalking-v1" in gymnasium.registry else "CliffWalking-v0"


class Payer(gymnasium.Env):
    """Shows the action and pays for it: 1 for the actions 1 to 5, −1 for those from 6 on. Action 0 ends an episode."""

    observation_space = gymnasium.spaces.Discrete(10)
    action_space = gymnasium.spaces.Discrete(10)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return 0, {}

    def step(self, action):
        self.steps += 1
        pays, ends = float(np.sign(5.5 - action) * (action > 0)), bool(self.steps > 5 and action == 0)
        return int(action), pays, ends, False, {"toll": 0.25 * (action > 0)}


def rewards_of(env, actions):
    env.reset(seed=0)
    return [env.step(action)[1] for action in actions]


def test_by_hand():
    env = Depleting(Payer(), wane.Geometric(0.5))
    assert rewards_of(env, [3, 3, 4, 3, 0, 4]) == [1, 0.5, 1, 0.25, 0, 0.5]
    assert rewards_of(env, [3]) == [1], "a new episode starts afresh"
    kept = Depleting(Payer(), wane.Geometric(0.5), reset_memory=False)
    assert [rewards_of(kept, [3, 3]), rewards_of(kept, [3, 4])] == [[1, 0.5], [0.25, 1]]
    parity = Depleting(Payer(), wane.Geometric(0.5), site=lambda seen, action, info: seen % 2)
    assert rewards_of(parity, [1, 3, 2, 5]) == [1, 0.5, 1, 0.25]
    never = Depleting(Payer(), wane.Geometric(0.0), site=lambda seen, action, info: None)
    assert rewards_of(never, [1, 1, 1]) == [1, 1, 1]
    assert "site" not in never.step(1)[-1]
    env.reset(seed=0)
    *_, info = env.step(7)
    assert (info["site"], info["worth"]) == (7, 1.0)


def test_costs_wear_off_only_where_it_is_asked_for():
    actions = [3, 7, 3, 7, 7]
    assert rewards_of(Depleting(Payer(), wane.Geometric(0.5)), actions) == [1, -1, 0.5, -1, -1]
    assert rewards_of(Depleting(Payer(), wane.Geometric(0.5), rewards="all"), actions) == [1, -1, 0.5, -0.5, -0.25]
    # Every paid step costs a toll of ¼, which is part of the reward and does not wear off.
    without_toll = Depleting(
        Payer(), wane.Geometric(0.5), rewards=lambda reward, seen, action, info: reward + info["toll"]
    )
    assert rewards_of(without_toll, [3, 3, 3]) == [1.25 - 0.25, 1.25 / 2 - 0.25, 1.25 / 4 - 0.25]


@pytest.mark.parametrize(("name", "action", "cost"), [(TAXI, 0, -1), (CLIFF, 1, -100)])
def test_the_costs_of_known_environments_stay(name, action, cost):
    paid = rewards_of(Depleting(gymnasium.make(name), wane.Geometric(0.5)), [action] * 8)
    assert paid.count(cost) == 8
    worn = rewards_of(Depleting(gymnasium.make(name), wane.Geometric(0.5), rewards="all"), [action] * 8)
    assert worn[0] == cost
    assert worn[-1] == worn[-2] / 2, "which is what `all` asks for"


def test_frozen_lake_and_cartpole():
    lake = Depleting(gymnasium.make("FrozenLake-v1", is_slippery=False), wane.Geometric(0.5))
    assert rewards_of(lake, [1, 1, 2, 1, 2, 2])[-1] == 1
    pole = Depleting(
        gymnasium.make("CartPole-v1"), wane.Hyperbolic(1.0), site=lambda seen, action, info: int(seen[2] > 0)
    )
    paid = rewards_of(pole, [0, 1, 0, 1, 0, 1])
    assert paid[0] == 1
    assert min(paid) < 0.5
    with pytest.raises(ValueError, match="say where rewards come from with site="):
        Depleting(gymnasium.make("CartPole-v1"), wane.Geometric(0.5))


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version.*:UserWarning")
@pytest.mark.filterwarnings("ignore:.*not having a spec.*:UserWarning")
@pytest.mark.parametrize("remaining", [None, "dict", "flat"])
@pytest.mark.parametrize("name", ["FrozenLake-v1", TAXI, CLIFF])
def test_the_checker_finds_nothing(name, remaining):
    env = Depleting(gymnasium.make(name), wane.TimeElapsed(0.5), remaining=remaining)
    check_env(env, skip_render_check=True)
    if remaining is None:
        assert env.observation_space == env.unwrapped.observation_space
    made = gymnasium.make(env.spec)
    assert isinstance(made, Depleting), "the spec knows the wrapper"
    assert made.observation_space == env.observation_space


def test_what_remains_is_shown():
    told = Depleting(Payer(), wane.Geometric(0.5), remaining="dict")
    seen, _ = told.reset(seed=0)
    assert (seen["view"], seen["remaining"].tolist()) == (0, [1.0] * 10)
    told.step(3)
    seen = told.step(3)[0]
    assert (seen["view"], seen["remaining"].tolist()) == (3, [1, 1, 1, 0.25, 1, 1, 1, 1, 1, 1])
    assert seen in told.observation_space
    flat = Depleting(Payer(), wane.Geometric(0.5), remaining="flat", sites=[3, "never"])
    flat.reset(seed=0)
    seen = flat.step(3)[0]
    assert seen.tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0.5, 1]
    assert seen in flat.observation_space
    assert flat.observation_space.shape == (12,)
    assert seen.dtype == np.float32


def test_rewards_that_grow_back_are_shown_as_they_grow():
    env = Depleting(Payer(), wane.TotalTime(0.5, 0.5, equation="representation"), remaining="dict", sites=[3, 4])
    env.reset(seed=0)
    shown = [env.step(action)[0]["remaining"].tolist() for action in (3, 0, 4)]
    assert shown == [[0.5, 0.5], [0.25, 0.25], [0.125, 0.125]]
    elapsed = Depleting(Payer(), wane.TimeElapsed(0.5))
    assert rewards_of(elapsed, [3, 3, 0, 3]) == pytest.approx([1, 0.5, 0, 0.5 ** (2 / 2)])
    total = Depleting(Payer(), wane.TotalTime(0.5, 0.5, equation="representation"))
    assert rewards_of(total, [0, 3, 0, 0, 3]) == [0, 0.5, 0, 0, 0.5**4]


def test_a_parameter_for_each_site():
    lams = np.linspace(0, 0.9, 10)
    env = Depleting(Payer(), wane.Geometric(lams))
    assert rewards_of(env, [3, 3, 4, 4, 3]) == pytest.approx([1, lams[3], 1, lams[4], lams[3] ** 2])
    named = Depleting(
        Payer(), wane.Geometric([0.0, 0.5]), site=lambda seen, action, info: "ab"[seen % 2], sites=["a", "b"]
    )
    assert rewards_of(named, [1, 1, 2, 2]) == [1, 0.5, 1, 0]
    assert rewards_of(Depleting(Payer(), wane.Geometric(np.array([0.5]))), [1, 1]) == [1, 0.5]
    with pytest.raises(ValueError, match=r"shape \(3,\) for 10 sites: give one number, or one for each site"):
        Depleting(Payer(), wane.Geometric([0.1, 0.2, 0.3]))
    with pytest.raises(ValueError, match=r"has a parameter for each site: say which site is which with sites="):
        Depleting(Payer(), wane.Geometric([0.1, 0.2]), site=lambda seen, action, info: seen)
    some = Depleting(Payer(), wane.Geometric([0.1, 0.2]), site=lambda seen, action, info: seen, sites=[3, 4])
    with pytest.raises(ValueError, match="a reward comes from site 5, for which .* has no parameter: name it in"):
        rewards_of(some, [3, 4, 5])


def test_it_says_what_is_wrong(unchecked_types):
    with pytest.raises(TypeError, match="0.5 is not a Depletion"):
        Depleting(Payer(), 0.5)
    with pytest.raises(TypeError, match="site .* is not hashable: return an int"):
        rewards_of(Depleting(Payer(), wane.Geometric(0.5), site=lambda seen, action, info: [seen]), [1])
    with pytest.raises(ValueError, match='rewards is "positive", "all" or a function .* got \'negative\''):
        Depleting(Payer(), wane.Geometric(0.5), rewards="negative")
    with pytest.raises(ValueError, match='remaining is None, "dict" or "flat", got True'):
        Depleting(Payer(), wane.Geometric(0.5), remaining=True)
    with pytest.raises(TypeError, match="reset_memory is True .* or False, got 'never'"):
        Depleting(Payer(), wane.Geometric(0.5), reset_memory="never")
    with pytest.raises(ValueError, match="only be shown for known sites: list them with sites="):
        Depleting(Payer(), wane.Geometric(0.5), site=lambda seen, action, info: seen, remaining="dict")
    with pytest.raises(ValueError, match="the sites must all differ"):
        Depleting(Payer(), wane.Geometric(0.5), sites=[1, 1])


def test_mujoco(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo leaves a log where it runs

    def distance(seen, action, info):
        return int(info["x_position"] // 0.05)

    def forward(reward, seen, action, info):
        return info["reward_forward"]

    cheetah = Depleting(gymnasium.make("HalfCheetah-v5"), wane.Geometric(0.0), distance, rewards=forward)
    cheetah.reset(seed=0)
    outcomes = [cheetah.step(cheetah.action_space.sample() * 0) for _ in range(20)]
    places = [info["site"] for *_, info in outcomes]
    assert len(set(places)) < len(places)
    for i, (_, reward, *_, info) in enumerate(outcomes):
        if places[i] in places[:i]:
            assert reward == pytest.approx(info["reward_ctrl"])


def copies_of(options, mode, count=3):
    """The same environments twice: wrapped one by one, and wrapped as a vector."""
    alone = SyncVectorEnv([lambda: Depleting(Payer(), **options)] * count, autoreset_mode=mode)
    return alone, DepletingVector(SyncVectorEnv([Payer] * count, autoreset_mode=mode), **options)


def same_info(one, other):
    """Whether two infos of vectors hold the same, in the places that their masks name."""
    for name in ("worth", "site"):
        assert (one.get(f"_{name}", np.zeros(3, bool)) == other.get(f"_{name}", np.zeros(3, bool))).all(), name
        for i in np.flatnonzero(other.get(f"_{name}", [])):
            assert one[name][i] == other[name][i]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize(
    "options",
    [
        dict(depletion=wane.Geometric(0.5)),
        dict(depletion=wane.EligibilityTrace(0.5, 0.99), remaining="flat", reset_memory=False),
        dict(depletion=wane.TimeElapsed(np.linspace(0.1, 0.9, 10)), rewards="all", remaining="dict"),
        dict(
            depletion=wane.EligibilityTrace(0.5, 0.9),
            site=lambda seen, action, info: None if seen == 2 else seen % 3 + int(info["toll"] > 1),
            rewards=lambda reward, seen, action, info: reward - info["toll"],
            sites=[0, 1, 2],
            remaining="flat",
        ),
    ],
    ids=["plain", "kept", "dict", "flat"],
)
def test_a_vector_pays_what_its_copies_pay(options, mode):
    alone, vector = copies_of(options, mode)
    assert vector.observation_space == alone.observation_space
    assert vector.single_observation_space == alone.single_observation_space
    rng, ended = np.random.default_rng(0), 0
    one, other = (envs.reset(seed=0)[0] for envs in (alone, vector))
    for _ in range(80):
        np.testing.assert_equal(other, one)
        actions = rng.choice([0, 0, 1, 2, 3, 7], 3)
        one, *outcome, info = alone.step(actions)
        other, *vector_outcome, vector_info = vector.step(actions)
        for ours, theirs in zip(vector_outcome, outcome, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        same_info(vector_info, info)
        ended += int(outcome[1].sum())
        for i in np.flatnonzero(outcome[1]) if mode == AutoresetMode.SAME_STEP else ():
            np.testing.assert_equal(vector_info["final_obs"][i], info["final_obs"][i])
        if mode == AutoresetMode.SAME_STEP and outcome[1].any():
            same_info(vector_info["final_info"], info["final_info"])
    assert ended > 10


@pytest.mark.parametrize(("reset_memory", "then"), [(True, 1), (False, 0.25)])
def test_a_vector_that_is_reset_by_hand(reset_memory, then):
    options = dict(depletion=wane.Geometric(0.5), reset_memory=reset_memory)
    _, vector = copies_of(options, AutoresetMode.DISABLED, 2)
    vector.reset(seed=0)
    paid = [vector.step([3, 3])[1].tolist() for _ in range(2)]
    vector.reset(options={"reset_mask": np.array([True, False])})
    assert [*paid, vector.step([3, 3])[1].tolist()] == [[1, 1], [0.5, 0.5], [then, 0.25]]


def of_the_world(seen, action, info):
    """The site that a world names itself, −1 for none."""
    return int(info["site"]) if info["site"] >= 0 else None


def test_a_batch_of_worlds_can_be_wrapped_again():
    """The world's own rewards stay (λ = 1), and the wrapper halves them at every visit."""
    settings = dict(length=5, depletion=wane.Geometric(1.0), horizon=6)
    options = dict(depletion=wane.Geometric([0.25, 0.5]), sites=[0, 1], site=of_the_world)
    single = Depleting(Environment("corridor", **settings), **options)
    vector = DepletingVector(VectorEnvironment("corridor", num_envs=2, **settings), **options)
    single.reset(seed=0)
    vector.reset(seed=0)
    for action in (1, 1, 4, 4, 3, 1):
        _, reward, _, truncated, info = single.step(action)
        _, rewards, _, _, infos = vector.step([action, action])
        assert rewards.tolist() == [reward, reward]
        assert infos["worth"].tolist() == [info["worth"]] * 2
    assert truncated
    assert vector.step([0, 0])[1].tolist() == [0, 0], "both begin anew"
    assert [vector.step([a, a])[1][0] for a in (1, 1)] == [0, 1]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copies_go_on_where_the_original_stands(again):
    env = Depleting(gymnasium.make("FrozenLake-v1"), wane.TimeElapsed(0.5), remaining="dict", rewards="all")
    vector = DepletingVector(VectorEnvironment("corridor", num_envs=2, length=5), wane.Geometric(0.5))
    env.reset(seed=0)
    vector.reset(seed=0)
    env.step(2)
    vector.step([1, 3])
    for original, action in ((env, 1), (vector, [1, 3])):
        twin = again(original)
        np.testing.assert_equal(twin.step(action), original.step(action))
