"""Reinforcement learning when rewards wear off.

A name loads its module when it is used for the first time, so `import wane` itself takes milliseconds.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from wane.lazy import attach

if TYPE_CHECKING:
    from wane import agents, exact, foraging, lab, testing, worlds
    from wane.checks import jit_checks
    from wane.depletion import Depletion, Diminishing, FirstVisits, Geometric, Hyperbolic, Listed, PowerLaw
    from wane.exact.bellman import iterate
    from wane.exact.features import lambda_features
    from wane.exact.local import LocalValues, evaluate_local
    from wane.exact.occupancy import equivalent_rewards, from_lambda_representation, lambda_derivative
    from wane.exact.patches import patch_representation
    from wane.exact.planning import optimum
    from wane.exact.representations import (
        Representation,
        evaluate,
        first_occupancy_representation,
        lambda_representation,
        n_occupancy_representation,
        representation,
        successor_representation,
    )
    from wane.exact.solve import InaccurateSolve
    from wane.explorer import explore
    from wane.function_kernel import FunctionKernel, FunctionMDP
    from wane.mdp import MDP
    from wane.regrowth import EligibilityTrace, TimeElapsed, TotalTime

__version__ = "0.3.0"

__all__ = [
    "MDP",
    "Depletion",
    "Diminishing",
    "EligibilityTrace",
    "FirstVisits",
    "FunctionKernel",
    "FunctionMDP",
    "Geometric",
    "Hyperbolic",
    "InaccurateSolve",
    "Listed",
    "LocalValues",
    "PowerLaw",
    "Representation",
    "TimeElapsed",
    "TotalTime",
    "agents",
    "equivalent_rewards",
    "evaluate",
    "evaluate_local",
    "exact",
    "explore",
    "first_occupancy_representation",
    "foraging",
    "from_lambda_representation",
    "iterate",
    "jit_checks",
    "lab",
    "lambda_derivative",
    "lambda_features",
    "lambda_representation",
    "n_occupancy_representation",
    "optimum",
    "patch_representation",
    "representation",
    "successor_representation",
    "testing",
    "worlds",
]

__getattr__, __dir__ = attach(__name__, renamed={"experiments": "wane.lab"})

if sys.modules.get("gymnasium"):
    # Users of Gymnasium expect the ids of our environments after `import wane`; `wane.worlds.gym` registers them.
    import_module("wane.worlds.gym")
