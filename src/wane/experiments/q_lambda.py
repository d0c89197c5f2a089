"""TwoRooms: learning a policy with the λ representation (Qλ-learning), for a λ̂ that is right or wrong.

Three rewards of 10, 5 and 5 halve with every visit. Beside the agents: plain Q-learning, which has values alone, and
the optimum over (cell × visit counts).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wane.agents import q_lambda, q_learning
from wane.depletion import Geometric
from wane.experiments import episodes, plots
from wane.experiments.experiment import Claim, Experiment, Finding, Loop, NotTested, Seeded, seed_keys
from wane.experiments.statistics import bootstrap, interquartile_mean, paired_difference, probability_of_improvement
from wane.foraging.optimal import plan
from wane.worlds.catalog import two_rooms
from wane.worlds.world import World

PLAIN = "Q-learning"
LAST = 5
"""evaluations at the end that count"""


@dataclass(frozen=True)
class QLambda(Seeded):
    lambdas: tuple[float, ...] = (0.0, 0.5, 1.0)
    """the agents' λ̂"""
    lam: float = 0.5
    """the true λ"""
    discount: float = 0.95
    """γ; the released settings have 0.99"""
    episodes: int = 500
    evaluate_every: int = 20
    """episodes between greedy ones"""
    step_size: float = 0.1
    epsilon: float = 0.2
    """probability of a random action while learning"""
    optimism: float = 0.2
    """first value of every entry of Φ"""

    def __post_init__(self):
        super().__post_init__()
        self.require(self.lam in self.lambdas, f"lambdas must hold the true λ, {self.lam:g}, got {self.lambdas}")
        fine = self.episodes >= LAST * self.evaluate_every
        self.require(
            fine, f"episodes = {self.episodes}: the last {LAST} evaluations, every {self.evaluate_every}, are judged"
        )

    @property
    def world(self) -> World:
        return two_rooms(depletion=Geometric(self.lam), discount=self.discount)


def name(lam: float) -> str:
    return f"λ̂ = {lam:g}"


def compute(settings: QLambda, seeds: Sequence[int], loop: Loop) -> pd.DataFrame:
    world = settings.world
    return learn(settings, seeds, loop).assign(optimum=world.start @ plan(world).values)


def learn(settings: QLambda, seeds: Sequence[int], loop: Loop) -> pd.DataFrame:
    """Curves of greedy returns of every agent and seed, all in one program, and one last greedy episode of each λ̂."""
    world, keys, lams = settings.world, seed_keys(seeds), jnp.asarray(settings.lambdas)
    every = settings.evaluate_every

    def config(lam: Any) -> q_lambda.Config:
        return q_lambda.Config(
            lam=lam,
            step_size=settings.step_size,
            epsilon=settings.epsilon,
            optimism=settings.optimism,
            evaluate_every=every,
        )

    plain = q_learning.Config(
        step_size=settings.step_size, epsilon=settings.epsilon, optimism=settings.optimism, evaluate_every=every
    )

    @jax.jit
    def step(states, chunk):
        def one(key, lam, state):
            return q_lambda.train(key, world, config(lam), state, chunk * every, every)

        def other(key, state):
            return q_learning.train(key, world, plain, state, chunk * every, every)

        phi, mine = jax.vmap(jax.vmap(one, (None, 0, 0)), (0, None, 0))(keys, lams, states[0])
        q, theirs = jax.vmap(other)(keys, states[1])
        return (phi, q), jnp.concatenate([mine.greedy[..., -1], theirs.greedy[:, None, -1]], axis=1)

    states = jax.vmap(
        lambda key: (
            jax.vmap(lambda lam: q_lambda.init(key, world, config(lam)))(lams),
            q_learning.init(key, world, plain),
        )
    )(keys)
    chunks = settings.episodes // every
    work = every * (world.horizon or 0) * len(seeds) * (len(lams) + 1)
    (phi, _), greedy = loop("learning", step, states, chunks, work)
    agents = [*map(name, settings.lambdas), PLAIN]
    levels = [every * np.arange(1, chunks + 1), seeds, agents]
    index = pd.MultiIndex.from_product(levels, names=["episode", "seed", "agent"])
    curves = pd.DataFrame({"value": greedy.ravel()}, index=index).reset_index().assign(panel="curve")
    return pd.concat([curves, _last(world, settings, seeds, phi, config)], ignore_index=True)


def _last(world: World, settings: QLambda, seeds: Sequence[int], phi: Any, config: Any) -> pd.DataFrame:
    """The first seed's greedy episodes when all is learned."""
    if 0 not in seeds:
        return pd.DataFrame()
    tables = []
    for i, lam in enumerate(settings.lambdas):
        state = jax.tree_util.tree_map(lambda leaf, i=i: leaf[list(seeds).index(0), i], phi)
        played = q_lambda.evaluate(jax.random.key(0), state, world, config(lam))
        tables.append(episodes.rows(world, played, agent=name(lam)))
    return pd.concat(tables).assign(panel="shown", seed=0)


def ends(settings: QLambda, table: pd.DataFrame) -> pd.DataFrame:
    """The mean of the last evaluations, (seeds, agents)."""
    late = table["episode"] > settings.episodes - LAST * settings.evaluate_every
    return table[late & (table["panel"] == "curve")].pivot_table(index="seed", columns="agent", values="value")


def draw(settings: QLambda, table: pd.DataFrame) -> Figure:
    figure = plots.figure(11.0, 6.4)
    grid = figure.add_gridspec(2, 6)
    learning, late = figure.add_subplot(grid[0, :4]), figure.add_subplot(grid[0, 4:])
    curves = table[table["panel"] == "curve"]
    agents = [*map(name, settings.lambdas), PLAIN]
    shades = [*map(plots.colour, settings.lambdas), plots.GREY]
    for agent, shade in zip(agents, shades, strict=True):
        plots.curve(learning, curves[curves["agent"] == agent], "episode", "value", agent, shade)
    if "optimum" in table:
        learning.axhline(table["optimum"].iloc[0], color=plots.INK, ls="--", lw=1, label="optimum")
    learning.legend(frameon=False, loc="center right", ncols=2)
    title = f"Greedy return while learning ({curves['seed'].nunique()} seeds, ± s.e.)"
    plots.tidy(learning, title, "episode", "discounted return")
    scores = ends(settings, table)[agents]
    late.boxplot(
        scores.to_numpy(), tick_labels=[agent.replace("-", "-\n") for agent in agents], medianprops={"color": plots.INK}
    )
    plots.tidy(late, f"last {LAST} evaluations", "", "discounted return")
    world = settings.world
    for i, lam in enumerate(settings.lambdas[:3]):
        rows = table[(table["panel"] == "shown") & (table["agent"] == name(lam))]
        ax = figure.add_subplot(grid[1, 2 * i : 2 * i + 2])
        episodes.path(ax, world, rows, f"{name(lam)}: {rows['earned'].iloc[-1]:.2f}")
    return figure


def films(settings: QLambda, table: pd.DataFrame) -> Mapping:
    world, shown = settings.world, table[table["panel"] == "shown"]
    return {
        str(agent): episodes.film(world, rows, f"Qλ-learning, {agent}, true λ = {settings.lam:g}")
        for agent, rows in shown.groupby("agent")
    }


def more_than(other: str):
    """That the true λ ends above another agent, seed by seed."""

    def test(settings: QLambda, table: pd.DataFrame) -> Finding:
        scores = ends(settings, table)
        if other not in scores or other == name(settings.lam):
            raise NotTested(f"there is no other agent {other}")
        mine, theirs = scores[name(settings.lam)], scores[other]
        found = paired_difference(mine, theirs)
        chance = probability_of_improvement(mine, theirs)
        middle = [bootstrap(each, interquartile_mean) for each in (mine, theirs)]
        detail = (
            f"interquartile means {middle[0]} against {middle[1]}; a run of the true λ beats one of the other with "
            f"probability {chance}; {len(mine)} seeds"
        )
        return Finding(found.low > 0, found.value, (found.low, found.high), detail)

    return test


def below_the_optimum(settings: QLambda, table: pd.DataFrame) -> Finding:
    highest = table["optimum"].iloc[0]
    mean = ends(settings, table)[name(settings.lam)].mean()
    top = table[table["panel"] == "curve"]["value"].max()
    detail = f"the true λ ends at {mean:.3f} of {highest:.3f}; the best evaluation of any agent was {top:.3f}"
    return Finding(bool(top <= highest + 1e-9), highest - mean, None, detail)


CLAIMS = (
    Claim(
        "beats-lambda-1",
        "The true λ ends higher than λ̂ = 1, Q-learning on successor features.",
        more_than(name(1.0)),
    ),
    Claim("beats-lambda-0", "The true λ ends higher than λ̂ = 0.", more_than(name(0.0))),
    Claim("beats-q-learning", "The true λ ends higher than plain Q-learning.", more_than(PLAIN)),
)

EXPERIMENT = Experiment(
    name="q-lambda",
    title="Learning a policy in TwoRooms",
    source="section 5.2, figure 5.2 (left)",
    says="Qλ-learning outperforms standard Q-learning (λ = 1) for diminishing rewards, and the correct λ does best.",
    quick=QLambda(seeds=64),
    paper=QLambda(),
    compute=compute,
    draw=draw,
    films=films,
    claims=(*CLAIMS, Claim("below-the-optimum", "No agent earns more than the optimum.", below_the_optimum)),
    differs=(
        "The paper has three seeds; the quick scale has 64, as they take seconds. What the paper calls standard "
        "Q-learning is λ̂ = 1 with what is left of the rewards given at each step; plain Q-learning, which sees "
        "neither, is added, and so is the optimum. ε and the optimistic start are those of the released "
        "settings; the text gives neither."
    ),
    cost="less than one hour on a laptop (2020, quad-core)",
)
