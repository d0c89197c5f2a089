"""Three patches along a corridor: when λO-FB leaves them and where it goes, compared with the marginal value theorem.

With γ < 1 the averages of the theorem are discounted, with γ = 1 they are not. λ < 1 keeps Φ finite with γ = 1, but Φ
is of no use there: every state is visited infinitely often whatever the first action is, so Φ_λ(s, a, s') = 1 / (1 − λ)
for all s and a, and the exact representation does not distinguish actions. With γ = 1, an agent's choices come from
errors in the Φ that it has learned.

The paper does not say which λ its patches have. Agents are trained for one λ, and agents with the exact Φ act under
many λ, so that the answer does not depend on our choice.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.lab import Claim, Experiment, Finding, Tables, exceeds, matches, plots
from wane.lab.statistics import bootstrap, mean_and_error
from wane.lab.tables import select
from wane_paper.common import episodes
from wane_paper.networks import training
from wane_paper.networks.mvt_tables import EXACT, MVT, OPTIMUM, RULES, by_lam, differences, fixed, make_world, seeded
from wane_paper.networks.training import require_data
from wane_paper.texts import texts

LEARNED = "λO-FB"
SHADES = {LEARNED: plots.OTHERS[1], EXACT: plots.OTHERS[2], OPTIMUM: plots.INK}


def draw(settings: MVT, tables: Tables) -> Figure:
    """Draws episodes at some distances, and differences from the theorem's leaving times.

    In all panels the colour shows who acts; filled and open marks are the two rules.
    """
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
    for rule, mark in _marks(plots.GREY).items():
        label = "minus the printed rule" if rule == "paper" else "minus the corrected rule"
        handles.append(ax.plot([], [], ls="", label=label, **mark)[0])
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False)


def _marks(shade: str) -> dict[str, dict[str, Any]]:
    """Returns the marks of the two rules."""
    filled = {"marker": "o", "ms": 5, "color": shade}
    return dict(zip(RULES, (filled, filled | {"marker": "s", "mfc": "white"}), strict=True))


def _draw_episodes(ax: Axes, settings: MVT, tables: Tables, distance: int, discount: float) -> None:
    world = make_world(settings, distance, discount, settings.timings[0])
    column = world.map.cells[:, 1]
    for name, agent, style in (("episodes", LEARNED, "-"), ("best_episodes", OPTIMUM, ":")):
        rows = select(tables[name], distance=distance, timing=settings.timings[0], discount=discount)
        rows = rows[rows["seed"] == rows["seed"].min()] if "seed" in rows else rows
        ax.plot(rows["time"], column[rows["cell"].to_numpy(int)], style, color=SHADES[agent])
    for site in world.sites:
        ax.axhline(int(column[site]), color=plots.GREY, lw=4, alpha=0.35, zorder=0)


def _draw_distances(ax: Axes, settings: MVT, tables: Tables, discount: float) -> None:
    """Draws differences at every distance. With γ = 1 only trained agents are drawn, as time is not scarce there."""
    agents = (LEARNED, EXACT, OPTIMUM) if discount < 1 else (LEARNED,)
    for i, agent in enumerate(agents):
        for j, (rule, mark) in enumerate(_marks(SHADES[agent]).items()):
            groups = [
                _seed_means(settings, tables, agent, discount, rule, each) for each in (*settings.distances, None)
            ]
            means, errors = np.array([mean_and_error(group) if len(group) else (np.nan, 0.0) for group in groups]).T
            at = np.arange(len(groups)) + 0.22 * (i - (len(agents) - 1) / 2) + 0.09 * (j - 0.5)
            ax.errorbar(at, means, errors if agent == LEARNED else None, ls="", capsize=2, **mark)
    ax.axhline(0, color=plots.INK, lw=1)
    ax.set_xticks(range(len(settings.distances) + 1), [*map(str, settings.distances), "all"])
    ax.set_xlim(-0.5, len(settings.distances) + 0.5)
    what = "leaving later (+), earlier (−)" if discount < 1 else "not tested, Φ ties"
    label = "steps, ± s.e. over seeds" if discount == settings.discounts[0] else ""
    plots.tidy(ax, f"γ = {discount:g}: {what}", "distance between patches", label)


def _seed_means(
    settings: MVT, tables: Tables, agent: str, discount: float, rule: str, distance: int | None
) -> pd.Series:
    """Returns the mean difference of every seed, or one mean if there are no seeds, at one distance or over all."""
    rows = differences(tables["stays" if agent == LEARNED else "exact_stays"], discount, rule)
    rows = rows if agent == LEARNED else select(rows, agent=agent, lam=settings.lam)
    rows = rows if distance is None else select(rows, distance=distance)
    return rows.groupby("seed" if agent == LEARNED else "lam")["difference"].mean()


def _draw_lambdas(ax: Axes, settings: MVT, tables: Tables, discount: float) -> None:
    ax.axhspan(-1, 1, color=plots.GREY, alpha=0.2, lw=0)
    ax.axhline(0, color=plots.INK, lw=1)
    for agent in (EXACT, OPTIMUM):
        for rule, mark in _marks(SHADES[agent]).items():
            means = by_lam(tables, agent, discount, rule)
            ax.plot(means.index, means, ls="-" if rule == "paper" else "--", **mark)
    for rule, mark in _marks(SHADES[LEARNED]).items():
        means = _seed_means(settings, tables, LEARNED, discount, rule, None)
        if len(means):
            mean, error = mean_and_error(means)
            ax.errorbar([settings.lam], [mean], [error], ls="", capsize=3, zorder=5, **mark)
    plots.tidy(ax, f"γ = {discount:g}, all distances", "λ", "")


def films(settings: MVT, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """Returns one film for each discount, of seed 0 at the middle distance."""
    distance, timing = sorted(settings.distances)[len(settings.distances) // 2], settings.timings[0]
    rows = select(tables["episodes"], seed=0, timing=timing, distance=distance)
    worlds = {discount: make_world(settings, distance, discount, timing) for discount in settings.discounts}
    return {
        f"γ = {discount:g}": episodes.film(world, select(rows, discount=discount), f"λO-FB, γ = {discount:g}")
        for discount, world in worlds.items()
    }


def _require(settings: MVT, discount: float) -> None:
    there = discount in settings.discounts
    require_data(there, f"No agents were trained with γ = {discount:g}: add {discount:g} to discounts.")
    ties = "With γ = 1 the exact Φ is the same for all actions, so what agents do there rests on errors of learning."
    require_data(discount < 1, ties)


def _learned(settings: MVT, tables: Tables, discount: float, rule: str = "paper") -> pd.Series:
    """Returns the trained agents' mean difference from the theorem, over distances and stays, for every seed."""
    require_data("departure" in settings.timings, "No world paid on departure: add departure to timings.")
    rows = differences(tables["stays"], discount, rule)
    require_data(len(rows) > 0, "No stay was ended within an episode both by an agent and by the theorem.")
    return rows.groupby("seed")["difference"].mean()


def like_the_theorem(discount: float) -> Callable[[MVT, Tables], Finding]:
    """Returns a test that for every λ agents with the exact Φ leave within one step of the theorem on average.

    The paper does not say which λ it used. So the claim holds if it holds for every λ, fails if it fails for every λ,
    and is undecided if the answer depends on λ.
    """

    def test(settings: MVT, tables: Tables) -> Finding:
        _require(settings, discount)
        trained = bootstrap(_learned(settings, tables, discount))
        mean = by_lam(tables, EXACT, discount)
        require_data(len(mean) > 0, "No stay was ended within an episode both by an agent and by the theorem.")
        within = mean.abs() < 1
        verdict = True if within.all() else None if within.any() else False
        best, corrected = by_lam(tables, OPTIMUM, discount), by_lam(tables, EXACT, discount, "corrected")
        shown = [lam for lam in mean.index if lam in (mean.index[0], settings.lam, mean.index[-1])]
        means = [
            f"λ = {lam:g}: {mean[lam]:+.2f} steps, the optimum {best.get(lam, np.nan):+.2f}, with the corrected rule "
            f"{corrected.get(lam, np.nan):+.2f}"
            for lam in shown
        ]
        means.append(f"trained agents at λ = {settings.lam:g}: {trained}")
        detail = f"within one step for {within.sum()} of {len(within)} λ; " + "; ".join(means)
        return Finding(verdict, float(mean.get(settings.lam, np.nan)), None, detail)

    return test


def like_exact_agents(settings: MVT, tables: Tables) -> Finding:
    """Tests that trained agents' leaving times differ by less than half a step from those with the exact Φ."""
    _require(settings, 0.99)
    exact = by_lam(tables, EXACT, 0.99)
    require_data(settings.lam in exact.index, "No stay of the exact agent was ended within an episode.")
    learned = _learned(settings, tables, 0.99)
    return matches(bootstrap(learned - exact[settings.lam]), 0.0, 0.5, f"exact {exact[settings.lam]:+.2f} steps")


def corrected_is_nearer(settings: MVT, tables: Tables) -> Finding:
    """Tests for every λ that agents and the optimum leave closer to the corrected rule than to the printed rule."""
    _require(settings, 0.99)
    gains = {
        agent: (by_lam(tables, agent, 0.99).abs() - by_lam(tables, agent, 0.99, "corrected").abs()).dropna()
        for agent in (EXACT, OPTIMUM)
    }
    require_data(all(len(gain) for gain in gains.values()), "No stay was ended within an episode.")
    lowest = min(gain.min() for gain in gains.values())
    detail = "; ".join(f"{agent} nearer by {gain.min():.2f} to {gain.max():.2f} steps" for agent, gain in gains.items())
    return Finding(lowest > 0, float(lowest), None, detail)


def goes_to_the_best(settings: MVT, tables: Tables) -> Finding:
    """Tests that trained agents that can leave for one of two patches take the better one more often than chance."""
    _require(settings, 0.99)
    rows = select(tables["choices"], discount=0.99)
    require_data(len(rows) > 0, "No agent ever left for one of two patches of different worth.")
    share = rows.groupby("seed")["right"].mean()
    return exceeds(bootstrap(share), f"{rows['right'].sum()} of {len(rows)} choices are the optimum's", than=0.5)


def earned(settings: MVT, table: pd.DataFrame, discount: float) -> pd.Series:
    """Returns the mean discounted return of a table's episodes over distances, by seed if the table has seeds."""
    rows = select(table, discount=discount, timing=settings.timings[0])
    last = rows.assign(seed=rows.get("seed", 0)).groupby(["seed", "distance"])["earned"].last()
    return last.groupby("seed").mean()


def near_the_optimum(settings: MVT, tables: Tables) -> Finding:
    """Tests that agents with γ = 0.99 earn more than 95 % of the optimum."""
    _require(settings, 0.99)
    mine = earned(settings, tables["episodes"], 0.99)
    best = float(earned(settings, tables["best_episodes"], 0.99).iloc[0])
    require_data(best > 0, "The optimum earns nothing: raise agent.horizon.")
    return exceeds(bootstrap(mine / best), f"earns {mine.mean():.2f} of {best:.2f}", than=0.95)


EXPERIMENT = Experiment(
    **texts("mvt"),
    quick=MVT(seeds=3, lambdas=(0.1, 0.5), agent=training.quick(epochs=6)),
    paper=MVT(),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=(
        Claim(
            "like-discounted",
            "With γ = 0.99 agents leave within one step of the discounted theorem on average, whatever λ is.",
            like_the_theorem(0.99),
            kind="paper",
            place="appendix H.2, figure H.2",
        ),
        Claim(
            "like-undiscounted",
            "With γ = 1 agents leave within one step of the theorem on average, whatever λ is.",
            like_the_theorem(1.0),
            kind="paper",
            place="appendix H.2, figure H.2",
        ),
        Claim(
            "where-to-go",
            "Agents predict where to go too: of two patches they take the better one more often than by chance.",
            goes_to_the_best,
            kind="paper",
            place="section 6",
        ),
        Claim(
            "corrected-is-nearer",
            "Agents with the exact Φ and the optimum leave nearer to the corrected rule than to the printed one, "
            "whatever λ is.",
            corrected_is_nearer,
        ),
        Claim("trained-like-exact", "Trained agents leave when agents with the exact Φ do.", like_exact_agents),
        Claim("earns-discounted", "With γ = 0.99 agents earn at least 95 % of the optimum.", near_the_optimum),
    ),
    double_precision=False,
)
