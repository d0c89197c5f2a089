"""Draws maps: pictures with values, policies, walks and sites, and a row of a representation as a heat map.

The functions return plain `Figure`s; they open no window and keep no state. Sites have the colours of Okabe and Ito,
values use the colour map viridis and time uses plasma; colour-blind readers can tell all of them apart. Simulations do
not load this module, nor matplotlib: `world.draw()`, the short way to a picture, imports it when it is called.

    >>> from wane.worlds import make
    >>> rooms = make("four-rooms")
    >>> picture = rooms.draw(policy=rooms.policies[0])
    >>> [label.get_text() for label in picture.axes[0].texts]
    ['5', '10', '5']
"""

import io
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

from wane.extras import require

require("plots", "wane.worlds.draw")

import matplotlib
import numpy as np
from jaxtyping import Float, Int, Shaped
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Circle, Rectangle
from matplotlib.patheffects import withStroke

from wane.exact.planning import Optimum
from wane.lazy import attach
from wane.mdp import check_patches
from wane.types import ArrayLike, Integer
from wane.worlds import colours
from wane.worlds.grid import ACTIONS, MOVES, Map

SITE_COLOURS = tuple(to_hex(colour / 255).upper() for colour in colours.SITE_COLOURS)
INK, GREY, WALL, FAINT = "#222222", "#6B6B6B", "#A6A6A6", "#E4E4E4"
# The end of plasma is too pale a yellow for a line on a white floor.
_TIME = LinearSegmentedColormap.from_list("time", matplotlib.colormaps["plasma"](np.linspace(0, 0.88, 64)))
# An arrow along x from 0 to 1, in units of its length, and half its height.
_ARROW = np.array([(0, 0.05), (0.6, 0.05), (0.6, 0.18), (1, 0), (0.6, -0.18), (0.6, -0.05), (0, -0.05)])
Limits = tuple[float | int, float | int]
"""The values at the two ends of a scale of colours."""
RIM = 0.25
"""How much of the walls around a map is drawn, in cells."""
__getattr__ = attach(__name__, renamed={"still": "wane.worlds.draw.draw_map"})[0]


def draw_map(
    map: Map,
    *,
    values: ArrayLike | Optimum | None = None,
    policy: ArrayLike | None = None,
    trajectory: ArrayLike | None = None,
    sites: Any = None,
    rewards: ArrayLike | None = None,
    remaining: ArrayLike | None = None,
    start: Integer | None = None,
    limits: Limits | None = None,
    label: str = "value",
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draws a map, with any of the following on it, on a new figure or on `ax`. Returns the figure.

    `world.draw(…)` is the short way: it knows the map, the sites and the rewards.

    - `values`: a number for each state, as colours between `limits`, with a bar called `label`. NaN stays white. Those
      of an optimum (`world.optimum()`) are taken from it.
    - `policy`: an action for each state as an arrow (a dot for staying), or probabilities (states, actions) as arrows
      and dots that are larger and darker the likelier they are. An arrow at a site sticks out of its disc, and a ring
      around the disc stands for staying.
    - `trajectory`: the states of a walk, coloured by time, from the hollow dot to the full one. The line keeps to the
      right where it comes back to a cell, and has rings that grow with the number of steps stayed.
    - `sites`: rewarded states, or sets of them, as discs with their `rewards`, or with what is `remaining`. With both,
      the discs fade. Of a site with several states, one disc has the number, and all have its colour.
    - `start`: a state with a box around it.
    """
    check_map(map)
    patches = find_patches(map, [] if sites is None else sites)
    walk = None if trajectory is None else check_states(map, trajectory, "trajectory")
    values = values.values if isinstance(values, Optimum) else values
    ax, shades = _floor(map, values, limits, label, ax, walk is not None)
    if start is not None:
        _draw_start(ax, map, start)
    _draw_sites(ax, map, patches, rewards, remaining, 0.36 if policy is None else 0.29, walk is not None)
    if isinstance(policy, Optimum):
        raise TypeError(
            "the actions of an optimum depend on the time and on what the sites remember: choose some to draw, such as "
            "policy=[best.action(state, memory) for state in range(world.n_states)]"
        )
    if policy is not None:
        _draw_policy(ax, map, np.asarray(policy), inks_on(shades), np.concatenate([np.zeros(0, int), *patches]))
    if walk is not None:
        _draw_trajectory(ax, map, walk)
    return _titled(ax, title)


def representation_map(
    map: Map,
    row: ArrayLike,
    *,
    state: Integer | None = None,
    limits: Limits | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draws Φ(s, ·) over the cells, with a ring around s, and with numbers if the cells are large enough for them."""
    check_map(map)
    row = check_numbers(row, (map.n_states,), "row", "one number for each state")
    limits = limits or (min(0.0, float(np.nanmin(row))), float(np.nanmax(row)))
    ax, shades = _floor(map, row, limits, "Φ(s, ·)", ax, False)
    points = _cell_points(ax, map)
    if points >= 22:
        for (y, x), value, ink in zip(map.cells, row, inks_on(shades), strict=True):
            number = "0" if value == 0 else f"{value:.{_digits(value)}f}"
            ax.text(x, y, number, ha="center", va="center", color=ink, fontsize=min(12, 0.27 * points))
    if state is not None:
        y, x = map.cells[check_states(map, np.array([state]), "state")[0]]
        ring = Circle((x, y), 0.44, fill=False, ec=SITE_COLOURS[0], lw=2.2, zorder=6, gid="state")
        ax.add_patch(ring).set_path_effects([withStroke(linewidth=4.2, foreground="white")])
    return _titled(ax, title)


def to_png(figure: Figure) -> bytes:
    """Returns a figure as the bytes of a PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def window(map: Map) -> tuple[Float[np.ndarray, "2"], Float[np.ndarray, "2"]]:
    """Returns two corners (row, column) of what is drawn: the free cells, and a rim of the walls around them."""
    return np.maximum(map.cells.min(0) - RIM, 0), np.minimum(map.cells.max(0) + 1 + RIM, map.shape)


def _floor(
    map: Map, values: ArrayLike | None, limits: Limits | None, label: str, ax: Axes | None, timed: bool
) -> tuple[Axes, Float[np.ndarray, "states 4"]]:
    """Draws walls, floor and the bar of the values. Returns the axes and the colour (r, g, b, a) of each state."""
    shades, scale = np.ones((map.n_states, 4)), None
    if values is not None:
        values = check_numbers(values, (map.n_states,), "values", "one number for each state")
        low, high = limits or (float(np.nanmin(values)), float(np.nanmax(values)))
        scale = ScalarMappable(Normalize(low, high if high > low else low + 1), "viridis")
        shades = np.where(np.isnan(values)[:, None], 1.0, scale.to_rgba(values))
    (top, left), (bottom, right) = window(map)
    ax = _new_axes(map, scale is not None, timed) if ax is None else ax
    picture = np.ones((*map.shape, 4)) * (*to_rgb(WALL), 1)
    picture[map.free] = shades
    ax.imshow(picture)
    edges = [np.arange(n + 1) - 0.5 for n in map.shape]
    ax.set(xticks=[], yticks=[], xlim=(left - 0.5, right - 0.5), ylim=(bottom - 0.5, top - 0.5))
    ax.hlines(edges[0], left - 0.5, right - 0.5, color=WALL, lw=0.5)
    ax.vlines(edges[1], top - 0.5, bottom - 0.5, color=WALL, lw=0.5)
    ax.spines[:].set_visible(False)
    if scale is not None:
        _bar(ax, map, scale, label, "vertical")
    return ax, shades


def _new_axes(map: Map, valued: bool, timed: bool) -> Axes:
    """Returns the axes of a new figure, with room for the bars of values and of time."""
    low, high = window(map)
    height, width = high - low
    cell = min(0.8, 6 / width, 5 / height)
    size = width * cell + 0.2 + 0.95 * valued, height * cell + 0.45 + 0.65 * timed
    return Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.07)).subplots()


def _bar(ax: Axes, map: Map, scale: ScalarMappable, label: str, way: Literal["vertical", "horizontal"]) -> None:
    """Draws a colour bar along the map."""
    # It is an inset, because a bar next to the axes would be taller than a map of square cells.
    (top, left), (bottom, right) = window(map)
    thick = 0.035 * max(bottom - top, right - left)
    on_right = (right - 0.5 + 0.8 * thick, top - 0.5, thick, bottom - top)
    below = (left - 0.5, bottom - 0.5 + 0.8 * thick, right - left, thick)
    inset = ax.inset_axes(on_right if way == "vertical" else below, transform=ax.transData)
    ax.figure.colorbar(scale, cax=inset, orientation=way, label=label)
    inset.spines[:].set_visible(False)


def _titled(ax: Axes, title: str | None) -> Figure:
    if title:
        ax.set_title(title)
    return ax.figure.figure


def _cell_points(ax: Axes, map: Map) -> float:
    """Returns the approximate size of a cell, in points."""
    low, high = window(map)
    box, (width, height) = ax.get_position(), ax.figure.figure.get_size_inches()
    return 72 * float(min((box.height * height, box.width * width) / (high - low)))


def inks_on(shades: ArrayLike) -> Shaped[np.ndarray, "..."]:
    """Returns the colour of text: dark on light shades, white on dark ones."""
    return np.where(np.asarray(shades)[..., :3] @ (0.299, 0.587, 0.114) > 0.55, INK, "#FFFFFF")


def faded(colour: str, fraction: float | int | np.floating) -> str:
    """Returns a colour between white (fraction 0) and the full colour (fraction 1)."""
    r, g, b = (1 - (1 - c) * float(fraction) for c in to_rgb(colour))
    return to_hex((r, g, b))


def _digits(value: float | np.floating) -> int:
    """Returns the number of decimals that are worth showing."""
    return 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0


def short(value: float | np.floating) -> str:
    """Returns a number as text of about four characters."""
    return f"{round(float(value), _digits(value)) + 0.0:g}"


def site_colour(i: int) -> str:
    """Returns the colour of the i-th site; the colours repeat."""
    return SITE_COLOURS[i % len(SITE_COLOURS)]


def _draw_start(ax: Axes, map: Map, start: Integer) -> None:
    y, x = map.cells[check_states(map, np.array([start]), "start")[0]] - 0.42
    box = Rectangle((x, y), 0.84, 0.84, fill=False, ec=INK, lw=1.6, zorder=2.5, gid="start")
    ax.add_patch(box).set_path_effects([withStroke(linewidth=3.6, foreground="white")])


def _draw_sites(
    ax: Axes,
    map: Map,
    patches: Sequence[Int[np.ndarray, " _states"]],
    rewards: ArrayLike | None,
    remaining: ArrayLike | None,
    radius: float,
    aside: bool,
) -> None:
    """Draws discs with labels: inside where these fit, else (or for `aside`) at the upper right."""
    numbers, fractions, points = None, np.ones(len(patches)), _cell_points(ax, map)
    if rewards is not None:
        numbers = rewards = check_numbers(rewards, (len(patches),), "rewards", "one number for each of `sites`")
    if remaining is not None:
        numbers = check_numbers(remaining, (len(patches),), "remaining", "one number for each of `sites`")
        fractions = fractions if rewards is None else remaining_fraction(numbers, rewards)
    size = float(np.clip(0.27 * points, 6.5, 12))
    for i, states in enumerate(patches):
        fill, width = faded(site_colour(i), fractions[i]), min(2, 0.07 * points)
        for y, x in map.cells[states]:
            disc = Circle((x, y), radius, fc=fill, ec=site_colour(i), lw=width, zorder=2.6, gid="site")
            ax.add_patch(disc).set_path_effects([withStroke(linewidth=min(4, 0.15 * points), foreground="white")])
        if numbers is None:
            continue
        y, x = map.cells[states[0]]
        text, style = short(numbers[i]), {"weight": "bold", "fontsize": size, "zorder": 7}
        if aside or 0.7 * size * len(text) > 2.1 * radius * points:
            halo = [withStroke(linewidth=2.5, foreground="white")]
            ax.text(x + 0.3, y - 0.2, text, ha="left", va="bottom", color=INK, path_effects=halo, **style)
        else:
            ax.text(x, y, text, ha="center", va="center_baseline", color=str(inks_on(to_rgb(fill))), **style)


def _draw_policy(
    ax: Axes,
    map: Map,
    policy: Shaped[np.ndarray, "..."],
    inks: Shaped[np.ndarray, " states"],
    sites: Int[np.ndarray, " sites"],
) -> None:
    state, action, chance = _choices(map, policy)
    way, centre, at_site = MOVES[action][:, ::-1], map.cells[state][:, ::-1], np.isin(state, sites)
    colours = [(*to_rgb(ink), 0.3 + 0.7 * p) for ink, p in zip(inks[state], chance, strict=True)]
    # An arrow of a certain action is centred in its cell, others start there; those of a site stick out of its disc.
    tail = np.where(at_site, 0.1, -0.33 if policy.ndim == 1 else 0.12)
    length = np.where(at_site, 0.25 + 0.15 * chance, 0.66 if policy.ndim == 1 else 0.36 * chance**0.5)
    move = np.flatnonzero(action < 4)
    arrows = []
    for i in move:
        along, thick = tail[i] + _ARROW[:, :1] * length[i], _ARROW[:, 1:] * min(0.66, 1.6 * length[i])
        arrows.append(centre[i] + along * way[i] + thick * (-way[i][::-1]))
    ax.add_collection(PolyCollection(arrows, fc=[colours[i] for i in move], lw=0, zorder=2.55, gid="policy"))
    for i in np.flatnonzero(action == 4):
        x, y = centre[i]
        radius = 0.45 if at_site[i] else 0.12 * chance[i] ** 0.5
        ax.add_patch(Circle((x, y), radius, fill=not at_site[i], color=colours[i], lw=1.5, zorder=2.55, gid="stay"))


def _choices(
    map: Map, policy: Shaped[np.ndarray, "..."]
) -> tuple[Int[np.ndarray, " choices"], Int[np.ndarray, " choices"], Float[np.ndarray, " choices"]]:
    """Returns the state, the action and the probability of everything that a policy may choose."""
    n, most = map.n_states, len(ACTIONS)
    if policy.shape == (n,):
        for s in np.flatnonzero(~np.isin(policy, range(most))):
            raise ValueError(f"policy has the action {policy[s]} in state {s}: give 0 … {most - 1} for {ACTIONS}")
        return np.arange(n), policy.astype(int), np.ones(n)
    if policy.ndim != 2 or len(policy) != n or policy.shape[1] > most:
        wanted = f"an action for each of the {n} states, or probabilities ({n}, actions) of up to {most} actions"
        raise ValueError(f"policy has shape {policy.shape}: give {wanted}")
    for s in np.flatnonzero((policy < 0).any(1) | ~(abs(policy.sum(1) - 1) < 1e-4)):
        raise ValueError(f"policy has the row {policy[s]} in state {s}: give probabilities that sum to 1")
    state, action = np.nonzero(policy > 0.02)
    return state, action, policy[state, action]


def _draw_trajectory(ax: Axes, map: Map, states: Int[np.ndarray, " steps"]) -> None:
    if not len(states):
        raise ValueError("trajectory is empty: give at least the state that the walk starts in")
    since = np.flatnonzero(np.diff(states, prepend=-1))
    stayed = np.diff(since, append=len(states)) - 1
    points, visit = _track(map.cells[states[since]][:, ::-1].astype(float))
    scale = ScalarMappable(Normalize(0, max(1, len(states) - 1)), _TIME)
    colours = [to_hex(tuple(c)) for c in scale.to_rgba(np.arange(len(states)))]
    width = float(np.clip(0.07 * _cell_points(ax, map), 1.2, 2.6))
    ax.plot(*points.T, color="white", lw=width + 1.8, solid_capstyle="round", zorder=3)
    lines = LineCollection(list(pairwise(points)), colors=[colours[since[v]] for v in visit[1:]], zorder=3.1)
    lines.set(linewidth=width, capstyle="round", gid="trajectory")
    ax.add_collection(lines)
    for v in np.flatnonzero(stayed):
        x, y = points[visit == v].mean(0)
        radius, colour = min(0.45, 0.08 + 0.07 * stayed[v] ** 0.5), colours[since[v] + stayed[v]]
        ring = Circle((x, y), radius, fill=False, ec=colour, lw=0.8 * width, zorder=3.05, gid="stayed")
        ax.add_patch(ring).set_path_effects([withStroke(linewidth=1.6 * width, foreground="white")])
    for (x, y), fill, edge in ((points[0], "white", colours[0]), (points[-1], colours[-1], "white")):
        ax.plot(x, y, "o", ms=3.4 * width, mfc=fill, mec=edge, mew=0.7 * width, zorder=3.3)
    _bar(ax, map, scale, "time step", "horizontal")


def _track(at: Float[np.ndarray, "visits 2"]) -> tuple[Float[np.ndarray, "points 2"], Int[np.ndarray, " points"]]:
    """Returns the line (x, y) of a walk through the centres `at`, and to which of them each of its points belongs.

    A move into or out of a cell that is visited again is shifted to the right of where it goes, and further each time
    that the same move is made, so that there and back are two lines.
    """
    step = np.diff(at, axis=0)
    step /= np.linalg.norm(step, axis=1, keepdims=True)
    cells = [tuple(cell) for cell in at]
    visits, moves, made = Counter(cells), Counter(pairwise(cells)), Counter()
    lane, shift = 0.36 / max(2.25, *moves.values(), 0), np.zeros((len(at), 2))
    for i, (a, b) in enumerate(pairwise(cells)):
        if visits[a] > 1 or visits[b] > 1:
            shift[i] = lane * (made[a, b] + 0.5) * np.array([-step[i, 1], step[i, 0]])
            made[a, b] += 1
    points, owner = [at[0] + shift[0]], [0]
    for i in range(1, len(at)):
        last = i == len(step)
        into, out, turn = shift[i - 1], shift[i - 1 if last else i], 1 if last else step[i - 1] @ step[i]
        # Straight on: a point between the two lanes. A corner: where they cross. Back again: a point on each.
        offsets = [(into + out) / 2] if turn > 0.5 else [into + out] if turn > -0.5 else [into, out]
        points += [at[i] + offset for offset in offsets]
        owner += [i] * len(offsets)
    return np.array(points), np.array(owner)


def check_map(map: object) -> None:
    """Raises TypeError if the argument is not a map. The message says what to call for a world."""
    if not isinstance(map, Map):
        raise TypeError(
            f"this draws a Map, got {type(map).__name__}: a world draws itself, world.draw(…) and world.film(episode); "
            "world.map is its map"
        )


def check_states(map: Map, states: ArrayLike, name: str) -> Int[np.ndarray, " states"]:
    """Returns states as integers. Raises ValueError for one that is not on the map."""
    given = np.asarray(states)
    if given.ndim != 1:
        raise ValueError(f"{name} has shape {given.shape}: give a list of states")
    for i in np.flatnonzero(~np.isin(given, range(map.n_states))):
        cure = f"its states are 0 … {map.n_states - 1}, and `map.state(row, column)` is that of a cell"
        raise ValueError(f"{name} has {given[i]} at place {i}, which is not on the map: {cure}")
    return given.astype(int)


def find_patches(map: Map, sites: Any) -> tuple[Int[np.ndarray, " _states"], ...]:
    """Returns the states of each site. Raises ValueError for one that is not on the map."""
    if isinstance(sites, list | tuple) and any(isinstance(site, set | frozenset) for site in sites):
        return check_patches(sites, map.n_states)
    return tuple(check_states(map, sites, "sites")[:, None])


def check_numbers(values: ArrayLike, shape: tuple[int, ...], name: str, what: str) -> Float[np.ndarray, "..."]:
    """Returns numbers as an array. Raises ValueError if it has another shape, TypeError if it holds no numbers."""
    try:
        given = np.asarray(values, float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} has the type {type(values).__name__}, which holds no numbers: give {what}") from error
    if given.shape != shape:
        raise ValueError(f"{name} has shape {given.shape}: give shape {shape}, {what}")
    return given


def remaining_fraction(
    remaining: Float[np.ndarray, " sites"], rewards: Float[np.ndarray, " sites"]
) -> Float[np.ndarray, " sites"]:
    """Returns how much remains of each reward, between 0 and 1."""
    return np.clip(np.divide(remaining, rewards, out=np.zeros(len(remaining)), where=rewards != 0), 0, 1)
