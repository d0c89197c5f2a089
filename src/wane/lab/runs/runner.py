"""Runs experiments: computes their parts, or resumes where an earlier run stopped, and publishes what is complete."""

import shutil
from collections.abc import Iterable
from contextlib import ExitStack

from rich.console import Console

from wane.lab.runs import interrupts
from wane.lab.runs.checkpoint import unusable
from wane.lab.runs.launchers import Task, compute, is_one_program, ready
from wane.lab.runs.options import Launcher
from wane.lab.runs.parts import problem_of_part, save_part
from wane.lab.runs.progress import progress
from wane.lab.runs.publish import publish
from wane.lab.runs.run import Run
from wane.lab.runs.started import write_started


def run_all(
    runs: Iterable[Run],
    launcher: Launcher | None = None,
    *,
    resume: bool = False,
    replace: bool = False,
    save_seconds: float | int = 10.0,
    console: Console | None = None,
) -> None:
    """Runs several experiments, each in its own folder.

    With `resume`, finished runs are left alone and interrupted runs go on. Without it, all runs start from the
    beginning, and earlier results stay until the new ones are complete. With `replace`, a checkpoint that cannot be
    used (it is damaged, or the code has changed since) is deleted, and the console says so; without it, such a
    checkpoint raises CheckpointError.
    """
    launcher, console = launcher or Launcher(), console or Console(quiet=True, markup=False)
    with interrupts.noted(), ready(launcher), ExitStack() as stack:
        missing: dict[Run, list[Task]] = {}
        for each in dict.fromkeys(runs):
            stack.enter_context(each.folder.locked())
            if resume and each.is_done():
                console.print(f"{each.filed}: already there", style="dim")
                continue
            if not resume and each.folder.checkpoint.exists():
                if each.folder.record() is None:
                    console.print(f"{each.filed}: starting over; --resume would have continued the interrupted run")
                shutil.rmtree(each.folder.checkpoint)
            missing[each] = each.tasks(launcher, save_seconds)
            write_started(each, missing[each])
            if replace:
                _remove_unusable(missing[each], console)
        _compute(missing, launcher, console)


def _compute(missing: dict[Run, list[Task]], launcher: Launcher, console: Console) -> None:
    """Computes the missing parts, and publishes every run as soon as all of its parts are done."""
    owner = {task: each for each, tasks in missing.items() for task in tasks}
    waiting = {each: {task for task in tasks if not _is_saved(task, console)} for each, tasks in missing.items()}
    for each in [each for each, tasks in waiting.items() if not tasks]:
        publish(each, missing[each], launcher, console)
    with progress(console) as report:
        tasks = [task for each in missing for task in missing[each] if task in waiting[each]]
        parts = None if is_one_program(launcher, tasks) else report("all")
        for i, (task, part) in enumerate(compute(launcher, tasks, lambda task: report(task.experiment))):
            each = owner[task]
            save_part(task.folder, task.fingerprint, part)
            interrupts.check()
            waiting[each].discard(task)
            if parts:
                parts("parts", i + 1, len(tasks), "parts")
            if not waiting[each]:
                publish(each, missing[each], launcher, console)


def _remove_unusable(tasks: Iterable[Task], console: Console) -> None:
    for task in tasks:
        for path in unusable(task.folder, task.fingerprint):
            console.print(f"{task.experiment}: {path.name} starts over: it is damaged or of another version")
            path.unlink()


def _is_saved(task: Task, console: Console) -> bool:
    problem = problem_of_part(task.folder, task.fingerprint)
    if problem not in (None, "missing"):
        text = f"{task.experiment}: {task.folder.name} is computed again, because {problem}"
        console.print(text, soft_wrap=True, markup=False)
    return problem is None
