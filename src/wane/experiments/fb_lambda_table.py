"""λO-FB on FourRooms: two random goals, a random start, and agents trained for λ = ½ or 1 where either is true.

Training sees no rewards, so one training run serves both worlds. Beside the returns: how far FᵀBμ is from the exact Φ_λ
of the same policies, epoch by epoch, and the optimum of a sample of the very tasks that the agents are tested on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wane.agents import goals, zero_shot
from wane.depletion import Geometric
from wane.exact.optimum import optimum
from wane.experiments import episodes, fb_training, plots
from wane.experiments.experiment import Claim, Experiment, Finding, Loop, seed_keys
from wane.experiments.fb_training import Training, frame
from wane.experiments.statistics import paired_difference
from wane.worlds.world import World


@dataclass(frozen=True)
class LambdaTable(Training):
    seeds: int = 6
    """independent repetitions, numbered from 0"""
    agents: tuple[float, ...] = (0.5, 1.0)
    """λ that agents are trained for"""
    worlds: tuple[float, ...] = (0.5, 1.0)
    """true λ"""
    goals: int = 2
    """random unit rewards of an episode"""
    episodes: int = 10
    """test episodes of each run after each epoch"""
    last: int = 300
    """test episodes of each run at the end"""
    solved: int = 20
    """of those, tasks whose optimum is computed"""


def true_world(settings: LambdaTable, lam: Any) -> World:
    return fb_training.rooms(settings, depletion=Geometric(lam))


def compute(settings: LambdaTable, seeds: Sequence[int], loop: Loop) -> pd.DataFrame:
    world = fb_training.rooms(settings)

    def test(key, params, count):
        """Returns (true λ, episodes), the same goals and starts whatever λ is true."""
        choose = zero_shot.trained(params)
        return jax.vmap(lambda lam: goals.returns(key, true_world(settings, lam), choose, count, settings.goals))(
            jnp.asarray(settings.worlds)
        )

    keys, (lams,) = fb_training.pairs(seed_keys(seeds), settings.agents)
    states, info = fb_training.train(
        "training",
        loop,
        settings,
        world,
        keys,
        lams,
        watch=lambda key, state: test(key, state.params, settings.episodes).mean(-1),
    )
    last = jax.jit(jax.vmap(lambda params: test(test_key(), params, settings.last)))(states.params)
    runs: Any = {"seed": seeds, "agent": settings.agents}
    epochs: Any = {"epoch": range(1, settings.epochs + 1)}
    curves = frame(info.watched, "value", **epochs, **runs, true=settings.worlds).assign(panel="curve")
    errors = frame(np.median(info.error.rms, -1), "value", **epochs, **runs).assign(panel="error")
    ends = frame(last.mean(-1), "value", **runs, true=settings.worlds).assign(panel="end")
    best = [(true, value) for true in settings.worlds for value in best_returns(settings, true)]
    known = pd.DataFrame(best, columns=["true", "value"]).assign(panel="optimum", seed=-1)
    tables = [curves, errors, ends, known]
    if 0 in seeds:
        first = list(seeds).index(0) * len(settings.agents)
        tables += [_shown(settings, states.params, first + i, lam) for i, lam in enumerate(settings.agents)]
    return pd.concat(tables, ignore_index=True)


def test_key() -> jax.Array:
    """Of the test episodes at the end: all agents and seeds meet the same tasks."""
    return jax.random.key(1)


def best_returns(settings: LambdaTable, true: float) -> list[float]:
    """The optimum of the first of the tasks at the end."""
    world = fb_training.rooms(settings)
    found = []
    for key in jax.random.split(test_key(), settings.last)[: settings.solved]:
        goal_key, play_key = jax.random.split(key)
        rewards = np.asarray(goals.with_goals(goal_key, world, settings.goals).rewards)
        start = int(world.reset(jax.random.split(play_key, 3)[0])[1].cell)
        sites = np.flatnonzero(rewards)
        best = optimum(
            world.mdp,
            rewards[sites],
            Geometric(true),
            discount=1.0,
            sites=sites,
            horizon=settings.horizon,
            timing="arrival",
            tolerance=1e-2,
        )
        found.append(float(best.values[start]))
    return found


def _shown(settings: LambdaTable, params: Any, run: int, lam: float) -> pd.DataFrame:
    """One episode of an agent where λ is ½."""
    mine = jax.tree_util.tree_map(lambda leaf: leaf[run], params)
    world = task(settings)
    played = goals.rollout(jax.random.key(0), world, zero_shot.trained(mine), start=0)
    return episodes.rows(world, played, agent=lam, panel="shown", seed=0, true=min(settings.worlds))


def task(settings: LambdaTable) -> World:
    """The task of the drawn episodes: goals in the rooms at the top right and bottom left."""
    lam = Geometric(min(settings.worlds))
    return fb_training.rooms(settings, depletion=lam, sites=[(3, 8), (8, 2)], rewards=[1.0, 1.0], discount=1.0)


def draw(settings: LambdaTable, table: pd.DataFrame) -> Figure:
    figure = plots.figure(11.0, 6.6)
    grid = figure.add_gridspec(2, 3)
    curves = table[table["panel"] == "curve"]
    for i, true in enumerate(settings.worlds[:2]):
        ax = figure.add_subplot(grid[0, i])
        for agent in settings.agents:
            rows = curves[(curves["true"] == true) & (curves["agent"] == agent)]
            plots.curve(ax, rows, "epoch", "value", f"λ̂ = {agent:g}", plots.colour(agent))
        best = table[(table["panel"] == "optimum") & (table["true"] == true)]["value"].mean()
        ax.axhline(best, color=plots.INK, ls="--", lw=1, label="optimum")
        plots.tidy(ax, f"true λ = {true:g}", "epoch", "reward in an episode")
        ax.legend(frameon=False, loc="lower right")
    ax = figure.add_subplot(grid[0, 2])
    errors = table[table["panel"] == "error"]
    for agent in settings.agents:
        plots.curve(ax, errors[errors["agent"] == agent], "epoch", "value", f"λ̂ = {agent:g}", plots.colour(agent))
    ax.set_yscale("log")
    plots.tidy(ax, "error of FᵀBμ against the exact Φ", "epoch", "relative, root mean square")
    ax.legend(frameon=False)
    ends = table[table["panel"] == "end"]
    ax = figure.add_subplot(grid[1, 0])
    low = ends[ends["true"] == min(settings.worlds)].pivot_table(index="seed", columns="agent", values="value")
    ax.plot([f"λ̂ = {agent:g}" for agent in low.columns], low.T, "o-", color=plots.GREY, ms=4, lw=0.8)
    ax.margins(x=0.3)
    plots.tidy(ax, f"true λ = {min(settings.worlds):g}: each seed at the end", "", "reward in an episode")
    for i, agent in enumerate(settings.agents[:2]):
        rows = table[(table["panel"] == "shown") & (table["agent"] == agent)]
        episodes.path(
            figure.add_subplot(grid[1, 1 + i]), task(settings), rows, f"λ̂ = {agent:g}: {rows['earned'].iloc[-1]:.2f}"
        )
    return figure


def films(settings: LambdaTable, table: pd.DataFrame) -> Mapping:
    shown = table[table["panel"] == "shown"]
    return {
        f"λ̂ = {agent:g}": episodes.film(task(settings), rows, f"λO-FB trained for λ = {agent:g}, true λ = ½")
        for agent, rows in shown.groupby("agent")
    }


def ends(settings: LambdaTable, table: pd.DataFrame, true: float) -> pd.DataFrame:
    rows = table[(table["panel"] == "end") & (table["true"] == true)]
    return rows.pivot_table(index="seed", columns="agent", values="value")


def correct_is_better(true: float):
    """That agents trained for the true λ earn more than those trained for the other, seed by seed."""

    def test(settings: LambdaTable, table: pd.DataFrame) -> Finding:
        score = ends(settings, table, true)
        other = next(lam for lam in settings.agents if lam != true)
        found = paired_difference(score[true], score[other])
        best = table[(table["panel"] == "optimum") & (table["true"] == true)]["value"].mean()
        share = 100 * found.value / score[other].mean()
        detail = (
            f"{score[true].mean():.3f} against {score[other].mean():.3f}: {share:+.1f} %; the optimum is {best:.2f}; "
            f"{len(score)} seeds, {settings.last} episodes each"
        )
        return Finding(found.low > 0, found.value, (found.low, found.high), detail)

    return test


def highly_suboptimal(settings: LambdaTable, table: pd.DataFrame) -> Finding:
    score = ends(settings, table, 0.5)
    lost = 100 * (score[0.5] - score[1.0]) / score[0.5].mean()
    found = paired_difference(lost, np.zeros(len(lost)))
    detail = f"{found.value:.1f} % less than with the correct λ; called highly suboptimal here from 20 % on"
    return Finding(found.low > 20, found.value, (found.low, found.high), detail)


def learns_the_representation(settings: LambdaTable, table: pd.DataFrame) -> Finding:
    errors = table[table["panel"] == "error"]
    last = errors[errors["epoch"] == settings.epochs].groupby("agent")["value"].mean()
    first = errors[errors["epoch"] == 1].groupby("agent")["value"].mean()
    detail = ", ".join(f"λ̂ = {agent:g}: {first[agent]:.3f} → {last[agent]:.3f}" for agent in settings.agents)
    return Finding(bool((last < 0.75 * first).all()), float(last.max()), None, f"relative error, {detail}")


EXPERIMENT = Experiment(
    name="fb-lambda-table",
    title="The λ operator: the correct λ on random tasks",
    source="appendix H.1, figure H.1",
    says=(
        "λO-FB agents in FourRooms with a random start and two random goals earn significantly more with the correct "
        "λ; assuming λ = 1 where rewards wear off can be highly suboptimal."
    ),
    quick=LambdaTable(**fb_training.quick(seeds=6, epochs=5)),
    paper=LambdaTable(seeds=12),
    compute=compute,
    draw=draw,
    films=films,
    claims=(
        Claim(
            "correct-lambda-half", "Where λ = ½ is true, training for ½ earns more than for 1.", correct_is_better(0.5)
        ),
        Claim(
            "correct-lambda-one", "Where λ = 1 is true, training for 1 earns more than for ½.", correct_is_better(1.0)
        ),
        Claim("highly-suboptimal", "Assuming λ = 1 where λ = ½ is true is highly suboptimal.", highly_suboptimal),
        Claim(
            "representation",
            "Training lowers the error against the exact Φ by a quarter or more.",
            learns_the_representation,
        ),
    ),
    differs=(
        f"{fb_training.SCHEDULE} Twelve seeds instead of six: as training sees no reward, a run serves both true λ, "
        "and twelve for each λ̂ are 24. The effect is small because what is left is looked up at every step: with λ̂ = 1 "
        "the agent plans as if a reward stayed, but sees at the next step that it did not, and goes on. It loses by "
        "going to the wrong place first, and by indecision between places. With the exact Φ of a random walk, λ̂ = ½ "
        "and 1 earn the same here (3.998 where λ = ½): the gap goes with Φ for λ = 1 being learned more slowly, and at "
        "quick scale it shows nothing else."
    ),
    cost=fb_training.COST,
    double=False,
)
