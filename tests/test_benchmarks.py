"""Every benchmark starts and runs through: with --quick it takes seconds, keeps nothing, and needs no peer."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
PEERS = ("sb3_", "torch_")
"""How the names of scripts begin that run inside of a peer's environment."""
SCRIPTS = [path.stem for path in FOLDER.glob("*.py") if "__main__" in path.read_text("utf-8")]
NAMES = sorted(name for name in SCRIPTS if not name.startswith(PEERS))


def run(*words):
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=300)


def kept():
    return {path: path.read_bytes() for path in (FOLDER / "README.md", *FOLDER.glob("results/*.json"))}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_quick_run_prints_and_keeps_nothing(name):
    before = kept()
    done = run("-m", f"benchmarks.{name}", "--quick")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert kept() == before


def test_a_benchmark_hides_no_package_of_its_name():
    """QuantEcon needs numba, which looks for a package `coverage`; there is a benchmark of this name."""
    done = run("-c", "import benchmarks.exact, importlib.util; print(importlib.util.find_spec('coverage'))")
    assert done.returncode == 0, done.stderr
    assert str(FOLDER) not in done.stdout


def test_make_bench_names_what_there_is():
    lines = (ROOT / "Makefile").read_text("utf-8").partition("\nbench:")[2].partition("\n\n")[0].splitlines()[1:]
    assert lines
    assert [line for line in lines if line.partition(" -m benchmarks.")[2] not in NAMES] == []
