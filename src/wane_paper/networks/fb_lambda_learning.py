"""The computations of fb-lambda-table: agents are trained for λ = ½ or λ = 1, and tested where either λ is true.

Training sees no rewards, so one training run serves both worlds. The tables also hold how far FᵀBμ is from the exact
Φ_λ of the same policies after each epoch, and the optimum of the same tasks on which the agents are tested, after each
epoch and at the end.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float

from wane.agents import forward_backward
from wane.agents.common.rollout import play
from wane.agents.common.training import watch_key
from wane.agents.forward_backward import Params, State, Tasks
from wane.depletion import Geometric
from wane.lab.contract import Loop, Tables, seed_keys
from wane.lab.tables import frame
from wane.settings import Count
from wane.types import Scalar
from wane.worlds.world import World
from wane_paper.common import episodes
from wane_paper.common.checks import Lambdas
from wane_paper.networks import training
from wane_paper.networks.task_optima import MOST_GOALS, best_returns
from wane_paper.networks.training import Training


@dataclass(frozen=True)
class LambdaTable(Training):
    """Settings of fb-lambda-table."""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = {"agent.lam": "agents"} | training.PLAIN_TRAINING

    seeds: Count = 6
    """independent repetitions, numbered from 0"""
    agents: Lambdas = (0.5, 1.0)
    """λ that agents are trained for"""
    worlds: Lambdas = (0.5, 1.0)
    """true λ of the worlds that they are tested in"""
    goals: training.Goals = 2
    """random unit rewards of an episode"""
    episodes: Count = 10
    """test episodes of each run after each epoch"""
    final_episodes: Count = 300
    """test episodes of each run at the end"""

    def rules(self) -> None:
        """Raises SettingError if a setting lists two values that are written alike, or if Φ would be infinite."""
        super().rules()
        self.require_distinct("agents", "worlds")
        self.require_finite("agents", self.agents, [self.agent.discount])


def true_world(settings: LambdaTable, lam: Scalar) -> World:
    """Returns FourRooms in which λ is true."""
    return training.rooms(settings, depletion=Geometric(lam))


def final_tasks(settings: LambdaTable) -> Tasks:
    """Returns the tasks of the test at the end. They are the same for all agents and all seeds."""
    world = training.rooms(settings)
    return forward_backward.sample_tasks(jax.random.key(1), world, settings.final_episodes, settings.goals)


def fixed(settings: LambdaTable) -> Tables:
    """Returns the optimum of each task of the final test, in each world, or nothing if there are too many goals."""
    if settings.goals > MOST_GOALS:
        return {}
    best, count = _optima(settings, final_tasks(settings)), settings.final_episodes
    return {"optima": frame(best, "optimum", true_lam=settings.worlds, task=range(count))}


def _optima(settings: LambdaTable, tasks: Tasks) -> Float[np.ndarray, "worlds tasks"]:
    world = training.rooms(settings)
    return np.stack([best_returns(world, tasks.rewards, tasks.starts, lam) for lam in settings.worlds])


def curve_optima(settings: LambdaTable, seeds: Sequence[int]) -> pd.DataFrame:
    """Returns the mean optimum of the tasks on which each seed is tested after each epoch, in each world.

    All agents of one seed are tested on the same tasks, whatever λ they are trained for, because they share keys.
    """
    world, epochs = training.rooms(settings), settings.agent.schedule.epochs

    def draw_again(key: jax.Array) -> Tasks:
        drawn = jax.vmap(lambda number: watched_tasks(settings, world, watch_key(key, number)))(jnp.arange(epochs))
        return jax.tree_util.tree_map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), drawn)

    best = [_optima(settings, jax.jit(draw_again)(key)) for key in seed_keys(seeds)]
    means = np.reshape(best, (len(seeds), len(settings.worlds), epochs, settings.episodes)).mean(-1)
    return frame(means, "optimum", seed=seeds, true_lam=settings.worlds, epoch=range(1, epochs + 1))


def watched_tasks(settings: LambdaTable, world: World, key: jax.Array) -> Tasks:
    """Returns the tasks of a test during training."""
    return forward_backward.sample_tasks(key, world, settings.episodes, settings.goals)


def seeded(settings: LambdaTable, seeds: Sequence[int], loop: Loop) -> Tables:
    """Trains and tests the agents of some seeds."""
    world, tasks = training.rooms(settings), final_tasks(settings)

    def test(params: Params, tasks: Tasks) -> Float[Array, " worlds"]:
        """Returns the mean return in each world. The tasks are the same whatever λ is true."""
        policy = forward_backward.policy(params, world)

        def mean_return(lam: Array) -> Float[Array, ""]:
            return forward_backward.undiscounted_returns(true_world(settings, lam), policy, tasks).mean()

        return jax.vmap(mean_return)(jnp.asarray(settings.worlds))

    def watch(key: jax.Array, state: State) -> Float[Array, " worlds"]:
        return test(state.params, watched_tasks(settings, world, key))

    keys, (lams,) = training.pairs(seed_keys(seeds), settings.agents)
    states, info = training.train("training", loop, world, settings.agent, keys, lams, watch)
    ends = jax.jit(jax.vmap(lambda params: test(params, tasks)))(states.params)
    runs: dict[str, Any] = {"seed": seeds, "trained_lam": settings.agents}
    epochs = {"epoch": range(1, settings.agent.schedule.epochs + 1)}
    tables = {
        "curves": frame(info["watched"], "mean_return", **epochs, **runs, true_lam=settings.worlds),
        "errors": frame(np.median(info["misfit"]["rms"], -1), "error", **epochs, **runs),
        "ends": frame(ends, "mean_return", **runs, true_lam=settings.worlds),
    }
    if settings.goals <= MOST_GOALS:
        tables["curve_optima"] = curve_optima(settings, seeds)
    if 0 in seeds:
        tables["episodes"] = _show(settings, states, list(seeds).index(0), loop)
    return tables


def _show(settings: LambdaTable, states: State, place: int, loop: Loop) -> pd.DataFrame:
    """Keeps the agents of seed 0, and returns one episode of each. `place` is the place of seed 0 among the seeds."""
    world, task, tables = training.rooms(settings), shown_task(settings), []
    for i, lam in enumerate(settings.agents):
        run, config = place * len(settings.agents) + i, dataclasses.replace(settings.agent, lam=lam)
        training.keep(loop, f"lam-{lam:g}", world, config, states, run)
        policy = forward_backward.policy(training.params_of(states, run), task)
        episode = play(jax.random.key(0), task, policy, start=0)[1]
        tables.append(episodes.rows(task, episode, seed=0, trained_lam=lam))
    return pd.concat(tables, ignore_index=True)


def shown_task(settings: LambdaTable) -> World:
    """Returns the task of the drawn episodes: the smallest true λ, and goals in the top right and bottom left room."""
    task = true_world(settings, min(settings.worlds))
    place = dict(sites=[(3, 8), (8, 2)], rewards=[1.0, 1.0], discount=1.0)
    return dataclasses.replace(task, **place)
