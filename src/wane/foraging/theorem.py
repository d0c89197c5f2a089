"""The marginal value theorem (Charnov 1976) and the exactly solved task: the best rate of reward, and when to leave.

An environment has one long-run rate of reward ρ, travel included, and the best forager leaves every patch when the
patch pays less than ρ. For gain curves g_k(t) in continuous time (`continuous_leaving_times`) that is g_k'(t_k) = ρ
with ρ = Σ p_k g_k(t_k) / (Σ p_k t_k + τ).

In a task, a patch of kind k pays r_k(i) at the end of its i-th harvest, each harvest takes h, and after n of them the
forager leaves and is away for τ. It may discount the future by e^(−st). Let a(t) = (1 − e^(−st)) / s be the annuity of
the time t, which is t itself for s = 0. With G_k(n) = Σ_{i ≤ n} e^(−sih) r_k(i), the value of arriving at a random
patch is V = ρ / s, where ρ is the rate with

    Σ_k p_k max_{n ≥ 1} [ G_k(n) − ρ a(nh + τ) ] = 0                                                            (1)

For s = 0 the ρ of (1) is the largest long-run rate of reward, and (1) is Charnov's theorem for harvests: leave when the
next harvest pays less than ρh. With discounting, too, one threshold serves all patches: the surplus of a harvest is

    x_i = e^(−sh) r_i − ρ e^(−sτ) a(h)

and leaving after n harvests is worth −S_n more than staying, where

    S_n = x_{n+1} + e^(−sh) max(0, S_{n+1})                                                                      (2)

(1) is solved by policy iteration: the best n for a ρ give a better ρ, until nothing changes, after a few rounds. All of
this is a function of JAX arrays. Its gradients are exact, because at the optimum the choice of n does not matter to
first order. The models of animals (`models`, `planners`) use the same functions. For the rats of Kane et al. (2019):

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

from wane.foraging.arguments import Above, check_arguments
from wane.foraging.decisions import TaskArrays, task_arrays
from wane.foraging.discounting import Discount, Exponential
from wane.foraging.task import Task
from wane.foraging.visits import PatchVisits
from wane.types import AnyArray, Real, Scalar

Curve = Float[AnyArray, "kinds harvests"]
ROUNDING = 1e-12
"""Relative differences below this number are rounding errors. At a tie the forager stays."""


def annuity(rate: Scalar, time: Any) -> Any:
    """(1 − e^(−rate · time)) / rate, which is the time itself for rate 0."""
    x = rate * jnp.asarray(time)
    small = jnp.abs(x) < 1e-5
    # Gradients go through both branches of `where`, so the unused branch must not divide by zero either.
    safe = jnp.where(small, 1.0, x)
    return time * jnp.where(small, 1 - x / 2 + x * x / 6, -jnp.expm1(-safe) / safe)


def gains(curve: Curve, harvest: Scalar, rate: Scalar) -> Float[Array, "kinds harvests"]:
    """G_k(n) for n = 1, 2, …"""
    count = jnp.arange(1, curve.shape[1] + 1)
    return jnp.cumsum(curve * jnp.exp(-rate * harvest * count), axis=1)


def best_rate(
    curve: Curve, weights: Float[AnyArray, " kinds"], harvest: Scalar, away: Scalar, rate: Scalar
) -> Float[Array, ""]:
    """The ρ of equation (1)."""
    gained = gains(jnp.asarray(curve), harvest, rate)
    worth = annuity(rate, harvest * jnp.arange(1, curve.shape[1] + 1) + away)

    def improve(rho: Any, gained: Any, worth: Any, weights: Any) -> Any:
        n = jnp.argmax(gained - rho * worth, axis=1)
        return jnp.sum(weights * jnp.take_along_axis(gained, n[:, None], 1)[:, 0]) / jnp.sum(weights * worth[n])

    fixed = jax.tree_util.tree_map(jax.lax.stop_gradient, (gained, worth, jnp.asarray(weights)))
    start = improve(jnp.zeros((), gained.dtype), *fixed)

    def grows(state: Any) -> Any:
        return state[1] > state[0]

    before, _ = jax.lax.while_loop(grows, lambda s: (s[1], improve(s[1], *fixed)), (start, improve(start, *fixed)))
    return improve(jax.lax.stop_gradient(before), gained, worth, jnp.asarray(weights))


def best_rates(task: TaskArrays, rate: Scalar = 0.0) -> Float[Array, " environments"]:
    """The ρ of every environment of a task."""

    def solve(weights: Any, away: Any) -> Any:
        return best_rate(task.curve, weights, task.harvest, away, rate)

    return jax.vmap(solve)(jnp.asarray(task.weights), jnp.asarray(task.away))


def surplus_of_staying(
    rewards: Float[AnyArray, "*rows harvests"], rho: Any, harvest: Scalar, away: Any, rate: Scalar
) -> Float[Array, "*rows harvests"]:
    """S_n of equation (2) for n = 0, 1, …, along the last axis of rewards; nothing is paid after its end.

    `rho` and `away` are numbers, or arrays that fit the other axes.
    """
    price = jnp.asarray(rho * jnp.exp(-rate * away) * annuity(rate, harvest))
    factor = jnp.exp(-rate * harvest)
    x = jnp.moveaxis(factor * jnp.asarray(rewards) - jnp.broadcast_to(price[..., None], rewards.shape), -1, 0)

    def back(later: Any, surplus: Any) -> tuple[Any, Any]:
        now = surplus + factor * jnp.maximum(later, 0.0)
        return now, now

    # After the end of the rewards, every harvest costs the price and pays nothing.
    last = -price * jnp.ones(x.shape[1:], x.dtype)
    return jnp.moveaxis(jax.lax.scan(back, last, x, reverse=True)[1], 0, -1)


def surpluses(task: TaskArrays, rho: Any, rate: Scalar) -> Float[Array, "environments kinds harvests"]:
    """S_n of every kind of patch in every environment, whose rates are `rho`."""
    away = jnp.asarray(task.away)
    curves = jnp.broadcast_to(task.curve, (len(away), *task.curve.shape))
    return surplus_of_staying(curves, rho[:, None], task.harvest, away[:, None], rate)


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
    return jax.vmap(lambda rate: surpluses(task, best_rates(task, rate), rate))(rates)


@check_arguments
def long_run_rate(task: Task, environment: Any, harvests: Mapping[Any, Real]) -> float:
    """The long-run reward per unit of time in `environment` if each kind is left after `harvests[kind]` harvests.

    Harvests beyond the end of a curve take their time and pay nothing. Raises ValueError for an unknown environment,
    and for a kind without a number of harvests.
    """
    if environment not in task.environments:
        raise ValueError(
            f"the task has no environment {environment!r}: name one of {', '.join(map(repr, task.environments))}"
        )
    number = task.environments.index(environment)
    away, weights = task.away[number], task.weights[number]
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
    return float(weights @ paid / (weights @ counts * float(task.harvest) + away))


@check_arguments
def optimal_harvests(task: Task, discount: Discount | None = None) -> pd.DataFrame:
    """After how many harvests it is best to leave each kind of patch in each environment.

    `discount` is None for the largest long-run rate of reward (Charnov), or a `Discount` such as `Exponential`. The
    columns are environment, kind, harvests, time (in the patch, handling included), and rate, the long-run rate of
    reward of this forager. If it would stay to the end of the longest curve, harvests is the length of that curve.
    """
    leaves = preferences(task, discount) > ROUNDING * np.abs(task.curve).max()
    first = np.where(leaves.any(2), leaves.argmax(2) + 1, task.longest)
    rows = []
    for environment, handling, counts in zip(task.environments, task.handling_times, first, strict=True):
        chosen = dict(zip(task.kinds, counts.tolist(), strict=True))
        rate = long_run_rate(task, environment, chosen)
        for kind, count in chosen.items():
            time = float(handling) + count * float(task.harvest)
            rows.append(dict(environment=environment, kind=kind, harvests=count, time=time, rate=rate))
    return pd.DataFrame(rows)


@check_arguments
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
    order = "environment kind optimal observed se difference visits censored best_rate share"
    return result[order.split()]


@check_arguments
def continuous_leaving_times(
    gain: Mapping[Any, Callable[[float], float]],
    travel: Mapping[Any, Real],
    *,
    longest: Above,
    chances: Mapping[Any, Any] | None = None,
) -> pd.DataFrame:
    """The best time to leave each kind of patch in each environment, for gain curves over continuous time.

    `gain[kind](t)` is the total that a patch has paid after the time t; times up to `longest` are searched. Handling
    times need no setting: the curve is flat or zero until they are over. `chances` are those of a `Task`. The columns
    are environment, kind, time and rate. Raises ValueError if a number makes no sense, or if a gain is not finite.

        >>> table = continuous_leaving_times({"oak": lambda t: t / (t + 4)}, {"wood": 9.0}, longest=100.0)
        >>> round(float(table["time"][0]), 6)  # √(4 · 9)
        6.0
    """
    # The task checks travel times and chances; what its patches pay is not used.
    task = Task({kind: [0.0] for kind in gain}, travel, chances=chances)
    rows = []
    for (environment, away), weights in zip(travel.items(), task.weights, strict=True):
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
