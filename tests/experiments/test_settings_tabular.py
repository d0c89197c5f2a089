"""Every tabular experiment at toy size: any settings give tables, verdicts and a figure, or a clear refusal."""

import dataclasses
import io

import jax
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from wane.agents import gpi, q_lambda, td
from wane.depletion import Geometric
from wane.lab import find
from wane.lab.contract import Loop, flat, join
from wane.worlds.catalog import four_rooms, toy
from wane_paper.common.composing import Composing
from wane_paper.common.learning import Learning, last_medians, median_episodes, plain_config, results
from wane_paper.tabular.lambda_operator import Operating
from wane_paper.tabular.policy_evaluation import PolicyEvaluation
from wane_paper.tabular.replenishing_q import ReplenishingQ
from wane_paper.tabular.toy import Toy

SMALL = q_lambda.Config(episodes=10, evaluate_every=1)
LAMBDAS = (0.0, 0.25, 1.0)
# λ = ¼ instead of ½: fewer visits count, so the optimum is found eight times as fast.
TOY = {
    "policy-evaluation": PolicyEvaluation(2, LAMBDAS, 0.25, sweeps=3, horizon=2, agent=td.Config(episodes=100)),
    "toy": Toy(),
    "q-lambda": Learning(2, LAMBDAS, 0.25, agent=SMALL),
    "gpi-tabular": Composing(1, LAMBDAS, 0.25, episodes=2),
    "gpi-noisy": Composing(1, LAMBDAS, 0.25, episodes=2, slip=0.2, repeats=2),
    "replenishing-q": ReplenishingQ(2, LAMBDAS, 0.25, agent=SMALL),
    "lambda-operator": Operating(("patches-4", "two-rooms"), LAMBDAS, (0, 1), tasks=2, horizon=4),
}
REFUSED = {"agent.lam", "agent.discount", "agent.depletion", "agent.policy", "agent.rows", "agent.sites"}
"""Nested settings that the experiments choose themselves, where an experiment nests them at all."""
ALSO_REFUSED = {("gpi-tabular", "agent.refresh"), ("gpi-noisy", "agent.refresh")}
SPECIAL = {
    "policy-evaluation": [{"seeds": 1}, {"lambdas": (0.25,)}, {"lambdas": (0.0, 1.0)}, {"horizon": 1}],
    "toy": [{"horizon": 1}, {"horizon": 2}],
    "q-lambda": [{"seeds": 1}, {"lambdas": (0.25,)}, {"lambdas": (0.0, 1.0)}],
    "gpi-tabular": [{"believed": (0.25,)}, {"believed": (0.0, 1.0)}, {"believed": (0.5,)}, {"episodes": 1}],
    "gpi-noisy": [{"repeats": 1}, {"believed": (0.25,)}],
    "replenishing-q": [{"seeds": 1}, {"lambdas": (0.25,)}, {"lambdas": (0.0, 1.0)}],
    "lambda-operator": [{"sweeps": (2,)}],
}
"""One seed, one λ, no true λ, no 1 (this one in `changed_value`), one step, one repetition, one belief."""


def change(settings, name, value):
    """The settings with one of them changed, by its name as in `flat`."""
    part, _, inner = name.partition(".")
    value = dataclasses.replace(getattr(settings, part), **{inner: value}) if inner else value
    return dataclasses.replace(settings, **{part: value})


def changed_value(experiment, name, value):
    """Another value of a setting, as near to it as can be."""
    world = toy() if experiment == "toy" else four_rooms()
    chosen = {
        "agent.policies": world.policies[:1],
        "agent.policy": 1,
        "agent.sites": "all",
        "agent.depletion": Geometric(0.5),
        "agent.discount": 0.5,
        "agent.timing": "arrival",
        "agent.rows": "state",
    }
    if name in chosen:
        return chosen[name]
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):
        return value[:-1]
    if isinstance(value, int):
        return value + 1
    return value / 2 if value else 0.1


def is_refused(experiment, name):
    return name in REFUSED or (experiment, name) in ALSO_REFUSED


SLOW = {name: [] if name in ("toy", "policy-evaluation") else [pytest.mark.slow] for name in TOY}
"""The others take seconds to compile."""
EACH_SETTING = {name: [] if name == "toy" else [pytest.mark.fuzz] for name in TOY}
"""`make fuzz` changes the settings of the other experiments one after the other."""
CHANGES = [(experiment, name) for experiment, settings in TOY.items() for name in flat(settings)]


def check(name, settings):
    """Runs an experiment and returns its verdicts by claim, after looking at all that it makes."""
    experiment, loop = find(name), Loop()
    tables = experiment.tables(settings, loop)
    assert tables
    for table in tables.values():
        assert len(table) > 0
        assert not table.isna().to_numpy().any()
        assert "panel" not in table
    findings = experiment.findings(settings, tables)
    for finding in findings:
        assert finding["verdict"] in {"holds", "fails", "undecided", "not tested"}
        assert finding["verdict"] != "not tested" or finding["detail"]
    figure = experiment.draw(settings, tables)
    assert isinstance(figure, Figure)
    figure.savefig(io.BytesIO(), dpi=20)
    if experiment.films:
        assert experiment.films(settings, tables)
    for agent in list(loop.kept.values())[:1]:
        assert np.isfinite(agent.play(jax.random.key(0))[1].value)
    return {finding["name"]: finding for finding in findings}


SHARE_ALL_CODE = {"gpi-noisy": "gpi-tabular", "replenishing-q": "q-lambda"}
"""Experiments that are the same program as another one, and are left to `make fuzz`."""
LATER = {name: [pytest.mark.fuzz] if name in SHARE_ALL_CODE else SLOW[name] for name in TOY}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "field"),
    [
        pytest.param(*pair, marks=EACH_SETTING[pair[0]])
        for pair in CHANGES
        if pair[0] not in SHARE_ALL_CODE and not is_refused(*pair)
    ],
)
def test_each_setting_can_be_changed(name, field):
    value = flat(TOY[name])[field]
    settings = change(TOY[name], field, changed_value(name, field, value))
    assert flat(settings)[field] is not value
    check(name, settings)


@pytest.mark.parametrize("name", [pytest.param(name, marks=LATER[name]) for name in TOY])
def test_all_settings_can_be_changed_at_once(name):
    settings = TOY[name]
    for field, value in flat(settings).items():
        if not is_refused(name, field):
            settings = change(settings, field, changed_value(name, field, value))
    check(name, settings)


@pytest.mark.parametrize(("name", "field"), [pair for pair in CHANGES if is_refused(*pair)])
def test_what_the_experiment_sets_itself_is_refused_by_name(name, field):
    with pytest.raises(ValueError, match=field):
        change(TOY[name], field, changed_value(name, field, flat(TOY[name])[field]))


NOT_TESTED = {
    ("policy-evaluation", "seeds=1"): {"td-accurate"},
    ("policy-evaluation", "lambdas=(0.25,)"): {"td-accurate"},
    ("policy-evaluation", "lambdas=(0.0, 1.0)"): {"dp-accurate", "td-accurate"},
    ("policy-evaluation", "horizon=1"): set(),
    ("toy", "horizon=1"): {"first-two-steps", "same-afterwards"},
    ("toy", "horizon=2"): {"same-afterwards"},
    ("q-lambda", "seeds=1"): {"beats-lambda-1", "beats-lambda-0", "beats-q-learning"},
    ("q-lambda", "lambdas=(0.25,)"): {"beats-lambda-1", "beats-lambda-0"},
    ("q-lambda", "lambdas=(0.0, 1.0)"): {"beats-lambda-1", "beats-lambda-0", "beats-q-learning"},
    ("replenishing-q", "seeds=1"): {"beats-lambda-1", "beats-lambda-0", "beats-q-learning"},
    ("replenishing-q", "lambdas=(0.25,)"): {"beats-lambda-1", "beats-lambda-0"},
    ("replenishing-q", "lambdas=(0.0, 1.0)"): {"beats-lambda-1", "beats-lambda-0", "beats-q-learning"},
    ("gpi-tabular", "believed=(0.25,)"): {
        "beats-lambda-0",
        "beats-lambda-1",
        "true-lambda-is-best",
        "leaves-early",
        "overstays",
    },
    ("gpi-tabular", "believed=(0.0, 1.0)"): {
        "beats-lambda-0",
        "beats-lambda-1",
        "true-lambda-is-best",
        "leaves-early",
        "overstays",
        "near-the-optimum",
    },
    ("gpi-tabular", "believed=(0.5,)"): {
        "beats-lambda-0",
        "beats-lambda-1",
        "true-lambda-is-best",
        "leaves-early",
        "overstays",
        "near-the-optimum",
    },
    ("gpi-tabular", "episodes=1"): {"beats-lambda-0", "beats-lambda-1"},
    ("gpi-noisy", "repeats=1"): {"true-lambda-is-best", "leaves-early", "overstays", "near-the-optimum"},
    ("gpi-noisy", "believed=(0.25,)"): {
        "beats-lambda-0",
        "beats-lambda-1",
        "true-lambda-is-best",
        "leaves-early",
        "overstays",
    },
    ("lambda-operator", "sweeps=(2,)"): {
        "asymmetric",
        "asymmetric-slowly",
        "other-maps",
    },
}
"""Which claims have no data, by experiment and settings. The others must be tested."""


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        pytest.param(name, changes, marks=[pytest.mark.fuzz] if i and SLOW[name] else LATER[name])
        for name, some in SPECIAL.items()
        for i, changes in enumerate(some)
    ],
)
def test_a_claim_without_data_is_not_tested(name, changes):
    words = ", ".join(f"{field}={value}" for field, value in changes.items())
    found = check(name, dataclasses.replace(TOY[name], **changes))
    without = {claim for claim, finding in found.items() if finding["verdict"] == "not tested"}
    assert without == NOT_TESTED[name, words]
    for claim in without:
        assert found[claim]["detail"][0].isupper()
        assert ". " in f"{found[claim]['detail']} "


@pytest.mark.parametrize(
    ("name", "field", "value", "message"),
    [
        ("q-lambda", "lambdas", (0.5, 1.5), "lambdas = .*: a λ between 0 and 1 is needed, not 1.5"),
        ("q-lambda", "lam", 1.5, "lam = 1.5: a λ between 0 and 1 is needed"),
        ("q-lambda", "lambdas", (0.5, 0.5), "different values are needed, but 0.5 is given twice"),
        ("q-lambda", "lambdas", (), "at least one value is needed"),
        ("q-lambda", "discount", 1.5, "discount = 1.5: a discount between 0 and 1 is needed"),
        ("q-lambda", "agent.episodes", 4, "agent.episodes = 4: at least 5 is needed, because the last 5 evaluations"),
        ("q-lambda", "agent.step_size", 2.0, "step_size = 2: a weight between 0 and 1 is needed"),
        ("policy-evaluation", "agent.episodes", 99, "agent.episodes = 99: at least 100 is needed"),
        ("policy-evaluation", "discount", 1.0, "discount = 1"),
        ("gpi-tabular", "shown", 68, "shown = 68: a state of FourRooms between 0 and 67 is needed"),
        ("gpi-tabular", "slip", 2.0, "slip = 2: a probability"),
        ("gpi-tabular", "believed", (-0.5, 0.5), "believed = .*: a λ between 0 and 1 is needed, not -0.5"),
        ("toy", "horizon", 0, "horizon = 0: a whole number between 1 and 1,000 is needed"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name, field, value, message):
    with pytest.raises(ValueError, match=message):
        change(TOY[name], field, value)


def test_plain_q_learning_takes_its_settings_from_the_other_agent():
    agent = q_lambda.Config(step_size=0.3, epsilon=0.1, optimism=0.7, episodes=9, evaluate_every=3)
    plain = plain_config(agent)
    assert {name: value for name, value in flat(agent).items() if name != "lam"} == flat(plain)


def test_the_agents_of_seed_0_are_kept_and_play_the_episodes_of_the_table():
    experiment, settings, loop = find("q-lambda"), dataclasses.replace(TOY["q-lambda"], agent=SMALL), Loop()
    shown = experiment.seeded_tables(settings, range(2), loop)["episodes"]
    assert list(loop.kept) == ["lam-0", "lam-0.25", "lam-1", "q-learning"]
    with jax.enable_x64(True):
        cells = np.asarray(loop.kept["lam-0.25"].play(jax.random.key(0))[1].cells)
    assert set(shown["seed"]) == {0, 1}
    rows = shown[(shown["agent"] == "λ̂ = 0.25") & (shown["seed"] == 0)]
    np.testing.assert_array_equal(rows["cell"], cells)
    assert loop.kept["lam-0.25"].config == dataclasses.replace(SMALL, lam=0.25)


def test_the_shown_episode_is_the_one_closest_to_the_median_of_all_seeds():
    last = {"agent": "a", "episode": 20, "seed": range(5), "value": [0.0, 1.0, 4.0, 9.0, 10.0]}
    early = {"agent": "a", "episode": 10, "seed": range(5), "value": 99.0}
    curves = pd.concat([pd.DataFrame(early), pd.DataFrame(last)])
    kept = pd.DataFrame({"agent": "a", "seed": [0, 0, 1, 1, 3, 3], "earned": [0.0, 0.0, 0.5, 1.0, 5.0, 9.0]})
    assert last_medians(curves)["a"] == 4.0
    assert set(median_episodes({"curves": curves, "episodes": kept})["a"]["seed"]) == {1}


def test_kept_agents_tell_how_many_episodes_they_learned_from():
    settings = change(TOY["q-lambda"], "agent", dataclasses.replace(SMALL, episodes=11, evaluate_every=2))
    loop = Loop()
    find("q-lambda").seeded_tables(settings, [0], loop)
    assert {agent.config.episodes for agent in loop.kept.values()} == {10}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=LATER[name]) for name in ("policy-evaluation", "q-lambda", "gpi-noisy")]
)
def test_seeds_can_be_divided_among_calls(name):
    experiment, settings = find(name), dataclasses.replace(TOY[name], seeds=2)
    whole = experiment.seeded_tables(settings, [0, 1])
    parts = join({}, [experiment.seeded_tables(settings, [seed]) for seed in (1, 0)])
    assert set(whole) == set(parts)
    for table in whole:
        keys = [column for column in whole[table] if column not in ("value", "error")]
        one, other = (tables[table].sort_values(keys).reset_index(drop=True) for tables in (whole, parts))
        pd.testing.assert_frame_equal(one, other, check_exact=False, rtol=1e-12)


def test_the_last_evaluations_are_the_result():
    settings = Learning(seeds=1, lambdas=(0.5,), agent=dataclasses.replace(SMALL, episodes=15, evaluate_every=2))
    table = pd.DataFrame({"episode": range(2, 16, 2), "seed": 0, "agent": "a", "value": [9.0, 9.0, 1, 2, 3, 4, 5]})
    assert results(settings, table).loc[0, "a"] == 3.0


def test_the_same_representations_as_the_agent_s():
    settings = dataclasses.replace(TOY["gpi-tabular"], believed=(0.25,), agent=gpi.Config(timing="arrival"))
    rows = find("gpi-tabular").fixed_tables(settings)["starts"].query("memory == 'refreshed'")
    world = four_rooms(depletion=Geometric(0.25))
    phi = gpi.representations(world, depletion=Geometric(0.25), timing="arrival")
    with jax.enable_x64(True):
        wanted = gpi.discounted_returns(jax.random.key(0), world, phi)
    np.testing.assert_allclose(rows["value"], wanted)
