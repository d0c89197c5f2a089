"""The exact λ operator beside the optimum: its claims on tables made by hand, and the reference numbers."""

import pandas as pd
import pytest

from wane.experiments.tabular import lambda_operator
from wane.experiments.tabular.lambda_operator import ASYMMETRIC, EXPERIMENT, MAPS, Operating


def made_tables(share, walk):
    """One λ on every map, with an optimum of 10."""
    rows = [
        {"map": name, "lam": 1.0, "sweeps": sweeps, "mean_return": 10 * earned, "optimum": 10.0}
        for name in MAPS
        for sweeps, earned in ((0, walk), (1, share))
    ]
    return {"returns": pd.DataFrame(rows)}


@pytest.mark.parametrize(("share", "walk", "verdict"), [(0.99, 0.3, "holds"), (0.96, 0.6, "fails")])
def test_claims_hold_above_and_fail_below_their_thresholds(share, walk, verdict):
    found = EXPERIMENT.findings(Operating(), made_tables(share, walk))
    assert [each["verdict"] for each in found] == [verdict] * 4


def test_claims_without_data_are_not_tested():
    tables = {"returns": made_tables(0.9, 0.9)["returns"].assign(sweeps=7)}
    assert {each["verdict"] for each in EXPERIMENT.findings(Operating(), tables)} == {"not tested"}


def test_the_asymmetric_map_needs_one_improvement():
    table = lambda_operator.fixed(Operating(maps=(ASYMMETRIC,), lambdas=(0.1, 1.0), sweeps=(0, 1)))["returns"]
    earned = table.set_index(["lam", "sweeps"])
    assert earned.loc[(1.0, 0), "mean_return"] == 90
    assert earned.loc[(1.0, 1), "mean_return"] == earned.loc[(1.0, 1), "optimum"] == 276
    assert earned.loc[(0.1, 1), "mean_return"] > 0.98 * earned.loc[(0.1, 1), "optimum"]
