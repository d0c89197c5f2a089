"""Progress bars on the terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from wane.lab.runs.loop import Report


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
    """Shows a bar for each loop, with speed and time left. Yields a function that makes the `Report` of a title."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), _Rate())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bars:

        def reporter(title: str) -> Report:
            tasks: dict[str, TaskID] = {}

            def report(name: str, done: float | int, total: float | int, unit: str) -> None:
                if name not in tasks:
                    tasks[name] = bars.add_task(f"{title}: {name}", total=total, unit=unit)
                bars.update(tasks[name], completed=done)

            return report

        yield reporter
