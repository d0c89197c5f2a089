"""An experiment: does the agent learn to earn more on the carousel?"""

import time
from dataclasses import dataclass

import jax
import pandas as pd
from matplotlib.figure import Figure

from orchard.agent import AGENT, Config
from orchard.depletion import Bored
from orchard.world import Carousel
from wane.agents import Trained
from wane.lab import Claim, Experiment, Seeded, exceeds, seed_keys
from wane.lab.statistics import bootstrap

CHUNKS, LONG = 10, Config(episodes=200)


@dataclass(frozen=True)
class Orchard(Seeded):
    """The settings of the experiment."""

    seeds: int = 4
    agent: Config = LONG
    power: float = 0.5
    """how fast rewards lose interest"""
    pause: float = 0.0
    """seconds to wait after each chunk, so that the run can be killed in the middle"""


def seeded(settings, seeds, loop):
    world, keys = Carousel(Bored(settings.power)), seed_keys(seeds)
    episodes = settings.agent.episodes // CHUNKS

    def chunk(key, state, first):
        return AGENT.train(key, world, settings.agent, state, first, episodes=episodes)

    learn = jax.jit(jax.vmap(chunk, in_axes=(0, 0, None)))

    def step(states, number):
        time.sleep(settings.pause)
        return learn(keys, states, number * episodes)

    first = jax.vmap(lambda key: AGENT.init(key, world, settings.agent))(keys)
    states, returns = loop("learning", step, first, CHUNKS, episodes, unit="episodes")
    if 0 in seeds:
        state = jax.tree_util.tree_map(lambda leaf: leaf[list(seeds).index(0)], states)
        loop.keep("preference-seed-0", Trained(AGENT, world, settings.agent, state))
    rows = {"seed": seeds, "first": returns[0].mean(1), "last": returns[-1].mean(1)}
    return {"returns": pd.DataFrame(rows)}


def draw(settings, tables):
    figure = Figure()
    tables["returns"][["first", "last"]].plot.bar(ax=figure.subplots())
    return figure


def learns(settings, tables):
    return exceeds(bootstrap(tables["returns"]["last"] - tables["returns"]["first"]), than=0)


EXPERIMENT = Experiment(
    name="orchard",
    title="Learning on a carousel",
    source="orchard",
    summary="An agent of another package learns in a world of another package.",
    quick=Orchard(),
    paper=Orchard(seeds=20),
    seeded=seeded,
    draw=draw,
    claims=(Claim("learns", "The agent earns more at the end than at the beginning.", learns),),
)
