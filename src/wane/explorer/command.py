"""The command `wane explore`."""

from pathlib import Path
from typing import Annotated

import tyro

from wane.settings import Probability


def explore(
    world: Annotated[str, tyro.conf.Positional] = "two-rooms",
    lam: Probability | None = None,
    file: Path | None = None,
    out: Path = Path("explorer.html"),
    open: bool = True,
) -> None:
    """Writes a page to play with: paint a world, drag λ, watch the forager. Then opens it.

    Args:
        world: a name of the catalogue, a JSON file that the page saved, or a link of the page, all of it or from # on
        lam: λ, the part of a reward that a visit leaves; the world's own if not given
        file: your Python file that registers the world; it is executed
        out: the HTML file to write
        open: open it in the browser
    """
    import dataclasses

    from wane.depletion import Geometric
    from wane.explorer.pages import explore as explore_world
    from wane.explorer.pages import find_world
    from wane.names import UnknownName

    if file is not None:
        _register(file)
    try:
        chosen, view = find_world(world)
    except UnknownName as error:
        raise UnknownName(f"{error}, in a Python file that is named here: --file FILE.py") from error
    chosen = chosen if lam is None else dataclasses.replace(chosen, depletion=Geometric(lam))
    page = explore_world(chosen, view=view).save(out)
    print(f"explorer: {page}")
    if open:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _register(file: Path) -> None:
    """Executes a Python file, which adds worlds to the catalogue. Raises UnknownName if there is no such file."""
    from wane import user_files
    from wane.names import UnknownName

    if not user_files.is_file_name(file.name) or not file.is_file():
        raise UnknownName(f"--file {file}: there is no such Python file; name the one that calls wane.worlds.register")
    user_files.load(user_files.add_file(str(file)))
