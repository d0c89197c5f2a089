"""A sweep on a local Ray, one of whose workers is killed in the middle of its task."""

import dataclasses
import os
import signal
import threading
import time

import pandas as pd
import pytest

from runs.sample import EXPERIMENT, Sample
from wane.executors import Ray
from wane.lab.runs import Run, run_all


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """What workers inherit: where the sample's experiment is, that it is slow, and where it says who computes it."""
    log = tmp_path / "log"
    log.write_text("")
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
    for name, value in {"SAMPLE_LOG": log, "SAMPLE_PAUSE": 0.1, "PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}.items():
        monkeypatch.setenv(name, str(value))
    return log


def kill_the_first(log, chunk: int, killed: list[int]) -> None:
    """Waits until some worker is at a chunk, and kills that worker."""
    while not killed:
        for line in log.read_text().splitlines():
            worker, at = line.split()
            if at != "fixed" and int(at) >= chunk:
                os.kill(int(worker), signal.SIGKILL)
                killed.append(int(worker))
                return
        time.sleep(0.01)


@pytest.mark.fuzz
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_killed_worker_is_replaced_and_nothing_is_lost(tmp_path, environment):
    settings = dataclasses.replace(Sample(), seeds=4)
    each, killed = Run("runs.sample", settings, "quick", tmp_path / "out"), []
    killer = threading.Thread(target=kill_the_first, args=(environment, 5, killed), daemon=True)
    killer.start()
    with Ray() as executor:
        run_all([each], executor, shards=2)
    killer.join()
    lines = [line.split() for line in environment.read_text().splitlines()]
    chunks = [(int(worker), int(chunk)) for worker, chunk in lines if chunk != "fixed"]
    assert len(killed) == 1
    assert max(chunk for worker, chunk in chunks if worker == killed[0]) < settings.chunks - 1
    assert len(chunks) > 2 * settings.chunks
    assert len(lines) == len(chunks) + 1
    os.environ.pop("SAMPLE_PAUSE")
    for name, expected in EXPERIMENT.tables(settings).items():
        pd.testing.assert_frame_equal(pd.read_parquet(each.folder.path / f"{name}.parquet"), expected)
    assert each.folder.record()["agents"] == [f"walker-{seed}" for seed in range(4)]
