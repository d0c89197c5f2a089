"""Composing policies from pixels: FourRooms seen in the first person, with λ-features of the four policies.

`composing_pixels` computes the tables; this module has the figure, the films and the claims. An agent compares the
values of all actions, as the paper does, or it follows the policy whose own action is best. In the data only the first
step of an episode may take an action that is not the policy's, so later the values of such actions are guesses.
"""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.lab import plots
from wane.lab.contract import Claim, Experiment, Finding, NotTested, Tables
from wane.lab.judging import exceeds
from wane.lab.statistics import Estimate, bootstrap, paired_difference
from wane.lab.tables import select
from wane_paper.common import beliefs, episodes
from wane_paper.networks import pixels
from wane_paper.networks.composing_pixels import (
    COMPARING,
    EXACT,
    FOLLOWING,
    STATES,
    GpiPixels,
    fixed,
    seeded,
)

PICTURED = 1
"""The policy whose λFs are drawn: it walks to the largest reward."""
TITLES = {
    "product": "regressing wᵀφ (the paper)",
    "vector": "regressing φ",
    EXACT: "exact λF of the learned features",
}


class Kind(NamedTuple):
    """A kind of agent, which may have any λ̂."""

    target: str
    choice: str = COMPARING
    memory: str = "refreshed"


def draw(settings: GpiPixels, tables: Tables) -> Figure:
    """Draws returns of all agents, the λFs of the states as points, and learned values against exact values."""
    figure = plots.figure(11.5, 7.2)
    grid = figure.add_gridspec(2, 6)
    panels = [*settings.targets, EXACT]
    width = 6 // len(panels)
    for i, target in enumerate(panels):
        ax = figure.add_subplot(grid[0, width * i : width * (i + 1)])
        _draw_returns(ax, settings, tables, target)
        if i == 0:
            ax.legend(frameon=False, loc="upper left", fontsize=7.5)
    chosen = select(tables["states"], target=settings.targets[0], policy=PICTURED)
    for i, lam in enumerate(settings.lambdas[:3]):
        rows = chosen[chosen["lam"] == lam]
        ax = figure.add_subplot(grid[1, 2 * i : 2 * i + 2])
        points = ax.scatter(rows["x"], rows["y"], c=rows["value"], cmap="viridis", s=28)
        figure.colorbar(points, ax=ax, label="exact value")
        correlation = rows["learned"].corr(rows["value"])
        title = f"{beliefs.label(lam)}: λF of the states\nlearned and exact values: r = {correlation:.2f}"
        plots.tidy(ax, title, "PC 1", "PC 2")
    return figure


def _draw_returns(ax: Axes, settings: GpiPixels, tables: Tables, target: str) -> None:
    """Draws two bars for each λ̂: a pale one if agents compare all actions, a full one if they follow policies."""
    lambdas = sorted(settings.lambdas)
    places, best = np.arange(len(lambdas)), tables["optimum"]["value"].mean()
    lowest = 0.0
    for side, choice, opacity in ((-0.21, COMPARING, 0.45), (0.21, FOLLOWING, 1.0)):
        runs = _means(tables, Kind(target, choice))[lambdas]
        errors = runs.std(ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else None
        colours = [plots.colour(lam) for lam in lambdas]
        ax.bar(places + side, runs.mean(), 0.38, yerr=errors, color=colours, alpha=opacity, capsize=3, ecolor=plots.INK)
        tops = np.maximum(runs.mean() + (0 if errors is None else errors), 0)
        for place, height, top in zip(places + side, runs.mean(), tops, strict=True):
            ax.annotate(f"{height:.1f}", (place, top), (0, 4), textcoords="offset points", ha="center", fontsize=8)
        never = _means(tables, Kind(target, choice, "never refreshed"))[lambdas].mean()
        label = "w never refreshed" if choice == COMPARING else None
        ax.plot(places + side, never, "D", color=plots.INK, mfc="white", ms=4, label=label)
        lowest = min(lowest, runs.mean().min(), never.min())
    states = select(tables["exact"], features=STATES, memory="refreshed", choice=COMPARING)
    exact = states.groupby("lam")["value"].mean()[lambdas]
    ax.hlines(exact, places - 0.4, places + 0.4, color=plots.INK, lw=1, label="exact λR of the states, all actions")
    ax.axhline(best, color=plots.INK, ls="--", lw=1, label=f"optimum {best:.2f}")
    ax.axhline(0, color=plots.INK, lw=0.8)
    ax.set_xticks(places, [beliefs.label(lam) for lam in lambdas])
    ax.set_ylim(lowest - 3, 1.6 * best)
    plots.tidy(ax, f"{TITLES[target]}\npale: all actions, full: policies' own", "", "discounted return")


def films(settings: GpiPixels, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """Returns films of an episode of every agent, which show its views next to its position."""
    shown, found = tables["shown"], {}
    world = dataclasses.replace(settings.world, observation=settings.agent.base.vision.observation)
    for target in settings.targets:
        for lam in settings.lambdas:
            rows = shown[(shown["lam"] == lam) & (shown["target"] == target)]
            title = f"pixels, {target}, λ̂ = {lam:g}, true λ = {settings.lam:g}"
            found[f"{target}, {beliefs.label(lam)}"] = episodes.film(world, rows, title, with_views=True)
    return found


def _rows(tables: Tables, kind: Kind) -> pd.DataFrame:
    return select(tables["starts"], **kind._asdict())


def _means(tables: Tables, kind: Kind) -> pd.DataFrame:
    """Returns the mean returns over all starts, with the axes (seeds, λ̂)."""
    return _rows(tables, kind).pivot_table(index="seed", columns="lam", values="value")


def _difference(tables: Tables, ours: tuple[Kind, float], theirs: tuple[Kind, float]) -> Estimate:
    """Estimates the difference between two agents' returns, over seeds, or over starts if there is one seed."""
    rows = [select(_rows(tables, kind), lam=lam) for kind, lam in (ours, theirs)]
    runs = "seed" if rows[0]["seed"].nunique() > 1 else "start"
    one, other = (each.groupby(runs)["value"].mean() for each in rows)
    return paired_difference(one, other)


def _need_target(settings: GpiPixels, *targets: str) -> None:
    for target in targets:
        if target not in (*settings.targets, EXACT):
            raise NotTested(f"No agent regresses the {target}: there are {', '.join(settings.targets)}.")


Test = Callable[[GpiPixels, Tables], Finding]


def the_true_lambda_is_best(kind: Kind) -> Test:
    """Returns a test that the agent with the true λ earns more than the best of the others, paired by seed."""

    def test(settings: GpiPixels, tables: Tables) -> Finding:
        _need_target(settings, kind.target)
        beliefs.need(settings.lambdas, settings.lam)
        means = _means(tables, kind)
        rival = max(beliefs.others(settings.lambdas, settings.lam), key=lambda lam: means[lam].mean())
        found = _difference(tables, (kind, settings.lam), (kind, rival))
        detail = ", ".join(f"λ̂ = {lam:g}: {means[lam].mean():.2f}" for lam in settings.lambdas)
        optimum = tables["optimum"]["value"].mean()
        detail += f"; optimum {optimum:.2f}; {len(means)} seeds, mean over all {settings.world.n_states} starts"
        return exceeds(found, detail)

    return test


def earns_more(ours: Kind, theirs: Kind) -> Test:
    """Returns a test that agents of one kind with the true λ earn more than those of another kind, paired by seed."""

    def test(settings: GpiPixels, tables: Tables) -> Finding:
        _need_target(settings, ours.target, theirs.target)
        beliefs.need(settings.lambdas, settings.lam)
        found = _difference(tables, (ours, settings.lam), (theirs, settings.lam))
        one, other = (_means(tables, kind)[settings.lam].mean() for kind in (ours, theirs))
        return exceeds(found, f"{one:.2f} against {other:.2f}")

    return test


def refreshing_is_needed(settings: GpiPixels, tables: Tables) -> Finding:
    """Tests whether the exact λR with the true λ earns the most if w is recomputed at every step, and only then."""
    beliefs.need(settings.lambdas, settings.lam)
    rows = select(tables["exact"], features=STATES, choice=COMPARING)
    means = rows.pivot_table(index="memory", columns="lam", values="value")
    wrong = list(beliefs.others(settings.lambdas, settings.lam))
    lead = means[settings.lam] - means[wrong].max(axis=1)
    detail = "; ".join(
        f"{memory}: " + ", ".join(f"λ̂ = {lam:g}: {row[lam]:.2f}" for lam in settings.lambdas)
        for memory, row in means.iterrows()
    )
    holds = bool(lead["refreshed"] > 0 > lead["never refreshed"])
    return Finding(holds, float(lead["refreshed"] - lead["never refreshed"]), None, detail)


def values_are_those_of_the_states(settings: GpiPixels, tables: Tables) -> Finding:
    """Tests whether values from pixels have a mean correlation above 0.9 with exact ones, for the true λ."""
    beliefs.need(settings.lambdas, settings.lam)
    fits = select(tables["fits"], target=settings.targets[0], iteration=settings.agent.iterations)
    rows = select(fits, lam=settings.lam)
    found = bootstrap(rows.groupby("seed")["correlation"].mean())
    others = fits.groupby("lam")[["correlation", "own_error"]].mean()
    detail = "; ".join(f"λ̂ = {lam:g}: r = {row.iloc[0]:.2f}, error {row.iloc[1]:.3g}" for lam, row in others.iterrows())
    return exceeds(found, detail, 0.9)


EXPERIMENT = Experiment(
    name="gpi-pixels",
    title="Composing policies from pixels",
    source="section 5.3, figure 5.4",
    summary=(
        "The paper composes four policies of FourRooms that is seen in the first person, through λ-features which "
        "convolutional networks learn from stacked pictures. It states that the agent with the true λ earns the most, "
        "and that the λFs of the states show the structure of the values."
    ),
    quick=GpiPixels(agent=pixels.QUICK, seeds=1),
    paper=GpiPixels(seeds=3, targets=("product",)),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=(
        Claim(
            "true-lambda-is-best",
            "The true λ earns the most from pixels.",
            the_true_lambda_is_best(Kind("product")),
            kind="paper",
            place="section 5.3, figure 5.4",
        ),
        Claim(
            "exact-learning-following",
            "The true λ earns the most with exact λFs of the learned base features, where policies are followed.",
            the_true_lambda_is_best(Kind(EXACT, FOLLOWING)),
        ),
        Claim(
            "values", "Values from pixels correlate with exact values by more than 0.9.", values_are_those_of_the_states
        ),
        Claim(
            "following",
            "Following the best policy earns more than comparing actions of which the data tell little.",
            earns_more(Kind("product", FOLLOWING), Kind("product")),
        ),
        Claim(
            "memory",
            "With the exact λR of the states the true λ earns the most only if w is made anew at every step.",
            refreshing_is_needed,
        ),
    ),
    differences=(
        "The pictures are drawn by our own renderer. Of the 6,120 transitions of a policy 2,152 are different; they "
        "are kept once and weighted, so the same loss takes about a third of the steps. There are 4,985 different "
        "views, made of 225 pictures. The paper does not say what the agent knows of the rewards that remain. With "
        "the exact λR of the states, agents that never refresh w earn most with λ = 1, so the paper's result needs "
        "that w is refreshed, as in its tabular experiment; we do that, and show both. w is fitted to the rewards of "
        "fresh sites, and used-up sites do not fade in the pictures. Returns are those from all 68 starts, of which "
        "the paper's 50 are a sample. Two things are added to the paper's agents. Regressing all features (vector), "
        "because the loss of its Algorithm 2 determines the λF only for λ = 1. And following the policy whose own "
        "action is best, because the data hold other actions only at the first step of a trajectory, so that their "
        "later values are guesses; such an agent is told the state, which its policies are defined on. The fits of "
        "all seeds see the same batches. The quick scale has pictures of 32 × 32 pixels, half of the filters, a "
        "higher learning rate, and 10 iterations of 4 epochs that go on from the last network, not 20 of 100 epochs "
        "from a fresh one. At the paper's scale the target is the paper's; --targets vector is the other one."
    ),
    paper_cost=pixels.COST,
    double_precision=False,
)
