"""The command `wane explore`."""

from pathlib import Path
from typing import Annotated

import tyro

from wane.settings import Probability


def explore(
    world: Annotated[str, tyro.conf.Positional] = "two-rooms",
    lam: Probability | None = None,
    out: Path = Path("explorer.html"),
    open: bool = True,
) -> None:
    """Writes a page to play with: paint a world, drag λ, watch the forager. Then opens it.

    Args:
        world: a name of the catalogue, a JSON file that the page saved, or a link of the page from # on
        lam: λ, the part of a reward that a visit leaves; the world's own if not given
        out: the HTML file to write
        open: open it in the browser
    """
    import dataclasses

    from wane.depletion import Geometric
    from wane.explorer.pages import explore as explore_world
    from wane.explorer.pages import find_world

    chosen, view = find_world(world)
    chosen = chosen if lam is None else dataclasses.replace(chosen, depletion=Geometric(lam))
    page = explore_world(chosen, view=view).save(out)
    print(f"explorer: {page}")
    if open:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
