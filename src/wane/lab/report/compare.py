"""Compares two runs: the settings that differ, their claims side by side, and the numbers of their tables.

Rows of two tables belong together if they agree in the key columns. These are the columns of text, and those columns
of numbers that are needed to tell the rows of a seed apart. Every other column of numbers is compared: B − A, averaged
over the rows that both have. With two or more common seeds, the difference has a 95 % interval, paired over seeds.
`differences` shows a comparison in a terminal, short enough for 80 columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Group, RenderableType
from rich.text import Text

from wane.files import find_published
from wane.lab.report.kept_runs import KeptRun
from wane.lab.report.terminal import STYLES, one_line
from wane.lab.report.words import SIGNS, count, dotted, estimate, number, setting
from wane.lab.statistics import paired_difference
from wane.lab.tables import read_table
from wane.texts import plain

NOT_THERE = "not there"
"""Stands for a setting that only the other run has."""
MOST_KEYS = 4
"""The most columns of numbers that are tried as keys."""
MOST_GROUPS = 6
"""The most groups into which the rows of a table are divided, unless all are asked for."""

MOST_LINES = 6
"""The most lines of a table that are shown, unless all are asked for."""


class Difference(NamedTuple):
    """How a column differs between two tables, in one group of their rows."""

    table: str
    column: str
    group: str
    """The values of some key columns: "agent = λ̂ = 0.5". Rows that differ in other key columns are averaged."""
    mean_a: float
    mean_b: float
    difference: float
    interval: tuple[float, float] | None
    """The 95 % interval, where both runs have two seeds in common."""
    largest: float
    """The largest difference of two rows."""


@dataclass(frozen=True)
class Comparison:
    """How two runs differ."""

    settings: dict[str, tuple[Any, Any]]
    """The settings that differ, by dotted names. NOT_THERE stands for a setting that a run lacks."""
    claims: dict[str, tuple[Any, Any]]
    """The records of every claim in A and in B, or None where a run lacks the claim."""
    differences: list[Difference]
    notes: list[str]
    """Sentences about tables, columns and rows that only one of the runs has."""


def compare(a: KeptRun, b: KeptRun, all_groups: bool = False) -> Comparison:
    """Returns how two whole runs differ. With `all_groups`, rows are grouped by all key columns."""
    notes: list[str] = []
    differences: list[Difference] = []
    tables_a, tables_b = a.record["tables"], b.record["tables"]
    for name in tables_a:
        if name in tables_b:
            one, other = (read_table(find_published(run.folder, f"{name}.parquet")) for run in (a, b))
            differences += compare_tables(name, one, other, notes, None if all_groups else MOST_GROUPS)
    for name in sorted(set(tables_a) ^ set(tables_b)):
        notes.append(f"Only {'A' if name in tables_a else 'B'} has the table {name}.")
    return Comparison(_settings(a, b), _claims(a, b), differences, notes)


def compare_tables(
    name: str, a: pd.DataFrame, b: pd.DataFrame, notes: list[str], most_groups: int | None = MOST_GROUPS
) -> list[Difference]:
    """Returns how the numbers of two tables of the same name differ. What cannot be compared is added to `notes`."""
    columns = _common_columns(name, a, b, notes)
    keys = key_columns(a[columns], b[columns])
    values = [
        column
        for column in columns
        if column not in (*keys, "seed") and all(_is_number(table[column]) for table in (a, b))
    ]
    on = [*keys, *(["seed"] if "seed" in columns else [])]
    both = a[on + values].merge(b[on + values], on=on, suffixes=(" A", " B")) if on else _side_by_side(a, b, values)
    for label, table in (("A", a), ("B", b)):
        if len(both) < len(table):
            notes.append(f"{name}: {len(table) - len(both)} of the {len(table)} rows of {label} have no partner.")
    groups = _group_columns(both, keys, most_groups)
    return [_difference(name, column, group, rows) for group, rows in _grouped(both, groups) for column in values]


def _common_columns(name: str, a: pd.DataFrame, b: pd.DataFrame, notes: list[str]) -> list[str]:
    """Returns the columns that hold numbers in both tables, or words in both. The others are added to `notes`."""
    kinds = {str(column): (_kind(a[column]), _kind(b[column])) for column in a if column in b}
    for column, (kind, other) in kinds.items():
        if kind != other or kind == "neither":
            notes.append(f"{name}: the column {column} does not hold numbers in both, or words, so it is not compared.")
    return [column for column, (kind, other) in kinds.items() if kind == other != "neither"]


def _kind(column: pd.Series) -> str:
    words = isinstance(column.dtype, pd.CategoricalDtype) or pd.api.types.is_string_dtype(column)
    return "numbers" if _is_number(column) else "words" if words else "neither"


def key_columns(*tables: pd.DataFrame) -> list[str]:
    """Returns the columns that tell the rows of one seed apart in all tables: words, and some numbers.

    Of several choices, the one whose columns have the fewest different values is taken, because settings have few and
    measurements have many. At most `MOST_KEYS` columns of numbers are tried; if they do not suffice, all are keys.
    """
    first = tables[0]
    columns = [str(column) for column in first if column != "seed"]
    words = [column for column in columns if not _is_number(first[column])]
    numbers = [column for column in columns if column not in words]
    counts = {column: int(first[column].nunique()) for column in columns}

    def cost(chosen: tuple[str, ...]) -> tuple[int, int]:
        return sum(counts[column] for column in chosen), sum(first[column].dtype.kind == "f" for column in chosen)

    choices = [chosen for size in range(MOST_KEYS + 1) for chosen in combinations(numbers, size)]
    for chosen in sorted(choices, key=cost):
        if _is_unique(tables, [*words, *chosen]):
            return [column for column in columns if column in words or column in chosen]
    return columns


def _is_unique(tables: Sequence[pd.DataFrame], keys: Sequence[str]) -> bool:
    for table in tables:
        on = [*keys, *(["seed"] if "seed" in table else [])]
        # Most choices fail within a few rows.
        if table[:200].duplicated(on).any() or table.duplicated(on).any() if on else len(table) > 1:
            return False
    return True


def _is_number(column: pd.Series) -> bool:
    return column.dtype.kind in "iufb"


def _side_by_side(a: pd.DataFrame, b: pd.DataFrame, values: Sequence[str]) -> pd.DataFrame:
    """Returns two tables of one row each as one table."""
    return pd.concat([a[list(values)].add_suffix(" A"), b[list(values)].add_suffix(" B")], axis=1)


def _group_columns(rows: pd.DataFrame, keys: Sequence[str], most: int | None) -> list[str]:
    """Returns the key columns to group by: text before numbers, few values before many, up to `most` groups."""
    if most is None:
        return list(keys)
    chosen: list[str] = []
    for column in sorted(keys, key=lambda column: (_is_number(rows[column]), rows[column].nunique())):
        if rows.groupby([*chosen, column], observed=True).ngroups <= most:
            chosen.append(column)
    return [column for column in keys if column in chosen and rows[column].nunique() > 1]


def _grouped(rows: pd.DataFrame, groups: Sequence[str]) -> list[tuple[str, pd.DataFrame]]:
    if rows.empty:
        return []
    if not groups:
        return [("", rows)]
    found = rows.groupby(list(groups), sort=False, observed=True)
    return [
        (", ".join(f"{column} = {_short(value)}" for column, value in zip(groups, values, strict=True)), part)
        for values, part in found
    ]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def _difference(table: str, column: str, group: str, rows: pd.DataFrame) -> Difference:
    a, b = (rows[f"{column} {run}"].to_numpy(float) for run in "AB")
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known], b[known]
    if not len(a):
        return Difference(table, column, group, np.nan, np.nan, np.nan, None, np.nan)
    difference, interval = float((b - a).mean()), None
    if "seed" in rows and rows["seed"][known].nunique() > 1:
        # Each seed counts once: rows of one seed are not independent.
        seeds = pd.DataFrame({"seed": rows["seed"][known], "a": a, "b": b}).groupby("seed").mean()
        found = paired_difference(seeds["b"], seeds["a"])
        difference, interval = found.value, (found.low, found.high)
    largest = float(np.abs(b - a).max())
    return Difference(table, column, group, float(a.mean()), float(b.mean()), difference, interval, largest)


def _settings(a: KeptRun, b: KeptRun) -> dict[str, tuple[Any, Any]]:
    one, other = (dotted(run.record["settings"]) for run in (a, b))
    names = dict.fromkeys([*one, *other])
    pairs = {name: (one.get(name, NOT_THERE), other.get(name, NOT_THERE)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _claims(a: KeptRun, b: KeptRun) -> dict[str, tuple[Any, Any]]:
    one, other = ({claim["name"]: claim for claim in run.claims} for run in (a, b))
    return {name: (one.get(name), other.get(name)) for name in dict.fromkeys([*one, *other])}


def differences(a: KeptRun, b: KeptRun, found: Comparison, width: int, most: int | None = MOST_LINES) -> RenderableType:
    """Returns what differs between two runs: settings, then claims side by side, then the numbers of their tables.

    Of each table the first `most` lines are shown, or all if `most` is None.
    """
    lines = [one_line(("A  ", "bold"), plain(str(a.folder))), one_line(("B  ", "bold"), plain(str(b.folder)))]
    return Group(*lines, *_settings_shown(found), *_claims_shown(found, width), *_tables_shown(found, width, most))


def _settings_shown(found: Comparison) -> Iterator[RenderableType]:
    if not found.settings:
        yield Text("\nAll settings are the same.")
        return
    yield Text(f"\n{count(len(found.settings), 'setting differs', 'settings differ')}", "bold")
    longest = max(map(len, found.settings))
    for name, (one, other) in found.settings.items():
        yield one_line(plain(f"  {name:<{longest}}  {setting(one)} → {setting(other)}"))


def _claims_shown(found: Comparison, width: int) -> Iterator[RenderableType]:
    """Yields a line for each claim. Where two intervals do not fit into a line, only the estimates are shown."""
    if not found.claims:
        return
    changed = sum(_verdict(one) != _verdict(other) for one, other in found.claims.values())
    verdicts = count(changed, "verdict differs", "verdicts differ") if changed else "all verdicts are the same"
    yield Text(f"\nClaims in A and B: {verdicts}", "bold")
    longest = max(map(len, found.claims))
    texts = [(_claim_shown(one), _claim_shown(other)) for one, other in found.claims.values()]
    if max(longest + len(one) + len(other) for one, other in texts) + 6 > width:
        texts = [(one.partition(" [")[0], other.partition(" [")[0]) for one, other in texts]
    widest = max(len(one) for one, _ in texts)
    for (name, (one, other)), (text, other_text) in zip(found.claims.items(), texts, strict=True):
        style = "" if _verdict(one) == _verdict(other) else "bold"
        yield one_line(
            (plain(f"  {name:<{longest}}  "), style),
            (f"{text:<{widest}}  ", STYLES.get(_verdict(one), "")),
            (other_text, STYLES.get(_verdict(other), "")),
        )


def _verdict(record: Any) -> str:
    return record["verdict"] if record else "not there"


def _claim_shown(record: Any) -> str:
    """Returns a sign for the verdict, and the estimate."""
    return f"{SIGNS[record['verdict']]} {estimate(record)}".strip() if record else "not there"


def _tables_shown(found: Comparison, width: int, most: int | None) -> Iterator[RenderableType]:
    yield Text("\nTables: B − A, with 95 % intervals over common seeds", "bold")
    by_table: dict[str, list[Difference]] = {}
    for each in found.differences:
        by_table.setdefault(each.table, []).append(each)
    same = [name for name, each in by_table.items() if all(one.largest == 0 for one in each)]
    for name, each in by_table.items():
        if name not in same:
            yield Text(plain(f"  {name}"))
            yield from _rows(each, width, most)
    if same:
        yield Text(plain(f"  The same in both: {', '.join(same)}."))
    for note in found.notes:
        yield Text(plain(f"  {note}"), "dim")


def _rows(each: Sequence[Difference], width: int, most: int | None) -> Iterator[RenderableType]:
    """Yields the first `most` lines, one for each column and group, with the numbers at the right margin."""
    by_column = sorted(each, key=lambda one: [other.column for other in each].index(one.column))[:most]
    lines = [(plain(f"    {one.column}" + (f", {one.group}" if one.group else "")), _change(one)) for one in by_column]
    widest = min(width, max(len(name) + len(numbers) + 2 for name, numbers in lines))
    for name, numbers in lines:
        space = max(widest - len(numbers) - 2, 12)
        cut = name if len(name) <= space else f"{name[: space - 1]}…"
        yield one_line(f"{cut:<{space}}  {numbers}")
    if most is not None and len(each) > most:
        yield Text(f"    … and {len(each) - most} more lines, which --verbose shows", "dim")


def _change(one: Difference) -> str:
    if one.largest == 0:
        return "the same"
    if one.interval is None:
        return f"{_signed(one.difference)} ({number(one.mean_a)} → {number(one.mean_b)})"
    return f"{_signed(one.difference)} [{number(one.interval[0])}, {number(one.interval[1])}]"


def _signed(value: float) -> str:
    return f"+{number(value)}" if value > 0 else number(value)
