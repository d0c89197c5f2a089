"""Where the tasks of a run are computed: in this process, in several processes, or on a Ray cluster.

A task is an experiment with some of its seeds, or the part of it that needs no seed. Its tables depend on nothing else,
so tasks can be divided, lost and repeated. Parts are returned as soon as they are done.
"""

import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from wane import user_files
from wane.extras import require
from wane.lab.contract import Settings
from wane.lab.registry import find
from wane.lab.runs import record
from wane.lab.runs.errors import RunError
from wane.lab.runs.loop import Report, SavingLoop
from wane.lab.runs.options import Launcher
from wane.lab.runs.parts import Part, agent_files

RETRIES = 5
"""How often Ray repeats a task whose worker died."""


@dataclass(frozen=True)
class Task:
    """Some seeds of an experiment, or the part of it that needs no seed (`seeds` is then None)."""

    experiment: str
    settings: Settings
    seeds: tuple[int, ...] | None
    folder: Path
    """The folder of its checkpoints and, when it is done, of its part."""
    fingerprint: str
    save_seconds: float | int = 10.0

    def __reduce__(self) -> tuple[Any, ...]:
        # The settings' class may be defined in a file, which another process must load before it can unpickle them.
        values = tuple(getattr(self, field.name) for field in fields(self))
        path = user_files.path_of(self.experiment)
        return _unpickled, (None if path is None else str(path), pickle.dumps(values))

    def run(self, report: Report | None = None) -> Part:
        """Returns the tables and the kept agents of the task, and what they cost."""
        self.folder.mkdir(parents=True, exist_ok=True)
        record.forget_peak_memory()
        loop = SavingLoop(self.folder, self.fingerprint, seconds=self.save_seconds, report=report)
        experiment = find(self.experiment)
        if self.seeds is None:
            tables = experiment.fixed_tables(self.settings)
        else:
            tables = experiment.seeded_tables(self.settings, self.seeds, loop)
        cost = {"seconds": loop.elapsed, "device": record.device(), "peak_memory": record.peak_memory()}
        return Part(tables, agent_files(loop.kept), cost)


def _unpickled(path: str | None, values: bytes) -> Task:
    if path is not None:
        find(path)
    return Task(*pickle.loads(values))


Done = tuple[Task, Part]


@contextmanager
def ready(launcher: Launcher) -> Iterator[None]:
    """Holds a connection to Ray, if the launcher needs one.

    Raises MissingExtra if Ray is not installed, and RunError if no cluster answers. A run enters this before it writes
    anything, so that a run that cannot begin leaves no files.
    """
    if launcher.launcher != "ray":
        yield
        return
    ray = _start_ray(launcher.ray_address)
    try:
        yield
    finally:
        ray.shutdown()


def compute(launcher: Launcher, tasks: Sequence[Task], reports: Callable[[Task], Report]) -> Iterator[Done]:
    """Yields each task with its part when it is done. Callers iterate inside of `ready`.

    `reports(task)` returns the function to which the loops of a task report their progress.
    """
    if launcher.launcher == "ray":
        return _on_ray(tasks, launcher.gpus)
    if not is_one_program(launcher, tasks):
        return _in_processes(tasks, launcher.processes)
    return (_finished(task, reports(task)) for task in tasks)


def is_one_program(launcher: Launcher, tasks: Sequence[Task]) -> bool:
    """Returns whether the tasks are computed in this process, so that the loops can report their progress."""
    return launcher.launcher == "local" and (launcher.processes == 1 or len(tasks) == 1)


def _finished(task: Task, report: Report | None = None) -> Done:
    return task, task.run(report)


def _in_processes(tasks: Sequence[Task], processes: int) -> Iterator[Done]:
    # Each worker is a fresh interpreter, because a fork of a process that runs JAX hangs.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=end_with_parent) as pool:
        # Workers inherit that Ctrl-C is blocked. A terminal sends it to them too, and this process ends them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            futures = [pool.submit(_finished, task) for task in tasks]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.terminate()
            if isinstance(error, BrokenProcessPool):
                raise RunError(
                    "a process died (out of memory?): use fewer --processes and continue with --resume"
                ) from error
            raise


def end_with_parent() -> None:
    """Makes this process end when its parent ends, even if the parent was killed.

    A worker that outlived its parent would go on for hours, and nobody would take its result.
    """
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _on_ray(tasks: Sequence[Task], gpus: float) -> Iterator[Done]:
    """Yields each task with its part, computed by Ray. A worker that dies is replaced and its task repeated."""
    import ray.exceptions

    try:
        remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)(_run_without_saving)
        waiting = {remote.remote(task): task for task in tasks}
        while waiting:
            for reference in ray.wait(list(waiting), num_returns=1)[0]:
                task = waiting.pop(reference)
                yield task, ray.get(reference)
    except ray.exceptions.WorkerCrashedError as error:
        raise RunError(
            f"a task died {RETRIES + 1} times, perhaps for lack of memory: divide it into more --shards"
        ) from error


def _run_without_saving(task: Task) -> Part:
    """Runs a task on a worker, which may not see this machine's files. A repeated task starts from the beginning."""
    with tempfile.TemporaryDirectory() as folder:
        return replace(task, folder=Path(folder), save_seconds=float("inf")).run()


def _start_ray(address: str | None) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    require("cluster", "--launcher ray")
    import ray

    try:
        dashboard = False if address is None else None
        ray.init(address=address or "local", include_dashboard=dashboard, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise RunError(f"no Ray cluster answers at {address!r}: start one with `ray start --head` ({error})") from error
    return ray
