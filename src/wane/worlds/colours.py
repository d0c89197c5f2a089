"""The colours that views share: those of the sites, and the hue of every place on a map."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

SITE_COLOURS = np.array(
    [(213, 94, 0), (0, 114, 178), (0, 158, 115), (204, 121, 167), (230, 159, 0), (86, 180, 233), (240, 228, 66)],
    np.float32,
)
"""Okabe and Ito's colours, 0 to 255, which everyone can tell apart; their black is left out."""


def places_of(
    patches: Sequence[Int[np.ndarray, " _states"]],
) -> tuple[Int[np.ndarray, " places"], Int[Array, " places"]]:
    """Returns the states of all sites, one site after the other, and the number of the site of each."""
    numbers = np.repeat(np.arange(len(patches)), [len(states) for states in patches])
    return np.concatenate([np.zeros(0, int), *patches]), jnp.asarray(numbers, jnp.int32)


def site_colours(numbers: Int[Array, " n"]) -> Float[Array, "n 3"]:
    """Returns the colours of sites with these numbers; the colours repeat."""
    return jnp.asarray(SITE_COLOURS)[numbers % len(SITE_COLOURS)]


def to_bytes(image: Float[Array, "..."]) -> UInt8[Array, "..."]:
    """Rounds colours to whole numbers from 0 to 255."""
    return jnp.clip(jnp.round(image), 0, 255).astype(jnp.uint8)


def place_colour(
    place: Float[Array, "*shape 2"],
    map_shape: tuple[int, ...],
    lightness: Float[Array, "*shape"],
    chroma: float | Float[Array, "..."],
) -> Float[Array, "*shape 3"]:
    """Returns the colour of places on the map, 0 to 255: one hue for each corner, smooth between them.

    The right is lighter than the left, for those who do not see hues; chroma is in units of lightness.
    """
    down, right = jnp.moveaxis(jnp.tanh(5 * place / jnp.asarray(map_shape, jnp.float32) - 2.5), -1, 0)
    return oklab(jnp.stack([1 + 0.12 * right, chroma * down, -chroma * right], -1) * lightness[..., None])


def oklab(colour: Float[Array, "*shape 3"]) -> Float[Array, "*shape 3"]:
    """Converts Oklab to sRGB, 0 to 255 (Ottosson 2020)."""
    light, a, b = jnp.moveaxis(colour, -1, 0)
    l = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3
    m = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s = (light - 0.0894841775 * a - 1.2914855480 * b) ** 3
    red = 4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s
    green = -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s
    blue = -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s
    linear = jnp.clip(jnp.stack([red, green, blue], -1), 0.0031308, 1)
    return 255 * (1.055 * linear ** (1 / 2.4) - 0.055)
