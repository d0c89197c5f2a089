"""Three states in a row: what a wrong λ costs although what is left of every reward is known at each step.

To the left 10 that is gone after one visit (λ = 0), to the right 6 that stays (λ = 1), the agent in between. The
policies that go left and right are evaluated with each site's own λ, or with λ = 1 for both (the SR); the better one
is followed for a step; then what is left is looked up anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wane.agents import gpi
from wane.depletion import Geometric
from wane.experiments import episodes, plots
from wane.experiments.experiment import Claim, Experiment, Finding, Loop, Settings
from wane.foraging.optimal import plan
from wane.worlds.catalog import toy

CORRECT = (0.0, 1.0)
BELIEFS = {"SR (λ = 1)": (1.0, 1.0), "correct λ": CORRECT}


@dataclass(frozen=True)
class Toy(Settings):
    horizon: int = 10
    """steps of an episode"""

    def __post_init__(self):
        super().__post_init__()
        self.require(self.horizon > 1, f"horizon = {self.horizon}: two steps at least are compared")


def compute(settings: Toy, seeds: Sequence[int], loop: Loop) -> pd.DataFrame:
    world = toy(horizon=settings.horizon)
    tables = []
    for agent, lam in BELIEFS.items():
        phi = gpi.representations(world, depletion=Geometric(np.array(lam)))
        tables.append(episodes.rows(world, gpi.rollout(jax.random.key(0), world, phi), agent=agent))
    return pd.concat(tables).assign(optimum=plan(world).values[world.map.find("S")])


def first_two(table: pd.DataFrame, agent: str) -> float:
    """r₁ + γ r₂, as the paper counts here."""
    rewards = table[table["agent"] == agent]["reward"].to_numpy()
    return float(rewards[1] + toy().discount * rewards[2])


def draw(settings: Toy, table: pd.DataFrame) -> Figure:
    figure = plots.figure(9.0, 4.2)
    axes = figure.subplot_mosaic([["SR (λ = 1)", "earned"], ["correct λ", "earned"]], width_ratios=[1, 1.4])
    curves, world = plots.tidy(axes["earned"], "What it earns", "step", "discounted reward so far"), toy()
    for i, agent in enumerate(BELIEFS):
        rows = table[table["agent"] == agent]
        episodes.path(axes[agent], world, rows, f"{agent}: first two steps {first_two(table, agent):.2f}")
        curves.plot(rows["time"], rows["earned"], "o-", ms=4, color=plots.OTHERS[2 - i], label=agent)
    curves.legend(frameon=False)
    return figure


def films(settings: Toy, table: pd.DataFrame) -> Mapping:
    world = toy(horizon=settings.horizon)
    return {agent: episodes.film(world, rows, str(agent)) for agent, rows in table.groupby("agent", sort=False)}


def the_first_two_steps(settings: Toy, table: pd.DataFrame) -> Finding:
    wrong, right = (first_two(table, agent) for agent in BELIEFS)
    holds = np.allclose([wrong, right], [10.0, 11.94], atol=1e-9)
    return Finding(bool(holds), right - wrong, None, f"SR {wrong:.2f}, correct λ {right:.2f}")


def nothing_lost_later(settings: Toy, table: pd.DataFrame) -> Finding:
    later = [table[(table["agent"] == agent) & (table["time"] > 2)]["reward"].to_numpy() for agent in BELIEFS]
    gap = np.abs(later[0] - later[1]).max(initial=0.0)
    return Finding(bool(gap == 0), gap, None, "largest difference of a reward from the third step on")


def correct_is_optimal(settings: Toy, table: pd.DataFrame) -> Finding:
    earned = table[table["agent"] == "correct λ"]["earned"].max()
    regret = table["optimum"].iloc[0] - earned
    return Finding(bool(regret < 1e-9), regret, None, f"earns {earned:.4f} of {table['optimum'].iloc[0]:.4f}")


EXPERIMENT = Experiment(
    name="toy",
    title="Three states: the correct λ",
    source="appendix G, figure G.1",
    says=(
        "An agent that is told at each step what is left of every reward still needs the correct λ: with the SR it "
        "takes the 10 that is gone at once, and earns 10 in two steps instead of 11.94; what follows is the same."
    ),
    quick=Toy(),
    paper=Toy(),
    compute=compute,
    draw=draw,
    films=films,
    claims=(
        Claim("first-two-steps", "In two steps the SR earns 10, the correct λ 11.94.", the_first_two_steps),
        Claim("same-afterwards", "From the third step on both earn the same.", nothing_lost_later),
        Claim(
            "correct-is-optimal", "No policy, with whatever memory, earns more than the correct λ.", correct_is_optimal
        ),
    ),
    differs="The paper argues on paper; here both agents act, and the optimum over states and visits is beside them.",
    cost="none stated",
)
