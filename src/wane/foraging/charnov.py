"""The marginal value theorem in Charnov's own form (1976), and the best times to leave in a task.

An environment has one long-run rate of reward ρ, travel included, and the best forager leaves every patch when the
patch pays less than ρ: g_k'(t_k) = ρ with ρ = Σ p_k g_k(t_k) / (Σ p_k t_k + τ). `continuous_leaving_times` solves this
for gain curves g_k(t) in continuous time. `optimal_harvests` solves it for harvests in discrete time, with or without
discounting (`wane.foraging.renewal` has the equations). For the rats of Kane et al. (2019):

    >>> from wane.foraging.example import rats_task
    >>> table = optimal_harvests(rats_task())
    >>> table[["environment", "kind", "harvests"]].values.tolist()[:3]
    [['rich', 'low', 1], ['rich', 'middle', 3], ['rich', 'high', 7]]
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from scipy import optimize

from wane.foraging.decisions import TaskArrays, task_arrays
from wane.foraging.discounting import Discount, Exponential
from wane.foraging.door import Above, at_the_door
from wane.foraging.recording import Recording, mapped_labels
from wane.foraging.renewal import best_rate, surplus_of_staying
from wane.foraging.task import Task
from wane.foraging.visits import PatchVisits
from wane.settings import Count
from wane.types import Real

ROUNDING = 1e-12
"""Relative differences below this number are rounding errors. At a tie the forager stays."""


def preferences(task: Task, discount: Discount | None = None) -> Float[np.ndarray, "environments kinds harvests"]:
    """How much more leaving is worth than staying after n = 1, 2, … harvests, in units of reward."""
    discount = Exponential() if discount is None else discount
    with jax.enable_x64(True):
        weights, rates = (jnp.asarray(np.asarray(each, float)) for each in discount.planners())
        staying = _staying(task_arrays(task), rates)
        worth = np.asarray(jnp.tensordot(weights, staying, 1))[..., 1:]
    next_reward = np.pad(task.curve, ((0, 0), (0, 1)))[:, 1:]
    return -worth - float(discount.impatient) * next_reward


@jax.jit
def _staying(task: TaskArrays, rates: Array) -> Array:
    """How much more staying is worth than leaving: (planners, environments, kinds, harvests)."""

    def solve(rate: Array, away: Array) -> Array:
        rho = best_rate(task.curve, task.weights, task.harvest, away, rate)
        return surplus_of_staying(task.curve, rho, task.harvest, away, rate)

    return jax.vmap(jax.vmap(solve, (None, 0)), (0, None))(rates, jnp.asarray(task.away))


@at_the_door
def long_run_rate(task: Task, environment: Any, harvests: Mapping[Any, Real]) -> float:
    """The long-run reward per unit of time in `environment` if each kind is left after `harvests[kind]` harvests.

    Harvests beyond the end of a curve take their time and pay nothing. Raises ValueError for an unknown environment,
    and for a kind without a number of harvests.
    """
    if environment not in task.environments:
        raise ValueError(
            f"the task has no environment {environment!r}: name one of {', '.join(map(repr, task.environments))}"
        )
    away = task.away[task.environments.index(environment)]
    for kind in task.kinds:
        if kind not in harvests or not 0 <= harvests[kind] < np.inf:
            raise ValueError(
                f"harvests of kind {kind!r} are {harvests.get(kind, 'missing')}: give a number of at least 0 for each "
                "kind of the task"
            )
    counts = np.array([harvests[kind] for kind in task.kinds], float)
    total = np.concatenate([np.zeros((len(counts), 1)), np.cumsum(task.curve, 1)], 1)
    # The gain is interpolated between whole numbers of harvests, because a mean need not be whole.
    paid = np.array([np.interp(n, np.arange(len(row)), row) for n, row in zip(counts, total, strict=True)])
    return float(task.weights @ paid / (task.weights @ counts * float(task.harvest) + away))


@at_the_door
def optimal_harvests(task: Task, discount: Discount | None = None) -> pd.DataFrame:
    """After how many harvests it is best to leave each kind of patch in each environment.

    `discount` is None for the largest long-run rate of reward (Charnov), or a `Discount` such as `Exponential`. The
    columns are environment, kind, harvests, time (in the patch, handling included), and rate, the long-run rate of
    reward of this forager. If it would stay to the end of the longest curve, harvests is the length of that curve.
    """
    leaves = preferences(task, discount) > ROUNDING * np.abs(task.curve).max()
    first = np.where(leaves.any(2), leaves.argmax(2) + 1, task.longest)
    rows = []
    for environment, counts in zip(task.environments, first, strict=True):
        chosen = dict(zip(task.kinds, counts.tolist(), strict=True))
        rate = long_run_rate(task, environment, chosen)
        for kind, count in chosen.items():
            time = float(task.handling) + count * float(task.harvest)
            rows.append(dict(environment=environment, kind=kind, harvests=count, time=time, rate=rate))
    return pd.DataFrame(rows)


@at_the_door
def harvests_beside_optimum(data: PatchVisits, discount: Discount | None = None) -> pd.DataFrame:
    """Observed and optimal harvests, for each environment and kind.

    `observed` is the mean over animals of each animal's mean, `se` its standard error over animals (missing for one
    animal), and `difference` is observed minus optimal. Visits that the experiment ended are left out; `censored` is
    their number. `share` is the long-run rate at the mean observed harvests, as a fraction of `best_rate`.
    """
    best = optimal_harvests(data.task, discount).rename(columns={"harvests": "optimal", "rate": "best_rate"})
    table, keys = data.table, ["environment", "kind"]
    free = table[~table["censored"]]
    means = free.groupby([*keys, "subject"], sort=False)["harvests"].mean().groupby(level=keys)
    found = pd.DataFrame({"observed": means.mean(), "se": means.std(ddof=1) / np.sqrt(means.size())})
    found["visits"] = free.groupby(keys).size()
    found["censored"] = table.groupby(keys)["censored"].sum().reindex(found.index).astype(int)
    result = best.drop(columns="time").merge(found.reset_index(), on=keys, how="left")
    result["difference"] = result["observed"] - result["optimal"]
    rates = {}
    for environment, group in result.groupby("environment", sort=False):
        known = group["observed"].notna().all()
        mean = dict(zip(group["kind"], group["observed"], strict=True))
        rates[environment] = long_run_rate(data.task, environment, mean) if known else np.nan
    result["share"] = result["environment"].map(rates) / result["best_rate"]
    order = [
        "environment",
        "kind",
        "optimal",
        "observed",
        "se",
        "difference",
        "visits",
        "censored",
        "best_rate",
        "share",
    ]
    return result[order]


@at_the_door
def continuous_leaving_times(
    gain: Mapping[Any, Callable[[float], float]],
    travel: Mapping[Any, Real],
    *,
    longest: Above,
    chances: Mapping[Any, Real] | None = None,
) -> pd.DataFrame:
    """The best time to leave each kind of patch in each environment, for gain curves over continuous time.

    `gain[kind](t)` is the total that a patch has paid after the time t; times up to `longest` are searched. Handling
    times need no setting: the curve is flat or zero until they are over. The columns are environment, kind, time and
    rate. Raises ValueError if a number makes no sense, or if a gain is not finite.

        >>> table = continuous_leaving_times({"oak": lambda t: t / (t + 4)}, {"wood": 9.0}, longest=100.0)
        >>> round(float(table["time"][0]), 6)  # √(4 · 9)
        6.0
    """
    # The task checks travel times and chances; what its patches pay is not used.
    task = Task({kind: [0.0] for kind in gain}, travel, chances=chances)
    weights, rows = task.weights, []
    for environment, away in travel.items():
        times, rho = np.zeros(len(gain)), -np.inf
        for _ in range(200):
            paid = sum(w * float(g(t)) for w, g, t in zip(weights, gain.values(), times, strict=True))
            duration = float(weights @ times) + float(away)
            improved = paid / duration if duration > 0 else 0.0
            if improved <= rho + 1e-13 * abs(rho):
                break
            rho = improved
            times = np.array([_best_time(curve, rho, float(longest)) for curve in gain.values()])
        rows += [dict(environment=environment, kind=k, time=t, rate=rho) for k, t in zip(gain, times, strict=True)]
    return pd.DataFrame(rows)


def _best_time(gain: Callable[[float], float], rho: float, longest: float) -> float:
    """The time with the largest g(t) − ρt: the best of 2,001 times, then refined between its neighbours."""
    grid = np.linspace(0.0, longest, 2001)
    value = np.array([float(gain(t)) for t in grid]) - rho * grid
    if not np.isfinite(value).all():
        raise ValueError(
            f"a gain curve is {value[~np.isfinite(value)][0]} at some time up to {longest}: give finite gains"
        )
    i = int(value.argmax())
    low, high = grid[max(i - 1, 0)], grid[min(i + 1, 2000)]
    found = optimize.minimize_scalar(
        lambda t: rho * t - float(gain(t)), bounds=(low, high), method="bounded", options={"xatol": 1e-10 * longest}
    )
    # The refinement never returns an end point of its interval, but the best time may be one.
    return float(found.x) if -found.fun > value[i] else float(grid[i])


@at_the_door
def gain_curve(recording: Recording, kinds: Mapping[Any, Any] | None = None) -> pd.DataFrame:
    """What a patch of each kind pays at each step of a visit, averaged over the visits that reached the step.

    The columns are kind, step, reward, se (its standard error, missing for one visit), visits, and gain, the sum of the
    rewards so far. Steps before the first prey are included; they pay nothing, and make up the handling time.
    """
    steps = recording.steps
    site = steps["site"]
    start = (site.ne(site.shift()) | steps["episode"].ne(steps["episode"].shift())) & site.notna()
    inside = steps[site.notna()].assign(visit=start.cumsum())
    inside["step"] = inside.groupby("visit").cumcount() + 1
    inside["kind"] = mapped_labels(inside["site"].rename("patch"), kinds, "kind")
    grouped = inside.groupby(["kind", "step"], sort=True)["reward"]
    found = grouped.agg(reward="mean", se="sem", visits="size").reset_index()
    return found.assign(gain=found.groupby("kind")["reward"].cumsum())


@at_the_door
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
