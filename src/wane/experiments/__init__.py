"""The paper's figures and tables, one file each, and some beyond: settings, computation, picture, claims."""

from importlib import import_module

from wane.experiments.experiment import Claim, Experiment, Finding, Loop, Seeded, Settings

NAMES = (
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
"""in the order of the report; each is the module of that name with _ for -"""

__all__ = ["NAMES", "Claim", "Experiment", "Finding", "Loop", "Seeded", "Settings", "find"]


def find(name: str) -> Experiment:
    """An experiment by its name, or one of your own as "package.module", whose `EXPERIMENT` it is."""
    if name not in NAMES and "." not in name:
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
