"""Reads run folders: ROOT/SCALE/NAME/, with run.json, claims.json, results.parquet, a figure and films.

They are data. Nothing in them is executed, no module is imported by a name found there, and no file outside of a
folder is opened. What is damaged or missing is named in `Run.problems`; the rest of the run is still used.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wane.experiments import NAMES
from wane.report.pictures import Picture, PictureError, figure, raster
from wane.report.words import command

SCALES = ("paper", "quick")
"""in the order of the report"""
VERDICTS = ("holds", "fails", "not run")

_NEEDED = {
    "experiment": str,
    "settings": dict,
    "changed": dict,
    "versions": dict,
    "device": str,
    "seconds": float,
    "finished": str,
    "files": list,
}
_OPTIONAL = {"commit": str, "launcher": str, "peak_memory": float, "films": dict}


@dataclass(frozen=True)
class Run:
    """One run folder, as far as it can be read."""

    folder: Path
    experiment: str
    scale: str
    record: Mapping[str, Any]
    """run.json, without the fields that are not what they should be"""
    claims: tuple[Mapping[str, Any], ...] = ()
    figure: Picture | None = None
    films: tuple[Picture, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def changed(self) -> Mapping[str, Any]:
        """Settings that differ from the scale's own."""
        return self.record.get("changed", {})

    @property
    def is_standard(self) -> bool:
        """Whether it is whole and has the scale's own settings."""
        return not self.changed and not self.problems

    @property
    def command(self) -> str:
        return command(self.experiment, self.scale, self.changed)


def collect(*roots: str | Path) -> list[Run]:
    """Every run below some folders, or that is one of them, in the order of the report; no folder, no runs.

    Of whole runs with the same settings the one below the first root is taken. Damaged ones all stay, to be named.
    """
    runs: dict[Any, Run] = {}
    for root in map(Path, roots):
        for folder in _folders(root):
            run = read(folder)
            runs.setdefault(_identity(run), run)
    return sorted(runs.values(), key=_place)


def _folders(root: Path) -> list[Path]:
    if (root / "run.json").is_file():
        return [root]
    places = [root / scale for scale in SCALES]
    found = [folder for place in places if place.is_dir() for folder in sorted(place.iterdir())]
    return [folder for folder in found if folder.is_dir() and not folder.name.startswith(".")]


def _identity(run: Run) -> Any:
    if run.problems:
        return run.folder.resolve()
    return run.experiment, run.scale, json.dumps(run.changed, sort_keys=True)


def _place(run: Run) -> tuple[Any, ...]:
    """Registered experiments in their order, then others; paper before quick; changed and damaged runs last."""
    known = run.experiment in NAMES
    place = NAMES.index(run.experiment) if known else len(NAMES)
    changed = json.dumps(run.changed, sort_keys=True) if run.changed else ""
    return place, run.experiment, SCALES.index(run.scale), changed, bool(run.problems)


def read(folder: Path) -> Run:
    """One run folder: SCALE/NAME, or SCALE/NAME+field=value."""
    place = folder.absolute()
    name, scale = place.name.split("+")[0], place.parent.name
    if scale not in SCALES:
        raise ValueError(f"{folder} is no run folder: its place is in a folder named {' or '.join(SCALES)}")
    if not (folder / "run.json").is_file():
        resume = f"{command(name, scale, {})} --resume"
        return Run(folder, name, scale, {}, problems=(f"no run.json: still at work, or stopped; go on with {resume}",))
    problems: list[str] = []
    record = _record(folder, problems)
    claims = _claims(folder, problems)
    picture = None
    try:
        picture = figure(folder)
    except PictureError as error:
        problems.append(str(error))
    films = _films(folder, record.get("films", {}), problems)
    problems += [f"{name} is missing" for name in _missing(folder, record) if f"{name} is missing" not in problems]
    return Run(folder, record.get("experiment", name), scale, record, claims, picture, films, tuple(problems))


def _json(path: Path, kind: type, problems: list[str]) -> Any:
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        problems.append(f"{path.name} is missing")
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"{path.name} cannot be read ({error})")
    else:
        if isinstance(content, kind):
            return content
        problems.append(f"{path.name} holds a {type(content).__name__} where a {kind.__name__} belongs")
    return kind()


def _record(folder: Path, problems: list[str]) -> dict[str, Any]:
    found = _json(folder / "run.json", dict, problems)
    if not found:
        return {}
    record = {name: value for name, value in found.items() if _fits(value, (_NEEDED | _OPTIONAL).get(name, object))}
    lost = [name for name in _NEEDED if name not in record]
    lost += [name for name in _OPTIONAL if found.get(name) is not None and name not in record]
    problems += [f"run.json has no usable {name!r}" for name in lost]
    return record


def _fits(value: Any, kind: type) -> bool:
    if kind is float:
        return _is_number(value) and 0 <= value < math.inf
    return isinstance(value, kind)


def _is_number(value: Any) -> bool:
    """One that can be printed: JSON's integers may be larger than any float."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**1000)


def _claims(folder: Path, problems: list[str]) -> tuple[Mapping[str, Any], ...]:
    claims = _json(folder / "claims.json", list, problems)
    good = [claim for claim in claims if _is_claim(claim)]
    if len(good) < len(claims):
        problems.append(f"claims.json: {len(claims) - len(good)} of {len(claims)} entries are no claims with a verdict")
    return tuple(good)


def _is_claim(claim: Any) -> bool:
    if not isinstance(claim, dict) or claim.get("verdict") not in VERDICTS:
        return False
    if not all(isinstance(claim.get(key), str) for key in ("name", "statement", "detail")):
        return False
    ends = claim.get("interval", ())
    numbers = [claim.get("estimate"), *(ends if isinstance(ends, list) else ())]
    return (ends is None or len(numbers) == 3) and all(
        _is_number(value) or (value is None and claim["verdict"] == "not run") for value in numbers
    )


def _films(folder: Path, titles: Mapping[str, Any], problems: list[str]) -> tuple[Picture, ...]:
    """The GIFs, those with a title first and in their order."""
    found = {path.name: path for path in sorted(folder.glob("*.gif"))}
    problems += [f"{name} is missing" for name in titles if name not in found]
    names = [name for name in titles if name in found] + [name for name in found if name not in titles]
    films = []
    for name in names:
        try:
            films.append(raster(found[name], "GIF", str(titles.get(name, found[name].stem))))
        except PictureError as error:
            problems.append(str(error))
    return tuple(films)


def _missing(folder: Path, record: Mapping[str, Any]) -> list[str]:
    """Files that the run wrote and that are no longer there. Names that lead out of the folder are no files of it."""
    names = dict.fromkeys(["results.parquet", *map(str, record.get("files", ()))])
    return [name for name in names if Path(name).name != name or not (folder / name).is_file()]
