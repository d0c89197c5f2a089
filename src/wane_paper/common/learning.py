"""TwoRooms: learning a policy with the λ representation (Qλ-learning), for every believed λ̂ and many seeds at once.

Three rewards of 10, 5 and 5 wear off. The agents that believe in a λ̂ are compared with plain Q-learning, which learns
values alone. All agents and seeds train in one program.

| table | a row for each | columns |
| --- | --- | --- |
| `curves` | agent, seed, evaluation | episode, seed, agent, value |
| `episodes` | λ̂, seed below 16, moment of a greedy episode | agent, seed, time, cell, reward, earned, remaining0, … |

The greedy episodes are played by the first seeds after all training. The figure and the films show, for each λ̂, the
episode whose return is closest to the median over all seeds.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.agents import Trained, q_lambda, q_learning
from wane.agents.common.rollout import Episode, play
from wane.agents.planner import plan
from wane.depletion import Depletion, Geometric
from wane.lab import Claim, Finding, Loop, Seeded, Tables, exceeds, plots, seed_keys
from wane.lab.statistics import bootstrap, interquartile_mean, paired_difference, probability_of_improvement
from wane.lab.tables import frame
from wane.settings import Discount, Lambda
from wane.types import Integer
from wane.worlds.catalog import two_rooms
from wane.worlds.world import World
from wane_paper.common import beliefs, episodes
from wane_paper.common.parts import entry
from wane_paper.common.settings import Lambdas

PLAIN = "Q-learning"
EPISODES_OF = 16
"""The number of seeds, from 0, whose greedy episodes are kept step by step."""
LAST = 5
"""The number of evaluations at the end whose mean is an agent's result."""

HIGHEST_LAM = 0.6
"""The largest λ below 1 for which the optimum of TwoRooms is computed: nearer to 1, it must count more visits."""


@dataclass(frozen=True)
class Learning(Seeded):
    """Settings of the experiments with Qλ-learning."""

    lambdas: Lambdas = (0.0, 0.5, 1.0)
    """the agents' λ̂"""
    lam: Lambda = 0.5
    """the true λ"""
    discount: Discount = 0.95
    """γ; the released settings have 0.99"""
    agent: q_lambda.Config = field(default_factory=q_lambda.Config)
    """all agents; plain Q-learning takes from it what it shares with Qλ-learning"""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = {"agent.lam": "lambdas", "agent.discount": "discount"}

    def rules(self) -> None:
        """Raises SettingError if there are fewer episodes than the last evaluations need."""
        super().rules()
        least, every = LAST * self.agent.evaluate_every, self.agent.evaluate_every
        self.require(
            self.agent.episodes >= least,
            "agent.episodes",
            f"at least {least} is needed, because the last {LAST} evaluations, one every {every} episodes, are judged",
        )

    @property
    def depletion(self) -> Depletion:
        """How the rewards of the world wear off."""
        return Geometric(self.lam)

    @property
    def world(self) -> World:
        """TwoRooms."""
        return two_rooms(depletion=self.depletion, discount=self.discount)

    @property
    def evaluations(self) -> int:
        """How often each agent is evaluated while it learns."""
        return self.agent.episodes // self.agent.evaluate_every

    @property
    def trained_config(self) -> q_lambda.Config:
        """The agents' configuration, with the number of episodes rounded down to whole evaluations."""
        return dataclasses.replace(self.agent, episodes=self.evaluations * self.agent.evaluate_every)


def plain_config(agent: q_lambda.Config) -> q_learning.Config:
    """Returns the configuration of plain Q-learning: that of Qλ-learning without λ."""
    shared = {each.name: getattr(agent, each.name) for each in dataclasses.fields(q_learning.Config)}
    return q_learning.Config(**shared)


class Learned(NamedTuple):
    """The states and the greedy returns of all trained agents."""

    greedy: Float[np.ndarray, "evaluations seeds agents"]
    """The return of every greedy episode; the last agent is plain Q-learning."""
    with_lambda: q_lambda.State
    """States with two further axes: (seeds, λ̂)."""
    plain: q_learning.State
    """States with one further axis: the seeds."""


def learn(settings: Learning, seeds: Sequence[int], loop: Loop) -> Learned:
    """Trains an agent of every λ̂ and plain Q-learning for every seed, with a greedy episode after each chunk."""
    world, agent, every = settings.world, settings.agent, settings.agent.evaluate_every
    keys, lams, plain = seed_keys(seeds), jnp.asarray(settings.lambdas), plain_config(settings.agent)

    @jax.jit
    def step(states: tuple[Any, Any], chunk: Integer) -> tuple[tuple[Any, Any], Float[Array, "seeds agents"]]:
        def train_lambda(key, lam, state):
            return q_lambda.train(key, world, dataclasses.replace(agent, lam=lam), state, chunk * every, every)

        def train_plain(key, state):
            return q_learning.train(key, world, plain, state, chunk * every, every)

        phi, ours = jax.vmap(jax.vmap(train_lambda, (None, 0, 0)), (0, None, 0))(keys, lams, states[0])
        q, theirs = jax.vmap(train_plain)(keys, states[1])
        return (phi, q), jnp.concatenate([ours.greedy[..., -1], theirs.greedy[:, None, -1]], axis=1)

    def first(key):
        phi = jax.vmap(lambda lam: q_lambda.init(key, world, dataclasses.replace(agent, lam=lam)))(lams)
        return phi, q_learning.init(key, world, plain)

    work = every * (world.horizon or 0) * len(seeds) * (len(lams) + 1)
    (phi, q), greedy = loop("learning", step, jax.vmap(first)(keys), settings.evaluations, work)
    return Learned(greedy, phi, q)


def agents(settings: Learning) -> list[str]:
    """Returns the names of all agents."""
    return [*map(beliefs.label, settings.lambdas), PLAIN]


def seeded(settings: Learning, seeds: Sequence[int], loop: Loop) -> Tables:
    """Returns learning curves, and a greedy episode of every λ̂ for the first seeds. Keeps the agents of seed 0."""
    learned = learn(settings, seeds, loop)
    numbers = settings.agent.evaluate_every * np.arange(1, settings.evaluations + 1)
    tables = {"curves": frame(learned.greedy, "value", episode=numbers, seed=seeds, agent=agents(settings))}
    shown = [seed for seed in seeds if seed < EPISODES_OF]
    if 0 in seeds:
        _keep_agents(settings, loop, learned, list(seeds).index(0))
    if not shown:
        return tables
    places = np.array([list(seeds).index(seed) for seed in shown])
    return tables | {"episodes": _greedy_episodes(settings, shown, entry(learned.with_lambda, places))}


def _keep_agents(settings: Learning, loop: Loop, learned: Learned, place: int) -> None:
    """Keeps the agents of one seed, given its place in the list of seeds."""
    for i, lam in enumerate(settings.lambdas):
        config = dataclasses.replace(settings.trained_config, lam=lam)
        loop.keep(f"lam-{lam:g}", Trained("q_lambda", settings.world, config, entry(learned.with_lambda, place, i)))
    plain = plain_config(settings.trained_config)
    loop.keep("q-learning", Trained("q_learning", settings.world, plain, entry(learned.plain, place)))


def _greedy_episodes(settings: Learning, seeds: Sequence[int], states: q_lambda.State) -> pd.DataFrame:
    """Plays a greedy episode for every λ̂ and some seeds, given states with the axes (seeds, λ̂)."""
    world = settings.world

    @jax.jit
    @jax.vmap
    @jax.vmap
    def episode(state: q_lambda.State) -> Episode:
        return play(jax.random.key(0), world, q_lambda.policy(state, world, settings.agent))[1]

    played = jax.tree_util.tree_map(np.asarray, episode(states))
    return pd.concat(
        episodes.rows(world, entry(played, i, j), agent=beliefs.label(lam), seed=seed)
        for i, seed in enumerate(seeds)
        for j, lam in enumerate(settings.lambdas)
    )


def last_medians(table: pd.DataFrame) -> pd.Series:
    """Returns the median over seeds of the last evaluation, by agent."""
    return table[table["episode"] == table["episode"].max()].groupby("agent")["value"].median()


def median_episodes(tables: Tables) -> dict[str, pd.DataFrame]:
    """Returns, for each λ̂, the kept episode whose return is closest to the median of the last evaluation."""
    medians, found = last_medians(tables["curves"]), {}
    for name, rows in tables["episodes"].groupby("agent", sort=False):
        ends = rows.groupby("seed")["earned"].last()
        found[str(name)] = rows[rows["seed"] == (ends - medians[name]).abs().idxmin()]
    return found


def results(settings: Learning, table: pd.DataFrame) -> pd.DataFrame:
    """Returns the mean of the last evaluations, with the axes (seeds, agents)."""
    late = table["episode"] > settings.trained_config.episodes - LAST * settings.agent.evaluate_every
    return table[late].pivot_table(index="seed", columns="agent", values="value")


def optimum_table(world: World, lam: float) -> Tables:
    """Returns the table `optimum`: what the optimum over (cell × visit counts) earns from the start of a world.

    Returns nothing where the optimum must count too many visits. With λ = 1 it need not count them.
    """
    known = lam <= HIGHEST_LAM or lam == 1
    return {"optimum": pd.DataFrame({"value": [float(world.start @ plan(world).values)]})} if known else {}


def draw_optimum(ax: Axes, tables: Tables) -> None:
    """Draws a line at the optimum, if it is known."""
    if "optimum" in tables:
        ax.axhline(tables["optimum"]["value"].iloc[0], color=plots.INK, ls="--", lw=1, label="optimum")


def draw(settings: Learning, tables: Tables) -> Figure:
    """Draws learning curves, results at the end, and a path for each of up to three agents."""
    figure = plots.figure(11.0, 6.4)
    grid = figure.add_gridspec(2, 6)
    learning, late = figure.add_subplot(grid[0, :4]), figure.add_subplot(grid[0, 4:])
    names, shades = agents(settings), [*map(plots.colour, settings.lambdas), plots.GREY]
    colours = dict(zip(names, shades, strict=True))
    plots.plot_learning(tables["curves"], interval="error", ax=learning, colours=colours)
    draw_optimum(learning, tables)
    learning.legend(frameon=False, loc="center right", ncols=2)
    title = f"Greedy return while learning ({tables['curves']['seed'].nunique()} seeds, ± s.e.)"
    plots.tidy(learning, title, "episode", "discounted return")
    ticks = [name.replace("-", "-\n") for name in names]
    scores = results(settings, tables["curves"])[names].to_numpy()
    late.boxplot(scores, tick_labels=ticks, medianprops={"color": plots.INK})
    plots.tidy(late, f"last {LAST} evaluations", "", "discounted return")
    shown, medians = median_episodes(tables), last_medians(tables["curves"])
    for i, name in enumerate(names[:-1][:3]):
        rows = shown[name]
        ax = figure.add_subplot(grid[1, 2 * i : 2 * i + 2])
        title = f"{name}, seed {rows['seed'].iloc[0]}: {rows['earned'].iloc[-1]:.2f} (median {medians[name]:.2f})"
        episodes.path(ax, settings.world, rows, title)
    figure.supxlabel(episodes.KEY, fontsize="small")
    return figure


def films(settings: Learning, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """Returns a film of a greedy episode for every λ̂ after all training, of a seed with a median return."""
    shown = pd.concat(median_episodes(tables).values())
    return episodes.films(settings.world, shown, "agent", f"Qλ-learning, {{}}, true λ = {settings.lam:g}")


def ends_higher_than(other: float | None) -> Callable[[Learning, Tables], Finding]:
    """Returns a test that the true λ ends above another λ̂, or above plain Q-learning (None), paired by seed."""

    def test(settings: Learning, tables: Tables) -> Finding:
        if other is None:
            beliefs.need(settings.lambdas, settings.lam)
        else:
            beliefs.need_another(settings.lambdas, settings.lam, other)
        scores = results(settings, tables["curves"])
        ours = scores[beliefs.label(settings.lam)]
        theirs = scores[PLAIN if other is None else beliefs.label(other)]
        found = paired_difference(ours, theirs)
        chance = probability_of_improvement(ours, theirs)
        middle = [bootstrap(each, interquartile_mean) for each in (ours, theirs)]
        detail = (
            f"interquartile means {middle[0]} against {middle[1]}; a run of the true λ beats one of the other with "
            f"probability {chance}; {len(ours)} seeds"
        )
        return exceeds(found, detail)

    return test


def claims(place: str) -> tuple[Claim, ...]:
    """Returns the claims, two of which the paper makes in the given place."""
    statement = "The true λ ends higher than λ̂ = 1, which is Q-learning on successor features."
    return (
        Claim("beats-lambda-1", statement, ends_higher_than(1.0), "paper", place),
        Claim("beats-lambda-0", "The true λ ends higher than λ̂ = 0.", ends_higher_than(0.0), "paper", place),
        Claim("beats-q-learning", "The true λ ends higher than plain Q-learning.", ends_higher_than(None)),
    )
