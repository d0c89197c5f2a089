"""A run: an experiment with its settings, the folder of its results, and the jobs to compute.

OUT/quick/q-lambda/             OUT/SCALE/NAME, with +field=value for settings that differ from the scale's
    run.json                    the settings, versions, device and cost, and the SHA-256 of every other file
    TABLE.parquet               one file for each table
    claims.json                 every claim with its verdict
    figure.png, figure.svg, film-*.gif
    agents/NAME/                trained agents, if they are small enough
    checkpoint/                 the state from which a killed run resumes

New results are written to `.new`. When all of them are there, `.new` is renamed to `.ready`, and from then on the run
is done: its files are moved from `.ready` into place, and if that is interrupted, the next run in this folder finishes
it. A full disk or a kill before the renaming leaves earlier results as they were. Readers write nothing: they take each
file from `.ready` if it is still there, so they always find either the earlier results or the new ones, complete.

A run's folder holds no symbolic links, and neither it nor the folder of its scale is one: a folder that comes from
somewhere else could lead a run to write anywhere. The folder of all runs, which the user names, may be a link.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax

from wane import files, user_files
from wane.files import READY, DamagedFile, checksum, delete_drafts, find_published, read_json
from wane.lab.contract import Experiment, Scale, Settings, changed, flat
from wane.lab.registry import find, module_of
from wane.lab.runs.errors import RunError
from wane.lab.runs.fingerprint import code_fingerprint
from wane.lab.runs.job import Job

LONGEST = 150
"""The most bytes of a folder's name: file systems allow 255, and other files are named after it."""
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


@dataclass(frozen=True)
class Run:
    """An experiment with its settings, and the folder of its results."""

    name: str
    settings: Settings
    scale: Scale
    out: Path

    @property
    def experiment(self) -> Experiment:
        """The experiment of this name."""
        return find(self.name)

    @property
    def filed(self) -> str:
        """The name under which the run is filed: that of a file's experiment is its own, not the name of the file."""
        return self.experiment.name if user_files.is_file_name(self.name) else self.name

    @property
    def changed(self) -> dict[str, Any]:
        """The settings that differ from the scale's, by dotted name."""
        return changed(self.settings, self.experiment.settings(self.scale))

    @property
    def folder(self) -> Folder:
        """The run's folder. Its name shows the changed settings, so that other settings have another folder."""
        return Folder(self.out / self.scale / folder_name(self.filed, self.changed))

    @property
    def fingerprint(self) -> str:
        """A hash that tells this run's checkpoints and results from those of other settings, code or JAX versions."""
        settings = {name: as_json(value) for name, value in flat(self.settings).items()}
        return _hash([self.name, settings, code_fingerprint(module_of(self.name)), jax.__version__])

    def is_done(self) -> bool:
        """Returns whether the folder holds complete results of these settings and this code."""
        found = self.folder.record()
        return found is not None and found.get("fingerprint") == self.fingerprint

    @property
    def about(self) -> dict[str, Any]:
        """What files say about the run: its experiment, the file of an experiment that is a file, changed settings."""
        path, changed = user_files.path_of(self.name), {name: as_json(value) for name, value in self.changed.items()}
        return {"experiment": self.filed, "file": None if path is None else str(path), "changed": changed}

    def jobs(self, parts: int | None = 1, save_seconds: float | int = 10.0) -> list[Job]:
        """Returns the jobs: one without seeds, if the experiment has such tables, and one for each group of seeds.

        The seeds are divided into `parts` groups of neighbours, or one for each seed if `parts` is None.
        """
        groups: list[tuple[int, ...] | None] = [None] if self.experiment.fixed else []
        groups += divide(self.experiment.seeds(self.settings), parts)
        key = self.fingerprint
        return [Job(self.name, self.settings, seeds, self.part(seeds), key, save_seconds) for seeds in groups]

    def part(self, seeds: Sequence[int] | None) -> Path:
        """Returns the folder that keeps the part of some seeds, or the part without seeds."""
        return self.folder.checkpoint / (f"seeds-{seeds[0]}-{seeds[-1]}" if seeds else "fixed")


def divide(seeds: Sequence[int], parts: int | None) -> list[tuple[int, ...]]:
    """Returns seeds in groups of neighbours, one for each seed if `parts` is None. No seeds give no groups.

    >>> divide(range(5), 2)
    [(0, 1), (2, 3, 4)]
    """
    parts = len(seeds) if parts is None else min(parts, len(seeds))
    cuts = [len(seeds) * i // parts for i in range(parts + 1)] if parts else []
    return [tuple(seeds[start:end]) for start, end in pairwise(cuts)]


def as_json(value: Any) -> Any:
    """Returns a setting for JSON: nested settings as dictionaries, arrays as lists, other objects as their `repr`."""
    return files.as_json(value, repr)


def folder_name(name: str, changes: dict[str, Any]) -> str:
    """Returns the name of a run's folder: NAME+field=value for all changed settings.

    The name ends in a hash of the changes if it cannot show all of them: because it was too long and was cut, or
    because a value holds characters that a file name should not have.
    """
    words = {field: _word(value) for field, value in changes.items()}
    full = name + "".join(f"+{field}={word}" for field, (word, _) in words.items())
    if all(exact for _, exact in words.values()) and len(full.encode()) <= LONGEST:
        return full
    suffix = f"+{_hash({field: as_json(value) for field, value in changes.items()})[:12]}"
    return full.encode()[: LONGEST - len(suffix)].decode(errors="ignore") + suffix


def _word(value: Any) -> tuple[str, bool]:
    """Returns a setting's value as part of a folder's name, and whether the name shows it exactly."""
    if isinstance(value, tuple | list):
        words = [_word(each) for each in value]
        # An empty word in a list cannot be seen in the name.
        return ",".join(word for word, _ in words), all(exact and word for word, exact in words)
    text = str(value)
    word = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in text)
    return word, word == text


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
