"""The paper's first figure: what a site pays, against how often it was visited, for several λ."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wane.depletion import Geometric
from wane.experiments import plots
from wane.experiments.experiment import Claim, Experiment, Finding, Loop, Settings


@dataclass(frozen=True)
class Diminishing(Settings):
    lambdas: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    visits: int = 10
    """the last visit that is drawn"""


def compute(settings: Diminishing, seeds: Sequence[int], loop: Loop) -> pd.DataFrame:
    visits = np.arange(settings.visits + 1)
    worth = Geometric(np.array(settings.lambdas)[:, None]).worth(visits)
    index = pd.MultiIndex.from_product([settings.lambdas, visits], names=["lam", "visit"])
    return pd.DataFrame({"reward": np.ravel(worth)}, index=index).reset_index()


def draw(settings: Diminishing, table: pd.DataFrame) -> Figure:
    figure = plots.figure(5.0, 3.4)
    ax = plots.tidy(figure.subplots(), "Diminishing rewards", "earlier visits n", "reward λⁿ (r̄ = 1)")
    for lam, rows in table.groupby("lam"):
        ax.plot(rows["visit"], rows["reward"], "o-", ms=4, color=plots.colour(lam), label=f"λ = {lam:g}")
    ax.legend(frameon=False)
    return figure


def falls_by_lambda(settings: Diminishing, table: pd.DataFrame) -> Finding:
    rewards = table.pivot_table(index="visit", columns="lam", values="reward")
    first, rest = rewards.iloc[:-1].to_numpy(), rewards.iloc[1:].to_numpy()
    off = np.abs(rest - first * rewards.columns.to_numpy()).max()
    return Finding(
        bool(off < 1e-12 and np.all(rewards.iloc[0] == 1)), off, None, "largest deviation from λ times before"
    )


EXPERIMENT = Experiment(
    name="diminishing",
    title="Rewards that wear off",
    source="figure 1.1",
    says="Each visit leaves a fraction λ of what a site pays: λ = 1 is an ordinary reward, λ = 0 pays once.",
    quick=Diminishing(),
    paper=Diminishing(),
    compute=compute,
    draw=draw,
    claims=(
        Claim(
            "falls-by-lambda", "The first visit pays r̄, every further one λ times the visit before.", falls_by_lambda
        ),
    ),
    cost="none stated",
)
