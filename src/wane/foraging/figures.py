"""Figures of fitted data for a paper. Every function draws on `ax`, or on a new figure, and returns the figure.

Axes are in the units of the data: harvests, and the task's units of time and reward. All animals and all conditions are
shown; nothing is selected silently.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.foraging.charnov import harvests_beside_optimum
from wane.foraging.comparison import Comparison, leaving_chances
from wane.foraging.discounting import Discount
from wane.foraging.door import at_the_door
from wane.foraging.draw import COLOURS, MARKERS, clean, place
from wane.foraging.fitting import Fit
from wane.foraging.recovery import Recovery
from wane.foraging.visits import PatchVisits
from wane.worlds.draw import GREY, INK


@at_the_door
def draw_harvests(data: PatchVisits, discount: Discount | None = None, *, ax: Axes | None = None) -> Figure:
    """Draws the mean harvests of every animal and the optimum, for each kind of patch and environment."""
    figure, ax = place(ax, 5.4, 3.6)
    table = harvests_beside_optimum(data, discount)
    free = data.table[~data.table["censored"]]
    means = free.groupby(["environment", "kind", "subject"])["harvests"].mean()
    by_condition: dict[Any, Any] = {key: rows.to_numpy() for key, rows in means.groupby(level=["environment", "kind"])}
    conditions: list[list[Any]] = table[["environment", "kind", "observed", "optimal"]].values.tolist()
    for i, (environment, kind, observed, optimal) in enumerate(conditions):
        if (environment, kind) in by_condition:
            own = by_condition[environment, kind]
            at = i + np.linspace(-0.16, 0.16, len(own)) if len(own) > 1 else np.array([float(i)])
            ax.plot(at, own, "o", ms=4, color=COLOURS[0], alpha=0.6, label="each animal" if i == 0 else None)
            ax.plot([i - 0.3, i + 0.3], [float(observed)] * 2, color=COLOURS[0], lw=2, label="mean" if i == 0 else None)
        ax.plot([i - 0.3, i + 0.3], [float(optimal)] * 2, color=INK, lw=2, ls=":", label="optimum" if i == 0 else None)
    ax.set_xticks(range(len(table)), [f"{kind}\n{environment}" for environment, kind, *_ in conditions])
    ax.set(ylabel="harvests before leaving", ylim=(0, None))
    ax.legend(frameon=False, fontsize=9)
    clean(ax)
    return figure


@at_the_door
def draw_survival(found: Fit, environment: Any, *, subject: Any = None, ax: Axes | None = None) -> Figure:
    """Draws the fraction of visits that go on after each harvest: observed (points) and predicted (lines).

    There is one colour for each kind of patch. The observed fraction is the Kaplan–Meier estimate, which takes visits
    that the experiment ended into account. Raises ValueError if the environment has no visits.
    """
    figure, ax = place(ax, 4.6, 3.4)
    table = leaving_chances(found, subject)
    table = table[table["environment"] == environment]
    if table.empty:
        names = ", ".join(map(repr, found.data.table["environment"].unique().tolist()))
        raise ValueError(f"environment {environment!r} has no visits: name one of those that have, {names}")
    for i, (kind, rows) in enumerate(table.groupby("kind", sort=False)):
        n = np.append(0, rows["harvests"].to_numpy())
        colour = COLOURS[i % len(COLOURS)]
        for column, style in (("observed", MARKERS[i % len(MARKERS)]), ("predicted", "-")):
            goes_on = np.append(1.0, np.cumprod(1 - rows[column].to_numpy()))
            ax.plot(n, goes_on, style, ms=4, color=colour, label=str(kind) if column == "observed" else None)
    ax.set(xlabel="harvests", ylabel="fraction of visits that go on", ylim=(0, 1.03), xlim=(0, None))
    ax.set_title(f"{environment} · {found.model.name}", fontsize=10)
    ax.legend(frameon=False, fontsize=9)
    clean(ax)
    return figure


@at_the_door
def draw_parameters(found: Fit, parameter: str, *, pooled: Fit | None = None, ax: Axes | None = None) -> Figure:
    """Draws a parameter of every animal with its interval. Hollow points are values that are not identified.

    `pooled` is the same model fitted to all animals together, drawn as a line with its interval shaded. Raises
    ValueError if the model has no such parameter.
    """
    figure, ax = place(ax, 4.6, 3.4)
    rows = found.estimates[found.estimates["parameter"] == parameter]
    if rows.empty:
        names = ", ".join(found.estimates["parameter"].unique())
        raise ValueError(f"{found.model.name} has no parameter {parameter!r}: name one of {names}")
    at, value, known = np.arange(len(rows)), rows["value"].to_numpy(), rows["identified"].to_numpy(bool)
    ends = np.abs(rows[["low", "high"]].to_numpy() - value[:, None]).T
    ax.errorbar(at[known], value[known], ends[:, known], fmt="o", ms=5, capsize=3, color=COLOURS[0])
    ax.plot(at[~known], value[~known], "o", ms=5, mfc="white", mec=COLOURS[0])
    if pooled is not None:
        one = pooled.estimates[pooled.estimates["parameter"] == parameter].iloc[0]
        ax.axhline(one["value"], color=GREY, lw=1.2, label="pooled")
        if one["identified"]:
            ax.axhspan(one["low"], one["high"], color=GREY, alpha=0.2, lw=0)
        ax.legend(frameon=False, fontsize=9)
    ax.set_xticks(at, [str(subject) for subject in rows["subject"]])
    ax.set(xlabel="subject", ylabel=parameter)
    clean(ax)
    return figure


@at_the_door
def draw_comparison(found: Comparison, *, ax: Axes | None = None) -> Figure:
    """Draws how much worse than the best one each model predicts held-out blocks, or the AIC if none were held out."""
    figure, ax = place(ax, 5.4, 0.8 + 0.36 * len(found.table))
    table = found.table
    validated = table["held_out"].notna().all()
    worse = -table["difference"] if validated else table["delta_aic"]
    errors = table["se"].fillna(0.0) if validated else None
    ax.errorbar(worse, np.arange(len(table)), xerr=errors, fmt="o", ms=5, capsize=3, color=COLOURS[0])
    ax.set_yticks(range(len(table)), table["model"].tolist())
    ax.invert_yaxis()
    ax.axvline(0, color=INK, lw=1)
    ax.set(xlabel="log-probability of held-out blocks below the best" if validated else "AIC above the best")
    clean(ax)
    return figure


@at_the_door
def draw_recovery(found: Recovery, parameter: str, *, ax: Axes | None = None) -> Figure:
    """Draws the estimates of a parameter against its true values; intervals that miss the truth stand out."""
    figure, ax = place(ax, 4.0, 3.8)
    rows = found.table[(found.table["parameter"] == parameter) & found.table["identified"]]
    if rows.empty:
        names = ", ".join(found.table.loc[found.table["identified"], "parameter"].unique()) or "none"
        raise ValueError(
            f"parameter {parameter!r} is identified in no fit of {found.model.name}, so there is nothing to draw: "
            f"identified are {names}"
        )
    for covered, colour in ((True, COLOURS[1]), (False, COLOURS[0])):
        part = rows[rows["covered"] == covered]
        ends = np.abs(part[["low", "high"]].to_numpy() - part[["value"]].to_numpy()).T
        label = f"{'covers' if covered else 'misses'} the truth ({len(part)})"
        ax.errorbar(part["true"], part["value"], ends, fmt="o", ms=3, lw=0.7, color=colour, label=label)
    span = [rows["true"].min(), rows["true"].max()]
    ax.plot(span, span, color=INK, lw=1)
    ax.set(xlabel=f"true {parameter}", ylabel=f"{parameter} found")
    ax.legend(frameon=False, fontsize=9)
    clean(ax)
    return figure


@at_the_door
def draw_confusion(matrix: pd.DataFrame, *, ax: Axes | None = None) -> Figure:
    """Draws the confusion matrix: how often each model (columns) is chosen when each model (rows) is true."""
    size = 1.6 + 0.55 * len(matrix)
    figure, ax = place(ax, size + 1.0, size)
    ax.imshow(matrix.to_numpy(), vmin=0, vmax=1, cmap="Blues")
    for (i, j), share in np.ndenumerate(matrix.to_numpy()):
        ax.text(j, i, f"{100 * share:.0f}", ha="center", va="center", fontsize=9, color="white" if share > 0.5 else INK)
    ax.set_xticks(range(len(matrix.columns)), matrix.columns.tolist(), rotation=35, ha="right")
    ax.set_yticks(range(len(matrix)), matrix.index.tolist())
    ax.set(xlabel="chosen (%)", ylabel="simulated")
    return figure
