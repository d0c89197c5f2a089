"""Three ways for a reward to grow back (the paper's figure J.1): what a site pays if it is visited at t = 2 and t = 5.

    time elapsed         λ^(n / m)                               n visits, the last of them m steps ago
    eligibility trace    1 − (1 − λ_d) Σ_{j < t} λ_r^(t − j)     over the visits j
    total time           λ_d^n λ_r^(n − t)

The paper's representations of the second and third scheme belong to other rewards than these. Ω also sums the visit at
t itself, so that even the first visit pays only λ_d. P has λ_r^(t − n), which shrinks while the agent is away. Both
variants are drawn. The experiment errata judges the representations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.depletion import Depletion
from wane.lab import Claim, Experiment, Finding, NotTested, Settings, Tables, plots
from wane.lab.tables import select
from wane.regrowth import EligibilityTrace, TimeElapsed, TotalTime
from wane.settings import Lambda, Range
from wane_paper.common.settings import Drawn
from wane_paper.texts import texts

SCHEMES = ELAPSED, TRACE, TOTAL = ("time elapsed", "eligibility trace", "total time")
REWARD, REPRESENTATION = "reward", "representation"

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


def schemes(settings: Replenishing) -> dict[tuple[str, str], Depletion]:
    """Returns the depletions by scheme and variant. Raises ValueError if a parameter is out of its range."""
    made: dict[tuple[str, str], Depletion] = {(ELAPSED, REWARD): TimeElapsed(settings.lam)}
    for variant in (REWARD, REPRESENTATION):
        made[TRACE, variant] = EligibilityTrace(*settings.trace, equation=variant)
        made[TOTAL, variant] = TotalTime(*settings.total, equation=variant)
    return made


def fixed(settings: Replenishing) -> Tables:
    """Returns what a visit pays at every step, in all schemes and variants."""
    steps, parts = np.arange(settings.steps + 1), []
    for (scheme, variant), depletion in schemes(settings).items():
        worth = rewards_along(depletion, settings.visits, settings.steps)
        parts.append(pd.DataFrame({"scheme": scheme, "variant": variant, "step": steps, "reward": worth}))
    return {"rewards": pd.concat(parts)}


def rewards_along(depletion: Depletion, visits: Sequence[int], steps: int) -> Float[np.ndarray, " moments"]:
    """Returns what a visit would pay at each step, if the site is visited at the steps in `visits`."""
    memory, worth = depletion.initial(), []
    for t in range(steps + 1):
        worth.append(float(depletion.worth(memory)))
        memory = depletion.visit(memory) if t in visits else depletion.wait(memory)
    return np.array(worth)


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
        _draw_rewards(ax, settings, select(rewards, scheme=scheme))
    panels[0].set_ylabel("what a visit pays (r̄ = 1)")
    panels[2].legend(frameon=False, loc="upper right", bbox_to_anchor=(1.03, 1.0))
    return figure


def _draw_rewards(ax: Axes, settings: Replenishing, rewards: pd.DataFrame) -> None:
    """Draws both variants of one scheme, and the visits."""
    styles = {
        REWARD: (plots.colour(0.5), "-", "the paper's reward"),
        REPRESENTATION: (plots.OTHERS[0], "--", "its representation's"),
    }
    for variant, run in rewards.groupby("variant", sort=False):
        shade, style, label = styles[str(variant)]
        ax.plot(run["step"], run["reward"], style, marker="o", ms=3.5, color=shade, label=label)
    for visit in settings.visits:
        ax.axvline(visit, color=plots.GREY, lw=0.8, ls=":")
        ax.text(visit + 0.15, 0.03, "visit", transform=ax.get_xaxis_transform(), color=plots.GREY, fontsize="small")
    ticks = range(0, settings.steps + 1, max(2, settings.steps // 6))
    ax.set(xticks=ticks, ylim=(min(0.0, 1.12 * rewards["reward"].min()), 1.12 * max(1.0, rewards["reward"].max())))


def drops_and_recovers(settings: Replenishing, tables: Tables) -> Finding:
    """Tests that each reward drops at every visit, and rises at every other step after the first visit."""
    rows = select(tables["rewards"], variant=REWARD)
    rewards = rows.pivot_table(index="step", columns="scheme", values="reward")[list(SCHEMES)]
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


EXPERIMENT = Experiment(
    **texts("replenishing"),
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
    ),
)
