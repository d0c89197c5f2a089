"""The experiment on λ operators: its claims on tables made by hand, and a small run of all of it."""

import numpy as np
import pandas as pd
import pytest

from wane.agents.lambda_operator import Config
from wane.experiments.networks import operator
from wane.experiments.networks.operator import ASYMMETRIC, EVERY, EXPERIMENT, ONE, OTHERS, ROOMS, Operating


def made_tables(shares, error=0.05):
    """Tables in which each map earns a share of an optimum of 10, with small differences between four seeds."""
    noise = np.array([-0.001, 0.0, 0.0, 0.001])
    rows = [
        {"seed": seed, "map": name, "agent": EVERY if name in OTHERS else ONE, "lam": 1.0, "share": share + noise[seed]}
        for name, share in shares.items()
        for seed in range(4)
    ]
    table = pd.DataFrame(rows)
    optima = pd.DataFrame({"map": list(shares), "lam": 1.0, "optimum": 10.0, "walk": 9.0})
    return {
        "returns": table.assign(mean_return=10 * table["share"]).drop(columns="share"),
        "errors": table.assign(error=error * (1 + 10 * (table["share"] - table["share"].mean()))).drop(columns="share"),
        "optima": optima,
    }


def verdicts(tables):
    return {each["name"]: each["verdict"] for each in EXPERIMENT.findings(Operating(), tables)}


def test_claims_hold_above_and_fail_below_their_thresholds():
    good = {ASYMMETRIC: 0.99, ROOMS: 0.99, OTHERS[0]: 0.98, OTHERS[1]: 0.98}
    assert set(verdicts(made_tables(good)).values()) == {"holds"}
    bad = {ASYMMETRIC: 0.97, ROOMS: 0.98, OTHERS[0]: 0.98, OTHERS[1]: 0.96}
    assert set(verdicts(made_tables(bad, error=0.2)).values()) == {"fails"}
    assert verdicts(made_tables(good | {ROOMS: 0.985}))["four-rooms"] == "undecided"


def test_the_random_walk_is_told_beside_the_networks():
    found = EXPERIMENT.findings(Operating(), made_tables({ASYMMETRIC: 0.99, ROOMS: 0.99, OTHERS[0]: 0.98}))
    assert "the random walk's Φ earns 0.9000 at least" in found[0]["detail"]


@pytest.mark.fuzz
def test_a_small_run():
    settings = Operating(seeds=2, agent=Config(width=8, depth=1, batch=2, epochs=2, steps=2), tasks=8)
    tables = EXPERIMENT.tables(settings)
    optima = tables["optima"].set_index(["map", "lam"])
    assert optima.loc[(ASYMMETRIC, 1.0), "optimum"] == 276
    assert optima.loc[(ASYMMETRIC, 0.1), "optimum"] == pytest.approx(19.986, abs=0.01)
    # With the exact Φ of the random walk, one good first action at every step is enough for two goals, not for seven.
    walk = optima["walk"] / optima["optimum"]
    assert (walk[ROOMS] > 0.99).all()
    assert walk[ASYMMETRIC, 1.0] < 0.5
    assert (operator.shares(tables)["share"].dropna() < 1 + 1e-6).all()
    assert len(tables["training"]) == 2 * 2 * (2 * 3 + 2)
    assert EXPERIMENT.draw(settings, tables).axes
