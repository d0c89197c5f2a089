"""An overview of visits: fits and compares models, and writes tables and figures into a folder."""

import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

import wane
from wane.files import checksum, write, write_json
from wane.foraging import figures
from wane.foraging.arguments import check_arguments
from wane.foraging.comparison import Comparison, compare
from wane.foraging.models import Model
from wane.foraging.theorem import harvests_beside_optimum
from wane.foraging.visits import PatchVisits
from wane.settings import Count

LONGEST = 100
"""The most bytes of an environment's name in the name of a figure: file systems allow 255 for the whole."""


@check_arguments
def write_overview(
    data: PatchVisits, models: Sequence[Model], folder: Path, *, starts: Count = 4, source: str = ""
) -> Comparison:
    """Fits and compares the models, and writes tables, figures and run.json into a folder, which is created.

    The tables are CSV files, which open in any program: harvests (with the optimum), models and estimates. The figures
    show harvests, the comparison, and the survival curves of the best model, one figure for each environment. Raises
    ValueError if nothing can be written there, before anything is fitted.
    """
    require_writable(folder)
    compared = compare(data, models, blocks=0, starts=starts)
    best = compared.fits[compared.table["model"].iloc[0]]
    estimates = [found.estimates.assign(model=name) for name, found in compared.fits.items()]
    tables = {
        "harvests": harvests_beside_optimum(data),
        "models": compared.table,
        "estimates": pd.concat(estimates, ignore_index=True),
    }
    pictures = {"harvests": figures.draw_harvests(data), "models": figures.draw_comparison(compared)}
    for environment, word in file_words(data.table["environment"].unique()).items():
        pictures[f"survival-{word}"] = figures.draw_survival(best, environment)
    folder.mkdir(parents=True, exist_ok=True)
    written = [write(folder / f"{name}.csv", partial(table.to_csv, index=False)) for name, table in tables.items()]
    for name, picture in pictures.items():
        path = folder / f"figure-{name}.png"
        written.append(write(path, lambda draft, picture=picture: picture.savefig(draft, dpi=150, format="png")))
    record = {
        "source": source,
        "data": repr(data),
        "notes": list(data.notes),
        "units": {"time": data.task.time_unit, "reward": data.task.reward_unit},
        "models": [model.name for model in models],
        "best": best.model.name,
        "versions": {"wane": wane.__version__},
        "files": {path.name: checksum(path) for path in written},
    }
    write_json(folder / "run.json", record)
    return compared


def require_writable(folder: Path) -> None:
    """Raises ValueError unless a folder can be made, or can be written into where it is there already."""
    place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not place.is_dir():
        raise ValueError(f"results go to the folder {folder}, but {place} is a file: name another folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise ValueError(f"results go to the folder {folder}, but {place} cannot be written into: name another folder")


def file_words(labels: Iterable[Any]) -> dict[Any, str]:
    """A word for each label that can be part of a file's name, different for different labels.

    >>> file_words(["rich", "rich/poor", "rich:poor"])
    {'rich': 'rich', 'rich/poor': 'rich_poor', 'rich:poor': 'rich_poor-2'}
    """
    words: dict[Any, str] = {}
    for label in labels:
        word = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in str(label))
        word = word.encode()[:LONGEST].decode(errors="ignore")
        # Some file systems do not tell upper and lower case apart.
        taken = {each.lower() for each in words.values()}
        numbered = (f"{word}-{n}" for n in range(2, len(taken) + 3))
        words[label] = word if word.lower() not in taken else next(n for n in numbered if n.lower() not in taken)
    return words
