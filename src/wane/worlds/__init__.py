"""Where an agent lives."""

from wane.worlds import catalog, grid

__all__ = ["catalog", "grid"]
