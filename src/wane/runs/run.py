"""Runs experiments: computes the table (or goes on where it stopped), tests the claims, draws, and writes it all down.

OUT/quick/q-lambda/             OUT/SCALE/NAME, with +field=value for settings that differ from the scale's
    run.json                    what was run, with what, on what, and what it cost
    results.parquet             the table
    claims.json                 every claim with its verdict
    figure.png, figure.svg, *.gif
    checkpoint/                 what a killed run goes on from
"""

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import matplotlib
import numpy as np
import pandas as pd
from rich.console import Console

from wane.experiments import find
from wane.experiments.experiment import Experiment, Scale, Settings, changed
from wane.files import write
from wane.runs import record
from wane.runs.checkpoint import DAMAGE, damaged, write_json
from wane.runs.folder import Folder
from wane.runs.launchers import Launcher, Task
from wane.runs.loop import progress


@dataclass(frozen=True)
class Run:
    """An experiment with its settings, and the folder that it goes to."""

    name: str
    settings: Settings
    scale: Scale
    out: Path

    @property
    def experiment(self) -> Experiment:
        return find(self.name)

    @property
    def changed(self) -> dict[str, Any]:
        return changed(self.settings, self.experiment.settings(self.scale))

    @property
    def folder(self) -> Folder:
        suffix = "".join(f"+{field}={_word(value)}" for field, value in self.changed.items())
        return Folder(self.out / self.scale / f"{self.name}{suffix}"[:200])

    @property
    def mark(self) -> str:
        """Tells this run's checkpoints and results from those of other settings, code or versions."""
        content = [self.name, dataclasses.asdict(self.settings), record.code(), jax.__version__]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def is_done(self) -> bool:
        found = self.folder.record()
        return found is not None and found.get("mark") == self.mark

    def tasks(self, launcher: Launcher, save_seconds: float) -> list[Task]:
        parts = launcher.divide(self.experiment.seeds(self.settings))
        return [Task(self.name, self.settings, seeds, self.part(seeds), self.mark, save_seconds) for seeds in parts]

    def part(self, seeds: Sequence[int]) -> Path:
        return self.folder.checkpoint / f"seeds-{seeds[0]}-{seeds[-1]}"


def run(
    runs: Iterable[Run],
    launcher: Launcher | None = None,
    *,
    resume: bool = False,
    save_seconds: float = 10.0,
    console: Console | None = None,
) -> None:
    """Runs them all, each to its folder.

    With `resume`, what is done already is left alone and what was interrupted goes on; without, all starts anew, and
    earlier results stay until the new ones are there.
    """
    launcher, console = launcher or Launcher(), console or Console(quiet=True)
    with ExitStack() as stack:
        missing: dict[Run, list[Task]] = {}
        for each in runs:
            stack.enter_context(each.folder.locked())
            if resume and each.is_done():
                console.print(f"{each.name}: already there", style="dim")
                continue
            if not resume and each.folder.checkpoint.exists():
                if each.folder.record() is None:
                    console.print(f"{each.name}: starting over; --resume would have gone on with what was interrupted")
                shutil.rmtree(each.folder.checkpoint)
            missing[each] = each.tasks(launcher, save_seconds)
        _compute(missing, launcher, console)


def _compute(missing: dict[Run, list[Task]], launcher: Launcher, console: Console) -> None:
    """Computes the parts that are not there yet, and publishes every run as soon as all of its parts are."""
    owner = {task: each for each, tasks in missing.items() for task in tasks}
    waiting = {each: {task for task in tasks if not _is_saved(task)} for each, tasks in missing.items()}
    for each in [each for each, tasks in waiting.items() if not tasks]:
        _publish(each, missing[each], launcher, console)
    with progress(console) as report:
        tasks = [task for each in missing for task in missing[each] if task in waiting[each]]
        parts = None if launcher.is_one_program(tasks) else report("all")
        for i, (task, table, cost) in enumerate(launcher.compute(tasks, lambda task: report(task.experiment))):
            each = owner[task]
            _save_part(task, table, cost)
            waiting[each].discard(task)
            if parts:
                parts("parts", i + 1, len(tasks), "parts")
            if not waiting[each]:
                _publish(each, missing[each], launcher, console)


def _save_part(task: Task, table: pd.DataFrame, cost: dict[str, Any]) -> None:
    task.folder.mkdir(parents=True, exist_ok=True)
    write(task.folder / "table.parquet", table.to_parquet)
    write_json(task.folder / "part.json", {"mark": task.mark, **cost})


def _is_saved(task: Task) -> bool:
    return _part(task).get("mark") == task.mark and (task.folder / "table.parquet").is_file()


def _part(task: Task) -> dict[str, Any]:
    path = task.folder / "part.json"
    try:
        return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}
    except DAMAGE as error:
        raise damaged(path, error) from error


def _table(task: Task) -> pd.DataFrame:
    path = task.folder / "table.parquet"
    try:
        return pd.read_parquet(path)
    except DAMAGE as error:
        raise damaged(path, error) from error


def join(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One table of all parts, by seed. Rows of no seed (−1) are the same in all parts: they are taken once."""
    first, *rest = tables
    if "seed" not in first:
        return first
    table = pd.concat([first, *(part[part["seed"] >= 0] for part in rest)], ignore_index=True)
    return table.iloc[np.argsort(np.asarray(table["seed"]), kind="stable")].reset_index(drop=True)


def _publish(each: Run, tasks: Sequence[Task], launcher: Launcher, console: Console) -> None:
    """Joins the parts, tests the claims, draws, writes; the record says what it all cost."""
    experiment = each.experiment
    table, costs = join([_table(task) for task in tasks]), [_part(task) for task in tasks]
    claims = experiment.findings(each.settings, table)
    about = record.about(each.name, each.settings, each.scale, each.changed) | {
        "mark": each.mark,
        "seconds": sum(cost["seconds"] for cost in costs),
        "device": ", ".join(sorted({cost["device"] for cost in costs})),
        "peak_memory": max(cost["peak_memory"] for cost in costs),
        "launcher": launcher.launcher,
        "parts": len(tasks),
    }

    def fill(folder: Path) -> None:
        table.to_parquet(folder / "results.parquet")
        write_json(folder / "claims.json", claims)
        films = write_pictures(experiment, each.settings, table, folder)
        files = sorted(path.name for path in folder.iterdir())
        write_json(folder / "run.json", about | {"films": films, "files": files})

    each.folder.publish(fill)
    verdicts = [claim["verdict"] for claim in claims]
    console.print(f"{each.name}: {verdicts.count('holds')} of {len(verdicts)} claims hold, {about['seconds']:.1f} s")


def write_pictures(experiment: Experiment, settings: Settings, table: pd.DataFrame, folder: Path) -> dict[str, str]:
    """The figure as PNG and SVG, and the films; returns the films' titles by file."""
    # A fixed salt: the same figure is the same file.
    with matplotlib.rc_context({"svg.hashsalt": "wane", "svg.fonttype": "path"}):
        figure = experiment.draw(settings, table)
        figure.savefig(folder / "figure.png", dpi=150)
        figure.savefig(folder / "figure.svg", metadata={"Date": None})
    films = experiment.films(settings, table) if experiment.films else {}
    titles = {}
    for i, (title, film) in enumerate(films.items()):
        film(folder / f"film-{i}.gif")
        titles[f"film-{i}.gif"] = title
    return titles


def _word(value: Any) -> str:
    """A setting's value as part of a folder's name."""
    text = ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    return "".join(letter if letter.isalnum() or letter in ",.-" else "_" for letter in text)
