"""A data set that comes with the package: eight rats that leave patches (Kane et al. 2019, CC BY 4.0)."""

from importlib import resources
from typing import Literal

import pandas as pd

from wane.foraging.arguments import check_arguments
from wane.foraging.task import Task
from wane.foraging.visits import PatchVisits, from_stays

CITATION = (
    "Kane, Bornstein, Shenhav, Wilson, Daw and Cohen (2019). Rats exhibit similar biases in foraging and intertemporal "
    "choice tasks. eLife 8:e48429. CC BY 4.0."
)
KINDS = {1: "low", 2: "middle", 3: "high"}
ENVIRONMENTS = {1: "rich", 2: "poor"}


def rats_task() -> Task:
    """The rats' task, in seconds and µL: patches of 60, 90 and 120 µL, 8 µL less with each harvest of 10 s."""
    first = {"low": 60, "middle": 90, "high": 120}
    travel = {"rich": 10, "poor": 30}
    return Task.linear(first, 8, travel, harvest=10, time_unit="s", reward_unit="µL")


@check_arguments
def rats(last_harvest: Literal["chosen", "forced"] = "chosen") -> PatchVisits:
    """2,615 visits of eight rats to fresh patches (`wane.foraging.example.CITATION`; cite it if you use them).

    No visit has more than 7, 11 or 15 harvests of a low, middle or high patch: there the next harvest would pay less
    than 8 µL. The table does not say whether the 214 visits of this length ended by choice. "chosen" takes them as
    choices, like all others. "forced" marks them as censored, so that their last decision is not used.

        >>> rats()
        PatchVisits(2615 visits of 8 subjects, 19730 decisions, patches fresh)
        >>> rats("forced").decisions
        19516
    """
    with resources.files("wane.foraging").joinpath("data/rats_leaving.csv").open() as file:
        table = pd.read_csv(file)
    table = table.assign(patch=table["patch"].map(KINDS), env=table["env"].map(ENVIRONMENTS))
    names = dict(subject="sub", kind="patch", environment="env", harvests="leaveT")
    if last_harvest == "forced":
        table["most"] = table["patch"].map({"low": 7, "middle": 11, "high": 15})
        names["limit"] = "most"
    return from_stays(table, rats_task(), patches="fresh", columns=names)
