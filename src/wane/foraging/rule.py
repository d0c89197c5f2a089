"""When the marginal value theorem would leave: Charnov's rule and the paper's (appendix H.2), for trajectory tables.

In a site at step t = 0, 1, … of an episode, having just received r(s_t), leave if the next reward by staying is below
what an average step brings:

    leave at t  if  λ r(s_t) < θ_t,      R = E Σ_u γᵘ r_u,   R_t = Σ_{u ≤ t} γᵘ r_u,   T steps in an episode

    rule="charnov"      θ_t = R / Σ_{u < T} γᵘ,      which is R / T for γ = 1: one rate for the whole environment
    rule="paper"        θ_t = (R − R_t) / (γ^(t+1) T)
    rule="literal"      θ_t = (R − R_t) / T
    rule="corrected"    θ_t = (R − R_t) / Σ_{t < u < T} γᵘ,      which is (R − R_t) / (T − t − 1) for γ = 1

The default is Charnov's own rule (1976): the long-run rate of reward, travel included. It holds where there is always
another patch. The other three are the paper's rule for an episode that ends. For γ = 1 "paper" and "literal" are the
printed rule. For γ < 1 the paper says of its "discounted MVT" only that R and R_t weigh rewards by powers of γ, as in
Wispinski et al. (2023). "literal" does just that. It compares an undiscounted next reward with an average that is
discounted to time 0, so staying looks better and better as time goes by. "paper" weighs the next reward in the same
way, γ^(t+1) λ r(s_t) < (R − R_t) / T. Counting time from 1 would multiply both sides by γ and change nothing.

Where we differ: the printed θ_t divides the rewards that are still to come by all T steps, but only T − t − 1 steps
remain to collect them. "corrected" divides by these. The printed θ_t is too low by the factor 1 − (t + 1)/T, so the
rule stays too long late in an episode.

If the rule does not leave at any step of a bout, the rewards of staying on are extrapolated with λ until it does, or
until the episode ends (`mvt_censored`). So the difference between an agent's leaving time and the rule's is not always
exact: if the episode ends before either leaves, it is a bound, and the column `bound` says which one.
`wane.foraging.theorem` solves tasks instead: it finds the best rate itself, and needs no table.
"""

import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from wane.foraging.arguments import StepCount, check_arguments, old_arguments
from wane.foraging.curves import Curves, CurvesLike, RewardsLike, make_curves
from wane.foraging.leaving import Stays, describe, table_stays
from wane.foraging.theorem import ROUNDING
from wane.foraging.trajectory import Columns, Values, check_table, episode_numbers, group_columns, time_step
from wane.foraging.visits import Patches
from wane.mdp import check_discount
from wane.types import Scalar

RuleName = Literal["charnov", "paper", "literal", "corrected"]
BOUNDS = ("exact", "at least", "at most", "unknown")

PerRow = Float[np.ndarray, " rows"]
PerBout = Float[np.ndarray, " bouts"]
Bouts = Int[np.ndarray, " bouts"]


@old_arguments("rule", lambda form: form, "form")
@check_arguments
def threshold(
    average: Values,
    received: Values,
    step: Values,
    horizon: Values,
    discount: Scalar = 1.0,
    rule: RuleName = "charnov",
) -> Float[np.ndarray, "..."]:
    """θ_t at step t = 0, 1, …: leave if the next reward by staying is less. It is −∞ where no step remains.

    >>> threshold(average=6.0, received=1.0, step=1, horizon=50).item()
    0.12
    >>> threshold(average=6.0, received=1.0, step=1, horizon=50, rule="paper").item()
    0.1
    """
    check_discount(discount)
    total, so_far, t, T = (np.asarray(value, float) for value in (average, received, step, horizon))
    if rule == "charnov":
        weight, so_far = T if discount == 1 else (1 - discount**T) / (1 - discount), np.zeros_like(so_far)
    elif rule == "literal":
        weight = T
    elif rule == "paper":
        weight = discount ** (t + 1) * T
    else:
        # Σ_{t < u < T} γᵘ = γ^(t+1) (1 + γ + … + γ^(steps_remaining − 1)), a geometric series.
        steps_remaining = np.maximum(T - t - 1, 0)
        series = steps_remaining if discount == 1 else (1 - discount**steps_remaining) / (1 - discount)
        weight = discount ** (t + 1) * series
    to_come = total - so_far
    # R and R_t are sums in different orders. When nothing is to come, their difference is rounding of either sign,
    # which must not decide whether the rule leaves a site that pays nothing.
    to_come = np.where(np.abs(to_come) <= ROUNDING * np.abs(total), 0.0, to_come)
    to_come, weight = np.broadcast_arrays(to_come, weight)
    return np.divide(to_come, weight, out=np.full(to_come.shape, -np.inf), where=weight > 0)


@old_arguments("rule", lambda form: form, "form")
@check_arguments
def mvt_leaving_times(
    table: pd.DataFrame,
    lam: CurvesLike,
    *,
    discount: Scalar = 1.0,
    horizon: Scalar | None = None,
    average: Scalar | None = None,
    rewards: RewardsLike | None = None,
    by: Columns = (),
    rule: RuleName = "charnov",
    patches: Patches | None = None,
    handling: StepCount = 0,
) -> pd.DataFrame:
    """When the marginal value theorem would have left in each bout of a table, and when the agent did.

    - `lam`: how the reward of a site wears off: λ, a `wane.Diminishing` curve over visits, one of these for each site
      (a dictionary), or a list of λ for sites that are numbered 0, 1, ….
    - `discount`: γ per step; 1 is the ordinary theorem.
    - `horizon`: T in steps. By default the mean length of the episodes, so that R / T is the rate over all of them.
    - `average`: R. By default the mean over the episodes of the table.
    - `rewards`: r̄ of the sites, one number or a dictionary. By default the next reward is computed from the last one
      (see `wane.foraging.curves`); give r̄ if rewards are random.
    - `by`: columns that tell apart episodes with the same number, such as `["distance", "seed"]`. R and T are averaged
      within each of their groups.
    - `rule`: which θ_t, see `wane.foraging.rule`.
    - `patches`: "fresh" if every visit finds a full patch, "session" if a patch that is visited again goes on where it
      stopped. It must be given where it matters: if a patch is visited again, and the curve is not λⁿ or r̄ is given.
    - `handling`: steps at the beginning of every stay at which the rule does not leave, because prey is searched or
      handled and nothing is paid yet.

    Charnov's rule warns if it leaves at the first step in most stays, which is hardly ever right for data of animals.
    Returns the `bouts` with three more columns: `mvt` (a time), `mvt_steps`, and `mvt_censored` (the rule would stay to
    the end of the episode).
    """
    table = check_table(table, by=by)
    found = _make_rule(table, lam, discount, horizon, average, rewards, by, rule, patches, handling)
    steps, censored = found.leave()
    if rule == "charnov":  # The others are for agents in worlds, where leaving at once may well be right.
        _warn_of_early_leaving(steps, handling)
    return describe(table, by).assign(
        mvt=found.time_of(np.arange(len(steps)), steps), mvt_steps=steps, mvt_censored=censored
    )


@old_arguments("rule", lambda form: form, "form")
@check_arguments
def marginal_values(table: pd.DataFrame, lam: CurvesLike, *, beyond: StepCount = 2, **settings: Any) -> pd.DataFrame:
    """What the rule compares, step by step: the next reward by staying, and θ_t.

    Each bout is followed until `beyond` steps after both the agent and the rule have left, or until the episode ends.
    Where the agent had already left (`observed` is false), the reward is what staying would have paid. The settings are
    those of `mvt_leaving_times`. Raises ValueError if the table has no stay.
    """
    by = settings.get("by", ())
    found = mvt_leaving_times(table, lam, **settings)
    rule = _make_rule(check_table(table, by=by), lam, **settings)
    stayed = found["steps"].to_numpy()
    until = np.maximum(stayed, found["mvt_steps"].to_numpy()) + beyond
    parts = []

    def goes_on(bout: Bouts, step: int, reward: PerBout, next_reward: PerBout, theta: PerBout, _: Any) -> Any:
        columns = {"row": bout, "step": step, "time": rule.time_of(bout, step), "observed": step <= stayed[bout]}
        parts.append(pd.DataFrame(columns | {"reward": reward, "next_reward": next_reward, "threshold": theta}))
        return step < until[bout]

    rule.follow(goes_on)
    if not parts:
        raise ValueError("no step of the table is at a site: is the column `site` empty everywhere?")
    long = pd.concat(parts).sort_values(["row", "step"], kind="stable")
    labels = found[[*group_columns(by), "episode", "bout", "site"]].iloc[long["row"]]
    return pd.concat([labels.reset_index(drop=True), long.drop(columns="row").reset_index(drop=True)], axis=1)


def leaving_difference(table: pd.DataFrame, lam: CurvesLike, **settings: Any) -> pd.DataFrame:
    """The agent's leaving time minus the MVT's for each bout. The settings are those of `mvt_leaving_times`.

    Above 0 the agent stayed longer than the rule. `bound` says whether the number is exact or a bound. "exact": both
    leave within the episode. "at least": the episode ends before the agent leaves. "at most": it ends before the rule
    leaves. "unknown": it ends before either leaves.
    """
    found = mvt_leaving_times(table, lam, **settings)
    which = found["censored"].to_numpy(int) + 2 * found["mvt_censored"].to_numpy(int)
    return found.assign(difference=found["leaving"] - found["mvt"], bound=np.array(BOUNDS)[which])


@check_arguments
def summarise(
    differences: pd.DataFrame,
    *,
    by: Columns = (),
    over: Columns | None = None,
    censored: Literal["drop", "keep"] = "drop",
) -> pd.DataFrame:
    """Mean and standard error of `leaving_difference`, in each group of `by`.

    Bouts are averaged within each unit of `over` first (by default each episode). The standard error is over these
    units, because bouts of one unit are not independent: `summarise(differences, by="distance", over="seed")`. Bouts
    whose difference is only a bound are dropped; with `censored="keep"` they count as if the agent and the rule left
    when the episode ends. In both cases, the last three columns count the bouts with each kind of bound.
    """
    by = group_columns(by)
    over = _units(differences, by, over)
    rows = []
    for key, group in differences.groupby(by) if by else [((), differences)]:
        counted = group[group["bound"] == "exact"] if censored == "drop" else group
        units = counted.groupby(over)["difference"].mean() if over else counted["difference"]
        error = units.std(ddof=1) / np.sqrt(len(units)) if len(units) > 1 else np.nan
        counts = {name.replace(" ", "_"): int((group["bound"] == name).sum()) for name in BOUNDS[1:]}
        row = dict(mean=units.mean(), se=error, units=len(units), bouts=len(counted)) | counts
        rows.append(dict(zip(by, key, strict=True)) | row)
    return pd.DataFrame(rows)


def _units(differences: pd.DataFrame, by: list[str], over: Columns | None) -> list[str]:
    """The columns that tell units apart: those of `over`, or by default all that name an episode within its group."""
    if "difference" not in differences:
        raise ValueError("summarise takes what leaving_difference returns: there is no column 'difference'")
    keys = list(differences.columns[: list(differences.columns).index("bout")])
    chosen = [name for name in keys if name not in by] if over is None else group_columns(over)
    for name in [*by, *chosen]:
        if name not in keys:
            raise ValueError(
                f"no column {name!r} to group by, there are {', '.join(keys)}: pass leaving_difference by=[…]"
            )
    return chosen


class _Steps(NamedTuple):
    """What the rule has to know about every row of a table."""

    time: PerRow
    reward: PerRow
    step: Int[np.ndarray, " rows"]
    """t"""
    length: Int[np.ndarray, " rows"]
    """The number of steps of the row's episode."""
    visits: Int[np.ndarray, " rows"]
    """The visits to the row's site so far, this one included: in the stay if patches are fresh, else in the episode."""
    received: PerRow
    """R_t"""
    average: PerRow
    """R"""
    horizon: PerRow
    """T"""


class _Rule(NamedTuple):
    """The rule with its data. It is applied to all bouts of a table in parallel, one step after the other."""

    steps: _Steps
    stays: Stays
    site: Bouts
    """The row of `curves` for each bout."""
    curves: Curves
    discount: float
    rule: RuleName
    time_step: float
    handling: int

    def follow(self, goes_on: Callable[..., Bool[np.ndarray, " bouts"]]) -> None:
        """Goes through all bouts, step by step: those that `goes_on` returns stay, until their episode ends.

        `goes_on` gets the numbers of the bouts, the steps since their arrival, this one included, r(s_t), the next
        reward by staying, θ_t, and whether this is the last step of the episode.
        """
        steps, bout, elapsed = self.steps, np.arange(len(self.stays.arrival)), 0
        reward, received = steps.reward[self.stays.arrival], steps.received[self.stays.arrival]
        while len(bout):
            # What counts steps or visits is known at the arrival and grows by one with every step of staying.
            row = self.stays.arrival[bout]
            t, visits = steps.step[row] + elapsed, steps.visits[row] + elapsed
            next_reward = np.asarray(self.curves.next_reward(self.site[bout], reward, visits))
            theta = threshold(steps.average[row], received, t, steps.horizon[row], self.discount, self.rule)
            last, elapsed = t + 1 == steps.length[row], elapsed + 1
            stay = goes_on(bout, elapsed, reward, next_reward, theta, last) & ~last
            bout, row, t, next_reward, received = (each[stay] for each in (bout, row, t, next_reward, received))
            # Rows after the departure belong to another place: there the reward is extrapolated, and R_t with it.
            observed = row + elapsed <= self.stays.departure[bout]
            row = np.where(observed, row + elapsed, self.stays.departure[bout])
            reward = np.where(observed, steps.reward[row], next_reward)
            received = np.where(observed, steps.received[row], received + self.discount ** (t + 1) * next_reward)

    def leave(self) -> tuple[Bouts, Bool[np.ndarray, " bouts"]]:
        """Steps until the rule leaves, for each bout, and whether the episode ends before it does."""
        count = len(self.stays.arrival)
        steps, censored = np.zeros(count, int), np.zeros(count, bool)

        def goes_on(bout: Bouts, step: int, _: PerBout, next_reward: PerBout, theta: PerBout, last: Any) -> Any:
            leaves = (next_reward < theta - ROUNDING * np.abs(theta)) & (step > self.handling)
            steps[bout], censored[bout] = step, last & ~leaves
            return ~leaves

        self.follow(goes_on)
        return steps, censored

    def time_of(self, bout: Bouts, step: int | Bouts) -> PerBout:
        """When the n-th step of a bout was (n = 1, 2, …), or would have been if the agent had stayed."""
        row = self.stays.arrival[bout] + step - 1
        beyond = np.maximum(row - self.stays.departure[bout], 0)
        return self.steps.time[row - beyond] + beyond * self.time_step


def _make_rule(
    table: pd.DataFrame,
    lam: CurvesLike,
    discount: Scalar = 1.0,
    horizon: Scalar | None = None,
    average: Scalar | None = None,
    rewards: RewardsLike | None = None,
    by: Columns = (),
    rule: RuleName = "charnov",
    patches: Patches | None = None,
    handling: int = 0,
) -> _Rule:
    """The rule with the R, T and λ of a checked table."""
    discount = float(check_discount(discount))
    if not (patches is None or (isinstance(patches, str) and patches in ("fresh", "session"))):
        raise ValueError(
            f'patches is {patches!r}: give "fresh" or "session"; what patches that grow back pay depends on their '
            "whole past, find it with from_stays(…, patches=a Depletion)"
        )
    steps, stays = _make_steps(table, by, discount, horizon, average, patches), table_stays(table, by)
    site, labels = pd.factorize(table["site"].iloc[stays.arrival])
    curves = make_curves(lam, rewards, labels.tolist(), int(steps.length.max()))
    again = steps.visits[stays.arrival] > 1
    if patches is None and again.any() and not curves.forgets:
        raise ValueError(
            f"site {labels.tolist()[site[int(again.argmax())]]!r} is visited again: say whether every visit "
            'finds it full, patches="fresh", or as it was left, patches="session"'
        )
    return _Rule(steps, stays, site, curves, discount, rule, time_step(table, by), handling)


def _warn_of_early_leaving(steps: Bouts, handling: int) -> None:
    """Warns if the rule leaves as early as it may in most of ten or more stays."""
    early = int((steps <= handling + 1).sum())
    if len(steps) >= 10 and early > len(steps) / 2:
        warnings.warn(
            f"the rule leaves at the first step in {early} of {len(steps)} stays: are patches fresh at every visit "
            '(patches="fresh"), is nothing paid at first (handling=…), or do single rewards tell little (rewards=…)?',
            stacklevel=5,
        )


def _make_steps(
    table: pd.DataFrame,
    by: Columns,
    discount: float,
    horizon: Scalar | None,
    average: Scalar | None,
    patches: Patches | None,
) -> _Steps:
    """What the rule has to know about every row of a checked table. Raises ValueError if R or T make no sense."""
    episode = episode_numbers(table, by)
    step = table.groupby(episode).cumcount().to_numpy()
    discounted = table["reward"] * discount**step
    length = np.bincount(episode)
    if horizon is not None and not length.max() <= horizon < np.inf:
        raise ValueError(
            f"horizon is {horizon}, and the longest episode has {length.max()} steps: give a finite number that is not "
            "below it, because T counts all steps of an episode"
        )
    if average is not None and not np.isfinite(average):
        raise ValueError(f"average is {average}: give R, the mean reward of an episode, a finite number")
    # R and T are means over the episodes of a group, written back to every row of the group.
    group = table.groupby(group_columns(by), sort=False).ngroup().to_numpy() if by else np.zeros(len(table), int)
    episodes = pd.DataFrame({"total": discounted.groupby(episode).sum(), "length": length})
    mean_total, mean_length = episodes.groupby(group[step == 0]).mean().to_numpy()[group].T
    # Visits are counted in this stay if patches are fresh, otherwise in the whole episode.
    site = pd.factorize(table["site"])[0]
    stay = np.cumsum((np.diff(site, prepend=-2) != 0) | (step == 0)) if patches == "fresh" else site
    return _Steps(
        table["time"].to_numpy(),
        table["reward"].to_numpy(),
        step,
        length[episode],
        table.groupby([episode, stay]).cumcount().to_numpy() + 1,
        discounted.groupby(episode).cumsum().to_numpy(),
        mean_total if average is None else np.full(len(table), float(average)),
        mean_length if horizon is None else np.full(len(table), float(horizon)),
    )
