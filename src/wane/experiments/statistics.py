"""Means, interquartile means and bootstrap intervals of results over seeds.

The paper plots mean ± standard error. With few seeds an interquartile mean with a bootstrap interval says more: runs
are resampled with replacement, within each task apart (stratified), and the statistic is computed anew; the interval
holds the middle 95 % of what comes out (percentiles). Of fewer than ten runs that is too narrow (it holds the truth for
76 % of samples of three): there the interval of a mean is Student's, and any other is made wider in the same measure.
Agents that were given the same seeds are compared by their differences, seed by seed (paired).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

Statistic = Callable[..., Any]
RESAMPLES = 4000
FEW = 10
"""runs from which on percentiles are trusted"""


class Estimate(NamedTuple):
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


def mean_and_error(scores: Any, axis: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error along an axis; the error of a single run is 0, as nothing is known about it.

    >>> mean_and_error([1.0, 2.0, 3.0])[0].item()
    2.0
    """
    scores = np.asarray(scores, float)
    runs = scores.shape[axis]
    error = scores.std(axis, ddof=1) / np.sqrt(runs) if runs > 1 else np.zeros_like(scores.mean(axis))
    return scores.mean(axis), error


def interquartile_mean(scores: Any, axis: Any = None) -> Any:
    """The mean of the middle half.

    >>> float(interquartile_mean([0.0, 1.0, 2.0, 100.0]))
    1.5
    """
    scores = np.asarray(scores, float)
    if axis is None:
        return stats.trim_mean(scores.ravel(), 0.25)
    return stats.trim_mean(scores, 0.25, axis=axis)


def bootstrap(scores: Any, statistic: Statistic = np.mean, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """A statistic of runs (or runs × tasks) with its 95 % bootstrap interval, stratified by task.

    `statistic(scores)` takes an array (runs, tasks) to a number. One run alone says nothing: its interval is infinite.
    """
    scores = _runs_by_tasks(scores)
    runs, tasks = scores.shape
    value = float(statistic(scores))
    if runs == 1:
        return Estimate(value, -np.inf, np.inf)
    picks = np.random.default_rng(seed).integers(runs, size=(resamples, runs, tasks))
    drawn = scores[picks, np.arange(tasks)]
    values = np.array([statistic(sample) for sample in drawn]) if statistic is not np.mean else drawn.mean((1, 2))
    if runs < FEW:
        # The bootstrap's standard error lacks a factor √(n / (n − 1)), and its percentiles assume a normal law.
        reach = stats.t.ppf(0.975, runs - 1) * values.std() * np.sqrt(runs / (runs - 1))
        return Estimate(value, value - float(reach), value + float(reach))
    low, high = np.percentile(values, [2.5, 97.5])
    return Estimate(value, float(low), float(high))


def paired_difference(ours: Any, theirs: Any, statistic: Statistic = np.mean, **options: Any) -> Estimate:
    """A statistic of the differences of runs that shared their seeds, with its interval."""
    ours, theirs = _runs_by_tasks(ours), _runs_by_tasks(theirs)
    if ours.shape != theirs.shape:
        raise ValueError(f"paired runs come in equal numbers, got shapes {ours.shape} and {theirs.shape}")
    return bootstrap(ours - theirs, statistic, **options)


def probability_of_improvement(ours: Any, theirs: Any, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """The chance that a run of ours beats a run of theirs on a task (ties count half), averaged over tasks.

    >>> probability_of_improvement([1.0, 2.0, 3.0], [0.0, 0.5, 0.9]).value
    1.0
    """
    ours, theirs = _runs_by_tasks(ours), _runs_by_tasks(theirs)
    if ours.shape[1] != theirs.shape[1]:
        raise ValueError(f"both must have run on the same tasks, got {ours.shape[1]} and {theirs.shape[1]}")
    wins = (np.sign(ours[:, None] - theirs[None]) + 1) / 2
    random, values = np.random.default_rng(seed), np.zeros(resamples)
    for task in range(ours.shape[1]):
        mine, other = (random.multinomial(n, np.full(n, 1 / n), resamples) / n for n in (len(ours), len(theirs)))
        values += np.einsum("ri,ij,rj->r", mine, wins[..., task], other, optimize=True) / ours.shape[1]
    low, high = np.percentile(values, [2.5, 97.5])
    return Estimate(float(wins.mean()), float(low), float(high))


def _runs_by_tasks(scores: Any) -> np.ndarray:
    scores = np.asarray(scores, float)
    scores = scores[:, None] if scores.ndim == 1 else scores
    if scores.ndim != 2 or scores.size == 0:
        raise ValueError(f"scores are numbers for each run, or (runs, tasks), got shape {scores.shape}")
    if not np.all(np.isfinite(scores)):
        raise ValueError(
            f"{np.sum(~np.isfinite(scores))} of {scores.size} scores are not finite: drop or mend them first"
        )
    return scores
