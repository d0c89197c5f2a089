"""Three ways for a reward to grow back (the paper's figure J.1): what a site pays, visited at t = 2 and t = 5.

    time elapsed         λ^(n / m)                               n visits, the last of them m steps ago
    eligibility trace    1 − (1 − λ_d) Σ_{j < t} λ_r^(t − j)     over the visits j
    total time           λ_d^n λ_r^(n − t)

The paper's representations of the second and third are of other rewards than these: Ω also sums the visit at t
itself, so that already the first visit pays λ_d; P has λ_r^(t − n), which shrinks while the agent is away. Both forms
are drawn. The paper gives no values; here the exact representation of each scheme is held against brute force, the sum
over every path of a short random walk.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wane.depletion import Depletion
from wane.exact.representation import representation
from wane.experiments import plots
from wane.experiments.experiment import Claim, Experiment, Finding, Loop, Settings
from wane.regrowth import EligibilityTrace, TimeElapsed, TotalTime
from wane.worlds.catalog import corridor

SCHEMES = ("time elapsed", "eligibility trace", "total time")
REWARD, REPRESENTATION = "reward", "representation"


@dataclass(frozen=True)
class Replenishing(Settings):
    visits: tuple[int, ...] = (2, 5)
    """steps at which the site is visited"""
    steps: int = 12
    """the last step that is drawn"""
    lam: float = 0.5
    """λ of the time-elapsed reward"""
    trace: tuple[float, float] = (0.5, 0.5)
    """λ_d and λ_r of the eligibility trace"""
    total: tuple[float, float] = (0.5, 0.9)
    """λ_d and λ_r of the total-time reward"""
    discount: float = 0.5
    """γ of the walk whose every path is added up"""
    length: int = 16
    """steps of these paths"""

    def __post_init__(self):
        super().__post_init__()
        if not self.visits or not 0 <= min(self.visits) <= max(self.visits) < self.steps:
            raise ValueError(f"visits = {self.visits} must lie from 0 to below steps = {self.steps}")
        if not 1 <= self.length <= 22:
            raise ValueError(f"length = {self.length}: every path of 1 to 22 steps can be walked, not of more")


def schemes(settings: Replenishing) -> dict[tuple[str, str], Depletion]:
    """The depletions, by scheme and form."""
    made: dict[tuple[str, str], Depletion] = {(SCHEMES[0], REWARD): TimeElapsed(settings.lam)}
    for form in (REWARD, REPRESENTATION):
        made[SCHEMES[1], form] = EligibilityTrace(*settings.trace, form=form)
        made[SCHEMES[2], form] = TotalTime(*settings.total, form=form)
    return made


def compute(settings: Replenishing, seeds: Sequence[int], loop: Loop) -> pd.DataFrame:
    tables = []
    for (scheme, form), depletion in schemes(settings).items():
        what = {"scheme": scheme, "form": form}
        worth = rewards_along(depletion, settings.visits, settings.steps)
        printed = [formula(settings, scheme, form, t) for t in range(settings.steps + 1)]
        time = np.arange(settings.steps + 1)
        tables.append(pd.DataFrame(what | {"panel": "reward", "at": time, "value": worth, "check": printed}))
        exact, paths, rest = values(settings, depletion)
        rows = {"panel": "value", "at": np.arange(len(exact)), "value": exact, "check": paths, "rest": rest}
        tables.append(pd.DataFrame(what | rows))
    return pd.concat(tables).fillna({"rest": 0.0})


def rewards_along(depletion: Depletion, visits: Sequence[int], steps: int) -> np.ndarray:
    """What a visit would pay at each step, when the site is visited at some of them."""
    memory, worth = depletion.initial(), []
    for t in range(steps + 1):
        worth.append(float(depletion.worth(memory)))
        memory = depletion.visit(memory) if t in visits else depletion.wait(memory)
    return np.array(worth)


def formula(settings: Replenishing, scheme: str, form: str, t: int) -> float:
    """The paper's expressions, as they are printed."""
    before = np.array([j for j in settings.visits if j < t])
    n = len(before)
    if scheme == SCHEMES[0]:
        return settings.lam ** (n / (t - before.max())) if n else 1.0
    if scheme == SCHEMES[1]:
        drop, regrow = settings.trace
        summed = [*before, t] if form == REPRESENTATION else before
        return 1 - (1 - drop) * sum(regrow ** (t - j) for j in summed)
    drop, regrow = settings.total
    return drop**n * regrow ** (n - t if form == REWARD else t - n)


def values(settings: Replenishing, depletion: Depletion) -> tuple[np.ndarray, np.ndarray, float]:
    """Φ(s, site) from every state of a walk, exactly and by every path, and a bound on what longer paths would add.

    The walk goes left or right along a corridor of four cells, each with chance ½, and stays where there is a wall. The
    site is its second cell.
    """
    world, site = corridor(4), 1
    leads = world.map.next_states()[:, [3, 1]]
    kernel = (np.eye(world.n_states)[leads[:, 0]] + np.eye(world.n_states)[leads[:, 1]]) / 2
    exact = representation(kernel, depletion, discount=settings.discount, sites=[site]).matrix[:, 0]
    turns = (np.arange(2**settings.length) >> np.arange(settings.length)[:, None]) & 1
    summed = [_every_path(leads, start, turns, depletion, site, settings.discount) for start in range(world.n_states)]
    growth = max(float(depletion.growth), 1.0) if isinstance(depletion, TotalTime) else 1.0
    most = 1.0 if isinstance(depletion, TotalTime) else depletion.bound
    rate = settings.discount * growth
    return exact, np.array(summed), most * rate**settings.length / (1 - rate) if rate < 1 else np.inf


def _every_path(
    leads: np.ndarray, start: int, turns: np.ndarray, depletion: Depletion, site: int, discount: float
) -> float:
    """The mean over all sequences of turns (steps, paths) of what the site pays along them."""
    state, total = np.full(turns.shape[1], start), 0.0
    memory = depletion.initial(state.shape)
    for t, turn in enumerate(turns):
        here = state == site
        total += discount**t * float(np.mean(here * depletion.worth(memory)))
        pair = depletion.visit(memory), depletion.wait(memory)
        memory = jax.tree_util.tree_map(lambda yes, no, here=here: np.where(here, yes, no), *pair)
        state = leads[state, turn]
    return total


def draw(settings: Replenishing, table: pd.DataFrame) -> Figure:
    figure = plots.figure()
    panels = figure.subplots(1, 3, sharex=True)
    titles = (
        f"λ = {settings.lam:g}",
        "$λ_d$ = {:g}, $λ_r$ = {:g}".format(*settings.trace),
        "$λ_d$ = {:g}, $λ_r$ = {:g}".format(*settings.total),
    )
    styles = {
        REWARD: (plots.colour(0.5), "-", "the paper's reward"),
        REPRESENTATION: (plots.OTHERS[0], "--", "its representation's"),
    }
    for ax, scheme, title in zip(panels, SCHEMES, titles, strict=True):
        plots.tidy(ax, f"{scheme}\n{title}", "step t")
        rows = table[(table["panel"] == "reward") & (table["scheme"] == scheme)]
        for form, run in rows.groupby("form", sort=False):
            shade, style, label = styles[str(form)]
            ax.plot(run["at"], run["value"], style, marker="o", ms=3.5, color=shade, label=label)
        for visit in settings.visits:
            ax.axvline(visit, color=plots.GREY, lw=0.8, ls=":")
            ax.text(visit + 0.15, 0.03, "visit", transform=ax.get_xaxis_transform(), color=plots.GREY, fontsize="small")
        ax.set(xticks=range(0, settings.steps + 1, 2), ylim=(0, 1.12 * max(1.0, rows["value"].max())))
    panels[0].set_ylabel("what a visit pays (r̄ = 1)")
    panels[2].legend(frameon=False, loc="upper right", bbox_to_anchor=(1.03, 1.0))
    return figure


def _rewards(table: pd.DataFrame, form: str = REWARD) -> pd.DataFrame:
    """Steps down, schemes across."""
    rows = table[(table["panel"] == "reward") & (table["form"] == form)]
    return rows.pivot_table(index="at", columns="scheme", values="value")


def drops_and_recovers(settings: Replenishing, table: pd.DataFrame) -> Finding:
    rewards = _rewards(table)[list(SCHEMES)]
    change = rewards.diff().shift(-1).iloc[:-1]
    visited = change.index.isin(settings.visits)
    since = visited.cumsum() > 0
    drop, rise = change[visited], change[~visited & since]
    said = ", ".join(
        f"{scheme} {rewards[scheme][settings.visits[-1]]:.2f} → {rewards[scheme][settings.visits[-1] + 1]:.2f} → "
        f"{rewards[scheme].iloc[-1]:.2f}"
        for scheme in SCHEMES
    )
    detail = f"at the last visit, a step later, and at step {settings.steps}: {said}"
    holds = bool(np.all(drop < 0) and np.all(rise > 0))
    return Finding(holds, float(drop.to_numpy().max()), None, detail)


def as_printed(settings: Replenishing, table: pd.DataFrame) -> Finding:
    rows = table[table["panel"] == "reward"]
    off = float((rows["value"] - rows["check"]).abs().max())
    return Finding(off < 1e-12, off, None, f"largest difference over {len(rows)} rewards {off:.1e}")


def total_time_unbounded(settings: Replenishing, table: pd.DataFrame) -> Finding:
    rewards = _rewards(table)
    before = rewards.loc[: settings.visits[0]]
    most = {scheme: float(rewards[scheme].max()) for scheme in SCHEMES}
    holds = most[SCHEMES[2]] > 1 and most[SCHEMES[0]] <= 1 and most[SCHEMES[1]] <= 1
    detail = (
        f"before the first visit the total-time reward has grown to {before[SCHEMES[2]].max():.2f}; the largest "
        f"rewards of the other two are {most[SCHEMES[0]]:.2f} and {most[SCHEMES[1]]:.2f}"
    )
    return Finding(holds, most[SCHEMES[2]], None, detail)


def forms_disagree(settings: Replenishing, table: pd.DataFrame) -> Finding:
    values = table[table["panel"] == "value"].pivot_table(index=["scheme", "at"], columns="form", values="value")
    both = values.dropna()
    apart = (both[REWARD] - both[REPRESENTATION]).abs().groupby("scheme").max()
    said = ", ".join(f"{scheme} by up to {apart[scheme]:.3f}" for scheme in apart.index)
    return Finding(bool(apart.min() > 1e-3), float(apart.min()), None, f"values on the walk differ: {said}")


def agrees_with_every_path(settings: Replenishing, table: pd.DataFrame) -> Finding:
    rows = table[table["panel"] == "value"]
    off = (rows["value"] - rows["check"]).abs()
    detail = (
        f"five forms from four starts, {2**settings.length:,} paths of {settings.length} steps each: largest "
        f"difference {off.max():.1e}, where longer paths could add up to {rows['rest'].max():.1e}"
    )
    return Finding(bool(np.all(off <= rows["rest"] + 1e-9)), float(off.max()), None, detail)


EXPERIMENT = Experiment(
    name="replenishing",
    title="Rewards that grow back",
    source="figure J.1",
    says="Three schemes let a reward grow back after a visit: by the time since the last visit, by a trace of visits "
    "that fades, and by the time spent elsewhere in all. The first is said to admit no closed-form recursion, the "
    "third not to be bounded.",
    quick=Replenishing(),
    paper=Replenishing(),
    compute=compute,
    draw=draw,
    claims=(
        Claim(
            "drops-and-recovers",
            "In all three schemes a visit lowers the reward, and after the first visit every step away raises it.",
            drops_and_recovers,
        ),
        Claim("as-printed", "The schemes of this package pay what the paper's formulas say.", as_printed),
        Claim(
            "total-time-unbounded",
            "The total-time reward grows beyond r̄, already before the first visit; the other two never exceed r̄.",
            total_time_unbounded,
        ),
        Claim(
            "forms-disagree",
            "The paper's Ω and P are not the representations of its eligibility-trace and total-time rewards.",
            forms_disagree,
        ),
        Claim(
            "agrees-with-every-path",
            "The exact representation of all schemes, time elapsed included, is what all paths of a random walk add up "
            "to.",
            agrees_with_every_path,
        ),
    ),
    differs="Where the paper's reward and its representation are of two different rewards, both are drawn. Values are "
    "ours: the paper shows rewards only.",
    cost="none stated",
)
