"""The settings and the tables of `mvt`: three patches along a corridor, agents that leave them, the theorem's times.

The corridor is the same for every distance between patches, and training sees no rewards, so one training run serves
all distances. Agents with the exact Φ, and the optimum, are computed for every λ without training
(`wane_paper.networks.mvt_exact`).
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from wane import foraging
from wane.agents import forward_backward
from wane.agents.common.rollout import Episode, play
from wane.agents.forward_backward import Params
from wane.agents.planner import follow, plan
from wane.depletion import Geometric
from wane.lab.contract import Loop, Tables, seed_keys
from wane.lab.tables import select
from wane.settings import DISTINCT, Count, Lambda, Range
from wane.worlds.catalog import patches
from wane.worlds.world import World
from wane_paper.common import episodes
from wane_paper.networks import training
from wane_paper.networks.mvt_exact import (
    choices,
    follow_plan,
    lam_of,
    play_exact,
)
from wane_paper.networks.training import Training

FORMS = ("paper", "corrected")
"""The theorem's rule as the paper prints it, and corrected."""
EXACT, OPTIMUM = "exact Φ", "optimum"
"""The agents of the tables that do not depend on a seed."""
PLANNED = 1e-3
"""How much return the plans for the various λ may lose; the returns are 3 to 70."""
Timing = Literal["departure", "arrival"]


@dataclass(frozen=True)
class MVT(Training):
    """Settings of mvt."""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = training.PLAIN_TRAINING | {
        "agent.lam": "lam",
        "agent.discount": "discounts",
    }

    seeds: Count = 3
    """independent repetitions, numbered from 0"""
    distances: Annotated[tuple[Annotated[int, Range(1, 6)], ...], DISTINCT] = (2, 4, 6)
    """steps between patches"""
    discounts: Annotated[tuple[Annotated[float, Range(0, 1, "a discount", above=True)], ...], DISTINCT] = (0.99, 1.0)
    """γ of the agents, of the returns and of the theorem"""
    lam: Lambda = 0.5
    """λ of the patches, which the agents believe in too"""
    timings: Annotated[tuple[Timing, ...], DISTINCT] = ("departure", "arrival")
    """when a step pays: for the state it leaves, as the paper's Algorithm 3 reads, or for the one it enters"""
    lambdas: Annotated[tuple[Lambda, ...], DISTINCT] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    """λ of the worlds in which agents with the exact Φ act"""

    def rules(self) -> None:
        """Raises SettingError if discounts are written alike, if Φ would be infinite, or if an episode is one step."""
        super().rules()
        self.require_distinct("discounts", "lambdas")
        self.require_finite("lam", [self.lam], self.discounts)
        needed = "at least 2 is needed, because one step leaves nothing to decide"
        self.require(self.agent.horizon > 1, "agent.horizon", needed)

    def worlds(self) -> Iterator[tuple[int, float, Timing]]:
        """Returns the worlds in which agents act, each as a distance, a discount and a timing."""
        return product(self.distances, self.discounts, self.timings)


def make_world(settings: MVT, distance: int, discount: float, timing: Timing, lam: float | None = None) -> World:
    """Returns the corridor whose patches are `distance` steps apart, with the settings' λ unless `lam` is given."""
    depletion = Geometric(settings.lam if lam is None else lam)
    return patches(distance, depletion=depletion, horizon=settings.agent.horizon, discount=discount, timing=timing)


def fixed(settings: MVT) -> Tables:
    """Computes the optimal episode in every world, and the stays of exact agents and of the optimum by λ."""
    parts = []
    for distance, discount, timing in settings.worlds():
        world = make_world(settings, distance, discount, timing)
        played = follow(jax.random.split(jax.random.key(0), 1), world, plan(world))
        labels = {"distance": distance, "discount": discount, "timing": timing}
        parts.append(episodes.rows(world, episodes.select(played, 0), **labels))
    return {"best_episodes": pd.concat(parts, ignore_index=True), "exact_stays": exact_stays(settings)}


def exact_stays(settings: MVT) -> pd.DataFrame:
    """Returns the stays of agents with the exact Φ and of the optimum for every λ, if departures pay.

    With γ = 1 the exact Φ does not distinguish actions, so only smaller discounts are computed.
    """
    lams, discounts = sorted({*settings.lambdas, settings.lam}), [each for each in settings.discounts if each < 1]
    parts = [in_corridors(settings, lam, discount) for discount in discounts for lam in lams]
    names = ["agent", "lam", "discount", "form", "bound", "difference"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=names)


def in_corridors(settings: MVT, lam: float, discount: float) -> pd.DataFrame:
    """Returns the stays in the corridor for one λ, at every distance."""
    tables = []
    for distance in settings.distances:
        world = make_world(settings, distance, discount, "departure", lam)
        runs = {EXACT: play_exact(world, settings.agent.temperature)}
        runs[OPTIMUM] = follow_plan(world, plan(world, tolerance=PLANNED))
        for agent, run in runs.items():
            labels = {"agent": agent, "lam": lam, "discount": discount, "distance": distance}
            tables.append(stays(world, run.cells[None], run.rewards[None], **labels))
    return pd.concat(tables, ignore_index=True)


def seeded(settings: MVT, seeds: Sequence[int], loop: Loop) -> Tables:
    """Trains the agents of some seeds. Returns their episodes, stays and choices in every world."""
    return join_parts([_train_and_play(settings, seeds, loop, discount) for discount in settings.discounts])


def _train_and_play(settings: MVT, seeds: Sequence[int], loop: Loop, discount: float) -> Tables:
    keys, lams = seed_keys(seeds), jnp.full(len(seeds), settings.lam)
    collecting = patches(min(settings.distances), horizon=settings.agent.horizon, start="uniform")
    config = dataclasses.replace(settings.agent, lam=settings.lam, discount=discount)
    states, _ = training.train(f"training, γ = {discount:g}", loop, collecting, config, keys, lams)
    if 0 in seeds:
        training.keep(loop, f"discount-{discount:g}", collecting, config, states, list(seeds).index(0))
    parts = []
    for distance, timing in product(settings.distances, settings.timings):
        world = make_world(settings, distance, discount, timing)
        played = _play(world, states.params)
        labels: dict[str, Any] = {"distance": distance, "discount": discount, "timing": timing}
        rows = [episodes.rows(world, episodes.select(played, i), seed=seed) for i, seed in enumerate(seeds)]
        found = stays(world, np.asarray(played.cells), np.asarray(played.rewards), seeds, **labels)
        parts.append({"stays": found, "episodes": pd.concat(rows, ignore_index=True).assign(**labels)})
    tables = join_parts(parts)
    return tables | {"choices": learned_choices(settings, tables["episodes"])}


def learned_choices(settings: MVT, table: pd.DataFrame) -> pd.DataFrame:
    """Returns the choices of the agents in some episodes, in worlds with γ < 1 in which departures pay."""
    found = []
    for distance, discount, timing in settings.worlds():
        rows = select(table, distance=distance, discount=discount, timing=timing)
        if timing != "departure" or discount == 1 or not len(rows):
            continue
        world = make_world(settings, distance, discount, timing)
        best = plan(world, tolerance=PLANNED)
        for seed, episode in rows.groupby("seed"):
            cells = episode.sort_values("time")["cell"].to_numpy(int)
            found.append(choices(world, best, cells).assign(seed=seed, distance=distance, discount=discount))
    names = ["time", "site", "went", "right", "seed", "distance", "discount"]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=names).astype({"seed": int})


def _play(world: World, params: Params) -> Episode:
    """Plays one episode of each run."""

    def act(params: Params) -> Episode:
        return play(jax.random.key(0), world, forward_backward.policy(params, world))[1]

    return jax.jit(jax.vmap(act))(params)


def join_parts(parts: Sequence[Tables]) -> Tables:
    """Concatenates the tables of each name."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: pd.concat([part[name] for part in parts if name in part], ignore_index=True) for name in names}


def stays(
    world: World,
    cells: Int[np.ndarray, "episodes moments"],
    rewards: Float[np.ndarray, "episodes steps"],
    seeds: Sequence[int] | None = None,
    **labels: Any,
) -> pd.DataFrame:
    """Returns every stay of some episodes together with the theorem's leaving time, in both forms.

    There is one episode for each seed, or a single one without seeds.
    """
    column = {} if seeds is None else {"seed": np.array(seeds)}
    table, lam = foraging.table_from_rollout(world, cells, rewards, **column), lam_of(world)
    tables = []
    for form in FORMS:
        found = foraging.leaving_difference(table, lam, discount=world.discount, by=list(column), rule=form)
        tables.append(found.assign(form=form, site=found["site"].astype(int)).drop(columns="episode"))
    return pd.concat(tables, ignore_index=True).assign(**labels)


def differences(table: pd.DataFrame, discount: float, form: str = "paper", timing: str = "departure") -> pd.DataFrame:
    """Returns the stays of a table that end within the episode, both for the agent and for the theorem."""
    chosen = (table["form"] == form) & (table["discount"] == discount) & (table["bound"] == "exact")
    return table[chosen & (table["timing"] == timing)] if "timing" in table else table[chosen]


def by_lam(tables: Tables, agent: str, discount: float, form: str = "paper") -> pd.Series:
    """Returns the mean difference of exact agents or the optimum from the theorem over distances and stays, by λ."""
    rows = differences(tables["exact_stays"], discount, form)
    return rows[rows["agent"] == agent].groupby("lam")["difference"].mean()
