"""Pictures of a run, checked to be whole and ready to be put into the page itself.

A drawing (SVG) stays sharp at any size; one over 400 kB is heavier than it is worth, and the PNG takes its place.
"""

import base64
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from PIL import Image

HEAVY = 400_000
"""bytes from which on a PNG is taken instead of the SVG"""
PIXELS_AN_INCH, POINTS_AN_INCH = 96, 72


class PictureError(Exception):
    """A picture that a browser could not show; the message names the file."""


@dataclass(frozen=True)
class Picture:
    title: str
    kind: str
    """MIME type"""
    data: bytes
    width: int
    height: int
    """in a page's pixels, 96 to an inch"""

    @property
    def uri(self) -> str:
        return f"data:{self.kind};base64,{base64.b64encode(self.data).decode()}"


def figure(folder: Path) -> Picture:
    """figure.svg if it is light and whole, else figure.png."""
    drawing = folder / "figure.svg"
    if drawing.is_file() and drawing.stat().st_size < HEAVY:
        try:
            return _drawing(drawing)
        except PictureError:
            if not (folder / "figure.png").is_file():
                raise
    return raster(folder / "figure.png", "PNG", "figure")


def raster(path: Path, kind: str, title: str) -> Picture:
    """A PNG or GIF."""
    try:
        with Image.open(path, formats=[kind]) as image:
            image.load()
            shrink = [PIXELS_AN_INCH / float(dpi) if dpi else 1.0 for dpi in image.info.get("dpi", (0, 0))]
            width, height = (max(round(length * by), 1) for length, by in zip(image.size, shrink, strict=True))
        return Picture(title, f"image/{kind.lower()}", path.read_bytes(), width, height)
    except FileNotFoundError:
        raise PictureError(f"{path.name} is missing") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise PictureError(f"{path.name} is no whole {kind} picture ({error})") from error


def _drawing(path: Path) -> Picture:
    try:
        data = path.read_bytes()
        root = ElementTree.fromstring(data)
        _, _, width, height = (float(number) for number in root.attrib["viewBox"].split())
    except (OSError, ValueError, KeyError, ElementTree.ParseError) as error:
        raise PictureError(f"{path.name} is no whole SVG drawing ({error})") from error
    if root.tag != "{http://www.w3.org/2000/svg}svg" or not 1 <= min(width, height) <= max(width, height) < 1e5:
        raise PictureError(f"{path.name} is no SVG drawing with a size")
    pixels = PIXELS_AN_INCH / POINTS_AN_INCH
    return Picture("figure", "image/svg+xml", data, round(width * pixels), round(height * pixels))
