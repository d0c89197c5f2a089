"""Trajectory tables: where an agent or an animal was at every step, and what it received there.

One row is one step. A table needs four columns, and all others are kept as they are:

| column | what it holds |
| --- | --- |
| episode | a label: episode, trial, session |
| time | a number that grows by the same step from row to row |
| site | the patch where it is, a label or a whole number; empty, NaN or −1 while it is in none |
| reward | what it received at this step, 0 if nothing |

Steps between patches are rows too: the marginal value theorem is about the rate of reward over all of the time. Where
several animals or seeds share episode numbers, `by` names the columns that tell them apart.

    >>> table = pd.DataFrame({"episode": 0, "time": [1, 2, 3], "site": ["oak", "oak", None], "reward": [4, 2, 0]})
    >>> check_table(table)["site"].isna().tolist()
    [False, False, True]
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from wane.foraging.sources import Where, column_names, read_file, whole_number
from wane.types import AnyArray, Scalar
from wane.worlds.world import World

COLUMNS = ("episode", "time", "site", "reward")
"""The columns that every trajectory table has."""
NOWHERE = -1
"""The site of a step that is at no site."""
JITTER = 0.1
"""How much a time step may differ from the usual one, as a fraction of it. Times with few digits need this."""

Columns = str | Sequence[str]
"""The name of a column, or several."""
Values = AnyArray | Scalar | str | Sequence
"""Anything that NumPy can turn into an array: an array, one value, a list, a list of lists."""


def read_csv(
    path: str | Path, columns: Mapping[str, str] | None = None, *, by: Columns = (), separator: str = ","
) -> pd.DataFrame:
    """Reads a trajectory table from a CSV file, and checks it.

    `columns` maps a needed column to its name in the file if the two differ:
    `columns={"site": "patch_id", "episode": "trial"}`. The file is read as text and numbers only; nothing in it can be
    executed. Raises ValueError if the file is not such a table.
    """
    path, renamed = Path(path), dict(columns or {})
    column_names(renamed, dict.fromkeys(COLUMNS))
    # The needed columns stay as they are written until `_checked` reads them: a patch may be called NA, and numbers
    # must be exact.
    table = read_file(path, separator, dtype=str, keep_default_na=False, skip_blank_lines=True)
    for name, given in renamed.items():
        if given not in table:
            raise ValueError(f"{path} has no column {given!r} for {name}: there are {', '.join(table.columns)}")
    needed = [renamed.get(name, name) for name in COLUMNS]
    table = table.assign(**{name: table[name].str.strip() for name in needed if name in table})
    others = [name for name in table.columns.tolist() if name not in needed]
    if others:
        table[others] = read_file(path, separator, skip_blank_lines=True)[others]
    table = table.rename(columns={given: name for name, given in renamed.items()})
    return _checked(table, group_columns(by), lambda i: f"line {i + 2} of {path}")


def check_table(table: pd.DataFrame, *, by: Columns = ()) -> pd.DataFrame:
    """A tidy copy of a table: labels are whole numbers or text, and the rows of each episode follow each other.

    `site` is missing where the step is in no patch. Every function of `wane.foraging` that takes a table calls this, so
    there is no need to call it first. Raises ValueError for wrong entries (the message names the row and the cure), and
    TypeError if the table is not a DataFrame.
    """
    if not isinstance(table, pd.DataFrame):
        raise TypeError(
            f"a {type(table).__name__} is not a trajectory table: give a pandas DataFrame with a row for each step, "
            "recording.steps of a recording, or what read_csv returns"
        )
    return _checked(table, group_columns(by), lambda i: f"row {table.index[i]}")


def table_from_rollout(
    world: World, cells: Values, rewards: Values, *, lengths: Values | None = None, **columns: Values
) -> pd.DataFrame:
    """A trajectory table from episodes in a world: `cells` (episodes, steps + 1) and `rewards` (episodes, steps).

    The site of a row is its index in `world.sites`. Time counts as in the world's returns: a reward that is paid on
    arrival comes at 1, 2, … with the cell that the agent enters; a reward that is paid on departure comes at 0, 1, …
    with the cell that the agent leaves. `lengths` are the steps after which each episode ended, if some ended early.
    Further `columns` hold one value for all episodes, or one for each:
    `table_from_rollout(world, cells, rewards, distance=4, seed=seeds)`.
    """
    places, paid = np.atleast_2d(np.asarray(cells)), np.atleast_2d(np.asarray(rewards, float))
    n, steps = paid.shape
    if places.shape != (n, steps + 1):
        raise ValueError(
            f"cells has shape {places.shape} and rewards {paid.shape}: give cells (episodes, steps + 1), the start "
            "included, and rewards (episodes, steps)"
        )
    if places.dtype.kind not in "iu" or np.any((places < 0) | (places >= world.n_states)):
        raise ValueError(
            f"cells holds {places.min()} to {places.max()} of type {places.dtype}: give whole numbers from 0 to "
            f"{world.n_states - 1}, the state of the agent at each step"
        )
    on_arrival = world.timing == "arrival"
    table = pd.DataFrame(
        {
            "episode": np.repeat(np.arange(n), steps),
            "time": np.tile(np.arange(steps) + on_arrival, n),
            "site": site_numbers(world, places[:, 1:] if on_arrival else places[:, :-1]).ravel(),
            "reward": paid.ravel(),
        }
    )
    for name, value in columns.items():
        if name in COLUMNS or np.shape(value) not in ((), (n,)):
            raise ValueError(f"column {name!r}: give one value, or one for each of the {n} episodes, under a new name")
        table[name] = np.repeat(np.broadcast_to(np.asarray(value), (n,)), steps)
    if lengths is not None:
        if np.shape(lengths) not in ((), (n,)):
            raise ValueError(
                f"lengths has the shape {np.shape(lengths)}: give one, or one for each of the {n} episodes"
            )
        table = table[(np.arange(steps) < np.broadcast_to(np.asarray(lengths), (n,))[:, None]).ravel()]
    return check_table(table)


def site_numbers(world: World, cells: Int[np.ndarray, "*steps"]) -> Int[np.ndarray, "*steps"]:
    """The index in `world.sites` of each state number, −1 where the state is not a site."""
    return np.where(world.site_of < 0, NOWHERE, world.site_of)[cells]


def group_columns(by: Columns) -> list[str]:
    """`by` as a list of names."""
    return [by] if isinstance(by, str) else list(by)


def episode_numbers(table: pd.DataFrame, by: Columns) -> Int[np.ndarray, " rows"]:
    """The number 0, 1, … of the episode of each row of a checked table."""
    return table.groupby([*group_columns(by), "episode"], sort=False).ngroup().to_numpy()


def time_step(table: pd.DataFrame, by: Columns) -> float:
    """The time from one row of an episode to the next, in a checked table."""
    number = episode_numbers(table, by)
    return _usual(np.diff(table["time"].to_numpy())[number[1:] == number[:-1]])


def _usual(time_steps: Float[np.ndarray, " steps"]) -> float:
    """The median of the time steps, which few bad rows cannot change; 1 if there are none."""
    return float(np.median(time_steps)) if len(time_steps) else 1.0


def _checked(table: pd.DataFrame, by: list[str], where: Where) -> pd.DataFrame:
    """`check_table`, with `where` to name the row of an error."""
    for name in [*COLUMNS, *by]:
        if name not in table:
            cure = f'rename one, table.rename(columns={{"…": "{name}"}}), or read_csv(…, columns={{"{name}": "…"}})'
            raise ValueError(f"no column {name!r}, there are {', '.join(map(str, table.columns))}: {cure}")
    if table.columns.has_duplicates:
        raise ValueError(f"two columns are called {table.columns[table.columns.duplicated()][0]!r}: rename one")
    if table.empty:
        raise ValueError("the table has no rows: give one for each step")
    table = table.assign(
        episode=_labels(table["episode"], where),
        time=_numbers(table["time"], where, "of steps, or seconds"),
        site=_labels(table["site"], where, nowhere=True),
        reward=_numbers(table["reward"], where, "0 where nothing was received"),
    )
    for name in ["episode", *by]:
        missing = table[name].isna().to_numpy()
        if missing.any():
            raise ValueError(f"{name} is missing in {where(int(missing.argmax()))}: every row needs one")
    number = episode_numbers(table, by)
    order = np.argsort(number, kind="stable")
    table = table.iloc[order].reset_index(drop=True)
    _check_times(table, number[order], by, lambda i: where(int(order[i])))
    return table


def _check_times(table: pd.DataFrame, number: Int[np.ndarray, " rows"], by: list[str], where: Where) -> None:
    """Raises ValueError unless times grow by the same step in every episode."""
    time = table["time"].to_numpy()
    inside = np.flatnonzero(number[1:] == number[:-1])
    time_steps = time[inside + 1] - time[inside]
    usual = _usual(time_steps)
    shared = f"where several animals or seeds share episode numbers, name their columns, by=[…] (now {by})"
    for bad, cure in (
        (time_steps == 0, f"the same: give one row a step; {shared}"),
        (time_steps < 0, f"an earlier one: sort the table, table.sort_values({[*by, 'episode', 'time']}); {shared}"),
        (
            np.abs(time_steps - usual) > JITTER * usual,
            f"not one step of {usual:g} later: give a row for every step, also for those between patches (site empty, "
            "reward 0), or let from_track or from_events read times that jitter or have gaps on a regular clock",
        ),
    ):
        if np.any(bad):
            i = int(inside[np.argmax(bad)])
            raise ValueError(
                f"in episode {table['episode'].iloc[i]} time {time[i]:g} ({where(i)}) is followed by {time[i + 1]:g} "
                f"({where(i + 1)}), {cure}"
            )


def _numbers(values: pd.Series, where: Where, what: str) -> pd.Series:
    """The values as finite floats. Raises ValueError for any other value; `what` says which number to give instead."""
    numbers = np.array([_float(value) for value in values] if values.dtype.kind not in "biuf" else values, float)
    bad = ~np.isfinite(numbers)
    if bad.any():
        i = int(bad.argmax())
        raise ValueError(f"{values.name} is {values.astype(object).iloc[i]!r} in {where(i)}: give a number, {what}")
    return pd.Series(numbers, values.index)


def _float(value: Any) -> float:
    """The value as a float, NaN if it is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def _labels(values: pd.Series, where: Where, nowhere: bool = False) -> pd.Series:
    """The labels as whole numbers if all of them are whole numbers, else as text.

    Empty labels become missing, and with `nowhere` so does −1. Raises ValueError for a label that is neither text nor a
    whole number; the message names its row.
    """
    codes, found = pd.factorize(values if values.dtype.kind in "iu" else values.astype(object))
    blank = {"", NOWHERE, str(NOWHERE)} if nowhere else {""}
    known = [label for label in found if label not in blank]
    whole = [whole_number(label) for label in known]
    numbers = all(number is not None for number in whole)
    for label, number in zip(known, whole, strict=True):
        if number is None and not isinstance(label, str):
            i = int(np.argmax(codes == list(found).index(label)))
            raise ValueError(f"{values.name} is {label!r} in {where(i)}: give a label or a whole number")
    kept = dict(zip(known, whole if numbers else map(str, known), strict=True))
    # Each label is converted once and then repeated, which is much faster than converting all rows.
    labels = pd.array([*(kept.get(label) for label in found), None], dtype=cast(Any, "Int64" if numbers else "string"))
    return pd.Series(labels.take(np.where(codes < 0, len(found), codes)), values.index)
