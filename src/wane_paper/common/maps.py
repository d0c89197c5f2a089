"""Values drawn over the cells of a map."""

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from wane.types import Integer
from wane.worlds import draw as pictures
from wane.worlds.grid import Map


def heat_map(ax: Axes, map: Map, values: Float[np.ndarray, " states"], largest: float, title: str) -> AxesImage:
    """Draws one value for each free cell, in colours from 0 to `largest` and as a number, with walls in grey.

    The returned image is what a colour bar needs.
    """
    shades = matplotlib.colormaps["viridis"].with_extremes(bad=pictures.WALL)
    image = ax.imshow(map.image(values), cmap=shades, vmin=0, vmax=largest)
    low, high = (corner - 0.5 for corner in pictures.window(map))
    ax.set(xticks=[], yticks=[], xlim=(low[1], high[1]), ylim=(high[0], low[0]), title=title)
    ax.spines[:].set_visible(False)
    inks = pictures.inks_on(image.to_rgba(values))
    for (row, column), value, ink in zip(map.cells, values, inks, strict=True):
        text = "0" if value == 0 else f"{value:.2f}"
        ax.text(column, row, text, ha="center", va="center", color=ink, fontsize=8)
    return image


def outline_cell(ax: Axes, map: Map, state: Integer, colour: str = pictures.INK, text: str = "") -> None:
    """Draws a box around a cell, with a short text in its upper left corner."""
    row, column = map.cells[state]
    box = Rectangle((column - 0.42, row - 0.42), 0.84, 0.84, fill=False, ec=colour, lw=1.8, zorder=4)
    ax.add_patch(box).set_path_effects([withStroke(linewidth=3.6, foreground="white")])
    halo = [withStroke(linewidth=1.2, foreground="white")]
    style = {"ha": "left", "va": "top", "fontsize": 6.5, "weight": "bold", "zorder": 5, "path_effects": halo}
    ax.text(column - 0.38, row - 0.4, text, color=colour, **style)
