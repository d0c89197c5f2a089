"""The paper's first figure: what a site pays against the number of earlier visits, for several λ."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from wane.depletion import Geometric
from wane.lab import Claim, Experiment, Finding, Settings, Tables, plots
from wane.lab.tables import frame
from wane_paper.common.settings import Drawn, Lambdas
from wane_paper.texts import texts


@dataclass(frozen=True)
class DiminishingSettings(Settings):
    """Settings of diminishing."""

    lambdas: Lambdas = (0.0, 0.25, 0.5, 0.75, 1.0)
    """the fractions of a reward that a visit leaves"""
    visits: Drawn = 10
    """the last visit that is drawn"""


def fixed(settings: DiminishingSettings) -> Tables:
    """Returns what each visit pays, for every λ."""
    visits = np.arange(settings.visits + 1)
    worth = Geometric(np.array(settings.lambdas)[:, None]).worth(visits)
    return {"rewards": frame(worth, "reward", lam=settings.lambdas, earlier_visits=visits)}


def draw(settings: DiminishingSettings, tables: Tables) -> Figure:
    """Draws one curve for each λ."""
    figure = plots.figure(5.0, 3.4)
    ax = plots.tidy(figure.subplots(), "Diminishing rewards", "earlier visits n", "reward λⁿ (r̄ = 1)")
    for lam, rows in tables["rewards"].groupby("lam"):
        ax.plot(rows["earlier_visits"], rows["reward"], "o-", ms=4, color=plots.colour(lam), label=f"λ = {lam:g}")
    ax.legend(frameon=False)
    return figure


def falls_by_lambda(settings: DiminishingSettings, tables: Tables) -> Finding:
    """Tests that every visit pays λ times what the previous visit paid."""
    rewards = tables["rewards"].pivot_table(index="earlier_visits", columns="lam", values="reward")
    previous, following = rewards.iloc[:-1].to_numpy(), rewards.iloc[1:].to_numpy()
    deviation = float(np.abs(following - previous * rewards.columns.to_numpy()).max())
    holds = deviation < 1e-12 and bool(np.all(rewards.iloc[0] == 1))
    return Finding(holds, deviation, None, "largest deviation from λ times the visit before")


EXPERIMENT = Experiment(
    **texts("diminishing"),
    quick=DiminishingSettings(),
    paper=DiminishingSettings(),
    fixed=fixed,
    draw=draw,
    claims=(
        Claim(
            "falls-by-lambda",
            "The first visit pays r̄, and every further visit pays λ times the visit before it.",
            falls_by_lambda,
            kind="identity",
        ),
    ),
)
