"""The paper's figures and tables, one file each, and some beyond: settings, computation, picture, claims."""

import re
from importlib import import_module

from wane.experiments.experiment import Claim, Experiment, Finding, Loop, Seeded, Settings

TABULAR = (
    "diminishing",
    "representations",
    "policy-evaluation",
    "dp-convergence",
    "toy",
    "q-lambda",
    "gpi-tabular",
    "gpi-noisy",
    "replenishing",
    "replenishing-q",
    "n-occupancy",
    "lambda-vs-gamma",
    "regret",
    "errata",
    "any-depletion",
)
"""seconds each, with tables"""
LEARNED = ("fb-lambda-table", "fb-learn-lambda", "fb-asymmetric", "mvt", "fb-zero-shot")
"""minutes each, with networks"""
NAMES = TABULAR + LEARNED
"""in the order of the report; each is the module of that name with _ for -"""

__all__ = [
    "LEARNED",
    "NAMES",
    "TABULAR",
    "Claim",
    "Experiment",
    "Finding",
    "Loop",
    "Seeded",
    "Settings",
    "find",
]


def find(name: str) -> Experiment:
    """An experiment by its name, or one of your own as "package.module", whose `EXPERIMENT` it is."""
    if name not in NAMES and not re.fullmatch(r"\w+(\.\w+)+", name):
        raise ValueError(
            f"unknown experiment {name!r}: there are {', '.join(NAMES)}; or name a module of yours, package.module"
        )
    path = name if name not in NAMES else f"wane.experiments.{name.replace('-', '_')}"
    try:
        module = import_module(path)
    except ModuleNotFoundError as error:
        raise ValueError(f"experiment {name!r}: {error}; is its folder on PYTHONPATH?") from error
    if not isinstance(getattr(module, "EXPERIMENT", None), Experiment):
        raise ValueError(f"experiment {name!r}: the module has no EXPERIMENT that is a wane.experiments.Experiment")
    return module.EXPERIMENT
