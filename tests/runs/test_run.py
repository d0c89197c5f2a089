"""Runs write everything down, go on where they stopped, and give the same tables however they are divided."""

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from runs.sample import EXPERIMENT, GIF, Kept, Sample, Walker
from wane.executors import ExecutorOptions
from wane.extras import MissingExtra
from wane.files import load_arrays
from wane.lab import plot_learning, report, runs
from wane.lab.contract import Claim, Experiment, Finding, changed, flat
from wane.lab.runs import CheckpointError, Run, run_all
from wane.lab.runs.run import LONGEST, divide, folder_name

NAME = "runs.sample"
TABLES = ("expected", "walks", "later")


def one(out, **changes) -> Run:
    return Run(NAME, dataclasses.replace(Sample(), **changes), "quick", out)


def tables(run: Run) -> dict[str, pd.DataFrame]:
    return {name: pd.read_parquet(run.folder.path / f"{name}.parquet") for name in TABLES}


def assert_same(found, expected) -> None:
    assert set(found) == set(expected)
    for name in found:
        pd.testing.assert_frame_equal(found[name], expected[name])


@pytest.fixture
def log(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.write_text("")
    monkeypatch.setenv("SAMPLE_LOG", str(path))
    return path


def computed(log) -> list[str]:
    return [line.split()[1] for line in log.read_text().splitlines()]


WHOLE = ["fixed", *map(str, range(12))]


def test_a_run_writes_everything_down(tmp_path):
    each = one(tmp_path)
    run_all([each])
    folder = each.folder.path
    assert folder == tmp_path / "quick" / NAME
    record, claims = (json.loads((folder / name).read_text()) for name in ("run.json", "claims.json"))
    pictures = {"claims.json", "figure.png", "figure.svg", "film-0.gif"}
    agents = {f"agents/walker-{seed}/{file}" for seed in range(3) for file in ("config.json", "params.safetensors")}
    assert set(record["files"]) == {f"{name}.parquet" for name in TABLES} | pictures | agents
    assert record["tables"] == list(TABLES)
    assert record["agents"] == ["walker-0", "walker-1", "walker-2"]
    assert record["films"] == {"film-0.gif": "a film"}
    assert record["settings"] == {
        "seeds": 3,
        "chunks": 12,
        "agent": {"drift": 0.5, "moves": 4},
        "label": "walk",
        "lambdas": [0.0, 1.0],
    }
    assert record["changed"] == {}
    assert record["texts"]["summary"] == "Walks with a drift get away."
    assert set(record["texts"]) == {"title", "source", "summary", "differences", "paper_cost"}
    assert record["fingerprint"] == each.fingerprint
    assert record["seconds"] > 0
    assert 1e7 < record["peak_memory"] < 1e11
    assert record["versions"]["jax"] == jax.__version__
    assert "CPU" in record["device"]
    assert (record["launcher"], record["parts"]) == ("local", 1)
    assert [claim["verdict"] for claim in claims] == ["holds"]
    found = tables(each)
    assert_same(found, EXPERIMENT.tables(Sample()))
    last = found["walks"][found["walks"]["chunk"] == 11]["at"]
    assert claims[0]["estimate"] == pytest.approx(last.mean())
    params = load_arrays(folder / "agents" / "walker-1" / "params.safetensors")[0]
    assert params["at"] == last.iloc[1]


def test_other_settings_go_to_another_folder(tmp_path):
    assert one(tmp_path, chunks=3, lambdas=(0.5,)).folder.path.name == f"{NAME}+chunks=3+lambdas=0.5"
    assert one(tmp_path, agent=Walker(drift=0.2)).folder.path.name == f"{NAME}+agent.drift=0.2"
    assert one(tmp_path, chunks=3).fingerprint != one(tmp_path).fingerprint
    assert one(tmp_path, agent=Walker(drift=0.2)).fingerprint != one(tmp_path).fingerprint


def test_folders_of_different_settings_never_have_the_same_name():
    values = ["a/b", "a_b", "a+b", "a=b", "a,b", ("a", "b"), ("a,b",), "A" * 300, "A" * 301, "λ" * 100, "λ" * 101]
    names = [folder_name("toy", {"label": value}) for value in values]
    assert len(set(names)) == len(names)
    assert all(len(name.encode()) <= LONGEST and "/" not in name and name.startswith("toy+label=") for name in names)
    assert folder_name("toy", {"labels": ()}) != folder_name("toy", {"labels": ("",)})
    assert folder_name("toy", {"label": "a_b", "lambdas": (0.25, 1.0)}) == "toy+label=a_b+lambdas=0.25,1.0"
    long = [folder_name("toy", {f"field{i}": 1 + (i == last) for i in range(30)}) for last in (0, 28, 29)]
    assert len(set(long)) == 3
    assert all(len(name) <= LONGEST for name in long)


def test_nested_settings_are_told_by_dotted_names():
    settings = dataclasses.replace(Sample(), agent=Walker(drift=0.2), seeds=5)
    assert flat(settings)["agent.drift"] == 0.2
    assert changed(settings, Sample()) == {"agent.drift": 0.2, "seeds": 5}


def test_without_ray_nothing_is_noted_as_begun(tmp_path, monkeypatch):
    """The old name of the options warns, and a run still takes them."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.warns(DeprecationWarning, match=r"is now wane\.executors\.ExecutorOptions"):
        options = runs.Launcher("ray")
    with pytest.raises(MissingExtra, match="--launcher ray needs Ray"):
        run_all([one(tmp_path / "out")], options)
    assert not (tmp_path / "out").exists()


def test_resume_leaves_alone_what_is_done(tmp_path, log):
    run_all([one(tmp_path)])
    assert computed(log) == WHOLE
    run_all([one(tmp_path)], resume=True)
    assert computed(log) == WHOLE
    run_all([one(tmp_path)])
    assert computed(log) == WHOLE + WHOLE


FILES = [
    *("walks.parquet", "claims.json", "run.json", "figure.png", "film-0.gif"),
    *("agents/walker-0/params.safetensors", "agents/walker-0/config.json"),
]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(
    "harm", [lambda content: content[:-10], lambda content: content[:-20] + bytes([content[-20] ^ 1]) + content[-19:]]
)
def test_results_that_were_changed_are_not_already_there(tmp_path, log, file, harm):
    each = one(tmp_path)
    run_all([each])
    path = each.folder.path / file
    content = path.read_bytes()
    path.write_bytes(harm(content))
    assert not each.is_done()
    run_all([each], resume=True)
    assert computed(log) == WHOLE  # what is needed is in the checkpoint
    assert file == "run.json" or path.read_bytes() == content
    assert each.is_done()


def test_a_corrupt_checkpoint_is_named_and_earlier_results_stay(tmp_path):
    each = one(tmp_path)
    run_all([each])
    before = (each.folder.path / "walks.parquet").read_bytes()
    (each.folder.path / "claims.json").unlink()
    part = each.part(range(3))
    (part / "part.json").unlink()
    (part / "walk.safetensors").write_bytes(b"half a file")
    with pytest.raises(CheckpointError, match=r"walk\.safetensors is damaged .*without --resume"):
        run_all([each], resume=True)
    assert (each.folder.path / "walks.parquet").read_bytes() == before
    run_all([each])
    assert each.is_done()


@pytest.mark.parametrize(
    ("file", "part", "content"),
    [
        ("part.json", range(3), "[1]"),
        ("part.json", range(3), "{"),
        ("part.json", range(3), None),
        ("tables/walks.parquet", range(3), "junk"),
        ("tables/walks.parquet", range(3), None),
        ("agents/walker-0/config.json", range(3), "{}"),
        ("tables/expected.parquet", None, "junk"),
    ],
)
def test_a_damaged_part_is_computed_again(tmp_path, log, capsys, file, part, content):
    each = one(tmp_path, chunks=2)
    run_all([each])
    expected = tables(each)
    (each.folder.path / "run.json").unlink()
    path = each.part(part) / file
    path.write_text(content) if content else path.unlink()
    log.write_text("")
    run_all([each], resume=True, console=Console(width=300))
    # The walk's checkpoint tells all of it, so nothing but the damaged part is computed, and quickly.
    assert computed(log) == (["fixed"] if part is None else [])
    assert ("computed again" in capsys.readouterr().out) == (file != "part.json" or content is not None)
    assert_same(tables(each), expected)
    assert each.is_done()


def test_other_code_means_another_run(tmp_path, monkeypatch):
    run_all([one(tmp_path)])
    assert one(tmp_path).is_done()
    monkeypatch.setattr("wane.lab.runs.run.code_fingerprint", lambda module: "other sources")
    assert not one(tmp_path).is_done()
    with pytest.raises(CheckpointError, match="other settings or another version"):
        run_all([one(tmp_path)], resume=True)
    console = Console(record=True, quiet=False, width=200)
    run_all([one(tmp_path)], resume=True, replace=True, console=console)
    assert "starts over: it is damaged or of another version" in console.export_text()
    assert one(tmp_path).is_done()


@pytest.mark.slow
def test_shards_give_the_same_tables(tmp_path, log):
    whole, divided = one(tmp_path / "a", seeds=5), one(tmp_path / "b", seeds=5)
    run_all([whole])
    log.write_text("")
    run_all([divided], ExecutorOptions(processes=2))
    assert computed(log).count("fixed") == 1
    assert_same(tables(whole), tables(divided))
    assert tables(whole)["walks"]["seed"].is_monotonic_increasing
    record = json.loads((divided.folder.path / "run.json").read_text())
    assert record["parts"] == 2
    assert record["agents"] == [f"walker-{seed}" for seed in range(5)]


def test_agents_that_are_too_large_stay_in_the_checkpoint(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("wane.lab.runs.publish.MOST_AGENT_BYTES", 100)
    each = one(tmp_path, chunks=1)
    run_all([each], console=Console(width=300))
    assert "the agents are 0 MB together, more than 0, so they stay in" in capsys.readouterr().out
    assert each.folder.record()["agents"] == []
    assert not (each.folder.path / "agents").exists()
    assert (each.part(range(3)) / "agents" / "walker-0" / "params.safetensors").exists()


def variant(monkeypatch, **changes) -> None:
    experiment = dataclasses.replace(EXPERIMENT, **changes)
    for place in ("run", "job"):
        monkeypatch.setattr(f"wane.lab.runs.{place}.find", lambda name: experiment)


class Odd(Exception):
    """An error without a message."""


def fails(error: Exception):
    def function(*words):
        raise error

    return function


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("division by zero"), KeyError(0.5), RuntimeError("one\ntwo"), Odd()]
)
def test_tables_are_published_whatever_a_claim_does(tmp_path, monkeypatch, error):
    claims = (Claim("broken", "It cannot be tested.", fails(error)), *EXPERIMENT.claims)
    variant(monkeypatch, claims=claims)
    each = one(tmp_path, chunks=2)
    run_all([each])
    broken, drifts = json.loads((each.folder.path / "claims.json").read_text())
    assert (broken["verdict"], broken["estimate"]) == ("not tested", None)
    assert broken["detail"].startswith(f"The test of the claim failed: {type(error).__name__}")
    assert "\n" not in broken["detail"]
    assert drifts["verdict"] in ("holds", "fails")
    assert len(tables(each)["walks"]) == 6
    (shown,) = report.collect(tmp_path)
    assert shown.problems == ()
    assert "The test of the claim failed" in report.build([shown], [])
    monkeypatch.setenv("WANE_DEBUG", "1")
    with pytest.raises(type(error)):
        run_all([one(tmp_path, chunks=3)])


def test_a_claim_that_divides_zero_by_zero_is_not_tested(tmp_path, monkeypatch):
    """A score at a tiny size may be 0 / 0."""
    finding = Finding(False, float("nan"), None, "of 0 episodes")
    variant(monkeypatch, claims=(Claim("ratio", "It is a ratio.", lambda *_: finding),))
    each = one(tmp_path, chunks=1)
    run_all([each])
    (claim,) = json.loads((each.folder.path / "claims.json").read_text())
    assert (claim["verdict"], claim["estimate"]) == ("not tested", None)
    assert claim["detail"].endswith("leave nothing to divide by. of 0 episodes")


@pytest.mark.parametrize(
    ("changes", "failures", "missing"),
    [
        ({"draw": fails(KeyError(0.5))}, {"figure": "KeyError: 0.5"}, {"figure.png", "figure.svg"}),
        (
            {"draw": lambda *_: None},
            {"figure": "TypeError: draw returned a NoneType: let it return a Figure or Axes of Matplotlib"},
            {"figure.png", "figure.svg"},
        ),
        ({"films": fails(ValueError("no films"))}, {"films": "ValueError: no films"}, {"film-0.gif"}),
        (
            {"films": lambda *_: {"a film": fails(ValueError("dark")), "another": lambda path: path.write_bytes(GIF)}},
            {"film 'a film'": "ValueError: dark"},
            {"film-0.gif"},
        ),
    ],
)
def test_tables_are_published_whatever_a_picture_does(tmp_path, monkeypatch, capsys, changes, failures, missing):
    variant(monkeypatch, **changes)
    each = one(tmp_path, chunks=2)
    run_all([each], console=Console(width=300))
    assert "could not be drawn" in capsys.readouterr().out
    record = each.folder.record()
    assert record is not None
    assert record["failures"].keys() == failures.keys()
    for what, reason in failures.items():
        assert record["failures"][what].startswith(reason)
    assert not missing & record["files"].keys()
    assert not any((each.folder.path / file).exists() for file in missing)
    assert len(tables(each)["walks"]) == 6
    (shown,) = report.collect(tmp_path)
    assert shown.problems == ()
    page = report.build([shown], [])
    assert "could not be drawn: " in page
    monkeypatch.setenv("WANE_DEBUG", "1")
    with pytest.raises((KeyError, ValueError, TypeError)):
        run_all([one(tmp_path, chunks=3)])


@pytest.mark.parametrize(
    "draw",
    [
        lambda settings, tables: plot_learning(tables["walks"], x="chunk", y="at", by=None),
        lambda *_: Figure().subfigures(1, 2)[0].subplots(),
    ],
)
def test_draw_may_return_axes(tmp_path, monkeypatch, draw):
    variant(monkeypatch, draw=draw)
    each = one(tmp_path, chunks=2)
    run_all([each])
    assert each.folder.record()["failures"] == {}
    assert (each.folder.path / "figure.png").is_file()


def test_a_full_disk_is_no_fault_of_a_picture(tmp_path, monkeypatch):
    variant(monkeypatch, draw=fails(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        run_all([one(tmp_path, chunks=1)])


def test_an_experiment_may_have_fixed_tables_only(tmp_path, monkeypatch):
    variant(monkeypatch, seeded=None, claims=(), draw=lambda s, t: Figure())
    each = one(tmp_path)
    run_all([each])
    assert each.folder.record()["tables"] == ["expected"]
    assert {path.name for path in each.folder.checkpoint.iterdir()} == {"fixed", "started.json"}


def test_an_experiment_may_have_seeded_tables_only(tmp_path, monkeypatch):
    variant(monkeypatch, fixed=None, claims=())
    each = one(tmp_path)
    run_all([each])
    assert each.folder.record()["tables"] == ["walks", "later"]


def test_an_agent_that_several_parts_keep_is_kept_once(tmp_path, monkeypatch, capsys):
    def seeded(settings, seeds, loop):
        loop.keep("walker", Kept({"seed": np.array(seeds[0])}))
        return {"walks": pd.DataFrame({"seed": list(seeds), "at": 0.0, "chunk": 0})}

    variant(monkeypatch, seeded=seeded, claims=())
    each = one(tmp_path)
    jobs = each.jobs(3)
    from wane.lab.runs.job import save_part
    from wane.lab.runs.publish import publish

    for job in jobs:
        save_part(job.folder, job.fingerprint, job.run())
    each.folder.path.mkdir(exist_ok=True)
    publish(each, jobs, "local", Console(width=300))
    assert "only that of the lowest seeds is kept" in capsys.readouterr().out
    assert load_arrays(each.folder.path / "agents" / "walker" / "params.safetensors")[0]["seed"] == 0


@pytest.mark.parametrize("name", ["../walks", "a/b", "", ".hidden"])
def test_a_table_is_named_like_a_file(tmp_path, monkeypatch, name):
    variant(monkeypatch, fixed=lambda settings: {name: pd.DataFrame({"a": [1]})}, seeded=None, claims=())
    with pytest.raises(ValueError, match="names a file"):
        run_all([one(tmp_path)])


def test_an_experiment_computes_something():
    with pytest.raises(ValueError, match="computes nothing"):
        dataclasses.replace(EXPERIMENT, fixed=None, seeded=None)
    assert isinstance(EXPERIMENT, Experiment)


def test_seeds_are_divided_evenly():
    assert divide(range(5), 2) == [(0, 1), (2, 3, 4)]
    assert divide(range(2), 9) == [(0,), (1,)]
    assert divide(range(3), None) == [(0,), (1,), (2,)]
    assert divide(range(3), 1) == [(0, 1, 2)]
    assert divide(range(0), 2) == divide(range(0), None) == []
    with pytest.raises(ValueError, match="processes = 0: a whole number between 1 and 1,024 is needed"):
        ExecutorOptions(processes=0)


@pytest.mark.slow
def test_workers_end_with_the_process_that_started_them(tmp_path):
    """A killed parent cannot end its workers, so they watch it."""
    log, tests = tmp_path / "log", Path(__file__).parents[1]
    environment = os.environ | {"SAMPLE_LOG": str(log), "SAMPLE_PAUSE": "5", "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")])
    words = ["run", NAME, "--out", tmp_path / "out", "--processes", 2, "--chunks", 100]
    parent = subprocess.Popen([sys.executable, "-m", "wane", *map(str, words)], env=environment)
    while len(workers := {int(line.split()[0]) for line in _lines(log) if "fixed" not in line}) < 2:
        assert parent.poll() is None
        time.sleep(0.05)
    assert parent.pid not in workers
    parent.kill()
    parent.wait()
    until = time.monotonic() + 10
    while any(map(_is_alive, workers)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(_is_alive, workers))


def _lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def _is_alive(process: int) -> bool:
    """Whether a process runs. One that ended and was not waited for yet, a zombie, does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")")[-1].split()[0] != "Z"
    except FileNotFoundError:
        return False
