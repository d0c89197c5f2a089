"""A run's folder: complete results or none, and a checkpoint while they are being computed.

New results are written to `.new`. When all of them are there, `.new` is renamed to `.ready`, and from then on the run
is done: its files are moved from `.ready` into place, and if that is interrupted, the next run in this folder finishes
it. A full disk or a kill before the renaming leaves earlier results as they were. Readers write nothing: they take each
file from `.ready` if it is still there, so they always find either the earlier results or the new ones, complete.

A run's folder holds no symbolic links, and neither it nor the folder of its scale is one: a folder that comes from
somewhere else could lead a run to write anywhere. The folder of all runs, which the user names, may be a link.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wane.files import READY, DamagedFile, checksum, delete_drafts, find_published, read_json
from wane.lab.runs.errors import RunError

RESULTS = ("*.parquet", "*.gif", "figure.*", "agents/*/*")
"""Patterns of files that are removed if the newest run.json does not list them: another version may have left them."""
FILES = (
    *(*RESULTS, "run.json", "claims.json", "checkpoint/started.json", "checkpoint/*/part.json"),
    *("checkpoint/*/*.safetensors", "checkpoint/*/*.outputs", "checkpoint/*/tables/*", "checkpoint/*/agents/*/*"),
)
"""Patterns of the files that a run writes. It cannot replace a folder by a file."""
FOLDERS = (
    *(".new", READY, "agents", "agents/[!.]*", "checkpoint", "checkpoint/fixed", "checkpoint/seeds-*"),
    *("checkpoint/*/tables", "checkpoint/*/agents", "checkpoint/*/agents/*"),
)
"""Patterns of the folders that a run makes."""


class Folder:
    """The folder of one run."""

    def __init__(self, path: Path):
        self.path = path

    @property
    def checkpoint(self) -> Path:
        """The folder that keeps the parts of the run."""
        return self.path / "checkpoint"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the folder against runs in other processes, until the block ends or this process dies.

        Raises RunError if another process holds the lock, if the path is a file, if it is or holds a symbolic link, or
        if it holds a folder where a file belongs or the reverse: the results could not be written after all the work.
        """
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file: name another --out")
        self._refuse_links()
        self._refuse_wrong_kinds()
        self.path.mkdir(parents=True, exist_ok=True)
        with open(os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(
                    f"another process is at work in {self.path}: wait for it, or name another --out"
                ) from None
            self.recover()
            delete_drafts(self.checkpoint)
            yield

    def record(self) -> dict[str, Any] | None:
        """Returns the content of run.json, or None unless all files that it lists are there with their checksums."""
        for _ in range(3):  # A run that is publishing may move a file after it is found and before it is read.
            try:
                record = read_json(find_published(self.path, "run.json"))
                files = record["files"].items()
                if all(checksum(find_published(self.path, name)) == sha for name, sha in files):
                    return record
            except (DamagedFile, OSError, ValueError, LookupError, TypeError, AttributeError):
                continue
        return None

    def publish(self, fill: Callable[[Path], None]) -> None:
        """Replaces the results with those that `fill` writes into a folder, including run.json."""
        draft = self.path / ".new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        fill(draft)
        draft.rename(self.path / READY)
        self.recover()

    def recover(self) -> None:
        """Finishes an interrupted publication: moves complete results into place, and deletes incomplete ones."""
        shutil.rmtree(self.path / ".new", ignore_errors=True)
        ready = self.path / READY
        if not ready.is_dir():
            return
        files = [path for path in ready.rglob("*") if not path.is_dir()]
        for path in sorted(files, key=lambda path: path.name == "run.json"):
            name = path.relative_to(ready)
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

    def _refuse_wrong_kinds(self) -> None:
        lock = self.path / ".lock"
        for path in [path for pattern in FILES for path in self.path.glob(pattern) if path.is_dir()]:
            raise RunError(f"{path} is a folder, and a file of the run belongs there: remove it")
        for path in [path for pattern in FOLDERS for path in self.path.glob(pattern) if not path.is_dir()]:
            raise RunError(f"{path} is a file, and a folder of the run belongs there: remove it")
        if lock.exists() and not lock.is_file():
            raise RunError(f"{lock} is not an ordinary file, and the lock of the run belongs there: remove it")

    def _refuse_links(self) -> None:
        """Raises RunError if the folder of the scale, the run's folder or anything in it is a symbolic link."""
        below = (Path(root) / name for root, *names in os.walk(self.path) for group in names for name in group)
        for path in (self.path.parent, self.path, *below):
            if path.is_symlink():
                raise RunError(f"{path} is a symbolic link, which could lead out of the run's folder: remove it")
