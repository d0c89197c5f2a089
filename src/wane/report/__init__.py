"""The reproduction report. It is made from run folders alone: their texts, claims, pictures and costs.

`wane.report.compare` and `wane.report.differences` compare two runs; they load pandas, so they are imported apart.
"""

from wane.extras import require

require("experiments", "wane.report")

from wane.report.collect import Run, Texts, collect
from wane.report.page import build, write
from wane.report.paper import Row, paper_table
from wane.report.started import Started
from wane.report.terminal import details, one_line, run_state, summary

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
