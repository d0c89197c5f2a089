"""The map from above, as pixels for an agent. Pictures for people are made by `wane.worlds.draw`."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from wane.mdp import check_patches
from wane.types import ArrayLike, Integer
from wane.worlds.colours import place_colour, places_of, site_colours, to_bytes
from wane.worlds.grid import Map


class TopDownView(eqx.Module):
    """The map from above: walls dark, floor in the hue of its place, sites as discs, the agent as an arrowhead.

    `frame(state, facing, fraction)` is as in `FirstPersonView`, with cell_pixels × cell_pixels pixels for each cell.
    """

    tiles: Float[Array, "rows columns pixels pixels 3"]
    cells: Int[Array, "states 2"]
    places: Int[Array, "places 2"]
    """The cells of all sites, one site after the other."""
    site_of: Int[Array, " places"]
    """The number of the site of each place."""
    colours: Float[Array, "places 3"]
    disc: Float[Array, "pixels pixels 1"]
    arrows: Float[Array, "4 pixels pixels 4"]

    def __init__(self, map: Map, sites: Any, *, cell_pixels: int = 8) -> None:
        states, self.site_of = places_of(check_patches(sites, map.n_states))
        if cell_pixels < 4:
            raise ValueError(f"cell_pixels = {cell_pixels} is too small to draw an arrowhead in; take at least 4")
        cell = np.indices(map.shape).transpose(1, 2, 0)
        lightness = jnp.asarray(0.78 + 0.03 * (cell.sum(-1) % 2), jnp.float32)
        floor = place_colour(jnp.asarray(cell + 0.5, jnp.float32), map.shape, lightness, 0.07)
        colour = jnp.where(map.free[..., None], floor, jnp.float32(58))
        self.tiles = jnp.broadcast_to(colour[:, :, None, None], (*map.shape, cell_pixels, cell_pixels, 3))
        self.cells = jnp.asarray(map.cells, jnp.int32)
        self.places, self.colours = self.cells[states], site_colours(self.site_of)
        self.disc, self.arrows = _markers(cell_pixels)

    def frame(self, state: Integer, facing: Integer, fraction: ArrayLike) -> UInt8[Array, "height width 3"]:
        """Returns the picture, RGB, with the agent in `state` and a fraction from 0 to 1 of each site."""
        fraction = jnp.clip(jnp.asarray(fraction, jnp.float32), 0, 1)
        tiles, (rows, columns) = self.tiles, self.places.T
        opacity = fraction[self.site_of, None, None, None] * self.disc
        discs = self.colours[:, None, None] * opacity + tiles[rows, columns] * (1 - opacity)
        tiles = tiles.at[rows, columns].set(discs)
        arrow, (row, column) = self.arrows[facing], self.cells[state]
        tiles = tiles.at[row, column].set(arrow[..., :3] + tiles[row, column] * (1 - arrow[..., 3:]))
        height, width, pixels = tiles.shape[:3]
        return to_bytes(tiles.transpose(0, 2, 1, 3, 4).reshape(height * pixels, width * pixels, 3))


def _markers(pixels: int) -> tuple[Float[Array, "pixels pixels 1"], Float[Array, "4 pixels pixels 4"]]:
    """Returns the opacity of a disc, and an arrowhead for each facing: colour × opacity, then opacity.

    The arrowheads are black with a white rim. All is drawn at four times its size and averaged, for smooth edges.
    """
    across = (np.arange(4 * pixels) + 0.5) / (2 * pixels) - 1
    x, y = np.meshgrid(across, across)
    ink, rim = ((y < 0.5 + grow) & (y > 2.2 * np.abs(x) - 0.75 - 2.4 * grow) for grow in (0, 0.14))
    drawn = np.stack([np.hypot(x, y) < 0.94, *[255.0 * (rim & ~ink)] * 3, rim], -1, dtype=np.float32)
    drawn = drawn.reshape(pixels, 4, pixels, 4, -1).mean((1, 3))
    arrows = np.stack([np.rot90(drawn[..., 1:], -turn) for turn in range(4)])
    return jnp.asarray(drawn[..., :1]), jnp.asarray(arrows)
