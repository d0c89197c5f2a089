"""A comparison of two runs for the terminal, short enough for 80 columns."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from wane.lab.report.collect import Run
from wane.lab.report.compare import Comparison, Difference
from wane.lab.report.terminal import STYLES, one_line
from wane.lab.report.words import SIGNS, count, estimate, number, setting
from wane.texts import plain

MOST_LINES = 6
"""The most lines of a table, unless all are asked for."""


def differences(a: Run, b: Run, found: Comparison, width: int, most: int | None = MOST_LINES) -> RenderableType:
    """Returns what differs between two runs: settings, then claims side by side, then the numbers of their tables.

    Of each table the first `most` lines are shown, or all if `most` is None.
    """
    lines = [one_line(("A  ", "bold"), plain(str(a.folder))), one_line(("B  ", "bold"), plain(str(b.folder)))]
    return Group(*lines, *_settings(found), *_claims(found, width), *_tables(found, width, most))


def _settings(found: Comparison) -> Iterator[RenderableType]:
    if not found.settings:
        yield Text("\nAll settings are the same.")
        return
    yield Text(f"\n{count(len(found.settings), 'setting differs', 'settings differ')}", "bold")
    longest = max(map(len, found.settings))
    for name, (one, other) in found.settings.items():
        yield one_line(plain(f"  {name:<{longest}}  {setting(one)} → {setting(other)}"))


def _claims(found: Comparison, width: int) -> Iterator[RenderableType]:
    """Yields a line for each claim. Where two intervals do not fit into a line, only the estimates are shown."""
    if not found.claims:
        return
    changed = sum(_verdict(one) != _verdict(other) for one, other in found.claims.values())
    verdicts = count(changed, "verdict differs", "verdicts differ") if changed else "all verdicts are the same"
    yield Text(f"\nClaims in A and B: {verdicts}", "bold")
    longest = max(map(len, found.claims))
    texts = [(_claim(one), _claim(other)) for one, other in found.claims.values()]
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


def _claim(record: Any) -> str:
    """Returns a sign for the verdict, and the estimate."""
    return f"{SIGNS[record['verdict']]} {estimate(record)}".strip() if record else "not there"


def _tables(found: Comparison, width: int, most: int | None) -> Iterator[RenderableType]:
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
