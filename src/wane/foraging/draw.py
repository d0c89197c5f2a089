"""Figures of patch leaving: the quantities that the marginal value theorem compares, and how far an agent is from it.

Every function returns a plain matplotlib `Figure`, in the colours of `wane.worlds.draw`, which colour-blind readers can
tell apart. `wane.foraging` imports this module, and with it matplotlib, only when it is used.
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

from wane.foraging.curves import CurvesLike
from wane.foraging.door import at_the_door
from wane.foraging.mvt import marginal_values, mvt_leaving_times
from wane.settings import Count
from wane.types import Scalar
from wane.worlds.draw import FAINT, GREY, INK, SITE_COLOURS

THEOREM, AGENT = SITE_COLOURS[:2]
COLOURS = (AGENT, THEOREM, *SITE_COLOURS[2:5])
MARKERS = "osD^v"


@at_the_door
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
    look: dict[str, Any] = dict(ms=5, mec=AGENT, zorder=2.2)
    ax.plot(step[observed], next_reward[observed], "o", mfc=AGENT, label="next reward by staying", **look)
    ax.plot(step[~observed], next_reward[~observed], "o", mfc="white", label="extrapolated", **look)
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
        look: dict[str, Any] = dict(fmt=MARKERS[i % len(MARKERS)], color=COLOURS[i % len(COLOURS)])
        places = [at[label] + aside for label in summary[x]]
        errors = summary["se"].fillna(0.0)
        ax.errorbar(places, summary["mean"], errors, label=name, ms=6, capsize=4, lw=1.5, **look)
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
