"""A package that somebody else wrote, installed with pip, adds one of everything and edits nothing.

Its source is `tests/stranger`. What it adds passes the public checks, trains in two processes, survives a kill and
resumes, is saved, loaded, evaluated and shown in the report.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

SOURCE = Path(__file__).parent / "stranger"
CHECKS = """
import jax
import wane
from orchard.agent import AGENT, Config
from orchard.depletion import Bored
from orchard.model import Boredom
from orchard.observation import Clock
from orchard.world import Carousel
from wane.testing import check_agent, check_depletion, check_model, check_observation, check_world

world = Carousel(Bored(0.5))
check_depletion(Bored(0.5))
check_model(Boredom())
check_world(world)
check_observation(Clock(4), world=wane.worlds.make("toy"))
check_agent(AGENT, world, Config(episodes=3))
print("all checks passed")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The folder into which pip has installed the package, from a copy of its source outside of the repository."""
    folder = tmp_path_factory.mktemp("stranger")
    shutil.copytree(SOURCE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    words = ["install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", folder / "site"]
    subprocess.run([sys.executable, "-m", "pip", *map(str, words), str(folder / "source")], check=True)
    return folder


def start(installed: Path, *words: object) -> subprocess.Popen:
    """Starts Python where the package is installed, in a folder without it."""
    paths = os.pathsep.join([str(installed / "site"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}
    words = [sys.executable, *map(str, words)]
    return subprocess.Popen(
        words, cwd=installed, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def python(installed: Path, *words: object) -> str:
    """Runs Python there. Returns what it printed."""
    process = start(installed, *words)
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    return out


def test_the_package_passes_the_public_checks(installed):
    assert "all checks passed" in python(installed, "-c", CHECKS)


@pytest.mark.slow
def test_its_experiment_survives_a_kill_and_is_shown_in_the_report(installed):
    words = ("-m", "wane", "run", "orchard", "--processes", 2, "--save-seconds", 0)
    python(installed, *words, "--out", "whole")
    process = start(installed, *words, "--pause", 0.3, "--out", "cut")
    (folder,) = _wait(lambda: list(installed.glob("cut/quick/orchard*/checkpoint/seeds-*/*.safetensors"))[:1], process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (folder.parents[2] / "returns.parquet").exists()
    out = python(installed, *words, "--pause", 0.3, "--out", "cut", "--resume")
    assert "learns" in out
    tables = [
        pd.read_parquet(next(installed.glob(f"{out}/quick/orchard*/returns.parquet"))) for out in ("whole", "cut")
    ]
    pd.testing.assert_frame_equal(*tables)
    agent = "whole/quick/orchard/agents/preference-seed-0"
    played = python(installed, "-m", "wane", "evaluate", agent, "--episodes", 5, "--trust", *TRUSTED)
    assert "preference, 5 episodes" in played
    assert "Learning on a carousel" in python(installed, "-m", "wane", "list", "--out", "whole")
    python(installed, "-m", "wane", "report", "--out", "whole")
    page = (installed / "whole" / "report.html").read_text("utf-8")
    assert "Learning on a carousel" in page
    assert "The agent earns more at the end than at the beginning." in page


TRUSTED = ("preference", "carousel", "bored")


def _wait(find, process: subprocess.Popen, seconds: float = 120):
    """Waits until something is found while a process works."""
    until = time.monotonic() + seconds
    while not (found := find()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)
    return found
