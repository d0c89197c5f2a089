"""How patches wear off, from noisy rewards."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from wane import foraging


def prey(visits=200, seed=0, lam=0.5):
    """Counted prey of two kinds of trees that halve with every step, over visits of different lengths."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(visits):
        kind = rng.choice(["oak", "elm"])
        for n in range(1, rng.integers(2, 7)):
            rows.append((kind, n, rng.poisson({"oak": 8, "elm": 4}[kind] * lam ** (n - 1))))
    return pd.DataFrame(rows, columns=["kind", "step", "reward"])


@pytest.fixture(scope="module")
def rows():
    return prey()


def test_the_curve_is_found_where_a_regression_fails(rows):
    found = foraging.fit_depletion(rows, noise="poisson", columns={"kind": "kind"})
    table = found.estimates.set_index("parameter")
    assert table.loc["lam", "low"] < 0.5 < table.loc["lam", "high"]
    assert table.loc["lam", "value"] == pytest.approx(0.5, abs=0.03)
    assert table.loc["first_oak", "low"] < 8 < table.loc["first_oak", "high"]
    assert found.depletion.worth(1) == pytest.approx(table.loc["lam", "value"])

    assert repr(found).startswith("DepletionFit(geometric with poisson noise: lam = 0.")

    def by_hand(x):
        mean = np.where(rows["kind"] == "oak", x[1], x[2]) * x[0] ** (rows["step"] - 1)
        return -stats.poisson.logpmf(rows["reward"], mean).sum()

    best = optimize.minimize(by_hand, [0.5, 8.0, 4.0], method="Nelder-Mead")
    assert found.log_likelihood == pytest.approx(-best.fun, abs=1e-4)
    regressed = rows["reward"].shift()[rows["step"] > 1] * rows["reward"][rows["step"] > 1]
    wrong = regressed.sum() / (rows["reward"].shift()[rows["step"] > 1] ** 2).sum()
    assert abs(wrong - 0.5) > 0.03, "regression on the reward before is biased"


@pytest.mark.fuzz
def test_the_right_curve_is_chosen(rows):
    table = foraging.compare_depletions(rows, noise="poisson", columns={"kind": "kind"})
    assert table["curve"][0] == "geometric"
    assert table["delta_aic"][1] > 4


def test_bad_rewards_are_named(rows):
    with pytest.raises(ValueError, match="unknown curve 'geometrc': did you mean 'geometric'"):
        foraging.fit_depletion(rows, curve="geometrc", noise="poisson")
    with pytest.raises(ValueError, match="reward is 0.5 in row 1: give a count, a whole number of at least 0, or"):
        foraging.fit_depletion(pd.DataFrame({"step": [1, 2], "reward": [1.0, 0.5]}), noise="poisson")
    with pytest.raises(ValueError, match="all rewards are of the same harvest of a visit"):
        foraging.fit_depletion(pd.DataFrame({"step": [1, 1], "reward": [1, 2]}), noise="poisson")
    with pytest.raises(ValueError, match="reward is inf in row 1"):
        foraging.fit_depletion(pd.DataFrame({"step": [1, 2], "reward": [1, np.inf]}), noise="normal")
    with pytest.raises(ValueError, match='noise = gamma: "poisson" or "normal" is needed'):
        foraging.fit_depletion(rows, noise="gamma")
    with pytest.raises(ValueError, match="unknown curve 'geometrc'"):
        foraging.compare_depletions(rows, curves=["geometric", "geometrc"], noise="poisson")
    with pytest.raises(ValueError, match="the list of curves is empty: name one at least"):
        foraging.compare_depletions(rows, curves=[], noise="poisson")
