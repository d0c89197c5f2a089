"""The reproduction report, made from run folders alone."""

from wane.report.collect import Run, collect
from wane.report.page import build, write
from wane.report.terminal import verdict_table

__all__ = ["Run", "build", "collect", "verdict_table", "write"]
