"""An episode as an animated GIF: the map and the agent, what is left of every site beside it, the return counting up.

Painted and written with Pillow, no ffmpeg; a hundred steps take a second and some 300 kB.
"""

from functools import cache
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import ArrayLike
from PIL import Image, ImageDraw, ImageFont

from wane.files import write
from wane.worlds.draw import (
    FAINT,
    GREY,
    INK,
    WALL,
    check_numbers,
    check_states,
    faded,
    fraction_left,
    inks_on,
    short,
    site_colour,
    window,
)
from wane.worlds.grid import Map

MARGIN = 12
"""pixels around what is painted on a GIF"""
TAIL = 8
"""how many of the last steps a GIF shows behind the agent"""


def gif(
    path: str | Path,
    map: Map,
    states: ArrayLike,
    *,
    sites: ArrayLike,
    rewards: ArrayLike,
    remaining: ArrayLike,
    returns: ArrayLike,
    title: str | None = None,
    fps: float = 6,
    cell_pixels: int | None = None,
) -> Path:
    """An episode of T steps as a GIF of T + 1 frames that loops; the last frame stays a second longer.

    `states` (T + 1,), `remaining` (T + 1, sites) and `returns` (T + 1,) are what holds after each step, from the start;
    `rewards` are those of the full sites. Without `cell_pixels` the picture is up to about 700 pixels wide.
    """
    path, states, sites = Path(path), check_states(map, states, "states"), check_states(map, sites, "sites")
    frames = len(states)
    if not frames:
        raise ValueError("states: empty; give at least the state that the episode starts in")
    if not 0 < fps <= 100:
        raise ValueError(f"fps: {fps}; a GIF shows up to 100 frames a second, give a number above 0")
    if cell_pixels is not None and cell_pixels < 4:
        raise ValueError(f"cell_pixels: {cell_pixels}; give at least 4, or none to have it chosen")
    rewards = check_numbers(rewards, (len(sites),), "rewards", "one for each of `sites`")
    remaining = check_numbers(
        remaining, (frames, len(sites)), "remaining", "a row for each of `states`, a column a site"
    )
    returns = check_numbers(returns, (frames,), "returns", "one for each of `states`")
    stage = _Stage(map, cell_pixels, sites, rewards, np.abs(remaining).max(initial=0), title)
    pictures = (stage.frame(states[: t + 1], remaining[t], returns[t], frames - 1) for t in range(frames))
    palette = _palette([INK, GREY, *dict.fromkeys(stage.colours), WALL])
    times = [round(1000 / fps)] * (frames - 1) + [round(1000 / fps) + 1000]
    pictures = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)

    def fill(draft: Path) -> None:
        next(pictures).save(draft, "GIF", save_all=True, append_images=pictures, duration=times, loop=0, optimize=True)

    return write(path, fill)


def _palette(colours: list[str]) -> Image.Image:
    """White, and shades from each colour towards it: for what fades, and for smooth edges."""
    # Pillow looks colours up to within a few levels, and would take a shade next to white for white. An entry that is
    # left free lets it write what did not change as transparent, which halves the file.
    shades = [to_rgb(faded(c, f)) for c in colours for f in np.linspace(1, 0, 250 // len(colours), endpoint=False)]
    entries = [(1.0, 1.0, 1.0), *(shade for shade in shades if min(shade) < 0.95)]
    image = Image.new("P", (1, 1))
    image.putpalette([round(255 * channel) for entry in entries for channel in entry])
    return image


class _Stage:
    """The frames of an episode. They are painted at twice their size and halved, which smooths the edges."""

    def __init__(
        self, map: Map, cell: int | None, sites: np.ndarray, rewards: np.ndarray, most: float, title: str | None
    ):
        low, high = window(map)
        cell = cell or int(np.clip(440 // max(high - low), 8, 64))
        rows, columns = np.round((high - low) * cell).astype(int).tolist()
        top = MARGIN + 30 * bool(title)
        self.map, self.cell, self.sites, self.rewards = map, cell, sites, rewards
        self.most = max(most, np.abs(rewards).max(initial=0)) or 1.0
        self.colours = [site_colour(i) for i in range(len(sites))]
        self.corner = np.array((MARGIN, top)) - np.round(low[::-1] * cell)
        self.panel, self.top, self.pitch = MARGIN + columns + 18, top, 32 if len(sites) * 32 + 124 < rows else 24
        height = top + max(rows, 124 + self.pitch * len(sites)) + MARGIN
        self.background = Image.new("RGB", (2 * (self.panel + 200 + MARGIN), 2 * height), "white")
        pen = _Pen(self.background)
        pen.box(MARGIN, top, columns, rows, WALL)
        for row, column in map.cells:
            pen.box(self.corner[0] + column * cell, self.corner[1] + row * cell, cell, cell, "white", FAINT)
        pen.text((MARGIN, MARGIN + 9), title or "", 17, most=self.panel + 200 - MARGIN)
        pen.text((self.panel, top + 42), "return", 13, GREY)
        pen.text((self.panel, top + 110), "reward left", 13, GREY)

    def frame(self, states: np.ndarray, left: np.ndarray, total: float, steps: int) -> Image.Image:
        """The picture after the last of `states`."""
        image = self.background.copy()
        pen, cell = _Pen(image), self.cell
        self._paint_tail(pen, states[-TAIL - 1 :])
        for i, fraction in enumerate(fraction_left(left, self.rewards)):
            self._badge(pen, i, self._centre(self.sites[i]), 0.4 * cell, fraction)
        pen.disc(self._centre(states[-1]), 0.27 * cell, INK, "white", max(1, 0.04 * cell))
        pen.text((self.panel, self.top + 10), f"step {len(states) - 1} of {steps}", 15)
        pen.text((self.panel, self.top + 70), f"{total:.2f}", 30)
        for i, colour in enumerate(self.colours):
            y = self.top + 124 + self.pitch * (i + 0.5)
            full, now = (110 * abs(reward) / self.most for reward in (self.rewards[i], left[i]))
            self._badge(pen, i, np.array((self.panel + 9, y)), 9, 1)
            pen.box(self.panel + 26, y - 6, full, 12, FAINT)
            pen.box(self.panel + 26, y - 6, now, 12, colour)
            pen.text((self.panel + 144, y), short(left[i]), 14)
        return image.reduce(2)

    def _centre(self, state: int) -> np.ndarray:
        return self.corner + (self.map.cells[state][::-1] + 0.5) * self.cell

    def _paint_tail(self, pen: "_Pen", states: np.ndarray) -> None:
        age = len(states) - 1
        for a, b in pairwise(states):
            start, way = self._centre(a), self._centre(b) - self._centre(a)
            # Cells that do not touch are a jump, such as a new start: no way that was walked.
            for part in np.linspace(0, 1, 8 + self.cell // 3) if abs(way).sum() < 1.5 * self.cell else ():
                fresh = 1 - (age - part) / TAIL
                shade = faded(INK, 0.08 + 0.42 * fresh)
                pen.disc(start + part * way, (0.06 + 0.07 * fresh) * self.cell, shade, shade, 0)
            age -= 1

    def _badge(self, pen: "_Pen", i: int, centre: np.ndarray, radius: float, fraction: float) -> None:
        """A site: its colour, and a letter that ties disc and bar together for who cannot tell the colours apart."""
        fill = faded(self.colours[i], fraction)
        pen.disc(centre, radius, fill, self.colours[i], max(1, 0.13 * radius))
        pen.text(centre, chr(ord("A") + i % 26), max(8, round(1.15 * radius)), str(inks_on(to_rgb(fill))), "mm")


class _Pen:
    """Takes pixels of a picture, and draws on an image of twice its size."""

    def __init__(self, image: Image.Image):
        self.pen = ImageDraw.Draw(image)

    def box(self, x: float, y: float, width: float, height: float, fill: str, edge: str | None = None) -> None:
        x0, y0, x1, y1 = (round(2 * float(c)) for c in (x, y, x + width, y + height))
        if x1 > x0:
            self.pen.rectangle((x0, y0, x1 - 1, y1 - 1), fill, edge)

    def disc(self, centre: np.ndarray, radius: float, fill: str, edge: str, width: float) -> None:
        self.pen.ellipse([*(2 * (centre - radius)), *(2 * (centre + radius))], fill, edge, round(2 * width))

    def text(self, at: ArrayLike, text: str, size: int, colour: str = INK, anchor: str = "lm", most: float = np.inf):
        while size > 8 and _font(2 * size).getlength(text) > 2 * most:
            size -= 1
        x, y = 2 * np.asarray(at)
        self.pen.text((x, y), text, colour, _font(2 * size), anchor)


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    # The font that comes with matplotlib has λ and γ, and is the same on every machine.
    return ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf"), size)
