"""Patch leaving: when an agent or an animal leaves a site, when it should, and what a wrong λ does to it."""

from wane.foraging.difference import leaving_difference, summarise
from wane.foraging.leaving import bouts, leaving_times
from wane.foraging.mvt import marginal_values, mvt_leaving_times, threshold
from wane.foraging.optimal import optimal_leaving_times, optimal_table
from wane.foraging.overstay import overstaying
from wane.foraging.trajectory import check_table, read_csv, table_from_rollout

__all__ = [
    "bouts",
    "check_table",
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
