"""`wane.explore`: a world as a page to play with.

>>> from wane.worlds import make
>>> page = explore(make("two-rooms"))
>>> len(page.html) < 300_000
True
"""

import base64
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

KINDS = {
    "Geometric": {"lam": (0, 1)},
    "FirstVisits": {"n": (0, 1000)},
    "Hyperbolic": {"k": (0, 1000)},
    "PowerLaw": {"p": (0.05, 20)},
    "TimeElapsed": {"lam": (0, 1), "rate": (0.001, 1000)},
}
"""The depletions that the page knows, with the least and the largest value of each parameter."""
MOST_CELLS, MOST_SITES, MOST_STEPS, LARGEST_DISCOUNT, LARGEST_REWARD = 42, 40, 1000, 0.9999, 1000
"""The largest side of a map, number of sites, horizon, discount and reward of a world in the page."""


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
    Raises ValueError for a view that JSON cannot hold.
    """
    if isinstance(world, str):
        world, linked = find_world(world)
        view = linked if view is None else view
    _check(world)
    _check_json(view, "the view")
    return Explorer({"world": _describe(world)} | ({} if view is None else {"view": view}))


def find_world(name: str) -> tuple[World, dict[str, Any] | None]:
    """Returns the world that a text names, and its view if the text is a link that holds one.

    The text is a name of the catalogue, a path that ends with ".json", or a link of the page: all of it, or what begins
    with #. Raises ValueError if there is no such world.
    """
    if name.endswith(".json"):
        return World.from_json(Path(name)), None
    _, mark, code = name.partition("#")
    return _from_link(code) if mark else (make(name), None)


def _check(world: World) -> None:
    """Raises ValueError if the page cannot show a world. The message says what it can show."""
    kind, (rows, columns) = type(world.depletion).__name__, world.map.shape
    limits = {
        f"depletions of the kinds {', '.join(KINDS)}, not {kind}": kind in KINDS,
        f'timing="arrival", not {world.timing!r}': world.timing == "arrival",
        f"maps of up to {MOST_CELLS} × {MOST_CELLS} cells, not {rows} × {columns}": max(rows, columns) <= MOST_CELLS,
        f"at most {MOST_SITES} sites, not {world.n_sites}": world.n_sites <= MOST_SITES,
        "sites of one cell each": not isinstance(world.sites, tuple),
        f"discounts up to {LARGEST_DISCOUNT}, not {world.discount:g}": world.discount <= LARGEST_DISCOUNT,
        f"at most {MOST_STEPS} steps an episode, not {world.horizon}": (world.horizon or 0) <= MOST_STEPS,
        **_within("rewards", world.rewards, -LARGEST_REWARD, LARGEST_REWARD),
        **_within("a wall_penalty", world.wall_penalty, -LARGEST_REWARD, LARGEST_REWARD),
        **_within("a threshold", world.threshold or 0.0, -LARGEST_REWARD, LARGEST_REWARD),
    }
    for name, (low, high) in KINDS.get(kind, {}).items():
        value = getattr(world.depletion, name)
        limits |= _within(f"{kind}({name})", value, low, high)
        limits[f"one {kind}({name}), or one for each site, not an array of {np.ndim(value)} axes"] = np.ndim(value) < 2
    for limit, kept in limits.items():
        if not kept:
            raise ValueError(f"the explorer shows worlds with {limit}: change that with dataclasses.replace(world, …)")


def _within(what: str, value: Any, low: float, high: float) -> dict[str, bool]:
    """Returns a limit of the page in words, and whether a number or an array keeps it."""
    numbers = np.ravel(np.asarray(value, float))
    beyond = numbers[(numbers < low) | (numbers > high)]
    return {f"{what} from {low:g} to {high:g}" + "".join(f", not {number:g}" for number in beyond[:1]): not beyond.size}


def _describe(world: World) -> dict[str, Any]:
    """Returns the description of a world without what the page does not use, and with one start.

    Of several starts, the last of the most probable ones is taken.
    """
    description = describe(world)
    last = world.n_states - 1 - int(np.argmax(world.start[::-1]))
    return {name: value for name, value in description.items() if name not in ("policies", "observation")} | {
        "start": world.map.cells[last].tolist()
    }


def _catalogue() -> dict[str, Any]:
    """Returns the worlds of the catalogue that the page can show, by their names."""
    shown = {}
    for name in names():
        try:
            world = make(name)
            _check(world)
            shown[name] = _describe(world)
        except (TypeError, ValueError):
            continue  # A world that a user registered may need settings, or have a depletion that no page knows.
    return shown


def _from_link(code: str) -> tuple[World, dict[str, Any] | None]:
    """Returns the world and the view of a link by its part after #. Raises ValueError if it holds none."""
    link = f"the link #{code[:20]}…"
    try:
        state = json.loads(base64.b64decode(code + "=" * (-len(code) % 4), altchars="-_", validate=True))
        world, view = state["world"], state.get("view")
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise ValueError(f"{link} holds no world: it is damaged or cut off, copy all of it, to its end") from error
    _check_json(view, f"the view of {link}")
    try:
        return World.from_json(json.dumps(world)), view
    except ValueError as error:
        raise ValueError(f"{link} holds no world that can be shown: {error}") from error


def _check_json(value: Any, what: str) -> None:
    """Raises ValueError for what a browser's JSON cannot hold. Python's own also holds NaN and halves of characters."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{what} is not data that JSON can hold ({error}): take it from a link of the page") from error
