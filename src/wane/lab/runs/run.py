"""A run: an experiment with its settings, the folder of its results, and the tasks to compute.

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
from pathlib import Path
from typing import Any

import jax

from wane import user_files
from wane.lab.contract import Experiment, Scale, Settings, changed, flat
from wane.lab.registry import find, module_of
from wane.lab.runs import record
from wane.lab.runs.fingerprint import code_fingerprint
from wane.lab.runs.folder import Folder
from wane.lab.runs.launchers import Task
from wane.lab.runs.options import Launcher

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
        settings = {name: record.plain(value) for name, value in flat(self.settings).items()}
        return _hash([self.name, settings, code_fingerprint(module_of(self.name)), jax.__version__])

    def is_done(self) -> bool:
        """Returns whether the folder holds complete results of these settings and this code."""
        found = self.folder.record()
        return found is not None and found.get("fingerprint") == self.fingerprint

    def tasks(self, launcher: Launcher, save_seconds: float | int) -> list[Task]:
        """Returns the tasks: one without seeds, if the experiment has such tables, and one for each group of seeds."""
        groups: list[tuple[int, ...] | None] = [None] if self.experiment.fixed else []
        groups += launcher.divide(self.experiment.seeds(self.settings))
        key = self.fingerprint
        return [Task(self.name, self.settings, seeds, self.part(seeds), key, save_seconds) for seeds in groups]

    def part(self, seeds: Sequence[int] | None) -> Path:
        """Returns the folder that keeps the part of some seeds, or the part without seeds."""
        return self.folder.checkpoint / (f"seeds-{seeds[0]}-{seeds[-1]}" if seeds else "fixed")


def folder_name(name: str, changes: dict[str, Any]) -> str:
    """Returns the name of a run's folder: NAME+field=value for all changed settings.

    The name ends in a hash of the changes if it cannot show all of them: because it was too long and was cut, or
    because a value holds characters that a file name should not have.
    """
    words = {field: _word(value) for field, value in changes.items()}
    full = name + "".join(f"+{field}={word}" for field, (word, _) in words.items())
    if all(exact for _, exact in words.values()) and len(full.encode()) <= LONGEST:
        return full
    suffix = f"+{_hash({field: record.plain(value) for field, value in changes.items()})[:12]}"
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
