"""A run that is cut at any point between its first and its last write ends as if it had not been cut.

`make test` cuts the quick experiments at a few points, the tabular learners after learning, and a small one at many
points; `tests/experiments/test_fb_experiments.py` resumes those with networks after learning, with the runs that it has
anyway. `make fuzz` cuts all experiments at all points.
"""

import contextlib
import dataclasses
import errno
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest
from rich.console import Console

from adversary import cuts, toys
from experiments.test_settings_tabular import SHARE_ALL_CODE
from runs.sample import EXPERIMENT, Sample
from wane.lab import report
from wane.lab.runs import Run, run_all
from wane_paper.collection import FOLDERS

QUICK = [name for name, folder in FOLDERS.items() if folder == "exact" or name == "toy"]
SMALL = dataclasses.replace(Sample(), chunks=2, seeds=2)


@pytest.fixture
def plain_pictures() -> Iterator[None]:
    with toys.plain_pictures():
        yield


@pytest.fixture
def keep_every_program() -> Iterator[None]:
    """Lets JAX keep all compiled programs on the disk: a run that is resumed compiles the same ones again."""
    names = ("jax_persistent_cache_min_compile_time_secs", "jax_persistent_cache_min_entry_size_bytes")
    before = [getattr(jax.config, name) for name in names]
    for name, value in zip(names, (0.0, -1), strict=True):
        jax.config.update(name, value)
    yield
    for name, value in zip(names, before, strict=True):
        jax.config.update(name, value)


def sample(out: Path, **changes) -> Run:
    return Run(EXPERIMENT.name, dataclasses.replace(SMALL, **changes), "quick", out)


@pytest.mark.usefixtures("plain_pictures")
@pytest.mark.parametrize("name", QUICK)
def test_quick_experiments_cut_at_some_points(name, tmp_path):
    run = toys.run(name, tmp_path)
    states, files = cuts.watch(run)
    states = cuts.distinct_after_recovery(run, states)
    assert len(states) >= 4
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for i in rng.choice(len(states), 3, replace=False):
        cuts.assert_resumes(run, states[i], files)


@pytest.mark.slow
@pytest.mark.usefixtures("plain_pictures")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.fuzz] if name in (*SHARE_ALL_CODE, "lambda-operator") else [])
        for name, folder in FOLDERS.items()
        if folder == "tabular" and name != "toy"
    ],
)
def test_learners_cut_after_learning_and_before_their_tables_are_written(name, tmp_path):
    run = toys.run(name, tmp_path)
    states, files = cuts.watch(run)
    learned = [state for state in states if not any("seeds" in file and "part.json" in file for file in state)]
    # Composing and solving need no loop, so there the cut comes before everything.
    assert name.startswith(("gpi", "lambda-operator")) or any(file.endswith(".safetensors") for file in learned[-1])
    cuts.assert_resumes(run, learned[-1], files)


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.fuzz)])
def test_a_small_experiment_cut_at_its_points(tmp_path, every):
    run = sample(tmp_path)
    states, files = cuts.watch(run)
    assert len(states) > 150
    for state in cuts.distinct_after_recovery(run, states)[::every]:
        cuts.assert_resumes(run, state, files)


@pytest.mark.fuzz
@pytest.mark.usefixtures("plain_pictures", "keep_every_program")
@pytest.mark.parametrize("name", FOLDERS)
def test_every_experiment_cut_at_every_point(name, tmp_path):
    run = toys.run(name, tmp_path)
    states, files = cuts.watch(run)
    distinct = cuts.distinct_after_recovery(run, states)
    print(f"\n{name}: {len(states)} points, {len(distinct)} of them differ after recovery")
    for state in distinct:
        cuts.assert_resumes(run, state, files)


class NoSpace(OSError):
    """What a full disk raises."""


class FullDisk:
    """Fails at the n-th write, as a full disk does."""

    def __init__(self, n: int):
        self.n, self.count = n, 0

    def __call__(self) -> None:
        self.count += 1
        if self.count == self.n:
            raise NoSpace(errno.ENOSPC, "No space left on device")


def fill_disk_at(run: Run, points: Iterator[int], before: dict, files: dict) -> None:
    """A disk that is full at a point leaves earlier results whole, and the run goes on when there is space again."""
    for n in points:
        cuts.write_tree(run.folder.path, before)
        disk = FullDisk(n)
        with contextlib.suppress(NoSpace), cuts.before_every_write(disk):
            run_all([run], save_seconds=0)
        assert run.folder.record() is not None, f"no whole results after a disk that was full at write {n}"
        assert report.collect(run.out)[0].problems == ()
        run_all([run], resume=True)
        assert run.folder.record()["files"] == files
        if disk.count < n:
            return


@pytest.mark.fuzz
def test_a_disk_that_is_full_at_some_points(tmp_path):
    run = sample(tmp_path)
    run_all([run])
    points = iter(range(5, 1000, 17))
    fill_disk_at(run, points, cuts.read_tree(run.folder.path), run.folder.record()["files"])
    assert next(points) > 80


@pytest.mark.fuzz
def test_a_disk_that_is_full_at_any_point(tmp_path):
    run = sample(tmp_path)
    run_all([run])
    fill_disk_at(run, iter(range(1, 1000)), cuts.read_tree(run.folder.path), run.folder.record()["files"])


def test_a_report_at_every_point_of_publishing(tmp_path):
    """Readers find the earlier results or the new ones, whole, and write nothing."""
    run = sample(tmp_path)
    run_all([run])
    found = []

    def read() -> None:
        before = cuts.read_tree(tmp_path)
        (one,) = report.collect(tmp_path)
        found.append((one.problems, len(one.claims), one.figure is not None, run.folder.record() is not None))
        assert cuts.read_tree(tmp_path) == before

    with cuts.before_every_write(read):
        run_all([run], resume=False)
    assert len(found) > 50
    assert set(found) == {((), 1, True, True)}


def test_reports_while_another_thread_publishes(tmp_path):
    run = sample(tmp_path, chunks=1)
    run_all([run])
    publishing = threading.Thread(target=lambda: [run_all([run]) for _ in range(4)])
    publishing.start()
    found = []
    while publishing.is_alive():
        found += [(one.problems, len(one.claims)) for one in report.collect(tmp_path)]
        found += [] if run.folder.record() else ["not whole"]
    publishing.join()
    assert len(found) > 20
    assert {str(each) for each in found} == {"((), 1)"}


def test_what_killed_writers_left_is_deleted(tmp_path):
    run = sample(tmp_path)
    run_all([run])
    draft = run.part(range(2)) / ".walk.safetensors.0123.tmp"
    draft.write_bytes(b"half a checkpoint")
    run_all([run], resume=True, console=Console(quiet=True))
    assert not draft.exists()
