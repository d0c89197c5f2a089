import numpy as np
import pandas as pd
import pytest

from wane import foraging

BOUTS = pd.DataFrame(
    {
        "distance": [2, 2, 2, 2, 4, 4],
        "seed": [0, 0, 1, 1, 0, 1],
        "episode": [0, 1, 0, 1, 0, 0],
        "bout": 0,
        "difference": [1.0, 3.0, 4.0, 9.0, -1.0, -7.0],
        "bound": ["exact", "exact", "exact", "at least", "exact", "at most"],
    }
)


def test_bounds_are_named():
    """A stay that goes on at the end, one the rule would not end, and both: episodes of three steps with average 4."""
    table = pd.DataFrame(
        {
            "episode": [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3],
            "time": [0, 1, 2] * 4,
            "site": [1, 1, None, None, 1, 1, 1, None, None, None, None, 1],
            "reward": [3, 1, 0, 0, 3, 1, 4, 0, 0, 0, 0, 5],
        }
    )
    found = foraging.leaving_difference(table, 0.1, average=4.0, rule="paper")
    assert found["bound"].tolist() == ["exact", "at least", "at most", "unknown"]
    assert found["difference"].tolist() == [1.0, 1.0, -2.0, 0.0]
    assert found["mvt"].tolist() == [0.0, 1.0, 2.0, 2.0]


def test_mean_and_error_over_seeds():
    found = foraging.summarise(BOUTS, by="distance", over="seed").set_index("distance")
    assert found.loc[2, "mean"] == 3.0, "seed 0: (1 + 3)/2, seed 1: 4, the last is only a bound"
    assert found.loc[2, "se"] == pytest.approx(np.std([2, 4], ddof=1) / np.sqrt(2))
    assert found.loc[2, ["units", "bouts", "at_least", "at_most", "unknown"]].tolist() == [2, 3, 1, 0, 0]
    assert found.loc[4, "mean"] == -1.0
    assert np.isnan(found.loc[4, "se"]), "one unit has no error"
    kept = foraging.summarise(BOUTS, by="distance", over="seed", censored="keep").set_index("distance")
    assert kept["mean"].tolist() == [(2 + 6.5) / 2, -4.0]


def test_units_are_episodes_by_default():
    whole = foraging.summarise(BOUTS)
    assert whole.loc[0, ["mean", "units", "bouts"]].tolist() == [(1 + 3 + 4 - 1) / 4, 4, 4]
    assert foraging.summarise(BOUTS, by=["distance", "seed"])["units"].tolist() == [2, 1, 1, 0]


def test_errors():
    with pytest.raises(ValueError, match="no column 'animal' to group by, there are distance, seed, episode"):
        foraging.summarise(BOUTS, by="animal")
    with pytest.raises(ValueError, match='censored = some: "drop" or "keep" is needed'):
        foraging.summarise(BOUTS, censored="some")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="what leaving_difference returns"):
        foraging.summarise(BOUTS.drop(columns="difference"))
