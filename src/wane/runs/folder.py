"""A run's folder: results that are there whole or not at all, and a checkpoint while they are being made.

New results are written to `.new`. When all of them are there it is renamed to `.ready`, and from then on the run is
done: whoever opens the folder next moves what is in `.ready` into place, however often that is cut short. A full disk
or a kill before leaves earlier results as they were.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wane.runs.checkpoint import RunError


def finish_moves(out: Path) -> None:
    """Moves results that a killed run had ready into place, in all folders of runs, so that readers find them whole."""
    for ready in out.glob("*/*/.ready"):
        with Folder(ready.parent).locked():
            pass


class Folder:
    def __init__(self, path: Path):
        self.path = path

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """While open, no other process runs in this folder. A process that dies lets go."""
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file: name another --out")
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / ".lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(
                    f"another process is at work in {self.path}: wait for it, or name another --out"
                ) from None
            self.recover()
            yield

    def record(self) -> dict[str, Any] | None:
        """What run.json says, if the results are all there."""
        try:
            record = json.loads((self.path / "run.json").read_text("utf-8"))
            whole = all((self.path / name).is_file() for name in record["files"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return record if whole else None

    def publish(self, fill: Callable[[Path], None]) -> None:
        """Replaces the results by those that `fill` writes into a folder, run.json among them."""
        draft = self.path / ".new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        fill(draft)
        draft.rename(self.path / ".ready")
        self.recover()

    def recover(self) -> None:
        """Finishes what was cut short: moves results that are ready into place, forgets those that are not."""
        shutil.rmtree(self.path / ".new", ignore_errors=True)
        ready = self.path / ".ready"
        if not ready.is_dir():
            return
        for path in sorted(ready.iterdir(), key=lambda path: path.name == "run.json"):
            os.replace(path, self.path / path.name)
        ready.rmdir()
        kept = set((self.record() or {}).get("files", ()))
        for film in self.path.glob("*.gif"):
            if kept and film.name not in kept:
                film.unlink()
