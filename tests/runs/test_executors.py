"""Executors of other people: work is given away, comes back in order, and fails with the culprit's own error."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace

import pandas as pd
import pytest

from runs.sample import EXPERIMENT, Sample
from wane.executors import ExecutorError, Processes, as_computed, compute, sees_files, workers_of
from wane.lab.runs import Run, run_all


class Later:
    """A future with nothing but what the protocol asks for; it needs three questions until it is done."""

    def __init__(self, function, arguments):
        self.function, self.arguments, self.asked = function, arguments, 0

    def done(self) -> bool:
        self.asked += 1
        return self.asked >= 3

    def result(self):
        return self.function(*self.arguments)


class Elsewhere:
    """An executor of another kind, as one of Slurm: it knows no number of workers, and sees no files."""

    def __init__(self):
        self.given = []

    def submit(self, function, /, *arguments) -> Later:
        self.given.append(arguments)
        return Later(function, arguments)


def spawning(number: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(number, mp_context=multiprocessing.get_context("spawn"))


def twice(number: int) -> int:
    return 2 * number


def die(number: int) -> None:
    os._exit(number)


def refuse(number: int) -> int:
    if number == 1:
        raise ValueError("one is refused")
    return number


@pytest.mark.parametrize("opened", [ThreadPoolExecutor, spawning, Processes])
def test_results_come_in_the_order_of_the_work(opened):
    with opened(2) as executor:
        assert compute(twice, range(7), executor) == compute(twice, range(7)) == [0, 2, 4, 6, 8, 10, 12]
        assert (sees_files(executor), workers_of(executor)) == (True, 2)


def test_futures_that_can_only_be_asked_are_asked(monkeypatch):
    monkeypatch.setattr("wane.executors.POLL_SECONDS", 0.001)
    executor = Elsewhere()
    assert compute(twice, [3, 4], executor) == [6, 8]
    assert (sees_files(executor), workers_of(executor)) == (False, None)
    assert (sees_files(None), workers_of(None)) == (True, 1)


def test_an_error_is_the_culprits_own_and_the_rest_is_cancelled():
    with ThreadPoolExecutor(1) as executor:
        found = as_computed(refuse, range(50), executor)
        with pytest.raises(ValueError, match="one is refused"):
            list(found)
        assert executor.submit(twice, 4).result() == 8


def test_what_is_not_wanted_any_more_is_cancelled():
    began = []
    with ThreadPoolExecutor(1) as executor:
        found = as_computed(lambda number: began.append(number), range(1000), executor)
        next(found)
        found.close()
    assert len(began) < 1000


def test_a_process_that_dies_is_named():
    with pytest.raises(ExecutorError, match="a process died"), Processes(1) as executor:
        compute(die, [3], executor)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("opened", "launcher", "parts"), [(ThreadPoolExecutor, "local", 2), (spawning, "local", 2), (None, "elsewhere", 4)]
)
def test_runs_take_executors_of_others(tmp_path, monkeypatch, opened, launcher, parts):
    settings = replace(Sample(), seeds=4)
    run = Run("runs.sample", settings, "quick", tmp_path / "out")
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr("wane.executors.POLL_SECONDS", 0.001)
    if opened is None:
        run_all([run], Elsewhere())
    else:
        with opened(2) as executor:
            run_all([run], executor)
    record = run.folder.record()
    assert (record["launcher"], record["parts"]) == (launcher, parts)
    assert record["agents"] == [f"walker-{seed}" for seed in range(4)]
    for name, expected in EXPERIMENT.tables(settings).items():
        pd.testing.assert_frame_equal(pd.read_parquet(run.folder.path / f"{name}.parquet"), expected)
    # Work that is done somewhere else leaves no checkpoints here, only what came back.
    checkpoints = list(run.folder.checkpoint.glob("*/*.safetensors"))
    assert bool(checkpoints) == (launcher == "local")
