"""Executors: where independent pieces of work are computed.

Anything with `submit(function, *arguments)` that returns a future in the style of `concurrent.futures` is an executor:
the pools of that module, a `dask.distributed.Client`, an executor of `submitit` for Slurm. `Processes` and `Ray` are
two more, and None stands for this process. Whoever opens an executor closes it:

    with Processes(4) as executor:
        values = compute(value_of, worlds, executor)
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures import Future as PoolFuture
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, TypeVar, runtime_checkable

from wane import extras
from wane.settings import Checked, Range, check_setting

Item = TypeVar("Item")
Result = TypeVar("Result")
RETRIES = 5
"""How often Ray repeats a job whose worker died."""
POLL_SECONDS = 0.1
"""The time between two questions to futures that cannot be waited for."""


class ExecutorError(Exception):
    """Raised when nobody computes the work, or when the work was lost. The message says what to do."""


@runtime_checkable
class Future(Protocol):
    """A result that will be there later."""

    def done(self) -> bool:
        """Returns whether there is a result, or an error."""
        ...

    def result(self) -> Any:
        """Waits for the result and returns it, or raises the error of the work."""
        ...


@runtime_checkable
class Executor(Protocol):
    """Whoever computes functions somewhere else."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        """Returns the future of a call. Both the function and the arguments may be pickled on their way."""
        ...


class Processes(ProcessPoolExecutor):
    """Processes of this machine, which end with this one: a pool of fresh interpreters, because a fork of JAX hangs.

    A `with` block that ends in an error, or by Ctrl-C, ends the processes at once.
    """

    def __init__(self, number: int):
        super().__init__(number, mp_context=multiprocessing.get_context("spawn"), initializer=end_with_parent)

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> PoolFuture[Any]:
        """Returns the future of a call, as every executor does."""
        # Workers inherit that Ctrl-C is blocked. A terminal sends it to them too, and this process ends them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(function, *arguments, **named)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        """Waits for the work that is left; after an error, ends it."""
        if kind is None:
            self.shutdown()
            return
        workers = list((self._processes or {}).values())
        self.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()


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


class Ray:
    """The machines of a Ray cluster, or without an address a Ray of its own on this machine.

    Each job gets one core and `gpus` GPUs, of which a fraction is possible. A worker that dies is replaced, and its job
    repeated. Raises MissingExtra if Ray is not installed, and ExecutorError if no cluster answers.
    """

    def __init__(self, address: str | None = None, gpus: float = 0.0):
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        extras.require("cluster", "--launcher ray")
        import ray

        self._ray, self._options = ray, {"num_cpus": 1, "num_gpus": gpus, "max_retries": RETRIES}
        try:
            dashboard = False if address is None else None
            ray.init(address=address or "local", include_dashboard=dashboard, log_to_driver=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ExecutorError(
                f"no Ray cluster answers at {address!r}: start one with `ray start --head` ({error})"
            ) from error

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> PoolFuture[Any]:
        """Returns the future of a call, as every executor does."""
        from ray.exceptions import WorkerCrashedError

        found: PoolFuture[Any] = PoolFuture()

        def finish(done: PoolFuture[Any]) -> None:
            error = done.exception()
            if isinstance(error, WorkerCrashedError):
                text = f"a job died {RETRIES + 1} times, perhaps for lack of memory: divide the work into smaller jobs"
                error = ExecutorError(text)
            if error is None:
                found.set_result(done.result())
            else:
                found.set_exception(error)

        self._ray.remote(**self._options)(function).remote(*arguments).future().add_done_callback(finish)
        return found

    def shutdown(self) -> None:
        """Leaves the cluster. Jobs that were not finished end."""
        self._ray.shutdown()

    def __enter__(self) -> "Ray":
        return self

    def __exit__(self, *error: Any) -> None:
        self.shutdown()


@dataclass(frozen=True)
class ExecutorOptions(Checked):
    """Where to compute, as options of the command line. `opened` makes an executor of them."""

    launcher: Literal["local", "ray"] = "local"
    """this machine, or Ray (pip install 'wane[cluster]')"""
    processes: Annotated[int, Range(1, 1024)] = 1
    """on this machine: 1 computes all seeds as one program, more divide them among processes"""
    ray_address: str | None = None
    """a cluster's address; none starts Ray on this machine"""
    shards: Annotated[int, Range(1, 1_000_000)] | None = None
    """parts that each experiment's seeds are divided into, and that are kept one by one; by default there is one for
    each process, and with Ray one for each seed"""
    gpus: Annotated[float, Range(0, 1024)] = 0.0
    """Ray: GPUs that a job needs"""

    def rules(self) -> None:
        """Raises SettingError if an option belongs to the other launcher."""
        for name in ("ray_address", "gpus"):
            fine = self.launcher == "ray" or not getattr(self, name)
            check_setting(
                fine, self, name, "--launcher ray is needed, because the local launcher does not use this option"
            )
        fine = self.launcher == "local" or self.processes == 1
        check_setting(fine, self, "processes", "1 is needed with --launcher ray; --shards says how many jobs Ray gets")


@contextmanager
def opened(executor: Executor | ExecutorOptions | None) -> Iterator[Executor | None]:
    """Yields the executor of some options, which is closed when the block ends; an executor stays as it is."""
    if not isinstance(executor, ExecutorOptions):
        yield executor
    elif executor.launcher == "ray":
        with Ray(executor.ray_address, executor.gpus) as cluster:
            yield cluster
    elif executor.processes > 1:
        with Processes(executor.processes) as pool:
            yield pool
    else:
        yield None


def compute(
    function: Callable[[Item], Result], items: Sequence[Item], executor: Executor | None = None
) -> list[Result]:
    """Returns what a function makes of each item, in the order of the items.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> compute(len, ["a", "bcd"]), compute(len, ["a", "bcd"], ThreadPoolExecutor(2))
    ([1, 3], [1, 3])
    """
    found = dict(as_computed(function, items, executor))
    return [found[i] for i in range(len(items))]


def as_computed(
    function: Callable[[Item], Result], items: Sequence[Item], executor: Executor | None = None
) -> Iterator[tuple[int, Result]]:
    """Yields the number of each item with what the function makes of it, as soon as it is there.

    If the work fails, is interrupted or is not wanted any more (the iterator is closed), what has not begun is
    cancelled. Raises ExecutorError if a process died.
    """
    if executor is None:
        yield from ((i, function(item)) for i, item in enumerate(items))
        return
    futures = {executor.submit(function, item): i for i, item in enumerate(items)}
    waiting = dict(futures)
    try:
        while waiting:
            for future in _done(list(waiting)):
                yield waiting.pop(future), future.result()
    except BrokenExecutor as error:
        raise ExecutorError("a process died (out of memory?): use fewer processes") from error
    finally:
        for future in waiting:
            getattr(future, "cancel", bool)()


def _done(futures: Sequence[Any]) -> Sequence[Any]:
    """Waits until some futures are done, and returns these."""
    if all(isinstance(future, PoolFuture) for future in futures):
        return list(wait(futures, return_when=FIRST_COMPLETED).done)
    while not (found := [future for future in futures if future.done()]):
        time.sleep(POLL_SECONDS)
    return found


def sees_files(executor: Executor | None) -> bool:
    """Returns whether the work can read and write the files of this machine: in this process, and in its pools.

    An executor of another kind says so with an attribute `sees_files`; without one, it is taken for another machine.
    """
    local = executor is None or isinstance(executor, ProcessPoolExecutor | ThreadPoolExecutor)
    return bool(getattr(executor, "sees_files", local))


def workers_of(executor: Executor | None) -> int | None:
    """Returns how many pieces of work are computed at once: 1 in this process, None if nobody knows."""
    return 1 if executor is None else getattr(executor, "_max_workers", None)
