"""The contract of experiments, and that every experiment obeys it."""

import dataclasses
from dataclasses import dataclass

import jax
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from wane.depletion import Geometric
from wane.lab import Claim, Experiment, Finding, exceeds, find, matches, module_of, stays_below
from wane.lab.contract import NotTested, Seeded, Settings, changed, flat, join, seed_keys, stack
from wane.lab.statistics import Estimate
from wane_paper.collection import FOLDERS, LEARNED, NAMES, TABULAR


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_says_what_it_is(name):
    experiment = find(name)
    assert isinstance(experiment, Experiment)
    assert experiment.name == name
    texts = (experiment.title, experiment.source, experiment.summary, experiment.paper_cost)
    assert min(map(len, texts)) > 3
    assert type(experiment.quick) is type(experiment.paper)
    names = [claim.name for claim in experiment.claims]
    assert len(set(names)) == len(names) > 0
    assert all(claim.statement.endswith(".") for claim in experiment.claims)
    assert {record["verdict"] for record in experiment.findings()} == {"not run"}


def test_the_registry_is_one_list():
    assert set(FOLDERS.values()) == {"exact", "tabular", "networks", "foraging"}
    assert (set(TABULAR) | set(LEARNED), set(TABULAR) & set(LEARNED)) == (set(NAMES), set())
    assert module_of("q-lambda") == "wane_paper.tabular.q_lambda"
    assert module_of("mine.walk") == "mine.walk"


def test_unknown_names_are_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"unknown experiment 'q_lambda': did you mean 'q-lambda'\? There are dimin"):
        find("q_lambda")
    with pytest.raises(ValueError, match=r"No module named 'no_such'.*PYTHONPATH"):
        find("no_such.module")
    with pytest.raises(ValueError, match="no EXPERIMENT"):
        find("json.decoder")


def test_a_seeds_key_is_its_own():
    alone, together = seed_keys([3]), seed_keys([1, 3])
    assert np.array_equal(jax.random.key_data(alone[0]), jax.random.key_data(together[1]))
    assert not np.array_equal(jax.random.key_data(together[0]), jax.random.key_data(together[1]))


@dataclass(frozen=True)
class Config:
    step_size: float = 0.1
    lam: float = 0.5


@dataclass(frozen=True)
class Nested(Seeded):
    SET_BY_EXPERIMENT = {"agent.lam": "lambdas"}  # noqa: RUF012
    agent: Config = Config()
    lambdas: tuple[float, ...] = (0.0, 1.0)
    depletion: Geometric = Geometric(0.5)  # noqa: RUF009


def test_what_differs_from_a_preset():
    assert changed(Seeded(5), Seeded(3)) == {"seeds": 5}
    assert changed(Seeded(), Seeded()) == {}
    assert changed(Nested(agent=Config(0.2)), Nested()) == {"agent.step_size": 0.2}


def test_settings_of_nested_dataclasses_have_dotted_names():
    assert list(flat(Nested())) == ["seeds", "agent.step_size", "agent.lam", "lambdas", "depletion"]


def test_settings_that_the_experiment_chooses_are_refused_with_those_to_change_instead():
    with pytest.raises(ValueError, match=r"agent.lam = 0.7: the experiment sets this itself; change lambdas instead"):
        Nested(agent=Config(lam=0.7))


def test_a_claim_can_be_not_tested():
    def nothing(settings, tables):
        raise NotTested("no such agent")

    record = Claim("a", "A.", nothing).record(Seeded(), {})
    assert (record["verdict"], record["detail"]) == ("not tested", "no such agent")
    record = Claim("a", "A.", lambda s, t: Finding(True, 1.0, (-np.inf, np.inf))).record(Seeded(), {})
    assert record["verdict"] == "not tested"
    assert record["interval"] is None
    assert Claim("a", "A.", nothing).record()["verdict"] == "not run"


@dataclass(frozen=True)
class Checked(Seeded):
    rate: float = 0.1
    lambdas: tuple[float, ...] = (0.0, 1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 0}, "seeds = 0: a whole number between 1 and 1,000,000 is needed"),
        ({"seeds": -1}, "seeds = -1: a whole number between 1 and 1,000,000 is needed"),
        ({"rate": float("nan")}, "rate = nan: a number of at least 0 is needed"),
        ({"lambdas": (0.0, float("inf"))}, "lambdas = .*: a number of at least 0 is needed, not inf"),
        ({"lambdas": ()}, "lambdas = .*: at least one value is needed"),
    ],
)
def test_settings_are_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        Checked(**changes)


def table(*seeds: int) -> pd.DataFrame:
    return pd.DataFrame({"seed": seeds, "value": [10.0 * seed for seed in seeds]})


def experiment(**changes) -> Experiment:
    parts = {"name": "a", "title": "A", "source": "a test", "summary": "Sums.", "claims": ()}
    parts |= {"quick": Seeded(), "paper": Seeded(), "draw": lambda settings, tables: Figure()}
    parts |= {"fixed": lambda settings: {"known": pd.DataFrame({"a": [1]})}}
    parts |= {"seeded": lambda settings, seeds, loop: {"found": table(*seeds)}}
    return Experiment(**parts | changes)


def test_tables_are_fixed_or_seeded():
    tables = experiment().tables(Seeded(4))
    assert list(tables) == ["known", "found"]
    assert tables["found"]["seed"].tolist() == [0, 1, 2, 3]
    assert experiment().seeds(Seeded(4)) == range(4)
    assert experiment(seeded=None).seeds(Seeded(4)) == range(0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fixed": lambda settings: {"known": table(0)}}, "the fixed table 'known' has a column seed"),
        ({"seeded": lambda s, seeds, loop: {"found": pd.DataFrame({"a": [1]})}}, "'found' needs a column seed"),
        ({"seeded": lambda s, seeds, loop: {"found": table(99)}}, "'found' needs a column seed"),
        ({"seeded": lambda s, seeds, loop: {"known": table(0)}}, "'known' is both fixed and seeded"),
    ],
)
def test_tables_that_break_the_contract_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        experiment(**changes).tables(Seeded())


def test_an_experiment_that_computes_nothing_or_has_no_seeds_is_refused():
    with pytest.raises(ValueError, match="computes nothing"):
        experiment(fixed=None, seeded=None)
    with pytest.raises(ValueError, match="subclass of Seeded"):
        experiment(quick=Settings())


def test_parts_are_joined_by_seed():
    joined = join({}, [{"found": table(2, 3)}, {"found": table(0, 1), "rare": table(1)}])
    assert joined["found"]["seed"].tolist() == [0, 1, 2, 3]
    assert joined["found"]["value"].tolist() == [0.0, 10.0, 20.0, 30.0]
    assert joined["rare"]["seed"].tolist() == [1]


def test_chunks_are_stacked_by_name():
    stacked = stack([{"a": {"b": np.array([i, i])}, "c": float(i)} for i in range(3)])
    assert stacked["a"]["b"].tolist() == [[0, 0], [1, 1], [2, 2]]
    assert stacked["c"].tolist() == [0.0, 1.0, 2.0]
    assert stack([]) == {}


def test_precision_is_the_experiments(monkeypatch):
    def seeded(settings, seeds, loop):
        return {"found": table(*seeds).assign(bits=jax.numpy.zeros(1).dtype.itemsize * 8)}

    for double, bits in ((True, 64), (False, 32)):
        found = dataclasses.replace(experiment(seeded=seeded), double_precision=double).tables(Seeded())
        assert set(found["found"]["bits"]) == {bits}


def test_a_claim_says_where_it_comes_from():
    def test(settings, tables):
        return Finding(None, 0.5, (0.0, 1.0), "both")

    claim = Claim("one", "One.", test, "paper", "section 5")
    found = claim.record(None, {})
    assert (found["verdict"], found["kind"], found["place"]) == ("undecided", "paper", "section 5")
    assert claim.record()["kind"] == "paper"
    assert Claim("one", "One.", test).kind == "ours"
    with pytest.raises(ValueError, match="'one': a claim of the paper has a place"):
        Claim("one", "One.", test, "paper")
    with pytest.raises(ValueError, match="'one': a claim of the paper has a place in it, and no other claim has one"):
        Claim("one", "One.", test, "ours", "section 5")
    with pytest.raises(ValueError, match="kind is one of paper, ours, identity, got 'theirs'"):
        Claim("one", "One.", test, "theirs")


def test_an_account_of_a_failure_is_written_down_where_there_is_one():
    def test(settings, tables):
        return Finding(False, 0.0)

    claim = Claim("one", "One.", test, "paper", "section 5", "The paper says one; we found two.")
    assert claim.record(Seeded(), {})["account"] == claim.record()["account"] == "The paper says one; we found two."
    assert "account" not in Claim("one", "One.", test).record(Seeded(), {})


def test_intervals_decide_or_leave_undecided():
    def verdicts(judge, *args):
        return [judge(Estimate((low + high) / 2, low, high), *args).holds for low, high in INTERVALS]

    assert verdicts(exceeds, "", 1.0) == [False, None, None, True, None]
    assert verdicts(stays_below, 1.0) == [True, None, None, False, None]
    assert verdicts(matches, 1.0, 1.0) == [None, True, None, False, None]
    found = matches(Estimate(0.5, 0.4, 0.6), 0.5, 0.2, "told")
    assert found == Finding(True, 0.5, (0.4, 0.6), "the margin is 0.5 ± 0.2; told")


INTERVALS = [(-0.5, 0.5), (0.5, 1.5), (-0.5, 1.5), (2.0, 3.0), (-1.0, 3.0)]
