"""A λ operator that reaches the optimum: networks that learn from exact targets (beyond the paper).

`wane.agents.lambda_operator` is trained in two ways: for one λ, on the asymmetric map and on FourRooms, and for every λ
at once, on two maps for which nothing was tuned. Agents act on what remains of the rewards. They are compared with the
optimum of the same tasks, and their Φ with the exact Φ of the policies that they act by.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.agents import lambda_operator
from wane.agents.common.rollout import play
from wane.agents.forward_backward.tasks import Tasks, all_rewards, draw_tasks, with_rewards
from wane.agents.lambda_operator import Config, Operator, State
from wane.agents.planner import follow, plan
from wane.agents.trained import Trained
from wane.depletion import Geometric
from wane.experiments.common import plots
from wane.experiments.common.checks import Lambdas
from wane.experiments.common.judging import exceeds, stays_below
from wane.experiments.common.statistics import bootstrap
from wane.experiments.common.tables import frame, select
from wane.experiments.contract import Claim, Experiment, Finding, Loop, Seeded, Tables, seed_keys
from wane.experiments.networks import training
from wane.experiments.networks.task_optima import best_returns
from wane.experiments.networks.training import label, require_data
from wane.settings import Count, Positive
from wane.types import Integer, Scalar
from wane.worlds import make
from wane.worlds.world import World

ASYMMETRIC, ROOMS = "asymmetric", "four-rooms"
OTHERS = ("two-rooms", "patches-4")
"""Maps for which no setting was chosen."""
ONE, EVERY = "trained for this λ", "one for every λ"
HORIZON = 50
WATCHED_TASKS, EVERY_STEPS = 8, 10
"""Φ is compared for what remains at every tenth step of eight tasks."""
PLANNED = (0.0, 0.1, 1.0)
"""λ for which the optimum with the seven rewards of the asymmetric map is a matter of seconds."""


@dataclass(frozen=True)
class Operating(Seeded):
    """Settings of lambda-operator."""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = {
        "agent.lam": "lambdas",
        "agent.condition": "nothing (networks with and without λ as an input are both trained)",
    }

    seeds: Count = 6
    """independent repetitions, numbered from 0"""
    agent: Config = dataclasses.field(default_factory=Config)
    """the settings of the networks"""
    lambdas: Lambdas = (1.0, 0.5, 0.1)
    """λ that networks for one λ are trained for"""
    tested: Lambdas = (0.0, 0.25, 0.5, 0.75, 1.0)
    """λ under which the network for every λ acts"""
    tasks: Count = 200
    """tasks with two random goals on each map"""
    tolerance: Positive = 0.1
    """what the optimum of the asymmetric map may be off by"""


class Family(NamedTuple):
    """Networks of one kind on one map: those of all seeds and λ are trained as one program."""

    map: str
    kind: str
    lams: tuple[float, ...]
    """λ under which they act; a network for one λ is trained for it."""


def families(settings: Operating) -> list[Family]:
    """Every kind of network on every map."""
    alone = [Family(name, ONE, settings.lambdas) for name in (ASYMMETRIC, ROOMS)]
    return alone + [Family(name, EVERY, settings.tested) for name in OTHERS]


def make_world(name: str, lam: Scalar) -> World:
    """The map where λ is true. Walls cost nothing, and returns are plain sums over 50 steps."""
    changes: dict[str, Any] = dict(depletion=Geometric(lam), horizon=HORIZON, discount=1.0)
    return make(name, **changes) if name == ASYMMETRIC else make(name, threshold=None, wall_penalty=0.0, **changes)


def tasks_of(settings: Operating, name: str) -> Tasks:
    """The tasks of a map: two random goals, or the rewards and the start of the asymmetric map."""
    world = make_world(name, 1.0)
    if name != ASYMMETRIC:
        return draw_tasks(jax.random.key(1), world, settings.tasks, goals=2)
    key = jax.random.key(0)
    start = world.reset(key)[1].cell
    return Tasks(all_rewards(world, jnp.asarray(world.rewards, float))[None], jnp.asarray(start)[None], key[None])


def fixed(settings: Operating) -> Tables:
    """For every map and λ, the mean optimum of the tasks where it is known, and what greedy actions on the exact Φ of
    the random walk earn: a network that has learned nothing acts so."""
    rows = [
        {
            "map": family.map,
            "lam": lam,
            "optimum": _optimum(settings, family.map, lam),
            "walk": _walk_return(settings, family.map, lam),
        }
        for family in families(settings)
        for lam in family.lams
    ]
    return {"optima": pd.DataFrame(rows)}


def _walk_return(settings: Operating, name: str, lam: float) -> float:
    config = dataclasses.replace(settings.agent, width=1, depth=1, lam=lam)
    network = lambda_operator.init(jax.random.key(0), make_world(name, lam), config).params
    return float(jax.jit(partial(_test, name, config, tasks_of(settings, name), network))(jnp.asarray(lam))[0])


def _optimum(settings: Operating, name: str, lam: float) -> float:
    world, tasks = make_world(name, lam), tasks_of(settings, name)
    if name != ASYMMETRIC:
        return float(best_returns(world, tasks.rewards, tasks.starts, lam).mean())
    if lam not in PLANNED:
        return float("nan")
    best = plan(world, tolerance=settings.tolerance)
    return float(follow(jax.random.split(jax.random.key(0), 1), world, best).rewards.sum())


def seeded(settings: Operating, seeds: Sequence[int], loop: Loop) -> Tables:
    """Trains all networks of some seeds, and tests them."""
    tables = [_family_tables(settings, family, seeds, loop) for family in families(settings)]
    return {name: pd.concat([each[name] for each in tables], ignore_index=True) for name in tables[0]}


def _family_tables(settings: Operating, family: Family, seeds: Sequence[int], loop: Loop) -> Tables:
    world, alone = make_world(family.map, 1.0), family.kind == ONE
    config = dataclasses.replace(settings.agent, condition="nothing" if alone else "uniform")
    trained_for = family.lams if alone else (1.0,)
    keys, (lams,) = training.pairs(seed_keys(seeds), trained_for)
    states, told = _train(f"{family.map}, {family.kind}", loop, world, config, keys, lams)
    by_seed = jax.tree_util.tree_map(
        lambda leaf: leaf.reshape(len(seeds), len(trained_for), *leaf.shape[1:]), states.params
    )
    tasks = tasks_of(settings, family.map)

    def test(params: Operator) -> tuple[Float[Array, " lams"], Float[Array, " lams"]]:
        def run(pair: tuple[Array, Array]) -> tuple[Float[Array, ""], Float[Array, ""]]:
            number, lam = pair
            network = jax.tree_util.tree_map(lambda leaf: leaf[number], params)
            return _test(family.map, config, tasks, network, lam)

        numbers = np.arange(len(family.lams)) if alone else np.zeros(len(family.lams), int)
        return jax.lax.map(run, (jnp.asarray(numbers), jnp.asarray(family.lams)))

    returns, errors = jax.jit(jax.vmap(test))(by_seed)
    labels = dict(seed=seeds, map=[family.map], agent=[family.kind], lam=family.lams)
    if 0 in seeds:
        first = list(seeds).index(0) * len(trained_for)
        for i, lam in enumerate(trained_for):
            own = dataclasses.replace(config, lam=lam)
            network = jax.tree_util.tree_map(lambda leaf, i=i: leaf[first + i], states.params)
            name = f"{family.map}-lam-{label(lam)}" if alone else f"{family.map}-every-lam"
            loop.keep(name, Trained("lambda_operator", make_world(family.map, lam), own, network))
    curves = np.moveaxis(np.asarray(told["misfit"]), 0, 1)
    axes = dict(seed=seeds, map=[family.map], agent=[family.kind], lam=trained_for, epoch=range(curves.shape[1]))
    return {
        "returns": frame(returns, "mean_return", **labels),
        "errors": frame(errors, "error", **labels),
        "training": frame(curves, "misfit", **axes),
    }


def _train(
    name: str, loop: Loop, world: World, config: Config, keys: jax.Array, lams: Float[Array, " runs"]
) -> tuple[State, dict[str, Any]]:
    """Trains one network for each key and λ, all of them as one program, with one epoch in each chunk."""

    def run_epoch(key: jax.Array, lam: Array, state: State, number: Integer) -> tuple[State, Any]:
        own = dataclasses.replace(config, lam=lam)
        state, info = lambda_operator.train(key, world, own, state, number, epochs=1)
        return state, jax.tree_util.tree_map(lambda leaf: leaf[0], info)

    @jax.jit
    def step(states: State, number: Integer) -> tuple[State, Any]:
        return jax.vmap(run_epoch, (0, 0, 0, None))(keys, lams, states, number)

    states = jax.jit(jax.vmap(lambda key: lambda_operator.init(key, world, config)))(keys)
    return loop(name, step, states, config.epochs, config.steps * len(keys), "gradient steps")


def _test(
    name: str, config: Config, tasks: Tasks, params: Operator, lam: Float[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The mean return of a network, and the median error of Φ for the policies that it acts by."""
    world = make_world(name, lam)
    own = dataclasses.replace(config, lam=lam)

    def run(task: Tasks) -> tuple[Float[Array, ""], Float[Array, "moments states"]]:
        place = with_rewards(world, task.rewards)
        episode = play(task.keys, place, lambda_operator.policy(params, place, own, lam), start=task.starts)[1]
        return episode.rewards.sum(), episode.remaining[::EVERY_STEPS]

    returns, remaining = jax.vmap(run)(tasks)
    met = remaining[:WATCHED_TASKS].reshape(-1, world.n_states)
    return returns.mean(), jnp.median(lambda_operator.misfit(params, world, own, met, lam))


def draw(settings: Operating, tables: Tables) -> Figure:
    """What the networks earn as a share of the optimum, and the errors of their Φ, map by map.

    A line beside the dots of a map and a λ tells what greedy actions on the random walk's Φ earn.
    """
    figure = plots.figure(11.0, 3.6)
    axes = figure.subplots(1, 2)
    table = shares(tables).dropna(subset=["share"])
    _dots(axes[0], table, "share", "earned, as a share of the optimum", "walk_share")
    axes[0].axhline(1.0, color=plots.GREY, linewidth=0.8)
    _dots(axes[1], tables["errors"], "error", "relative error of Φ")
    axes[1].set_ylim(bottom=0)
    return figure


def _dots(ax: Axes, table: pd.DataFrame, column: str, ylabel: str, line: str | None = None) -> None:
    """One dot for each seed, map and λ; the colour tells λ. Column `line`, if any, is drawn as a short line."""
    names = list(dict.fromkeys(table["map"]))
    shown: set[float] = set()
    for pair, _ in _means(table, column):
        rows, lam, lams = select(table, **pair), pair["lam"], sorted(set(select(table, map=pair["map"])["lam"]))
        place = names.index(pair["map"]) + 0.7 * ((lams.index(lam) + 0.5) / len(lams) - 0.5)
        told = None if lam in shown else f"λ = {lam:g}"
        shown.add(lam)
        ax.plot(np.full(len(rows), place), rows[column], "o", color=plots.colour(lam), markersize=4, label=told)
        if line:
            ax.hlines(rows[line].iloc[0], place - 0.06, place + 0.06, color=plots.INK, linewidth=1.2)
    ax.set_xticks(range(len(names)), names)
    plots.tidy(ax, "", "map", ylabel)
    handles, labels = ax.get_legend_handles_labels()
    order = np.argsort([float(text.split("=")[1]) for text in labels])
    ax.legend([handles[i] for i in order], [labels[i] for i in order], frameon=False, fontsize=8)


def shares(tables: Tables) -> pd.DataFrame:
    """The returns with the optimum of the same tasks, and their ratio; the random walk's too."""
    table = tables["returns"].merge(tables["optima"], on=["map", "lam"])
    return table.assign(share=table["mean_return"] / table["optimum"], walk_share=table["walk"] / table["optimum"])


def _means(table: pd.DataFrame, column: str) -> list[tuple[dict[str, Any], float]]:
    """Every map and λ of a table with the mean of a column over seeds."""
    pairs = dict.fromkeys(zip(table["map"], table["lam"], strict=True))
    labels: list[dict[str, Any]] = [{"map": name, "lam": lam} for name, lam in pairs]
    return [(pair, float(select(table, **pair)[column].mean())) for pair in labels]


def _told(means: list[tuple[dict[str, Any], float]]) -> str:
    return ", ".join(f"{pair['map']}, λ = {pair['lam']:g}: {mean:.4f}" for pair, mean in means)


def earns(least: float, *maps: str) -> Callable[[Operating, Tables], Finding]:
    """Tests that networks earn more than a share of the optimum on every one of some maps, with every λ."""

    def test(settings: Operating, tables: Tables) -> Finding:
        table = shares(tables)
        table = table[table["map"].isin(maps) & table["share"].notna()]
        require_data(len(table) > 0, "The optimum is known for none of the λ: add 1 or 0.1 to lambdas.")
        means = _means(table, "share")
        rows = select(table, **min(means, key=lambda each: each[1])[0])
        walk = f"the random walk's Φ earns {table['walk_share'].min():.4f} at least"
        told = f"{_told(means)}; the estimate is that of the lowest; {walk}"
        return exceeds(bootstrap(rows["share"]), told, least)

    return test


def every_seed_earns(settings: Operating, tables: Tables) -> Finding:
    """Tests that every network earns more than 98 % of the optimum on the asymmetric map."""
    table = shares(tables)
    table = table[(table["map"] == ASYMMETRIC) & table["share"].notna()]
    require_data(len(table) > 0, "The optimum is known for none of the λ: add 1 or 0.1 to lambdas.")
    told = ", ".join(f"λ = {lam:g}: {select(table, lam=lam)['share'].min():.4f}" for lam in table["lam"].unique())
    told = f"lowest of the seeds: {told}; the random walk's Φ earns {table['walk_share'].min():.4f} at least"
    return Finding(bool((table["share"] > 0.98).all()), float(table["share"].min()), None, told)


def knows_phi(settings: Operating, tables: Tables) -> Finding:
    """Tests that the median relative error of Φ is below 0.08 for every map and λ."""
    table = select(tables["errors"], agent=ONE)
    means = _means(table, "error")
    rows = select(table, **max(means, key=lambda each: each[1])[0])
    return stays_below(bootstrap(rows["error"]), 0.08, f"{_told(means)}; the estimate is that of the largest")


EXPERIMENT = Experiment(
    name="lambda-operator",
    title="A λ operator that reaches the optimum",
    source="beyond the paper",
    summary=(
        "The paper's λ operator is learned from samples, with one temperature for all rewards. Where the world is "
        "known, the target of every policy is known too, and a temperature relative to the values makes policies sharp "
        "for small rewards as for large ones. Does a network that is trained so reach the optimum? Beside it stands an "
        "agent that has learned nothing: it takes the best first action before a random walk, whose Φ is exact."
    ),
    quick=Operating(seeds=2, agent=Config(width=128, depth=2, batch=16, epochs=5, steps=100), tasks=50),
    paper=Operating(agent=Config(epochs=200)),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    claims=(
        Claim(
            "asymmetric",
            "On the asymmetric map every network earns 98 % of the optimum, for λ = 1 and for λ = 0.1.",
            every_seed_earns,
        ),
        Claim(
            "four-rooms",
            "In FourRooms with two random goals, networks earn 98.5 % of the optimum for every λ.",
            earns(0.985, ROOMS),
        ),
        Claim(
            "every-lambda",
            "On maps for which nothing was tuned, one network for every λ earns 97 % of the optimum for every λ.",
            earns(0.97, *OTHERS),
        ),
        Claim(
            "accurate",
            "The Φ of the policies that a network acts by has a median relative error below 0.08.",
            knows_phi,
        ),
    ),
    differences="The networks use the world's kernel, which those of the paper do not.",
    double_precision=False,
)
