"""The experiments with λO-FB, as small as they can be: tables, claims, pictures, and what is true untrained."""

import dataclasses

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csgraph

from experiments.test_settings_networks import quick_compilation
from wane.agents.forward_backward import Schedule
from wane.agents.planner import follow, plan
from wane.agents.trained import load
from wane.experiments import find
from wane.experiments.common import episodes
from wane.experiments.contract import Loop, join, seed_keys
from wane.experiments.networks import fb_lambda_table, fb_zero_shot, mvt, training
from wane.experiments.networks.fb_learn_lambda import estimates
from wane.runs import SavingLoop
from wane.worlds import make

AGENT = {"dimension": 6, "width": 8, "depth": 1, "batch": 16, "schedule": Schedule(2, 2, 1, 2)}
FEWER = {
    "fb-lambda-table": {"episodes": 4, "final_episodes": 100, "solved_tasks": 2},
    "fb-learn-lambda": {"episodes": 4, "final_episodes": 100, "observed_episodes": 300},
    "fb-asymmetric": {"tolerance": 0.3},
    "mvt": {"distances": (2, 4), "lambdas": (0.1,)},
    "fb-zero-shot": {"lambdas": (0.5, 1.0), "episodes": 100},
}
NAMES = list(FEWER)
pytestmark = pytest.mark.usefixtures(quick_compilation.__name__)
TABLES = {
    "fb-lambda-table": {"optima", "curves", "errors", "ends", "episodes"},
    "fb-learn-lambda": {"curves", "ends", "episodes", "estimates"},
    "fb-asymmetric": {"best_episodes", "episodes"},
    "mvt": {
        "best_stays",
        "best_episodes",
        "exact_stays",
        "exact_choices",
        "stays",
        "episodes",
        "errors",
        "choices",
    },
    "fb-zero-shot": {"returns"},
}
KEPT = {
    "fb-lambda-table": ["lam-0.5", "lam-1"],
    "fb-learn-lambda": ["learns-lambda", "keeps-lambda"],
    "fb-asymmetric": ["lam-1", "lam-0.1"],
    "mvt": ["discount-0.99", "discount-1"],
    "fb-zero-shot": ["lam-0.5", "lam-1", "lam-mixed", "conditioned"],
}

FUZZED = [pytest.param(name, marks=[pytest.mark.fuzz] if name in ("mvt", "fb-zero-shot") else []) for name in NAMES]
"""The two slowest ones are left to `make fuzz`."""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """The folder with the checkpoints of all experiments."""
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def tiny(checkpoints):
    """Settings and tables of an experiment and the agents that it kept, computed once, with a checkpoint of each loop.

    Compiling takes most of the time, so the test of resuming shares these runs.
    """
    done = {}

    def compute(name):
        if name not in done:
            quick, loop = find(name).quick, SavingLoop(checkpoints / name, "print", seconds=0)
            agent = dataclasses.replace(quick.agent, **AGENT)
            settings = dataclasses.replace(quick, seeds=2, agent=agent, **FEWER[name])
            done[name] = settings, find(name).tables(settings, loop), loop.kept
        return done[name]

    return compute


@pytest.mark.slow
@pytest.mark.parametrize("name", FUZZED)
def test_tables_claims_and_pictures(name, tiny, tmp_path):
    experiment, (settings, tables, kept) = find(name), tiny(name)
    assert set(tables) == TABLES[name]
    assert list(kept) == KEPT[name]
    for record in experiment.findings(settings, tables):
        # Untrained agents never leave a patch, so nothing can be said about when they do.
        assert record["verdict"] in ("holds", "fails", "undecided") or record["name"].startswith("like-")
        assert record["verdict"] == "not tested" or np.isfinite(record["estimate"])
    for table in tables.values():
        table.to_parquet(tmp_path / "table.parquet")
    experiment.draw(settings, tables).savefig(tmp_path / "figure.png")
    films = experiment.films(settings, tables) if experiment.films else {}
    for film in films.values():
        film(tmp_path / "film.gif")
        assert (tmp_path / "film.gif").read_bytes().startswith(b"GIF8")
    assert bool(films) == (name != "fb-zero-shot")


@pytest.mark.slow
@pytest.mark.parametrize("name", FUZZED)
def test_a_run_that_was_killed_after_learning_goes_on(name, tiny, checkpoints):
    """Its checkpoints are finished, its tables were not written: nothing is learned again, and the tables are equal."""
    experiment, (settings, tables, kept), told = find(name), tiny(name), []
    loop = SavingLoop(checkpoints / name, "print", report=lambda *words: told.append(words))
    again = join({}, [experiment.seeded_tables(settings, experiment.seeds(settings), loop)])
    assert told
    assert all(done == total for _, done, total, _ in told)
    assert list(loop.kept) == list(kept)
    for table, found in again.items():
        pd.testing.assert_frame_equal(found, tables[table])


@pytest.mark.slow
def test_returns_are_below_the_optimum(tiny):
    _, tables, _ = tiny("fb-lambda-table")
    best = tables["optima"].groupby("true_lam")["optimum"].max()
    assert best[0.5] <= 4
    assert best[1.0] <= 50
    assert fb_lambda_table.scores(tables, 0.5).to_numpy().max() <= 4


@pytest.mark.slow
def test_a_run_serves_both_worlds_and_all_seeds_meet_the_same_tasks(tiny):
    settings, tables, _ = tiny("fb-lambda-table")
    assert len(tables["ends"]) == settings.seeds * len(settings.agents) * len(settings.worlds)
    low, high = (fb_lambda_table.scores(tables, true_lam) for true_lam in settings.worlds)
    assert (high.to_numpy() >= low.to_numpy()).all()


@pytest.mark.slow
def test_the_optima_are_those_of_the_tasks_that_agents_meet(tiny):
    settings, tables, _ = tiny("fb-lambda-table")
    with jax.enable_x64(False):
        tasks = fb_lambda_table.final_tasks(settings)
    distances = csgraph.shortest_path(training.rooms(settings).map.neighbours(), unweighted=True)
    best = tables["optima"].set_index(["true_lam", "task"])["optimum"]
    for task in range(settings.solved_tasks):
        goals = np.flatnonzero(np.asarray(tasks.rewards[task]))
        steps = distances[goals, int(tasks.starts[task])].min()
        assert best[1.0, task] == settings.agent.horizon - max(steps - 1, 0)


@pytest.mark.slow
def test_a_saved_agent_plays_the_episode_that_is_shown(tiny, tmp_path):
    settings, tables, kept = tiny("fb-lambda-table")
    task, shown = fb_lambda_table.shown_task(settings), tables["episodes"]
    for lam in settings.agents:
        with jax.enable_x64(False):
            agent = load(kept[f"lam-{lam:g}"].save(tmp_path / f"{lam:g}"))
            _, episode = agent.play(jax.random.key(0), task, start=0)
        assert agent.config == dataclasses.replace(settings.agent, lam=lam)
        assert shown[shown["trained_lam"] == lam]["cell"].tolist() == episode.cells.tolist()


@pytest.mark.fuzz
@pytest.mark.slow
def test_agents_for_one_lam_in_each_state_are_saved_too(tiny, tmp_path):
    settings, _, kept = tiny("fb-zero-shot")
    for name in ("lam-mixed", "conditioned"):
        with jax.enable_x64(False):
            agent = load(kept[name].save(tmp_path / name))
        lams = fb_zero_shot.lams_of_worlds(settings)[-1] if name == "lam-mixed" else 1.0
        assert np.array_equal(agent.config.lam, lams)
        assert agent.config.condition == ("nothing" if name == "lam-mixed" else "per state")


@pytest.mark.slow
def test_rows_of_a_seed_do_not_depend_on_the_other_seeds(tiny):
    settings, tables, _ = tiny("fb-asymmetric")
    loop = Loop()
    alone = find("fb-asymmetric").seeded_tables(settings, [1], loop)
    assert not loop.kept, "only the agents of seed 0 are kept"
    for name, table in alone.items():
        rows = tables[name][tables[name]["seed"] == 1].reset_index(drop=True)
        pd.testing.assert_frame_equal(table, rows)


@pytest.mark.slow
def test_the_closed_form_estimates(tiny):
    _, tables, _ = tiny("fb-learn-lambda")
    for trouble in ("none", "20 % slip"):
        assert estimates(tables, trouble, "least squares").to_numpy() == pytest.approx(0.5, abs=1e-5)
    biased, ratio = (estimates(tables, "noisy rewards", how).mean() for how in ("least squares", "ratio"))
    assert biased < 0.4
    assert abs(ratio - 0.5) < 0.5 - biased


@pytest.mark.slow
def test_the_optimum_of_the_asymmetric_world(tiny):
    _, tables, _ = tiny("fb-asymmetric")
    best = tables["best_episodes"].groupby("lam")["earned"].last()
    assert best[1.0] == 6 * (50 - 4)
    assert best[0.1] == pytest.approx(sum((6, *[2] * 6)) / 0.9, abs=0.3)


@pytest.mark.fuzz
@pytest.mark.slow
def test_leaving_times_are_those_of_the_episodes(tiny):
    _, tables, _ = tiny("mvt")
    optimum = mvt.differences(tables["best_stays"], 1.0)
    assert (optimum["difference"] == optimum["leaving"] - optimum["mvt"]).all()
    assert optimum["difference"].mean() > 3
    for table in ("best_stays", "best_episodes", "episodes"):
        assert set(tables[table]["timing"]) == {"departure", "arrival"}


@pytest.mark.fuzz
@pytest.mark.slow
def test_where_all_lasts_equivalent_rewards_change_nothing(tiny):
    _, tables, _ = tiny("fb-zero-shot")
    score = fb_zero_shot.scores(tables, "1")
    assert (score[fb_zero_shot.PLAIN] == score[fb_zero_shot.TRAINED]).all()
    assert np.allclose(score[fb_zero_shot.ALONE], score[fb_zero_shot.PLAIN], atol=0.5)


def test_pairs_put_keys_slowest():
    keys, (lams,) = training.pairs(seed_keys([0, 1]), (0.25, 0.75))
    assert lams.tolist() == [0.25, 0.75, 0.25, 0.75]
    assert keys.shape == (4,)
    assert (jax.random.key_data(keys)[::2] == jax.random.key_data(seed_keys([0, 1]))).all()


def test_rows_of_an_episode_add_up():
    world = make("toy")
    keys = jax.random.split(jax.random.key(0), 1)
    played = episodes.select(follow(keys, world, plan(world)), 0)
    rows = episodes.rows(world, played, agent="planner")
    assert rows["time"].tolist() == list(range(len(played.cells)))
    assert rows["earned"].iloc[-1] == pytest.approx(float(played.value))
    assert rows[["remaining0", "remaining1"]].to_numpy() == pytest.approx(np.asarray(played.remaining)[:, :2])
    assert set(rows["agent"]) == {"planner"}


def test_stays_are_runs_of_moments_at_one_site():
    world = make("corridor", length=5)
    a, b = world.sites
    nowhere = next(cell for cell in range(world.n_states) if cell not in world.sites)
    cells = np.array([[a, a, nowhere, a, b], [b, b, b, nowhere, nowhere]])
    assert episodes.stays(world, cells).tolist() == [2, 1, 1, 3]
    assert episodes.stays(world, np.full(3, nowhere)).tolist() == []


def test_quick_presets_share_one_agent():
    for name in NAMES:
        agent, epochs = find(name).quick.agent, find(name).quick.agent.schedule.epochs
        assert agent == training.quick(epochs)
        assert dataclasses.asdict(find(name).paper.agent) == dataclasses.asdict(training.PAPER)
