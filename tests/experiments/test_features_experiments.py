"""The experiments with λ-features, as small as they can be: tables, claims, pictures, kept agents, and going on."""

import dataclasses

import jax
import numpy as np
import pytest

from experiments.resuming import assert_nothing_is_learned_again
from experiments.test_settings_networks import toy
from wane.agents.laplacian import collect_data
from wane.agents.trained import load
from wane.lab import find
from wane.lab.contract import Loop
from wane.lab.runs import SavingLoop
from wane_paper.networks import gpi_pixels, pixels
from wane_paper.networks.gpi_pixels import COMPARING, FOLLOWING, STATES

TABLES = {
    "grid-features": {"exact", "learning", "limits"},
    "gpi-pixels": {"optimum", "exact", "starts", "fits", "states", "shown"},
    "lambda-features-curves": {"base", "fits", "limits"},
}
KEPT = {
    "grid-features": [f"{kind}-lam-{lam}" for kind in ("one-hot", "laplacian") for lam in ("0.5", "1")],
    "gpi-pixels": [f"{target}-lam-{lam}" for target in ("product", "vector") for lam in ("0.5", "1")],
    "lambda-features-curves": [],
}

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """The folder with the checkpoints of all experiments."""
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def tiny(checkpoints):
    """Settings and tables of an experiment with two seeds, and the agents that it kept."""
    done = {}

    def compute(name):
        if name not in done:
            settings, loop = toy(name, seeds=2), SavingLoop(checkpoints / name, "print", seconds=0)
            done[name] = settings, find(name).tables(settings, loop), loop.kept
        return done[name]

    return compute


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.fuzz] if name == "gpi-pixels" else []) for name in TABLES]
)
def test_tables_claims_and_pictures(name, tiny, tmp_path):
    experiment, (settings, tables, kept) = find(name), tiny(name)
    assert set(tables) == TABLES[name]
    assert list(kept) == KEPT[name]
    for record in experiment.findings(settings, tables):
        assert record["verdict"] in ("holds", "fails", "undecided")
        assert np.isfinite(record["estimate"])
    for table in tables.values():
        table.to_parquet(tmp_path / "table.parquet")
    experiment.draw(settings, tables).savefig(tmp_path / "figure.png")
    films = experiment.films(settings, tables) if experiment.films else {}
    assert len(films) == (4 if name == "gpi-pixels" else 0)
    for film in list(films.values())[:1]:
        film(tmp_path / "film.gif")
        assert (tmp_path / "film.gif").read_bytes().startswith(b"GIF8")


def test_a_run_that_was_killed_after_learning_goes_on(tiny, checkpoints):
    """That of gpi-pixels is cut at every point by `make fuzz`."""
    name = "lambda-features-curves"
    assert_nothing_is_learned_again(name, *tiny(name), checkpoints)


@pytest.mark.fuzz
def test_a_seed_learns_the_same_alone_and_with_others(tiny):
    settings, tables, _ = tiny("lambda-features-curves")
    with jax.enable_x64(False):
        data = collect_data(jax.random.key(0), settings.world, settings.agent.base)
        alone = pixels.train_seeds(Loop(), [1], settings, data, [settings.policy])
    together = tables["fits"].query("seed == 1")
    for name, each in alone.measured.items():
        np.testing.assert_allclose(each.ravel(), together[name], rtol=1e-4, atol=1e-5)


@pytest.mark.fuzz
def test_a_kept_agent_plays_the_episode_that_is_shown(tiny, tmp_path):
    settings, tables, kept = tiny("gpi-pixels")
    kept["vector-lam-0.5"].save(tmp_path / "agent")
    with jax.enable_x64(False):
        _, episode = load(tmp_path / "agent").play(jax.random.key(0), start=settings.shown)
    shown = tables["shown"].query("target == 'vector' and lam == 0.5")
    np.testing.assert_array_equal(shown["cell"], np.asarray(episode.cells))


def test_what_exact_features_earn():
    """With one-hot states the true λ earns the most, if w is made anew."""
    settings = dataclasses.replace(toy("gpi-pixels"), lambdas=(0.0, 0.5, 1.0), horizon=50)
    exact = gpi_pixels.fixed(settings)["exact"]
    mean = exact.groupby(["features", "choice", "memory", "lam"])["value"].mean()
    np.testing.assert_allclose(mean[STATES, COMPARING, "refreshed"], [23.30, 26.11, 21.58], atol=0.05)
    np.testing.assert_allclose(mean[STATES, COMPARING, "never refreshed"], [12.1, 12.5, 16.8], atol=0.1)
    # Agents that only follow policies earn nearly the same with any λ.
    assert np.ptp(mean[STATES, FOLLOWING, "refreshed"]) < 1
    assert mean[STATES, FOLLOWING, "refreshed"].max() < mean[STATES, COMPARING, "refreshed"].min()
