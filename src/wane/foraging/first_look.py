"""A first look at visits: fits and compares models, and writes tables and figures into a folder."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd

import wane
from wane.files import checksum, write, write_json
from wane.foraging import figures
from wane.foraging.charnov import harvests_beside_optimum
from wane.foraging.comparison import Comparison, compare
from wane.foraging.models import Model
from wane.foraging.visits import PatchVisits


def write_first_look(
    data: PatchVisits, models: Sequence[Model], folder: Path, *, starts: int = 4, source: str = ""
) -> Comparison:
    """Fits and compares the models, and writes tables, figures and run.json into a folder, which is created.

    The tables are CSV files, which open in any program: harvests (with the optimum), models and estimates. The figures
    show harvests, the comparison, and the survival curves of the best model, one figure for each environment.
    """
    compared = compare(data, models, blocks=0, starts=starts)
    best = compared.fits[compared.table["model"].iloc[0]]
    estimates = [found.estimates.assign(model=name) for name, found in compared.fits.items()]
    tables = {
        "harvests": harvests_beside_optimum(data),
        "models": compared.table,
        "estimates": pd.concat(estimates, ignore_index=True),
    }
    pictures = {"harvests": figures.draw_harvests(data), "models": figures.draw_comparison(compared)}
    for environment in data.table["environment"].unique():
        pictures[f"survival-{environment}"] = figures.draw_survival(best, environment)
    folder.mkdir(parents=True, exist_ok=True)
    written = [write(folder / f"{name}.csv", partial(table.to_csv, index=False)) for name, table in tables.items()]
    for name, picture in pictures.items():
        path = folder / f"figure-{name}.png"
        written.append(write(path, lambda draft, picture=picture: picture.savefig(draft, dpi=150, format="png")))
    record = {
        "source": source,
        "data": repr(data),
        "notes": list(data.notes),
        "models": [model.name for model in models],
        "best": best.model.name,
        "versions": {"wane": wane.__version__},
        "files": {path.name: checksum(path) for path in written},
    }
    write_json(folder / "run.json", record)
    return compared
