"""Parts that the figures share: colours that mean the same everywhere, curves with their intervals, and bars."""

from collections.abc import Mapping, Sequence
from typing import Any

from wane.extras import require

require("experiments", "wane.lab.plots")

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from wane.lab.statistics import mean_with_interval

INK, GREY = "#222222", "#999999"
OTHERS = ("#CC79A7", "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#222222")


def colour(lam: Any) -> str:
    """Returns the colour of a λ, from dark for 0 to light for 1. Colour-blind readers see the order too."""
    return to_hex(colormaps["plasma"](0.03 + 0.77 * float(np.clip(lam, 0.0, 1.0))))


def figure(width: float = 10.0, height: float = 3.4) -> Figure:
    """Returns an empty figure whose layout leaves room for labels. The size is in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def tidy(ax: Axes, title: str = "", xlabel: str = "", ylabel: str = "") -> Axes:
    """Sets the title and the labels, and removes the frame at the top and on the right."""
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def power(number: float) -> str:
    """Returns a number as text, with a raised exponent if it is a power of ten: "10⁻⁶"."""
    digits, _, exponent = f"{number:e}".partition("e")
    if float(digits) != 1 or abs(int(exponent)) < 3:
        return f"{number:g}"
    return "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def plot_learning(
    table: pd.DataFrame,
    x: str = "episode",
    y: str = "value",
    by: str | None = "agent",
    interval: str = "bootstrap",
    ax: Axes | None = None,
    *,
    colours: Mapping[Any, str] | None = None,
) -> Axes:
    """Draws learning curves: the mean of column `y` over seeds against column `x`, with its interval shaded.

    The table has one row for each measurement and a column `seed`. Each value of column `by` gets its own curve
    (`by=None` draws one curve), in the order of the table. The interval is "bootstrap" (95 %, `bootstrap` in
    `wane.lab.statistics`) or "error" (± one standard error, as the paper plots); where there is only one
    seed, no interval is drawn. `colours` maps values of `by` to colours. Returns the axes, which are made if none are
    given. Raises ValueError if the table has no rows or lacks a column.
    """
    wanted = ["seed", x, y] if by is None else ["seed", x, y, by]
    missing = [name for name in wanted if name not in table]
    if missing:
        raise ValueError(
            f"the table has no column {', '.join(map(repr, missing))}, it has {', '.join(map(repr, table.columns))}: "
            "name others with x=, y= and by="
        )
    if table[y].notna().sum() == 0:
        raise ValueError(f"there is nothing to draw: no row of the table has a number in column {y!r}")
    ax = tidy(figure(6.0, 4.0).subplots(), "", x, y) if ax is None else ax
    curves = [(y, table)] if by is None else list(table.groupby(by, sort=False))
    for i, (value, rows) in enumerate(curves):
        shade = (colours or {}).get(value, OTHERS[(i + 1) % len(OTHERS)])
        curve(ax, rows, x, y, f"{value:g}" if isinstance(value, float) else str(value), shade, interval=interval)
    if by is not None:
        ax.legend(frameon=False)
    return ax


def curve(
    ax: Axes,
    table: pd.DataFrame,
    x: str,
    y: str,
    label: str,
    shade: str,
    style: str = "-",
    interval: str = "error",
) -> None:
    """Draws one curve: the mean of `y` over seeds against `x`, with its interval shaded."""
    runs = table.pivot_table(index="seed", columns=x, values=y)
    mean, low, high = _by_place(runs.to_numpy(float), interval)
    at = runs.columns.to_numpy()
    ax.plot(at, mean, style, color=shade, label=label)
    ax.fill_between(at, low, high, color=shade, alpha=0.2, linewidth=0)


def _by_place(scores: Float[np.ndarray, "runs places"], interval: str) -> Float[np.ndarray, "3 places"]:
    """Returns means and intervals at every place, over the runs that have a score there (the others are NaN)."""
    found = np.empty((3, scores.shape[1]))
    # Places with the same runs are computed together; usually all places have the same runs.
    patterns, pattern = np.unique(np.isfinite(scores), axis=1, return_inverse=True)
    for i, runs in enumerate(patterns.T):
        found[:, pattern == i] = mean_with_interval(scores[runs][:, pattern == i], interval)
    return found


def bars(
    ax: Axes,
    labels: Sequence[str],
    heights: ArrayLike,
    errors: ArrayLike | None = None,
    shades: Sequence[str] = (),
) -> None:
    """Draws bars from zero, with a number at the foot of each."""
    heights = np.asarray(heights, float)
    ax.bar(labels, heights, yerr=errors, color=list(shades) or GREY, capsize=3, ecolor=INK)
    for i, height in enumerate(heights):
        ax.annotate(
            f"{height:.2f}", (i, 0), (0, 4), textcoords="offset points", ha="center", color="white", weight="bold"
        )
    ax.margins(y=0.15)
