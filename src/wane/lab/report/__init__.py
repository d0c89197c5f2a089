"""The reproduction report. It is made from run folders alone: their texts, claims, pictures and costs.

`wane.lab.report.compare` and `differences` compare two runs; they load pandas, so they are imported apart.
"""

from wane.extras import require

require("experiments", "wane.lab.report")

from wane.lab.report.collect import Run, Texts, collect
from wane.lab.report.page import build, write
from wane.lab.report.places import Row, paper_table
from wane.lab.report.started import Started
from wane.lab.report.terminal import details, one_line, run_state, summary

__all__ = [
    "Row",
    "Run",
    "Started",
    "Texts",
    "build",
    "collect",
    "details",
    "one_line",
    "paper_table",
    "run_state",
    "summary",
    "write",
]
