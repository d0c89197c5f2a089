"""The console of all commands: text is shown as it is, and lines are cut only where a terminal has no room for them."""

import os
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from wane.texts import plain

ROOMY = 100_000
"""The room for a line in a file or another program, which gets whole lines."""


class Terminal(Console):
    """A console that obeys nothing in the text: neither markup nor control characters, wherever the text comes from."""

    def __init__(self) -> None:
        super().__init__(markup=False, highlight=False)
        is_narrow = sys.stdout.isatty() or "COLUMNS" in os.environ
        self.room = self.width if is_narrow else ROOMY

    def print(self, *objects: Any, **options: Any) -> None:
        """Prints as other consoles do, but whole lines to a file."""
        options.setdefault("crop", self.room < ROOMY)
        super().print(*objects, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yields the pieces of what is printed. The styles and controls of rich are separate from the text."""
        if isinstance(renderable, Text) and renderable.no_wrap:
            options = (options or self.options).update(max_width=max(self.room, self.width))
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else plain(text, keep="\n"), style, control)

    def say(self, text: str, style: str | None = None) -> None:
        """Prints a line that is never broken, so that it can be copied."""
        self.print(plain(text), style=style, soft_wrap=True)
