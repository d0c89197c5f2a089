"""Pictures of a run, checked to be whole and ready to be put into the page itself.

A drawing (SVG) stays sharp at any size. A drawing over 400 kB makes the page too heavy, and the PNG takes its place.
"""

import base64
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

from PIL import Image

HEAVY = 400_000
"""An SVG with this many bytes or more is replaced by the PNG."""
PIXELS_AN_INCH, POINTS_AN_INCH = 96, 72
THUMBNAIL, SHADES = 320, 48
"""The most pixels of a thumbnail in width and in height, and the most colours. A thumbnail then has a few kilobytes."""


class PictureError(Exception):
    """Raised when a browser could not show a picture. The message is a sentence that names the file."""


@dataclass(frozen=True)
class Picture:
    """A picture in memory. Width and height are in the pixels of a page, 96 to an inch."""

    title: str
    mime: str
    data: bytes
    width: int
    height: int

    @property
    def uri(self) -> str:
        """The picture as a data URI, which an `img` element shows without loading anything."""
        return f"data:{self.mime};base64,{base64.b64encode(self.data).decode()}"


def read_figure(svg: Path | None, png: Path | None) -> Picture:
    """Returns the SVG if it is light and whole, else the PNG. Raises PictureError if neither can be shown."""
    if svg:
        try:
            return _read_drawing(svg, heaviest=HEAVY if png else None)
        except PictureError:
            if not png:
                raise
    if not png:
        raise PictureError("The run has no figure that can be shown.")
    return read_raster(png, "PNG", "figure")


def read_raster(path: Path, kind: str, title: str) -> Picture:
    """Returns a PNG or GIF. Raises PictureError if the file is not a whole picture of that kind."""
    try:
        with Image.open(path, formats=[kind]) as image:
            image.load()
            shrink = [PIXELS_AN_INCH / float(dpi) if dpi else 1.0 for dpi in image.info.get("dpi", (0, 0))]
            width, height = (max(round(length * by), 1) for length, by in zip(image.size, shrink, strict=True))
        return Picture(title, f"image/{kind.lower()}", path.read_bytes(), width, height)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise PictureError(f"{path.name} is not a whole {kind} picture ({error}).") from error


def thumbnail(path: Path) -> Picture:
    """Returns a small picture of a PNG file. Raises PictureError if the file is not a whole picture."""
    try:
        with Image.open(path, formats=["PNG"]) as image:
            small = Image.new("RGB", image.size, "white")
            whole = image.convert("RGBA")
            small.paste(whole, mask=whole)
        small.thumbnail((THUMBNAIL, THUMBNAIL), Image.Resampling.LANCZOS)
        data = BytesIO()
        small.quantize(SHADES).save(data, "PNG", optimize=True)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise PictureError(f"{path.name} is not a whole PNG picture ({error}).") from error
    return Picture("figure", "image/png", data.getvalue(), *small.size)


def _read_drawing(path: Path, heaviest: int | None) -> Picture:
    try:
        data = path.read_bytes()
        if heaviest is not None and len(data) >= heaviest:
            raise PictureError(f"{path.name} is too large for the page.")
        root = ElementTree.fromstring(data)
        _, _, width, height = (float(number) for number in root.attrib["viewBox"].split())
    except (OSError, ValueError, KeyError, ElementTree.ParseError) as error:
        raise PictureError(f"{path.name} is not a whole SVG drawing ({error}).") from error
    if root.tag != "{http://www.w3.org/2000/svg}svg" or not 1 <= min(width, height) <= max(width, height) < 1e5:
        raise PictureError(f"{path.name} is not an SVG drawing with a size.")
    pixels = PIXELS_AN_INCH / POINTS_AN_INCH
    return Picture("figure", "image/svg+xml", data, round(width * pixels), round(height * pixels))
