"""Fits how a patch wears off to noisy or sparse rewards: finds the curve and its parameter, with intervals.

The n-th harvest of a visit to a patch of kind k pays r̄_k f(n − 1) on average, where f is a curve over visits. Counts
of prey have a Poisson distribution; other amounts have a normal one, with one standard deviation. A regression of each
reward on the one before does not find λ: noise in the regressor pulls the estimate towards 0, and sums over trials hide
where visits begin. Here every reward is compared with its own mean.

    >>> rows = pd.DataFrame({"step": [1, 2, 3, 1, 2, 3], "reward": [8.0, 4.1, 2.0, 8.1, 3.9, 2.0]})
    >>> found = fit_depletion(rows, noise="normal")
    >>> round(float(found.estimates.set_index("parameter").loc["lam", "value"]), 2)
    0.5
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from scipy import stats

from wane.depletion import Diminishing, Geometric, Hyperbolic, PowerLaw
from wane.foraging.arguments import Level, check_arguments, old_arguments
from wane.foraging.fitting import describe_estimates
from wane.foraging.leaving import find_stays
from wane.foraging.models import Parameter, typical_point
from wane.foraging.newton import LARGEST, minimise_from
from wane.foraging.recording import Recording, mapped_labels
from wane.foraging.sources import (
    ColumnNames,
    Source,
    as_numbers,
    column_names,
    listed,
    pick,
    read_table,
    require_labels,
    shown,
)
from wane.foraging.task import Task
from wane.names import unknown
from wane.settings import Count

COLUMNS: ColumnNames = {"reward": "reward", "step": "step", "kind": None}
"""What the columns of a table of rewards are called, unless the caller says otherwise."""
Noise = Literal["poisson", "normal"]


class CurveKind(NamedTuple):
    """A family of curves with one parameter."""

    make: Callable[[Any], Diminishing]
    parameter: Parameter


CURVES = {
    "geometric": CurveKind(Geometric, Parameter("lam", 0.0, 1.0, 0.7)),
    "hyperbolic": CurveKind(Hyperbolic, Parameter("k", 0.0, np.inf, 0.5)),
    "power-law": CurveKind(PowerLaw, Parameter("p", 0.05, np.inf, 1.0)),
}
"""The curves that can be fitted."""


@dataclass(frozen=True, repr=False)
class DepletionFit:
    """A curve that was fitted to rewards."""

    curve: str
    noise: Noise
    estimates: pd.DataFrame
    """One row for each parameter: the curve's, the first reward of each kind, and for normal noise its deviation."""
    log_likelihood: float
    aic: float

    def __repr__(self) -> str:
        values = [f"{name} = {x:.3g}" for name, x in self.estimates[["parameter", "value"]].itertuples(index=False)]
        fit = f"log-likelihood {self.log_likelihood:.2f}"
        return f"DepletionFit({self.curve} with {self.noise} noise: {listed(values)}, {fit})"

    @property
    def depletion(self) -> Diminishing:
        """The fitted curve, for everything in the package that takes a depletion."""
        return CURVES[self.curve].make(float(self.estimates["value"].iloc[0]))


@old_arguments("columns", dict, *COLUMNS)
@check_arguments
def fit_depletion(
    source: Source,
    *,
    curve: str = "geometric",
    noise: Noise,
    columns: ColumnNames | None = None,
    level: Level = 0.95,
    separator: str = ",",
) -> DepletionFit:
    """Fits the curve along which patches wear off, by maximum likelihood with profile intervals.

    One row of the table is one harvest of a fresh patch: which harvest of the visit it was (`step`, from 1), what it
    paid (`reward`), and the `kind` of the patch if kinds differ in their first reward. `columns` says what these are
    called in the table; step and reward are called so by default, and there is one kind. `noise` is required: "poisson"
    for counts, "normal" for amounts. Raises ValueError for wrong entries; the message names the row and the cure.
    """
    if curve not in CURVES:
        raise unknown("curve", curve, CURVES)
    names = column_names(columns, COLUMNS)
    table, where = read_table(source, separator, labels=[names["kind"]])
    table = pick(table, names, "the table of rewards")
    paid = as_numbers(table["reward"], where, "a reward, a finite number")
    count = as_numbers(table["step"], where, "the number of the harvest in its visit, 1 or more")
    bad_count = (paid < 0) | (paid != np.floor(paid)) if noise == "poisson" else np.zeros(len(paid), bool)
    for wrong, name, cure in (
        ((count < 1) | (count != np.floor(count)), "step", "give the number of the harvest in its visit, 1, 2, …"),
        (bad_count, "reward", 'give a count, a whole number of at least 0, or pass noise="normal" for amounts'),
    ):
        if wrong.any():
            i = int(wrong.argmax())
            raise ValueError(f"{name} is {shown(table[name], i)} in {where(i)}: {cure}")
    if len(np.unique(count)) < 2:
        raise ValueError(
            "all rewards are of the same harvest of a visit, so nothing tells how they wear off: add rewards of later "
            'harvests, or name the column that numbers the harvests, columns={"step": "…"}'
        )
    code, labels = np.zeros(len(table), int), ["all"]
    if names["kind"] is not None:
        require_labels(table["kind"], where)
        code, labels = pd.factorize(table["kind"])
    return _fit(curve, noise, paid, count, code, list(labels), level)


def _fit(
    curve: str,
    noise: Noise,
    paid: Float[np.ndarray, " rows"],
    count: Float[np.ndarray, " rows"],
    code: np.ndarray,
    labels: Sequence[Any],
    level: float,
) -> DepletionFit:
    """Fits a curve to rewards that were checked."""
    size = float(max(np.abs(paid).max(), 1e-12))
    names = [CURVES[curve].parameter, *(Parameter(f"first_{label}", 0.0, np.inf, size) for label in labels)]
    names += [Parameter("deviation", 0.0, np.inf, 0.2 * size)] * (noise == "normal")
    with jax.enable_x64(True):
        rows = jnp.asarray(paid), jnp.asarray(count), jnp.asarray(code)

        def aim(z: Array) -> Array:
            return -_log_likelihood(curve, noise, [p.value(z[i]) for i, p in enumerate(names)], rows)

        spread = jnp.array([-2.0, -1.0, 0.0, 1.0, 2.0])[:, None] * (jnp.arange(len(names)) == 0)
        best, ends = jax.jit(partial(minimise_from, aim))(typical_point(names) + spread, stats.chi2.ppf(level, 1) / 2)
        z, ends = np.asarray(best.z), np.asarray(ends)
        identified = np.isfinite(ends).all(1) & (np.abs(z) < LARGEST - 1e-6)
        table = describe_estimates(names, z, ends, identified)
    value = -float(best.value)
    return DepletionFit(curve, noise, table, value, 2 * len(names) - 2 * value)


def _log_likelihood(curve: str, noise: str, values: Sequence[Any], rows: Any) -> Array:
    """The log-probability of the rewards; `values` are the curve's parameter, first rewards, and the deviation."""
    paid, count, code = rows
    worth = CURVES[curve].make(values[0]).worth(count - 1)
    if noise == "poisson":
        mean = jnp.stack(values[1:])[code] * worth
        return jnp.sum(paid * jnp.log(mean) - mean - jax.scipy.special.gammaln(paid + 1))
    mean = jnp.stack(values[1:-1])[code] * worth
    return jnp.sum(jax.scipy.stats.norm.logpdf(paid, mean, values[-1]))


def compare_depletions(source: Source, *, curves: Sequence[str] = tuple(CURVES), **settings: Any) -> pd.DataFrame:
    """The curves by their AIC, the best first. The settings are those of `fit_depletion`."""
    curves = [curves] if isinstance(curves, str) else curves
    if not curves:
        raise ValueError(f"the list of curves is empty: name one at least, {', '.join(CURVES)}")
    for curve in curves:
        if curve not in CURVES:
            raise unknown("curve", curve, CURVES)
    found = [fit_depletion(source, curve=curve, **settings) for curve in curves]
    rows = [
        {"curve": each.curve, "log_likelihood": each.log_likelihood, "aic": each.aic}
        | each.estimates.iloc[0][["parameter", "value", "low", "high"]].to_dict()
        for each in found
    ]
    table = pd.DataFrame(rows).sort_values("aic", ignore_index=True)
    return table.assign(delta_aic=table["aic"] - table["aic"].min())


@check_arguments
def gain_curve(recording: Recording, kinds: Mapping[Any, Any] | None = None) -> pd.DataFrame:
    """What a patch of each kind pays at each step of a visit, averaged over the visits that reached the step.

    The columns are kind, step, reward, se (its standard error, missing for one visit), visits, and gain, the sum of the
    rewards so far. Steps before the first prey are included; they pay nothing, and make up the handling time.
    """
    steps = recording.steps
    session = steps.groupby(["subject", "episode"], sort=False).ngroup().to_numpy()
    length = find_stays(session, pd.factorize(steps["site"])[0]).steps
    inside = steps[steps["site"].notna()].copy()
    inside["step"] = np.concatenate([np.arange(1, count + 1) for count in length])
    inside["kind"] = mapped_labels(inside["site"].rename("patch"), kinds, "kind")
    grouped = inside.groupby(["kind", "step"], sort=True)["reward"]
    found = grouped.agg(reward="mean", se="sem", visits="size").reset_index()
    return found.assign(gain=found.groupby("kind")["reward"].cumsum())


@check_arguments
def estimate_task(
    recording: Recording,
    *,
    kinds: Mapping[Any, Any] | None = None,
    environments: Mapping[Any, Any] | None = None,
    fewest: Count = 5,
) -> Task:
    """Estimates a task from a recording: the mean reward at each step of a visit, and the mean travel times.

    Steps that fewer than `fewest` visits reached are left out of the curves, because their means are noise. All
    sessions are one environment, unless `environments` maps each session to an environment. Raises ValueError if there
    is too little data.
    """
    curve = gain_curve(recording, kinds)
    rewards = {}
    for kind, group in curve.groupby("kind", sort=False):
        enough = group["visits"].to_numpy() >= fewest
        if not enough[0]:
            raise ValueError(
                f"kind {kind!r} has {group['visits'].iloc[0]} visits, at least {fewest} are needed: lower fewest"
            )
        rewards[kind] = group["reward"].to_numpy()[: len(enough) if enough.all() else int(np.argmin(enough))]
    visits = recording.visits
    label = (
        pd.Series("all", visits.index)
        if environments is None
        else mapped_labels(visits["session"], environments, "environment")
    )
    travel = visits.groupby(label)["travel"].mean()
    for environment, time in travel.items():
        if np.isnan(time):
            raise ValueError(
                f"environment {environment!r} has no travel from one patch to another: give it a second visit"
            )
    return Task(rewards, travel.to_dict(), harvest=recording.step)
