"""Checks of what a run folder holds, before any of it is used.

A run folder is data that anybody may have written. JSON files are checked for the types that the report needs, and a
file is read only if run.json lists it, it lies inside of the folder, and it has the SHA-256 that run.json notes. Every
fault is added to a list of problems, as a sentence that names the file.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from wane.files import DamagedFile, checksum, find_published, read_json
from wane.lab.report.words import KINDS

VERDICTS = ("holds", "fails", "undecided", "not tested", "not run")
LARGEST = 4_000_000_000
"""The most bytes of a file whose checksum is computed, which takes seconds."""
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
