"""Errors of runs. Their messages say what to do."""


class RunError(Exception):
    """Raised when a run cannot go on."""


class CheckpointError(RunError):
    """Raised when a checkpoint cannot be used."""
