"""The experiments with networks, as small as they can be: tables, claims, pictures, and what is true untrained."""

import dataclasses

import numpy as np
import pytest

from wane.experiments import LEARNED, fb_lambda_table, fb_training, fb_zero_shot, find, mvt
from wane.experiments.experiment import seed_keys
from wane.experiments.fb_learn_lambda import estimates

TINY = {
    "seeds": 2,
    "dimension": 6,
    "width": 8,
    "depth": 1,
    "epochs": 2,
    "cycles": 2,
    "collected": 1,
    "batches": 2,
    "batch": 16,
}
FEWER = {
    "fb-lambda-table": {"episodes": 4, "last": 100, "solved": 2},
    "fb-learn-lambda": {"episodes": 4, "last": 100, "observed": 300},
    "fb-asymmetric": {"tolerance": 0.3},
    "mvt": {"distances": (2, 4)},
    "fb-zero-shot": {"lambdas": (0.5, 1.0), "episodes": 100},
}


@pytest.fixture(scope="module")
def tiny():
    """Settings and table of an experiment, computed once."""
    done = {}

    def compute(name):
        if name not in done:
            settings = dataclasses.replace(find(name).quick, **TINY, **FEWER[name])
            done[name] = settings, find(name).table(settings)
        return done[name]

    return compute


@pytest.mark.parametrize("name", LEARNED)
def test_tables_claims_and_pictures(name, tiny, tmp_path):
    experiment, (settings, table) = find(name), tiny(name)
    for record in experiment.findings(settings, table):
        assert record["verdict"] in ("holds", "fails")
        assert np.isfinite(record["estimate"])
    table.to_parquet(tmp_path / "table.parquet")
    experiment.draw(settings, table).savefig(tmp_path / "figure.png")
    films = experiment.films(settings, table) if experiment.films else {}
    for film in films.values():
        film(tmp_path / "film.gif")
        assert (tmp_path / "film.gif").read_bytes().startswith(b"GIF8")
    assert bool(films) == (name != "fb-zero-shot")


def test_returns_are_below_the_optimum(tiny):
    _, table = tiny("fb-lambda-table")
    best = table[table["panel"] == "optimum"].groupby("true")["value"].max()
    assert best[0.5] <= 4
    assert best[1.0] <= 50
    assert table[(table["panel"] == "end") & (table["true"] == 0.5)]["value"].max() <= 4


def test_a_run_serves_both_worlds_and_all_seeds_meet_the_same_tasks(tiny):
    settings, table = tiny("fb-lambda-table")
    ends = table[table["panel"] == "end"]
    assert len(ends) == settings.seeds * len(settings.agents) * len(settings.worlds)
    low, high = (fb_lambda_table.ends(settings, table, true) for true in settings.worlds)
    assert (high.to_numpy() >= low.to_numpy()).all()


def test_the_closed_form_estimates(tiny):
    _, table = tiny("fb-learn-lambda")
    for trouble in ("none", "20 % slip"):
        assert estimates(table, trouble, "least squares").to_numpy() == pytest.approx(0.5, abs=1e-5)
    biased, ratio = (estimates(table, "noisy rewards", how).mean() for how in ("least squares", "ratio"))
    assert biased < 0.4
    assert abs(ratio - 0.5) < 0.5 - biased


def test_the_optimum_of_the_asymmetric_world(tiny):
    _, table = tiny("fb-asymmetric")
    best = table[table["agent"] == "optimum"].groupby("lam")["earned"].last()
    assert best[1.0] == 6 * (50 - 4)
    assert best[0.1] == pytest.approx(sum((6, *[2] * 6)) / 0.9, abs=0.3)


def test_leaving_times_are_those_of_the_episodes(tiny):
    _, table = tiny("mvt")
    optimum = mvt.differences(table, 1.0, mvt.BEST)
    assert (optimum["difference"] == optimum["leaving"] - optimum["mvt"]).all()
    assert optimum["difference"].mean() > 3
    assert set(table["timing"].dropna()) == {"departure", "arrival"}


def test_where_all_lasts_equivalent_rewards_change_nothing(tiny):
    settings, table = tiny("fb-zero-shot")
    score = fb_zero_shot.scores(table, "1")
    assert (score[fb_zero_shot.PLAIN] == score[fb_zero_shot.TRAINED]).all()
    assert np.allclose(score[fb_zero_shot.ALONE], score[fb_zero_shot.PLAIN], atol=0.5)
    with pytest.raises(ValueError, match="must end with 1"):
        dataclasses.replace(settings, lambdas=(0.5,))


def test_pairs_put_keys_slowest():
    keys, (lams,) = fb_training.pairs(seed_keys([0, 1]), (0.25, 0.75))
    assert lams.tolist() == [0.25, 0.75, 0.25, 0.75]
    assert keys.shape == (4,)
    table = fb_training.frame(np.arange(4), "value", seed=[0, 1], lam=[0.25, 0.75])
    assert table["value"].tolist() == [0, 1, 2, 3]
    assert table["seed"].tolist() == [0, 0, 1, 1]
