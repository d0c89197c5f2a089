"""TwoRooms with rewards that grow back: Qλ-learning under λ^(n / (0.1 m)), m steps after the last of n visits."""

from dataclasses import dataclass

from wane.depletion import Depletion
from wane.experiments.common.learning import Learning, draw, films, seeded
from wane.experiments.common.learning_claims import claims
from wane.experiments.contract import Experiment
from wane.regrowth import TimeElapsed
from wane.settings import Count, Positive


@dataclass(frozen=True)
class ReplenishingQ(Learning):
    """Settings of learning where rewards grow back."""

    seeds: Count = 5
    """independent repetitions, numbered from 0"""
    rate: Positive = 0.1
    """how fast rewards grow back"""

    @property
    def depletion(self) -> Depletion:
        """Rewards grow back with the time since the last visit."""
        return TimeElapsed(self.lam, self.rate)


EXPERIMENT = Experiment(
    name="replenishing-q",
    title="Learning where rewards grow back",
    source="appendix J, figure J.2",
    summary=(
        "The λ representation does not describe rewards that grow back with the time since the last visit. The paper "
        "tries Qλ-learning all the same where rewards grow back so slowly that they nearly wear off for good."
    ),
    quick=ReplenishingQ(seeds=64),
    paper=ReplenishingQ(seeds=256),
    seeded=seeded,
    draw=draw,
    films=films,
    claims=claims("appendix J, figure J.2"),
    differences=(
        "The paper has five runs. We have 256, and 64 at the quick scale. No optimum is drawn: it would be one over "
        "the visits and times of every site."
    ),
    paper_cost="less than one hour on a laptop (2020, quad-core)",
)
