"""A run's folder: results that are there whole or not at all, and a checkpoint while they are being made.

New results are written to `.new`. When all of them are there, `.new` is renamed to `.ready`, and from then on the run
is done: the next run in this folder moves what is in `.ready` into place, however often that is cut short. A full disk
or a kill before that leaves earlier results as they were. Between two moves the checksums in run.json do not fit the
files, so readers, who write nothing, find no finished run.

No symbolic link is followed out of the folder.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from wane.files import checksum
from wane.runs.errors import RunError

RESULTS = ("*.parquet", "*.gif", "agents/*/*")
"""Files that are removed if the newest run.json does not list them: another version may have written others."""


class Folder:
    """The folder of one run."""

    def __init__(self, path: Path):
        self.path = path

    @property
    def checkpoint(self) -> Path:
        """Where the parts of the run are kept."""
        return self.path / "checkpoint"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from running in this folder while it is open. A process that dies lets go.

        Raises RunError if another process is at work, or if something in the folder is a symbolic link.
        """
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file: name another --out")
        self.path.mkdir(parents=True, exist_ok=True)
        for name in (".lock", ".new", ".ready", "checkpoint", "agents"):
            self._refuse_links(name)
        with open(os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(
                    f"another process is at work in {self.path}: wait for it, or name another --out"
                ) from None
            self.recover()
            yield

    def record(self) -> dict[str, Any] | None:
        """What run.json holds, or None unless all files that it lists are there and have their checksums."""
        path = self.path / "run.json"
        try:
            record = json.loads(path.read_text("utf-8"))
            whole = not path.is_symlink() and all(self._is_whole(*entry) for entry in record["files"].items())
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
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
        """Finishes what was cut short: moves results that are ready into place, and deletes those that are not."""
        shutil.rmtree(self.path / ".new", ignore_errors=True)
        ready = self.path / ".ready"
        if not ready.is_dir():
            return
        files = [path for path in ready.rglob("*") if not path.is_dir()]
        for path in sorted(files, key=lambda path: path.name == "run.json"):
            name = path.relative_to(ready)
            self._refuse_links(name.parent)
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, self.path / name)
        shutil.rmtree(ready)
        self._delete_unlisted()

    def _delete_unlisted(self) -> None:
        record = self.record()
        if record is None:
            return
        for path in (path for pattern in RESULTS for path in self.path.glob(pattern)):
            if path.relative_to(self.path).as_posix() not in record["files"] and not path.is_dir():
                path.unlink()
        agents = self.path / "agents"
        for folder in (*agents.glob("*"), agents):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()

    def _is_whole(self, name: str, sha256: str) -> bool:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            return False
        return self._link(name) is None and checksum(self.path / name) == sha256

    def _refuse_links(self, name: str | Path) -> None:
        """Raises RunError if a path below the folder is a symbolic link, or leads through one."""
        link = self._link(name)
        if link is not None:
            raise RunError(f"{link} is a symbolic link, which could lead out of the run's folder: remove it")

    def _link(self, name: str | Path) -> Path | None:
        """The first symbolic link on a path below the folder."""
        path = self.path
        for part in Path(name).parts:
            path = path / part
            if path.is_symlink():
                return path
        return None
