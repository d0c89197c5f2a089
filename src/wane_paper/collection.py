"""The experiments: the paper's figures and tables, and questions beyond the paper, each in a file.

`FOLDERS` is the list: a new experiment of this package needs one more line in it.
"""

from pathlib import Path
from typing import Literal

from wane.lab.registry import Collection
from wane_paper.places import MISSING, PLACES

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
RESULTS = Path(__file__).with_name("results")
"""Runs of the paper's scale that come with the package; those with networks were made on a GPU."""

COLLECTION = Collection(
    modules={name: f"wane_paper.{folder}.{name.replace('-', '_')}" for name, folder in FOLDERS.items()},
    results=RESULTS,
    places=PLACES,
    missing=MISSING,
    learned=frozenset(LEARNED),
)
"""What the entry point "paper" of the group "wane.experiments" leads to."""
