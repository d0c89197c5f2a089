"""Figures for a paper: patch leaving beside the marginal value theorem, and models that were fitted to animals.

Every function returns a plain matplotlib `Figure`, in the colours of `wane.worlds.draw`, which colour-blind readers can
tell apart; with `ax` it draws there. Axes are in the units of the data and of the task. All animals and all conditions
are shown; nothing is selected silently. `wane.foraging` imports matplotlib only when this module is used.
"""

from collections.abc import Mapping
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator, MaxNLocator

from wane.foraging.arguments import check_arguments
from wane.foraging.comparison import Comparison, leaving_chances
from wane.foraging.curves import CurvesLike
from wane.foraging.discounting import Discount
from wane.foraging.fitting import Fit
from wane.foraging.recovery import Recovery
from wane.foraging.rule import marginal_values, mvt_leaving_times
from wane.foraging.sources import with_unit
from wane.foraging.task import Task
from wane.foraging.theorem import harvests_beside_optimum
from wane.foraging.visits import PatchVisits
from wane.settings import Count
from wane.types import Scalar
from wane.worlds.draw import FAINT, GREY, INK, SITE_COLOURS

THEOREM, AGENT = SITE_COLOURS[:2]
COLOURS = (AGENT, THEOREM, *SITE_COLOURS[2:5])
MARKERS = "osD^v"


@check_arguments
def draw_leaving(
    table: pd.DataFrame,
    lam: CurvesLike,
    *,
    episode: Any = None,
    title: str | None = None,
    most: Count = 8,
    **settings: Any,
) -> Figure:
    """Draws one panel for each stay of an episode, by default of the first episode.

    If there are more than `most` stays, the first ones are drawn, and the figure says how many there are.

    A panel shows the next reward by staying against time in the patch, the theorem's threshold, and the times at which
    the agent and the theorem leave. Hollow points are extrapolated with λ, because the agent had left. The settings are
    those of `mvt_leaving_times`; R is averaged over all of the table. Raises ValueError if the episode has no stay.
    """
    stays = mvt_leaving_times(table, lam, **settings)
    keys = list(stays.columns[: list(stays.columns).index("bout")])
    chosen = stays if episode is None else stays[stays["episode"] == episode]
    if chosen.empty:
        raise ValueError(
            f"episode {episode!r} has no stay to draw: there are {', '.join(map(str, stays['episode'].unique()))}"
        )
    one = chosen.iloc[:1][keys]
    shown = stays.merge(one, on=keys).iloc[:most]
    stays_there = len(stays.merge(one, on=keys))
    values = marginal_values(table, lam, **settings).merge(one, on=keys)
    figure, panels = _grid(len(shown))
    for ax, (_, stay) in zip(panels, shown.iterrows(), strict=True):
        _draw_stay(ax, stay, values[values["bout"] == stay["bout"]])
    if (values["next_reward"] > 0).any():
        panels[0].set_yscale("log")
    for ax in panels:
        ax.minorticks_off()
    panels[0].xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10], nbins=6))
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    part = f"the first {len(shown)} of {stays_there} stays" if len(shown) < stays_there else ""
    if title or part:
        figure.suptitle(" · ".join(filter(None, [title, part])), fontsize=12)
    return figure


def _grid(n: int) -> tuple[Figure, list[Axes]]:
    """Returns a figure with n panels, which share their axes, up to four in a row."""
    columns = min(n, 4)
    rows = -(-n // columns)
    size = 0.8 + 2.4 * max(columns, 2), 0.9 + 2.3 * rows
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(hspace=0.06))
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel().tolist()
    for ax in panels[n:]:
        ax.set_visible(False)
    for i, ax in enumerate(panels[:n]):
        lowest = i + columns >= n
        ax.tick_params(labelbottom=lowest)
        ax.set(xlabel="steps in the patch" if lowest else "", ylabel="reward per step" if i % columns == 0 else "")
    return figure, panels[:n]


def _draw_stay(ax: Axes, stay: pd.Series, values: pd.DataFrame) -> None:
    """Draws one stay: the next reward by staying, the threshold, and both leaving times."""
    step, next_reward, theta = (values[name].to_numpy(float) for name in ("step", "next_reward", "threshold"))
    # The axis is logarithmic, so it shows only numbers above 0.
    next_reward, theta = np.where(next_reward > 0, next_reward, np.nan), np.where(theta > 0, theta, np.nan)
    observed = values["observed"].to_numpy(bool)
    ax.axvline(stay["steps"], color=AGENT, lw=1.6, ls=":" if stay["censored"] else "-", label="agent leaves")
    # The theorem's line stands a little aside, so that equal times show as two lines.
    ax.axvline(
        stay["mvt_steps"] + 0.12, color=THEOREM, lw=1.6, ls=":" if stay["mvt_censored"] else "--", label="MVT leaves"
    )
    ax.plot(step, theta, color=THEOREM, lw=1.4, label="threshold (average rate)", zorder=2)
    ax.plot(step, next_reward, color=AGENT, lw=1, zorder=2.1)
    point: dict[str, Any] = dict(ms=5, mec=AGENT, zorder=2.2)
    ax.plot(step[observed], next_reward[observed], "o", mfc=AGENT, label="next reward by staying", **point)
    ax.plot(step[~observed], next_reward[~observed], "o", mfc="white", label="extrapolated", **point)
    ax.set_title(f"site {stay['site']}, from time {stay['arrival']:g}", fontsize=10, color=INK)
    still_there = [name for name, column in (("agent", "censored"), ("MVT", "mvt_censored")) if stay[column]]
    if still_there:
        _note(ax, 0.97, 0.97, f"{' and '.join(still_there)} still there\nwhen the episode ends", "top")
    clean(ax)


def _note(ax: Axes, x: float, y: float, text: str, va: Literal["top", "bottom"]) -> None:
    """Writes small grey text that stays readable over lines."""
    halo = [withStroke(linewidth=3, foreground="white")]
    ax.text(x, y, text, transform=ax.transAxes, ha="right", va=va, fontsize=8.5, color=GREY, path_effects=halo)


def draw_difference(
    summaries: pd.DataFrame | Mapping[str, pd.DataFrame],
    x: str = "distance",
    *,
    title: str | None = None,
    unit: str = "steps",
    ax: Axes | None = None,
) -> Figure:
    """Draws agent minus MVT with standard errors along a column of `summarise`, for one summary or several by name.

    It draws on `ax` or on a new figure, and returns the figure. Raises ValueError if a summary lacks the column.
    """
    several = summaries if isinstance(summaries, Mapping) else {"": summaries}
    for name, summary in several.items():
        if x not in summary or "mean" not in summary:
            raise ValueError(f"summary {name!r} lacks {x!r} or 'mean': give what summarise(…, by={x!r}) returns")
    own = ax is None
    figure, ax = place(ax, 4.6, 3.4)
    labels = pd.unique(np.concatenate([summary[x].to_numpy() for summary in several.values()]))
    numeric = pd.api.types.is_numeric_dtype(labels)
    at = {label: float(label) if numeric else float(i) for i, label in enumerate(labels)}
    spacing = float(min(np.diff(np.unique(list(at.values()))), default=1.0))
    for i, (name, summary) in enumerate(several.items()):
        # Summaries are shifted sideways a little, so that their error bars do not overlap.
        aside = 0.08 * spacing * (i - (len(several) - 1) / 2)
        style: dict[str, Any] = dict(fmt=MARKERS[i % len(MARKERS)], color=COLOURS[i % len(COLOURS)])
        places = [at[label] + aside for label in summary[x]]
        errors = summary["se"].fillna(0.0)
        ax.errorbar(places, summary["mean"], errors, label=name, ms=6, capsize=4, lw=1.5, **style)
    ax.axhline(0, color=INK, lw=1)
    ax.set_xticks(list(at.values()), [str(label) for label in at])
    ax.set(xlabel=x, ylabel=f"agent − MVT ({unit})", title=title or "")
    ax.set_xlim(min(at.values()) - spacing / 2, max(at.values()) + spacing / 2)
    ax.margins(y=0.18)
    _note(ax, 1.0, 1.0, "stays longer ↑", "top")
    _note(ax, 1.0, 0.02, "leaves earlier ↓", "bottom")
    if len(several) > 1:
        legend_below(figure, ax, own, min(len(several), 3))
    clean(ax)
    return figure


def draw_overstaying(
    tables: Mapping[str, pd.DataFrame], *, true_lam: Scalar | None = None, ax: Axes | None = None
) -> Figure:
    """Draws the steps of the first stay against the believed λ̂ for each table of `overstaying`, and the optimal steps.

    At hollow points the episode ended before the agent left.
    """
    own = ax is None
    figure, ax = place(ax, 5.0, 3.6)
    for i, (name, table) in enumerate(tables.items()):
        stays, colour = table.drop_duplicates("believed"), COLOURS[i % len(COLOURS)]
        ax.plot(stays["believed"], stays["steps"], "-", lw=1.2, color=colour)
        for part, fill in ((stays[~stays["censored"]], colour), (stays[stays["censored"]], "white")):
            ax.plot(part["believed"], part["steps"], MARKERS[i % len(MARKERS)], ms=6, mfc=fill, mec=colour)
        ax.plot([], [], MARKERS[i % len(MARKERS)] + "-", ms=6, lw=1.2, color=colour, label=name)
        ax.axhline(stays["optimal"].iloc[0], color=INK, lw=1, label="optimum" if i == 0 else None)
    if true_lam is not None:
        ax.axvline(float(true_lam), color=GREY, lw=1, ls=":", label="true λ")
    ax.set(xlabel="believed λ̂", ylabel="steps of the first stay", yscale="log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    legend_below(figure, ax, own, 3)
    clean(ax)
    return figure


@check_arguments
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
    ax.set(ylabel=f"{_harvests(data.task)} before leaving", ylim=(0, None))
    ax.legend(frameon=False, fontsize=9)
    clean(ax)
    return figure


@check_arguments
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
    ax.set(xlabel=_harvests(found.data.task), ylabel="fraction of visits that go on", ylim=(0, 1.03), xlim=(0, None))
    ax.set_title(f"{environment} · {found.model.name}", fontsize=10)
    ax.legend(frameon=False, fontsize=9)
    clean(ax)
    return figure


@check_arguments
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
    ax.set(xlabel="subject", ylabel=parameter + _unit(rows))
    clean(ax)
    return figure


@check_arguments
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


@check_arguments
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
    ax.set(xlabel=f"true {parameter}{_unit(rows)}", ylabel=f"{parameter} found{_unit(rows)}")
    ax.legend(frameon=False, fontsize=9)
    clean(ax)
    return figure


@check_arguments
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


def _harvests(task: Task) -> str:
    """What harvests are called on an axis: with their time, if its unit is known."""
    return f"harvests of {with_unit(task.harvest, task.time_unit)}" if task.time_unit else "harvests"


def _unit(estimates: pd.DataFrame) -> str:
    """The unit of a parameter, in brackets, from the rows of its estimates; empty if it has none."""
    unit = estimates["unit"].iloc[0]
    return f" ({unit})" if unit else ""


def place(ax: Axes | None, width: float, height: float) -> tuple[Figure, Axes]:
    """The given axes and their figure, or new ones of this size in inches."""
    if ax is None:
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.subplots()
    return cast(Figure, ax.get_figure(root=True)), ax


def legend_below(figure: Figure, ax: Axes, own: bool, columns: int) -> None:
    """Draws the legend: below the axes of a new figure (`own`), or inside axes that the caller gave."""
    if own:
        figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    else:
        ax.legend(frameon=False, fontsize=8)


def clean(ax: Axes) -> None:
    """Removes the frame at the top and right, and draws faint lines behind the data."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(GREY)
    ax.tick_params(colors=INK, labelsize=9)
    ax.grid(axis="y", color=FAINT, lw=0.8)
    ax.set_axisbelow(True)
