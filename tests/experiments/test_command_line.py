"""The command line on the real experiments."""

import json
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run gpi-tabular --shown 100", "--shown 100: a state of FourRooms between 0 and 67 is needed"),
        ("run lambda-vs-gamma --fine -1", "--fine -1: a number between 1e-12 and 1,000,000 is needed"),
    ],
)
def test_mistakes_are_named_in_one_line(command, tmp_path, words, message):
    status, _, errors = command(*words.split(), "--out", tmp_path)
    assert status == 2
    assert message in errors
    assert "Traceback" not in errors


def test_help_shows_the_settings_of_an_experiment_and_of_its_agent(command):
    status, out, _ = command("run", "q-lambda", "--help")
    assert status == 0
    for words in ("--agent.step-size", "--agent.epsilon", "--scale", "--launcher", "--resume"):
        assert words in out


@pytest.mark.parametrize(
    "words",
    [
        "reproduce --tabular --launcher ray --ray-address auto --shards 2 --gpus 1 --scale paper",
        "run q-lambda --processes 4 --seeds 8 --lambdas 0 0.5 --agent.step-size 0.2 --resume",
    ],
)
def test_what_the_documentation_shows_exists(command, words):
    """Help is given only if all options before it are known."""
    assert command(*words.split(), "--help")[0] == 0


def test_claims_with_nothing_to_test_on_are_not_tested(command, tmp_path):
    status, _, _ = command("run", "gpi-tabular", "--out", tmp_path, "--believed", 0.5, 0.75, "--episodes", 5)
    assert status == 0
    (folder,) = (tmp_path / "quick").iterdir()
    verdicts = {c["name"]: c for c in json.loads((folder / "claims.json").read_text())}
    assert verdicts["beats-lambda-0"]["verdict"] == verdicts["leaves-early"]["verdict"] == "not tested"
    assert "no agent with a lower λ̂" in verdicts["leaves-early"]["detail"]
    assert verdicts["near-the-optimum"]["verdict"] == "holds"


def test_reproduce_report_list_and_show(command, tmp_path):
    status, out, _ = command("reproduce", "--only", "diminishing", "errata", "--out", tmp_path)
    assert status == 0
    assert "report.html" in out
    assert "errata: 13 of 13 claims hold" in out
    status, out, _ = command("reproduce", "--only", "diminishing", "errata", "--out", tmp_path)
    assert out.count("already there") == 2
    page = (tmp_path / "report.html").read_text()
    assert "What does not hold as printed" in page
    assert "not run" in page
    _, out, _ = command("list", "--out", tmp_path)
    assert out.count("quick") == 2
    _, out, _ = command("show", "errata", "--out", tmp_path)
    assert "figure.png" in out
    assert "subadditivity" in out
    _, out, _ = command("show", "toy", "--out", tmp_path)
    assert str(Path("results", "paper", "toy", "figure.png")) in out  # The kept run is shown.
