"""Random moments, written as laboratories write them and read back: right to a microsecond, or refused in words.

A column is written in one way or another: the year, the day or the month first, three marks, months by name, seconds
with or without fractions, twelve or twenty-four hours, with or without time zones, or the clock alone. Some columns
are spoiled: one entry has no zone, or no date, or day and month exchanged.
"""

import datetime
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from adversary.folders import MEMORY
from adversary.frame import Fuzzer, assert_in_words, one_of
from wane.foraging import Circle, Task, from_events, from_stays, from_track

DAY = 86_400_000_000
"""Microseconds of a day."""
MONTHS = ("January", "Feb", "Mar", "April", "May", "jun", "JUL", "Aug", "September", "Oct", "Nov", "December")
Writer = Callable[[int], str]
"""Writes a moment, in microseconds since 1970."""


def clock_writer(rng: np.random.Generator, grain: int) -> Callable[[datetime.datetime], str]:
    """Writes the time of day, to the minute, the second or fractions of it, as `grain` needs."""
    halves = rng.random() < 0.25
    digits = 6 if grain < 1000 else 3
    point = one_of(rng, ".", ".", ",")

    def write(moment: datetime.datetime) -> str:
        hour = (moment.hour - 1) % 12 + 1 if halves else moment.hour
        text = f"{hour:02d}:{moment.minute:02d}"
        if grain < 60_000_000:
            text += f":{moment.second:02d}"
        if grain < 1_000_000:
            text += point + f"{moment.microsecond:06d}"[:digits]
        return text + (" AM" if moment.hour < 12 else " PM") * halves

    return write


def date_writer(rng: np.random.Generator, order: str) -> Callable[[datetime.datetime], str]:
    """Writes the date in an order: year, day or month first, or the month by its name."""
    mark, padded = one_of(rng, "-", "/", ".", " "), rng.random() < 0.7

    def write(moment: datetime.datetime) -> str:
        day, month = (f"{n:02d}" if padded else f"{n}" for n in (moment.day, moment.month))
        year, name = f"{moment.year:04d}", MONTHS[moment.month - 1]
        parts = {"year": (year, month, day), "day": (day, month, year), "month": (month, day, year)}
        return mark.join({**parts, "name": (day, name, year)}[order])

    return write


def writer(rng: np.random.Generator, order: str, grain: int, zoned: bool) -> Writer:
    """Writes moments in one way; the zone of every entry is random, because clocks are changed in summer."""
    clock = clock_writer(rng, grain)
    date = None if order == "clock" else date_writer(rng, order)
    between = one_of(rng, " ", "T", ", ")
    colon = one_of(rng, ":", "")

    def write(moment: int) -> str:
        zone = int(rng.integers(-12, 15)) * 60 + int(one_of(rng, 0, 0, 30)) if zoned else 0
        local = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=moment, minutes=zone)
        sign, size = "+" if zone >= 0 else "-", abs(zone)
        suffix = f"{sign}{size // 60:02d}{colon}{size % 60:02d}" if zone else one_of(rng, "Z", " UTC", "+00:00")
        return (date(local) + between if date else "") + clock(local) + suffix * zoned

    return write


def moments(rng: np.random.Generator, count: int, grain: int, clock: bool) -> list[int]:
    """Growing moments in multiples of `grain`: within a day of each other for a clock, else within a year or so."""
    longest = DAY // (2 * count) if clock else int(one_of(rng, 3600, 86_400, 3_000_000)) * 10**6
    gaps = grain * rng.integers(1, max(longest // grain, 2), count)
    start = int(rng.integers(-10_000, 30_000)) * DAY + int(rng.integers(DAY)) // grain * grain
    return [start + int(gap) for gap in np.cumsum(gaps)]


def spoiled(rng: np.random.Generator, text: list[str], true: list[int], order: str, grain: int, zoned: bool) -> bool:
    """Writes one entry in another way, in place, and returns whether nobody could then read the column."""
    i = int(rng.integers(len(text)))
    match one_of(rng, "zone", "date", "order", "nonsense"):
        case "zone" if order != "clock":
            text[i] = writer(rng, order, grain, not zoned)(true[i])
        case "date":
            text[i] = writer(rng, "year" if order == "clock" else "clock", grain, False)(true[i])
        case "order" if order in ("day", "month"):
            text[i] = writer(rng, {"day": "month", "month": "day"}[order], grain, zoned)(true[i])
            return False  # It is then another date, which a reader cannot know.
        case _:
            strange = ("?", "yesterday", "32/13/2026 10:00", "2026-02-30 10:00", "2026-02-13 24:10", "13/02/26 10:00")
            text[i] = one_of(rng, *strange)
    return True


def dates_case(rng: np.random.Generator) -> None:
    """Visits with dates are read right, or refused; what can be read in one way only must be read."""
    order = one_of(rng, "year", "year", "day", "month", "name", "clock")
    grain, zoned = int(one_of(rng, 60_000_000, 1_000_000, 1000, 1)), bool(order != "clock" and rng.random() < 0.4)
    true = moments(rng, 2 * int(rng.integers(1, 5)), grain, order == "clock")
    writers = [writer(rng, order, grain, zoned) for _ in range(2)]  # A column each.
    text = [writers[i % 2](moment) for i, moment in enumerate(true)]
    whole = rng.random() < 0.7
    hopeless = False if whole else spoiled(rng, text, true, order, grain, zoned)
    told = whole and order in ("day", "month") and rng.random() < 0.4
    settings = {"day_first": order == "day"} if told else {}
    same_day = len({moment // DAY for moment in true}) == 1
    certain = whole and (told or order in ("year", "name") or (order == "clock" and same_day))
    try:
        found = read(rng, text, settings, shuffled=order != "clock")
    except ValueError as error:
        if certain:
            raise AssertionError(f"{text} can be read in one way only") from error
        return assert_in_words(error)
    assert not hopeless, f"{text} cannot be read, but was"
    wanted = (np.array(true) - true[0]) / 1e6
    if whole:
        assert np.abs(found - wanted).max() < 1e-6, f"{text} was read as {found.tolist()}, not {wanted.tolist()}"


def read(rng: np.random.Generator, text: list[str], settings: dict, shuffled: bool) -> np.ndarray:
    """Reads arrivals and departures from a table or a file, or two times as a track; in seconds since the first."""
    how = one_of(rng, "table", "file", "track")
    if how == "track" and len(text) == 2:
        track = from_track(text, [0.0, 0.0], [0.0, 0.0], patches={"oak": Circle(0, 0, 1)}, **settings)
        return np.array([0.0, track.step])
    visits = pd.DataFrame({"patch": "oak", "arrival": text[::2], "departure": text[1::2]})
    if shuffled:
        visits = visits.sample(frac=1, random_state=int(rng.integers(1000)))
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        visits.to_csv(Path(folder) / "visits.csv", index=False)
        source = Path(folder) / "visits.csv" if how == "file" else visits
        found = from_events(source, step=1e9, **settings).visits
    return (found[["arrival", "departure"]].to_numpy() - found["arrival"].iloc[0]).ravel()


NAMES = ("7", "007", "07", "7.0", "NA", "nan", "None", "null", "-7", "1e3", "True", "x", "Ω", "a,b", "2026-02-13")


def names_case(rng: np.random.Generator) -> None:
    """Animals, patches and kinds of a file are those that stand in it: 007 is not 7, and NA is a name."""
    names = [str(name) for name in rng.choice(NAMES, int(rng.integers(1, 6)), replace=False)]
    visits = pd.DataFrame({"rat": names * 2, "box": names * 2, "n": 2})
    task = Task({int(n) if n == "7" else n: [4.0, 2.0] for n in names}, {"rich": 1.0})
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        visits.to_csv(Path(folder) / "visits.csv", index=False)
        data = from_stays(
            Path(folder) / "visits.csv",
            task,
            patches="fresh",
            columns={"subject": "rat", "kind": "box", "environment": None, "harvests": "n"},
        )
    assert [str(subject) for subject in data.subjects] == names
    assert [str(kind) for kind in data.table["kind"]] == names * 2


FUZZERS = (Fuzzer("dates", dates_case, 200), Fuzzer("names", names_case, 60))
