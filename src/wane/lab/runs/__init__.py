"""Runs of experiments: seeds, checkpoints, results, progress, and where they are computed."""

from typing import TYPE_CHECKING

from wane.lazy import attach

if TYPE_CHECKING:
    from wane.lab.runs.errors import CheckpointError, RunError
    from wane.lab.runs.loop import SavingLoop
    from wane.lab.runs.run import Folder, Run
    from wane.lab.runs.runner import run_all

__all__ = ["CheckpointError", "Folder", "Run", "RunError", "SavingLoop", "run_all"]

__getattr__, __dir__ = attach(__name__, renamed={"Launcher": "wane.executors.ExecutorOptions"})
