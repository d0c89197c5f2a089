"""`wane.explore`: a world as a page to play with.

>>> from wane.worlds import make
>>> page = explore(make("two-rooms"))
>>> len(page.html) < 300_000
True
"""

import base64
import binascii
import html
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wane import files
from wane.explorer.bundle import build
from wane.worlds import World, make, names
from wane.worlds.describe import describe

KINDS = ("Geometric", "FirstVisits", "Hyperbolic", "PowerLaw", "TimeElapsed")
"""The depletions that the page knows."""
MOST_CELLS, MOST_SITES, MOST_STEPS, LARGEST_DISCOUNT = 42, 40, 1000, 0.9999
"""The largest side of a map, number of sites, horizon and discount of a world in the page."""


@dataclass(frozen=True)
class Explorer:
    """A page with a world in it. Jupyter shows it; `save` writes it as one HTML file."""

    state: dict[str, Any]
    """What the page shows when it opens: the description of the world and, if given, the view of it."""

    @property
    def html(self) -> str:
        """The page, which needs nothing but a browser."""
        return build({"catalogue": _catalogue(), "state": self.state})

    def save(self, path: str | Path) -> Path:
        """Writes the page, whole or not at all, and returns its path."""
        return files.write(Path(path), lambda draft: draft.write_text(self.html, encoding="utf-8"))

    def _repr_html_(self) -> str:
        """Shows the page in Jupyter, in a frame that can reach nothing of the notebook."""
        return (
            '<iframe title="wane explorer" sandbox="allow-scripts allow-downloads allow-popups" '
            'allow="clipboard-write" style="width: 100%; height: 860px; border: 0" '
            f'srcdoc="{html.escape(self.html)}"></iframe>'
        )


def explore(world: World | str = "two-rooms", *, view: dict[str, Any] | None = None) -> Explorer:
    """Returns a page in which a world can be painted, changed and foraged in.

    `world` is a `World` or what `find_world` takes: a name of the catalogue, a JSON file, a link of the page. `view` is
    what the page shows of the world; the page itself makes and checks it. Raises ValueError for a world that the page
    cannot show: it knows five kinds of depletions, rewards that are paid on arrival, and maps of up to 42 × 42 cells.
    """
    if isinstance(world, str):
        world, linked = find_world(world)
        view = linked if view is None else view
    _check(world)
    return Explorer({"world": _describe(world)} | ({} if view is None else {"view": view}))


def find_world(name: str) -> tuple[World, dict[str, Any] | None]:
    """Returns the world that a text names, and its view if the text is a link that holds one.

    The text is a name of the catalogue, a path that ends with ".json", or a link of the page from # on. Raises
    ValueError if there is no such world.
    """
    if name.startswith("#"):
        return _from_link(name)
    return (World.from_json(Path(name)) if name.endswith(".json") else make(name)), None


def _check(world: World) -> None:
    """Raises ValueError if the page cannot show a world. The message says what it can show."""
    kind, (rows, columns) = type(world.depletion).__name__, world.map.shape
    limits = {
        f"depletions of the kinds {', '.join(KINDS)}, not {kind}": kind in KINDS,
        f'timing="arrival", not {world.timing!r}': world.timing == "arrival",
        f"maps of up to {MOST_CELLS} × {MOST_CELLS} cells, not {rows} × {columns}": max(rows, columns) <= MOST_CELLS,
        f"at most {MOST_SITES} sites, not {world.n_sites}": world.n_sites <= MOST_SITES,
        f"discounts up to {LARGEST_DISCOUNT}, not {world.discount:g}": world.discount <= LARGEST_DISCOUNT,
        f"at most {MOST_STEPS} steps an episode, not {world.horizon}": (world.horizon or 0) <= MOST_STEPS,
    }
    for limit, kept in limits.items():
        if not kept:
            raise ValueError(f"the explorer shows worlds with {limit}: change that with dataclasses.replace(world, …)")


def _describe(world: World) -> dict[str, Any]:
    """Returns the description of a world without what the page does not use, and with one start.

    Of several starts, the last of the most probable ones is taken.
    """
    told = describe(world)
    last = world.n_states - 1 - int(np.argmax(world.start[::-1]))
    return {name: value for name, value in told.items() if name not in ("policies", "observation")} | {
        "start": world.map.cells[last].tolist()
    }


def _catalogue() -> dict[str, Any]:
    """Returns the worlds of the catalogue that the page can show, by their names."""
    shown = {}
    for name in names():
        world = make(name)
        try:
            _check(world)
            shown[name] = _describe(world)
        except (TypeError, ValueError):
            continue  # A world that a user registered may have a depletion that no page knows.
    return shown


def _from_link(link: str) -> tuple[World, dict[str, Any] | None]:
    """Returns the world and the view of a link. Raises ValueError if it holds none."""
    code = link.removeprefix("#")
    try:
        state = json.loads(base64.b64decode(code + "=" * (-len(code) % 4), altchars="-_", validate=True))
        world, view = state["world"], state.get("view")
    except (binascii.Error, UnicodeDecodeError, json.JSONDecodeError, RecursionError, KeyError, TypeError) as error:
        raise ValueError(f"the link {link[:20]}… holds no world: copy all of it, from # to its end") from error
    return World.from_json(json.dumps(world)), view
