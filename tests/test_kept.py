"""What version 0.2.0 saved is read by this one: an agent, a world and a run. `tests/kept` was written by 0.2.0."""

from pathlib import Path

import jax
import numpy as np

import wane
from wane.agents import load
from wane.lab.report import collect

KEPT = Path(__file__).parent / "kept" / "0.2.0"


def test_an_agent_of_the_last_version_plays():
    trained = load(KEPT / "agent")
    assert (trained.name, trained.world.n_states) == ("q_lambda", 3)
    _, episode = trained.play(jax.random.key(0))
    assert np.isfinite(episode.value)


def test_a_world_of_the_last_version_is_the_same():
    world = wane.worlds.World.from_json(KEPT / "world.json")
    np.testing.assert_array_equal(world.optimum().values, wane.worlds.make("four-rooms").optimum().values)


def test_a_run_of_the_last_version_is_shown(command):
    (run,) = collect(KEPT / "runs")
    assert (run.experiment, run.problems) == ("toy", ())
    status, out, _ = command("show", "toy", "--out", KEPT / "runs")
    assert status == 0
    assert "correct-is-optimal" in out
