"""The figure of `mvt`. In all panels the colour shows who acts; filled and open marks are the two forms of the rule."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.lab import plots
from wane.lab.contract import Tables
from wane.lab.statistics import mean_and_error
from wane_paper.networks.mvt_tables import EXACT, FORMS, MVT, OPTIMUM, by_lam, differences, make_world

LEARNED = "λO-FB"
SHADES = {LEARNED: plots.OTHERS[1], EXACT: plots.OTHERS[2], OPTIMUM: plots.INK}


def draw(settings: MVT, tables: Tables) -> Figure:
    """Draws episodes at some distances, and differences from the theorem's leaving times."""
    figure = plots.figure(14.0, 7.4)
    grid = figure.add_gridspec(2, 12)
    smallest = min(settings.discounts)
    for i, distance in enumerate(settings.distances[:3]):
        ax = figure.add_subplot(grid[0, 4 * i : 4 * i + 4])
        _draw_episodes(ax, settings, tables, distance, smallest)
        title = f"patches {distance} steps apart, λ = {settings.lam:g}, γ = {smallest:g}"
        plots.tidy(ax, title, "time", "place in the corridor" if i == 0 else "")
    for i, discount in enumerate(settings.discounts[:2]):
        ax = figure.add_subplot(grid[1, 4 * i : 4 * i + 4])
        _draw_distances(ax, settings, tables, discount)
    _draw_lambdas(figure.add_subplot(grid[1, 8:12]), settings, tables, smallest)
    _draw_legend(figure)
    return figure


def _draw_legend(figure: Figure) -> None:
    """Draws the legend: who acts, and with which rule leaving times are compared."""
    ax = figure.axes[0]
    names = {LEARNED: "λO-FB, trained", EXACT: "λO-FB with the exact Φ", OPTIMUM: "optimum"}
    handles = [ax.plot([], [], color=SHADES[agent], lw=3, label=label)[0] for agent, label in names.items()]
    for form, look in _looks(plots.GREY).items():
        label = "minus the printed rule" if form == "paper" else "minus the corrected rule"
        handles.append(ax.plot([], [], ls="", label=label, **look)[0])
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False)


def _looks(shade: str) -> dict[str, dict[str, Any]]:
    """Returns the marks of the two forms of the rule."""
    filled = {"marker": "o", "ms": 5, "color": shade}
    return dict(zip(FORMS, (filled, filled | {"marker": "s", "mfc": "white"}), strict=True))


def _draw_episodes(ax: Axes, settings: MVT, tables: Tables, distance: int, discount: float) -> None:
    world = make_world(settings, distance, discount, settings.timings[0])
    column = world.map.cells[:, 1]
    for name, agent, style in (("episodes", LEARNED, "-"), ("best_episodes", OPTIMUM, ":")):
        rows = tables[name]
        rows = rows[(rows["distance"] == distance) & (rows["timing"] == settings.timings[0])]
        rows = rows[rows["discount"] == discount]
        rows = rows[rows["seed"] == rows["seed"].min()] if "seed" in rows else rows
        ax.plot(rows["time"], column[rows["cell"].to_numpy(int)], style, color=SHADES[agent])
    for site in world.sites:
        ax.axhline(int(column[site]), color=plots.GREY, lw=4, alpha=0.35, zorder=0)


def _draw_distances(ax: Axes, settings: MVT, tables: Tables, discount: float) -> None:
    """Draws differences at every distance. With γ = 1 only trained agents are drawn, as time is not scarce there."""
    agents = (LEARNED, EXACT, OPTIMUM) if discount < 1 else (LEARNED,)
    for i, agent in enumerate(agents):
        for j, (form, look) in enumerate(_looks(SHADES[agent]).items()):
            groups = [
                _seed_means(settings, tables, agent, discount, form, each) for each in (*settings.distances, None)
            ]
            means, errors = np.array([mean_and_error(group) if len(group) else (np.nan, 0.0) for group in groups]).T
            at = np.arange(len(groups)) + 0.22 * (i - (len(agents) - 1) / 2) + 0.09 * (j - 0.5)
            ax.errorbar(at, means, errors if agent == LEARNED else None, ls="", capsize=2, **look)
    ax.axhline(0, color=plots.INK, lw=1)
    ax.set_xticks(range(len(settings.distances) + 1), [*map(str, settings.distances), "all"])
    ax.set_xlim(-0.5, len(settings.distances) + 0.5)
    what = "leaving later (+), earlier (−)" if discount < 1 else "not tested, Φ ties"
    label = "steps, ± s.e. over seeds" if discount == settings.discounts[0] else ""
    plots.tidy(ax, f"γ = {discount:g}: {what}", "distance between patches", label)


def _seed_means(
    settings: MVT, tables: Tables, agent: str, discount: float, form: str, distance: int | None
) -> pd.Series:
    """Returns the mean difference of every seed, or one mean if there are no seeds, at one distance or over all."""
    rows = differences(tables["stays" if agent == LEARNED else "exact_stays"], discount, form)
    rows = rows if agent == LEARNED else rows[(rows["agent"] == agent) & (rows["lam"] == settings.lam)]
    rows = rows if distance is None else rows[rows["distance"] == distance]
    return rows.groupby("seed" if agent == LEARNED else "lam")["difference"].mean()


def _draw_lambdas(ax: Axes, settings: MVT, tables: Tables, discount: float) -> None:
    ax.axhspan(-1, 1, color=plots.GREY, alpha=0.2, lw=0)
    ax.axhline(0, color=plots.INK, lw=1)
    for agent in (EXACT, OPTIMUM):
        for form, look in _looks(SHADES[agent]).items():
            means = by_lam(tables, agent, discount, form)
            ax.plot(means.index, means, ls="-" if form == "paper" else "--", **look)
    for form, look in _looks(SHADES[LEARNED]).items():
        means = _seed_means(settings, tables, LEARNED, discount, form, None)
        if len(means):
            mean, error = mean_and_error(means)
            ax.errorbar([settings.lam], [mean], [error], ls="", capsize=3, zorder=5, **look)
    plots.tidy(ax, f"γ = {discount:g}, all distances", "λ", "")
