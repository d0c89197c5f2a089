"""Episodes as rows of a table, and pictures and films of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from wane.agents.episode import Episode, discounts
from wane.worlds import draw
from wane.worlds.film import gif
from wane.worlds.world import World


def rows(world: World, episode: Episode, **labels: Any) -> pd.DataFrame:
    """A row for each moment of an episode: where the agent is, what it was just paid, what is left of each site."""
    steps = int(np.asarray(episode.live).sum())
    rewards = np.asarray(episode.rewards)[:steps]
    left = np.asarray(episode.remaining)[: steps + 1]
    table = {"time": np.arange(steps + 1), "cell": np.asarray(episode.cells)[: steps + 1]}
    table |= {
        "reward": np.append(0.0, rewards),
        "earned": np.append(0.0, np.cumsum(discounts(world)[:steps] * rewards)),
    }
    return pd.DataFrame(table | {f"left{i}": left[:, i] for i in range(world.n_sites)}).assign(**labels)


def path(ax: Axes, world: World, table: pd.DataFrame, title: str) -> None:
    """Draws an episode on its map."""
    cells = table["cell"].to_numpy(int)
    draw.still(world.map, trajectory=cells, sites=world.sites, rewards=world.rewards, title=title, ax=ax)


def film(world: World, table: pd.DataFrame, title: str) -> Callable[[Path], Any]:
    """What writes an episode's GIF to a path."""
    left = table[[f"left{i}" for i in range(world.n_sites)]].to_numpy()
    return lambda path: gif(
        path,
        world.map,
        table["cell"].to_numpy(int),
        sites=world.sites,
        rewards=np.asarray(world.rewards),
        remaining=left,
        returns=table["earned"].to_numpy(),
        title=title,
    )


def stays(world: World, cells: np.ndarray) -> np.ndarray:
    """How many steps in a row were spent in a site, for every time one was entered; episodes along the last axis."""
    cells = cells.reshape(-1, cells.shape[-1])
    site = np.full(world.n_states, -1)
    site[world.sites] = np.arange(world.n_sites)
    at = site[cells]
    begins = (at >= 0) & (np.insert(at[:, :-1], 0, -2, axis=1) != at)
    number = np.cumsum(begins.ravel()) - 1
    return np.bincount(number[at.ravel() >= 0])
