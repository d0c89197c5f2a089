"""An episode of a control task as an animated GIF."""

from pathlib import Path
from typing import Any

from wane.extras import require

require("plots", "the film of a task")

import numpy as np
from PIL import Image, ImageDraw

from wane.files import write
from wane.worlds.control.task import ControlTask
from wane.worlds.draw import INK
from wane.worlds.film import font

MOST = 100
"""The largest number of pictures in a film. Films of longer episodes leave out some moments."""


def write_film(task: ControlTask, episode: Any, path: Path, title: str | None = None) -> Path:
    """Draws `episode.states`, with the sum of `episode.rewards` so far above each picture. Returns the path.

    If the episode has `times`, these are the times of its states; otherwise it has a state for every step.
    """
    steps = int(np.sum(np.asarray(episode.live) > 0))
    moments = np.unique(np.linspace(0, steps, min(steps + 1, MOST)).astype(int))
    earned = np.append(0.0, np.cumsum(np.asarray(episode.rewards, float)[:steps]))
    times, frames = getattr(episode, "times", np.arange(steps + 1)), []
    for moment, picture in zip(moments, task.pictures(np.asarray(episode.states, float)[moments]), strict=True):
        image = Image.new("RGB", (picture.shape[1], picture.shape[0] + 28), "white")
        image.paste(Image.fromarray(picture), (0, 28))
        pen = ImageDraw.Draw(image)
        for y, text in ((1, title or task.name), (14, f"step {times[moment]}, {earned[moment]:.1f}")):
            pen.text((4, y), text, INK, font(10))
        frames.append(image.quantize(64, dither=Image.Dither.NONE))

    def fill(draft: Path) -> None:
        frames[0].save(draft, "GIF", save_all=True, append_images=frames[1:], duration=60, loop=0)

    return write(path, fill)
