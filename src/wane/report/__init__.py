"""The reproduction report. It is made from run folders alone: their texts, claims, pictures and costs."""

from wane.report.collect import Run, Texts, collect
from wane.report.page import build, write
from wane.report.terminal import verdict_table

__all__ = ["Run", "Texts", "build", "collect", "verdict_table", "write"]
