"""The experiments: the paper's figures and tables, and questions beyond the paper, each in a file.

`FOLDERS` is the registry: a new experiment of this package needs one more line in it. `find` loads an experiment.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wane.experiments import own
from wane.experiments.scales import SCALES, Scale
from wane.lazy import attach
from wane.names import UnknownName, unknown

if TYPE_CHECKING:
    from wane.experiments.common.judging import exceeds, matches, stays_below
    from wane.experiments.common.plots import plot_learning
    from wane.experiments.contract import Claim, Experiment, Finding, Loop, NotTested, Seeded, Settings, seed_keys

FOLDERS: dict[str, Literal["exact", "tabular", "networks", "foraging"]] = {
    "diminishing": "exact",
    "representations": "exact",
    "policy-evaluation": "tabular",
    "grid-features": "networks",
    "dp-convergence": "exact",
    "toy": "tabular",
    "q-lambda": "tabular",
    "a2c": "networks",
    "gpi-tabular": "tabular",
    "gpi-noisy": "tabular",
    "gpi-pixels": "networks",
    "lambda-features-curves": "networks",
    "replenishing": "exact",
    "replenishing-q": "tabular",
    "n-occupancy": "exact",
    "lambda-vs-gamma": "exact",
    "errata": "exact",
    "fb-lambda-table": "networks",
    "fb-learn-lambda": "networks",
    "fb-asymmetric": "networks",
    "lambda-operator": "tabular",
    "learned-operator": "networks",
    "mvt": "networks",
    "sac": "networks",
    "sac-flops": "networks",
    "sac-depleting": "networks",
    "rats": "foraging",
    "fb-zero-shot": "networks",
}
"""The folder of every experiment, in the order of the report. The module has the same name with "_" for "-"."""
NAMES = tuple(FOLDERS)
"""The names of all experiments, in the order of the report."""
LEARNED = tuple(name for name, folder in FOLDERS.items() if folder == "networks")
"""Experiments that train networks, which take minutes each."""
TABULAR = tuple(name for name in NAMES if name not in LEARNED)
"""All other experiments, which take seconds each."""
KEPT = Path(__file__).parents[1] / "results"
"""Runs of the paper's scale that come with the package; those with networks were made on a GPU."""

__all__ = [
    "FOLDERS",
    "KEPT",
    "LEARNED",
    "NAMES",
    "SCALES",
    "TABULAR",
    "Claim",
    "Experiment",
    "Finding",
    "Loop",
    "NotTested",
    "Scale",
    "Seeded",
    "Settings",
    "exceeds",
    "find",
    "matches",
    "module_of",
    "plot_learning",
    "seed_keys",
    "stays_below",
]

__getattr__, __dir__ = attach(__name__)


def module_of(name: str) -> str:
    """Returns the name of the module of an experiment: of this package, or your own "package.module" or "./file.py".

    Raises UnknownName for a name that is neither, and for a file that does not exist.
    """
    if name in FOLDERS:
        return f"wane.experiments.{FOLDERS[name]}.{name.replace('-', '_')}"
    if own.is_file_name(name):
        return own.module_name_of(own.noted(name))
    if not re.fullmatch(r"\w+(\.\w+)+", name):
        raise unknown("experiment", name, FOLDERS, "; or name one of yours: ./file.py, or package.module")
    return name


def find(name: str) -> "Experiment":
    """Loads an experiment: one of this package by its name, or the `EXPERIMENT` of your own module or file.

    Raises UnknownName if there is no such experiment.
    """
    from wane.experiments.contract import Experiment

    module_name = module_of(name)
    try:
        module = own.load(own.noted(name)) if own.is_file_name(name) else import_module(module_name)
    except ModuleNotFoundError as error:
        raise UnknownName(f"experiment {name!r}: {error}; is its folder on PYTHONPATH?") from error
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment):
        raise UnknownName(f"experiment {name!r}: the module has no EXPERIMENT that is a wane.experiments.Experiment")
    if own.is_file_name(name):
        own.check_name(name, experiment.name, FOLDERS)
    return experiment
