"""TwoRooms with rewards that grow back: Qλ-learning under λ^(n / (0.1 m)), m steps after the last of n visits."""

from dataclasses import dataclass

from wane.experiments.experiment import Experiment
from wane.experiments.q_lambda import CLAIMS, QLambda, draw, films, learn
from wane.regrowth import TimeElapsed
from wane.worlds.catalog import two_rooms
from wane.worlds.world import World


@dataclass(frozen=True)
class ReplenishingQ(QLambda):
    seeds: int = 5
    """independent repetitions, numbered from 0"""
    rate: float = 0.1
    """how fast rewards grow back"""

    @property
    def world(self) -> World:
        return two_rooms(depletion=TimeElapsed(self.lam, self.rate), discount=self.discount)


EXPERIMENT = Experiment(
    name="replenishing-q",
    title="Learning where rewards grow back",
    source="appendix J, figure J.2",
    says=(
        "The λ representation does not describe rewards that grow back with the time since the last visit. Where they "
        "grow back slowly, so that little deviates from plain wearing off, Qλ-learning is tried all the same."
    ),
    quick=ReplenishingQ(seeds=64),
    paper=ReplenishingQ(),
    compute=learn,
    draw=draw,
    films=films,
    claims=CLAIMS,
    differs=(
        "The paper has five runs; the quick scale has 64. No optimum is drawn: it would be over visits and times of "
        "every site."
    ),
    cost="less than one hour on a laptop (2020, quad-core)",
)
