"""Which experiments there are: those that installed packages offer, and your own modules and files.

A package offers its experiments as one `Collection`, under an entry point of the group "wane.experiments":

    [project.entry-points."wane.experiments"]
    orchard = "my_package:EXPERIMENTS"

with `EXPERIMENTS = Collection({"orchard": "my_package.orchard"})` in it. The experiments of the paper are one of these
collections; nothing here knows them. Only installed packages are asked: no file that is read decides what is imported.
"""

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from wane import user_files
from wane.extras import MissingExtra
from wane.names import UnknownName, unknown

if TYPE_CHECKING:
    from wane.lab.contract import Experiment

GROUP = "wane.experiments"
"""The group of the entry points that are collections."""


@dataclass(frozen=True)
class Place:
    """A place of a paper, and the experiments that belong to it."""

    name: str
    what: str
    experiments: tuple[str, ...]
    claims: tuple[str, ...] = ()
    """The claims that belong to the place; all of the experiments' claims if none are named."""
    is_erratum: bool = False
    """Whether the claims say that the printed statement is wrong."""


@dataclass(frozen=True)
class Missing:
    """Something in a paper that the collection does not build or does not test, and why."""

    name: str
    what: str
    why: str
    experiment: str = ""
    """The experiment whose run fills the place, if there is one."""
    claim: str = ""
    """The claim of the experiment that fills the place; any run of the experiment does if none is named."""


@dataclass(frozen=True)
class Collection:
    """The experiments of a package, and what the report says about them together."""

    modules: Mapping[str, str]
    """The module of each experiment by the experiment's name, in the order of the report. It has an `EXPERIMENT`."""
    results: Path | None = None
    """The folder of runs that come with the package."""
    places: tuple[Place, ...] = ()
    """The places of the paper that the experiments repeat, in its order."""
    missing: tuple[Missing, ...] = ()
    """The parts of the paper that are not built or not tested."""
    learned: frozenset[str] = field(default_factory=frozenset)
    """The names of the experiments that train networks, which take minutes each."""


@cache
def collections() -> tuple[Collection, ...]:
    """Returns the collections of all installed packages, that of wane's own distribution first.

    A package whose collection cannot be imported is left out, with a warning that says why.
    """
    found: dict[str, Collection] = {}
    entries = entry_points(group=GROUP)
    for entry in sorted(entries, key=lambda entry: (not entry.dist or entry.dist.name != "wane", entry.name)):
        try:
            collection = entry.load()
        except Exception as error:
            warnings.warn(f"the experiments {entry.name!r} cannot be imported ({entry.value}): {error}", stacklevel=2)
            continue
        if isinstance(collection, Collection):
            found.setdefault(entry.value, collection)
        else:
            warnings.warn(f"the experiments {entry.name!r} are no wane.lab.Collection ({entry.value})", stacklevel=2)
    return tuple(found.values())


def modules() -> dict[str, str]:
    """Returns the module of every experiment of all collections by the experiment's name, in the order of the report.

    Of two experiments with one name, the first is meant.
    """
    found: dict[str, str] = {}
    for collection in collections():
        found |= {name: module for name, module in collection.modules.items() if name not in found}
    return found


def names() -> tuple[str, ...]:
    """Returns the names of all experiments, in the order of the report."""
    return tuple(modules())


def experiments() -> dict[str, "Experiment"]:
    """Loads all experiments, by name and in the order of the report.

    One that cannot be loaded is left out, with a warning that says why, so that it does not hide the others.
    """
    found: dict[str, Experiment] = {}
    for name in modules():
        try:
            found[name] = find(name)
        except MissingExtra:
            raise
        except Exception as error:
            text = str(error) if isinstance(error, UnknownName) else f"experiment {name!r} cannot be imported: {error}"
            warnings.warn(text, stacklevel=2)
    return found


def results() -> list[Path]:
    """Returns the folders of runs that come with installed packages."""
    return [collection.results for collection in collections() if collection.results and collection.results.is_dir()]


def module_of(name: str) -> str:
    """Returns the name of the module of an experiment: of a collection, or your own "package.module" or "./file.py".

    Raises UnknownName for a name that is neither, and for a file that does not exist.
    """
    known = modules()
    if name in known:
        return known[name]
    if user_files.is_file_name(name):
        return user_files.module_name_of(user_files.added(name))
    if not re.fullmatch(r"\w+(\.\w+)+", name):
        raise unknown("experiment", name, known, "; or name one of yours: ./file.py, or package.module")
    return name


def find(name: str) -> "Experiment":
    """Loads an experiment: one of a collection by its name, or the `EXPERIMENT` of your own module or file.

    Raises UnknownName if there is no such experiment.
    """
    from wane.lab.contract import Experiment

    module_name = module_of(name)
    is_file = user_files.is_file_name(name)
    try:
        module = user_files.load(user_files.added(name)) if is_file else import_module(module_name)
    except ModuleNotFoundError as error:
        raise UnknownName(f"experiment {name!r}: {error}; is its folder on PYTHONPATH?") from error
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment):
        raise UnknownName(f"experiment {name!r}: the module has no EXPERIMENT that is a wane.lab.Experiment")
    if is_file:
        user_files.check_name(name, experiment.name, modules())
    return experiment
