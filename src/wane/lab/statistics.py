"""Means, interquartile means and bootstrap intervals of results over seeds.

The paper plots the mean ± the standard error. With few seeds an interquartile mean with a bootstrap interval says more.
The bootstrap draws runs with replacement, within each task separately (stratified), and computes the statistic of each
such sample; the interval holds the middle 95 % of these values (percentiles). With fewer than ten runs this interval is
too narrow: with three runs it contains the truth for 76 % of samples. The interval of a mean is then Student's, and
the interval of any other statistic is widened by the same factor. Agents that were given the same seeds are compared by
their differences, seed by seed (paired).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import stats

Statistic = Callable[[np.ndarray], Any]
"""Maps scores (runs, tasks) to one number."""
RESAMPLES = 4000
FEW = 10
"""The smallest number of runs for which percentiles are trusted."""


class Estimate(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


def mean_and_error(scores: ArrayLike, axis: int = 0) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """Returns the mean and the standard error along an axis. A single run gets the error 0, although it is unknown.

    >>> mean_and_error([1.0, 2.0, 3.0])[0].item()
    2.0
    """
    scores = np.asarray(scores, float)
    runs, mean = scores.shape[axis], np.asarray(scores.mean(axis))
    error = scores.std(axis, ddof=1) / np.sqrt(runs) if runs > 1 else np.zeros_like(mean)
    return mean, np.asarray(error)


def mean_with_interval(
    scores: Float[np.ndarray, "runs places"], interval: str = "bootstrap", *, seed: int = 0
) -> Float[np.ndarray, "3 places"]:
    """Returns the mean over runs at each place of a curve, and the lower and the upper end of its interval.

    "bootstrap" is the 95 % interval (Student's with fewer than ten runs), "error" is ± one standard error. A single run
    has no interval: both ends are NaN. All places of a curve share the resampled runs. Raises ValueError for any other
    `interval`.
    """
    if interval not in ("bootstrap", "error"):
        raise ValueError(f'interval is "bootstrap" (95 %) or "error" (± one standard error), got {interval!r}')
    mean, error = mean_and_error(scores)
    runs = len(scores)
    if runs == 1:
        return np.stack([mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)])
    if interval == "bootstrap" and runs >= FEW:
        # A resampled mean is a weighted mean: the weights count how often each run was drawn.
        weights = np.random.default_rng(seed).multinomial(runs, np.full(runs, 1 / runs), RESAMPLES) / runs
        return np.stack([mean, *np.percentile(weights @ scores, [2.5, 97.5], axis=0)])
    reach = error if interval == "error" else stats.t.ppf(0.975, runs - 1) * error
    return np.stack([mean, mean - reach, mean + reach])


def interquartile_mean(scores: ArrayLike, axis: int | None = None) -> Any:
    """Returns the mean of the middle half of all scores, or of the scores along an axis.

    >>> float(interquartile_mean([0.0, 1.0, 2.0, 100.0]))
    1.5
    """
    scores = np.asarray(scores, float)
    if axis is None:
        return stats.trim_mean(scores.ravel(), 0.25)
    return stats.trim_mean(scores, 0.25, axis=axis)


def bootstrap(
    scores: ArrayLike, statistic: Statistic = np.mean, *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """Returns a statistic of runs (or of runs × tasks) with its 95 % bootstrap interval, stratified by task.

    `statistic(scores)` maps an array (runs, tasks) to a number. A single run has an infinite interval. Raises
    ValueError if the scores are not finite or have another shape.
    """
    scores = _runs_by_tasks(scores)
    runs, tasks = scores.shape
    value = float(statistic(scores))
    if runs == 1:
        return Estimate(value, -np.inf, np.inf)
    picks = np.random.default_rng(seed).integers(runs, size=(resamples, runs, tasks))
    drawn = scores[picks, np.arange(tasks)]
    if statistic in (np.mean, interquartile_mean):  # These take an axis, so all resamples are one call.
        along: Any = statistic
        values = along(drawn.reshape(resamples, -1), axis=1)
    else:
        values = np.array([statistic(sample) for sample in drawn])
    if runs < FEW:
        # The bootstrap's standard error lacks a factor √(n / (n − 1)), and its percentiles assume a normal law.
        reach = stats.t.ppf(0.975, runs - 1) * values.std() * np.sqrt(runs / (runs - 1))
        return Estimate(value, value - float(reach), value + float(reach))
    low, high = np.percentile(values, [2.5, 97.5])
    return Estimate(value, float(low), float(high))


def paired_difference(
    ours: ArrayLike, theirs: ArrayLike, statistic: Statistic = np.mean, *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """Returns a statistic of differences between runs with the same seeds, with its interval."""
    ours, theirs = _runs_by_tasks(ours), _runs_by_tasks(theirs)
    if ours.shape != theirs.shape:
        raise ValueError(f"paired runs come in equal numbers, got shapes {ours.shape} and {theirs.shape}")
    return bootstrap(ours - theirs, statistic, resamples=resamples, seed=seed)


def probability_of_improvement(
    ours: ArrayLike, theirs: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """Returns the probability that a run of ours beats one of theirs on a task (ties count half), averaged over tasks.

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


def _runs_by_tasks(scores: ArrayLike) -> Float[np.ndarray, "runs tasks"]:
    """Returns scores as an array (runs, tasks). Raises ValueError for other shapes and scores that are not finite."""
    scores = np.asarray(scores, float)
    scores = scores[:, None] if scores.ndim == 1 else scores
    if scores.ndim != 2 or scores.size == 0:
        raise ValueError(f"scores are numbers for each run, or (runs, tasks), got shape {scores.shape}")
    if not np.all(np.isfinite(scores)):
        bad = np.sum(~np.isfinite(scores))
        raise ValueError(f"{bad} of {scores.size} scores are not finite: leave these runs out, or find out why")
    return scores
