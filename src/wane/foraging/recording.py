"""Recordings: where an animal was and when it was rewarded, cut into steps of equal length and into visits.

`from_events` takes a table of visits with the times of arrival and departure, and a table of rewards with their times.
`wane.foraging.track.from_track` takes positions. Both return a `Recording`: the trajectory table for everything in
`wane.foraging` that takes one, the visits with their exact times, and notes on everything that was filled in.

    >>> visits = {"patch": ["oak", "elm"], "arrival": [1.0, 7.0], "departure": [5.0, 8.5]}
    >>> recording = from_events(visits, {"time": [1.3, 1.4, 2.0, 3.1, 7.2, 7.9, 8.1]}, step=1.0)
    >>> print(recording.visits[["patch", "arrival", "duration", "travel", "reward"]].to_string(index=False))
    patch  arrival  duration  travel  reward
      oak      1.0       4.0     NaN     4.0
      elm      7.0       1.5     2.0     3.0
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from wane.foraging.arguments import Above, Finite, check_arguments, old_arguments
from wane.foraging.moments import as_seconds
from wane.foraging.sources import (
    ColumnNames,
    Source,
    Where,
    as_known,
    as_numbers,
    column_names,
    counted,
    pick,
    read_table,
    require_labels,
    with_unit,
)
from wane.foraging.task import Task
from wane.foraging.visits import Patches, PatchVisits, from_stays
from wane.limits import require_memory

KEYS = ["subject", "session"]
COLUMNS: ColumnNames = dict.fromkeys([*KEYS, "amount"]) | {n: n for n in ("patch", "arrival", "departure", "time")}
"""What the columns of both tables are called, unless the caller says otherwise."""


def _old_columns(**names: str | None) -> ColumnNames:
    """The columns from arguments of wane 0.2, in which the time of a reward was called reward_time."""
    return {"time" if name == "reward_time" else name: given for name, given in names.items()}


@dataclass(frozen=True, repr=False)
class Recording:
    """What an animal did, in steps and in visits."""

    steps: pd.DataFrame
    """A trajectory table (`check_table`): episode, time, site, reward, and subject. An episode is a session."""
    visits: pd.DataFrame
    """Rows are visits: subject, session, patch, arrival, departure, duration, travel, harvests, reward, censored."""
    step: float
    """The length of a step, in the unit of the times."""
    notes: tuple[str, ...]
    """Sentences on what was filled in, moved or does not fit. Nothing else was changed."""

    def __repr__(self) -> str:
        subjects = counted(self.visits["subject"].nunique(), "subject")
        return (
            f"Recording({counted(len(self.visits), 'visit')} of {subjects}, {len(self.steps)} steps of {self.step:g}, "
            f"{counted(len(self.notes), 'note')})"
        )

    @check_arguments
    def to_visits(
        self,
        task: Task,
        *,
        patches: Patches,
        kinds: Mapping[Any, Any] | None = None,
        environments: Mapping[Any, Any] | None = None,
    ) -> PatchVisits:
        """The visits for `fit`: a harvest of the task is one step, and `patches` is as in `from_stays`.

        `kinds` maps each patch to its kind, and `environments` each session to its environment. Without them, the label
        of a patch is its kind and the label of a session is its environment, unless the task has only one. Raises
        ValueError if the task's harvest does not take one step, or if the task does not have a kind or environment.
        """
        if not np.isclose(float(task.harvest), self.step, rtol=1e-6):
            raise ValueError(
                f"a harvest of the task takes {with_unit(task.harvest, task.time_unit)} but a step takes "
                f"{with_unit(self.step, task.time_unit)}: make them equal"
            )
        table = self.visits.copy()
        for name, column, given, labels in (
            ("kind", "patch", kinds, task.kinds),
            ("environment", "session", environments, task.environments),
        ):
            table[name] = labels[0] if given is None and len(labels) == 1 else mapped_labels(table[column], given, name)
            known = table[name].isin(labels)
            if not known.all():
                label = table.loc[~known, name].iloc[0]
                raise ValueError(
                    f"{column} {table.loc[~known, column].iloc[0]!r} has the {name} {label!r}, and the task has "
                    f"{', '.join(map(repr, labels))}: say of which {name} each {column} is, {name}s={{{label!r}: …}}"
                )
        names = {name: name for name in ("patch", "session", "censored")}
        found = from_stays(table, task, patches=patches, columns=names)
        return PatchVisits(found.table, task, found.rewards, found.fresh, self.notes)


def mapped_labels(labels: pd.Series, given: Mapping[Any, Any] | None, name: str) -> pd.Series:
    """The kind or the environment of each label. Raises ValueError for a label without an entry."""
    if given is None:
        return labels
    for label in labels.unique().tolist():
        if label not in given:
            raise ValueError(
                f"{name}s has no entry for {labels.name} {label!r}, it has {', '.join(map(repr, given))}: add "
                f"{{{label!r}: …}} with a {name} of the task"
            )
    return labels.map(dict(given))


@check_arguments
def join(recordings: Sequence[Recording]) -> Recording:
    """Joins recordings into one. Raises ValueError if their steps differ, or if two hold the same session."""
    if not recordings:
        raise ValueError("the list of recordings is empty: give those that are to be joined")
    lengths = {recording.step for recording in recordings}
    if len(lengths) > 1:
        steps = ", ".join(f"{length:g}" for length in sorted(lengths))
        raise ValueError(f"the recordings have steps of different lengths, {steps}: read all of them with one step")
    sessions = pd.concat([recording.steps[["subject", "episode"]].drop_duplicates() for recording in recordings])
    twice = sessions[sessions.duplicated()]
    if len(twice):
        subject, session = twice.iloc[0]
        raise ValueError(f"two recordings hold session {session!r} of subject {subject!r}: give each its own name")
    return Recording(
        pd.concat([recording.steps for recording in recordings], ignore_index=True),
        pd.concat([recording.visits for recording in recordings], ignore_index=True),
        recordings[0].step,
        tuple(note for recording in recordings for note in recording.notes),
    )


@old_arguments("columns", _old_columns, "subject", "session", "patch", "arrival", "departure", "reward_time", "amount")
@check_arguments
def from_events(
    visits: Source,
    rewards: Source | None = None,
    *,
    step: Above,
    columns: ColumnNames | None = None,
    end: Finite | None = None,
    day_first: bool | None = None,
    separator: str = ",",
) -> Recording:
    """A recording from the times of visits and of rewards.

    - `visits`: one row for each visit, with its patch, arrival and departure. A missing departure means that the
      session ended first; `end` is when the sessions ended (by default the latest time of each session).
    - `rewards`: one row for each reward, with its time.
    - `step`: the length of the steps into which time is cut. At each step the animal is where it was in the middle of
      the step.
    - `columns`: what the columns are called in the tables, `{"arrival": "start", "subject": "bird"}`. By default they
      are patch, arrival, departure and time, there is one animal and one session, and every reward is 1. `subject` and
      `session` are columns of both tables, and `amount` is a column of the rewards.
    - `day_first`: whether the day comes first in dates such as 02/03/2026, where the dates do not tell it themselves.

    Times are numbers, dates with times, or clock times of one day; the last two are counted in seconds since the
    earliest (see `wane.foraging.moments`), and `end` with them. Raises ValueError for wrong entries; the message names
    the row and the cure.
    """
    names = column_names(columns, COLUMNS)
    keys = {name: names[name] for name in KEYS}
    table, where = read_table(visits, separator, labels=[*keys.values(), names["patch"]])
    table = pick(table, keys | {n: names[n] for n in ("patch", "arrival", "departure")}, "the table of visits")
    own = keys | {name: names[name] for name in ("time", "amount")}
    nothing = {name: [] for name in own.values() if name is not None}
    prey, where_prey = read_table(nothing if rewards is None else rewards, separator, "the rewards", keys.values())
    prey = pick(prey, own, "the table of rewards")
    for each in (table, prey):
        for name, given in keys.items():
            if given is None:
                each[name] = 1
    if table.empty:
        raise ValueError("the table of visits has no rows: give one for each visit")
    _check_labels(table, prey, where, where_prey)
    table, prey = _read_times(table, prey, where, where_prey, day_first)
    paid = as_numbers(prey["amount"], where_prey, "the amount of a reward, a finite number") if names["amount"] else 1.0
    prey = prey.assign(amount=paid)
    return _record(table, prey, float(step), None if end is None else float(end), where)


def _check_labels(table: pd.DataFrame, prey: pd.DataFrame, where: Where, where_prey: Where) -> None:
    """Raises ValueError for visits and rewards without labels, and for rewards whose labels no visit has."""
    for name in (*KEYS, "patch"):
        require_labels(table[name], where)
    for name in KEYS:
        known = table[name].unique().tolist()
        prey[name] = as_known(prey[name], known)
        cure = f"every {name} needs a visit; correct the name, or delete the row"
        require_labels(prey[name], where_prey, known, cure)


def _read_times(
    table: pd.DataFrame, prey: pd.DataFrame, where: Where, where_prey: Where, day_first: bool | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables with times as numbers. Raises ValueError for times that make no sense."""
    ended = table["departure"].notna().to_numpy()
    # Dates are counted from one moment for all columns, so they are read together.
    moments = pd.concat([table["arrival"], table["departure"][ended], prey["time"]], ignore_index=True)
    rows = [*range(len(table)), *np.flatnonzero(ended)]
    names = [f"{where(i)} ({'arrival' if n < len(table) else 'departure'})" for n, i in enumerate(rows)]
    names += [where_prey(i) for i in range(len(prey))]
    runs = _runs(table, prey, np.array(rows))
    numbers = as_seconds(moments.rename("time").infer_objects(), lambda i: names[i], day_first, runs)
    if (numbers < 0).any():
        i = int((numbers < 0).argmax())
        raise ValueError(
            f"time is {numbers[i]:g} in {names[i]}: count times from the beginning, so that none is negative"
        )
    departure = np.full(len(table), np.nan)
    departure[ended] = numbers[len(table) : len(rows)]
    table = table.assign(arrival=numbers[: len(table)], departure=departure, row=np.arange(len(table)))
    return table, prey.assign(time=numbers[len(rows) :])


def _runs(table: pd.DataFrame, prey: pd.DataFrame, rows: np.ndarray) -> list[np.ndarray]:
    """Which times follow each other in every session: arrivals and departures; the first arrival, then rewards.

    `rows` are the rows of the arrivals and departures. The numbers of the rewards come after these.
    """
    keys, runs = pd.concat([table[KEYS].iloc[rows], prey[KEYS]], ignore_index=True), []
    for own in map(np.asarray, keys.groupby(KEYS, sort=False).indices.values()):
        visits, rewards = own[own < len(rows)], own[own >= len(rows)]
        visits = visits[np.argsort(rows[visits], kind="stable")]
        runs += [visits, np.append(visits[:1], rewards)]
    return runs


def _record(table: pd.DataFrame, prey: pd.DataFrame, step: float, end: float | None, where: Where) -> Recording:
    """The recording of tables whose times are numbers."""
    parts, found, notes = [], [], []
    rewards = dict(iter(prey.groupby(KEYS, sort=False)))
    nothing = prey.iloc[:0]
    for key, group in table.groupby(KEYS, sort=False):
        group = group.sort_values("arrival", kind="stable").reset_index(drop=True)
        paid = rewards.get(key, nothing).sort_values("time")
        last = _check_visits(group, paid, end, where)
        group = group.assign(censored=group["departure"].isna(), departure=group["departure"].fillna(last))
        parts.append(_cut(group, paid, step, last, key))
        visits, note = describe_visits(group, paid, step, key)
        found.append(visits)
        notes += note
    return Recording(pd.concat(parts, ignore_index=True), pd.concat(found, ignore_index=True), step, tuple(notes))


def _check_visits(group: pd.DataFrame, paid: pd.DataFrame, end: float | None, where: Where) -> float:
    """Returns when the session ends. Raises ValueError for visits that end before they begin, or that overlap."""
    arrival, departure, row = (group[name].to_numpy() for name in ("arrival", "departure", "row"))
    for i in np.flatnonzero(departure <= arrival):
        raise ValueError(
            f"the visit in {where(int(row[i]))} departs at {departure[i]:g}, not after its arrival {arrival[i]:g}: "
            "correct the times, or delete the row"
        )
    for i in range(len(group) - 1):
        if np.isnan(departure[i]) or departure[i] > arrival[i + 1]:
            until = "has no departure" if np.isnan(departure[i]) else f"lasts until {departure[i]:g}"
            raise ValueError(
                f"the visit in {where(int(row[i]))} {until}, but that in {where(int(row[i + 1]))} begins at "
                f"{arrival[i + 1]:g}: an animal is in one patch at a time; correct the times, or name the column that "
                'tells subjects or sessions apart, columns={"subject": "…"} or columns={"session": "…"}'
            )
    latest = float(np.nanmax([*arrival, *departure, *paid["time"]]))
    if end is not None and latest > end:
        raise ValueError(
            f"something happens at {latest:g}, after the end of the session at {end:g}: give a later end, or delete "
            "the rows after it"
        )
    return latest if end is None else end


def _cut(group: pd.DataFrame, paid: pd.DataFrame, step: float, last: float, key: Any) -> pd.DataFrame:
    """The steps of one session: the patch in the middle of each step, and the sum of its rewards."""
    start = float(min(group["arrival"].iloc[0], paid["time"].min() if len(paid) else np.inf))
    count = max(int(np.ceil((last - start) / step - 1e-9)), 1)
    # A last visit that ended by itself needs a step after it, or it would look as if the session had ended it.
    count += int(not group["censored"].iloc[-1] and group["departure"].iloc[-1] >= last - step / 2)
    require_memory("the table of steps", (count, "steps"), copies=8, cure="take a longer step")
    middle = start + step * (np.arange(count) + 0.5)
    visit = np.searchsorted(group["arrival"].to_numpy(), middle, side="right") - 1
    inside = (visit >= 0) & (middle < group["departure"].to_numpy()[visit])
    site = group["patch"].astype(object).to_numpy()[visit]
    bins = np.minimum(((paid["time"].to_numpy(float) - start) / step).astype(int), count - 1)
    reward = np.bincount(bins, paid["amount"].to_numpy(float), count) if len(paid) else np.zeros(count)
    subject, session = key
    return pd.DataFrame(
        {
            "subject": subject,
            "episode": session,
            "time": start + step * np.arange(count),
            "site": pd.Series(site, dtype=object).where(inside, None),
            "reward": reward,
        }
    )


def describe_visits(group: pd.DataFrame, paid: pd.DataFrame, step: float, key: Any) -> tuple[pd.DataFrame, list[str]]:
    """The visits of one session with their durations and rewards, and notes on what does not fit.

    `key` is the subject and the session; the session is None if all sessions of a track are described together.
    """
    arrival, departure = group["arrival"].to_numpy(float), group["departure"].to_numpy(float)
    time, amount = paid["time"].to_numpy(float), paid["amount"].to_numpy(float)
    visit = np.searchsorted(arrival, time, side="right") - 1
    inside = (visit >= 0) & (time <= departure[visit])
    steps = np.round((departure - arrival) / step).astype(int)
    notes = []
    who = f"subject {key[0]!r}" + f", session {key[1]!r}" * (key[1] is not None)
    if (~inside).any():
        outside = counted(int((~inside).sum()), "reward")
        notes.append(f"{who}: {outside} came while the animal was in no patch; no visit counts them.")
    if (np.diff(time) == 0).any():
        again = counted(int((np.diff(time) == 0).sum()), "reward")
        notes.append(f"{who}: {again} came at the same time as another one; all of them count.")
    if (steps < 1).any():
        short = counted(int((steps < 1).sum()), "visit")
        notes.append(f"{who}: {short} of less than half a step; each counts as one harvest.")
    if group["censored"].any():
        unended = counted(int(group["censored"].sum()), "visit")
        notes.append(f"{who}: {unended} had not ended when the session ended (censored): nobody saw the leaving.")
    return pd.DataFrame(
        {
            "subject": key[0],
            "session": key[1],
            "patch": group["patch"].to_numpy(),
            "arrival": arrival,
            "departure": departure,
            "duration": departure - arrival,
            "travel": np.append(np.nan, arrival[1:] - departure[:-1]),
            "harvests": np.maximum(steps, 1),
            "reward": np.bincount(visit[inside], amount[inside], len(group)),
            "censored": group["censored"].to_numpy(bool),
        }
    ), notes
