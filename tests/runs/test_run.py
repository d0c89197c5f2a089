import dataclasses
import json

import jax
import numpy as np
import pandas as pd
import pytest

from runs.sample import EXPERIMENT, Sample
from wane.experiments.experiment import Loop
from wane.runs import CheckpointError, Launcher, Run, checkpoint, run
from wane.runs.loop import SavingLoop

NAME = "runs.sample"


def one(out, **changes) -> Run:
    return Run(NAME, dataclasses.replace(Sample(), **changes), "quick", out)


@pytest.fixture
def log(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.write_text("")
    monkeypatch.setenv("SAMPLE_LOG", str(path))
    return path


def chunks(log) -> list[int]:
    return [int(line.split()[1]) for line in log.read_text().splitlines()]


def test_a_run_writes_everything_down(tmp_path):
    each = one(tmp_path)
    run([each])
    folder = each.folder.path
    assert folder == tmp_path / "quick" / NAME
    record, claims = (json.loads((folder / name).read_text()) for name in ("run.json", "claims.json"))
    assert set(record["files"]) == {"results.parquet", "claims.json", "figure.png", "figure.svg", "film-0.gif"}
    assert record["films"] == {"film-0.gif": "a film"}
    assert record["settings"] == {"seeds": 3, "chunks": 12, "drift": 0.5, "label": "walk", "lambdas": [0.0, 1.0]}
    assert record["seconds"] > 0
    assert 1e7 < record["peak_memory"] < 1e11
    assert record["versions"]["jax"] == jax.__version__
    assert "CPU" in record["device"]
    assert [claim["verdict"] for claim in claims] == ["holds"]
    table = pd.read_parquet(folder / "results.parquet")
    pd.testing.assert_frame_equal(table, EXPERIMENT.table(Sample()))
    assert claims[0]["estimate"] == pytest.approx(table[(table["chunk"] == 11) & (table["seed"] >= 0)]["at"].mean())


def test_other_settings_go_to_another_folder(tmp_path):
    assert one(tmp_path, chunks=3, lambdas=(0.5,)).folder.path.name == f"{NAME}+chunks=3+lambdas=0.5"
    assert one(tmp_path, label="../<x>").folder.path.name == f"{NAME}+label=..__x_"
    assert one(tmp_path, chunks=3).mark != one(tmp_path).mark


def test_resume_leaves_alone_what_is_done(tmp_path, log):
    run([one(tmp_path)])
    assert chunks(log) == list(range(12))
    run([one(tmp_path)], resume=True)
    assert len(chunks(log)) == 12
    run([one(tmp_path)])
    assert len(chunks(log)) == 24


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_loop_goes_on_where_it_was(tmp_path, error):
    whole_state, whole = Loop()("walk", lambda s, i: (s + i, {"s": s}), np.zeros(2), 10)
    ran = []

    def step(state, i):
        if isinstance(i, int):
            ran.append(i)
            if i == 6 and ran.count(6) == 1:
                raise error
        return state + i, {"s": state}

    def loop():
        return SavingLoop(tmp_path, "mark", seconds=0 if error is RuntimeError else 1e9)

    with pytest.raises(error):
        loop()("walk", step, np.zeros(2), 10)
    ran.clear()
    ran.append(6)
    state, outputs = loop()("walk", step, np.zeros(2), 10)
    assert ran[1:] == [6, 7, 8, 9]
    assert np.array_equal(state, whole_state)
    assert np.array_equal(outputs["s"], whole["s"])
    again, kept = loop()("walk", step, np.zeros(2), 10)
    assert np.array_equal(again, whole_state)
    assert np.array_equal(kept["s"], whole["s"])


def test_progress_is_true(tmp_path):
    told = []
    loop = SavingLoop(tmp_path, "mark", report=lambda *words: told.append(words))
    loop("walk", lambda s, i: (s, s), np.zeros(1), 3, work=50, unit="episodes")
    assert told == [("walk", done, 150, "episodes") for done in (0, 50, 100, 150)]


def test_two_loops_of_one_name_are_refused(tmp_path):
    loop = SavingLoop(tmp_path, "mark")
    loop("walk", lambda s, i: (s, s), np.zeros(1), 1)
    with pytest.raises(ValueError, match="two loops"):
        loop("walk", lambda s, i: (s, s), np.zeros(1), 1)


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    SavingLoop(tmp_path, "mark")("walk", lambda s, i: (s, s), np.zeros(1), 1)
    with pytest.raises(CheckpointError, match="other settings"):
        SavingLoop(tmp_path, "other")("walk", lambda s, i: (s, s), np.zeros(1), 1)


def test_a_corrupt_checkpoint_is_named_and_earlier_results_stay(tmp_path, log):
    each = one(tmp_path)
    run([each])
    before = (each.folder.path / "results.parquet").read_bytes()
    (each.folder.path / "claims.json").unlink()
    part = each.part(range(3))
    (part / "part.json").unlink()
    (part / "walk.npz").write_bytes(b"PK half a file")
    with pytest.raises(CheckpointError, match=r"walk\.npz is damaged .*without --resume"):
        run([each], resume=True)
    assert (each.folder.path / "results.parquet").read_bytes() == before
    run([each])
    assert each.is_done()


@pytest.mark.parametrize(
    ("file", "content"), [("part.json", "[1]"), ("part.json", "{"), ("table.parquet", "junk"), ("walk.npz", "junk")]
)
def test_anything_damaged_is_named(tmp_path, file, content):
    each = one(tmp_path, chunks=2)
    run([each])
    (each.folder.path / "run.json").unlink()
    part = each.part(range(3))
    if file == "walk.npz":
        (part / "part.json").unlink()
    (part / file).write_text(content)
    with pytest.raises(CheckpointError, match=f"{file} is damaged .*without --resume"):
        run([each], resume=True)


def test_other_code_means_another_run(tmp_path, monkeypatch):
    run([one(tmp_path)])
    assert one(tmp_path).is_done()
    monkeypatch.setattr("wane.runs.record.code", lambda: "other sources")
    assert not one(tmp_path).is_done()


def test_an_interrupted_save_loses_nothing_that_was_computed(tmp_path, monkeypatch):
    save, calls = SavingLoop._save, []

    def interrupted(self, *words):
        calls.append(words)
        if len(calls) == 1:
            raise KeyboardInterrupt
        save(self, *words)

    monkeypatch.setattr(SavingLoop, "_save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        SavingLoop(tmp_path, "mark", seconds=0)("walk", lambda s, i: (s + 1, s), np.zeros(1), 3)
    assert checkpoint.load(tmp_path / "walk.npz")[1]["done"] == 1


def test_shards_give_the_same_table(tmp_path):
    whole, divided = one(tmp_path / "a", seeds=5), one(tmp_path / "b", seeds=5)
    run([whole])
    run([divided], Launcher(processes=2))
    tables = [pd.read_parquet(each.folder.path / "results.parquet") for each in (whole, divided)]
    pd.testing.assert_frame_equal(*tables)
    assert tables[0]["seed"].is_monotonic_increasing
    assert (tables[1]["seed"] == -1).sum() == 12
    assert json.loads((divided.folder.path / "run.json").read_text())["parts"] == 2


def test_seeds_are_divided_evenly():
    assert Launcher(processes=2).divide(range(5)) == [(0, 1), (2, 3, 4)]
    assert Launcher(processes=9).divide(range(2)) == [(0,), (1,)]
    assert Launcher("ray").divide(range(3)) == [(0,), (1,), (2,)]
    assert Launcher("ray", shards=1).divide(range(3)) == [(0, 1, 2)]
    with pytest.raises(ValueError, match="--processes is a number from 1 on, got 0"):
        Launcher(processes=0)
