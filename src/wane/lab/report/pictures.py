"""Pictures of a run, checked to be whole and ready to be put into the page itself.

A drawing (SVG) stays sharp at any size. A drawing over 400 kB makes the page too heavy, and the PNG takes its place. A
picture that is far larger than ours is left out: it could fill the memory of whoever makes the page or reads it.
"""

import base64
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

from PIL import Image

from wane.files import read_bytes

HEAVY = 400_000
"""An SVG with this many bytes or more is replaced by the PNG."""
MOST_BYTES, MOST_PIXELS, MOST_FRAMES = 10_000_000, 25_000_000, 2000
"""The most bytes of a picture that is shown, the most pixels of a frame, and the most frames of a film."""
MOST_BYTES_TOGETHER = 30_000_000
"""The most bytes of all pictures of a run that are shown."""
PIXELS_AN_INCH, POINTS_AN_INCH = 96, 72
THUMBNAIL, SHADES = 320, 48
"""The most pixels of a thumbnail in width and in height, and the most colours. A thumbnail then has a few kilobytes."""


class PictureError(Exception):
    """Raised when a browser could not show a picture. The message is a sentence that names the file."""


class TooLarge(PictureError):
    """Raised when a picture may be whole, but is too large for the page."""


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


def require_room(pictures: Sequence[Picture], name: str) -> None:
    """Raises TooLarge, which names the last picture's file, if the pictures of a run are too large together."""
    if sum(len(picture.data) for picture in pictures) > MOST_BYTES_TOGETHER:
        raise TooLarge(
            f"{name} is not shown: with it, the pictures of the run would have more than "
            f"{MOST_BYTES_TOGETHER / 1e6:.0f} MB together."
        )


def read_figure(svg: Path | None, png: Path | None) -> Picture:
    """Returns the SVG if it is light and whole, else the PNG. Raises PictureError if neither can be shown."""
    if svg:
        try:
            return _read_drawing(svg, HEAVY - 1 if png else MOST_BYTES)
        except PictureError:
            if not png:
                raise
    if not png:
        raise PictureError("The run has no figure that can be shown.")
    return read_raster(png, "PNG", "figure")


def read_raster(path: Path, kind: str, title: str) -> Picture:
    """Returns a PNG or GIF. Raises PictureError if the file is not a whole picture of that kind, or is too large."""
    with _opened(path, kind) as (image, data):
        image.load()
        shrink = [PIXELS_AN_INCH / float(dpi) if dpi else 1.0 for dpi in image.info.get("dpi", (0, 0))]
        width, height = (max(round(length * by), 1) for length, by in zip(image.size, shrink, strict=True))
    return Picture(title, f"image/{kind.lower()}", data, width, height)


def thumbnail(path: Path) -> Picture:
    """Returns a small picture of a PNG file. Raises PictureError if the file is not a whole picture."""
    with _opened(path, "PNG") as (image, _):
        small = Image.new("RGB", image.size, "white")
        whole = image.convert("RGBA")
        small.paste(whole, mask=whole)
        small.thumbnail((THUMBNAIL, THUMBNAIL), Image.Resampling.LANCZOS)
        data = BytesIO()
        small.quantize(SHADES).save(data, "PNG", optimize=True)
    return Picture("figure", "image/png", data.getvalue(), *small.size)


@contextmanager
def _opened(path: Path, kind: str) -> Iterator[tuple[Image.Image, bytes]]:
    """Opens a picture that is not too large, and yields it with its bytes. Errors of the block are PictureErrors."""
    data = _read(path, MOST_BYTES)
    try:
        with warnings.catch_warnings():
            # Pillow warns about more pixels than these, which are refused below.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(BytesIO(data), formats=[kind]) as image:
                pixels, frames = image.width * image.height, _frames(data) if kind == "GIF" else 1
                if pixels > MOST_PIXELS or frames > MOST_FRAMES:
                    raise TooLarge(
                        f"{path.name} is not shown: it has more than {MOST_PIXELS:,} pixels or {MOST_FRAMES:,} frames."
                    )
                yield image, data
    except Image.DecompressionBombError as error:
        raise TooLarge(f"{path.name} is not shown: it has more than {MOST_PIXELS:,} pixels.") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise PictureError(f"{path.name} is not a whole {kind} picture ({error}).") from error


def _frames(data: bytes) -> int:
    """Returns how many frames the blocks of a GIF hold, but counts no further than needed. Pillow would count on."""
    frames, at = 0, 13 + _colours(data[10])
    try:
        while frames <= MOST_FRAMES and (kind := data[at]) in (0x21, 0x2C):  # An extension, or a frame.
            frames += kind == 0x2C
            at += 2 if kind == 0x21 else 11 + _colours(data[at + 9])
            while size := data[at]:
                at += size + 1
            at += 1
    except IndexError:  # The file ends within a block.
        pass
    return frames


def _colours(flags: int) -> int:
    """Returns how many bytes the table of colours takes that the flags of a GIF announce."""
    return 3 << (flags % 8 + 1) if flags & 0x80 else 0


def _read(path: Path, most: int) -> bytes:
    """Returns the bytes of a picture. Raises TooLarge before reading, and PictureError if it cannot be read."""
    try:
        if (size := path.stat().st_size) > most:
            raise TooLarge(f"{path.name} is not shown: it has {size:,} bytes, and {most:,} are the most.")
        return read_bytes(path, most)
    except OSError as error:
        raise PictureError(f"{path.name} cannot be read ({error}).") from error


def _read_drawing(path: Path, most: int) -> Picture:
    data = _read(path, most)
    try:
        root = ElementTree.fromstring(data)
        _, _, width, height = (float(number) for number in root.attrib["viewBox"].split())
    except (ValueError, KeyError, ElementTree.ParseError) as error:
        raise PictureError(f"{path.name} is not a whole SVG drawing ({error}).") from error
    if root.tag != "{http://www.w3.org/2000/svg}svg" or not 1 <= min(width, height) <= max(width, height) < 1e5:
        raise PictureError(f"{path.name} is not an SVG drawing with a size.")
    pixels = PIXELS_AN_INCH / POINTS_AN_INCH
    return Picture("figure", "image/svg+xml", data, round(width * pixels), round(height * pixels))
