"""Draws maps: stills with values, policies, walks and sites, and a representation as a heat map.

Nothing here opens a window or keeps state: stills are plain `Figure`s to `savefig`. Sites have the colours of Okabe
and Ito in their order, values viridis and time plasma, which colour-blind readers can tell apart. No world imports
this module, so that simulations run without loading a plotting library.

    >>> from wane.worlds.catalog import four_rooms
    >>> rooms = four_rooms()
    >>> picture = still(rooms.map, policy=rooms.policies[0], sites=rooms.sites, rewards=rooms.rewards)
    >>> [label.get_text() for label in picture.axes[0].texts]
    ['5', '10', '5']
"""

from collections import Counter
from itertools import pairwise
from typing import Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Circle, Rectangle
from matplotlib.patheffects import withStroke
from numpy.typing import ArrayLike

from wane.worlds import pixels
from wane.worlds.grid import ACTIONS, MOVES, Map

SITE_COLOURS = tuple(to_hex(colour / 255).upper() for colour in pixels.SITE_COLOURS)
INK, GREY, WALL, FAINT = "#222222", "#6B6B6B", "#A6A6A6", "#E4E4E4"
# The end of plasma is too pale a yellow for a line on a white floor.
_TIME = LinearSegmentedColormap.from_list("time", matplotlib.colormaps["plasma"](np.linspace(0, 0.88, 64)))
# An arrow along x from 0 to 1, in units of its length, and half its height.
_ARROW = np.array([(0, 0.05), (0.6, 0.05), (0.6, 0.18), (1, 0), (0.6, -0.18), (0.6, -0.05), (0, -0.05)])
RIM = 0.25
"""how much of the walls around a map is drawn, in cells"""


def still(
    map: Map,
    *,
    values: ArrayLike | None = None,
    policy: ArrayLike | None = None,
    trajectory: ArrayLike | None = None,
    sites: ArrayLike | None = None,
    rewards: ArrayLike | None = None,
    remaining: ArrayLike | None = None,
    start: int | None = None,
    limits: tuple[float, float] | None = None,
    label: str = "value",
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """A map with any of these drawn on it, on a figure of its own or on `ax`.

    - `values`: a number for each state, as colours between `limits`, on a bar called `label`; NaN stays white.
    - `policy`: an action for each state as an arrow (a dot to stay), or probabilities (states, actions) as arrows and
      dots that are larger and darker the likelier they are. At a site the arrow sticks out of the disc, and a ring
      around it is to stay.
    - `trajectory`: the states of a walk, coloured by time, from the hollow dot to the full one. It keeps to the right
      where it comes back to a cell, and has rings that grow with the steps it stayed.
    - `sites`: rewarded states as discs, labelled with what is `remaining`, else with their `rewards`; given both, the
      discs fade with what is left.
    - `start`: a state to put a box around.
    """
    places = check_states(map, [] if sites is None else sites, "sites")
    walk = None if trajectory is None else check_states(map, trajectory, "trajectory")
    ax, shades = _floor(map, values, limits, label, ax, walk is not None)
    if start is not None:
        y, x = map.cells[check_states(map, [start], "start")[0]] - 0.42
        box = Rectangle((x, y), 0.84, 0.84, fill=False, ec=INK, lw=1.6, zorder=2.5, gid="start")
        ax.add_patch(box).set_path_effects([withStroke(linewidth=3.6, foreground="white")])
    _draw_sites(ax, map, places, rewards, remaining, 0.36 if policy is None else 0.29, walk is not None)
    if policy is not None:
        _draw_policy(ax, map, np.asarray(policy), inks_on(shades), places)
    if walk is not None:
        _draw_trajectory(ax, map, walk)
    return _titled(ax, title)


def representation(
    map: Map,
    row: ArrayLike,
    *,
    state: int | None = None,
    limits: tuple[float, float] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Φ(s, ·) over the cells, with s ringed, and with numbers if the cells are large enough to read them."""
    row = check_numbers(row, (map.n_states,), "row", "one number for each state")
    limits = limits or (min(0.0, float(np.nanmin(row))), float(np.nanmax(row)))
    ax, shades = _floor(map, row, limits, "Φ(s, ·)", ax, False)
    points = _cell_points(ax, map)
    if points >= 22:
        for (y, x), value, ink in zip(map.cells, row, inks_on(shades), strict=True):
            number = "0" if value == 0 else f"{value:.{_digits(value)}f}"
            ax.text(x, y, number, ha="center", va="center", color=ink, fontsize=min(12, 0.27 * points))
    if state is not None:
        y, x = map.cells[check_states(map, [state], "state")[0]]
        ring = Circle((x, y), 0.44, fill=False, ec=SITE_COLOURS[0], lw=2.2, zorder=6, gid="state")
        ax.add_patch(ring).set_path_effects([withStroke(linewidth=4.2, foreground="white")])
    return _titled(ax, title)


def window(map: Map) -> tuple[np.ndarray, np.ndarray]:
    """Two corners (row, column) of what is drawn: the free cells, and a rim of the walls around them."""
    return np.maximum(map.cells.min(0) - RIM, 0), np.minimum(map.cells.max(0) + 1 + RIM, map.shape)


def _floor(
    map: Map, values: ArrayLike | None, limits: tuple[float, float] | None, label: str, ax: Axes | None, timed: bool
) -> tuple[Axes, np.ndarray]:
    """Walls, floor and the bar of the values; also the colour (r, g, b, a) of each state."""
    shades, scale = np.ones((map.n_states, 4)), None
    if values is not None:
        values = check_numbers(values, (map.n_states,), "values", "one number for each state")
        low, high = limits or (float(np.nanmin(values)), float(np.nanmax(values)))
        scale = ScalarMappable(Normalize(low, high if high > low else low + 1), "viridis")
        shades = np.where(np.isnan(values)[:, None], 1.0, scale.to_rgba(values))
    (top, left), (bottom, right) = window(map)
    if ax is None:
        cell = min(0.8, 6 / (right - left), 5 / (bottom - top))
        size = (right - left) * cell + 0.2 + 0.95 * (scale is not None), (bottom - top) * cell + 0.45 + 0.65 * timed
        ax = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.07)).subplots()
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


def _bar(ax: Axes, map: Map, scale: ScalarMappable, label: str, way: Literal["vertical", "horizontal"]) -> None:
    """A colour bar along the map; an inset, because one beside the axes would be taller than a map of square cells."""
    (top, left), (bottom, right) = window(map)
    thick = 0.035 * max(bottom - top, right - left)
    beside = (right - 0.5 + 0.8 * thick, top - 0.5, thick, bottom - top)
    below = (left - 0.5, bottom - 0.5 + 0.8 * thick, right - left, thick)
    inset = ax.inset_axes(beside if way == "vertical" else below, transform=ax.transData)
    ax.figure.colorbar(scale, cax=inset, orientation=way, label=label)
    inset.spines[:].set_visible(False)


def _titled(ax: Axes, title: str | None) -> Figure:
    if title:
        ax.set_title(title)
    return ax.figure.figure


def _cell_points(ax: Axes, map: Map) -> float:
    """About how large a cell will be, in points."""
    low, high = window(map)
    box, (width, height) = ax.get_position(), ax.figure.figure.get_size_inches()
    return 72 * float(min((box.height * height, box.width * width) / (high - low)))


def inks_on(shades: ArrayLike) -> np.ndarray:
    """Dark ink on light shades, white on dark ones."""
    return np.where(np.asarray(shades)[..., :3] @ (0.299, 0.587, 0.114) > 0.55, INK, "#FFFFFF")


def faded(colour: str, fraction: float) -> str:
    r, g, b = (1 - (1 - c) * fraction for c in to_rgb(colour))
    return to_hex((r, g, b))


def _digits(value: float) -> int:
    return 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0


def short(value: float) -> str:
    """A number in about four characters."""
    return f"{round(float(value), _digits(value)) + 0.0:g}"


def site_colour(i: int) -> str:
    return SITE_COLOURS[i % len(SITE_COLOURS)]


def _draw_sites(
    ax: Axes,
    map: Map,
    sites: np.ndarray,
    rewards: ArrayLike | None,
    remaining: ArrayLike | None,
    radius: float,
    aside: bool,
) -> None:
    """Discs, with their labels inside where these fit, else (or for `aside`) at their upper right."""
    full, left = (
        None if given is None else check_numbers(given, (len(sites),), name, "one number for each of `sites`")
        for given, name in ((rewards, "rewards"), (remaining, "remaining"))
    )
    fraction = np.ones(len(sites)) if full is None or left is None else fraction_left(left, full)
    left, points = full if left is None else left, _cell_points(ax, map)
    size = float(np.clip(0.27 * points, 6.5, 12))
    for i, (y, x) in enumerate(map.cells[sites]):
        fill = faded(site_colour(i), fraction[i])
        disc = Circle((x, y), radius, fc=fill, ec=site_colour(i), lw=min(2, 0.07 * points), zorder=2.6, gid="site")
        ax.add_patch(disc).set_path_effects([withStroke(linewidth=min(4, 0.15 * points), foreground="white")])
        if left is None:
            continue
        text, style = short(left[i]), {"weight": "bold", "fontsize": size, "zorder": 7}
        if aside or 0.7 * size * len(text) > 2.1 * radius * points:
            halo = [withStroke(linewidth=2.5, foreground="white")]
            ax.text(x + 0.3, y - 0.2, text, ha="left", va="bottom", color=INK, path_effects=halo, **style)
        else:
            ax.text(x, y, text, ha="center", va="center_baseline", color=str(inks_on(to_rgb(fill))), **style)


def _draw_policy(ax: Axes, map: Map, policy: np.ndarray, inks: np.ndarray, sites: np.ndarray) -> None:
    state, action, chance = _choices(map, policy)
    way, centre, at_site = MOVES[action][:, ::-1], map.cells[state][:, ::-1], np.isin(state, sites)
    colours = [(*to_rgb(ink), 0.3 + 0.7 * p) for ink, p in zip(inks[state], chance, strict=True)]
    # A sure arrow sits in the middle of its cell, others start there; those of a site stick out of its disc.
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


def _choices(map: Map, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every state, action and probability that a policy may choose."""
    n, most = map.n_states, len(ACTIONS)
    if policy.shape == (n,):
        for s in np.flatnonzero(~np.isin(policy, range(most))):
            raise ValueError(f"policy: {policy[s]} of state {s} is no action; give 0 … {most - 1} for {ACTIONS}")
        return np.arange(n), policy.astype(int), np.ones(n)
    if policy.ndim != 2 or len(policy) != n or policy.shape[1] > most:
        wanted = f"an action for each of the {n} states, or probabilities ({n}, actions) of up to {most} actions"
        raise ValueError(f"policy: shape {policy.shape}; give {wanted}")
    for s in np.flatnonzero((policy < 0).any(1) | ~(abs(policy.sum(1) - 1) < 1e-4)):
        raise ValueError(f"policy: the row of state {s} is {policy[s]}; give probabilities that sum to 1")
    state, action = np.nonzero(policy > 0.02)
    return state, action, policy[state, action]


def _draw_trajectory(ax: Axes, map: Map, states: np.ndarray) -> None:
    if not len(states):
        raise ValueError("trajectory: empty; give at least the state that the walk starts in")
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


def _track(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The line (x, y) of a walk through the centres `at`, and to which of them each of its points belongs.

    Moves into or out of a cell that is visited again are shifted to the right of where they go, and further each time
    that the same move is made: there and back are two lines.
    """
    step = np.diff(at, axis=0)
    step /= np.linalg.norm(step, axis=1, keepdims=True)
    cells = [tuple(cell) for cell in at]
    visits, moves, made = Counter(cells), Counter(pairwise(cells)), Counter()
    gap, shift = 0.36 / max(2.25, *moves.values(), 0), np.zeros((len(at), 2))
    for i, (a, b) in enumerate(pairwise(cells)):
        if visits[a] > 1 or visits[b] > 1:
            shift[i] = gap * (made[a, b] + 0.5) * np.array([-step[i, 1], step[i, 0]])
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


def check_states(map: Map, states: ArrayLike, name: str) -> np.ndarray:
    """States as whole numbers that are on the map."""
    given = np.asarray(states)
    if given.ndim != 1:
        raise ValueError(f"{name}: shape {given.shape}; give a list of states")
    for i in np.flatnonzero(~np.isin(given, range(map.n_states))):
        cure = f"its states are 0 … {map.n_states - 1}, and `map.state(row, column)` is that of a cell"
        raise ValueError(f"{name}: {given[i]} at place {i} is not on the map; {cure}")
    return given.astype(int)


def check_numbers(values: ArrayLike, shape: tuple[int, ...], name: str, what: str) -> np.ndarray:
    given = np.asarray(values, float)
    if given.shape != shape:
        raise ValueError(f"{name}: shape {given.shape}; give shape {shape}, {what}")
    return given


def fraction_left(left: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """How much of each reward is left, between 0 and 1."""
    return np.clip(np.divide(left, rewards, out=np.zeros(len(left)), where=rewards != 0), 0, 1)
