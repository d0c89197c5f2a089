"""Fitting a model to visits: maximum likelihood from many starts, for each animal or for all together.

    >>> from wane.foraging import example, models
    >>> found = fit(example.rats(), models.ConstantHazard(), pooled=True)
    >>> estimate = found.estimates.iloc[0]
    >>> round(float(estimate["value"]), 4)  # 2,615 leavings in 19,730 decisions
    0.1325

Intervals are found on the unbounded scale on which the search works (logarithms of positive parameters, log-odds of
probabilities) and mapped back, so that they stay within the range of a parameter. "hessian" takes the curvature at the
maximum; "profile" goes out from the maximum, with all other parameters fitted again, until the log-likelihood has
fallen by χ²/2. A profile that has not fallen that far at a finite end of the parameter's range ends there, so that an
interval can be, for example, a drop between 0 and 0.9.

Planners have kinks: where the best number of harvests changes with a parameter, the log-likelihood bends, and its
maximum is often exactly there. The curvature on one side then says nothing about the other. So models with kinks get
profiles unless asked otherwise, and "hessian" gives no interval where the maximum is at a kink (the gradient is not 0).

A parameter that the data do not determine has no interval: `identified` is false, and its ends are NaN. It is
determined if its profile is closed on both sides, or on one side with a finite end of the range on the other; for
"hessian", if the 95 % interval is less than ±WIDEST on the unbounded scale.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Bool, Float
from scipy import stats

from wane.executors import Executor, compute
from wane.foraging.arguments import Level, Seed, check_arguments
from wane.foraging.decisions import Counts, Decisions, Prepared, TaskArrays, prepare, task_arrays
from wane.foraging.models import Model, Parameter, typical_point, values_at
from wane.foraging.newton import LARGEST, Minimum, minimise, profiles
from wane.foraging.sources import counted, listed
from wane.foraging.task import Task
from wane.foraging.visits import PatchVisits
from wane.settings import Count

WIDEST = 8.0
"""The half-width of a 95 % interval on the unbounded scale above which a parameter counts as not identified."""
DRAWS_A_START = 16
"""The number of random points for each search; the searches start from the points with the highest likelihood."""
KINK = 1e-4
"""The maximum is at a kink if Newton's method expects a gain in log-likelihood above this, but finds none."""
Intervals = Literal["hessian", "profile", "none"] | None
"""How intervals are found; None means profiles for models with kinks, and the curvature for others."""
EVERYONE = "all"
"""The subject of a pooled fit."""


class DataSets(NamedTuple):
    """Data sets that are fitted in one call. Axes: data sets, animals that share parameters, decisions."""

    decisions: Decisions
    """All three axes for models that learn; only the last axis for others, whose decisions all animals share."""
    counts: Counts


@dataclass(frozen=True, repr=False)
class Fit:
    """A model that was fitted to visits."""

    model: Model
    data: PatchVisits
    pooled: bool
    estimates: pd.DataFrame
    """One row for each subject and parameter: value, low, high, unit, identified."""
    likelihoods: pd.DataFrame
    """One row for each subject: log_likelihood, decisions, parameters, aic, bic, agree (the share of starts that found
    the same maximum)."""
    z: Float[np.ndarray, "subjects parameters"]
    """The estimates on the unbounded scale."""

    @property
    def log_likelihood(self) -> float:
        """The sum of the log-likelihoods of all subjects."""
        return float(self.likelihoods["log_likelihood"].sum())

    def parameters(self, subject: Any = EVERYONE) -> dict[str, float]:
        """The estimates of one subject, or of the pooled fit. Raises ValueError if the subject was not fitted."""
        rows = self.estimates[self.estimates["subject"] == subject]
        if rows.empty:
            names = ", ".join(map(repr, self.likelihoods["subject"].tolist()))
            raise ValueError(f"subject {subject!r} was not fitted: name one of those that were, {names}")
        return dict(zip(rows["parameter"], rows["value"].astype(float), strict=True))

    def __repr__(self) -> str:
        who = counted(len(self.likelihoods), "subject")
        if self.pooled:
            rows = self.estimates[["parameter", "value", "unit"]].itertuples(index=False)
            who = "pooled: " + listed([f"{name} = {value:.3g} {unit}".rstrip() for name, value, unit in rows])
        return f"Fit({self.model.name}, {who}, log-likelihood {self.log_likelihood:.2f})"


@check_arguments
def fit(
    data: PatchVisits,
    model: Model,
    *,
    pooled: bool = False,
    starts: Count = 4,
    seed: Seed = 0,
    intervals: Intervals = None,
    level: Level = 0.95,
) -> Fit:
    """Fits a model by maximum likelihood. Returns the parameters with their intervals.

    With `pooled` all animals share the parameters; otherwise each animal has its own. Models that learn begin anew with
    each animal in both cases. `intervals` are "hessian", "profile" or "none"; None means profiles for models with kinks
    and the curvature for others. Raises ValueError if there is too little data, or if the model cannot be used with it.
    """
    check_fittable(data, model)
    intervals = ("profile" if model.kinks else "hessian") if intervals is None else intervals
    with jax.enable_x64(True):
        prepared = prepare(data, model.learns)
        sets = make_sets(prepared, pooled, model.learns)
        best, agree = solve(model, data.task, sets, starts, seed)
        ends, identified = _intervals(model, data.task, sets, best, intervals, level)
        parameters = model.parameters(data.task)
        subjects = [EVERYONE] if pooled else data.subjects
        each = zip(np.asarray(best.z), ends, identified, strict=True)
        rows = [describe_estimates(parameters, *own) for own in each]
    estimates = pd.concat(rows, ignore_index=True)
    estimates.insert(0, "subject", [subject for subject in subjects for _ in parameters])
    estimates.insert(5, "unit", [p.unit for p in parameters] * len(subjects))
    decisions = np.asarray(sets.counts.stays + sets.counts.leaves).sum((1, 2))
    likelihoods = describe_likelihoods(subjects, -np.asarray(best.value), decisions, len(parameters)).assign(
        agree=agree
    )
    return Fit(model, data, pooled, estimates, likelihoods, np.asarray(best.z))


def fit_all(data: PatchVisits, models: Sequence[Model], executor: Executor | None = None, **settings: Any) -> list[Fit]:
    """Fits several models where an executor computes them (`wane.executors`), or two at a time in this process.

    Most of the time goes into compiling, which keeps one core busy. It takes the settings of `fit`, and raises the same
    errors.
    """
    one = partial(fit, data, **settings)
    if executor is not None:
        return compute(one, models, executor)
    with ThreadPoolExecutor(2) as pool:
        return compute(one, models, pool)


def check_fittable(data: PatchVisits, model: Model) -> None:
    """Raises ValueError if an animal has too little data, or if the model needs fresh patches."""
    if model.needs_fresh_patches and not data.fresh:
        raise ValueError(
            f'{model.name} solves the task, which needs fresh patches (patches="fresh"): use RewardThreshold, '
            "HarvestCount or LearnedAverage for patches that are found as they were left"
        )
    for subject, group in data.table.groupby("subject", sort=False):
        if len(group) < 2:
            raise ValueError(
                f"subject {subject!r} has one visit only, and a model needs several: add its other visits, or delete "
                "its row from the table"
            )
        if group["censored"].all():
            raise ValueError(
                f"subject {subject!r} never left a patch of its own will, so nothing tells when it would have left: "
                "add visits that it ended itself, or delete its rows from the table"
            )
        if (group["harvests"] - group["censored"]).sum() == len(group):
            raise ValueError(
                f"subject {subject!r} left every patch after its first harvest, so nothing tells when it stays: check "
                "the column of harvests, or delete the rows of this subject from the table"
            )


def make_sets(prepared: Prepared, pooled: bool, learns: bool) -> DataSets:
    """Data sets for `solve`: one for each subject, or one with all of them."""
    counts = Counts(*(jnp.asarray(each.sum(1)) for each in prepared.counts))
    if not learns:
        # All animals make the same distinct decisions, so those who share parameters can be added up.
        counts = Counts(*(each.sum(0, keepdims=True) for each in counts)) if pooled else counts
        return DataSets(prepared.decisions, Counts(*(each[:, None] for each in counts)))
    axis = 0 if pooled else 1
    decisions, counts = (
        jax.tree_util.tree_map(lambda a: jnp.expand_dims(a, axis), each) for each in (prepared.decisions, counts)
    )
    return DataSets(decisions, counts)


def objective(model: Model, names: tuple[Parameter, ...], sets: DataSets, task: TaskArrays, z: Any) -> Any:
    """Minus the log-likelihood of one data set (animals, decisions) at unbounded numbers z."""
    params = values_at(names, z)
    shared = sets.decisions.kind.ndim == 1
    axes = None if shared else 0

    def one(decisions: Decisions, counts: Counts) -> Any:
        return model.log_likelihood(params, decisions, counts, task)

    return -jnp.sum(jax.vmap(one, (axes, 0))(sets.decisions, sets.counts))


def solve(
    model: Model, task: Task, sets: DataSets, starts: int, seed: int
) -> tuple[Minimum, Float[np.ndarray, " sets"]]:
    """The best of many searches for each data set, and the share of the searches that found it."""
    names = tuple(model.parameters(task))
    draws = np.random.default_rng(seed).normal(size=(DRAWS_A_START * starts, len(names)))
    found = _search(model, names, sets, task_arrays(task), typical_point(names) + jnp.asarray(1.5 * draws), starts)
    value = jnp.where(jnp.isfinite(found.value), found.value, jnp.inf)
    best = jnp.argmin(value, axis=1)
    chosen = jax.tree_util.tree_map(lambda a: a[jnp.arange(len(best)), best], found)
    if not np.isfinite(np.asarray(chosen.value)).all():
        raise ValueError(
            f"{model.name} gives no finite likelihood from any start: check its parameters' typical values"
        )
    agree = np.mean(np.asarray(value) < np.asarray(chosen.value)[:, None] + 1e-3, axis=1)
    return chosen, agree


def set_axes(sets: DataSets) -> DataSets:
    """Which axis runs over data sets, for `jax.vmap`."""
    shared = sets.decisions.kind.ndim == 1
    return DataSets(Decisions(*[None if shared else 0] * len(Decisions._fields)), Counts(0, 0))  # pyright: ignore[reportArgumentType]


def _for_each_set(one: Callable[..., Any], sets: DataSets, *others: Any) -> Any:
    """Calls `one` for every data set, with its entry of each of `others`, and stacks the results.

    Under `vmap` all searches go on until the slowest has found its minimum, and profiles are searches within searches:
    for 80 simulated rats, `vmap` takes four times as long as one data set after the other. Models that learn go through
    thousands of decisions, for which `vmap` is faster.
    """
    if sets.decisions.kind.ndim > 1:
        return jax.vmap(one, (set_axes(sets), *[0] * len(others)))(sets, *others)
    return jax.lax.map(lambda each: one(DataSets(sets.decisions, each[0]), *each[1:]), (sets.counts, *others))


@partial(jax.jit, static_argnums=(0, 1, 5))
def _search(
    model: Model, names: tuple[Parameter, ...], sets: DataSets, task: TaskArrays, draws: Array, starts: int
) -> Minimum:
    """Searches from the `starts` best draws of each data set. Returns minima with axes (data sets, starts)."""

    def one(each: DataSets) -> Minimum:
        aim = partial(objective, model, names, each, task)
        value = jax.lax.map(aim, draws)
        _, chosen = jax.lax.top_k(-jnp.where(jnp.isfinite(value), value, jnp.inf), starts)
        return jax.vmap(partial(minimise, aim))(draws[chosen])

    return _for_each_set(one, sets)


@partial(jax.jit, static_argnums=(0, 1))
def _profiles(
    model: Model, names: tuple[Parameter, ...], sets: DataSets, task: TaskArrays, best: Minimum, rise: Any
) -> Array:
    """The ends of all profile intervals: (data sets, parameters, 2)."""

    def one(each: DataSets, found: Minimum) -> Array:
        return profiles(partial(objective, model, names, each, task), found, rise)

    return _for_each_set(one, sets, best)


def _intervals(
    model: Model, task: Task, sets: DataSets, best: Minimum, how: str, level: float
) -> tuple[Float[np.ndarray, "sets parameters 2"], np.ndarray]:
    """The ends of the intervals on the unbounded scale, and whether each parameter is identified."""
    z, hessian = np.asarray(best.z), np.asarray(best.hessian)
    factor = stats.norm.ppf(0.5 + level / 2)
    half = factor * np.sqrt(np.diagonal(_inverse(hessian), axis1=1, axis2=2))
    # A parameter at the end of its range, or whose interval spans nearly all of it, is not determined by the data.
    identified = (np.abs(z) < LARGEST - 1e-6) & (half < WIDEST * factor / 1.96)
    if how == "none":
        return np.full((*z.shape, 2), np.nan), identified
    if how == "hessian":
        ends, identified = np.stack([z - half, z + half], -1), identified & ~_at_kink(best)[:, None]
    else:
        names, rise = tuple(model.parameters(task)), stats.chi2.ppf(level, 1) / 2
        ends = np.asarray(_profiles(model, names, sets, task_arrays(task), best, rise))
        identified = determined(ends, names)
    return np.where(identified[..., None], ends, np.nan), identified


def determined(
    ends: Float[np.ndarray, "*sets parameters 2"], parameters: Sequence[Parameter]
) -> Bool[np.ndarray, "*sets parameters"]:
    """Whether the profile of each parameter is closed on one side at least, and open only at finite ends of a range."""
    closed = np.isfinite(ends)
    fine = closed | np.isfinite([[each.low, each.high] for each in parameters])
    return np.asarray(fine.all(-1) & closed.any(-1))


def _at_kink(best: Minimum) -> Bool[np.ndarray, " sets"]:
    """Whether the gradient at the maximum is so far from 0 that the curvature does not describe the maximum."""
    gradient = np.asarray(best.gradient)
    curvature = np.maximum(np.diagonal(np.asarray(best.hessian), axis1=1, axis2=2), 1e-6)
    return np.asarray((gradient**2 / curvature / 2 > KINK).any(1))


def _inverse(
    hessian: Float[np.ndarray, "sets parameters parameters"],
) -> Float[np.ndarray, "sets parameters parameters"]:
    """The inverse Hessians; infinite variances where a Hessian is not positive definite."""
    found = np.full(hessian.shape, np.inf)
    for i, matrix in enumerate(hessian):
        size = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
        # With a unit diagonal, the smallest eigenvalue shows whether some combination of parameters is not determined.
        if np.linalg.eigvalsh(matrix / np.outer(size, size))[0] > 1e-9:
            found[i] = np.linalg.inv(matrix)
    return found


def describe_estimates(
    parameters: Sequence[Parameter],
    z: Float[np.ndarray, " parameters"],
    ends: Float[np.ndarray, "parameters 2"],
    identified: Bool[np.ndarray, " parameters"],
) -> pd.DataFrame:
    """One row for each parameter, in its own units: parameter, value, low, high, identified."""
    rows = [[p.name, *(float(p.value(jnp.asarray(x))) for x in (z[i], *ends[i]))] for i, p in enumerate(parameters)]
    return pd.DataFrame(rows, columns=["parameter", "value", "low", "high"]).assign(identified=identified)


def describe_likelihoods(
    subjects: list[Any], value: np.ndarray, decisions: np.ndarray, parameters: int
) -> pd.DataFrame:
    """Log-likelihood, AIC and BIC of each subject. BIC counts decisions."""
    return pd.DataFrame(
        {
            "subject": subjects,
            "log_likelihood": value,
            "decisions": decisions.astype(int),
            "parameters": parameters,
            "aic": 2 * parameters - 2 * value,
            "bic": parameters * np.log(decisions) - 2 * value,
        }
    )
