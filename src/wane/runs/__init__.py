"""Seeds, checkpoints, results, progress, and the machines that they are computed on."""

from wane.runs.checkpoint import CheckpointError, RunError
from wane.runs.folder import finish_moves
from wane.runs.launchers import Launcher
from wane.runs.run import Run, run

__all__ = ["CheckpointError", "Launcher", "Run", "RunError", "finish_moves", "run"]
