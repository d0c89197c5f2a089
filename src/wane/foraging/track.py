"""Tracks: positions of an animal, read on a regular clock and turned into stays in patches.

Cameras and GPS tags do not sample regularly, and they lose the animal now and then. `from_track` reads the track at
regular times t₀, t₀ + step, …, each from the nearest sample. What becomes of drop-outs, and of stays and absences that
the tracking has made up, is said by a `Cleaning`. The notes of the recording say how often either happened.

    >>> t = np.arange(0, 6, 0.1)
    >>> recording = from_track(t, x=t, y=0 * t, patches={"oak": Circle(2, 0, 0.45), "elm": [(3, -1), (5, -1), (4, 2)]})
    >>> recording.visits[["patch", "harvests"]].values.tolist()
    [['oak', 9], ['elm', 13]]
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from wane.foraging.arguments import Above, StepCount, check_arguments, check_fields, old_arguments
from wane.foraging.leaving import find_stays
from wane.foraging.moments import as_seconds
from wane.foraging.recording import Recording, describe_visits
from wane.foraging.sources import (
    ColumnNames,
    Source,
    Where,
    as_numbers,
    column_names,
    counted,
    pick,
    read_table,
    shown,
    to_floats,
)
from wane.limits import require_memory
from wane.settings import Range
from wane.types import ArrayLike, Real

Samples = Float[np.ndarray, " samples"]
Steps = Int[np.ndarray, " steps"]
Tolerance = Annotated[float, Range(0, 10, "a number of steps", above=True)]


class Circle(NamedTuple):
    """A round patch."""

    x: float
    y: float
    radius: float


Region = Circle | ArrayLike
"""A circle, or the corners of a polygon (corners, 2)."""
Regions = Mapping[Any, Region] | Callable[[Any, Any], Any]
"""A region for each patch, or a function of x and y that returns labels, None where there is no patch."""


@dataclass(frozen=True)
class Cleaning:
    """What becomes of drop-outs, and of stays and absences that the tracking has made up. All numbers are in steps."""

    tolerance: Tolerance = 0.75
    """How far a sample may be from the time that is read from it; a time without such a sample is a drop-out."""
    fill: StepCount = 5
    """Drop-outs of up to this length are filled in with the patch that was seen last; longer ones cut the session."""
    shortest: StepCount = 0
    """Absences from a patch, and then stays, that are shorter than this are taken as errors of the tracking."""

    def __post_init__(self) -> None:
        check_fields(self)


class Track(NamedTuple):
    """The times of a track as they are written and as numbers, and a function that names a sample in messages."""

    time: pd.Series
    seconds: Samples
    where: Where


class Clock(NamedTuple):
    """Regular times, and the sample from which each is read."""

    time: Float[np.ndarray, " steps"]
    sample: Steps
    missing: Bool[np.ndarray, " steps"]
    """Whether no sample is near enough."""
    farthest: float
    """The largest distance of a time from its sample, in steps, without drop-outs."""


@old_arguments("cleaning", Cleaning, "tolerance", "fill", "shortest")
@old_arguments("columns", dict, "time")
@check_arguments
def from_track(
    times: Source,
    x: ArrayLike | str | None = None,
    y: ArrayLike | str | None = None,
    *,
    patches: Regions,
    rewards: Source | None = None,
    columns: ColumnNames | None = None,
    step: Above | None = None,
    cleaning: Cleaning | None = None,
    subject: Any = 1,
    session: Any = 1,
    day_first: bool | None = None,
    separator: str = ",",
) -> Recording:
    """Makes a recording from the positions of one animal in one session.

    - `times`, `x`, `y`: arrays of equal length. `times` may instead be a table, a pynapple `TsdFrame` or the path of a
      CSV file with the columns time, x and y; `columns` says what they are called there, `{"time": "t", "x": "east"}`.
      Dates with times, and clock times of one day, are counted in seconds. Missing positions are drop-outs.
    - `patches`: a `Circle` or the corners of a polygon for each patch, or a function of the arrays x and y that returns
      labels, None where there is no patch.
    - `rewards`: times of rewards, or a table with a column time and, if amounts differ, a column amount. Times are
      numbers on the same clock as the track (seconds since its first sample if the track has dates), or dates.
    - `step`: the length of a step; by default the median time between samples.
    - `cleaning`: what becomes of drop-outs and of errors of the tracking, a `Cleaning`.
    - `subject`, `session`: what both are called in the tables.
    - `day_first`: whether the day comes first in dates such as 02/03/2026, where the dates do not tell it themselves.

    Raises ValueError for wrong entries; the message names the sample and the cure.
    """
    cleaning = Cleaning() if cleaning is None else cleaning
    for name, given in (("subject", subject), ("session", session)):
        if given is None or given != given:  # NaN is the only value that differs from itself.
            raise ValueError(f"{name} is {given}: give it a name or a number, which every row of the tables gets")
    track, seconds, where = _read_samples(times, x, y, columns, separator, day_first)
    place = _read_positions(track, where)
    clock = _make_clock(seconds, np.isfinite(place[0]) & np.isfinite(place[1]), step, cleaning.tolerance)
    length = clock.time[1] - clock.time[0] if step is None else float(step)
    codes, labels = _label(place, patches, where)
    site, kept, notes = _fill_in(codes[clock.sample], clock, cleaning.fill)
    site, merged = _smooth(site, cleaning.shortest, kept)
    # The session is cut where kept steps begin again; without the first position the first part begins later.
    part = np.cumsum(np.diff(kept, prepend=False) & kept) - 1
    read = Track(track["time"], seconds, where)
    paid = _read_rewards(rewards, read, clock.time[-1] + length, separator, day_first)
    notes = [*_clock_notes(seconds, clock, float(length), cleaning.tolerance), *notes, *merged]
    visited = set(np.unique(site[kept]))
    notes += [f"The animal was never in patch {label!r}." for i, label in enumerate(labels) if i not in visited]
    whole = part[kept].max() == 0
    names = [session if whole else f"{session}.{i + 1}" for i in range(part.max() + 1)]
    return _to_recording(clock.time[kept], site[kept], part[kept], labels, names, paid, float(length), subject, notes)


def _read_samples(
    times: Source, x: Any, y: Any, columns: ColumnNames | None, separator: str, day_first: bool | None
) -> tuple[pd.DataFrame, Samples, Where]:
    """The track with columns time, x and y, its times as numbers, and a function that names a sample in messages.

    Raises ValueError unless times grow.
    """
    by_name = [each is None or isinstance(each, str) for each in (x, y)]
    if by_name[0] != by_name[1]:
        raise ValueError("x and y must both be names of columns, or both be lists of positions")
    if by_name[0]:
        table, where = read_table(times, separator)
        names = column_names(columns, {"time": "time", "x": x or "x", "y": y or "y"})
        table = pick(table, names, "the track")
    else:
        arrays = {name: np.asarray(values) for name, values in (("time", times), ("x", x), ("y", y))}
        if len({np.shape(values) for values in arrays.values()}) > 1 or arrays["time"].ndim != 1:
            shapes = ", ".join(f"{name} {np.shape(values)}" for name, values in arrays.items())
            raise ValueError(f"times, x and y must be lists of the same length, their shapes are {shapes}")
        table, where = pd.DataFrame(arrays), lambda i: f"sample {i}"
    if len(table) < 2:
        count = counted(len(table), "sample")
        raise ValueError(f"the track has {count}, and two at least are needed: is the table the right one?")
    seconds = as_seconds(table["time"], where, day_first, [np.arange(len(table))])
    for i in np.flatnonzero(np.diff(seconds) <= 0)[:1]:
        what = "the same time as" if seconds[i] == seconds[i + 1] else "a later time than"
        raise ValueError(
            f"{where(int(i))} has {what} {where(int(i) + 1)} ({seconds[i]:g} and {seconds[i + 1]:g}): sort the track "
            "by time, keep one row for each time, and call this function once for each animal and session"
        )
    return table, seconds, where


def _read_positions(table: pd.DataFrame, where: Where) -> Float[np.ndarray, "2 samples"]:
    """x and y of every sample, NaN where they are missing. Raises ValueError for other entries that are not numbers."""
    place = np.stack([to_floats(table[name]) for name in ("x", "y")])
    for name, column in zip(("x", "y"), place, strict=True):
        strange = ~np.isfinite(column) & ~table[name].isna().to_numpy()
        if strange.any():
            i = int(strange.argmax())
            raise ValueError(f"{name} is {shown(table[name], i)} in {where(i)}: give a number, or leave it empty")
    if not np.isfinite(place).all(0).any():
        raise ValueError("no sample has a position: is the track empty, or are x and y other columns?")
    return place


def _make_clock(seconds: Samples, seen: Bool[np.ndarray, " samples"], step: Real | None, tolerance: float) -> Clock:
    """Regular times from the first sample to the last, each with the nearest sample that has a position."""
    length = float(np.median(np.diff(seconds)) if step is None else step)
    count = int(np.floor((seconds[-1] - seconds[0]) / length + 0.5)) + 1
    require_memory("the track on a regular clock", (count, "steps"), copies=8, cure="take a longer step")
    time = seconds[0] + length * np.arange(count)
    placed = np.flatnonzero(seen)
    after = np.clip(np.searchsorted(seconds[placed], time), 1, max(len(placed) - 1, 1))
    before = placed[after - 1]
    after = placed[np.minimum(after, len(placed) - 1)]
    nearest = np.where(np.abs(seconds[after] - time) < np.abs(seconds[before] - time), after, before)
    distance = np.abs(seconds[nearest] - time) / length
    missing = distance > tolerance
    return Clock(time, nearest, missing, float(distance[~missing].max(initial=0.0)))


def _label(place: Float[np.ndarray, "2 samples"], patches: Regions, where: Where) -> tuple[Steps, list[Any]]:
    """The number of the patch of each sample, −1 where it is in none, and the labels of the patches."""
    x, y = place
    if not isinstance(patches, Mapping):
        if not callable(patches):
            raise TypeError(
                f"patches is a {type(patches).__name__}: give each patch a name, "
                '{"oak": Circle(x, y, radius), …}, or give a function that labels positions'
            )
        names = np.array(patches(x, y), object)
        if names.shape != x.shape:
            raise ValueError(
                f"the function for patches returned shape {names.shape} for {len(x)} positions: it gets the arrays x "
                "and y, and must return one label for each of them, None where there is no patch"
            )
        names[names == ""] = None
        codes, found = pd.factorize(names)
        return codes, list(found)
    if not patches:
        raise ValueError('patches is empty: name one patch at least, {"oak": Circle(x, y, radius)}')
    codes = np.full(len(x), -1)
    for number, (label, region) in enumerate(patches.items()):
        inside = _contains(label, region, x, y)
        both = inside & (codes >= 0)
        if both.any():
            other = list(patches)[codes[int(both.argmax())]]
            raise ValueError(
                f"patches {other!r} and {label!r} overlap: {where(int(both.argmax()))} at "
                f"({x[both][0]:g}, {y[both][0]:g}) lies in both; make one of them smaller"
            )
        codes[inside] = number
    return codes, list(patches)


def _contains(label: Any, region: Region, x: Samples, y: Samples) -> Bool[np.ndarray, " samples"]:
    """Whether each position lies in a region. A missing position lies in no region."""
    if isinstance(region, Circle):
        if not (np.isfinite(_floats(region)).all() and region.radius > 0):
            raise ValueError(f"patch {label!r} is {region}: give finite numbers, and a radius above 0")
        return (x - region.x) ** 2 + (y - region.y) ** 2 <= region.radius**2
    corners = _floats(region)
    if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3 or not np.isfinite(corners).all():
        raise ValueError(f"patch {label!r}: give Circle(x, y, radius), or three or more corners (x, y) of a polygon")
    inside = np.zeros(len(x), bool)
    # A position is inside if a ray to the right crosses the border an odd number of times.
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, 0), strict=True):
        if y0 != y1:
            inside ^= ((y0 > y) != (y1 > y)) & (x < x0 + (x1 - x0) * (y - y0) / (y1 - y0))
    return inside


def _floats(region: Any) -> np.ndarray:
    """A region as numbers, NaN if it holds anything else."""
    try:
        return np.asarray(region, float)
    except (TypeError, ValueError):
        return np.full((), np.nan)


def _fill_in(site: Steps, clock: Clock, fill: int) -> tuple[Steps, Bool[np.ndarray, " steps"], list[str]]:
    """The sites with short drop-outs filled in, which steps are kept, and notes on both."""
    missing = clock.missing
    edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]]).astype(int)))
    begin, end = edges[::2], edges[1::2]
    seen_last = np.maximum.accumulate(np.where(missing, 0, np.arange(len(site))))
    site = site[seen_last]
    kept, long = np.ones(len(site), bool), end - begin > fill
    for start, stop in zip(begin[long], end[long], strict=True):
        kept[start:stop] = False
    notes = []
    if (~long).any():
        filled = int((end - begin)[~long].sum())
        notes.append(
            f"{filled} steps in {int((~long).sum())} drop-outs were filled in with the last patch that was seen."
        )
    if long.any():
        notes.append(
            f"{int((~kept).sum())} steps in {int(long.sum())} drop-outs of more than {fill} steps are left out."
        )
    return site, kept, notes


def _smooth(site: Steps, shortest: int, kept: Bool[np.ndarray, " steps"]) -> tuple[Steps, list[str]]:
    """The sites without absences, and then without stays, of fewer than `shortest` steps, and a note on them."""
    if shortest < 1:
        return site, []
    absences = stays = 0
    site = np.where(kept, site, -2)  # A cut is no absence, and ends a stay.
    for merging in (True, False):
        begin = np.flatnonzero(np.diff(site, prepend=-3))
        end = np.append(begin[1:], len(site))
        for i, (start, stop) in enumerate(zip(begin, end, strict=True)):
            if stop - start >= shortest:
                continue
            between = 0 < i < len(begin) - 1 and site[start - 1] == site[stop] >= 0
            if merging and site[start] == -1 and between:
                site[start:stop], absences = site[start - 1], absences + 1
            elif not merging and site[start] >= 0:
                site[start:stop], stays = -1, stays + 1
    note = f"{absences} absences and {stays} stays of fewer than {shortest} steps were taken as errors of the tracking."
    return site, [note]


def _clock_notes(seconds: Samples, clock: Clock, length: float, tolerance: float) -> list[str]:
    """Notes on how the samples were read at regular times."""
    note = (
        f"{len(seconds)} samples were read at {len(clock.time)} steps of {length:g}; a step lies at most "
        f"{clock.farthest:.2f} steps from its sample (the tolerance is {tolerance:g})."
    )
    if seconds[0] >= 0:
        return [note]
    before = counted(int((seconds < 0).sum()), "sample")
    return [note, f"Times begin at {seconds[0]:g}; {before} before time 0 are used like all others."]


def _read_rewards(
    rewards: Source | None, track: Track, end: float, separator: str, day_first: bool | None
) -> pd.DataFrame:
    """Times and amounts of rewards, in order. Raises ValueError for one outside of the track."""
    if rewards is None:
        return pd.DataFrame({"time": np.zeros(0), "amount": np.zeros(0)})
    is_table = isinstance(rewards, str | pd.DataFrame | Mapping) or hasattr(rewards, "columns") or hasattr(rewards, "t")
    table, where = read_table(rewards if is_table else {"time": rewards}, separator, "the rewards")
    table = pick(table, {"time": "time"}, "the table of rewards")
    what = "the amount of a reward, a finite number"
    amount = as_numbers(table["amount"], where, what) if "amount" in table else np.ones(len(table))
    if pd.api.types.is_numeric_dtype(table["time"]):
        time = as_numbers(table["time"], where, "the time of a reward, a finite number")
    else:
        # Dates count from the first sample, so they are read together with the samples.
        both, count = pd.concat([track.time, table["time"]], ignore_index=True).rename("time"), len(track.time)
        read = as_seconds(both, lambda i: track.where(i) if i < count else where(i - count), day_first)
        time = read[count:] - read[0] + track.seconds[0]
    start = track.seconds[0]
    outside = (time < start) | (time > end)
    if outside.any():
        i = int(outside.argmax())
        raise ValueError(
            f"{where(i)} is at {time[i]:g}, but the track is from {start:g} to {end:g}: count both from "
            "the same moment, or delete the row"
        )
    return pd.DataFrame({"time": time, "amount": amount}).sort_values("time", ignore_index=True)


def _to_recording(
    time: Float[np.ndarray, " steps"],
    site: Steps,
    part: Steps,
    labels: list[Any],
    names: list[Any],
    paid: pd.DataFrame,
    length: float,
    subject: Any,
    notes: list[str],
) -> Recording:
    """Steps and visits of a labelled track; `part` numbers the sessions into which it was cut."""
    step_of = np.searchsorted(time, paid["time"].to_numpy(), side="right") - 1
    reward = np.bincount(np.maximum(step_of, 0), paid["amount"], len(time)) if len(paid) else np.zeros(len(time))
    # Each label is made once and then repeated, which is much faster than making one for every step.
    patch = pd.array([*labels, None])
    place = patch.take(np.where(site < 0, len(labels), site))
    steps = pd.DataFrame(
        {"subject": subject, "episode": pd.array(names).take(part), "time": time, "site": place, "reward": reward}
    )
    stays = find_stays(part, site)
    if not len(stays.arrival):
        raise ValueError("the animal was in no patch at any step: are the patches in the units of x and y?")
    group = pd.DataFrame(
        {
            "patch": [labels[code] for code in site[stays.arrival]],
            "arrival": time[stays.arrival],
            "departure": time[stays.departure] + length,
            "censored": stays.censored,
        }
    )
    first = np.isin(stays.arrival, np.flatnonzero(np.diff(part, prepend=-1)))
    if first.any():
        notes = [
            *notes,
            f"{counted(int(first.sum()), 'visit')} had begun when the recording began; the length is a lower bound.",
        ]
    visits, more = describe_visits(group, paid, length, (subject, None))
    visits["session"] = [names[i] for i in part[stays.arrival]]
    visits["travel"] = visits["travel"].where(~visits["session"].ne(visits["session"].shift()))
    return Recording(steps, visits, length, (*notes, *more))
