"""The explorer: a live page in which anyone can paint a world, drag λ, and watch the forager.

`explore(world)` makes the page, which shows itself in Jupyter and saves itself as one HTML file. That file needs no
server, no network and no Python. Its source lies in `page/` as plain JavaScript modules, a style sheet and an HTML
file, which `wane.explorer.bundle` puts together. The page computes the same as this package, in another
language; tests compare the two.
"""

from typing import TYPE_CHECKING

from wane.lazy import attach

if TYPE_CHECKING:
    from wane.explorer.pages import Explorer, explore

__all__ = ["Explorer", "explore"]

__getattr__, __dir__ = attach(__name__)
