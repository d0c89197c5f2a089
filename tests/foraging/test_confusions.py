"""Which models are told apart: the arithmetic on scores that are given, and two models that are simulated."""

import numpy as np
import pandas as pd
import pytest

from wane import foraging
from wane.foraging import Confusion, ConstantHazard, HarvestCount

SCORES = pd.DataFrame(
    [
        # Copies 0 and 1 measure differences, copies 2 and 3 are counted.
        ("a", 1, 0, 100.0, 110.0, 101.0),
        ("a", 1, 1, 100.0, 106.0, 107.0),
        ("a", 1, 2, 100.0, 110.0, 99.0),
        ("a", 1, 3, 100.0, 110.0, 103.0),
        ("b", 1, 0, 110.0, 100.0, 120.0),
        ("b", 1, 1, 110.0, 100.0, 120.0),
        ("b", 1, 2, 110.0, 100.0, 120.0),
        ("b", 1, 3, 99.0, 100.0, 120.0),
        ("c", 1, 0, 110.0, 110.0, 100.0),
        ("c", 1, 1, 110.0, 110.0, 100.0),
        ("c", 1, 2, 110.0, 110.0, 100.0),
        ("c", 1, 3, 110.0, 110.0, 100.0),
    ],
    columns=["true", "animal", "copy", "a", "b", "c"],
)


def test_differences_are_measured_on_other_copies_than_those_that_are_counted():
    found = Confusion(SCORES)
    rows = found.differences().set_index(["true", "other"])
    assert rows.loc[("a", "b"), "difference"] == 8.0
    assert rows.loc[("a", "b"), "sd"] == pytest.approx(np.sqrt(8))
    assert rows.loc[("a", "c"), "difference"] == 4.0
    assert rows.loc[("a", "c"), "sd"] == pytest.approx(np.sqrt(18))
    assert rows["told_apart"].sum() == 5, "all but a and c where a is true"
    choices = found.choices()
    assert choices["copy"].tolist() == [2, 3] * 3
    assert choices["chosen"].tolist() == ["c", "a", "b", "a", "c", "c"]
    assert choices["alike"].tolist() == [True, True, True, False, True, True]
    assert choices["apart"].tolist() == [False, False, True, True, True, True]


def test_models_that_are_not_told_apart_are_grouped():
    found = Confusion(SCORES)
    summary = found.summary().set_index("model")
    assert summary["right"].tolist() == [0.5, 0.5, 1.0]
    assert summary["animals_apart"].tolist() == [0, 1, 1]
    np.testing.assert_equal(summary["right_apart"].to_numpy(), [np.nan, 0.5, 1.0])
    assert summary["right_or_alike"].tolist() == [1.0, 0.5, 1.0]
    assert summary["not_told_apart"].tolist() == ["c (1)", "", ""]
    np.testing.assert_allclose(found.matrix(), [[0.5, 0.0, 0.5], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    assert repr(found) == "Confusion(12 simulated animals, chosen rightly: a 50%, b 50%, c 100%)"
    assert found.groups() == [["a", "c"], ["b"]]
    grouped = found.grouped()
    assert grouped.index.tolist() == grouped.columns.tolist() == ["a / c", "b"]
    np.testing.assert_allclose(grouped, [[1.0, 0.0], [0.5, 0.5]])


@pytest.mark.fuzz
def test_simulated_models_are_told_apart():
    task = foraging.Task.linear({"low": 30, "high": 60}, 6, {"rich": 10, "poor": 30}, harvest=10)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "subject": np.repeat([0, 1], 80),
            "kind": rng.choice(["low", "high"], 160),
            "environment": rng.choice(["rich", "poor"], 160),
            "harvests": 2 + rng.poisson(3, 160),
        }
    )
    data = foraging.from_stays(table, task, patches="fresh")
    found = foraging.confusion([ConstantHazard(), HarvestCount()], data, copies=4)
    summary = found.summary().set_index("model")
    assert summary.loc["HarvestCount", "animals_apart"] == 2
    assert summary.loc["HarvestCount", "right_apart"] == 1.0
    assert summary["right"].min() >= 0.75
    with pytest.raises(ValueError, match="copies = 3: a whole number between 4 and"):
        foraging.confusion([ConstantHazard()], data, copies=1)
