"""Models that have a name, for the command line, experiments and first looks."""

from wane.depletion import Geometric
from wane.foraging.models import ConstantHazard, HarvestCount, LearnedAverage, MarginalValue, Model, RewardThreshold
from wane.foraging.planners import CurveBelief, LinearDrop, Planner
from wane.names import unknown

NAMED: dict[str, Model] = {
    "constant": ConstantHazard(),
    "count": HarvestCount(),
    "thresholds": RewardThreshold(),
    "theorem": MarginalValue(),
    "theorem-bias": MarginalValue(bias=True),
    "learned-average": LearnedAverage(),
    "optimal": Planner(),
    "exponential": Planner("exponential"),
    "hyperbolic": Planner("hyperbolic"),
    "quasi-hyperbolic": Planner("quasi-hyperbolic"),
    "two-exponential": Planner("two-exponential"),
    "drop-told": Planner(belief=LinearDrop()),
    "drop-counted": Planner(belief=LinearDrop(), sees="count"),
    "lambda-told": Planner(belief=CurveBelief(Geometric)),
    "lambda-counted": Planner(belief=CurveBelief(Geometric), sees="count"),
    "drop-told-bias": Planner(belief=LinearDrop(), bias=True),
}
"""Models by name. `drop` and `lambda` are believed depletions; see `wane.foraging.planners`."""


def named_model(name: str) -> Model:
    """The model with this name. Raises UnknownName, which suggests the nearest name, if there is none."""
    if name not in NAMED:
        raise unknown("model", name, NAMED)
    return NAMED[name]
