"""Finds runs by the names that users give: an experiment, the name of a run's folder, or its path."""

import os
from collections.abc import Sequence
from pathlib import Path

from wane import user_files
from wane.lab.registry import names
from wane.lab.report.collect import SCALES, Run, collect, read
from wane.lab.report.words import command
from wane.names import unknown


def runs_called(name: str, roots: Sequence[Path]) -> list[Run]:
    """Returns the runs of an experiment, or the run of this name or in this folder.

    The name of a run is that of its folder, "q-lambda+seeds=8", optionally after its scale, "quick/". The list is empty
    for an experiment that was not run. Raises UnknownName if there is neither an experiment nor a run of this name.
    """
    if is_run_folder(name):
        return [read(Path(name))]
    runs = collect(*roots)
    short = Path(name).name if user_files.is_file_name(name) else name
    found = [run for run in runs if _is_of(run, name)]
    if "+" in name or "/" in short or not found:
        found = [run for run in runs if short in (run.folder.name, f"{run.scale}/{run.folder.name}")]
    # The experiments that users wrote themselves are not known here, so such a name may exist.
    if not found and name not in names() and "." not in name:
        raise unknown("experiment or run", name, dict.fromkeys([*names(), *(run.folder.name for run in runs)]))
    return found


def standard_run(name: str, scale: str | None, runs: Sequence[Run]) -> Run | None:
    """Returns the run that a name stands for among the runs of that name, or None if there is none.

    The name of an experiment stands for the run with the settings of a scale, any other name for one run. Without a
    scale, a quick run is preferred to one at the paper's scale.
    """
    is_experiment = not is_run_folder(name) and any(_is_of(run, name) for run in runs)
    if is_experiment:
        runs = [run for run in runs if run.is_standard and scale in (None, run.scale)]
        runs = sorted(runs, key=lambda run: run.scale != "quick")
    return next((run for run in runs if run.record), None)


def one_run(name: str, scale: str, roots: Sequence[Path]) -> Run:
    """Returns the whole run that a name stands for. An experiment that ran at one scale only stands for that run.

    Raises ValueError if there is no such run, if it is damaged or not finished, or if several could be meant.
    """
    runs = runs_called(name, roots)
    found = [run for each in (scale, *SCALES) if (run := standard_run(name, each, runs))]
    if not found and len(runs) > 1:
        names = ", ".join(f"{run.scale}/{run.folder.name}" for run in runs)
        raise ValueError(f"{name} was not run with the settings of a scale; name one of its runs: {names}")
    if not found and not runs:
        raise ValueError(f"{name} was not run yet: {command(name, scale, {})}")
    run = found[0] if found else runs[0]
    if run.problems:
        raise ValueError(f"{run.folder} cannot be compared. {run.problems[0]}")
    return run


def _is_of(run: Run, name: str) -> bool:
    """Returns whether a run is one of an experiment, which is called by its name or by its file."""
    file = Path(name).name if user_files.is_file_name(name) else None
    return run.experiment in (name, file) or (file is not None and Path(run.source).name == file)


def is_run_folder(name: str) -> bool:
    """Returns whether a name is the path of a run's folder."""
    return os.path.isdir(name) and Path(name).absolute().parent.name in SCALES
