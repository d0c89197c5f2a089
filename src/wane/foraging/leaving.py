"""Stays at sites, and when they end.

A bout is a run of steps at one site. It ends with a leaving when the next step is elsewhere; when the episode ends
first, nobody knows how long it would have gone on, and the bout is `censored`.

The time of leaving is the last time at the site: the step t at which the agent acts to go, the one that the marginal
value theorem's rule is about (`wane.foraging.mvt`).

    >>> table = pd.DataFrame({"episode": 0, "time": [1, 2, 3, 4], "site": [7, 7, -1, 7], "reward": [4, 2, 0, 1]})
    >>> print(bouts(table).to_string(index=False))
     episode  bout  site  arrival  leaving  steps  first_reward  last_reward  reward  censored
           0     0     7      1.0      2.0      2           4.0          2.0     6.0     False
           0     1     7      4.0      4.0      1           1.0          1.0     1.0      True
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from wane.foraging.trajectory import Columns, check_table, episode_numbers, group_columns


class Stays(NamedTuple):
    """Bouts as rows of a checked table."""

    first: np.ndarray
    """row of arrival"""
    last: np.ndarray
    """row of leaving"""
    number: np.ndarray
    """of the bout in its episode"""
    censored: np.ndarray


def stays(table: pd.DataFrame, by: Columns) -> Stays:
    """Where the bouts of a checked table begin and end."""
    episode = episode_numbers(table, by)
    site = pd.factorize(table["site"])[0]
    new = (np.diff(episode) != 0) | (np.diff(site) != 0)
    begins, ends = np.append(True, new), np.append(new, True)
    first, last = np.flatnonzero(begins & (site >= 0)), np.flatnonzero(ends & (site >= 0))
    number = pd.Series(episode[first]).groupby(episode[first]).cumcount().to_numpy()
    return Stays(first, last, number, np.append(np.diff(episode) != 0, True)[last])


def bouts(table: pd.DataFrame, *, by: Columns = ()) -> pd.DataFrame:
    """One row for each stay at a site, in order: arrival and leaving (the first and the last time there), the steps
    spent, the rewards at the first and at the last step and in all, and whether the episode ended it (`censored`).
    """
    return describe(check_table(table, by=by), by)


def describe(table: pd.DataFrame, by: Columns) -> pd.DataFrame:
    """`bouts` of a checked table."""
    first, last, number, censored = stays(table, by)
    keys = table[[*group_columns(by), "episode"]].iloc[first].reset_index(drop=True)
    time, reward = table["time"].to_numpy(), table["reward"].to_numpy()
    spans = np.add.reduceat(np.append(reward, 0.0), np.column_stack([first, last + 1]).ravel())
    return keys.assign(
        bout=number,
        site=table["site"].iloc[first].array,
        arrival=time[first],
        leaving=time[last],
        steps=last - first + 1,
        first_reward=reward[first],
        last_reward=reward[last],
        reward=spans[::2],
        censored=censored,
    )


def leaving_times(table: pd.DataFrame, *, by: Columns = ()) -> pd.DataFrame:
    """When each site was left: one row for each bout that ended with a leaving."""
    found = bouts(table, by=by)
    return found[~found["censored"]].drop(columns="censored").reset_index(drop=True)
