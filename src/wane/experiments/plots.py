"""What the figures share: colours that mean the same everywhere, curves with their standard errors, bars."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.experiments.statistics import mean_and_error

COLOURS = {0.0: "#D55E00", 0.25: "#E69F00", 0.5: "#0072B2", 0.75: "#56B4E9", 1.0: "#009E73"}
"""of a believed λ; apart for the colour-blind too"""
INK, GREY = "#222222", "#999999"
OTHERS = ("#CC79A7", "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#222222")


def colour(lam: Any) -> str:
    """The colour of a λ: that of the nearest one that has its own."""
    return COLOURS[min(COLOURS, key=lambda known: abs(known - lam))]


def figure(width: float = 10.0, height: float = 3.4) -> Figure:
    return Figure(figsize=(width, height), layout="constrained")


def tidy(ax: Axes, title: str = "", xlabel: str = "", ylabel: str = "") -> Axes:
    """Titles and labels, and no frame at the top and right."""
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def curve(ax: Axes, table: pd.DataFrame, x: str, y: str, label: str, shade: str, style: str = "-") -> None:
    """Mean over seeds against x, with ± one standard error shaded."""
    runs = table.pivot_table(index="seed", columns=x, values=y)
    mean, error = mean_and_error(runs.to_numpy())
    at = runs.columns.to_numpy()
    ax.plot(at, mean, style, color=shade, label=label)
    ax.fill_between(at, mean - error, mean + error, color=shade, alpha=0.2, linewidth=0)


def bars(ax: Axes, labels: Sequence[str], heights: Any, errors: Any = None, shades: Sequence[str] = ()) -> None:
    """Bars from zero, a number at the foot of each."""
    heights = np.asarray(heights, float)
    ax.bar(labels, heights, yerr=errors, color=list(shades) or GREY, capsize=3, ecolor=INK)
    for i, height in enumerate(heights):
        ax.annotate(
            f"{height:.2f}", (i, 0), (0, 4), textcoords="offset points", ha="center", color="white", weight="bold"
        )
    ax.margins(y=0.15)
