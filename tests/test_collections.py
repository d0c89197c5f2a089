"""Experiments that another package offers: a folder on the path with the metadata that an installer writes."""

import subprocess
import sys
from pathlib import Path

import pytest

ORCHARD = """
import pandas as pd
from matplotlib.figure import Figure

from wane.lab import Claim, Collection, Experiment, Finding, Place, Settings


def judge(settings, tables):
    return Finding(True, float(tables["apples"]["weight"].mean()))


EXPERIMENT = Experiment(
    name="apples",
    title="Apples weigh something",
    source="section 2",
    summary="Every apple has a weight.",
    quick=Settings(),
    paper=Settings(),
    fixed=lambda settings: {"apples": pd.DataFrame({"weight": [1.0, 3.0]})},
    draw=lambda settings, tables: Figure(figsize=(1, 1)),
    claims=(Claim("heavy", "Apples are heavy.", judge, kind="paper", place="section 2"),),
)
COLLECTION = Collection({"apples": "orchard"}, places=(Place("Section 2", "Weights", ("apples",)),))
"""
METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"


def install(folder: Path, name: str, source: str, entry: str) -> None:
    """Puts a distribution into a folder, as pip does."""
    (folder / f"{name}.py").write_text(source)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA.format(name=name))
    (info / "entry_points.txt").write_text(f"[wane.experiments]\n{name} = {entry}\n")


@pytest.fixture
def wane(tmp_path, monkeypatch):
    """Calls a command in a process that finds the packages of a folder, and returns what it prints, warnings apart."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=":")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words: str) -> tuple[str, str]:
        command = [sys.executable, "-m", "wane", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    call.site = site
    return call


@pytest.mark.slow
def test_experiments_of_another_package_are_listed_run_shown_and_reported(wane, tmp_path):
    install(wane.site, "orchard", ORCHARD, "orchard:COLLECTION")
    listed, _ = wane("list")
    assert "Apples weigh something (section 2)" in listed
    assert listed.index("q-lambda") < listed.index("apples"), "those of wane's own distribution come first"
    assert "apples: 1 of 1 claims hold" in wane("run", "apples")[0]
    shown, _ = wane("show", "apples")
    assert "Every apple has a weight." in shown
    assert "✓ heavy  2  Apples are heavy." in shown
    printed, _ = wane("report")
    assert "apples (1)" in printed
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    for text in ("Apples weigh something", "Weights", "Apples are heavy.", "Learning a policy in TwoRooms"):
        assert text in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "entry", "warning"),
    [
        ("raise OSError('the orchard burnt down')", "broken:COLLECTION", "cannot be imported (broken:COLLECTION): the"),
        ("", "broken:NOTHING", "cannot be imported (broken:NOTHING): module 'broken' has no attribute 'NOTHING'"),
        ("COLLECTION = {'apples': 'broken'}", "broken:COLLECTION", "are no wane.lab.Collection (broken:COLLECTION)"),
    ],
)
def test_a_broken_collection_is_named_and_the_others_work(wane, source, entry, warning):
    install(wane.site, "broken", source, entry)
    install(wane.site, "orchard", ORCHARD, "orchard:COLLECTION")
    listed, complaints = wane("list")
    assert f"the experiments 'broken' {warning}" in complaints
    assert "Apples weigh something" in listed
    assert "q-lambda" in listed


@pytest.mark.slow
def test_an_experiment_that_cannot_be_imported_hides_no_other(wane):
    install(wane.site, "orchard", ORCHARD, "orchard:COLLECTION")
    text = "from wane.lab import Collection\nCOLLECTION = Collection({'lost': 'no.such.module', 'none': 'sys'})"
    install(wane.site, "broken", text, "broken:COLLECTION")
    listed, complaints = wane("list")
    assert "Apples weigh something" in listed
    assert "experiment 'lost'" in complaints
    assert "experiment 'none': the module has no EXPERIMENT" in complaints
    assert "experiment 'lost'" in wane("report")[1]
    assert "Every apple has a weight." in wane("show", "apples")[0]
