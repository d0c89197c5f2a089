"""Where the shards of a sweep are computed: here in one program, here in several processes, or on a Ray cluster.

A task is an experiment with some of its seeds. Its table depends on nothing else, so tasks can be divided, lost and
repeated at will. Tables come back as they are done.
"""

import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from wane.experiments import find
from wane.experiments.experiment import Settings
from wane.runs import record
from wane.runs.checkpoint import RunError
from wane.runs.loop import Report, SavingLoop

RETRIES = 5
Done = tuple["Task", pd.DataFrame, dict[str, Any]]
"""a task, its table, and what it cost"""


@dataclass(frozen=True)
class Launcher:
    """How to compute. The fields are options of the command line."""

    launcher: Literal["local", "ray"] = "local"
    """this machine, or Ray (pip install 'wane[cluster]')"""
    processes: int = 1
    """on this machine: 1 computes all seeds as one program, more divide them among processes"""
    ray_address: str | None = None
    """a cluster's address; none starts Ray on this machine"""
    shards: int | None = None
    """Ray: tasks that each experiment's seeds are divided into; as many as there are seeds if not given"""
    gpus: float = 0.0
    """Ray: GPUs that a task needs"""

    def __post_init__(self):
        for name in ("processes", "shards"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name} is a number from 1 on, got {value}")
        if self.gpus < 0:
            raise ValueError(f"--gpus is a number of GPUs, or a fraction of one, got {self.gpus}")
        if self.launcher == "local" and (self.ray_address or self.shards or self.gpus):
            raise ValueError("--ray-address, --shards and --gpus are Ray's: add --launcher ray")
        if self.launcher == "ray" and self.processes > 1:
            raise ValueError("--processes is for this machine: with --launcher ray, say --shards")

    def divide(self, seeds: Sequence[int]) -> list[tuple[int, ...]]:
        """Seeds in as many runs of neighbours as there are shards."""
        parts = self.processes if self.launcher == "local" else (self.shards or len(seeds))
        parts = min(parts, len(seeds))
        cuts = [len(seeds) * i // parts for i in range(parts + 1)]
        return [tuple(seeds[a:b]) for a, b in pairwise(cuts)]

    def compute(self, tasks: Sequence["Task"], reports: Any) -> Iterator[Done]:
        """Computes all tasks; `reports(task)` makes what a task's loop tells its progress to."""
        if self.launcher == "ray":
            return _on_ray(tasks, self.ray_address, self.gpus)
        if not self.is_one_program(tasks):
            return _in_processes(tasks, self.processes)
        return (_finished(task, reports(task)) for task in tasks)

    def is_one_program(self, tasks: Sequence["Task"]) -> bool:
        return self.launcher == "local" and (self.processes == 1 or len(tasks) == 1)


@dataclass(frozen=True)
class Task:
    experiment: str
    settings: Settings
    seeds: tuple[int, ...]
    folder: Path
    """of the checkpoints"""
    mark: str
    save_seconds: float = 10.0

    def run(self, report: Report | None = None) -> tuple[pd.DataFrame, dict[str, Any]]:
        """The table of these seeds, and what it cost."""
        self.folder.mkdir(parents=True, exist_ok=True)
        record.forget_peak_memory()
        loop = SavingLoop(self.folder, self.mark, seconds=self.save_seconds, report=report)
        table = find(self.experiment).table(self.settings, self.seeds, loop)
        cost = {"seconds": loop.elapsed, "device": record.device(), "peak_memory": record.peak_memory()}
        return table, cost


def _finished(task: Task, report: Report | None = None) -> Done:
    return task, *task.run(report)


def _in_processes(tasks: Sequence[Task], processes: int) -> Iterator[Done]:
    # A fresh interpreter each: a fork of a process that runs JAX hangs.
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(_finished, task) for task in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.terminate()
            if isinstance(error, BrokenProcessPool):
                raise RunError(
                    "a process died (out of memory?): take fewer --processes and go on with --resume"
                ) from error
            raise


def _on_ray(tasks: Sequence[Task], address: str | None, gpus: float) -> Iterator[Done]:
    """One Ray task each. A worker that dies is replaced and its task repeated."""
    ray = _start_ray(address)
    try:
        remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)(_away)
        waiting = {remote.remote(task): task for task in tasks}
        while waiting:
            for reference in ray.wait(list(waiting), num_returns=1)[0]:
                task = waiting.pop(reference)
                yield task, *ray.get(reference)
    except ray.exceptions.WorkerCrashedError as error:
        raise RunError(
            f"a task died {RETRIES + 1} times over (out of memory?): divide it into more --shards"
        ) from error
    finally:
        ray.shutdown()


def _away(task: Task) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A task on a worker, which may not see this machine's files: repeated, it begins anew, and so it saves nothing."""
    with tempfile.TemporaryDirectory() as folder:
        return replace(task, folder=Path(folder), save_seconds=float("inf")).run()


def _start_ray(address: str | None) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ModuleNotFoundError:
        raise RunError("Ray is not installed: pip install 'wane[cluster]', or leave out --launcher ray") from None
    try:
        dashboard = False if address is None else None
        ray.init(address=address or "local", include_dashboard=dashboard, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise RunError(f"no Ray cluster answers at {address!r}: start one with `ray start --head` ({error})") from error
    return ray
