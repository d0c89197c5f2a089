"""Errors of runs. Their messages say what to do."""


class UsageError(ValueError):
    """Raised when the words of a command line make no sense."""


class RunError(Exception):
    """Raised when a run cannot go on."""


class CheckpointError(RunError):
    """Raised when a checkpoint cannot be used."""
