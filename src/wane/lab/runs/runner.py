"""Runs experiments: computes their parts, or resumes where an earlier run stopped, and publishes what is complete."""

import os
import platform
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from wane.executors import (
    Executor,
    ExecutorError,
    ExecutorOptions,
    Processes,
    as_computed,
    opened,
    sees_files,
    workers_of,
)
from wane.files import write_json
from wane.lab.runs import interrupts
from wane.lab.runs.errors import RunError
from wane.lab.runs.job import Job, Part, problem_of_part, run_elsewhere, save_part
from wane.lab.runs.loop import Report, unusable
from wane.lab.runs.publish import publish
from wane.lab.runs.run import Run

Parts = Generator[tuple[tuple[Run, Job], Part], None, None]


def run_all(
    runs: Iterable[Run],
    executor: Executor | ExecutorOptions | None = None,
    *,
    shards: int | None = None,
    resume: bool = False,
    replace: bool = False,
    save_seconds: float | int = 10.0,
    console: Console | None = None,
) -> None:
    """Runs several experiments, each in its own folder.

    The jobs are computed in this process, or by an executor (`wane.executors`), or by that of some options. The seeds
    of each experiment are divided into `shards` jobs: by default into one for each worker of the executor, or for each
    seed if nobody knows how many workers there are.
    With `resume`, finished runs are left alone and interrupted runs go on. Without it, all runs start from the
    beginning, and earlier results stay until the new ones are complete. With `replace`, a checkpoint that cannot be
    used (it is damaged, or the code has changed since) is deleted, and the console says so; without it, such a
    checkpoint raises CheckpointError.
    """
    console = console or Console(quiet=True, markup=False)
    shards = shards or (executor.shards if isinstance(executor, ExecutorOptions) else None)
    # The executor comes first: a run that cannot begin leaves no files.
    with interrupts.collected(), opened(executor) as executor, ExitStack() as stack:
        missing: dict[Run, list[Job]] = {}
        for each in dict.fromkeys(runs):
            stack.enter_context(each.folder.locked())
            if resume and each.is_done():
                console.print(f"{each.filed}: already there", style="dim")
                continue
            if not resume and each.folder.checkpoint.exists():
                if each.folder.record() is None:
                    console.print(f"{each.filed}: starting over; --resume would have continued the interrupted run")
                shutil.rmtree(each.folder.checkpoint)
            missing[each] = each.jobs(shards or workers_of(executor), save_seconds)
            write_started(each, missing[each])
            if replace:
                _remove_unusable(missing[each], console)
        _compute(missing, executor, console)


def write_started(run: Run, jobs: Iterable[Job]) -> None:
    """Writes checkpoint/started.json, from which an interrupted run is listed and resumed."""
    about = {"parts": [job.folder.name for job in jobs], "process": os.getpid(), "machine": platform.node()}
    write_json(run.folder.checkpoint / "started.json", run.about | about)


def _compute(missing: dict[Run, list[Job]], executor: Executor | None, console: Console) -> None:
    """Computes the missing parts, and publishes every run as soon as all of its parts are done."""
    launcher = "local" if sees_files(executor) else type(executor).__name__.lower()
    waiting = {each: {job for job in jobs if not _is_saved(job, console)} for each, jobs in missing.items()}
    for each in [each for each, jobs in waiting.items() if not jobs]:
        publish(each, missing[each], launcher, console)
    jobs = [(each, job) for each in missing for job in missing[each] if job in waiting[each]]
    with closing(_parts(jobs, executor, console)) as parts:
        for (each, job), part in parts:
            save_part(job.folder, job.fingerprint, part)
            interrupts.check()
            waiting[each].discard(job)
            if not waiting[each]:
                publish(each, missing[each], launcher, console)


def _parts(jobs: Sequence[tuple[Run, Job]], executor: Executor | None, console: Console) -> Parts:
    """Yields each job of each run with its part, as soon as it is there, and shows the progress."""
    here = executor is None or (isinstance(executor, Processes) and len(jobs) == 1)
    with progress(console) as reporter:
        if here:
            yield from (((each, job), job.run(reporter(job.experiment))) for each, job in jobs)
            return
        report = reporter("all")
        run_job = Job.run if sees_files(executor) else run_elsewhere
        try:
            found = as_computed(run_job, [job for _, job in jobs], executor)
            for done, (i, part) in enumerate(found):
                yield jobs[i], part
                report("parts", done + 1, len(jobs), "parts")
        except ExecutorError as error:
            raise RunError(f"{error} (--processes, --shards), and continue with --resume") from error


def _remove_unusable(jobs: Iterable[Job], console: Console) -> None:
    for job in jobs:
        for path in unusable(job.folder, job.fingerprint):
            console.print(f"{job.experiment}: {path.name} starts over: it is damaged or of another version")
            path.unlink()


def _is_saved(job: Job, console: Console) -> bool:
    problem = problem_of_part(job.folder, job.fingerprint)
    if problem not in (None, "missing"):
        text = f"{job.experiment}: {job.folder.name} is computed again, because {problem}"
        console.print(text, soft_wrap=True, markup=False)
    return problem is None


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{_short(speed)} {task.fields['unit']}/s", style="dim")


def _short(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


@contextmanager
def progress(console: Console) -> Iterator[Callable[[str], Report]]:
    """Shows a bar for each loop, with speed and time left. Yields a function that makes the `Report` of a title."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), _Rate())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bars:

        def reporter(title: str) -> Report:
            tasks: dict[str, TaskID] = {}

            def report(name: str, done: float | int, total: float | int, unit: str) -> None:
                if name not in tasks:
                    tasks[name] = bars.add_task(f"{title}: {name}", total=total, unit=unit)
                bars.update(tasks[name], completed=done)

            return report

        yield reporter
