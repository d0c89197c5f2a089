"""`wane forage FILE.csv`: from visits of an animal in a file to fitted models and figures.

Nothing heavy is imported before the command runs.
"""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from wane.lab.runs.errors import UsageError
from wane.settings import Count, Range

UNPREFIXED = tyro.conf.arg(name="")
Above = Annotated[float, Range(0, 1e12, "a number", above=True)]


@dataclass(frozen=True)
class TaskOptions:
    """What patches pay, and how long everything takes."""

    first: tuple[str, ...] | None = None
    """what the first harvest of each kind pays, as kind=number"""
    drop: Above = 1.0
    """by how much each further harvest pays less"""
    travel: tuple[str, ...] | None = None
    """the travel time of each environment, as environment=number"""
    harvest: Above = 1.0
    """the time of a harvest"""
    time_unit: str = ""
    """the unit of time, for tables and figures"""
    reward_unit: str = ""
    """the unit of reward, for tables and figures"""


@dataclass(frozen=True)
class ColumnOptions:
    """What the columns of the file are called."""

    subject: str = "subject"
    """column that tells the animals apart"""
    kind: str = "kind"
    """column with the kind of patch"""
    environment: str = "environment"
    """column with the environment"""
    harvests: str = "harvests"
    """column with the number of harvests before leaving"""
    separator: str = ","
    """what stands between the columns"""


def forage(
    file: Annotated[str, tyro.conf.Positional],
    model: tuple[str, ...] = ("theorem", "theorem-bias", "thresholds", "quasi-hyperbolic"),
    task: Annotated[TaskOptions, UNPREFIXED] = TaskOptions(),
    columns: Annotated[ColumnOptions, UNPREFIXED] = ColumnOptions(),
    starts: Count = 4,
    out: Path = Path("out"),
) -> None:
    """Fits models of patch leaving to a table of visits, one row each.

    Args:
        file: a CSV file with one row a visit, or `rats` for the data that come with the package
        model: names of models; an unknown name lists all of them
        task: what patches pay, and how long everything takes
        columns: what the columns of the file are called
        starts: searches for each maximum of the likelihood
        out: folder of all runs; the results go to forage/ in it
    """
    from rich.console import Console
    from rich.table import Table

    from wane import foraging
    from wane.foraging.overview import require_writable, write_overview

    folder = out / "forage" / Path(file).stem
    require_writable(folder)
    models = [foraging.find_model(name) for name in model]
    data = foraging.rats() if file == "rats" else _read(file, task, columns)
    compared = write_overview(data, models, folder, starts=starts, source=file)
    table = Table("model", "parameters", "log-likelihood", "AIC", "above the best", title=repr(data))
    for row in compared.table.itertuples():
        table.add_row(
            str(row.model), f"{row.parameters}", f"{row.log_likelihood:.1f}", f"{row.aic:.1f}", f"{row.delta_aic:.1f}"
        )
    console = Console(markup=False)
    console.print(table)
    console.print(f"results: {folder}", soft_wrap=True, highlight=False)


def _read(file: str, task: TaskOptions, columns: ColumnOptions) -> Any:
    """Returns the visits of a file. Raises UsageError if the task is not described, and ValueError for bad entries."""
    from wane import foraging

    if not task.first or not task.travel:
        raise UsageError(
            "name what patches pay and how far apart they are, for example --first low=60 --travel rich=10"
        )
    pays, away = _numbers(task.first, "--first"), _numbers(task.travel, "--travel")
    units = dict(time_unit=task.time_unit, reward_unit=task.reward_unit)
    names = {name: given for name, given in asdict(columns).items() if name != "separator"}
    try:
        described = foraging.Task.linear(pays, task.drop, away, harvest=task.harvest, **units)
        return foraging.from_stays(file, described, patches="fresh", columns=names, separator=columns.separator)
    except ValueError as error:
        raise ValueError(_as_options(str(error))) from error


def _as_options(message: str) -> str:
    """Returns a message of `from_stays` with the command's options in place of the function's arguments."""
    for label, option in (("rewards", "--first"), ("travel", "--travel")):
        message = message.replace(f"name it in the task's {label}", f"name it with {option}")
    message = re.sub(r'columns=\{"(\w+)": (".*?")\}', r"--\1 \2", message)
    return re.sub(r'\b(\w+)=(".*?")', r"--\1 \2", message)


def _numbers(words: tuple[str, ...], option: str) -> dict[str, float]:
    """Returns the numbers in words such as low=60. Raises UsageError for any other word, and for a repeated name."""
    found = {}
    for word in words:
        name, _, number = word.rpartition("=")
        if name in found:
            raise UsageError(f"{option} {word}: {name} was given before, as {found[name]:g}; give each name once")
        try:
            found[name] = float(number)
        except ValueError:
            name = ""
        if not name:
            raise UsageError(f"{option} {word}: a name and a number are needed, such as {option} low=60")
    return found
