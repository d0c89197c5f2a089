"""Records a run when it begins, so that an interrupted run can be listed and resumed."""

import os
import platform
from collections.abc import Iterable

from wane import user_files
from wane.files import write_json
from wane.lab.runs import record
from wane.lab.runs.launchers import Task
from wane.lab.runs.run import Run


def write_started(run: Run, tasks: Iterable[Task]) -> None:
    """Writes checkpoint/started.json: the experiment, its settings, its parts, and the process that computes them."""
    about = {
        "experiment": run.filed,
        "file": source_file(run),
        "changed": {name: record.plain(value) for name, value in run.changed.items()},
        "parts": [task.folder.name for task in tasks],
        "process": os.getpid(),
        "machine": platform.node(),
    }
    write_json(run.folder.checkpoint / "started.json", about)


def source_file(run: Run) -> str | None:
    """Returns the path of an experiment that is a file, or None for other experiments."""
    path = user_files.path_of(run.name)
    return None if path is None else str(path)
