"""Does a diminishing critic help where the reward does diminish? λ-SAC and SAC on a point mass whose sites wear off.

The paper tests λ-SAC only where rewards do not wear off. Here a point mass collects rewards from three sites
(`wane.worlds.control.point_mass`). All kinds of agents learn three tasks: sites that do not wear off, sites that wear
off without the agent being told what remains, and sites that wear off with the agent being told. The tables are those
of the experiment `sac`, with these labels as tasks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from matplotlib.figure import Figure

from wane.agents.sac import Config
from wane.depletion import Geometric
from wane.lab import plots
from wane.lab.contract import Claim, Experiment, Loop, Seeded, Tables
from wane.lab.tables import select
from wane.settings import DISTINCT, Count, Lambda
from wane.worlds.control import ControlTask
from wane_paper.networks import sac
from wane_paper.networks.sac_claims import earns_more, learns, matches
from wane_paper.networks.sac_learning import ADAPTIVE, KINDS, QUICK, SIX, TWO, Agent, learn

POINT = "wane/PointMass-v0"
STATIONARY, HIDDEN, TOLD = "stationary", "depleting", "depleting, told"


@dataclass(frozen=True)
class Wearing(Seeded):
    """Settings of sac-depleting."""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = KINDS

    seeds: Count = 5
    """independent repetitions, numbered from 0"""
    lam: Lambda = 0.9
    """what a step at a site leaves of its reward"""
    agents: Annotated[tuple[Agent, ...], DISTINCT] = SIX
    """the kinds of agents"""
    agent: Config = field(default_factory=lambda: QUICK)
    """all agents"""

    def places(self) -> dict[str, ControlTask]:
        """The three tasks."""
        wearing = Geometric(self.lam)
        return {
            STATIONARY: ControlTask(POINT),
            HIDDEN: ControlTask(POINT, depletion=wearing),
            TOLD: ControlTask(POINT, depletion=wearing, remaining=True),
        }

    @property
    def steps(self) -> list[int]:
        """The number of steps taken by the end of each epoch."""
        return [self.agent.steps * (number + 1) for number in range(self.agent.epochs)]


def seeded(settings: Wearing, seeds: Sequence[int], loop: Loop) -> Tables:
    """Returns learning curves and bandits' probabilities in all three tasks, and episodes of the agents of seed 0."""
    return learn(settings, settings.places(), seeds, loop)


def draw(settings: Wearing, tables: Tables) -> Figure:
    """Draws learning curves and the probabilities of the bandit's arms for each task."""
    figure = plots.figure(13.0, 6.8)
    grid = figure.subplots(2, 3)
    for column, label in zip(grid.T, (STATIONARY, HIDDEN, TOLD), strict=True):
        curves = select(tables["curves"], task=label)
        sac.draw_returns(column[0], curves)
        plots.tidy(column[0], f"{label} ({curves['seed'].nunique()} seeds, ± s.e.)", "step", "return, mean action")
        sac.draw_arms(column[1], select(tables["arms"], task=label))
    return figure


def films(settings: Wearing, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """Returns films of an episode of SAC with two critics and of λ-SAC, in every task."""
    return sac.films(settings, tables)


EXPERIMENT = Experiment(
    name="sac-depleting",
    title="A diminishing critic where the reward does diminish",
    source="beyond the paper",
    summary=(
        "The paper's λ-SAC gives its critic the target of a reward that wears off, in tasks where none does, to make "
        "it pessimistic. We ask whether the same critic earns more where rewards do wear off: a point mass collects "
        "from three sites, and a step at a site leaves 0.9 of its reward. The λ of the target is not that of the task: "
        "the features [s, a] are not visits to sites, the arms are 0, ½ and 1, and the bandit chooses by returns alone."
    ),
    quick=Wearing(),
    paper=Wearing(seeds=16),
    seeded=seeded,
    draw=draw,
    films=films,
    claims=(
        Claim(
            "helps",
            "Where rewards wear off, λ-SAC earns more than SAC with two critics.",
            earns_more(HIDDEN, ADAPTIVE, TWO),
        ),
        Claim(
            "lower-lambda",
            "Where rewards wear off, a fixed λ of 0.5 earns more than a fixed λ of 1.",
            earns_more(HIDDEN, "0.5-SAC", "1-SAC"),
        ),
        Claim(
            "told",
            "Where what remains is told, λ-SAC matches SAC with two critics.",
            matches(TOLD, ADAPTIVE, TWO),
        ),
        Claim("learns", "In one of the tasks, every kind of agent earns more at the end than at first.", learns),
    ),
    paper_cost="not in the paper",
    double_precision=False,
)
