"""`wane forage FILE.csv`: a first look at an animal's visits, from a file to fitted models and figures.

Nothing heavy is imported before the command runs.
"""

import re
from pathlib import Path
from typing import Annotated, Any

import tyro

from wane.runs.errors import UsageError
from wane.settings import Count, Range

Above = Annotated[float, Range(0, 1e12, "a number", above=True)]


def forage(
    file: Annotated[str, tyro.conf.Positional],
    model: tuple[str, ...] = ("theorem", "theorem-bias", "thresholds", "quasi-hyperbolic"),
    first: tuple[str, ...] | None = None,
    drop: Above = 1.0,
    travel: tuple[str, ...] | None = None,
    harvest: Above = 1.0,
    subject: str = "subject",
    kind: str = "kind",
    environment: str = "environment",
    harvests: str = "harvests",
    separator: str = ",",
    starts: Count = 4,
    out: Path = Path("out"),
) -> None:
    """Fits models of patch leaving to a table of visits, one row each.

    Args:
        file: a CSV file with one row a visit, or `rats` for the data that come with the package
        model: names of models; an unknown name lists all of them
        first: what the first harvest of each kind pays, as kind=number
        drop: by how much each further harvest pays less
        travel: the travel time of each environment, as environment=number
        harvest: the time of a harvest
        subject: column that tells the animals apart
        kind: column with the kind of patch
        environment: column with the environment
        harvests: column with the number of harvests before leaving
        separator: what stands between the columns
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
    if file == "rats":
        data = foraging.rats()
    else:
        if not first or not travel:
            raise UsageError(
                "name what patches pay and how far apart they are, for example --first low=60 --travel rich=10"
            )
        pays, away = _numbers(first, "--first"), _numbers(travel, "--travel")
        names: dict[str, Any] = dict(subject=subject, kind=kind, environment=environment, harvests=harvests)
        try:
            task = foraging.Task.linear(pays, drop, away, harvest=harvest)
            data = foraging.from_stays(file, task, patches="fresh", separator=separator, **names)
        except ValueError as error:
            raise ValueError(_as_options(str(error))) from error
    compared = write_overview(data, models, folder, starts=starts, source=file)
    table = Table("model", "parameters", "log-likelihood", "AIC", "above the best", title=repr(data))
    for row in compared.table.itertuples():
        table.add_row(
            str(row.model), f"{row.parameters}", f"{row.log_likelihood:.1f}", f"{row.aic:.1f}", f"{row.delta_aic:.1f}"
        )
    console = Console(markup=False)
    console.print(table)
    console.print(f"results: {folder}", soft_wrap=True, highlight=False)


def _as_options(message: str) -> str:
    """Returns a message of `from_stays` with the command's options in place of the function's arguments."""
    for label, option in (("rewards", "--first"), ("travel", "--travel")):
        message = message.replace(f"name it in the task's {label}", f"name it with {option}")
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
