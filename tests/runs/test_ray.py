"""A sweep on a local Ray, one of whose workers is killed in the middle of its task."""

import dataclasses
import os
import signal
import threading
import time

import pandas as pd
import pytest

from runs.sample import EXPERIMENT, Sample
from wane.runs import Launcher, Run, run


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """What workers inherit: where the sample's experiment is, that it is slow, and where it says who computes it."""
    log = tmp_path / "log"
    log.write_text("")
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for name, value in {"SAMPLE_LOG": log, "SAMPLE_PAUSE": 0.1, "PYTHONPATH": tests, "JAX_PLATFORMS": "cpu"}.items():
        monkeypatch.setenv(name, str(value))
    return log


def kill_the_first(log, chunk: int, killed: list[int]) -> None:
    """Waits until some worker is at a chunk, and kills that worker."""
    while not killed:
        for line in log.read_text().splitlines():
            worker, at = map(int, line.split())
            if at >= chunk:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)
                return
        time.sleep(0.01)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_killed_worker_is_replaced_and_nothing_is_lost(tmp_path, environment):
    settings = dataclasses.replace(Sample(), seeds=4)
    each, killed = Run("runs.sample", settings, "quick", tmp_path / "out"), []
    killer = threading.Thread(target=kill_the_first, args=(environment, 5, killed), daemon=True)
    killer.start()
    run([each], Launcher("ray", shards=2))
    killer.join()
    lines = [tuple(map(int, line.split())) for line in environment.read_text().splitlines()]
    assert len(killed) == 1
    assert max(chunk for worker, chunk in lines if worker == killed[0]) < settings.chunks - 1
    assert len(lines) > 2 * settings.chunks
    table = pd.read_parquet(each.folder.path / "results.parquet")
    os.environ.pop("SAMPLE_PAUSE")
    pd.testing.assert_frame_equal(table, EXPERIMENT.table(settings))
