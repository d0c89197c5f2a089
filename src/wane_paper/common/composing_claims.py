"""The claims of the experiments that compose policies (see `wane_paper.common.composing`).

Measurements from every start are exact where actions do not slip. Where actions slip, the repetitions are a sample, and
a claim holds if the whole interval over the repetitions agrees with it.
"""

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from wane.lab.contract import Claim, Finding, Kind, NotTested, Tables
from wane.lab.judging import exceeds
from wane.lab.statistics import paired_difference
from wane_paper.common import beliefs
from wane_paper.common.composing import MEMORIES, Composing

STEPS = "mean steps in a row at a site"
OVERSTAYING = (
    "The caption of figure 5.3 says that agents with λ too high overstay in rewarding states, and shows one path for "
    "each λ. We compose the same four policies with exact representations, as appendix E describes: rewards of 5, 10 "
    "and 5 that halve with every visit, and values that are made anew at every step from what remains of them. We "
    "play every start instead of some. Agents with λ̂ = 1 stay 1.55 steps in a row at a site, and agents with the "
    "true λ 3.21. The reason is that λ̂ = 1 takes what remains to last for ever, so that an agent goes to wherever "
    "most remains as soon as a visit has halved the reward under it. The λ̂ that is compared changes the finding: "
    "with λ̂ = 0.75, which the paper does not have, agents do stay longer, 4.35 steps."
)
"""The account of the claim that a λ̂ above the true one makes agents overstay."""


def from_every_start(tables: Tables, memory: str = "refreshed") -> pd.DataFrame:
    """Returns the mean returns over all starts, with the axes (repetitions, λ̂)."""
    rows = tables["starts"][tables["starts"]["memory"] == memory]
    return rows.pivot_table(index="repeat", columns="lam", values="value")


def mean_stays(tables: Tables, measure: str = "stay") -> pd.DataFrame:
    """Returns mean steps in a row at a site, or mean shares of visited rewards left behind, (repetitions, λ̂)."""
    rows = tables["stays"][tables["stays"]["memory"] == "refreshed"]
    return rows.pivot_table(index="repeat", columns="lam", values=measure)


def more_than(other: float) -> Callable[[Composing, Tables], Finding]:
    """Returns a test that the true λ earns more than another λ̂ in the paper's episodes, paired by episode."""

    def test(settings: Composing, tables: Tables) -> Finding:
        beliefs.need(settings.believed, settings.lam, other)
        if other == settings.lam:
            raise NotTested(f"The true λ itself is {other:g}.")
        value = tables["episodes"].pivot_table(index=["seed", "episode"], columns="lam", values="value")
        found = paired_difference(value[settings.lam], value[other])
        exact = from_every_start(tables).mean()
        detail = f"over every start {exact[settings.lam]:.3f} against {exact[other]:.3f}"
        return exceeds(found, detail)

    return test


def the_true_lambda_is_best(settings: Composing, tables: Tables) -> Finding:
    """Tests whether the true λ earns more than the best other λ̂, from every start."""
    beliefs.need(settings.believed, settings.lam)
    runs = from_every_start(tables)
    rival = max(beliefs.others(settings.believed, settings.lam), key=lambda lam: runs[lam].mean())
    top = max(settings.believed, key=lambda lam: runs[lam].mean())
    detail = (
        f"best is λ̂ = {top:g} with {runs[top].mean():.3f}; λ = {settings.lam:g} earns {runs[settings.lam].mean():.3f}"
    )
    return _exceeds(settings, runs[settings.lam], runs[rival], detail)


def lower_beliefs_leave_earlier(settings: Composing, tables: Tables) -> Finding:
    """Tests whether agents with any lower λ̂ leave more of the rewards behind than agents with the true λ.

    Steps in a row at a site would mislead, because an agent with λ̂ = 0 steps off a site and on again.
    """
    behind = mean_stays(tables, "behind")
    lower = _some(settings, "lower", (lam for lam in settings.believed if lam < settings.lam))
    if not set(settings.believed) <= set(behind):
        raise NotTested("Some agents wore off no reward, so they left nothing behind.")
    least = min(lower, key=lambda lam: behind[lam].mean())
    told = _told(settings, "share of a visited reward that is left behind", behind)
    return _exceeds(
        settings, behind[least], behind[settings.lam], f"{told}; {_told(settings, STEPS, mean_stays(tables))}"
    )


def higher_beliefs_stay_longer(settings: Composing, tables: Tables) -> Finding:
    """Tests whether agents with any higher λ̂ stay longer than agents with the true λ."""
    stays = mean_stays(tables)
    higher = _some(settings, "higher", (lam for lam in settings.believed if lam > settings.lam))
    least = min(higher, key=lambda lam: stays[lam].mean())
    return _exceeds(settings, stays[least], stays[settings.lam], _told(settings, STEPS, stays))


def _some(settings: Composing, which: str, found: Iterable[float]) -> list[float]:
    beliefs.need(settings.believed, settings.lam)
    found = list(found)
    if not found:
        raise NotTested(f"There is no agent with a {which} λ̂ than the true one: {beliefs.in_words(settings.believed)}.")
    return found


def _told(settings: Composing, what: str, measured: pd.DataFrame) -> str:
    return f"{what}: " + ", ".join(f"λ̂ = {lam:g}: {measured[lam].mean():.3g}" for lam in settings.believed)


def looking_up_helps_every_belief(settings: Composing, tables: Tables) -> Finding:
    """Tests whether looking up what remains helps every agent, judged by the agent that gains least."""
    with_memory, without = (from_every_start(tables, memory) for memory in MEMORIES)
    least = min(settings.believed, key=lambda lam: (with_memory[lam] - without[lam]).mean())
    means = with_memory[least].mean(), without[least].mean()
    detail = f"least for λ̂ = {least:g}: {means[0]:.3f} with, {means[1]:.3f} without"
    return _exceeds(settings, with_memory[least], without[least], detail)


def near_the_optimum(settings: Composing, tables: Tables) -> Finding:
    """Tests whether the true λ earns more than 98 % of the optimum, from every start."""
    beliefs.need(settings.believed, settings.lam)
    runs, highest = from_every_start(tables)[settings.lam], tables["optimum"]["value"].mean()
    detail = f"{runs.mean():.3f} of {highest:.3f}"
    return _exceeds(settings, runs / highest, np.zeros(len(runs)), detail, than=0.98)


def _exceeds(settings: Composing, ours: ArrayLike, theirs: ArrayLike, detail: str, than: float = 0.0) -> Finding:
    """Tests whether a mean difference exceeds a number. The finding has an interval only if actions slip."""
    found = paired_difference(ours, theirs)
    if settings.slip:
        return exceeds(found, detail, than)
    return Finding(found.value > than, found.value, None, detail)


def claims(returns: str, stays: str = "") -> tuple[Claim, ...]:
    """Returns the claims. `returns` and `stays` are the places where the paper compares agents' returns and stays."""
    when: tuple[Kind, str] = ("paper", stays) if stays else ("ours", "")
    return (
        Claim("beats-lambda-0", "The true λ earns more than λ̂ = 0.", more_than(0.0), "paper", returns),
        Claim("beats-lambda-1", "The true λ earns more than λ̂ = 1, the SR.", more_than(1.0), "paper", returns),
        Claim(
            "true-lambda-is-best",
            "No other λ̂, the paper's or not, earns more than the true one.",
            the_true_lambda_is_best,
        ),
        Claim(
            "leaves-early",
            "Agents with a λ̂ that is too low leave too early: more of a reward stays behind than with the true λ.",
            lower_beliefs_leave_earlier,
            *when,
        ),
        Claim(
            "overstays",
            "Agents with a λ̂ that is too high stay longer at a site than agents with the true λ.",
            higher_beliefs_stay_longer,
            *when,
            account=OVERSTAYING if stays else "",
        ),
        Claim(
            "memory",
            "Agents that never look up what remains of the rewards earn less, whatever their λ̂.",
            looking_up_helps_every_belief,
        ),
        Claim("near-the-optimum", "GPI with the true λ earns at least 98 % of the optimum.", near_the_optimum),
    )
