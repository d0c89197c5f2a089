"""Runs that began and did not finish are told, with how far they are and how to go on."""

import json
import os
import platform

import pytest

from report.folders import run_folder
from runs import sample
from wane.files import save_arrays
from wane.lab import report
from wane.lab.report.contents import read_started


def started(root, parts, note=None, name="toy", **about):
    """A folder with a run that began: the share of each part that is done, or None for a part that is complete."""
    folder = root / "quick" / name
    for part, share in parts.items():
        place = folder / "checkpoint" / part
        place.mkdir(parents=True)
        if share is None:
            (place / "part.json").write_text("{}")
        elif share:
            save_arrays(place / "loop.safetensors", {}, {"done": share, "chunks": 100} | about)
    content = {"experiment": "toy", "file": None, "changed": {"agent.step_size": 0.2}, "parts": list(parts)}
    (folder / "checkpoint").mkdir(parents=True, exist_ok=True)
    (folder / "checkpoint" / "started.json").write_text(json.dumps(content | (note or {})))
    return folder


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"seeds-0-2": 43}, "interrupted, 43 %"),
        ({"seeds-0-0": None, "seeds-1-1": 50}, "interrupted, 75 %"),
        ({"fixed": None, "seeds-0-2": 10}, "interrupted, 10 %"),
        ({"fixed": 0}, "interrupted, 0 %"),
        ({"seeds-0-2": None}, "interrupted, 100 %"),
    ],
)
def test_the_share_that_is_done(tmp_path, parts, words):
    folder = started(tmp_path, parts)
    found = read_started(folder)
    assert found is not None
    assert found.words == words
    assert found.resume == f"wane run toy --scale quick --agent.step-size 0.2 --out {tmp_path} --resume"
    (run,) = report.collect(tmp_path)
    assert report.run_state(run) == words
    assert f"Continue it with {found.resume}." in run.problems[0]


def test_a_run_that_is_finished_is_not_unfinished(tmp_path):
    run_folder(tmp_path)
    started(tmp_path, {"fixed": None, "seeds-0-2": None})
    assert report.collect(tmp_path)[0].started is None


def test_a_run_over_earlier_results_is_told(tmp_path):
    run_folder(tmp_path)
    started(tmp_path, {"seeds-0-2": 20})
    (run,) = report.collect(tmp_path)
    assert not run.problems
    assert report.run_state(run) == "interrupted, 20 %"


def test_a_run_whose_process_lives_is_running(tmp_path):
    alive = {"process": os.getpid(), "machine": platform.node()}
    assert read_started(started(tmp_path / "a", {"seeds-0-2": 20}, alive)).words == "running, 20 %"
    elsewhere = alive | {"machine": "another"}
    assert read_started(started(tmp_path / "b", {"seeds-0-2": 20}, elsewhere)).words == "interrupted, 20 %"


@pytest.mark.parametrize(
    "note",
    [{"parts": 7}, {"parts": [7]}, {"changed": []}, {"experiment": None}, {"changed": json.loads("[" * 60 + "]" * 60)}],
)
def test_a_note_that_is_damaged_tells_nothing(tmp_path, note):
    assert read_started(started(tmp_path, {"seeds-0-2": 20}, note)) is None
    (run,) = report.collect(tmp_path)
    assert "There is no run.json" in run.problems[0]


@pytest.mark.parametrize("content", ["[]", "{", "[" * 100_000, ""])
def test_a_note_that_is_no_note_tells_nothing(tmp_path, content):
    folder = started(tmp_path, {"seeds-0-2": 20})
    (folder / "checkpoint" / "started.json").write_text(content)
    assert read_started(folder) is None


@pytest.mark.parametrize("about", [{"chunks": 0}, {"chunks": "many"}, {"done": -3}, {"done": None}])
def test_a_checkpoint_that_is_damaged_counts_for_nothing(tmp_path, about):
    assert read_started(started(tmp_path, {"seeds-0-2": 20}, **about)).share == 0


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.mkdir(), lambda path: path.symlink_to("/dev/zero")])
@pytest.mark.parametrize("name", ["seeds-0-2/other.safetensors", "seeds-0-2/part.json", "started.json"])
def test_what_is_no_ordinary_file_is_not_read(tmp_path, make, name):
    """To open a pipe is to wait until somebody writes to it."""
    folder = started(tmp_path, {"seeds-0-2": 20})
    (folder / "checkpoint" / name).unlink(missing_ok=True)
    make(folder / "checkpoint" / name)
    found = read_started(folder)
    assert (found is None) == (name == "started.json")
    assert found is None or found.share <= 0.2
    assert len(report.collect(tmp_path)) == 1


def test_nothing_outside_of_the_folder_is_read(tmp_path):
    folder = started(tmp_path, {"../../other": 50, "seeds-0-2": 20})
    assert read_started(folder).share == 0.1
    (folder / "checkpoint" / "seeds-0-2" / "loop.safetensors").rename(tmp_path / "loop.safetensors")
    (folder / "checkpoint" / "seeds-0-2" / "loop.safetensors").symlink_to(tmp_path / "loop.safetensors")
    assert read_started(folder).share == 0


def test_an_interrupted_run_is_listed_shown_reported_and_resumed(tmp_path, command, monkeypatch):
    def interrupt(chunk):
        if chunk == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(sample, "watch", interrupt)
    words = ["run", "runs.sample", "--agent.drift", 0.25, "--out", tmp_path]
    assert command(*words)[0] == 130
    monkeypatch.undo()
    resume = f"wane run runs.sample --scale quick --agent.drift 0.25 --out {tmp_path} --resume"
    monkeypatch.setattr(os, "kill", lambda *_: (_ for _ in ()).throw(ProcessLookupError))
    monkeypatch.setenv("COLUMNS", "200")
    for reading in (["list"], ["show", "runs.sample"], ["show", "runs.sample+agent.drift=0.25"]):
        _, out, _ = command(*reading, "--out", tmp_path)
        assert "interrupted, 25 %  quick/runs.sample+agent.drift=0.25" in out
        assert resume in out
    _, out, _ = command("report", "--out", tmp_path)
    assert "interrupted, 25 %  quick/runs.sample+agent.drift=0.25" in out
    assert "--agent.drift 0.25" in (tmp_path / "report.html").read_text()
    assert command(*words, "--resume")[0] == 0
    _, out, _ = command("list", "--out", tmp_path)
    assert "1 of 1 claims hold  quick/runs.sample+agent.drift=0.25" in out
