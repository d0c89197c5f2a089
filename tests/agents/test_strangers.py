"""Agents, depletions and observations of another package are saved and loaded, and run only if they are trusted."""

import dataclasses
import json
import sys

import jax
import numpy as np
import pytest

from adversary.hostile import nothing_new
from wane.agents import Agent, Trained, load, q_learning
from wane.agents.common.contract import find, names
from wane.files import DamagedFile, read_json
from wane.lab.runs.evaluation import evaluate
from wane.testing import check_depletion, check_observation
from wane.worlds import Environment, World, make

KEY, WORLD = jax.random.key(0), make("toy")
MINE = """
from dataclasses import dataclass

import jax.numpy as jnp
import wane
from wane.agents import Agent, q_learning


class Stale(wane.Diminishing):
    rate: float

    def worth(self, visits):
        return 1 / (1 + self.rate * visits)


@dataclass(frozen=True)
class Smell:
    reach: float = 2.0
    remaining: bool = False
    flat: bool = False

    def see(self, world, cell, facing, worth):
        places = world.map.cells
        near = [abs(places - places[states[0]]).sum(1) < self.reach for states in world.patches]
        return jnp.asarray(near).T[cell] * worth


class Config(q_learning.Config):
    pass


AGENT = Agent(
    "mine", Config, q_learning.State, q_learning.init, q_learning.train, q_learning.policy, q_learning.update,
    unit="episodes",
)
NEITHER = 3
"""
OFFERS = ["stale = strange_agents:Stale", "crooked = strange_agents:NEITHER"]
SHOWN = ["[wane.observations]", "smell = strange_agents:Smell", "crooked = strange_agents:NEITHER"]


def install(folder, name, depletions=(), **points):
    """Puts a package that offers agents and depletions into a folder, as an installer would."""
    (folder / f"{name}.py").write_text(MINE)
    offers = [f"{point} = {name}:{value}" for point, value in points.items()]
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("\n".join(["[wane.agents]", *offers, "[wane.depletions]", *depletions]))


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A package that is installed and not imported."""
    install(tmp_path, "strange_agents", [*OFFERS, *SHOWN], mine="AGENT", broken="NEITHER")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("strange_agents", None)


@pytest.fixture
def saved(stranger):
    """A saved agent of that package, which this process has forgotten."""
    agent = find("mine", trust=["mine"])
    state, _ = agent.train(KEY, WORLD, agent.Config(episodes=2))
    folder = Trained("mine", WORLD, agent.Config(episodes=2), state).save(stranger / "saved")
    del sys.modules["strange_agents"]
    return folder


def test_a_stranger_is_imported_only_if_it_is_trusted_or_was_imported_before(saved):
    assert names()[-2:] == ["broken", "mine"]
    with nothing_new(), pytest.raises(DamagedFile, match=r"strange_agents:AGENT of strange_agents, .*trust=\['mine'\]"):
        load(saved)
    assert "strange_agents" not in sys.modules
    trusted = load(saved, trust=["mine"])
    assert evaluate(trusted, episodes=2).returns.shape == (2,)
    again = load(saved)  # The package is imported by now.
    for one, other in zip(trusted.play(KEY)[1], again.play(KEY)[1], strict=True):
        np.testing.assert_array_equal(one, other)
    assert trusted.name == again.agent == read_json(saved / "config.json")["agent"] == "mine"


def test_a_world_with_a_depletion_of_others(stranger):
    import strange_agents  # pyright: ignore[reportMissingImports]

    check_depletion(strange_agents.Stale(0.5))
    text = dataclasses.replace(WORLD, depletion=strange_agents.Stale(0.5)).to_json()
    assert json.loads(text)["depletion"] == {"kind": "stale", "rate": 0.5}
    del sys.modules["strange_agents"]
    with nothing_new(), pytest.raises(ValueError, match=r"strange_agents:Stale of strange_agents.*trust=\['stale'\]"):
        World.from_json(text)
    again = World.from_json(text, trust=["stale"])
    assert again.depletion.worth(2) == 0.5
    assert World.from_json(text).depletion == again.depletion  # The package is imported by now.
    for name, message in {"crooked": "must be a class of depletions", "stalest": "did you mean 'stale'"}.items():
        with pytest.raises(ValueError, match=message):
            World.from_json(text.replace('"stale"', f'"{name}"'), trust=[name])


def test_a_world_with_an_observation_of_others(stranger):
    import strange_agents  # pyright: ignore[reportMissingImports]

    smell = strange_agents.Smell(3.0, remaining=True)
    check_observation(smell)
    text = dataclasses.replace(WORLD, observation=smell).to_json()
    assert json.loads(text)["observation"] == {"kind": "smell", "reach": 3.0, "remaining": True, "flat": False}
    del sys.modules["strange_agents"]
    with nothing_new(), pytest.raises(ValueError, match=r"strange_agents:Smell of strange_agents.*trust=\['smell'\]"):
        World.from_json(text)
    again = World.from_json(text, trust=["smell"])
    assert World.from_json(text).observation == again.observation  # The package is imported by now.
    env = Environment(again)
    assert env.observation_space.contains(env.reset(seed=0)[0])
    for name, message in {"crooked": "must be a class of observations", "smel": "did you mean 'smell'"}.items():
        with pytest.raises(ValueError, match=message):
            World.from_json(text.replace('"smell"', f'"{name}"'), trust=[name])


def test_the_command_takes_names_to_trust(saved, command):
    status, _, errors = command("evaluate", saved)
    assert status == 1
    assert "--trust mine" in errors
    status, out, errors = command("evaluate", saved, "--trust", "mine", "--episodes", 2)
    assert status == 0, errors
    assert "mine, 2 episodes" in out


def test_an_agent_that_no_package_offers_is_passed_as_a_value(tmp_path):
    parts = q_learning.init, q_learning.train, q_learning.policy
    mine = Agent("notebook", q_learning.Config, q_learning.State, *parts)
    folder = Trained(mine, WORLD, mine.Config(), mine.init(KEY, WORLD, mine.Config())).save(tmp_path / "saved")
    with pytest.raises(DamagedFile, match="unknown agent 'notebook'"):
        load(folder)
    with pytest.raises(DamagedFile, match="it is an agent 'notebook', and you pass .*'q_learning'"):
        load(folder, agent=q_learning.AGENT)
    assert load(folder, agent=mine).agent is mine


def test_names_that_mislead_are_refused(stranger):
    install(stranger, "second_package", mine="AGENT", q_learning="AGENT")
    with pytest.raises(ValueError, match="two meanings.*strange_agents:AGENT of strange_agents"):
        find("mine", trust=["mine"])
    assert find("q_learning", trust=["q_learning"]) is q_learning.AGENT  # Nobody takes the place of our own.
    with pytest.raises(TypeError, match="'broken' of wane.agents is a int: it must be an Agent"):
        find("broken", trust=["broken"])
    for name in ("os:system", "strange_agents.AGENT", ""):
        with pytest.raises(ValueError, match="unknown agent"):
            find(name, trust=[name])
        with pytest.raises(ValueError, match="one word of letters"):
            Agent(name, q_learning.Config, q_learning.State, q_learning.init, q_learning.train, q_learning.policy)
