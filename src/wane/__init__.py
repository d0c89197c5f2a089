"""Reinforcement learning when rewards wear off."""

from wane import agents, exact, foraging, worlds
from wane.depletion import (
    Depletion,
    Diminishing,
    FirstVisits,
    Geometric,
    Hyperbolic,
    PowerLaw,
    Sequence,
)
from wane.exact.iterate import iterate
from wane.exact.occupancy import equivalent_rewards, from_lambda_representation, lambda_derivative
from wane.exact.optimum import optimum
from wane.exact.patches import patch_representation
from wane.exact.representation import (
    Representation,
    evaluate,
    first_occupancy_representation,
    lambda_representation,
    n_occupancy_representation,
    representation,
    successor_representation,
)
from wane.exact.solve import InaccurateSolve
from wane.mdp import MDP
from wane.regrowth import EligibilityTrace, TimeElapsed, TotalTime

__version__ = "0.1.0"

__all__ = [
    "MDP",
    "Depletion",
    "Diminishing",
    "EligibilityTrace",
    "FirstVisits",
    "Geometric",
    "Hyperbolic",
    "InaccurateSolve",
    "PowerLaw",
    "Representation",
    "Sequence",
    "TimeElapsed",
    "TotalTime",
    "agents",
    "equivalent_rewards",
    "evaluate",
    "exact",
    "first_occupancy_representation",
    "foraging",
    "from_lambda_representation",
    "iterate",
    "lambda_derivative",
    "lambda_representation",
    "n_occupancy_representation",
    "optimum",
    "patch_representation",
    "representation",
    "successor_representation",
    "worlds",
]
