"""The bench: what an experiment is, runs that resume, where they are computed, and the report.

An experiment computes tables from settings and states claims about them (`Experiment`). `find` loads one by its name,
`wane.lab.runs` computes it, and `wane.lab.report` shows what came out.
"""

from typing import TYPE_CHECKING

from wane.lab.registry import Collection, Missing, Place, find, module_of, names
from wane.lab.scales import SCALES, Scale
from wane.lazy import attach

if TYPE_CHECKING:
    from wane.lab.contract import Claim, Experiment, Finding, Loop, NotTested, Seeded, Settings, Tables, seed_keys
    from wane.lab.judging import exceeds, matches, stays_below
    from wane.lab.plots import plot_learning

__all__ = [
    "SCALES",
    "Claim",
    "Collection",
    "Experiment",
    "Finding",
    "Loop",
    "Missing",
    "NotTested",
    "Place",
    "Scale",
    "Seeded",
    "Settings",
    "Tables",
    "exceeds",
    "find",
    "matches",
    "module_of",
    "names",
    "plot_learning",
    "seed_keys",
    "stays_below",
]

__getattr__, __dir__ = attach(__name__)
