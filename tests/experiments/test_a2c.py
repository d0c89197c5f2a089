"""The experiment `a2c`, as small as it can be: tables, claims, pictures, kept agents, and settings that are refused."""

import dataclasses

import jax
import numpy as np
import pandas as pd
import pytest

from experiments.test_settings_networks import RECURRENT, toy
from wane.agents import a2c
from wane.agents.a2c import Config
from wane.agents.common.rollout import play
from wane.lab.contract import join
from wane.lab.runs import SavingLoop
from wane_paper.networks.a2c import EXPERIMENT
from wane_paper.networks.a2c_learning import config_of, variants

TOY = toy("a2c", seeds=2, agent=Config(**RECURRENT))
AGENT = TOY.agent
NAMES = [
    "λ̂ = 0",
    "λ̂ = 0.5",
    "λ̂ = 1",
    "λF as a task",
    "plain A2C",
    "λ̂ = 0.5, told",
    "λ̂ = 0.5, no memory",
    "plain A2C, told",
    "plain A2C, no memory",
    "λ̂ = 0.5, multi-step",
    "λ̂ = 0.5, no memory, multi-step",
    "λ̂ = 0, on arrival",
    "λ̂ = 0.5, on arrival",
    "λ̂ = 1, on arrival",
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory, request):
    """The tables of a toy run, the agents that it kept, and the folder of its checkpoint."""
    request.getfixturevalue("quick_compilation")
    folder = tmp_path_factory.mktemp("checkpoint")
    loop = SavingLoop(folder, "print", seconds=0)
    return EXPERIMENT.tables(TOY, loop), loop.kept, folder


def test_agents_differ_in_numbers_only():
    agents = variants(TOY)
    assert list(agents) == NAMES
    arriving = config_of(TOY, agents["λ̂ = 0, on arrival"])
    assert arriving == dataclasses.replace(config_of(TOY, agents["λ̂ = 0"]), arrival=True)
    informed, plain = config_of(TOY, agents["λ̂ = 0.5, told"]), config_of(TOY, agents["plain A2C"])
    assert informed == dataclasses.replace(AGENT, lam=0.5, feature_weight=0.1)
    assert plain == dataclasses.replace(AGENT, lam=1.0, correction=False, feature_weight=0.0, shown=False)


@pytest.mark.slow
def test_tables_claims_and_pictures(tiny, tmp_path):
    tables, kept, _ = tiny
    rows = {name: len(table) for name, table in tables.items() if name != "episodes"}
    assert rows == {"optimum": 1, "curves": 2 * 2 * 14, "errors": 2 * 2 * 11}
    assert sorted(tables["curves"]["episode"].unique()) == [5.6, 11.2]
    assert set(tables["curves"]) == {"episode", "seed", "agent", "training", "greedy", "sampled"}
    assert np.isfinite(tables["curves"][["training", "greedy", "sampled"]].to_numpy()).all()
    for record in EXPERIMENT.findings(TOY, tables):
        assert record["verdict"] in ("holds", "fails", "undecided")
        assert record["detail"]
    EXPERIMENT.draw(TOY, tables).savefig(tmp_path / "figure.png")
    films = EXPERIMENT.films(TOY, tables)
    assert list(films) == ["λ̂ = 0", "λ̂ = 0.5", "λ̂ = 1", "plain A2C", "λ̂ = 0.5, told"]
    films["λ̂ = 1"](tmp_path / "film.gif")
    assert (tmp_path / "film.gif").read_bytes().startswith(b"GIF8")
    assert list(kept)[:2] == ["lam-0", "lam-0.5"]
    assert set(kept) >= {"features-as-a-task", "plain-a2c", "lam-0.5-told", "plain-a2c-no-memory"}


@pytest.mark.slow
def test_a_kept_agent_plays_the_episode_that_is_shown(tiny):
    tables, kept, _ = tiny
    agent = kept["plain-a2c-told"]
    assert agent.config == config_of(TOY, variants(TOY)["plain A2C, told"])

    @jax.jit
    def cells(params):
        return play(jax.random.key(0), agent.world, a2c.sampled_policy(params, agent.world, agent.config))[1].cells

    shown = tables["episodes"]
    with jax.enable_x64(False):
        assert shown[shown["agent"] == "plain A2C, told"]["cell"].tolist() == cells(agent.params).tolist()


@pytest.mark.slow
def test_a_run_that_was_killed_after_learning_goes_on(tiny):
    """Its checkpoint is finished, its tables were not written: nothing is learned again, and the tables are equal."""
    tables, _, folder = tiny
    reports = []
    loop = SavingLoop(folder, "print", report=lambda *words: reports.append(words))
    again = EXPERIMENT.seeded_tables(TOY, range(2), loop)
    assert all(done == total for _, done, total, _ in reports)
    for name, table in again.items():
        pd.testing.assert_frame_equal(join({}, [{name: table}])[name], tables[name])


def made_up(true=10.0, low=9.0, high=9.0, task=8.0, plain=8.0, told=12.0, forgetful=5.0, errors=(1.0, 0.2), late=0.0):
    """Tables in which agents earn what is given, with a little noise that differs from seed to seed."""
    means = [low, true, high, task, plain, told, forgetful, told, forgetful, true, forgetful]
    means += [low + late, true, high - late]
    curves = [
        dict(episode=float(i), seed=seed, agent=name, training=mean, greedy=mean, sampled=mean + 0.01 * seed**2)
        for i in (1, 2)
        for seed in range(4)
        for name, mean in zip(NAMES, means, strict=True)
    ]
    measured = [
        dict(episode=float(i), seed=seed, agent=name, error=error + 0.001 * seed)
        for i, error in enumerate(errors)
        for seed in range(4)
        for name in NAMES
    ]
    return {
        "optimum": pd.DataFrame({"value": [30.0]}),
        "curves": pd.DataFrame(curves),
        "errors": pd.DataFrame(measured),
    }


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, set()),
        ({"high": 11.0}, {"beats-lambda-1-end", "on-arrival-beats-lambda-1"}),
        ({"low": 10.0}, {"beats-lambda-0-end"}),
        ({"late": -1.5}, {"on-arrival-beats-lambda-1"}),
        ({"task": 11.0}, {"target"}),
        ({"told": 8.0}, {"told"}),
        ({"forgetful": 8.5}, {"remembers"}),
        ({"errors": (1.0, 0.6)}, {"features"}),
    ],
)
def test_every_claim_can_hold_and_can_fail(change, failing):
    records = EXPERIMENT.findings(dataclasses.replace(TOY, seeds=4), made_up(**change))
    assert {record["name"] for record in records if record["verdict"] == "fails"} == failing
    assert all(record["verdict"] == "holds" for record in records if record["name"] not in failing)


def test_claims_say_what_the_settings_leave_out():
    tables = made_up()
    del tables["optimum"]

    def details(**changes):
        settings = dataclasses.replace(TOY, **changes)
        records = EXPERIMENT.findings(settings, tables)
        return {record["name"]: record["detail"] for record in records if record["verdict"] == "not tested"}

    assert "There is no agent with λ̂ = 1" in details(lambdas=(0.0, 0.5))["beats-lambda-1-end"]
    claim = next(claim for claim in EXPERIMENT.claims if claim.name == "beats-lambda-0-end")
    assert "The true λ itself is 0" in claim.record(dataclasses.replace(TOY, lam=0.0), tables)["detail"]
    assert "raise agent.epochs" in details(agent=dataclasses.replace(AGENT, epochs=1))["features"]
    claim = next(claim for claim in EXPERIMENT.claims if claim.name == "on-arrival-beats-lambda-1")
    assert "with itself" in claim.record(dataclasses.replace(TOY, lam=1.0), tables)["detail"]
    tables["curves"] = tables["curves"][tables["curves"]["agent"] != "λ̂ = 0.5"]
    assert "add its λ̂ to lambdas" in details(lambdas=(0.0, 1.0))["target"]


def changed(agent=None, **changes):
    return dataclasses.replace(TOY, agent=dataclasses.replace(AGENT, **agent or {}), **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agent": {"lam": 0.2}}, "agent.lam = 0.2: the experiment sets this itself; change lambdas instead"),
        ({"agent": {"correction": False}}, "agent.correction = False: the experiment sets this itself"),
        ({"agent": {"correction": 0.5}}, "correction = 0.5: True or False is needed"),
        ({"agent": {"recurrent": False}}, "agent.recurrent = False: the experiment sets this itself"),
        ({"agent": {"arrival": True}}, "agent.arrival = True: the experiment sets this itself"),
        ({"agent": {"shown": False}}, "agent.shown = False: the experiment sets this itself"),
        ({"agent": {"discount": 0.5}}, "change discount instead"),
        ({"agent": {"features": "sites"}}, "agent.features = sites: cells or states is needed"),
        ({"agent": {"feature_weight": 0.0}}, "agent.feature_weight = 0: a weight above 0 is needed"),
        ({"agent": {"hidden": 0}}, "hidden = 0: a whole number between 1 and 10,000 is needed"),
        ({"agent": {"feature_mixing": 0.5}}, "change mixing instead"),
        ({"discount": 1.0}, "discount = 1: a discount below 1 is needed"),
        ({"size": 8}, "size = 8: an odd number is needed"),
        ({"lambdas": (0.5, 0.5)}, "0.5 is given twice"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        changed(**changes)


def test_the_paper_s_settings():
    paper = EXPERIMENT.paper
    assert paper.agent == Config()
    assert paper.seeds >= 16
    assert 7500 <= paper.episodes[-1] < 7520
    assert EXPERIMENT.fixed_tables(paper)["optimum"]["value"].round(3).tolist() == [30.357]
