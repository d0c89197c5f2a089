"""Patch leaving: when an agent or an animal leaves a site, when it should, and what a wrong λ does to it."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from wane.foraging.difference import leaving_difference, summarise
from wane.foraging.leaving import bouts, leaving_times
from wane.foraging.mvt import marginal_values, mvt_leaving_times, threshold
from wane.foraging.optimal import optimal_leaving_times, optimal_table
from wane.foraging.overstay import overstaying
from wane.foraging.trajectory import check_table, read_csv, table_from_rollout

if TYPE_CHECKING:
    from wane.foraging import draw

__all__ = [
    "bouts",
    "check_table",
    "draw",
    "leaving_difference",
    "leaving_times",
    "marginal_values",
    "mvt_leaving_times",
    "optimal_leaving_times",
    "optimal_table",
    "overstaying",
    "read_csv",
    "summarise",
    "table_from_rollout",
    "threshold",
]


def __getattr__(name: str) -> ModuleType:
    """Imports `wane.foraging.draw`, and with it matplotlib, when it is used for the first time."""
    if name == "draw":
        return import_module("wane.foraging.draw")
    raise AttributeError(f"module 'wane.foraging' has no attribute {name!r}")
