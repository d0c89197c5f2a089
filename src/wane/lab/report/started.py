"""Reads the progress of a run that has begun and not finished.

A run writes checkpoint/started.json when it begins: what is run, with which settings, in which parts, and by which
process. A part has a part.json when it is done, and until then the checkpoints of its loops, whose headers tell how
many chunks are done. All of it is data that anybody may have written: it is checked for its types, and nothing outside
of the folder is read.
"""

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wane.files import DamagedFile, open_ordinary, read_json
from wane.lab.report.checks import find_inside
from wane.lab.report.words import command

LARGEST = 10_000_000
"""The most bytes of a header that are read. Our headers are smaller."""


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
            header = file.read(min(int.from_bytes(file.read(8), "little"), LARGEST))
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
