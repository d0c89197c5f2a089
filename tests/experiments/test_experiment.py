import jax
import numpy as np
import pandas as pd
import pytest

from wane.experiments import NAMES, Claim, Experiment, Finding, find
from wane.experiments.experiment import NotTested, Seeded, changed, seed_keys


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_says_what_it_is(name):
    experiment = find(name)
    assert isinstance(experiment, Experiment)
    assert experiment.name == name
    assert min(map(len, (experiment.title, experiment.source, experiment.says, experiment.cost))) > 3
    assert type(experiment.quick) is type(experiment.paper)
    names = [claim.name for claim in experiment.claims]
    assert len(set(names)) == len(names) > 0
    assert all(claim.statement.endswith(".") for claim in experiment.claims)
    assert {record["verdict"] for record in experiment.findings()} == {"not run"}


def test_unknown_names_are_refused_with_those_there_are():
    with pytest.raises(ValueError, match="unknown experiment 'q_lambda': there are diminishing, .*q-lambda"):
        find("q_lambda")
    with pytest.raises(ValueError, match="No module named 'no_such'.*PYTHONPATH"):
        find("no_such.module")
    with pytest.raises(ValueError, match="no EXPERIMENT"):
        find("json.decoder")


def test_a_seeds_key_is_its_own():
    alone, together = seed_keys([3]), seed_keys([1, 3])
    assert np.array_equal(jax.random.key_data(alone[0]), jax.random.key_data(together[1]))
    assert not np.array_equal(jax.random.key_data(together[0]), jax.random.key_data(together[1]))


def test_what_differs_from_a_preset():
    assert changed(Seeded(5), Seeded(3)) == {"seeds": 5}
    assert changed(Seeded(), Seeded()) == {}


def test_a_claim_can_be_not_tested():
    def nothing(settings, table):
        raise NotTested("no such agent")

    record = Claim("a", "A.", nothing).record(Seeded(), pd.DataFrame())
    assert (record["verdict"], record["detail"]) == ("not run", "no such agent")
    record = Claim("a", "A.", lambda s, t: Finding(True, 1.0, (-np.inf, np.inf))).record(Seeded(), pd.DataFrame())
    assert record["verdict"] == "not run"
    assert record["interval"] is None


@pytest.mark.parametrize(("value", "says"), [(0, "whole number from 1 on"), (float("nan"), "finite")])
def test_settings_are_checked(value, says):
    with pytest.raises(ValueError, match=f"seeds .*{says}"):
        Seeded(value)
