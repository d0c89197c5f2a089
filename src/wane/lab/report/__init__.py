"""The reproduction report. It is made from run folders alone: their texts, claims, pictures and costs.

`wane.lab.report.compare` compares two runs.
"""

from typing import TYPE_CHECKING

from wane.extras import require
from wane.lazy import attach

require("experiments", "wane.lab.report")

if TYPE_CHECKING:
    from wane.lab.report.contents import Started
    from wane.lab.report.kept_runs import KeptRun, Texts, collect
    from wane.lab.report.page import build, write
    from wane.lab.report.terminal import details, one_line, run_state, summary
    from wane.lab.report.verdicts import Row, paper_table

__all__ = [
    "KeptRun",
    "Row",
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

__getattr__, __dir__ = attach(__name__, renamed={"Run": "wane.lab.report.kept_runs.KeptRun"})
