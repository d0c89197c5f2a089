"""An episode as an animated GIF: the agent on its map, what remains of every site, and the return as it grows.

Pillow paints and writes the pictures; ffmpeg is not needed. A hundred steps take about a second and 300 kB; with
matplotlib's `FuncAnimation` and `PillowWriter`, which draw the whole figure for each step, it is fifteen times as long.
`world.film(episode)` is the short way to a `Film`.
"""

import base64
import html
import io
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from wane.extras import require

require("plots", "wane.worlds.film")

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jaxtyping import Float, Int, UInt8
from matplotlib.colors import to_rgb
from PIL import Image, ImageDraw, ImageFont

from wane.files import write
from wane.types import AnyArray, ArrayLike
from wane.worlds.draw import (
    FAINT,
    GREY,
    INK,
    WALL,
    check_map,
    check_numbers,
    check_states,
    faded,
    find_patches,
    inks_on,
    remaining_fraction,
    short,
    site_colour,
    window,
)
from wane.worlds.grid import Map
from wane.worlds.world import World, turn

MARGIN = 12
"""The number of pixels around what is painted."""
Length = float | int | np.floating
"""A number of pixels, or of pictures in a second."""
TAIL = 8
"""The number of past steps that are shown behind the agent."""


@runtime_checkable
class Recorded(Protocol):
    """A played episode, with the parts that `World.film` needs."""

    @property
    def cells(self) -> AnyArray:
        """The states that the agent was in, the start included: (steps + 1,)."""
        ...

    @property
    def rewards(self) -> AnyArray:
        """What each step paid: (steps,)."""
        ...

    @property
    def remaining(self) -> AnyArray:
        """What remained of every reward, at the start and after each step: (steps + 1, sites)."""
        ...

    @property
    def live(self) -> AnyArray:
        """Above 0 for each step that was taken, 0 for those after the end: (steps,)."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Film:
    """An episode of T steps as T + 1 pictures. Jupyter shows it; `save` writes it to a file.

    `world.film(episode)` is the short way to one. Raises ValueError if the shapes of its parts do not agree.
    """

    map: Map
    states: Any
    """The state at the start and after each step: (T + 1,)."""
    _: KW_ONLY
    sites: Any
    """State numbers, or sets of them."""
    rewards: Any
    """The rewards of fresh sites."""
    remaining: Any
    """What remains of the rewards at the start and after each step: (T + 1, sites)."""
    returns: Any
    """The return up to each step: (T + 1,)."""
    title: str | None = None
    fps: Length = 6
    """The number of pictures in a second."""
    cell_pixels: int | None = None
    """The size of a cell in pixels. With None, the picture is up to about 700 pixels wide."""
    views: UInt8[np.ndarray, "frames height width 3"] | None = None
    """What the agent sees after each step (`views_along`), shown next to the map."""

    def __post_init__(self) -> None:
        check_map(self.map)
        states, n_sites = check_states(self.map, self.states, "states"), len(self.patches)
        frames = len(states)
        if not frames:
            raise ValueError("states is empty: give at least the state that the episode starts in")
        if not 0 < self.fps <= 100:
            raise ValueError(f"fps is {self.fps}: give a number above 0 and up to 100, the most that a GIF can show")
        if self.cell_pixels is not None and self.cell_pixels < 4:
            raise ValueError(f"cell_pixels is {self.cell_pixels}: give at least 4, or None to have it chosen")
        wanted = "a row for each of `states`, a column a site"
        checked = {
            "states": states,
            "rewards": check_numbers(self.rewards, (n_sites,), "rewards", "one for each of `sites`"),
            "remaining": check_numbers(self.remaining, (frames, n_sites), "remaining", wanted),
            "returns": check_numbers(self.returns, (frames,), "returns", "one for each of `states`"),
        }
        for name, part in checked.items():
            object.__setattr__(self, name, part)
        if self.views is not None and len(self.views) != frames:
            raise ValueError(f"views has {len(self.views)} pictures: give one for each of the {frames} `states`")

    @property
    def patches(self) -> tuple[Int[np.ndarray, " _states"], ...]:
        """The states of each site."""
        return find_patches(self.map, self.sites)

    def pictures(self) -> Iterator[Image.Image]:
        """Paints the pictures one after the other."""
        stage, steps = _Stage(self), len(self.states) - 1
        palette = _palette([INK, GREY, *dict.fromkeys(stage.colours), WALL])
        for t in range(steps + 1):
            picture = stage.frame(self.states[: t + 1], self.remaining[t], self.returns[t], steps)
            if self.views is None:
                yield picture.quantize(palette=palette, dither=Image.Dither.NONE)
            else:
                # Views can have any colours, so each picture has its own palette.
                yield _joined(picture, self.views[t]).quantize(256, dither=Image.Dither.NONE)

    def _write(self, file: Path | io.BytesIO) -> None:
        """Writes a GIF that loops; its last picture stays a second longer."""
        pictures = self.pictures()
        times = [round(1000 / self.fps)] * (len(self.states) - 1) + [round(1000 / self.fps) + 1000]
        next(pictures).save(file, "GIF", save_all=True, append_images=pictures, duration=times, loop=0, optimize=True)

    def save(self, path: str | Path) -> Path:
        """Writes the film to a GIF, completely or not at all. Returns the path."""
        return write(Path(path), self._write)

    def to_bytes(self) -> bytes:
        """Returns the film as the bytes of a GIF."""
        buffer = io.BytesIO()
        self._write(buffer)
        return buffer.getvalue()

    def __repr__(self) -> str:
        return f"Film({len(self.states) - 1} steps, title={self.title!r})"

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.to_bytes()).decode()
        return f'<img src="data:image/gif;base64,{data}" alt="{html.escape(self.title or "an episode")}">'


def film_of(world: World, episode: Recorded, title: str | None = None, fps: Length = 6) -> Film:
    """Returns the film of an episode of a world, up to its last live step."""
    cells, rewards, remaining, live = (
        np.asarray(part) for part in (episode.cells, episode.rewards, episode.remaining, episode.live)
    )
    if cells.ndim != 1:
        raise ValueError(
            f"the episode's cells have shape {cells.shape}, so these are several episodes: film one of them, "
            "jax.tree.map(lambda part: part[0], episodes)"
        )
    steps = int((live > 0).sum())
    powers = np.arange(steps) + (1 if world.timing == "arrival" else 0)
    returns = np.append(0.0, np.cumsum(float(world.discount) ** powers * rewards[:steps]))
    return Film(
        world.map,
        cells[: steps + 1],
        sites=world.sites,
        rewards=np.asarray(world.rewards),
        remaining=remaining[: steps + 1],
        returns=returns,
        title=title,
        fps=fps,
    )


def views_along(
    world: World, states: Int[np.ndarray, " frames"], remaining: Float[np.ndarray, "frames sites"]
) -> UInt8[np.ndarray, "frames height width 3"]:
    """Returns what an agent sees along `states`, in a world whose observations are pictures.

    The agent looks the way it last moved, and up at first. `remaining` is what remains of the rewards at each moment.
    Raises ValueError if the observations are not pictures.
    """
    facing, facings = jnp.zeros((), jnp.int32), []
    for before, now in pairwise([states[0], *states]):
        facing = turn(world.map.cells, jnp.asarray(before), jnp.asarray(now), facing)
        facings.append(facing)
    worths = [remaining_fraction(now, np.asarray(world.rewards)) for now in remaining]
    view = jax.jit(lambda cell, facing, worth: world.view(cell, facing, worth))
    seen = [
        np.asarray(view(cell, facing, jnp.asarray(worth)))
        for cell, facing, worth in zip(states, facings, worths, strict=True)
    ]
    if seen[0].ndim != 3:
        raise ValueError(f"{world.observation} shows no pictures: take a world with observation='first-person'")
    return np.stack(seen)


def _joined(picture: Image.Image, view: UInt8[np.ndarray, "height width 3"]) -> Image.Image:
    """Returns a picture with the agent's view on its right, as large as fits."""
    side = picture.height - 2 * MARGIN
    seen = Image.fromarray(view).resize((round(side * view.shape[1] / view.shape[0]), side), Image.Resampling.NEAREST)
    both = Image.new("RGB", (picture.width + seen.width + MARGIN, picture.height), "white")
    both.paste(picture, (0, 0))
    both.paste(seen, (picture.width, MARGIN))
    return both


def _palette(colours: list[str]) -> Image.Image:
    """Returns a palette of white and of shades between each colour and white, for fading sites and smooth edges."""
    # Pillow finds colours only to within a few levels, and would take a shade next to white for white. A free entry
    # of the palette lets it write what did not change as transparent, which halves the file.
    shades = [to_rgb(faded(c, f)) for c in colours for f in np.linspace(1, 0, 250 // len(colours), endpoint=False)]
    entries = [(1.0, 1.0, 1.0), *(shade for shade in shades if min(shade) < 0.95)]
    image = Image.new("P", (1, 1))
    image.putpalette([round(255 * channel) for entry in entries for channel in entry])
    return image


class _Stage:
    """Paints the pictures of a film, at twice their size; halving them smooths the edges."""

    def __init__(self, film: Film) -> None:
        low, high = window(film.map)
        cell = film.cell_pixels or int(np.clip(440 // max(high - low), 8, 64))
        rows, columns = np.round((high - low) * cell).astype(int).tolist()
        top = MARGIN + 30 * bool(film.title)
        self.map, self.cell, self.patches, self.rewards = film.map, cell, film.patches, film.rewards
        self.most = float(max(np.abs(film.remaining).max(initial=0), np.abs(film.rewards).max(initial=0))) or 1.0
        self.colours = [site_colour(i) for i in range(len(film.patches))]
        self.corner = np.array((MARGIN, top)) - np.round(low[::-1] * cell)
        self.panel, self.top, self.pitch = MARGIN + columns + 18, top, 32 if len(self.patches) * 32 + 124 < rows else 24
        height = top + max(rows, 124 + self.pitch * len(self.patches)) + MARGIN
        self.background = Image.new("RGB", (2 * (self.panel + 200 + MARGIN), 2 * height), "white")
        pen = _Pen(self.background)
        pen.box(MARGIN, top, columns, rows, WALL)
        for row, column in film.map.cells:
            pen.box(self.corner[0] + column * cell, self.corner[1] + row * cell, cell, cell, "white", FAINT)
        pen.text((MARGIN, MARGIN + 9), film.title or "", 17, most=self.panel + 200 - MARGIN)
        pen.text((self.panel, top + 42), "return", 13, GREY)
        pen.text((self.panel, top + 110), "remaining reward", 13, GREY)

    def frame(
        self, states: Int[np.ndarray, " steps"], remaining: Float[np.ndarray, " sites"], earned: float, steps: int
    ) -> Image.Image:
        """Returns the picture after the last of `states`."""
        image = self.background.copy()
        pen, cell = _Pen(image), self.cell
        self._paint_tail(pen, states[-TAIL - 1 :])
        for i, fraction in enumerate(remaining_fraction(remaining, self.rewards)):
            for state in self.patches[i]:
                self._badge(pen, i, self._centre(state), 0.4 * cell, fraction)
        pen.disc(self._centre(states[-1]), 0.27 * cell, INK, "white", max(1, 0.04 * cell))
        pen.text((self.panel, self.top + 10), f"step {len(states) - 1} of {steps}", 15)
        pen.text((self.panel, self.top + 70), f"{earned:.2f}", 30)
        for i, colour in enumerate(self.colours):
            y = self.top + 124 + self.pitch * (i + 0.5)
            full, now = (110 * abs(reward) / self.most for reward in (self.rewards[i], remaining[i]))
            self._badge(pen, i, np.array((self.panel + 9, y)), 9, 1.0)
            pen.box(self.panel + 26, y - 6, full, 12, FAINT)
            pen.box(self.panel + 26, y - 6, now, 12, colour)
            pen.text((self.panel + 144, y), short(remaining[i]), 14)
        return image.reduce(2)

    def _centre(self, state: int | np.integer) -> Float[np.ndarray, "2"]:
        """Returns the pixel (x, y) in the middle of a state's cell."""
        return self.corner + (self.map.cells[state][::-1] + 0.5) * self.cell

    def _paint_tail(self, pen: "_Pen", states: Int[np.ndarray, " steps"]) -> None:
        """Paints the last steps as a line that fades with its age."""
        age = len(states) - 1
        for a, b in pairwise(states):
            start, way = self._centre(a), self._centre(b) - self._centre(a)
            # A step between cells that do not touch is a jump, such as a new start, and leaves no line.
            for part in np.linspace(0, 1, 8 + self.cell // 3) if abs(way).sum() < 1.5 * self.cell else ():
                freshness = 1 - (age - part) / TAIL
                shade = faded(INK, 0.08 + 0.42 * freshness)
                pen.disc(start + part * way, (0.06 + 0.07 * freshness) * self.cell, shade, shade, 0)
            age -= 1

    def _badge(self, pen: "_Pen", i: int, centre: Float[np.ndarray, "2"], radius: Length, fraction: float) -> None:
        """Paints a site: its colour, and a letter that ties disc and bar together for those who cannot see colours."""
        fill = faded(self.colours[i], fraction)
        pen.disc(centre, radius, fill, self.colours[i], max(1, 0.13 * radius))
        pen.text(centre, chr(ord("A") + i % 26), max(8, round(1.15 * radius)), str(inks_on(to_rgb(fill))), "mm")


class _Pen:
    """Draws on an image of twice the size of a picture, at coordinates in pixels of the picture."""

    def __init__(self, image: Image.Image) -> None:
        self.pen = ImageDraw.Draw(image)

    def box(self, x: Length, y: Length, width: Length, height: Length, fill: str, edge: str | None = None) -> None:
        x0, y0, x1, y1 = (round(2 * float(c)) for c in (x, y, x + width, y + height))
        if x1 > x0:
            self.pen.rectangle((x0, y0, x1 - 1, y1 - 1), fill, edge)

    def disc(self, centre: Float[np.ndarray, "2"], radius: Length, fill: str, edge: str, width: Length) -> None:
        self.pen.ellipse([*(2 * (centre - radius)), *(2 * (centre + radius))], fill, edge, round(2 * width))

    def text(
        self, at: ArrayLike, text: str, size: int, colour: str = INK, anchor: str = "lm", most: Length = np.inf
    ) -> None:
        """Writes text, smaller if it would be wider than `most`."""
        while size > 8 and font(2 * size).getlength(text) > 2 * most:
            size -= 1
        x, y = 2 * np.asarray(at)
        self.pen.text((x, y), text, colour, font(2 * size), anchor)


@cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """Returns the font of all films in a given size."""
    # The font that comes with matplotlib has λ and γ, and is the same on every machine.
    return ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf"), size)
