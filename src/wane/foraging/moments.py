"""Times as laboratories write them: numbers, dates with times, or the clock alone, all read into seconds.

A column of dates is read in one way. Whether 12/02/2026 is in February or in December is decided by all dates that are
read together: a 13 in one of the two places tells it for all. Where nothing tells it, and it matters, the column is
refused. So are times with a zone beside times without one, and clock times that go back, because nobody can tell
whether midnight has passed or the rows are out of order.

    >>> as_seconds(pd.Series(["12/02/2026 10:00", "13/02/2026 9:59:59.5"]), lambda i: f"row {i}").tolist()
    [0.0, 86399.5]
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from wane.foraging.sources import Where, as_numbers, is_blank, shown, to_floats

Seconds = Float[np.ndarray, " rows"]
Rows = Sequence[np.ndarray]
"""Several lists of rows."""

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
"""The first letters of the months' English names."""
ENTRY = (
    r"(?a)^(?:(?P<first>\d{1,4})(?P<mark>[-/. ])(?P<second>\d{1,2}|[A-Za-z]{3,9})(?P=mark)(?P<third>\d{1,4})"
    r"(?:$|,?[T ] *))?"
    r"(?:(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<whole>\d{2})(?:[.,](?P<fraction>\d+))?)? ?(?P<half>[AaPp][Mm])?"
    r" ?(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2}(?::\d{2})?)?)?)?$"
)
"""A date, a time, or both: three parts with the same mark between them, then hours, minutes and perhaps seconds."""
USUAL = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(Z|[+-]\d{2}:\d{2})?", re.ASCII)
"""What most programs write: ISO 8601 with a date, a time and perhaps a zone."""
EXAMPLE = "2026-02-13 10:00:00"
NO_DAY = np.iinfo(np.int64).min


def as_seconds(values: pd.Series, where: Where, day_first: bool | None = None, runs: Rows = ()) -> Seconds:
    """Times as numbers: numbers as they are, dates, clock times and time differences in seconds since the earliest.

    `day_first` says how to read dates such as 02/03/2026; None leaves it to the column. `runs` are rows that follow
    each other in time, which clock times without dates are checked for. Raises ValueError for a time that cannot be
    read, or that can be read in two ways; the message names its row.
    """
    if pd.api.types.is_numeric_dtype(values):
        return as_numbers(values, where, "a time, a finite number")
    if pd.api.types.is_timedelta64_dtype(values) or pd.api.types.is_datetime64_any_dtype(values):
        _require(~values.isna().to_numpy(), values, where, f"give a number, or a date with its time, {EXAMPLE}")
        return _since_earliest(values)
    usual = _from_usual(values)
    if usual is not None:
        return usual
    # If most entries are numbers, the other entries are mistakes; otherwise the entries are dates.
    if np.isfinite(to_floats(values)[~is_blank(values)]).mean() > 0.5:
        return as_numbers(values, where, "a time, a finite number")
    return _from_text(values, where, day_first, runs)


def _since_earliest(moments: pd.Series) -> Seconds:
    return (moments - moments.min()).dt.total_seconds().to_numpy(float)


def _from_usual(values: pd.Series) -> Seconds | None:
    """Seconds from dates that are all written in the usual form, which pandas reads much faster; else None."""
    zones = set()
    for value in values:
        found = USUAL.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return None
        zones.add(found[1] is None)
    moments = pd.to_datetime(values, format="ISO8601", errors="coerce", utc=True)
    return None if len(zones) != 1 or moments.isna().any() else _since_earliest(moments)


def _from_text(values: pd.Series, where: Where, day_first: bool | None, runs: Rows) -> Seconds:
    """Seconds from entries that are written as dates or clock times."""
    _require(~is_blank(values), values, where, f"give a number, or a date with its time, {EXAMPLE}")
    parts = pd.Series([str(value).strip() for value in values]).str.extract(ENTRY)
    dated, timed, zoned = (parts[name].notna().to_numpy() for name in ("first", "hour", "zone"))
    cure = f"give a number, or a date with its time, such as {EXAMPLE}, or {EXAMPLE}+01:00 with its time zone"
    _require((dated | timed) & (dated | ~zoned), values, where, cure)
    clock = _clock(parts)
    _require(np.isfinite(clock), values, where, "there is no such time of day; correct it")
    _require_alike(dated, values, where, "a date", "write the date before every time")
    _require_alike(zoned, values, where, "a time zone", "write the zone after every time, or nowhere")
    if dated.all():
        return _dated(parts, clock, values, where, day_first)
    for run in runs:
        for i in np.flatnonzero(np.diff(clock[run]) < 0)[:1]:
            before, after = int(run[i]), int(run[i + 1])
            raise ValueError(
                f"{values.name} is {shown(values, before)} in {where(before)} and then {shown(values, after)} in "
                f"{where(after)}: the clock alone does not tell whether midnight has passed or the rows are out of "
                f"order; write the date before every time, {EXAMPLE}, or sort the rows"
            )
    return clock - clock.min()


def _clock(parts: pd.DataFrame) -> Seconds:
    """Seconds since midnight, in the zone that is written; 0 for a date alone, NaN for a time that does not exist."""
    hour, minute, whole = (_whole(parts[name]) for name in ("hour", "minute", "whole"))
    half = parts["half"].str.lower().to_numpy()
    halved = parts["half"].notna().to_numpy()
    exists = (minute < 60) & (whole < 60) & np.where(halved, (hour >= 1) & (hour <= 12), hour < 24)
    hour = np.where(halved, hour % 12 + 12 * (half == "pm"), hour)
    fraction = pd.to_numeric("0." + parts["fraction"].fillna("0")).to_numpy(float)
    return np.where(exists, 3600.0 * hour + 60.0 * minute + whole + fraction, np.nan)


def _whole(digits: pd.Series) -> Int[np.ndarray, " rows"]:
    """Digits as whole numbers, 0 where there are none."""
    return pd.to_numeric(digits.fillna("0")).to_numpy(np.int64)


def _dated(parts: pd.DataFrame, clock: Seconds, values: pd.Series, where: Where, day_first: bool | None) -> Seconds:
    """Seconds since the earliest date. Raises ValueError where the order of day and month is not known but matters."""
    short = (parts[["first", "third"]].apply(lambda part: part.str.len()).max(axis=1) < 4).to_numpy()
    _require(~short, values, where, f"write the year with four digits, {EXAMPLE}")
    year_first = (parts["first"].str.len() == 4).to_numpy()
    named = parts["second"].str.isalpha().to_numpy(bool)
    numbers = {name: str(i + 1) for i, name in enumerate(MONTHS)}
    month = parts["second"].where(~named, parts["second"].str[:3].str.lower().map(numbers))
    _require(month.notna().to_numpy(), values, where, "write the month as a number, or with its English name")
    first, second, third = (_whole(each) for each in (parts["first"], month, parts["third"]))
    year, ends = np.where(year_first, first, third), np.where(year_first, third, first)
    free = ~year_first & ~named
    asked, day_first = day_first, _order(ends, second, free, values, where) if day_first is None else day_first
    offset = _offset(parts["zone"])
    _require(np.isfinite(offset), values, where, "there is no such time zone; correct it")
    found: list[Seconds] = []
    for swapped in (False, True) if day_first is None else (not day_first,):
        swap = free & swapped
        days = _days(year, np.where(swap, ends, second), np.where(swap, second, ends))
        order = "" if asked is None else f" with day_first={asked}"
        _require(days > NO_DAY, values, where, f"there is no such day{order}; correct it, such as {EXAMPLE}")
        seconds = 86400.0 * (days - days.min()) + clock - offset
        found.append(seconds - seconds.min())
    if not np.array_equal(found[0], found[-1]):
        i = int((free & (ends != second)).argmax())
        raise ValueError(
            f"{values.name} is {shown(values, i)} in {where(i)}, and no date tells which number is the day and which "
            f"the month: write dates as {EXAMPLE}, or pass day_first=True or day_first=False"
        )
    return found[0]


def _order(ends: Any, second: Any, free: Bool[np.ndarray, " rows"], values: pd.Series, where: Where) -> bool | None:
    """Whether the day comes first in all dates, None if none of them tells. Raises ValueError if two disagree."""
    day, month = free & (ends > 12) & (second <= 12), free & (second > 12) & (ends <= 12)
    if day.any() and month.any():
        i, j = int(day.argmax()), int(month.argmax())
        raise ValueError(
            f"{values.name} is {shown(values, i)} in {where(i)}, with the day first, and {shown(values, j)} in "
            f"{where(j)}, with the month first: write all dates in one way, best as {EXAMPLE}"
        )
    return bool(day.any()) if day.any() or month.any() else None


def _days(year: Any, month: Any, day: Any) -> Int[np.ndarray, " rows"]:
    """Days since 1970, `NO_DAY` for a day that does not exist."""
    start = (year - 1970).astype("M8[Y]").astype("M8[M]") + (month - 1)
    days = start.astype("M8[D]") + (day - 1)
    exists = (month >= 1) & (month <= 12) & (day >= 1) & (days.astype("M8[M]") == start) & (year >= 1)
    return np.where(exists, days.astype(np.int64), NO_DAY)


def _offset(zone: pd.Series) -> Seconds:
    """How many seconds the clocks of each zone are ahead of UTC, 0 where there is no zone, NaN if it does not exist."""
    digits = zone.str.extract(r"^(?P<sign>[+-])(?P<hours>\d{2}):?(?P<minutes>\d{2})?:?(?P<seconds>\d{2})?$")
    hours, minutes, seconds = (_whole(digits[name]) for name in ("hours", "minutes", "seconds"))
    size = 3600.0 * hours + 60.0 * minutes + seconds
    exists = (hours < 24) & (minutes < 60) & (seconds < 60)
    return np.where(exists, np.where((digits["sign"] == "-").to_numpy(bool), -size, size), np.nan)


def _require(fine: Any, values: pd.Series, where: Where, cure: str) -> None:
    """Raises ValueError, which names the first entry that is not fine."""
    if not fine.all():
        i = int(np.argmin(fine))
        raise ValueError(f"{values.name} is {shown(values, i)} in {where(i)}: {cure}")


def _require_alike(has: Bool[np.ndarray, " rows"], values: pd.Series, where: Where, what: str, cure: str) -> None:
    """Raises ValueError if some entries have something and others do not."""
    if has.any() and not has.all():
        i, j = int(has.argmin()), int(has.argmax())
        raise ValueError(
            f"{values.name} is {shown(values, i)} in {where(i)}, without {what}, but {shown(values, j)} in {where(j)}, "
            f"with one: {cure}"
        )
