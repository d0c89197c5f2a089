"""Every agent obeys the contract of `wane.agents.common.contract`, and can be saved, loaded and played."""

import dataclasses
import sys
from types import SimpleNamespace

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from adversary.hostile import nothing_new
from wane.agents import Trained, forward_backward, load
from wane.agents.common.contract import find, names
from wane.agents.common.rollout import play
from wane.agents.common.views import Vision
from wane.agents.forward_backward.tasks import all_rewards
from wane.agents.forward_backward.training import collect
from wane.files import DamagedFile, read_json, save_arrays, write_json
from wane.lab.runs.evaluation import evaluate
from wane.testing import check_agent
from wane.worlds import MDPWorld, make
from wane.worlds.control import ControlTask
from wane.worlds.describe import describe

KEY = jax.random.key(0)
AGENTS = names()
ROOMS = make("four-rooms-7", horizon=12)
SLOW = ("forward_backward", "sac", "a2c", "lambda_features", "laplacian", "learned_operator")
"""Agents with networks, whose training compiles for long. `make test` saves and plays them untrained."""
WORLDS = {"sac": ControlTask("Pendulum-v1", horizon=12)}
"""The worlds of agents that cannot act in ROOMS."""
TINY = forward_backward.Config(
    dimension=4,
    width=8,
    depth=2,
    batch=8,
    horizon=5,
    replay=100,
    probes=2,
    schedule=forward_backward.Schedule(epochs=1, cycles=2, episodes=2, batches=2),
)
CONFIGS = {
    "q_lambda": dict(episodes=3),
    "q_learning": dict(episodes=3),
    "td": dict(episodes=3),
    "gpi": {},
    "planner": dict(tolerance=0.5),
    "laplacian": dict(vision=Vision("index"), features=3, hidden=(4,), epochs=1, horizon=3, walk="uniform"),
    "policy_iteration": dict(depletion=wane.Geometric(1.0)),
    "a2c": dict(hidden=4, length=5, epochs=1, updates=2, evaluation_episodes=1),
    "lambda_operator": {},
    "learned_operator": dict(width=4, depth=1, batch=2, epochs=1, steps=1, probes=1),
    "sac": dict(hidden=(4,), epochs=1, steps=6, batch=2, replay=9, collection_steps=3),
}


def config_of(name):
    if name == "lambda_features":
        base = dataclasses.replace(config_of("laplacian"), walk="policies")
        return find(name).Config(base=base, hidden=(4,), iterations=1, epochs=1)
    return TINY if name == "forward_backward" else find(name).Config(**CONFIGS[name])


def trained(name, config=None):
    config, world = config or config_of(name), WORLDS.get(name, ROOMS)
    return Trained(name, world, config, find(name).train(KEY, world, config)[0])


def untrained(name):
    config, world = config_of(name), WORLDS.get(name, ROOMS)
    return Trained(name, world, config, find(name).init(KEY, world, config))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.fuzz] if name in SLOW else []) for name in AGENTS]
)
def test_every_agent_passes_the_public_check(name):
    agent = find(name)
    assert agent.name == name
    check_agent(agent, WORLDS.get(name, ROOMS), config_of(name))


@pytest.mark.parametrize("name", SLOW)
def test_an_untrained_agent_is_saved_loaded_and_played(name, tmp_path):
    agent = untrained(name)
    again = load(agent.save(tmp_path / name))
    assert again.agent == name
    assert repr(again.config) == repr(agent.config)
    for old, new in zip(*map(jax.tree_util.tree_leaves, (agent.params, again.params)), strict=True):
        np.testing.assert_array_equal(old, new)
    episodes = [each.play(jax.random.key(1))[1] for each in (agent, again)]
    for mine, theirs in zip(*episodes, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert len(episodes[0][0]) == 13


def the_same_as_an_mdp():
    """ROOMS without its map, and as the map without walls that cost and without a threshold."""
    same = {each: getattr(ROOMS, each) for each in ("rewards", "depletion", "discount", "timing", "horizon", "start")}
    return MDPWorld(ROOMS.mdp, sites=ROOMS.sites, **same), dataclasses.replace(ROOMS, wall_penalty=0.0, threshold=None)


@pytest.mark.parametrize("name", ["lambda_operator", "learned_operator", "forward_backward"])
def test_an_agent_of_all_states_lives_in_any_mdp_as_on_a_map(name):
    (place, on_map), agent, config = the_same_as_an_mdp(), find(name), config_of(name)
    params = agent.params_of(agent.init(KEY, place, config))
    episodes = [Trained(agent, world, config, params).play(KEY, start=3)[1] for world in (place, on_map)]
    np.testing.assert_array_equal(episodes[0].cells, episodes[1].cells)


@pytest.mark.usefixtures("unchecked_types")
def test_a_reward_that_states_share_is_the_reward_of_none():
    patch = SimpleNamespace(n_states=4, n_sites=1, patches=(np.array([0, 1]),))
    with pytest.raises(ValueError, match="site 0 has 2 states, and a reward of every state needs sites of one state"):
        all_rewards(patch, jnp.ones(1))


@pytest.mark.parametrize("goals", [0, 2])
def test_rewards_are_collected_in_any_mdp(goals):
    """Without goals of its own, λO-FB sees rewards only at the sites of the world."""
    place, _ = the_same_as_an_mdp()
    steps = collect(KEY, None, place, dataclasses.replace(TINY, epsilon=1.0, goals=goals), 20)
    at_sites = np.isin(steps.cell, ROOMS.sites)
    assert np.asarray(steps.reward)[at_sites].any()
    assert np.asarray(steps.reward)[~at_sites].any() == (goals > 0)


def test_settings_of_all_kinds_come_back(tmp_path):
    lam = np.linspace(0, 1, 3)
    config = find("td").Config(lam=lam, policy=np.array(ROOMS.policies[1]), rows="state", episodes=2)
    again = load(trained("td", config).save(tmp_path / "td"))
    np.testing.assert_array_equal(again.config.lam, lam)
    np.testing.assert_array_equal(again.config.policy, ROOMS.policies[1])
    believed = find("gpi").Config(depletion=wane.Hyperbolic(2.0), refresh=False)
    assert load(trained("gpi", believed).save(tmp_path / "gpi")).config.depletion == wane.Hyperbolic(2.0)


def test_an_agent_of_another_precision_is_played(tmp_path):
    agent = trained("q_lambda")
    folder = agent.save(tmp_path / "agent")
    with jax.enable_x64(False):
        again = load(folder)
        assert again.params.phi.dtype == np.float32
        episode = again.play(jax.random.key(1), start=0)[1]
    np.testing.assert_array_equal(episode.cells, agent.play(jax.random.key(1), start=0)[1].cells)


def test_another_world(tmp_path):
    agent = load(trained("q_lambda").save(tmp_path / "agent"))
    slippery = dataclasses.replace(ROOMS, slip=0.5, horizon=30)
    assert agent.play(KEY, slippery)[1].cells.shape == (31,)
    assert evaluate(agent, slippery, episodes=2).lengths.tolist() == [30, 30]
    fewer = dataclasses.replace(ROOMS, sites="01", rewards=[1.0, 1.0])
    assert evaluate(trained("q_learning"), fewer, episodes=1).lengths == 12, "it learned nothing for each site"


@pytest.mark.parametrize(
    ("name", "other", "message"),
    [
        ("q_lambda", make("four-rooms"), "20 states, 5 actions, 3 sites, .* 68 states, 5 actions, 3 sites"),
        ("planner", make("toy"), "20 states, 5 actions, 3 sites, .* 3 states, 5 actions, 2 sites"),
        ("td", dataclasses.replace(ROOMS, sites="01", rewards=[1.0, 1.0]), "5 actions, 3 sites, .* 5 actions, 2 sites"),
        (
            "q_learning",
            dataclasses.replace(ROOMS, n_actions=4, policies=()),
            "states, 5 actions, .* states, 4 actions",
        ),
        ("a2c", dataclasses.replace(ROOMS, observation="cell"), r"observations of shape \[20\], .* of shape \[2\]"),
        ("q_lambda", ControlTask("Pendulum-v1"), "a world with 20 states.* a task with observations of 3 numbers"),
        ("sac", ROOMS, "observations of 3 numbers and actions of 1, .* a world with 20 states"),
        (
            "sac",
            ControlTask("MountainCarContinuous-v0"),
            "observations of 3 numbers .* observations of 2 numbers and actions",
        ),
    ],
)
def test_a_world_of_other_sizes(name, other, message):
    with pytest.raises(ValueError, match=f"this {name} agent was trained in .*{message}.*: choose a world of the same"):
        evaluate(untrained(name), other, episodes=1)


def test_what_does_not_fit_is_not_saved(tmp_path):
    """A state with its measurements, another agent's state, an array; a batch of agents, and another world's table."""
    agent = trained("q_lambda")
    for wrong in ((agent.params, None), untrained("q_learning").params, agent.params.phi):
        with pytest.raises(TypeError, match=r"q_lambda learns a .*q_lambda.State, got a .*: pass the state"):
            dataclasses.replace(agent, params=wrong)
    many = jax.tree_util.tree_map(lambda leaf: jnp.stack([leaf, leaf]), agent.params)
    for wrong in (dataclasses.replace(agent, params=many), dataclasses.replace(agent, world=make("toy"))):
        with pytest.raises(
            ValueError, match="does not fit its world and Config: 'phi' has shape .* Save one agent at a"
        ):
            wrong.save(tmp_path / "agent")
        assert not (tmp_path / "agent").exists()


EVIL = """
import gymnasium

gymnasium.register("Swim-v0", lambda **options: gymnasium.make("Pendulum-v1", **options), max_episode_steps=12)
"""


def test_code_of_others_runs_only_if_it_is_trusted(tmp_path, monkeypatch):
    """A saved task may have a module's name in front, or be registered by a package that an import would bring."""
    (tmp_path / "evilmod.py").write_text(EVIL)
    monkeypatch.syspath_prepend(tmp_path)
    agent, config = untrained("sac"), tmp_path / "agent" / "config.json"
    folder = agent.save(tmp_path / "agent")
    for name, message in {
        "evilmod:Swim-v0": "'evilmod:Swim-v0' is not the plain name of a task",
        "evilmod.Swim-v0": "is not the plain name",
        "../evilmod": "is not the plain name",
        "Swim-v0": "comes neither with wane nor with Gymnasium.*trust=",
        "GymV21Environment-v0": "comes neither with wane nor with Gymnasium",
    }.items():
        change(config, world=describe(agent.world) | {"task": name})
        with nothing_new(), pytest.raises(DamagedFile, match=message):
            load(folder)
    change(config, world=describe(agent.world) | {"task": "Swim-v0"})
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    again = load(folder, trust=["evilmod:Swim-v0"])
    assert again.world.name == "evilmod:Swim-v0"
    assert read_json(again.save(tmp_path / "again") / "config.json")["world"]["task"] == "Swim-v0"
    assert again.play(KEY)[1].actions.shape == (12, 1)
    del sys.modules["evilmod"]


def change(path, **changes):
    """Writes other settings as if the agent had been saved with them."""
    write_json(path, read_json(path) | changes, sealed=True)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "params.safetensors").unlink(), "params.safetensors is missing"),
        (lambda folder: (folder / "config.json").unlink(), "config.json is missing"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json cannot be read"),
        (lambda folder: (folder / "config.json").write_text("[]"), "holds a list where a dict belongs"),
        (lambda folder: change(folder / "config.json", format=99), "has format 99"),
        (lambda folder: change(folder / "config.json", agent="os"), "unknown agent 'os'"),
        (lambda folder: change(folder / "config.json", config={"speed": 3}), "no setting 'speed'"),
        (
            lambda folder: change(folder / "config.json", config={"epsilon": 7}),
            "epsilon = 7: a probability",
        ),
        (lambda folder: flip(folder / "config.json"), "config.json (cannot be read|was changed)"),
        (lambda folder: flip(folder / "params.safetensors"), "checksum does not match"),
        (lambda folder: save_arrays(folder / "params.safetensors", {}), "was changed after it was saved"),
    ],
)
def test_damage_is_told(spoil, message, tmp_path):
    folder = trained("q_lambda").save(tmp_path / "agent")
    spoil(folder)
    with pytest.raises(DamagedFile, match=message):
        load(folder)


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def test_another_world_s_table_does_not_fit(tmp_path):
    folder = trained("q_lambda").save(tmp_path / "agent")
    change(folder / "config.json", world=describe(make("toy")))
    with pytest.raises(DamagedFile, match=r"'phi' is float64\[.*\] where float64\[3, 5, 2\]"):
        load(folder)


def test_greedy_policies_use_what_remains():
    """Two sites beside each other: once the better one is used up, the agent goes to the other one."""
    world = make("corridor", length=3, rewards=[1.0, 0.9], depletion=wane.Geometric(0.0), horizon=8, start=1)
    config = find("q_lambda").Config(lam=0.0, episodes=300, epsilon=0.5)
    state = jax.jit(lambda: find("q_lambda").train(KEY, world, config))()[0]
    _, episode = play(KEY, world, find("q_lambda").policy(state, world, config))
    assert float(jnp.sum(episode.rewards)) == pytest.approx(1.9)
