"""The paper's maps, rewards and base policies."""

from typing import NamedTuple

import numpy as np

from wane.worlds.grid import Map


class Layout(NamedTuple):
    """A map with its rewarded sites."""

    map: Map
    sites: np.ndarray
    rewards: np.ndarray
    discount: float
    horizon: int
    n_actions: int
    policies: tuple[np.ndarray, ...] = ()


GRID_6X6 = Map("""
    ######
    #....#
    #..g.#
    #....#
    #S...#
    ######
""")

TWO_ROOMS = Map("""
    ###########
    #1.......2#
    #.........#
    #.........#
    #.........#
    #####.#####
    #3........#
    #.........#
    #.........#
    #........S#
    ###########
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


def grid_6x6() -> Layout:
    """The grid of the paper's first result figure, with its policy π₁."""
    policy = GRID_6X6.policy("""
        >>>v
        ^^<<
        ^^<<
        ^^<<
    """)
    return Layout(GRID_6X6, np.array([GRID_6X6.find("g")]), np.array([1.0]), 0.9, 10, 4, (policy,))


def two_rooms() -> Layout:
    """Where the paper learns policies."""
    sites = np.array([TWO_ROOMS.find(letter) for letter in "123"])
    return Layout(TWO_ROOMS, sites, np.array([10.0, 5.0, 5.0]), 0.95, 100, 5)


def four_rooms() -> Layout:
    """Where the paper composes policies: three rewards, and four policies that each walk to a goal of their own."""
    sites = np.array([FOUR_ROOMS.find(letter) for letter in "012"])
    columns = zip(*(line.split() for line in _FOUR_ROOMS_POLICIES.strip().splitlines()), strict=True)
    policies = tuple(FOUR_ROOMS.policy("\n".join(rows)) for rows in columns)
    return Layout(FOUR_ROOMS, sites, np.array([5.0, 10.0, 5.0]), 0.97, 40, 5, policies)
