"""Three ways for a reward to grow back (the paper's figure J.1): what a site pays if it is visited at t = 2 and t = 5.

    time elapsed         λ^(n / m)                               n visits, the last of them m steps ago
    eligibility trace    1 − (1 − λ_d) Σ_{j < t} λ_r^(t − j)     over the visits j
    total time           λ_d^n λ_r^(n − t)

The paper's representations of the second and third scheme belong to other rewards than these. Ω also sums the visit at
t itself, so that even the first visit pays only λ_d. P has λ_r^(t − n), which shrinks while the agent is away. Both
forms are drawn. The paper gives no values. Here the exact representation of each scheme is compared with brute force:
the sum over every path of a short random walk.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import jax
import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.depletion import Depletion
from wane.exact.representations import representation
from wane.experiments.common import plots
from wane.experiments.common.checks import Drawn
from wane.experiments.contract import Claim, Experiment, Finding, NotTested, Settings, Tables
from wane.regrowth import EligibilityTrace, TimeElapsed, TotalTime
from wane.settings import Lambda, Range, SettingError
from wane.worlds.catalog import corridor

SCHEMES = ELAPSED, TRACE, TOTAL = ("time elapsed", "eligibility trace", "total time")
REWARD, REPRESENTATION = "reward", "representation"

SITE = 1
"""The site: the second cell of the corridor."""
LARGEST = 690.0
"""The natural logarithm of the largest reward that is allowed, below the limit of double precision."""


@dataclass(frozen=True)
class Replenishing(Settings):
    """Settings of replenishing."""

    visits: tuple[Annotated[int, Range(0, 10_000)], ...] = (2, 5)
    """steps at which the site is visited"""
    steps: Drawn = 12
    """the last step that is drawn"""
    lam: Lambda = 0.5
    """λ of the time-elapsed reward"""
    trace: tuple[Lambda, Lambda] = (0.5, 0.5)
    """λ_d and λ_r of the eligibility trace"""
    total: tuple[Lambda, Annotated[float, Range(0.001, 1, "a λ")]] = (0.5, 0.9)
    """λ_d and λ_r of the total-time reward"""
    discount: Annotated[float, Range(0, 0.99, "a discount")] = 0.5
    """γ of the walk whose every path is added up"""
    length: Annotated[int, Range(1, 22)] = 16
    """steps of these paths: 2²² paths can be walked, but not many more"""

    def rules(self) -> None:
        """Raises SettingError unless visits rise and end before the last step, and the total-time reward is finite."""
        super().rules()
        rising = sorted(set(self.visits)) == list(self.visits)
        self.require(rising, "visits", "rising numbers are needed, each given once")
        needed = f"at least {self.visits[-1] + 1} is needed, because the last visit is at step {self.visits[-1]}"
        self.require(self.visits[-1] < self.steps, "steps", needed)
        largest = 1 + int(LARGEST / -np.log(self.total[1])) if self.total[1] < 1 else self.steps
        needed = f"at most {largest} is needed, because the total-time reward grows too large for a number in more"
        self.require(self.steps <= largest, "steps", needed)
        try:
            exact_values(self, TotalTime(*self.total))
        except ValueError as error:
            needed = f"a λ_r nearer to 1 is needed, because {error}"
            raise SettingError("total", self.total, needed) from None


def schemes(settings: Replenishing) -> dict[tuple[str, str], Depletion]:
    """Returns the depletions by scheme and form. Raises ValueError if a parameter is out of its range."""
    made: dict[tuple[str, str], Depletion] = {(ELAPSED, REWARD): TimeElapsed(settings.lam)}
    for form in (REWARD, REPRESENTATION):
        made[TRACE, form] = EligibilityTrace(*settings.trace, form=form)
        made[TOTAL, form] = TotalTime(*settings.total, form=form)
    return made


def fixed(settings: Replenishing) -> Tables:
    """Returns what a visit pays at every step (`rewards`), and the value of every state of the walk (`values`)."""
    rewards, values = {}, {}
    steps = np.arange(settings.steps + 1)
    for (scheme, form), depletion in schemes(settings).items():
        worth = rewards_along(depletion, settings.visits, settings.steps)
        printed = [formula(settings, scheme, form, t) for t in steps.tolist()]
        rewards[scheme, form] = pd.DataFrame({"step": steps, "reward": worth, "printed": printed})
        values[scheme, form] = walk_values(settings, depletion)
    tables = {"rewards": rewards, "values": values}
    names = ["scheme", "form", "row"]
    return {name: pd.concat(parts, names=names).droplevel("row").reset_index() for name, parts in tables.items()}


def rewards_along(depletion: Depletion, visits: Sequence[int], steps: int) -> Float[np.ndarray, " moments"]:
    """Returns what a visit would pay at each step, if the site is visited at the steps in `visits`."""
    memory, worth = depletion.initial(), []
    for t in range(steps + 1):
        worth.append(float(depletion.worth(memory)))
        memory = depletion.visit(memory) if t in visits else depletion.wait(memory)
    return np.array(worth)


def formula(settings: Replenishing, scheme: str, form: str, t: int) -> float:
    """Returns the reward at step t by the paper's printed formula."""
    earlier = [j for j in settings.visits if j < t]
    n = len(earlier)
    if scheme == ELAPSED:
        return settings.lam ** (n / (t - max(earlier))) if n else 1.0
    if scheme == TRACE:
        drop, regrow = settings.trace
        summed = [*earlier, t] if form == REPRESENTATION else earlier
        return 1 - (1 - drop) * sum(regrow ** (t - j) for j in summed)
    drop, regrow = settings.total
    return drop**n * regrow ** (n - t if form == REWARD else t - n)


def exact_values(settings: Replenishing, depletion: Depletion) -> Float[np.ndarray, " states"]:
    """Returns Φ(s, site) from every state of the walk. Raises ValueError if it is infinite."""
    next_states = corridor(4).map.next_states()[:, [3, 1]]
    kernel = np.eye(len(next_states))[next_states].mean(1)
    return np.asarray(representation(kernel, depletion, discount=settings.discount, sites=[SITE]).matrix)[:, 0]


def walk_values(settings: Replenishing, depletion: Depletion) -> pd.DataFrame:
    """Returns Φ(s, site) from every state of a walk, both exact and summed over every path.

    `longer_paths` bounds what paths of more than `length` steps would add. The walk goes left or right along a corridor
    of four cells, each with probability ½, and stays in place at a wall. The site is the second cell.
    """
    next_states = corridor(4).map.next_states()[:, [3, 1]]
    # The bits of 0, 1, …, 2^length − 1 give all sequences of turns, one in each column.
    turns = (np.arange(2**settings.length) >> np.arange(settings.length)[:, None]) & 1
    starts = np.arange(len(next_states))
    sums = [_sum_over_paths(next_states, int(s), turns, depletion, SITE, settings.discount) for s in starts]
    growth = max(float(depletion.growth), 1.0) if isinstance(depletion, TotalTime) else 1.0
    largest = 1.0 if isinstance(depletion, TotalTime) else depletion.bound
    rate = settings.discount * growth
    bound = largest * rate**settings.length / (1 - rate) if rate < 1 else np.inf
    exact = exact_values(settings, depletion)
    return pd.DataFrame({"state": starts, "value": exact, "path_sum": sums, "longer_paths": bound})


def _sum_over_paths(
    next_states: Int[np.ndarray, "states turns"],
    start: int,
    turns: Int[np.ndarray, "steps paths"],
    depletion: Depletion,
    site: int,
    discount: float,
) -> float:
    """Returns the mean over all paths of the discounted sum of the site's rewards."""
    state, total = np.full(turns.shape[1], start), 0.0
    memory = depletion.initial(state.shape)
    for t, turn in enumerate(turns):
        visited = state == site
        total += discount**t * float(np.mean(visited * depletion.worth(memory)))
        after = depletion.visit(memory), depletion.wait(memory)
        memory = jax.tree_util.tree_map(lambda yes, no, visited=visited: np.where(visited, yes, no), *after)
        state = next_states[state, turn]
    return total


def draw(settings: Replenishing, tables: Tables) -> Figure:
    """Draws what a visit pays against time, with one panel for each scheme."""
    figure = plots.figure()
    panels = figure.subplots(1, 3, sharex=True)
    titles = (
        f"λ = {settings.lam:g}",
        "$λ_d$ = {:g}, $λ_r$ = {:g}".format(*settings.trace),
        "$λ_d$ = {:g}, $λ_r$ = {:g}".format(*settings.total),
    )
    rewards = tables["rewards"]
    for ax, scheme, title in zip(panels, SCHEMES, titles, strict=True):
        plots.tidy(ax, f"{scheme}\n{title}", "step t")
        _draw_rewards(ax, settings, rewards[rewards["scheme"] == scheme])
    panels[0].set_ylabel("what a visit pays (r̄ = 1)")
    panels[2].legend(frameon=False, loc="upper right", bbox_to_anchor=(1.03, 1.0))
    return figure


def _draw_rewards(ax: Axes, settings: Replenishing, rewards: pd.DataFrame) -> None:
    """Draws both forms of one scheme, and the visits."""
    styles = {
        REWARD: (plots.colour(0.5), "-", "the paper's reward"),
        REPRESENTATION: (plots.OTHERS[0], "--", "its representation's"),
    }
    for form, run in rewards.groupby("form", sort=False):
        shade, style, label = styles[str(form)]
        ax.plot(run["step"], run["reward"], style, marker="o", ms=3.5, color=shade, label=label)
    for visit in settings.visits:
        ax.axvline(visit, color=plots.GREY, lw=0.8, ls=":")
        ax.text(visit + 0.15, 0.03, "visit", transform=ax.get_xaxis_transform(), color=plots.GREY, fontsize="small")
    ticks = range(0, settings.steps + 1, max(2, settings.steps // 6))
    ax.set(xticks=ticks, ylim=(min(0.0, 1.12 * rewards["reward"].min()), 1.12 * max(1.0, rewards["reward"].max())))


def _rewards_by_scheme(tables: Tables) -> pd.DataFrame:
    """Returns the paper's rewards: rows are steps, columns schemes."""
    rewards = tables["rewards"]
    rows = rewards[rewards["form"] == REWARD]
    return rows.pivot_table(index="step", columns="scheme", values="reward")[list(SCHEMES)]


def drops_and_recovers(settings: Replenishing, tables: Tables) -> Finding:
    """Tests that each reward drops at every visit, and rises at every other step after the first visit."""
    rewards = _rewards_by_scheme(tables)
    change = rewards.diff().shift(-1).iloc[:-1]
    visited = change.index.isin(settings.visits)
    away_after_visit = ~visited & (visited.cumsum() > 0)
    if not away_after_visit.any():
        raise NotTested("after the first visit every step is a visit: leave some of them out, or raise steps")
    drop, rise = change[visited], change[away_after_visit]
    last = settings.visits[-1]
    course = ", ".join(
        f"{scheme} {rewards[scheme][last]:.2f} → {rewards[scheme][last + 1]:.2f} → {rewards[scheme].iloc[-1]:.2f}"
        for scheme in SCHEMES
    )
    detail = f"at the last visit, a step later, and at step {settings.steps}: {course}"
    holds = bool(np.all(drop < 0) and np.all(rise > 0))
    return Finding(holds, float(drop.to_numpy().max()), None, detail)


def as_printed(settings: Replenishing, tables: Tables) -> Finding:
    """Tests that this package's schemes agree with the paper's formulas."""
    rewards = tables["rewards"]
    difference = float((rewards["reward"] - rewards["printed"]).abs().max())
    detail = f"largest difference over {len(rewards)} rewards {difference:.1e}"
    return Finding(difference < 1e-12, difference, None, detail)


def total_time_unbounded(settings: Replenishing, tables: Tables) -> Finding:
    """Tests that the total-time reward exceeds r̄ = 1 before the first visit, and that the other two never do."""
    if settings.total[1] == 1:
        raise NotTested("λ_r = 1 lets the total-time reward stay as it is: choose total with a λ_r below 1")
    if settings.visits[0] == 0:
        raise NotTested("the site is visited at step 0, and nothing can grow before that: choose later visits")
    rewards = _rewards_by_scheme(tables)
    largest = rewards.max()
    before = float(rewards.loc[: settings.visits[0], TOTAL].max())
    holds = before > 1 and largest[ELAPSED] <= 1 and largest[TRACE] <= 1
    detail = (
        f"before the first visit the total-time reward has grown to {before:.2f}; the largest rewards of the other two "
        f"are {largest[ELAPSED]:.2f} and {largest[TRACE]:.2f}"
    )
    return Finding(bool(holds), float(largest[TOTAL]), None, detail)


def forms_disagree(settings: Replenishing, tables: Tables) -> Finding:
    """Tests that the values of both forms differ for every scheme that has two, on the walk."""
    values = tables["values"].pivot_table(index=["scheme", "state"], columns="form", values="value")
    both = values.dropna()
    difference = (both[REWARD] - both[REPRESENTATION]).abs().groupby("scheme").max()
    by_scheme = ", ".join(f"{scheme} by up to {difference[scheme]:.3f}" for scheme in difference.index)
    least = float(difference.min())
    return Finding(least > 1e-3, least, None, f"values on the walk differ: {by_scheme}")


def agrees_with_every_path(settings: Replenishing, tables: Tables) -> Finding:
    """Tests that exact values agree with sums over paths, up to what longer paths could add."""
    values = tables["values"]
    difference, left_out = (values["value"] - values["path_sum"]).abs(), values["longer_paths"]
    if left_out.max() > values["value"].abs().max():
        raise NotTested(
            f"paths of {settings.length} steps may leave out {left_out.max():.3g}, which is more than any value: "
            "choose a larger length, a smaller discount, or λ_r farther from the discount and from 1"
        )
    detail = (
        f"five forms from four starts, {2**settings.length:,} paths of {settings.length} steps each: largest "
        f"difference {difference.max():.1e}, where longer paths could add up to {left_out.max():.1e}"
    )
    holds = bool(np.all(difference <= left_out + 1e-9))
    return Finding(holds, float(difference.max()), None, detail)


EXPERIMENT = Experiment(
    name="replenishing",
    title="Rewards that grow back",
    source="figure J.1",
    summary="Three schemes let a reward grow back after a visit: by the time since the last visit, by a trace of "
    "visits that fades, and by the time spent elsewhere in all. The paper says that the first admits no "
    "closed-form recursion and that the third is not bounded.",
    quick=Replenishing(),
    paper=Replenishing(),
    fixed=fixed,
    draw=draw,
    claims=(
        Claim(
            "drops-and-recovers",
            "In all three schemes a visit lowers the reward, and after the first visit every step away raises it.",
            drops_and_recovers,
            kind="identity",
        ),
        Claim(
            "as-printed", "The schemes of this package pay what the paper's formulas say.", as_printed, kind="identity"
        ),
        Claim(
            "total-time-unbounded",
            "The total-time reward grows beyond r̄, already before the first visit; the other two never exceed r̄.",
            total_time_unbounded,
            kind="identity",
        ),
        Claim(
            "forms-disagree",
            "The paper's Ω and P are not the representations of its eligibility-trace and total-time rewards.",
            forms_disagree,
            kind="identity",
        ),
        Claim(
            "agrees-with-every-path",
            "The exact representation of all schemes, time elapsed included, is what all paths of a random walk add up "
            "to.",
            agrees_with_every_path,
            kind="identity",
        ),
    ),
    differences="The paper's reward and its representation belong to two different rewards; both are drawn. Values are "
    "ours: the paper shows rewards only.",
    paper_cost="none stated",
)
