"""Every setting of the experiments with networks, changed once: tables, verdicts and a figure, or a clear refusal.

Nearly all of the time goes into compiling, so each run changes several settings, and XLA optimises little.
"""

import dataclasses
import io
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from wane.agents.forward_backward import Schedule
from wane.lab import find
from wane.lab.contract import Loop, flat
from wane_paper.collection import LEARNED as NETWORKS

LEARNED = [name for name in NETWORKS if name != "sac-flops"]
"""sac-flops counts what an update costs and learns nothing; its tests are those of sac."""
AGENT: dict[str, Any] = dict(
    dimension=3, width=4, depth=1, batch=2, horizon=3, replay=50, probes=1, schedule=Schedule(1, 1, 1, 1)
)
FEATURES: dict[str, Any] = {
    "hidden": (2,),
    "batch": 512,
    "epochs": 1,
    "iterations": 2,
    "base.features": 2,
    "base.channels": 1,
    "base.hidden": (2,),
    "base.batch": 512,
    "base.epochs": 1,
    "base.horizon": 2,
}
PICTURES = FEATURES | {
    "base.vision.observation": "first-person:8:unfading",
    "base.vision.frames": 1,
    "base.strides": (4,),
}
RECURRENT: dict[str, Any] = dict(hidden=4, length=8, epochs=2, updates=7, environments=2, evaluation_episodes=1)
CONTROL: dict[str, Any] = dict(
    hidden=(4,), batch=4, replay=40, random_steps=6, collection_steps=8, steps=12, epochs=3, evaluation_episodes=1
)
AGENTS = {
    "a2c": RECURRENT,
    "learned-operator": dict(width=4, depth=1, batch=2, epochs=2, steps=1, probes=1),
    "sac": CONTROL,
    "sac-depleting": CONTROL,
    "gpi-pixels": PICTURES,
    "lambda-features-curves": PICTURES,
    "grid-features": FEATURES | {"episodes": 100},
}
"""What makes agents small, by dotted names; that of all experiments but these is AGENT."""
FEWER: dict[str, dict[str, Any]] = {
    "a2c": {"size": 7, "horizon": 20},
    "fb-lambda-table": {"episodes": 1, "final_episodes": 3},
    "fb-learn-lambda": {"episodes": 1, "final_episodes": 3, "observed_episodes": 50},
    "fb-asymmetric": {"tolerance": 0.3},
    "mvt": {"distances": (2, 4), "lambdas": (0.1,)},
    "learned-operator": {"tasks": 2, "horizon": 5},
    "sac": {"tasks": ("Pendulum-v1",)},
    "sac-depleting": {},
    "fb-zero-shot": {"lambdas": (0.5, 1.0), "episodes": 3},
    "grid-features": {"lambdas": (0.5, 1.0), "horizon": 2},
    "gpi-pixels": {"lambdas": (0.5, 1.0), "horizon": 2},
    "lambda-features-curves": {"lambdas": (0.5, 1.0), "horizon": 2},
}
Case = tuple[str, dict[str, Any], dict[str, str]]
CASES: list[Case] = [
    (
        "a2c",
        {"lambdas": (0.0, 0.25), "lam": 0.25, "agent.epochs": 1, "size": 9, "horizon": 10},
        {"beats-lambda-1-end": "There is no agent with λ̂ = 1", "features": "raise agent.epochs"},
    ),
    ("a2c", {"lam": 1.0, "mixing": 0.5, "discount": 0.9}, {"beats-lambda-1-end": "itself"}),
    ("a2c", {"lam": 0.9, "lambdas": (0.0, 0.9)}, {"beats-lambda-1-end": "There is no agent with λ̂ = 1"}),
    (
        "fb-lambda-table",
        {"agents": (0.25, 1.0), "goals": 1},
        dict.fromkeys(["correct-lambda-half", "correct-lambda-one", "highly-suboptimal"], "add 0.5 to agents"),
    ),
    (
        "fb-lambda-table",
        {"worlds": (0.25,), "episodes": 2, "final_episodes": 2},
        {"correct-lambda-half": "where λ = 0.5 is true"},
    ),
    ("fb-lambda-table", {"agents": (0.5,), "agent.horizon": 1}, {"correct-lambda-half": "add 1 to agents"}),
    (
        "fb-learn-lambda",
        {"lam": 1.0, "goals": 1, "episodes": 2, "final_episodes": 2},
        {"learning-pays": "to keep it is right", "finds-lambda": "One run has no interval"},
    ),
    ("fb-learn-lambda", {"observed_episodes": 1, "agent.horizon": 1}, {"noise": "raise observed_episodes"}),
    (
        "fb-asymmetric",
        {"lambdas": (0.5,), "tolerance": 0.2},
        {"large-for-ever": "add 1 to lambdas", "tour": "add 0.1 to lambdas"},
    ),
    (
        "fb-asymmetric",
        {
            "factors": (2.0,),
            "agent.horizon": 1,
            "larges": (9.0,),
        },
        {"near-the-optimum": "add 1 to factors", "large-for-ever": "raise larges or factors"},
    ),
    (
        "mvt",
        {"discounts": (0.9,), "lam": 0.25, "lambdas": (0.0, 0.2)},
        {"like-discounted": "add 0.99 to discounts", "earns-discounted": "add 0.99 to discounts"},
    ),
    (
        "mvt",
        {"timings": ("arrival",), "distances": (3,), "agent.horizon": 2},
        {"like-discounted": "add departure to timings"},
    ),
    ("fb-zero-shot", {"lambdas": (1.0,), "goals": 1, "episodes": 2}, {"equivalent": "trained for λ = 1 alone"}),
    ("fb-zero-shot", {"lasting": 1.0, "agent.horizon": 1}, {"mixed-equivalent": "between 0 and 1"}),
    (
        "grid-features",
        {"kinds": ("one-hot",), "lam": 0.25, "discount": 0.8, "horizon": 1},
        {"laplacian-limit": "No agent has laplacian features", "one-hot-accurate": "There is no agent with λ̂ = 0.25"},
    ),
    (
        "grid-features",
        {"kinds": ("laplacian",), "lambdas": (0.5,)},
        {"one-hot-accurate": "No agent has one-hot features", "laplacian-limit": "no agent with a wrong λ̂"},
    ),
    (
        "gpi-pixels",
        {"targets": ("product",), "lam": 0.25, "horizon": 1, "shown": 3},
        {"true-lambda-is-best": "There is no agent with λ̂ = 0.25", "memory": "There is no agent with λ̂ = 0.25"},
    ),
    (
        "gpi-pixels",
        {"targets": ("vector",), "lambdas": (0.5,)},
        {
            "true-lambda-is-best": "No agent regresses the product",
            "exact-learning-following": "no agent with a wrong λ̂",
        },
    ),
    (
        "lambda-features-curves",
        {"targets": ("vector",), "lam": 0.25, "policy": 2, "horizon": 1},
        {"exact-limit": "There is no agent with λ̂ = 0.25", "vector-is-closer": "No network regresses the product"},
    ),
    ("lambda-features-curves", {"lambdas": (0.5,)}, {"lowest-error": "no agent with a wrong λ̂"}),
    (
        "sac",
        {"tasks": ("wane/PointMass-v0",), "agents": ("SAC-2", "lambda-SAC")},
        {"low-lambda-hurts": "HalfCheetah-v5 was not learned"},
    ),
    (
        "sac-depleting",
        {"lam": 0.5, "agents": ("SAC-2", "lambda-SAC")},
        {"lower-lambda": "There is no agent 0.5-SAC"},
    ),
    (
        "learned-operator",
        {"maps": ("four-rooms",), "lambdas": (0.5,), "tasks": 1, "horizon": 3},
        {"asymmetric": "add asymmetric to maps"},
    ),
    (
        "learned-operator",
        {"other_maps": ("two-rooms",), "other_lambdas": (0.25,)},
        {"other-maps": "One run has no interval"},
    ),
]
"""Changes, and what claims say that they leave without data."""


def toy(name, **changes):
    """Settings of a run with one seed and one gradient step, with some of them changed."""
    quick = find(name).quick
    agent = change(quick.agent, AGENTS.get(name, AGENT))
    return change(dataclasses.replace(quick, seeds=1, agent=agent, **FEWER[name]), changes)


def change(settings, changes):
    """Settings with others in their place, by dotted names."""
    for name, value in changes.items():
        part, _, rest = name.partition(".")
        value = change(getattr(settings, part), {rest: value}) if rest else value
        settings = dataclasses.replace(settings, **{part: value})
    return settings


OTHERS: dict[Any, Any] = {
    "cells": "states",
    "remaining": "initial",
    "laplacian": "one-hot",
    "one-hot": "laplacian",
    "fitted": "online",
    "online": "fitted",
    "product": "vector",
    "actions": "policies",
    "uniform": "policies",
    "index": "first-person:10",
    "first-person:8:unfading": "first-person:10",
    (2,): (3, 2),
    (4,): (2, 2),
    (2, 2, 2, 1): (2, 2),
    (0.0, 0.5, 1.0): (0.25, 1.0),
    (-20.0, 2.0): (-10.0, 1.0),
    "dimension": "running",
    "variance": "deviation",
}
"""Another value for each word and list; that for all but these is "uniform"."""
NUMBERS: dict[str, Any] = {
    "agent.steps": 14,
    "agent.collection_steps": 10,
}
"""Another number for settings that need a certain one. Numbers of steps are even, because blocks get two steps."""
PICTURED = {"agent.features", "agent.base.walk", "agent.refresh", "agent.choose", "agent.method"}
RULED = {
    "gpi-pixels": PICTURED,
    "lambda-features-curves": PICTURED,
    "grid-features": {"agent.method", "agent.base.vision.observation"},
    "sac": {"agent.lambda_features"},  # The other settings adapt λ, which needs the λF.
    "sac-depleting": {"agent.lambda_features"},
}
"""Settings of the agent that an experiment needs as they are."""


def of_agent(name):
    """Every setting of the agent with another value: those that are accepted, and why the others are refused."""
    accepted, refused = {}, {}
    for setting, value in flat(toy(name).agent, "agent.").items():
        if setting in NUMBERS:
            new = NUMBERS[setting]
        elif value is None:
            new = 0.9
        elif isinstance(value, str | tuple):
            new = OTHERS.get(value, "uniform")
        else:
            new = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else value / 2 or 0.1
        try:
            toy(name, **{setting: new})
            accepted[setting] = new
        except ValueError as error:
            refused[setting] = str(error)
    return accepted, refused


def compute(name, settings):
    """Requires tables, verdicts, a figure and kept agents of a run. Returns the records of the claims by name."""
    experiment, loop = find(name), Loop()
    tables = experiment.tables(settings, loop)
    assert bool(loop.kept) == (name != "lambda-features-curves")  # It watches learning, and keeps no agent.
    assert all(isinstance(table, pd.DataFrame) for table in tables.values())
    records = {record["name"]: record for record in experiment.findings(settings, tables)}
    for record in records.values():
        assert record["verdict"] in ("holds", "fails", "undecided", "not tested")
        assert record["detail"]
        assert record["verdict"] == "not tested" or np.isfinite(record["estimate"])
    picture = io.BytesIO()
    experiment.draw(settings, tables).savefig(picture)
    assert picture.getvalue().startswith(b"\x89PNG")
    assert experiment.films is None or len(experiment.films(settings, tables)) > 0
    return records


@pytest.mark.fuzz
@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(("name", "changes", "missing"), CASES)
def test_claims_say_what_the_settings_leave_out(name, changes, missing):
    records = compute(name, toy(name, **changes))
    for claim, reason in missing.items():
        assert records[claim]["verdict"] == "not tested"
        assert reason in records[claim]["detail"]


@pytest.mark.fuzz
@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("name", LEARNED)
def test_two_seeds_and_all_settings_of_the_agent_changed(name):
    compute(name, toy(name, seeds=2, **of_agent(name)[0]))


@pytest.mark.parametrize("name", LEARNED)
def test_every_setting_is_changed_or_refused(name):
    accepted, refused = of_agent(name)
    changed = {setting for experiment, changes, _ in CASES if experiment == name for setting in changes}
    assert {"seeds", *accepted, *refused, *changed} == flat(toy(name)).keys()
    ruled = RULED.get(name, set())
    assert refused.keys() == find(name).quick.SET_BY_EXPERIMENT.keys() | ruled
    for setting, reason in refused.items():
        if setting in ruled:  # A configuration that refuses its own settings does not know whose agent it is.
            assert re.match(rf"({setting}|{setting.removeprefix('agent.')}) = .*: .* is needed", reason)
        else:
            assert re.match(rf"{setting} = .*: the experiment sets this itself; change .* instead", reason)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "fb-lambda-table",
            {"agent.lam": 0.2},
            "agent.lam = 0.2: .*; change agents instead",
        ),
        ("fb-lambda-table", {"agent.discount": 1.0}, "Φ is infinite without discounting"),
        ("fb-lambda-table", {"agents": (0.5, 0.5)}, "agents = .*: different values are needed, but 0.5 is given twice"),
        ("fb-lambda-table", {"worlds": (1.5,)}, "1.5"),
        ("fb-learn-lambda", {"agent.discount": 1.0}, "agent.discount = 1: a discount below 1 is needed"),
        ("fb-asymmetric", {"agent.width": 0}, "width = 0: a whole number between 1 and 100,000 is needed"),
        ("fb-asymmetric", {"agent.schedule.epochs": 0}, "epochs = 0: a whole number between 1 and 1,000,000 is needed"),
        (
            "fb-asymmetric",
            {"agent.replay": 2},
            "replay = 2: at least 3 is needed, because",
        ),
        ("fb-asymmetric", {"agent.learning_rate": float("nan")}, "learning_rate = nan: a number above 0"),
        ("mvt", {"agent.horizon": 1}, "agent.horizon = 1: at least 2 is needed"),
        ("mvt", {"lam": 1.0}, "Φ is infinite without discounting"),
        ("mvt", {"lambdas": (1.5,)}, r"lambdas = \(1.5\): a λ between 0 and 1 is needed"),
        ("mvt", {"distances": (9,)}, r"distances = \(9\): a whole number between 1 and 6 is needed"),
        ("mvt", {"agent.discount": 0.9}, "change discounts instead"),
        ("fb-zero-shot", {"lambdas": (0.5,)}, "a 1 is needed at the end"),
        ("fb-zero-shot", {"lasting": 1.5}, "lasting = 1.5: a share between 0 and 1 is needed"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name, changes, message):
    with pytest.raises(ValueError, match=message):
        toy(name, **changes)
