"""Episodes as rows of a table, their pictures and films, the lengths of stays at sites, and the ways between them."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int
from matplotlib.axes import Axes

from wane.agents.common.rollout import Episode, discounts
from wane.foraging.leaving import find_stays
from wane.types import AnyArray
from wane.worlds.film import Film, views_along
from wane.worlds.world import World

KEY = (
    "Paths go from the hollow dot to the full one. A ring is a stay: the agent remains in the cell, "
    "and the ring grows with the number of steps."
)
"""An explanation of how paths are drawn, for a line under the figure."""


def rows(world: World, episode: Episode, **labels: Any) -> pd.DataFrame:
    """Returns a table with one row for each moment of an episode, from the start until the episode ends.

    The columns are the time, the cell, the reward that was just paid, the discounted sum of all rewards so far
    (`earned`), and what remains of the reward of each site (`remaining0`, `remaining1`, …). Each label becomes a
    column.
    """
    steps = int(np.asarray(episode.live).sum())
    rewards = np.asarray(episode.rewards)[:steps]
    remaining = np.asarray(episode.remaining)[: steps + 1]
    table = {
        "time": np.arange(steps + 1),
        "cell": np.asarray(episode.cells)[: steps + 1],
        "reward": np.append(0.0, rewards),
        "earned": np.append(0.0, np.cumsum(discounts(world)[:steps] * rewards)),
    }
    sites = {name: remaining[:, i] for i, name in enumerate(_site_columns(world))}
    return pd.DataFrame(table | sites).assign(**labels)


def path(ax: Axes, world: World, table: pd.DataFrame, title: str) -> None:
    """Draws the path of an episode on its map."""
    cells = table["cell"].to_numpy(int)
    world.draw(trajectory=cells, title=title, ax=ax)


def film(world: World, table: pd.DataFrame, title: str, *, with_views: bool = False) -> Callable[[Path], Any]:
    """Returns a function that writes the episode as a GIF to a path, if wanted with the agent's views."""
    cells, remaining = table["cell"].to_numpy(int), table[_site_columns(world)].to_numpy()
    return lambda path: Film(
        world.map,
        cells,
        sites=world.sites,
        rewards=np.asarray(world.rewards),
        remaining=remaining,
        returns=table["earned"].to_numpy(),
        title=title,
        views=views_along(world, cells, remaining) if with_views else None,
    ).save(path)


def films(
    world: World, table: pd.DataFrame, by: str, title: str = "{}", label: str = "{}"
) -> dict[str, Callable[[Path], Any]]:
    """Returns a film for each value of a column. The value stands in the film's title and in its label."""
    groups = table.groupby(by, sort=False)
    return {label.format(value): film(world, rows, title.format(value)) for value, rows in groups}


def stays(world: World, cells: Int[AnyArray, "*episodes moments"]) -> Int[np.ndarray, " stays"]:
    """Returns how many moments each stay at a site lasts, in the order of the episodes."""
    site_of = np.full(world.n_states, -1)
    site_of[world.sites] = np.arange(world.n_sites)
    sites = site_of[np.asarray(cells).reshape(-1, np.shape(cells)[-1])]
    episode = np.repeat(np.arange(len(sites)), sites.shape[1])
    return find_stays(episode, sites.ravel()).steps


def steps_to_sites(world: World, start: int) -> dict[int, int]:
    """Returns the steps from a state to each other site that can be reached without crossing a third site."""
    sites = {int(cell) for cell in world.sites}
    steps, queue = {start: 0}, deque([start])
    while queue:
        cell = queue.popleft()
        for each in map(int, world.tables.next_states[cell] if cell == start or cell not in sites else ()):
            if each not in steps:
                steps[each] = steps[cell] + 1
                queue.append(each)
    return {cell: number for cell, number in steps.items() if cell in sites and cell != start}


def _site_columns(world: World) -> list[str]:
    return [f"remaining{i}" for i in range(world.n_sites)]
