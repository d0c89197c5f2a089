import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

import wane
from wane import cli

TESTS = Path(__file__).parent
NAME = "runs.sample"


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs a command in this process; returns its exit status, what it printed, and its errors."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words: str):
        monkeypatch.setattr(sys, "argv", ["wane", *map(str, words)])
        status = 0
        try:
            cli.main()
        except SystemExit as end:
            status = end.code
        out, err = capsys.readouterr()
        return status, out, err

    return call


def start(
    *words: object, pause: float = 0.0, log: Path = Path(os.devnull), program=("-m", "wane.cli")
) -> subprocess.Popen:
    """The command as a process of its own, which logs every chunk that it computes."""
    watched = {"SAMPLE_PAUSE": str(pause), "SAMPLE_LOG": str(log)}
    environment = os.environ | watched | {"PYTHONPATH": str(TESTS), "JAX_PLATFORMS": "cpu"}
    words = [sys.executable, *program, *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(words, env=environment, text=True, **pipes)


def wait_for(process: subprocess.Popen, log: Path, chunks: int) -> None:
    while not log.exists() or len(log.read_text().splitlines()) < chunks:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def table(out: Path) -> pd.DataFrame:
    return pd.read_parquet(out / "quick" / NAME / "results.parquet")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> pd.DataFrame:
    out = tmp_path_factory.mktemp("whole")
    process = start("run", NAME, "--out", out)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    return table(out)


def resumes_to(out: Path, expected: pd.DataFrame, most: int) -> None:
    """Resumes a run that was cut short, which takes at most so many chunks more."""
    log = out / "again"
    process = start("run", NAME, "--out", out, "--resume", log=log)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert 1 <= len(log.read_text().splitlines()) <= most
    pd.testing.assert_frame_equal(table(out), expected, check_exact=True)


@pytest.mark.parametrize(("chunk", "later"), [(2, 0.0), (6, 0.05), (9, 0.1)])
def test_killed_at_any_moment_a_run_resumes_to_the_same_table(tmp_path, uninterrupted, chunk, later):
    log = tmp_path / "log"
    process = start("run", NAME, "--out", tmp_path, "--save-seconds", "0", pause=0.1, log=log)
    wait_for(process, log, chunk)
    time.sleep(later)
    process.kill()
    process.communicate()
    assert not (tmp_path / "quick" / NAME / "results.parquet").exists()
    resumes_to(tmp_path, uninterrupted, 12 - chunk + 1)


def test_ctrl_c_leaves_what_can_be_resumed(tmp_path, uninterrupted):
    log = tmp_path / "log"
    process = start("run", NAME, "--out", tmp_path, "--save-seconds", "1000", pause=0.3, log=log)
    wait_for(process, log, 5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "go on with --resume" in errors
    resumes_to(tmp_path, uninterrupted, 12 - 4)


def test_a_full_disk_leaves_earlier_results(tmp_path):
    """No file may grow past 20 kB, as if there were no room for more: the figure does not fit."""
    first = start("run", NAME, "--out", tmp_path)
    first.communicate()
    folder = tmp_path / "quick" / NAME
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    limited = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000,) * 2); from wane.cli import main; main()"
    )
    full = start("run", NAME, "--out", tmp_path, program=["-c", limited])
    _, errors = full.communicate()
    assert full.returncode == 1
    assert "File too large" in errors
    assert "Earlier results are untouched" in errors
    assert "Traceback" not in errors
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "q_lambda"], "unknown experiment 'q_lambda': there are diminishing"),
        (["run", NAME, "--set", "chunk=3"], "the fields are seeds, chunks, drift, label, lambdas"),
        (["run", NAME, "--set", "chunks"], "it is field=value"),
        (["run", NAME, "--chunks", "0"], "chunks is a whole number from 1 on, got 0"),
        (["run", NAME, "--scale", "huge"], "invalid choice: 'huge'"),
        (["run", NAME, "--scale"], "expected one argument"),
        (["run", ".sample"], "unknown experiment '.sample'"),
        (["run", "q-lambda", "--lambdas", "0", "1"], "lambdas must hold the true λ, 0.5"),
        (["run", "toy", "--horizon", "1"], "two steps at least"),
        (["run", "gpi-tabular", "--shown", "100"], "states 0 to 67"),
        (["run", "lambda-vs-gamma", "--fine", "-1"], "fine must be finite and not below 0"),
        (["run", NAME, "--shards", "2"], "add --launcher ray"),
        (["run", NAME, "--launcher", "ray", "--processes", "2"], "say --shards"),
        (["run", NAME, "--out", "/proc/wane"], "/proc/wane"),
        (["run", NAME, "--out", __file__], "Not a directory"),
        (["run", NAME, "--processes", "0"], "--processes is a number from 1 on"),
        (["report", "--out", "/nowhere/at/all"], "begin with `wane reproduce --out /nowhere/at/all`"),
        (["show", "nothing"], "unknown experiment 'nothing'"),
    ],
)
def test_mistakes_are_named_in_one_line(command, words, says):
    status, _, errors = command(*words)
    assert status in (1, 2)
    assert says in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("words", [["run", NAME, "--chunk", "3"], ["run", NAME, "--chunks", "many"], ["dance"]])
def test_options_that_do_not_exist_are_refused(command, words):
    status, out, errors = command(*words)
    assert status == 2
    assert words[-2 if len(words) > 1 else -1] in out + errors


def test_settings_are_options(command, tmp_path):
    status, _, _ = command(
        "run", NAME, "--out", tmp_path, "--chunks", 3, "--set", "lambdas=0.25,0.5", "--set", "seeds=2"
    )
    assert status == 0
    (folder,) = (tmp_path / "quick").iterdir()
    assert folder.name == f"{NAME}+seeds=2+chunks=3+lambdas=0.25,0.5"
    record = json.loads((folder / "run.json").read_text())
    assert record["changed"] == {"seeds": 2, "chunks": 3, "lambdas": [0.25, 0.5]}


def test_help_shows_the_settings_of_an_experiment(command):
    status, out, _ = command("run", "q-lambda", "--help")
    assert status == 0
    for words in ("--evaluate-every", "episodes between greedy ones", "--scale", "--launcher", "--resume"):
        assert words in out


def test_claims_with_nothing_to_test_on_are_not_run(command, tmp_path):
    status, _, _ = command("run", "gpi-tabular", "--out", tmp_path, "--believed", 0.5, 0.75, "--episodes", 5)
    assert status == 0
    (folder,) = (tmp_path / "quick").iterdir()
    verdicts = {c["name"]: c for c in json.loads((folder / "claims.json").read_text())}
    assert verdicts["beats-lambda-0"]["verdict"] == verdicts["leaves-early"]["verdict"] == "not run"
    assert "leaves nothing to compare with" in verdicts["leaves-early"]["detail"]
    assert verdicts["memory"]["verdict"] == "holds"


@pytest.mark.parametrize(
    "words",
    [
        "reproduce --tabular --launcher ray --ray-address auto --shards 2 --gpus 1 --scale paper",
        "run q-lambda --processes 4 --episodes 200 --seeds 8 --set lambdas=0,0.5 --resume",
    ],
)
def test_what_the_documentation_shows_exists(command, words):
    """Help is given only if all options before it are known."""
    assert command(*words.split(), "--help")[0] == 0


def test_reproduce_report_list_and_show(command, tmp_path):
    status, out, _ = command("reproduce", "--only", "diminishing", "errata", "--out", tmp_path)
    assert status == 0
    assert "report.html" in out
    assert "errata: 12 of 12 claims hold" in out
    written = (tmp_path / "quick" / "errata" / "run.json").stat().st_mtime_ns
    status, out, _ = command("reproduce", "--only", "diminishing", "errata", "--out", tmp_path)
    assert out.count("already there") == 2
    assert (tmp_path / "quick" / "errata" / "run.json").stat().st_mtime_ns == written
    page = (tmp_path / "report.html").read_text()
    assert "What does not hold as printed" in page
    assert "not run" in page
    _, out, _ = command("list", "--out", tmp_path)
    assert out.count("quick") == 2
    _, out, _ = command("show", "errata", "--out", tmp_path)
    assert "figure.png" in out
    assert "subadditivity" in out
    _, out, _ = command("show", "toy", "--out", tmp_path)
    assert "not run yet: wane run toy" in out


def test_errata_command(command):
    status, out, _ = command("errata")
    assert status == 0
    assert out.count("holds") >= 12
    assert "FAILS" not in out


def test_public_names_are_documented():
    for name in wane.__all__:
        assert getattr(wane, name).__doc__, name
