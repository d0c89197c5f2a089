"""Foraging: reads an animal's tracks or visits, finds the best times to leave patches, and fits models of the animal.

`from_stays`, `from_events` and `from_track` read data. `optimal_harvests` solves a task exactly. `fit` and `compare`
find which model explains the animal, and `recover` tests whether the model's parameters can be found from such data.
The functions on trajectory tables find when an agent or an animal leaves a site, when the marginal value theorem would
leave it, and how a wrong λ changes that time. A name loads its module when it is used for the first time.
"""

from typing import TYPE_CHECKING

from wane.extras import require
from wane.lazy import attach

if TYPE_CHECKING:
    from wane.foraging import figures
    from wane.foraging.bayes import hierarchical
    from wane.foraging.choices import MapChooser, MapModel, Moves, fit_moves, read_moves
    from wane.foraging.comparison import Comparison, compare, cross_validate, leaving_chances
    from wane.foraging.confusions import Confusion, confusion
    from wane.foraging.discounting import Discount, Exponential, HyperbolicDiscount, QuasiHyperbolic, TwoExponentials
    from wane.foraging.empirical import empirical_kernel, empirical_policy
    from wane.foraging.example import rats, rats_task
    from wane.foraging.fitting import Fit, fit
    from wane.foraging.leaving import bouts, leaving_times
    from wane.foraging.map_planner import MapPlanner
    from wane.foraging.models import (
        ConstantHazard,
        HarvestCount,
        LearnedAverage,
        LearningModel,
        MarginalValue,
        Model,
        Parameter,
        RewardThreshold,
    )
    from wane.foraging.optimal import optimal_leaving_times, optimal_table, overstaying
    from wane.foraging.patch_curves import DepletionFit, compare_depletions, estimate_task, fit_depletion, gain_curve
    from wane.foraging.planners import MODELS, Belief, CurveBelief, LinearDrop, Planner, find_model
    from wane.foraging.recording import Recording, from_events, join
    from wane.foraging.recovery import Recovery, recover, simulate
    from wane.foraging.rule import leaving_difference, marginal_values, mvt_leaving_times, summarise, threshold
    from wane.foraging.task import Task
    from wane.foraging.theorem import (
        continuous_leaving_times,
        harvests_beside_optimum,
        long_run_rate,
        optimal_harvests,
    )
    from wane.foraging.track import Circle, Cleaning, from_track
    from wane.foraging.trajectory import check_table, read_csv, table_from_rollout
    from wane.foraging.visits import PatchVisits, from_stays

__all__ = [
    "MODELS",
    "Belief",
    "Circle",
    "Cleaning",
    "Comparison",
    "Confusion",
    "ConstantHazard",
    "CurveBelief",
    "DepletionFit",
    "Discount",
    "Exponential",
    "Fit",
    "HarvestCount",
    "HyperbolicDiscount",
    "LearnedAverage",
    "LearningModel",
    "LinearDrop",
    "MapChooser",
    "MapModel",
    "MapPlanner",
    "MarginalValue",
    "Model",
    "Moves",
    "Parameter",
    "PatchVisits",
    "Planner",
    "QuasiHyperbolic",
    "Recording",
    "Recovery",
    "RewardThreshold",
    "Task",
    "TwoExponentials",
    "bouts",
    "check_table",
    "compare",
    "compare_depletions",
    "confusion",
    "continuous_leaving_times",
    "cross_validate",
    "empirical_kernel",
    "empirical_policy",
    "estimate_task",
    "figures",
    "find_model",
    "fit",
    "fit_depletion",
    "fit_moves",
    "from_events",
    "from_stays",
    "from_track",
    "gain_curve",
    "harvests_beside_optimum",
    "hierarchical",
    "join",
    "leaving_chances",
    "leaving_difference",
    "leaving_times",
    "long_run_rate",
    "marginal_values",
    "mvt_leaving_times",
    "optimal_harvests",
    "optimal_leaving_times",
    "optimal_table",
    "overstaying",
    "rats",
    "rats_task",
    "read_csv",
    "read_moves",
    "recover",
    "simulate",
    "summarise",
    "table_from_rollout",
    "threshold",
]

require("foraging", "wane.foraging")
__getattr__, __dir__ = attach(
    __name__,
    renamed={
        "NAMED": "wane.foraging.MODELS",
        "draw": "wane.foraging.figures",
        "named_model": "wane.foraging.find_model",
    },
)
