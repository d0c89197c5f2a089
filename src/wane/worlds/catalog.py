"""Worlds by name: the paper's worlds with the paper's settings, and a few more.

`make(name, **settings)` makes a world, with any of its settings changed.

| name | what happens there |
| --- | --- |
| grid-6x6 | the first result figure and policy evaluation; one policy |
| two-rooms, two-rooms-7, two-rooms-17 | policy learning: three rewards, one behind a door |
| four-rooms, four-rooms-7, four-rooms-17 | policy composition: three rewards, four base policies |
| toy | three states, one reward that vanishes at the first visit, one that stays |
| asymmetric | one large reward on one side, six small ones that are worth more together on the other |
| patches-2, patches-4, patches-6 | three equal rewards along a corridor, 2, 4 or 6 steps apart: patch leaving |
| corridor | a reward at each end |
| open-field | random patches of a given richness, to forage in |
| endless-field | 10¹² cells, walls and sites by a hash: an `EndlessField`, not a `World`, so `names` leaves it out |

    >>> from wane.depletion import Hyperbolic
    >>> make("four-rooms", depletion=Hyperbolic(1.0), slip=0.2).n_states
    68
"""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Int
from scipy.sparse.csgraph import shortest_path

from wane.depletion import Geometric
from wane.names import unknown
from wane.types import Integer
from wane.worlds.endless import EndlessField
from wane.worlds.grid import ACTIONS, Map, require_cells
from wane.worlds.world import World

Settings = dict[str, Any]

GRID_6X6 = Map("""
    ######
    #....#
    #..g.#
    #....#
    #S...#
    ######
""")

FOUR_ROOMS = Map("""
    ###########
    #....#....#
    #.1.......#
    #....#..2.#
    #....#....#
    #.#####.###
    #....#....#
    #..0.#....#
    #......3..#
    #....#....#
    ###########
""")

_FOUR_ROOMS_POLICIES = """
    dlll#dddd   rddd#dddd   dddd#rrdd   dldd#rdll
    dllllllll   rslllllll   rrrrrrrdd   dlrrrrdll
    dlll#rdll   uuuu#uuuu   uuuu#rrsl   dluu#rdll
    dlll#rdll   uuuu#uuuu   uuuu#rrul   dluu#rdll
    d#####d##   u#####u##   u#####u##   d#####d##
    rrdd#dddd   ulll#rull   uldd#rull   dddd#rrrd
    rrsl#dddd   ulll#dddd   uldd#rull   dddd#rddd
    rrullllll   ullllllll   rrrrrrull   rrrrrrsll
    rrul#uuuu   ulll#uuuu   uuuu#rull   uuuu#uull
"""


def shortest_paths(map: Map, goal: Integer, n_actions: int = 5) -> Int[np.ndarray, " states"]:
    """Returns the policy that walks to a state on a shortest path and stays there.

    Of actions that are equally good it takes the first. With 4 actions it stays by bumping into a wall.
    """
    table = map.next_states(n_actions)
    steps = shortest_path(
        map.mdp(n_actions).under(np.full(table.shape, 1 / n_actions)).T, unweighted=True, indices=goal
    )
    policy = steps[table].argmin(1)
    policy[goal] = n_actions - 1 if n_actions == len(ACTIONS) else int(np.argmax(map.bumps(n_actions)[goal]))
    return policy


def grid_6x6(**settings: Any) -> World:
    """Makes the grid of the paper's first result figure, with its policy π₁."""
    policy = GRID_6X6.policy(">>>v\n^^<<\n^^<<\n^^<<")
    paper: Settings = dict(
        sites="g", rewards=[1.0], start="S", discount=0.9, horizon=10, n_actions=4, wall_penalty=1.0, policies=[policy]
    )
    return World(GRID_6X6, **(paper | settings))


def two_rooms(size: int = 11, **settings: Any) -> World:
    """Makes the two rooms in which the paper learns policies."""
    _check_size(size)
    letters, middle = np.full((size, size), "."), size // 2
    letters[[0, -1]], letters[:, [0, -1]], letters[middle] = "#", "#", "#"
    letters[middle, middle] = "."
    letters[1, 1], letters[1, -2], letters[middle + 1, 1], letters[-2, -2] = "1", "2", "3", "S"
    paper: Settings = dict(sites="123", rewards=[10.0, 5.0, 5.0], start="S", discount=0.95, horizon=100)
    return World(Map.from_letters(letters), **(paper | settings))


def four_rooms(size: int = 11, **settings: Any) -> World:
    """Makes the four rooms in which the paper composes policies: three rewards, and four policies with a goal each."""
    _check_size(size)
    if size == 11:
        map = FOUR_ROOMS
        columns = zip(*(line.split() for line in _FOUR_ROOMS_POLICIES.strip().splitlines()), strict=True)
        policies = [map.policy("\n".join(rows)) for rows in columns]
    else:
        map = _plain_four_rooms(size)
        policies = [shortest_paths(map, map.find(goal)) for goal in "0123"]
    paper: Settings = dict(
        sites="012",
        rewards=[5.0, 10.0, 5.0],
        discount=0.97,
        horizon=40,
        threshold=0.1,
        wall_penalty=1.0,
        policies=policies,
    )
    return World(map, **(paper | settings))


def _plain_four_rooms(size: int) -> Map:
    letters, middle = np.full((size, size), "."), size // 2
    near, far = (middle + 1) // 2, middle + (middle + 1) // 2
    letters[[0, middle, -1]], letters[:, [0, middle, -1]] = "#", "#"
    for door in ((near, middle), (far, middle), (middle, near), (middle, far)):
        letters[door] = "."
    letters[-2, 1], letters[1, 1], letters[1, -2], letters[-2, -2] = "0", "1", "2", "3"
    return Map.from_letters(letters)


def toy(**settings: Any) -> World:
    """Makes the paper's three states: 10 on the left, gone at the first visit, and 6 on the right, which stays."""
    map = Map("#####\n#1S2#\n#####")
    left, right, stay = (ACTIONS.index(name) for name in ("left", "right", "stay"))
    policies = [[stay, left, left], [right, right, stay]]
    paper: Settings = dict(
        sites="12",
        rewards=[10.0, 6.0],
        depletion=Geometric([0.0, 1.0]),
        start="S",
        discount=0.99,
        horizon=10,
        policies=policies,
    )
    return World(map, **(paper | settings))


def asymmetric(**settings: Any) -> World:
    """Makes a world with one large reward on the left, and six small ones with a larger sum on the right."""
    map = Map("""
        #############
        #.........1.#
        #........6.2#
        #0....S.....#
        #........5.3#
        #.........4.#
        #############
    """)
    defaults: Settings = dict(sites="0123456", rewards=[6.0, *[2.0] * 6], start="S", discount=0.99, horizon=50)
    return World(map, **(defaults | settings))


def patches(distance: int = 4, **settings: Any) -> World:
    """Makes a corridor with three equal rewards, `distance` steps apart. The corridor always has the same length."""
    longest = 6
    if not 1 <= distance <= longest:
        raise ValueError(f"distance between patches is 1 to {longest}, got {distance}")
    cells = np.full(3 + 2 * longest + 1, ".")
    cells[0] = "S"
    cells[[2, 2 + distance, 2 + 2 * distance]] = "a", "b", "c"
    letters = np.pad(cells[None], 1, constant_values="#")
    defaults: Settings = dict(sites="abc", rewards=[1.0] * 3, start="S", discount=0.99, horizon=50)
    return World(Map.from_letters(letters), **(defaults | settings))


def corridor(length: int = 9, **settings: Any) -> World:
    """Makes a corridor with a reward at each end and the start in the middle."""
    if length < 3:
        raise ValueError(f"a corridor with two rewards and a start is at least 3 long, got {length}")
    require_cells(3, length)
    cells = np.full(length, ".")
    cells[0], cells[-1], cells[length // 2] = "1", "2", "S"
    letters = np.pad(cells[None], 1, constant_values="#")
    defaults: Settings = dict(sites="12", rewards=[1.0, 1.0], start="S", discount=0.95, horizon=50)
    return World(Map.from_letters(letters), **(defaults | settings))


def open_field(
    rows: int = 15, columns: int = 15, patches: int = 5, richness: float = 10.0, seed: int = 0, **settings: Any
) -> World:
    """Makes a field with random patches of 2 × 2 cells; `richness` is what the four cells of a patch pay together."""
    require_cells(rows, columns)
    map = Map.from_letters(np.pad(np.full((rows, columns), "."), 1, constant_values="#"))
    corners = np.argwhere(np.ones((rows // 2, columns // 2))) * 2 + 1
    if patches > len(corners):
        raise ValueError(f"{patches} patches do not fit on {rows} × {columns} cells: at most {len(corners)} do")
    chosen = np.random.default_rng(seed).choice(len(corners), patches, replace=False)
    square = np.array([(0, 0), (0, 1), (1, 0), (1, 1)])
    sites = [tuple(cell) for corner in corners[chosen] for cell in corner + square]
    defaults: Settings = dict(sites=sites, rewards=[richness / 4] * len(sites), discount=0.99, horizon=200)
    return World(map, **(defaults | settings))


def _check_size(size: int) -> None:
    if size < 7 or size % 2 == 0:
        raise ValueError(f"the size of rooms must be an odd number from 7 on, got {size}")
    require_cells(size, size)


_WORLDS: dict[str, Callable[..., World]] = {
    "grid-6x6": grid_6x6,
    "two-rooms": two_rooms,
    "four-rooms": four_rooms,
    "toy": toy,
    "asymmetric": asymmetric,
    "corridor": corridor,
    "open-field": open_field,
    **{f"two-rooms-{size}": lambda size=size, **settings: two_rooms(size, **settings) for size in (7, 17)},
    **{f"four-rooms-{size}": lambda size=size, **settings: four_rooms(size, **settings) for size in (7, 17)},
    **{f"patches-{d}": lambda distance=d, **settings: patches(distance, **settings) for d in (2, 4, 6)},
}


ENDLESS = "endless-field"
"""The name of the world that has no map."""


def make(name: str, **settings: Any) -> Any:
    """Makes a world of the catalogue, or one that was registered, with any of its settings changed.

    Raises UnknownName, a ValueError, if there is no world of this name.
    """
    if name == ENDLESS:
        return EndlessField(**settings)
    if name not in _WORLDS:
        raise unknown("world", name, names(), "; add your own with wane.worlds.register")
    return _WORLDS[name](**settings)


def world_of(world: World | str, settings: Settings) -> World:
    """Returns a world that is given as it is or by its name, with settings changed."""
    return make(world, **settings) if isinstance(world, str) else replace(world, **settings) if settings else world


def register(name: str, factory: Callable[..., World]) -> None:
    """Adds a world of your own, for `make` and for Gymnasium: `factory(**settings)` makes it.

    Raises ValueError if the name is taken, or is not made of lower-case words and numbers with hyphens.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise ValueError(
            f"a world's name is lower-case words and numbers with hyphens, such as four-rooms-17, got {name!r}"
        )
    if name in _WORLDS:
        raise ValueError(f"a world {name!r} is registered already: choose another name")
    _WORLDS[name] = factory
    if "gymnasium" in sys.modules:
        # If Gymnasium is not loaded yet, there is nothing to do: importing wane.worlds.gym later registers all worlds.
        from wane.worlds.gym import register_all

        register_all()


def names() -> list[str]:
    """Returns the names of all worlds."""
    return sorted(_WORLDS)
