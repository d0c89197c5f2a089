"""The loop of a run: it reports how far it is, saves what it has, and goes on where a killed one stopped."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from wane.experiments.experiment import Loop, Step, stack
from wane.runs import checkpoint

Report = Callable[[str, float, float, str], None]
"""called with a loop's name, the units done and in all, and their name"""


class SavingLoop(Loop):
    """Saves to a folder every so many seconds, and at Ctrl-C. `mark` tells one run's checkpoints from another's."""

    def __init__(self, folder: Path, mark: str, *, seconds: float = 10.0, report: Report | None = None):
        self.folder, self.mark, self.seconds, self.report = folder, mark, seconds, report
        self.began, self.before, self.names = time.perf_counter(), 0.0, set[str]()

    @property
    def elapsed(self) -> float:
        """Seconds of work, those before an interruption included."""
        return self.before + time.perf_counter() - self.began

    def __call__(self, name: str, step: Step, state: Any, chunks: int, work: float = 1, unit: str = "steps"):
        if name in self.names:
            raise ValueError(f"two loops of one experiment are called {name!r}: their checkpoints would be one file")
        self.names.add(name)
        path = self.folder / f"{name}.npz"
        done, state, outputs = self._restore(path, step, state) if path.exists() else (0, state, None)
        fresh, held, saved = [], done, time.perf_counter()
        try:
            for i in range(done, chunks):
                self._tell(name, i, chunks, work, unit)
                after, output = jax.block_until_ready(step(state, i))
                state, done, fresh = after, i + 1, [*fresh, output]
                if done == chunks or time.perf_counter() - saved >= self.seconds:
                    outputs, fresh = _append(outputs, fresh), []
                    self._save(path, done, state, outputs)
                    held, saved = done, time.perf_counter()
        except KeyboardInterrupt:
            if done > held:
                self._save(path, done, state, _append(outputs, fresh))
            raise
        self._tell(name, chunks, chunks, work, unit)
        return state, outputs

    def _tell(self, name: str, done: int, chunks: int, work: float, unit: str) -> None:
        if self.report:
            self.report(name, done * work, chunks * work, unit)

    def _save(self, path: Path, done: int, state: Any, outputs: Any) -> None:
        checkpoint.save(path, (state, outputs), {"mark": self.mark, "done": done, "seconds": self.elapsed})

    def _restore(self, path: Path, step: Step, state: Any) -> tuple[int, Any, Any]:
        leaves, mark = checkpoint.load(path)
        if mark.get("mark") != self.mark:
            raise checkpoint.CheckpointError(
                f"{path} belongs to other settings or another version: start over without --resume, which replaces it"
            )
        done, count = int(mark["done"]), len(jax.tree_util.tree_leaves(state))
        self.before = max(self.before, float(mark["seconds"]))
        state = checkpoint.fit(path, leaves[:count], state)
        _, output = jax.eval_shape(step, state, 0)
        stacked = jax.tree_util.tree_map(lambda leaf: np.empty((done, *leaf.shape), leaf.dtype), output)
        return done, state, checkpoint.fit(path, leaves[count:], stacked)


def _append(outputs: Any, fresh: list[Any]) -> Any:
    if not fresh:
        return outputs
    stacked = stack(fresh)
    return stacked if outputs is None else jax.tree_util.tree_map(lambda *both: np.concatenate(both), outputs, stacked)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{_short(speed)} {task.fields['unit']}/s", style="dim")


def _short(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


@contextmanager
def progress(console: Console) -> Iterator[Callable[[str], Report]]:
    """A bar for each loop: what is done, how fast, the time left. Yields a maker of reports for a title."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), _Rate())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bars:

        def of(title: str) -> Report:
            tasks: dict[str, Any] = {}

            def report(name: str, done: float, total: float, unit: str) -> None:
                if name not in tasks:
                    tasks[name] = bars.add_task(f"{title}: {name}", total=total, unit=unit)
                bars.update(tasks[name], completed=done)

            return report

        yield of
