"""TwoRooms with rewards that grow back: Qλ-learning under λ^(n / (0.1 m)), m steps after the last of n visits.

The agents are compared with the optimum over all visiting times (`wane_paper.tabular.replenishing_optimum`).
"""

from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from wane.depletion import Depletion
from wane.lab import plots
from wane.lab.contract import Experiment, Tables
from wane.regrowth import TimeElapsed
from wane.settings import Count, Positive
from wane_paper.common import beliefs, episodes
from wane_paper.common.learning import LAST, PLAIN, Learning, films, results, seeded
from wane_paper.common.learning_claims import claims
from wane_paper.tabular.replenishing_optimum import best_return


@dataclass(frozen=True)
class ReplenishingQ(Learning):
    """Settings of replenishing-q."""

    seeds: Count = 5
    """independent repetitions, numbered from 0"""
    rate: Positive = 0.1
    """how fast rewards grow back"""

    @property
    def depletion(self) -> Depletion:
        """The depletion of the world: rewards grow back with the time since the last visit."""
        return TimeElapsed(self.lam, self.rate)


def fixed(settings: ReplenishingQ) -> Tables:
    """Returns the table `optimum`, one row with its return, or nothing if the search for the optimum takes too long."""
    value = best_return(settings.world)
    return {} if value is None else {"optimum": pd.DataFrame({"value": [value]})}


def draw(settings: ReplenishingQ, tables: Tables) -> Figure:
    """Draws learning curves, final results with the optimum, and a path for each of up to three agents."""
    figure = plots.figure(11.0, 7.0)
    grid = figure.add_gridspec(2, 6, height_ratios=(1, 1.15))
    learning, late = figure.add_subplot(grid[0, :3]), figure.add_subplot(grid[0, 3:])
    names = [beliefs.label(lam) for lam in settings.lambdas]
    colours = dict(zip([*names, PLAIN], [*map(plots.colour, settings.lambdas), plots.GREY], strict=True))
    plots.plot_learning(tables["curves"], interval="error", ax=learning, colours=colours)
    scores = results(settings, tables["curves"])
    late.boxplot(scores[names].to_numpy(), tick_labels=names, medianprops={"color": plots.INK}, widths=0.4)
    if "optimum" in tables:
        for ax in (learning, late):
            ax.axhline(tables["optimum"]["value"].iloc[0], color=plots.INK, ls="--", lw=1, label="optimum")
        learning.set_ylim(top=1.08 * tables["optimum"]["value"].iloc[0])
    learning.legend(frameon=False, loc="center right")
    title = f"Greedy return while learning ({tables['curves']['seed'].nunique()} seeds, ± s.e.)"
    plots.tidy(learning, title, "episode", "discounted return")
    plots.tidy(late, f"last {LAST} evaluations (plain Q-learning: {scores[PLAIN].mean():.2f})", "", "discounted return")
    for i, name in enumerate(names[:3]):
        rows = tables["episodes"][tables["episodes"]["agent"] == name]
        ax = figure.add_subplot(grid[1, 2 * i : 2 * i + 2])
        episodes.path(ax, settings.world, rows, f"{name}, seed 0: {rows['earned'].iloc[-1]:.2f}")
    return figure


EXPERIMENT = Experiment(
    name="replenishing-q",
    title="Learning where rewards grow back",
    source="appendix J, figure J.2",
    summary=(
        "The λ representation does not describe rewards that grow back with the time since the last visit. The paper "
        "tries Qλ-learning all the same where rewards grow back so slowly that they nearly wear off for good."
    ),
    quick=ReplenishingQ(seeds=64),
    paper=ReplenishingQ(seeds=256),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=claims("appendix J, figure J.2"),
    differences=(
        "The paper has five runs. We have 256, and 64 at the quick scale. The optimum is added: it is found by branch "
        "and bound over all visiting times, exactly."
    ),
    paper_cost="less than one hour on a laptop (2020, quad-core)",
)
