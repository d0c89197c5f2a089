"""Values drawn over the cells of a map."""

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from wane.worlds import draw as pictures
from wane.worlds.grid import Map


def heat_map(
    ax: Axes,
    map: Map,
    values: Float[np.ndarray, " states"],
    largest: float,
    title: str,
    numbers: bool = True,
) -> AxesImage:
    """Draws one value for each free cell, in colours from 0 to `largest`, with walls in grey.

    `numbers` writes the value into each cell, which is readable on small maps. The returned image is what a colour bar
    needs.
    """
    shades = matplotlib.colormaps["viridis"].with_extremes(bad=pictures.WALL)
    image = ax.imshow(map.image(values), cmap=shades, vmin=0, vmax=largest)
    low, high = (corner - 0.5 for corner in pictures.window(map))
    ax.set(xticks=[], yticks=[], xlim=(low[1], high[1]), ylim=(high[0], low[0]), title=title)
    ax.spines[:].set_visible(False)
    if numbers:
        inks = pictures.inks_on(image.to_rgba(values))
        for (row, column), value, ink in zip(map.cells, values, inks, strict=True):
            text = "0" if value == 0 else f"{value:.2f}"
            ax.text(column, row, text, ha="center", va="center", color=ink, fontsize=8)
    return image
