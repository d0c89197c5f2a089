"""Three states in a row: what a wrong λ costs although the agent knows what remains of every reward at each step.

The left state has a reward of 10 that is gone after one visit (λ = 0), the right state a reward of 6 that stays
(λ = 1), and the agent starts between them. The policies that go left and right are evaluated with each site's own λ, or
with λ = 1 for both (the SR). The agent follows the better policy for a step, and then looks up again what remains.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wane.agents import gpi
from wane.agents.planner import plan
from wane.depletion import Geometric
from wane.lab import Claim, Experiment, Finding, NotTested, Settings, Tables, plots
from wane.settings import Range
from wane.worlds.catalog import toy
from wane.worlds.world import World
from wane_paper.common import episodes
from wane_paper.texts import texts

BELIEFS = {"SR (λ = 1)": (1.0, 1.0), "correct λ": (0.0, 1.0)}
"""The agents, and the λ that each believes the two sites to have."""


@dataclass(frozen=True)
class Toy(Settings):
    """Settings of the toy."""

    horizon: Annotated[int, Range(1, 1000)] = 10
    """steps of an episode"""
    agent: gpi.Config = field(default_factory=gpi.Config)
    """both agents"""

    def rules(self) -> None:
        """Raises SettingError if `agent.depletion` is set, which would give both agents the same belief."""
        super().rules()
        needed = "None is needed, because the two agents differ by their beliefs alone"
        self.require(self.agent.depletion is None, "agent.depletion", needed)

    @property
    def world(self) -> World:
        """The three states."""
        return toy(horizon=self.horizon)


def fixed(settings: Toy) -> Tables:
    """Returns the table `episodes`, with one episode of each agent, and the table `optimum`, with one row."""
    world, tables = settings.world, []
    for name, lam in BELIEFS.items():
        config = dataclasses.replace(settings.agent, depletion=Geometric(np.array(lam)))
        state = gpi.init(jax.random.key(0), world, config)
        episode = gpi.play_composed(jax.random.key(0), world, state.phi, refresh=config.refresh)
        tables.append(episodes.rows(world, episode, agent=name))
    best = plan(world).values[world.map.find("S")]
    return {"episodes": pd.concat(tables), "optimum": pd.DataFrame({"value": [best]})}


def first_two_steps(settings: Toy, tables: Tables, agent: str) -> float:
    """Returns r₁ + γ r₂, the sum that the paper states in this example."""
    rewards = tables["episodes"].query("agent == @agent")["reward"].to_numpy()[1:3]
    return float(settings.world.discount ** np.arange(len(rewards)) @ rewards)


def draw(settings: Toy, tables: Tables) -> Figure:
    """Draws the path of each agent, and what both earn."""
    figure = plots.figure(9.0, 4.2)
    axes = figure.subplot_mosaic([["SR (λ = 1)", "earned"], ["correct λ", "earned"]], width_ratios=[1, 1.4])
    curves = plots.tidy(axes["earned"], "What it earns", "step", "discounted reward so far")
    for i, (agent, rows) in enumerate(tables["episodes"].groupby("agent", sort=False)):
        earned = (
            f": first two steps {first_two_steps(settings, tables, str(agent)):.2f}" if settings.horizon > 1 else ""
        )
        episodes.path(axes[str(agent)], settings.world, rows, f"{agent}{earned}")
        curves.plot(rows["time"], rows["earned"], "o-", ms=4, color=plots.OTHERS[2 - i], label=agent)
    curves.legend(frameon=False)
    return figure


def films(settings: Toy, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """Returns a film of the episode of each agent."""
    return episodes.films(settings.world, tables["episodes"], "agent")


def two_steps_earn_the_papers_numbers(settings: Toy, tables: Tables) -> Finding:
    """Tests whether the agents earn 10 and 11.94 in two steps."""
    if settings.horizon < 2:
        raise NotTested(f"An episode of {settings.horizon} step has no first two steps.")
    wrong, right = (first_two_steps(settings, tables, agent) for agent in BELIEFS)
    holds = np.allclose([wrong, right], [10.0, 11.94], atol=1e-9)
    return Finding(bool(holds), right - wrong, None, f"SR {wrong:.2f}, correct λ {right:.2f}")


def later_rewards_are_the_same(settings: Toy, tables: Tables) -> Finding:
    """Tests whether both agents are paid the same from the third step on."""
    if settings.horizon < 3:
        raise NotTested(f"An episode of {settings.horizon} steps has no third one.")
    later = tables["episodes"].query("time > 2").pivot_table(index="time", columns="agent", values="reward")
    largest = np.ptp(later.to_numpy(), axis=1).max()
    return Finding(bool(largest == 0), largest, None, "largest difference of a reward from the third step on")


def correct_is_optimal(settings: Toy, tables: Tables) -> Finding:
    """Tests whether the agent with the correct λ earns the optimum."""
    earned = tables["episodes"].query("agent == 'correct λ'")["earned"].iloc[-1]
    best = tables["optimum"]["value"].iloc[0]
    return Finding(bool(best - earned < 1e-9), best - earned, None, f"earns {earned:.4f} of {best:.4f}")


EXPERIMENT = Experiment(
    **texts("toy"),
    quick=Toy(),
    paper=Toy(),
    fixed=fixed,
    draw=draw,
    films=films,
    claims=(
        Claim(
            "first-two-steps",
            "In two steps the SR earns 10 and the correct λ earns 11.94.",
            two_steps_earn_the_papers_numbers,
            kind="paper",
            place="appendix G",
        ),
        Claim(
            "same-afterwards",
            "From the third step on both agents earn the same.",
            later_rewards_are_the_same,
            kind="paper",
            place="appendix G",
        ),
        Claim(
            "correct-is-optimal",
            "No policy, whatever it remembers, earns more than the agent with the correct λ.",
            correct_is_optimal,
        ),
    ),
)
