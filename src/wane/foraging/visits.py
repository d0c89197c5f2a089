"""Visits to patches, to which the models of an animal are fitted.

`from_stays` makes them from a table with one row for each visit. Whether a patch is fresh at every visit is a property
of the task that no table shows, so it must be given:

    patches="fresh"          every visit finds a full patch, as in most laboratory tasks
    patches="session"        a patch that is visited again goes on where it stopped, until the session ends
    patches=a `Depletion`    a patch wears off and grows back; the curve gives fractions of the kind's first reward

    >>> task = Task.linear({"low": 60, "high": 120}, 8, {"rich": 10}, harvest=10)
    >>> table = pd.DataFrame({"rat": "A", "box": ["low", "high"], "env": "rich", "n": [3, 7]})
    >>> columns = {"subject": "rat", "kind": "box", "environment": "env", "harvests": "n"}
    >>> from_stays(table, task, patches="fresh", columns=columns)
    PatchVisits(2 visits of 1 subject, 10 decisions, patches fresh)
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from scipy import stats

from wane.depletion import Depletion
from wane.foraging.arguments import check_arguments, old_arguments
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
    shown,
)
from wane.foraging.task import Task

Patches = Literal["fresh", "session"] | Depletion
"""What a patch is like when it is visited again."""
COLUMNS: ColumnNames = {name: name for name in ("subject", "kind", "environment", "harvests")} | dict.fromkeys(
    ("patch", "session", "censored", "limit")
)
"""What the columns of a table of visits are called, unless the caller says otherwise."""
RARE = 1e-4
"""Shares of kinds that are rarer than this by chance are not those of the task."""
RewardTable = Float[np.ndarray, "visits harvests"]


@dataclass(frozen=True, repr=False)
class PatchVisits:
    """Visits to patches in the order in which they were made, and what every harvest of them pays."""

    table: pd.DataFrame
    """One row for each visit: subject, session, environment, kind, harvests, censored; further columns are kept."""
    task: Task
    rewards: RewardTable
    """What the first, second, … harvest of each visit pays, including harvests that were not made."""
    fresh: bool
    """Whether every visit finds a fresh patch, so that the task can be solved."""
    notes: tuple[str, ...] = ()
    """Sentences on what was changed or left out when the data were read."""

    def __repr__(self) -> str:
        who = f"{counted(len(self.table), 'visit')} of {counted(len(self.subjects), 'subject')}"
        return f"PatchVisits({who}, {self.decisions} decisions, patches {'fresh' if self.fresh else 'not fresh'})"

    @property
    def subjects(self) -> list[Any]:
        """The animals, in the order of the table."""
        return self.table["subject"].drop_duplicates().tolist()

    @property
    def decisions(self) -> int:
        """How many decisions to stay or to leave were observed."""
        return int((self.table["harvests"] - self.table["censored"]).sum())

    def where(self, rows: Bool[np.ndarray, " visits"] | pd.Series) -> "PatchVisits":
        """Returns some of the visits: `data.where(data.table["subject"] == 3)`."""
        chosen = np.asarray(rows, bool)
        if chosen.shape != (len(self.table),):
            raise ValueError(
                f"rows has the shape {chosen.shape}: give True or False for each of the {len(self.table)} visits, "
                'data.table["subject"] == …'
            )
        return replace(self, table=self.table[chosen].reset_index(drop=True), rewards=self.rewards[chosen])

    def by_subject(self) -> Iterator[tuple[Any, "PatchVisits"]]:
        """Every subject with its visits."""
        for subject in self.subjects:
            yield subject, self.where(self.table["subject"] == subject)


@old_arguments("columns", dict, *COLUMNS)
@check_arguments
def from_stays(
    source: Source,
    task: Task,
    *,
    patches: Patches,
    columns: ColumnNames | None = None,
    subjects: Sequence[Any] | None = None,
    separator: str = ",",
) -> PatchVisits:
    """Reads visits from a table with one row for each visit, in the order in which they were made.

    - `source`: a pandas or polars DataFrame, a pynapple `IntervalSet` with metadata, or the path of a CSV file.
    - `patches`: "fresh", "session" or a `Depletion`, see `wane.foraging.visits`.
    - `columns`: what the columns are called in the table, `{"subject": "rat", "harvests": "presses"}`:

        subject, kind, environment    called so by default; None if there is one animal, or if the task has only one
        harvests                      called so by default; the number of harvests before leaving, 1 or more
        patch, session                which patch and which session; patches that are not fresh need `patch`. All
                                      patches are fresh when a session begins; by default there is one session
        censored                      true if the experiment ended the visit; its last decision is then not used
        limit                         the harvests at which the experiment ends a visit; such visits are censored
    - `subjects`: the animals that the table must have, and no others.

    Raises ValueError for wrong entries; the message names the line of the file, or the row, and the cure.
    """
    names = column_names(columns, COLUMNS)
    labels = {name: names[name] for name in ("subject", "session", "environment", "kind", "patch")}
    table, where = read_table(source, separator, labels=labels.values())
    table = pick(table, names, "the table of visits")
    if table.empty:
        raise ValueError("the table of visits has no rows: give one for each visit")
    table = _fill_columns(table, task, labels)
    for name in ("subject", "session", *["patch"] * (names["patch"] is not None)):
        require_labels(table[name], where)
    for name, labels, part in (("kind", task.kinds, "rewards"), ("environment", task.environments, "travel")):
        table[name] = as_known(table[name], labels)
        require_labels(table[name], where, labels, f"name it in the task's {part}, or correct the table")
    table["harvests"] = _counts(table["harvests"], where)
    table["censored"] = _truths(table["censored"], where)
    if names["limit"] is not None:
        table["limit"] = _limits(table, where)
        table["censored"] |= table["harvests"] == table["limit"]
    _check_subjects(table["subject"], subjects)
    leading = ["subject", "session", "environment", "kind", "harvests", "censored"]
    table = table[[*leading, *(name for name in table.columns if name not in leading)]]
    fresh = isinstance(patches, str) and patches == "fresh"
    if fresh:
        _warn_of_shares(table, task)
    return PatchVisits(table, task, _rewards(table, task, patches), fresh)


def _fill_columns(table: pd.DataFrame, task: Task, names: ColumnNames) -> pd.DataFrame:
    """The table with the columns that the caller left out. Raises ValueError where they cannot be guessed."""
    table = table.copy()
    for name, labels in (("kind", task.kinds), ("environment", task.environments)):
        if names[name] is None:
            if len(labels) > 1:
                raise ValueError(
                    f"the task has more than one {name}, {', '.join(map(repr, labels))}, and {name}=None does not tell "
                    f'which of them a visit belongs to: name the column that tells it, columns={{"{name}": "…"}}'
                )
            table[name] = labels[0]
    for name in ("subject", "session"):
        if names[name] is None:
            table[name] = 1
    return table if "censored" in table else table.assign(censored=False)


def _counts(values: pd.Series, where: Where) -> pd.Series:
    """Numbers of harvests as whole numbers. Raises ValueError for any below 1."""
    numbers = as_numbers(values, where, "a number of harvests, 1 or more")
    bad = (numbers < 1) | (numbers != np.floor(numbers)) | (numbers > 1e6)
    if bad.any():
        i = int(bad.argmax())
        raise ValueError(
            f"{values.name} is {shown(values, i)} in {where(i)}: give a whole number of harvests, 1 or more"
        )
    return pd.Series(numbers.astype(int), values.index)


def _truths(values: pd.Series, where: Where) -> pd.Series:
    """The values as true or false. Raises ValueError for anything that is neither."""
    known = {True: True, False: False, "true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
    found = [known.get(value.strip().lower() if isinstance(value, str) else value) for value in values]
    for i, value in enumerate(found):
        if value is None:
            raise ValueError(f"censored is {shown(values, i)} in {where(i)}: give true or false")
    return pd.Series(found, values.index, dtype=bool)


def _limits(table: pd.DataFrame, where: Where) -> pd.Series:
    """The most harvests that the experiment allowed. Raises ValueError if a visit has more."""
    most = _counts(table["limit"], where)
    beyond = (table["harvests"] > most).to_numpy()
    if beyond.any():
        i = int(beyond.argmax())
        raise ValueError(
            f"{where(i)} has {table['harvests'].iloc[i]} harvests, but its limit is {most.iloc[i]}: correct one of them"
        )
    return most


def _check_subjects(given: pd.Series, wanted: Sequence[Any] | None) -> None:
    """Raises ValueError if an animal that was asked for has no visits, or if another one is in the table."""
    if wanted is None:
        return
    wanted = [wanted] if isinstance(wanted, str) else wanted
    found = given.unique().tolist()
    for name in wanted:
        if name not in found:
            raise ValueError(
                f"subject {name!r} has no visits, there are {', '.join(map(repr, found))}: add its rows to the table, "
                "or leave it out of subjects"
            )
    for name in found:
        if name not in wanted:
            raise ValueError(
                f"subject {name!r} is in the table but not in subjects: name it, or drop its rows yourself"
            )


def _warn_of_shares(table: pd.DataFrame, task: Task) -> None:
    """Warns if the kinds of patches are not met as often as the task says, which changes the rate of reward."""
    for environment, weights in zip(task.environments, task.weights, strict=True):
        kinds = table.loc[table["environment"] == environment, "kind"]
        visits = kinds.value_counts().reindex(task.kinds, fill_value=0).to_numpy()
        if not visits.any():
            continue
        possible = weights > 0
        if visits[~possible].any() or stats.chisquare(visits[possible], weights[possible] * visits.sum()).pvalue < RARE:
            seen, said = (", ".join(f"{100 * x:.0f}" for x in each) for each in (visits / visits.sum(), weights))
            warnings.warn(
                f"in environment {environment!r} {seen} % of the visits are to patches of the kinds "
                f"{', '.join(map(str, task.kinds))}, but the task says {said} %: give it their chances, "
                f"chances={{{environment!r}: {{{task.kinds[0]!r}: …}}}}, or the best rate is wrong",
                stacklevel=5,
            )


def _rewards(table: pd.DataFrame, task: Task, patches: Patches) -> RewardTable:
    """What every harvest of every visit pays, by the state in which the visit finds its patch."""
    kind = pd.Categorical(table["kind"], categories=task.kinds).codes
    length = max(task.longest, int(table["harvests"].max())) + 1
    curve = np.pad(task.curve, ((0, 0), (0, length - task.longest)))
    if not isinstance(patches, Depletion) and patches not in ("fresh", "session"):
        raise ValueError(
            f'patches is {patches!r}: give "fresh" if every visit finds a full patch, "session" if patches stay as '
            "they were left, or a Depletion such as wane.EligibilityTrace if they grow back"
        )
    if isinstance(patches, str) and patches == "fresh":
        return curve[kind]
    if "patch" not in table:
        raise ValueError('patches that are not fresh must have names: give their column, columns={"patch": "…"}')
    owner = table.groupby(["subject", "session", "patch"], sort=False)
    if isinstance(patches, str):
        before = (owner["harvests"].cumsum() - table["harvests"]).to_numpy()
        index = before[:, None] + np.arange(length)
        return np.where(index < length, curve[kind[:, None], np.minimum(index, length - 1)], 0.0)
    return _regrown(table, task, patches, kind, length)


def _regrown(table: pd.DataFrame, task: Task, depletion: Depletion, kind: Any, length: int) -> RewardTable:
    """The rewards of patches that wear off and grow back.

    One step of the depletion is one harvest. While the animal travels or is elsewhere, the patch waits for as many
    steps as harvests would have fitted into that time, rounded.
    """
    first, waits = task.curve[:, 0], np.round(task.away / float(task.harvest)).astype(int)
    away = waits[pd.Categorical(table["environment"], categories=task.environments).codes]
    rewards = np.zeros((len(table), length))
    # Every session of an animal has its own clock and its own patches, also where rows of several animals alternate.
    clocks: dict[Any, int] = {}
    memories: dict[Any, tuple[Any, int]] = {}
    rows = zip(table["subject"], table["session"], table["patch"], table["harvests"], strict=True)
    for i, (subject, session, patch, harvests) in enumerate(rows):
        clock, key = clocks.get((subject, session), 0), (subject, session, patch)
        memory, since = memories.get(key, (depletion.initial(), clock))
        for _ in range(clock - since):
            memory = depletion.wait(memory)
        for n in range(length):
            rewards[i, n] = first[kind[i]] * float(depletion.worth(memory))
            memory = depletion.visit(memory)
            if n + 1 == harvests:
                memories[key] = memory, clock + int(harvests)
        clocks[subject, session] = clock + int(harvests) + int(away[i])
    return rewards
