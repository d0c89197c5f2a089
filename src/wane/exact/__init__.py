"""What can be computed instead of learned: representations, values, optima, and the paper's bounds.

The names below are what users need. Each module opens with the equations that it implements.
"""

from wane.exact import bounds, counterexamples
from wane.exact.bellman import Iteration, bellman_action_step, bellman_step, bellman_target, iterate
from wane.exact.features import (
    Eigenfunctions,
    LambdaFeatures,
    eigenfunctions,
    lambda_features,
    principal_angles,
)
from wane.exact.methods import BandedLU, DenseLU, Elimination, Krylov, SparseLU
from wane.exact.occupancy import Occupancy, equivalent_rewards, from_lambda_representation, lambda_derivative
from wane.exact.patches import PatchRepresentation, patch_representation
from wane.exact.planning import Optimum, optimum
from wane.exact.renewal import Renewal, renewal_representation
from wane.exact.replenish import Total, Trace
from wane.exact.representations import (
    Representation,
    build,
    evaluate,
    first_occupancy_representation,
    lambda_representation,
    n_occupancy_representation,
    representation,
    successor_representation,
)
from wane.exact.system import InaccurateSolve

__all__ = [
    "BandedLU",
    "DenseLU",
    "Eigenfunctions",
    "Elimination",
    "InaccurateSolve",
    "Iteration",
    "Krylov",
    "LambdaFeatures",
    "Occupancy",
    "Optimum",
    "PatchRepresentation",
    "Renewal",
    "Representation",
    "SparseLU",
    "Total",
    "Trace",
    "bellman_action_step",
    "bellman_step",
    "bellman_target",
    "bounds",
    "build",
    "counterexamples",
    "eigenfunctions",
    "equivalent_rewards",
    "evaluate",
    "first_occupancy_representation",
    "from_lambda_representation",
    "iterate",
    "lambda_derivative",
    "lambda_features",
    "lambda_representation",
    "n_occupancy_representation",
    "optimum",
    "patch_representation",
    "principal_angles",
    "renewal_representation",
    "representation",
    "successor_representation",
]
