"""Findings from estimates with intervals: a claim holds, it fails, or the interval leaves it undecided.

A claim that something is larger holds if the whole 95 % interval lies above the threshold, and fails if the whole
interval lies below it. A claim that two things are equal needs a margin, and holds only if the whole interval lies
within it. So more data decide more claims, and fewer data never make it easier for a claim to hold.
"""

from wane.lab.contract import Finding
from wane.lab.statistics import Estimate


def exceeds(found: Estimate, detail: str = "", than: float = 0.0) -> Finding:
    """Finds whether an estimate is above a threshold.

    >>> [exceeds(Estimate(1.0, low, high)).holds for low, high in ((0.5, 1.5), (-0.5, 1.5), (-2.0, -0.5))]
    [True, None, False]
    """
    return _finding(found, found.low > than, found.high <= than, detail)


def stays_below(found: Estimate, than: float, detail: str = "") -> Finding:
    """Finds whether an estimate is below a threshold."""
    return _finding(found, found.high < than, found.low >= than, detail)


def matches(found: Estimate, target: float, margin: float, detail: str = "") -> Finding:
    """Finds whether an estimate equals a target up to a margin. The finding's detail states the margin.

    >>> [matches(Estimate(0.5, low, high), 0.5, 0.1).holds for low, high in ((0.45, 0.55), (0.0, 1.0), (0.7, 0.8))]
    [True, None, False]
    """
    low, high = target - margin, target + margin
    full = f"the margin is {target:g} ± {margin:g}" + (f"; {detail}" if detail else "")
    return _finding(found, low < found.low and found.high < high, found.high <= low or found.low >= high, full)


def _finding(found: Estimate, holds: bool, fails: bool, detail: str) -> Finding:
    verdict = True if holds else False if fails else None
    return Finding(verdict, found.value, (found.low, found.high), detail)
