"""When the marginal value theorem would leave: the paper's rule (appendix H.2), for any trajectory table.

In a site at step t = 0, 1, … of an episode, having just received r(s_t), leave if the next reward by staying is below
what an average step brings:

    leave at t  if  λ r(s_t) < θ_t,      R = E Σ_u γᵘ r_u,   R_t = Σ_{u ≤ t} γᵘ r_u,   T steps in an episode

    form="paper"        θ_t = (R − R_t) / (γ^(t+1) T)
    form="literal"      θ_t = (R − R_t) / T
    form="corrected"    θ_t = (R − R_t) / Σ_{t < u < T} γᵘ,      which is (R − R_t) / (T − t − 1) for γ = 1

For γ = 1 the first two are the printed rule. For γ < 1 the paper says of its "discounted MVT" only that R and R_t weigh
rewards by powers of γ, as in Wispinski et al. (2023). "literal" is just that: a reward of today against an average in
units of time 0, so that staying looks better and better as time goes by. The default weighs the next reward alike,
γ^(t+1) λ r(s_t) < (R − R_t) / T; a common power of γ, as from counting time from 1, then drops out.

Where we differ: the printed θ_t divides what is still to come by the whole of T, though only T − t − 1 steps are left
to get it in. "corrected" divides by these. The printed one is too low by the factor 1 − (t + 1)/T, and the rule stays
too long late in an episode.

When the rule holds at no step of a bout, what staying on would have paid is extrapolated with λ until it does, or until
the episode ends (`mvt_censored`).
"""

from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from wane.foraging.curves import Curves, make_curves
from wane.foraging.leaving import Stays, describe, stays
from wane.foraging.trajectory import Columns, check_table, episode_numbers, group_columns, time_step
from wane.mdp import check_discount

Form = Literal["paper", "literal", "corrected"]
FORMS = ("paper", "literal", "corrected")
ROUNDING = 1e-12
"""differences below this fraction are rounding: a tie is no reason to leave"""


def threshold(average: Any, received: Any, step: Any, horizon: Any, discount: float = 1.0, form: Form = "paper") -> Any:
    """θ_t at step t = 0, 1, …: leave when the next reward by staying is less. With no step left it is −∞.

    >>> threshold(average=6.0, received=1.0, step=1, horizon=50).item()
    0.1
    """
    average, received, step, horizon = (np.asarray(a, float) for a in (average, received, step, horizon))
    weight = discount ** (step + 1)
    if form == "literal":
        weight = horizon
    elif form == "paper":
        weight = weight * horizon
    else:
        left = np.maximum(horizon - step - 1, 0)
        weight = weight * (left if discount == 1 else (1 - discount**left) / (1 - discount))
    coming = average - received
    coming = np.where(np.abs(coming) <= ROUNDING * np.abs(average), 0.0, coming)
    coming, weight = np.broadcast_arrays(coming, weight)
    return np.divide(coming, weight, out=np.full(coming.shape, -np.inf), where=weight > 0)


def mvt_leaving_times(
    table: pd.DataFrame,
    lam: Any,
    *,
    discount: float = 1.0,
    horizon: float | None = None,
    average: float | None = None,
    rewards: Any = None,
    by: Columns = (),
    form: Form = "paper",
) -> pd.DataFrame:
    """When the marginal value theorem would have left in each bout of a table, beside when the agent did.

    - `lam`: what a step at a site leaves of its reward: λ, a `wane.Diminishing` curve over visits, one of these for
      each site (a dictionary), or a list of λ for sites that are numbered 0, 1, ….
    - `discount`: γ per step; 1 is the ordinary theorem.
    - `horizon`: T in steps. By default the mean length of the episodes, so that R / T is the rate over all of them.
    - `average`: R. By default the mean over the episodes of the table.
    - `rewards`: r̄ of the sites, one number or a dictionary. By default the next reward is judged from the last one,
      see `wane.foraging.curves`; give r̄ if rewards come and go by chance.
    - `by`: columns that tell apart episodes with the same number, as `["distance", "seed"]`. R and T are averaged
      within each of their groups.
    - `form`: which θ_t, see `wane.foraging.mvt`.

    Returned are the `bouts`, with `mvt` (a time), `mvt_steps` and `mvt_censored` (it would stay to the episode's end).
    """
    table = check_table(table, by=by)
    rule = _rule(table, lam, discount, horizon, average, rewards, by, form)
    steps, censored = rule.first_leaving()
    return describe(table, by).assign(
        mvt=rule.time_after(np.arange(len(steps)), steps), mvt_steps=steps, mvt_censored=censored
    )


def marginal_values(table: pd.DataFrame, lam: Any, *, beyond: int = 2, **settings: Any) -> pd.DataFrame:
    """What the rule compares, step by step: the next reward by staying and θ_t; settings as in `mvt_leaving_times`.

    Each bout is followed until `beyond` steps after both the agent and the rule have left, or until the episode ends;
    where the agent was gone already (`observed` is false), the reward is what staying would have paid.
    """
    by = settings.get("by", ())
    found = mvt_leaving_times(table, lam, **settings)
    rule = _rule(check_table(table, by=by), lam, **settings)
    stayed = found["steps"].to_numpy()
    until = np.maximum(stayed, found["mvt_steps"].to_numpy()) + beyond
    parts, now = [], rule.arrive()
    while len(now.bout):
        after, limit, ends = rule.compare(now)
        seen = now.stayed < stayed[now.bout]
        parts.append(
            pd.DataFrame(
                dict(
                    row=now.bout,
                    step=now.stayed + 1,
                    time=rule.time_after(now.bout, now.stayed + 1),
                    observed=seen,
                    reward=now.paid,
                    next_reward=after,
                    threshold=limit,
                )
            )
        )
        now = rule.stay_on(now, after, ~ends & (now.stayed + 1 < until[now.bout]))
    if not parts:
        raise ValueError("no step of the table is at a site: is the column `site` empty everywhere?")
    long = pd.concat(parts).sort_values(["row", "step"], kind="stable")
    labels = found[[*group_columns(by), "episode", "bout", "site"]].iloc[long["row"]]
    return pd.concat([labels.reset_index(drop=True), long.drop(columns="row").reset_index(drop=True)], axis=1)


class _Walk(NamedTuple):
    """What the rule has to know of every row of a table."""

    time: np.ndarray
    reward: np.ndarray
    step: np.ndarray
    """t"""
    size: np.ndarray
    """steps of its episode"""
    visits: np.ndarray
    """to its site in this episode, this one included"""
    received: np.ndarray
    """R_t"""
    average: np.ndarray
    """R"""
    horizon: np.ndarray
    """T"""


class _Now(NamedTuple):
    """Bouts that go on, after so many steps beyond the first."""

    bout: np.ndarray
    stayed: int
    paid: np.ndarray
    """r(s_t), seen or extrapolated"""
    received: np.ndarray
    """R_t, likewise"""


class _Rule(NamedTuple):
    walk: _Walk
    at: Stays
    site: np.ndarray
    """which of the curves each bout has"""
    curves: Curves
    discount: float
    form: Form
    time_step: float

    def arrive(self) -> _Now:
        first = self.at.first
        return _Now(np.arange(len(first)), 0, self.walk.reward[first], self.walk.received[first])

    def compare(self, now: _Now) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The next reward by staying, θ_t, and whether this is the last step of the episode."""
        walk, row = self.walk, self.at.first[now.bout]
        step = walk.step[row] + now.stayed
        after = self.curves.next_reward(self.site[now.bout], now.paid, walk.visits[row] + now.stayed)
        limit = threshold(walk.average[row], now.received, step, walk.horizon[row], self.discount, self.form)
        return after, limit, step + 1 == walk.size[row]

    def stay_on(self, now: _Now, after: np.ndarray, which: np.ndarray) -> _Now:
        """One step later, with some of the bouts: the agent's own step if it stayed, else what it would have been."""
        bout, after, received, stayed = now.bout[which], after[which], now.received[which], now.stayed + 1
        row = np.minimum(self.at.first[bout] + stayed, self.at.last[bout])
        seen = row == self.at.first[bout] + stayed
        weight = self.discount ** (self.walk.step[self.at.first[bout]] + stayed)
        return _Now(
            bout,
            stayed,
            np.where(seen, self.walk.reward[row], after),
            np.where(seen, self.walk.received[row], received + weight * after),
        )

    def first_leaving(self) -> tuple[np.ndarray, np.ndarray]:
        """Steps until the rule leaves, for each bout, and whether the episode ends before it does."""
        now = self.arrive()
        steps, censored = np.zeros(len(now.bout), int), np.zeros(len(now.bout), bool)
        while len(now.bout):
            after, limit, ends = self.compare(now)
            goes = after < limit - ROUNDING * np.abs(limit)
            steps[now.bout], censored[now.bout] = now.stayed + 1, ends & ~goes
            now = self.stay_on(now, after, ~(goes | ends))
        return steps, censored

    def time_after(self, bout: np.ndarray, steps: Any) -> np.ndarray:
        """When the n-th step of a bout was, or would have been if the agent had stayed."""
        row = self.at.first[bout] + steps - 1
        beyond = np.maximum(row - self.at.last[bout], 0)
        return self.walk.time[row - beyond] + beyond * self.time_step


def _rule(
    table: pd.DataFrame,
    lam: Any,
    discount: float = 1.0,
    horizon: float | None = None,
    average: float | None = None,
    rewards: Any = None,
    by: Columns = (),
    form: Form = "paper",
) -> _Rule:
    """The rule with the R, T and λ of a checked table."""
    discount = float(check_discount(discount))
    if form not in FORMS:
        raise ValueError(f"form is one of {', '.join(FORMS)}, got {form!r}")
    walk, at = _walk(table, by, discount, horizon, average), stays(table, by)
    site, labels = pd.factorize(table["site"].iloc[at.first])
    curves = make_curves(lam, rewards, labels.tolist(), int(walk.size.max()))
    return _Rule(walk, at, site, curves, discount, form, time_step(table, by))


def _walk(table: pd.DataFrame, by: Columns, discount: float, horizon: float | None, average: float | None) -> _Walk:
    episode = episode_numbers(table, by)
    step = table.groupby(episode).cumcount().to_numpy()
    worth = table["reward"] * discount**step
    size = np.bincount(episode)
    if horizon is not None and not size.max() <= horizon < np.inf:
        raise ValueError(
            f"horizon {horizon} is below the {size.max()} steps of the longest episode: T counts all of them"
        )
    if average is not None and not np.isfinite(average):
        raise ValueError(f"average is R, a finite number, got {average}")
    group = table.groupby(group_columns(by), sort=False).ngroup().to_numpy() if by else np.zeros(len(table), int)
    episodes = pd.DataFrame({"total": worth.groupby(episode).sum(), "size": size})
    means = episodes.groupby(group[step == 0]).mean().to_numpy()[group].T
    return _Walk(
        table["time"].to_numpy(),
        table["reward"].to_numpy(),
        step,
        size[episode],
        table.groupby([episode, pd.factorize(table["site"])[0]]).cumcount().to_numpy() + 1,
        worth.groupby(episode).cumsum().to_numpy(),
        means[0] if average is None else np.full(len(table), float(average)),
        means[1] if horizon is None else np.full(len(table), float(horizon)),
    )
