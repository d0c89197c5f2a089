"""Does a diminishing critic help where the reward does diminish? λ-SAC and SAC on a point mass whose sites wear off.

The paper tests λ-SAC only where rewards do not wear off. Here a point mass collects rewards from three sites
(`wane.worlds.control.point_mass`). All kinds of agents learn three tasks: sites that do not wear off, sites that wear
off without the agent being told what remains, and sites that wear off with the agent being told. The tables are those
of the experiment `sac`, with these labels as tasks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from wane.depletion import Geometric
from wane.lab import Claim, Experiment, Loop, Tables, plots
from wane.lab.tables import select
from wane.settings import Lambda
from wane.worlds.control import ControlTask
from wane_paper.networks import sac
from wane_paper.networks.sac import earns_more, matches
from wane_paper.networks.sac_learning import ADAPTIVE, TWO, Kinds, learn
from wane_paper.texts import texts

POINT = "wane/PointMass-v0"
STATIONARY, HIDDEN, TOLD = "stationary", "depleting", "depleting, told"


@dataclass(frozen=True)
class Wearing(Kinds):
    """Settings of sac-depleting."""

    lam: Lambda = 0.9
    """what a step at a site leaves of its reward"""

    def places(self) -> dict[str, ControlTask]:
        """The three tasks."""
        wearing = Geometric(self.lam)
        return {
            STATIONARY: ControlTask(POINT),
            HIDDEN: ControlTask(POINT, depletion=wearing),
            TOLD: ControlTask(POINT, depletion=wearing, remaining=True),
        }


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


EXPERIMENT = Experiment(
    **texts("sac-depleting"),
    quick=Wearing(seeds=5),
    paper=Wearing(seeds=16),
    seeded=seeded,
    draw=draw,
    films=sac.films,
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
        Claim("told", "Where what remains is told, λ-SAC matches SAC with two critics.", matches(TOLD, ADAPTIVE, TWO)),
    ),
    double_precision=False,
)
