"""A run: an experiment with its settings, the folder that it goes to, and what is to be computed for it.

OUT/quick/q-lambda/             OUT/SCALE/NAME, with +field=value for settings that differ from the scale's
    run.json                    what was run, with what, on what, what it cost, and the SHA-256 of every other file
    TABLE.parquet               one file for each table
    claims.json                 every claim with its verdict
    figure.png, figure.svg, film-*.gif
    agents/NAME/                trained agents, if they are small enough
    checkpoint/                 what a killed run goes on from
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from wane.experiments import find, module_of
from wane.experiments.contract import Experiment, Scale, Settings, changed, flat
from wane.runs import record
from wane.runs.fingerprint import code_fingerprint
from wane.runs.folder import Folder
from wane.runs.launchers import Task
from wane.runs.options import Launcher

LONGEST = 150
"""Bytes of a folder's name: file systems allow 255, and other files are named after it."""


@dataclass(frozen=True)
class Run:
    """An experiment with its settings, and the folder that it goes to."""

    name: str
    settings: Settings
    scale: Scale
    out: Path

    @property
    def experiment(self) -> Experiment:
        """The experiment of this name."""
        return find(self.name)

    @property
    def changed(self) -> dict[str, Any]:
        """The settings that differ from the scale's, by dotted name."""
        return changed(self.settings, self.experiment.settings(self.scale))

    @property
    def folder(self) -> Folder:
        """The run's folder. Its name tells the changed settings, so that other settings have another folder."""
        return Folder(self.out / self.scale / folder_name(self.name, self.changed))

    @property
    def fingerprint(self) -> str:
        """Tells this run's checkpoints and results from those of other settings, code or versions of JAX."""
        settings = {name: record.plain(value) for name, value in flat(self.settings).items()}
        return _hash([self.name, settings, code_fingerprint(module_of(self.name)), jax.__version__])

    def is_done(self) -> bool:
        """Whether the folder holds whole results of these settings and this code."""
        found = self.folder.record()
        return found is not None and found.get("fingerprint") == self.fingerprint

    def tasks(self, launcher: Launcher, save_seconds: float | int) -> list[Task]:
        """What is to be computed: one task without seeds, if the experiment has such tables, and the seeds divided."""
        groups: list[tuple[int, ...] | None] = [None] if self.experiment.fixed else []
        groups += launcher.divide(self.experiment.seeds(self.settings))
        key = self.fingerprint
        return [Task(self.name, self.settings, seeds, self.part(seeds), key, save_seconds) for seeds in groups]

    def part(self, seeds: Sequence[int] | None) -> Path:
        """The folder that keeps the part of some seeds, or of none."""
        return self.folder.checkpoint / (f"seeds-{seeds[0]}-{seeds[-1]}" if seeds else "fixed")


def folder_name(name: str, changes: dict[str, Any]) -> str:
    """The name of a run's folder: NAME+field=value for all changed settings.

    It ends in a hash of the changes where it cannot tell all of them: if it was too long and was cut, or if a value
    holds letters that a file's name should not have.
    """
    words = {field: _word(value) for field, value in changes.items()}
    full = name + "".join(f"+{field}={word}" for field, (word, _) in words.items())
    if all(exact for _, exact in words.values()) and len(full.encode()) <= LONGEST:
        return full
    suffix = f"+{_hash({field: record.plain(value) for field, value in changes.items()})[:12]}"
    return full.encode()[: LONGEST - len(suffix)].decode(errors="ignore") + suffix


def _word(value: Any) -> tuple[str, bool]:
    """A setting's value as part of a folder's name, and whether the name tells it exactly."""
    if isinstance(value, tuple | list):
        words = [_word(each) for each in value]
        # An empty word in a list cannot be seen in the name.
        return ",".join(word for word, _ in words), all(exact and word for word, exact in words)
    text = str(value)
    word = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in text)
    return word, word == text


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
