"""What a run folder holds, checked before any of it is used: the results of a finished run, the progress of another.

A run folder is data that anybody may have written. JSON files are checked for the types that the report needs, and a
file is read only if run.json lists it, it lies inside of the folder, and it has the SHA-256 that run.json notes. Every
fault is added to a list of problems, as a sentence that names the file.

A run writes checkpoint/started.json when it begins: what is run, with which settings, in which parts, and by which
process. A part has a part.json when it is done, and until then the checkpoints of its loops, whose headers tell how
many chunks are done.
"""

import json
import math
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from wane.files import DamagedFile, checksum, find_published, open_ordinary, read_json
from wane.lab.report.words import KINDS, SIGNS, command

VERDICTS = tuple(SIGNS)
LARGEST = 4_000_000_000
"""The most bytes of a file whose checksum is computed, which takes seconds."""
LARGEST_HEADER = 10_000_000
"""The most bytes of a header that are read. Our headers are smaller."""
AGENT_FILES = ("config.json", "params.safetensors")
"""The files of a saved agent."""

_NEEDED = {
    "experiment": str,
    "settings": dict,
    "changed": dict,
    "texts": dict[str, str],
    "versions": dict,
    "device": str,
    "seconds": float,
    "finished": str,
    "tables": list[str],
    "files": dict[str, str],
}
_OPTIONAL = {
    "commit": str,
    "launcher": str,
    "peak_memory": float,
    "films": dict[str, str],
    "agents": list[str],
    "failures": dict[str, str],
    "file": str,
}


def read_record(folder: Path, problems: list[str]) -> dict[str, Any]:
    """Returns run.json without the fields that have a wrong type. They are named in `problems`."""
    path = find_inside(folder, "run.json")
    if path is None:
        problems.append("run.json leads out of the folder.")
        return {}
    found = _read(path, dict, problems)
    if not found:
        return {}
    record = {name: value for name, value in found.items() if _fits(value, (_NEEDED | _OPTIONAL).get(name, object))}
    unusable = [name for name in _NEEDED if name not in record]
    unusable += [name for name in _OPTIONAL if found.get(name) is not None and name not in record]
    problems += [f"run.json has no usable {name!r}." for name in unusable]
    return record


def read_claims(path: Path, problems: list[str]) -> tuple[Mapping[str, Any], ...]:
    """Returns the entries of claims.json that are claims with a verdict."""
    claims = _read(path, list, problems)
    good = [claim for claim in claims if _is_claim(claim)]
    if len(good) < len(claims):
        problems.append(
            f"{path.name}: {len(claims) - len(good)} of {len(claims)} entries are not claims with a verdict."
        )
    return tuple(good)


def verify_files(folder: Path, record: Mapping[str, Any], problems: list[str]) -> dict[str, Path]:
    """Returns the files of a run that are as the run wrote them, by their names relative to the folder.

    A file that is missing, was changed, leads out of the folder, or is needed but not listed is named in `problems`.
    """
    if "files" not in record:
        return {}
    digests: Mapping[str, str] = record["files"]
    good: dict[str, Path] = {}
    for name in dict.fromkeys([*digests, *_needed_files(record)]):
        path = find_inside(folder, name)
        fault = "leads out of the folder" if path is None else _fault(path, digests.get(name))
        if fault:
            problems.append(f"{name} {fault}.")
        elif path is not None:
            good[name] = path
    return good


def find_inside(folder: Path, name: str) -> Path | None:
    """Returns the path of a file of a folder, or None if the path leads out of the folder or through a link."""
    try:
        return find_published(folder, name)
    except (OSError, ValueError):  # No file can have such a name.
        return None


def _needed_files(record: Mapping[str, Any]) -> Iterable[str]:
    yield "claims.json"
    yield from (f"{table}.parquet" for table in record.get("tables", ()))
    yield from record.get("films", {})
    yield from (f"agents/{agent}/{file}" for agent in record.get("agents", ()) for file in AGENT_FILES)


def _fault(path: Path, digest: str | None) -> str:
    """Returns what is wrong with a file, as the end of a sentence, or nothing."""
    try:
        if not path.is_file():
            return "is missing"
        if path.stat().st_size > LARGEST:
            return f"has more than {LARGEST:,} bytes, too many to be checked"
        if digest is None:
            return "is not among the files that run.json lists"
        return "" if checksum(path) == digest else "was changed after the run: run.json notes another SHA-256"
    except OSError as error:
        return f"cannot be read ({error})"


def _read(path: Path, kind: type, problems: list[str]) -> Any:
    """Returns the content of a JSON file if it has the right type, else an empty value of that type."""
    try:
        return read_json(path, kind)
    except DamagedFile as error:
        problems.append(f"{error}.".removeprefix(f"{path.parent}/"))
        return kind()


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value has a type such as `str`, `dict[str, str]`, or `float` for a number that is not negative."""
    if kind is float:
        return _is_number(value) and 0 <= value < math.inf
    if not isinstance(value, get_origin(kind) or kind):
        return False
    items = value.values() if isinstance(value, dict) else value
    return not get_args(kind) or all(isinstance(item, get_args(kind)[-1]) for item in items)


def _is_number(value: Any) -> bool:
    """Returns whether a value is a number that can be printed: JSON's integers may be larger than any float."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**1000)


def _is_claim(claim: Any) -> bool:
    """Returns whether an entry has all texts, a verdict, and, if the claim was tested, an estimate.

    Runs of earlier versions do not say where a claim comes from.
    """
    if not isinstance(claim, dict) or claim.get("verdict") not in VERDICTS:
        return False
    if not all(isinstance(claim.get(key), str) for key in ("name", "statement", "detail")):
        return False
    optional = [claim.get(key, "") for key in ("place", "account")]
    if claim.get("kind", "ours") not in tuple(KINDS) or not all(isinstance(text, str) for text in optional):
        return False
    ends = claim.get("interval", ())
    if ends is not None and not (isinstance(ends, list) and len(ends) == 2 and all(map(_is_number, ends))):
        return False
    estimate = claim.get("estimate")
    return _is_number(estimate) or (estimate is None and claim["verdict"] in ("not tested", "not run"))


@dataclass(frozen=True)
class Started:
    """A run that has begun and not finished."""

    folder: Path
    experiment: str
    """The name of the experiment, or the path of its file."""
    scale: str
    changed: Mapping[str, Any]
    """The settings that are not those of the scale, by dotted names."""
    share: float
    """How much of the work is done, from 0 to 1. Loops that have not begun yet do not count."""
    is_running: bool
    """Whether the process that computes it is alive."""

    @property
    def words(self) -> str:
        """The state in a few words: "interrupted, 43 %"."""
        return f"{'running' if self.is_running else 'interrupted'}, {100 * self.share:.0f} %"

    @property
    def resume(self) -> str:
        """The command that goes on with the run."""
        return f"{command(self.experiment, self.scale, self.changed, self.folder.parent.parent)} --resume"


def read_started(folder: Path) -> Started | None:
    """Returns what is known about an unfinished run, or None if the run has finished or nothing usable is there."""
    note = _read_note(folder)
    if note is None:
        return None
    shares = {part: _share(folder, part) for part in note["parts"]}
    if all(share == 1 for share in shares.values()) and (folder / "run.json").is_file():
        return None
    # What needs no seed is quickly computed, so it counts only where there is nothing else.
    counted = [share for part, share in shares.items() if part != "fixed"] or list(shares.values())
    share = sum(counted) / len(counted) if counted else 0.0
    file = note.get("file")
    name = file if isinstance(file, str) else note["experiment"]
    return Started(folder, name, folder.absolute().parent.name, note["changed"], share, _is_alive(note))


def _read_note(folder: Path) -> dict[str, Any] | None:
    path = find_inside(folder, "checkpoint/started.json")
    try:
        note = None if path is None else read_json(path)
    except DamagedFile:
        note = None
    if note is None:
        return None
    wanted = {"experiment": str, "changed": dict, "parts": list}
    fits = all(isinstance(note.get(name), kind) for name, kind in wanted.items())
    return note if fits and all(isinstance(part, str) for part in note["parts"]) else None


def _share(folder: Path, part: str) -> float:
    """Returns the share of a part that is done, according to the checkpoints of its loops."""
    place = find_inside(folder, f"checkpoint/{part}")
    if place is None or not place.is_dir():
        return 0.0
    if (place / "part.json").is_file():
        return 1.0
    loops = [_share_of_loop(path) for path in place.glob("*.safetensors") if ".host-" not in path.name]
    return sum(loops) / len(loops) if loops else 0.0


def _share_of_loop(path: Path) -> float:
    """Returns the share of a loop's chunks that are done, according to the header of its checkpoint."""
    try:
        if path.is_symlink():
            return 0.0
        with open_ordinary(path) as file:
            header = file.read(min(int.from_bytes(file.read(8), "little"), LARGEST_HEADER))
        about = json.loads(json.loads(json.loads(header)["__metadata__"]["wane"])["about"])
        return min(max(about["done"] / about["chunks"], 0.0), 1.0)
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
        return 0.0


def _is_alive(note: Mapping[str, Any]) -> bool:
    """Returns whether the process that a note names runs on this machine."""
    process = note.get("process")
    if type(process) is not int or not 0 < process < 2**31 or note.get("machine") != platform.node():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
