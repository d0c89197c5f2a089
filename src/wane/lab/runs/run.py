"""A run: an experiment with its settings, the folder of its results, and the jobs to compute.

OUT/quick/q-lambda/             OUT/SCALE/NAME, with +field=value for settings that differ from the scale's
    run.json                    the settings, versions, device and cost, and the SHA-256 of every other file
    TABLE.parquet               one file for each table
    claims.json                 every claim with its verdict
    figure.png, figure.svg, film-*.gif
    agents/NAME/                trained agents, if they are small enough
    checkpoint/                 the state from which a killed run resumes
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax

from wane import files, user_files
from wane.lab.contract import Experiment, Scale, Settings, changed, flat
from wane.lab.registry import find, module_of
from wane.lab.runs.fingerprint import code_fingerprint
from wane.lab.runs.folder import Folder
from wane.lab.runs.job import Job

LONGEST = 150
"""The most bytes of a folder's name: file systems allow 255, and other files are named after it."""


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
