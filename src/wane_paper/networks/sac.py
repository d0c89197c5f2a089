"""Continuous control: one critic that adapts its own pessimism, compared with SAC with two critics and with one.

The kinds of agents are SAC with two critics ("SAC-2") and with one ("SAC-1"), one critic whose target has a fixed λ
("0-SAC", "0.5-SAC", "1-SAC"), and λ-SAC, whose λ a bandit draws for each episode ("lambda-SAC"; with the paper's
proposed feedback, "lambda-SAC-average"). They differ in numbers only, so all kinds and all seeds train in one program.
The agents of a seed begin with the same networks and in the same states of the task.

| table | kind | a row for each | columns |
| --- | --- | --- | --- |
| `flops` | fixed | task, agent | flops: FLOPs of one update |
| `curves` | seeded | task, step, seed, agent | greedy, training, value, correction, lam, … |
| `arms` | seeded | task, step, seed, agent with a bandit, lam | probability |
| `episodes` | seeded | task, agent, moment of an episode of seed 0 | time, earned, state0, … |

`greedy` is the return of evaluations with the mean action, `training` the return of the training episodes, both without
discounting. The other columns of `curves` are means over an epoch: the critic's value, the correction
(λ − 1) wᵀ(φ ⊙ φ_λ), λ, the policy's entropy, α, the losses of the critic and of the λF.

At the paper's scale, replay and simulators take several GB, so a checkpoint is written every five minutes; with
`--save-seconds 100000`, only when the run is interrupted. The tasks can be learned one after the other (`--tasks
HalfCheetah-v5`). To work in sittings of ten minutes, repeat

    timeout -s INT 540 wane run sac --scale paper --resume --save-seconds 100000

until it ends: the interrupt saves everything, and the next sitting continues from there, with the same numbers.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from wane.lab import plots
from wane.lab.contract import Experiment, Tables
from wane.lab.tables import select
from wane.worlds.control import ControlTask
from wane_paper.networks.sac_claims import CLAIMS, tasks_of
from wane_paper.networks.sac_learning import (
    ADAPTIVE,
    AVERAGE,
    ONE,
    QUICK,
    SIX,
    TWO,
    Control,
    fixed,
    seeded,
    updates_by,
)

COLOURS = {
    TWO: plots.INK,
    ONE: plots.GREY,
    "0-SAC": plots.colour(0.0),
    "0.5-SAC": plots.colour(0.5),
    "1-SAC": plots.colour(1.0),
    ADAPTIVE: "#56B4E9",
    AVERAGE: "#117733",
}


def draw(settings: Control, tables: Tables) -> Figure:
    """Draws for each task learning curves, the bandit's probabilities, return against FLOPs, and critics' values."""
    names = tasks_of(tables)
    figure = plots.figure(16.0, 3.6 * len(names))
    grid = figure.subplots(len(names), 4, squeeze=False)
    for row, task in zip(grid, names, strict=True):
        curves = select(tables["curves"], task=task)
        draw_returns(row[0], curves)
        seeds = curves["seed"].nunique()
        plots.tidy(row[0], f"{task} ({seeds} seeds, ± s.e.)", "step", "return, mean action")
        draw_arms(row[1], select(tables["arms"], task=task))
        _draw_costs(row[2], settings, tables, task)
        plots.plot_learning(curves.dropna(subset=["value"]), "step", "value", ax=row[3], colours=COLOURS)
        row[3].get_legend().remove()
        plots.tidy(row[3], "mean value of the first critic", "step", "Q")
        for ax in (row[0], row[1], row[3]):
            ax.xaxis.set_major_locator(MaxNLocator(5))
            ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    return figure


def draw_returns(ax: Axes, curves: pd.DataFrame) -> None:
    """Draws learning curves. SAC with one critic is dashed, because 1-SAC learns the same values and lies under it."""
    plots.plot_learning(curves, "step", "greedy", interval="error", ax=ax, colours=COLOURS)
    for line in ax.lines:
        if line.get_label() == ONE:
            line.set(linestyle=(0, (3, 3)), zorder=10)
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.25 * (high - low))  # The legend needs room above the curves.
    ax.legend(frameon=False, fontsize="x-small", ncols=3, loc="upper left")


def draw_arms(ax: Axes, arms: pd.DataFrame) -> None:
    """Draws the probabilities of the arms. Dashed lines belong to the bandit with the other feedback."""
    for (agent, lam), rows in arms.groupby(["agent", "lam"], sort=False):
        style = "-" if agent == ADAPTIVE else "--"
        label = f"λ = {lam:g}" if agent == ADAPTIVE else ""
        plots.curve(ax, rows, "step", "probability", label, plots.colour(lam), style)
    ax.set_ylim(0, 1)
    if len(arms):
        ax.legend(frameon=False, fontsize="x-small")
    plots.tidy(ax, "the bandit's arms", "step", "probability")


def _draw_costs(ax: Axes, settings: Control, tables: Tables, task: str) -> None:
    curves, flops = select(tables["curves"], task=task), select(tables["flops"], task=task).set_index("agent")["flops"]
    costs = curves.assign(
        cost=updates_by(curves["step"], settings.agent) * curves["agent"].map(flops).to_numpy(float) / 1e12
    )
    shown = costs[costs["agent"].isin([TWO, ONE, ADAPTIVE])]
    plots.plot_learning(shown, "cost", "greedy", interval="error", ax=ax, colours=COLOURS)
    ax.legend(frameon=False, fontsize="x-small")
    plots.tidy(ax, "cost of learning, counted by the compiler", "TFLOPs of updates", "return, mean action")


def films(settings: Any, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """Returns films of an episode of SAC with two critics, and of λ-SAC, in every task that can be drawn."""
    episodes, found = tables.get("episodes", pd.DataFrame()), {}
    for task in tasks_of(tables):
        for agent in (TWO, ADAPTIVE):
            rows = select(episodes, task=task, agent=agent) if len(episodes) else episodes
            if len(rows):
                found[f"{agent}, {task}"] = film(settings.places()[task], rows, f"{agent}, {task}")
    return found


def film(task: ControlTask, rows: pd.DataFrame, title: str) -> Callable[[Path], Any]:
    """Returns a function that writes the film of an episode in the table `episodes`."""
    states = rows[[name for name in rows if str(name).startswith("state")]].dropna(axis=1)
    paid = np.diff(rows["earned"])
    episode = SimpleNamespace(
        states=states.to_numpy(float), rewards=paid, live=np.ones(len(paid)), times=rows["time"].to_numpy()
    )
    return lambda path: task.film(episode, path, title)


EXPERIMENT = Experiment(
    name="sac",
    title="Continuous control with one critic that adapts its own pessimism",
    source="appendix on SAC, its first figure",
    summary=(
        "SAC believes the lower of two critics, because critics overestimate. The paper gives one critic the target of "
        "a reward that wears off, whose λ a bandit chooses for each episode. It states that λ-SAC matches SAC with two "
        "critics on HalfCheetah and Hopper with fewer FLOPs, that a fixed low λ hurts on HalfCheetah, and that the "
        "bandit finds λ = 1 there and lower values on Hopper."
    ),
    quick=Control(
        seeds=5, tasks=("Pendulum-v1", "wane/PointMass-v0"), agents=(*SIX, "lambda-SAC-average"), agent=QUICK
    ),
    paper=Control(),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=CLAIMS,
    differences=(
        "The kept run joins two runs, one for each task (--tasks), of two versions of this code: a million steps of "
        "all agents took 910 s on an H200 for HalfCheetah, and 1,104 s for Hopper. Steps are taken in blocks of 50: a "
        "policy acts for 50 steps, while as many updates are made from what was remembered before. SAC with one "
        "critic is not trained apart, because 1-SAC has its critic and its policy, bit for bit. The paper used "
        "version 2 of the environments, which no longer exists; version 5 has a newer MuJoCo, and Hopper is paid for "
        "being healthy only if it is. Agents are evaluated every 20,000 steps, not every 1,000, with one episode. w "
        "is solved for with a ridge of 2e-4, because features may be collinear or constant in a batch. Features are "
        "scaled per dimension, as the paper says. The authors' code has one range for all (--agent.ranges global). "
        "With it, a fixed λ of 0 does help on Hopper: it earns 2,008, and λ = 1 earns 1,678 (eight seeds, a million "
        "steps; the difference has a 95 % interval from 94 to 565). λ-SAC earns no more with it (999). The φ_λ in "
        "both targets is that of the target network. The limits [−20, 2] are those of the log-variance, as the paper "
        "says; other implementations have the same numbers for the log of the standard deviation. The quick scale has "
        "Pendulum and a point mass, and networks of 64 units."
    ),
    paper_cost="about 8 hours for one run on a GTX 1080",
    double_precision=False,
)
