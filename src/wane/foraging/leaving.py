"""Stays at sites, and when they end.

A bout is a run of steps at one site. It ends with a leaving if the next step is elsewhere. If the episode ends first,
nobody knows how long the bout would have gone on: it is `censored`.

The time of leaving is the last time at the site. That is the step t at which the agent chooses to go, and to which the
rule of the marginal value theorem applies (`wane.foraging.rule`).

    >>> table = pd.DataFrame({"episode": 0, "time": [1, 2, 3, 4], "site": [7, 7, -1, 7], "reward": [4, 2, 0, 1]})
    >>> print(bouts(table).to_string(index=False))
     episode  bout  site  arrival  leaving  steps  first_reward  last_reward  reward  censored
           0     0     7      1.0      2.0      2           4.0          2.0     6.0     False
           0     1     7      4.0      4.0      1           1.0          1.0     1.0      True
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from wane.foraging.trajectory import Columns, check_table, episode_numbers, group_columns


class Stays(NamedTuple):
    """Bouts, by the rows at which they begin and end."""

    arrival: Int[np.ndarray, " bouts"]
    """The row of the first step at the site."""
    departure: Int[np.ndarray, " bouts"]
    """The row of the last step at the site."""
    censored: Bool[np.ndarray, " bouts"]
    """Whether the episode ends with that row."""

    @property
    def steps(self) -> Int[np.ndarray, " bouts"]:
        """How many steps each bout has."""
        return self.departure - self.arrival + 1


def find_stays(episode: Int[np.ndarray, " rows"], site: Int[np.ndarray, " rows"]) -> Stays:
    """Where the bouts begin and end in a sequence of steps.

    Each step has the number of its episode and the number of its site, which is negative where the step is at no site.
    The steps of an episode follow each other.

        >>> find_stays(np.array([0, 0, 0, 1]), np.array([2, 2, -1, 2])).steps.tolist()
        [2, 1]
    """
    new_episode = np.diff(episode) != 0
    changes = new_episode | (np.diff(site) != 0)
    begins, ends = np.append(True, changes), np.append(changes, True)
    arrival, departure = np.flatnonzero(begins & (site >= 0)), np.flatnonzero(ends & (site >= 0))
    return Stays(arrival, departure, np.append(new_episode, True)[departure])


def table_stays(table: pd.DataFrame, by: Columns) -> Stays:
    """Where the bouts of a checked table begin and end."""
    return find_stays(episode_numbers(table, by), pd.factorize(table["site"])[0])


def bouts(table: pd.DataFrame, *, by: Columns = ()) -> pd.DataFrame:
    """One row for each stay at a site, in order.

    The columns are arrival and leaving (the first and the last time there), the steps spent, the rewards at the first
    step, at the last step and in all, and whether the episode ended the stay (`censored`).
    """
    return describe(check_table(table, by=by), by)


def describe(table: pd.DataFrame, by: Columns) -> pd.DataFrame:
    """`bouts` of a checked table."""
    stays = table_stays(table, by)
    episode = episode_numbers(table, by)[stays.arrival]
    keys = table[[*group_columns(by), "episode"]].iloc[stays.arrival].reset_index(drop=True)
    time, reward = table["time"].to_numpy(), table["reward"].to_numpy()
    # Sums from each arrival to its departure, and between these; the appended 0 lets the last bout end with the table.
    sums = np.add.reduceat(np.append(reward, 0.0), np.column_stack([stays.arrival, stays.departure + 1]).ravel())
    return keys.assign(
        bout=pd.Series(episode).groupby(episode).cumcount().to_numpy(),
        site=table["site"].iloc[stays.arrival].array,
        arrival=time[stays.arrival],
        leaving=time[stays.departure],
        steps=stays.steps,
        first_reward=reward[stays.arrival],
        last_reward=reward[stays.departure],
        reward=sums[::2],
        censored=stays.censored,
    )


def leaving_times(table: pd.DataFrame, *, by: Columns = ()) -> pd.DataFrame:
    """When each site was left: one row for each bout that ended with a leaving."""
    found = bouts(table, by=by)
    return found[~found["censored"]].drop(columns="censored").reset_index(drop=True)
