"""The settings and the tables of `mvt`: three patches along a corridor, agents that leave them, the theorem's times.

The corridor is the same for every distance between patches, and training sees no rewards, so one training run serves
all distances. For every λ there is also what λO-FB would do if it had learned Φ exactly, and what the optimum does
(`wane.optimum`). An agent that acts by λO-FB takes argmax_a Q(s, a) of the policy that is the softmax of this Q, for
the remaining rewards (`wane_paper.common.soft_policies`). The worlds are deterministic, so one episode describes such
an agent completely, and nothing depends on a seed.

**Where to go.** When an agent leaves a patch, it could go to any other patch that is reached without crossing a third
one. Going there by the shortest path and following the optimum from then on is worth V; the choice is right if no other
patch is worth more. Moments at which all patches are worth the same, or only one can be reached, are not counted.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from wane.exact.planning import Optimum
from wane.lab import Loop, Tables, seed_keys
from wane.lab.tables import select
from wane.settings import DISTINCT, Lambda, Range
from wane.worlds.catalog import patches
from wane.worlds.world import World
from wane_paper.common import episodes
from wane_paper.common.parts import entry, join_tables
from wane_paper.common.soft_policies import TIE, first_best, rewards_of_states, soft_q_values
from wane_paper.networks import training
from wane_paper.networks.training import Training

RULES = ("paper", "corrected")
"""The theorem's rule as the paper prints it, and corrected."""
EXACT, OPTIMUM = "exact Φ", "optimum"
"""The agents of the tables that do not depend on a seed."""
PLANNED = 1e-3
"""How much return the plans for the various λ may lose; the returns are 3 to 70."""
Timing = Literal["departure", "arrival"]
Visits = Int[np.ndarray, " states"]
"""How often each state was visited."""
CellsAndRewards = tuple[Int[np.ndarray, " moments"], Float[np.ndarray, " steps"]]
"""Of one episode."""


@dataclass(frozen=True)
class MVT(Training):
    """Settings of mvt."""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = training.PLAIN_TRAINING | {
        "agent.lam": "lam",
        "agent.discount": "discounts",
    }

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
        parts.append(episodes.rows(world, entry(played, 0), **labels))
    return {"best_episodes": pd.concat(parts, ignore_index=True), "exact_stays": exact_stays(settings)}


def exact_stays(settings: MVT) -> pd.DataFrame:
    """Returns the stays of agents with the exact Φ and of the optimum for every λ, if departures pay.

    With γ = 1 the exact Φ does not distinguish actions, so only smaller discounts are computed.
    """
    lams, discounts = sorted({*settings.lambdas, settings.lam}), [each for each in settings.discounts if each < 1]
    parts = [in_corridors(settings, lam, discount) for discount in discounts for lam in lams]
    names = ["agent", "lam", "discount", "rule", "bound", "difference"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=names)


def in_corridors(settings: MVT, lam: float, discount: float) -> pd.DataFrame:
    """Returns the stays in the corridor for one λ, at every distance."""
    tables = []
    for distance in settings.distances:
        world = make_world(settings, distance, discount, "departure", lam)
        played = {EXACT: play_exact(world, settings.agent.temperature)}
        played[OPTIMUM] = follow_plan(world, plan(world, tolerance=PLANNED))
        for agent, (cells, rewards) in played.items():
            labels = {"agent": agent, "lam": lam, "discount": discount, "distance": distance}
            tables.append(stays(world, cells[None], rewards[None], **labels))
    return pd.concat(tables, ignore_index=True)


def play_exact(world: World, temperature: float) -> CellsAndRewards:
    """Plays the episode of the agent with the exact Φ. Among equally good actions it takes the first."""
    lam, rewards = lam_of(world), rewards_of_states(world)

    def act(time: int, cell: int, visits: Visits) -> int:
        return first_best(soft_q_values(world, rewards * lam**visits, lam, world.discount, temperature)[cell])

    return _play(world, act)


def follow_plan(world: World, best: Optimum) -> CellsAndRewards:
    """Plays the optimal episode."""

    def act(time: int, cell: int, visits: Visits) -> int:
        # A plan counts the present visit among the visits made.
        return best.action(cell, visits[world.sites] + (world.sites == cell), min(time, len(best.policy) - 1))

    return _play(world, act)


def _play(world: World, act: Callable[[int, int, Visits], int]) -> CellsAndRewards:
    """Plays an episode in double precision. Every step pays for the state that it leaves.

    In `act(time, cell, visits)`, `visits` counts the visits before the present one.
    """
    lam, fresh, visits = lam_of(world), rewards_of_states(world), np.zeros(world.n_states, int)
    cells, rewards = [int(np.searchsorted(world.start_cumulated, 0.5, side="right"))], []
    for time in range(world.horizon or 0):
        cell = cells[-1]
        action = act(time, cell, visits)
        rewards.append(fresh[cell] * lam ** visits[cell])
        visits[cell] += 1
        cells.append(int(world.tables.next_states[cell, action]))
    return np.array(cells), np.array(rewards, float)


def lam_of(world: World) -> float:
    """Returns the λ of a world in which every site has the same λ."""
    assert isinstance(world.depletion, Geometric)
    return float(np.asarray(world.depletion.lam))


def choices(world: World, cells: Int[np.ndarray, " moments"]) -> pd.DataFrame:
    """Returns one row for every departure at which the patches that could be reached were worth different amounts.

    The columns are `time`, the `site` that was left, the next patch (`went`), and whether no other patch is worth more
    (`right`).
    """
    sites = [int(cell) for cell in world.sites]
    ways = {cell: episodes.steps_to_sites(world, cell) for cell in sites}
    visits, rows = np.zeros(world.n_states, int), []
    for time, cell in enumerate(map(int, cells[:-1])):
        visits[cell] += 1
        leaves = cell in sites and int(cells[time + 1]) != cell
        went = next((int(each) for each in cells[time + 1 :] if each in sites and each != cell), None)
        if leaves and went in ways[cell]:
            worth = {site: _worth(world, time + steps, site, visits) for site, steps in ways[cell].items()}
            good = [site for site, each in worth.items() if each >= max(worth.values()) * (1 - TIE)]
            if len(good) < len(worth):
                rows.append((time, sites.index(cell), sites.index(went), went in good))
    return pd.DataFrame(rows, columns=["time", "site", "went", "right"]).astype({"right": bool})


def _worth(world: World, time: int, site: int, visits: Visits) -> float:
    """Returns the value of being at a site at a time, given the visits made before, if the optimum is followed then."""
    if time >= (world.horizon or 0):
        return 0.0
    remaining = world.rewards * lam_of(world) ** visits[world.sites]
    later = dataclasses.replace(world, rewards=remaining, horizon=(world.horizon or 0) - time)
    return float(world.discount**time * later.optimum(tolerance=PLANNED).values[site])


def seeded(settings: MVT, seeds: Sequence[int], loop: Loop) -> Tables:
    """Trains the agents of some seeds. Returns their episodes, stays and choices in every world."""
    return join_tables([_train_and_play(settings, seeds, loop, discount) for discount in settings.discounts])


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
        played = _play_trained(world, states.params)
        labels: dict[str, Any] = {"distance": distance, "discount": discount, "timing": timing}
        rows = [episodes.rows(world, entry(played, i), seed=seed) for i, seed in enumerate(seeds)]
        found = stays(world, np.asarray(played.cells), np.asarray(played.rewards), seeds, **labels)
        parts.append({"stays": found, "episodes": pd.concat(rows, ignore_index=True).assign(**labels)})
    tables = join_tables(parts)
    return tables | {"choices": learned_choices(settings, tables["episodes"])}


def learned_choices(settings: MVT, table: pd.DataFrame) -> pd.DataFrame:
    """Returns the choices of the agents in some episodes, in worlds with γ < 1 in which departures pay."""
    found = []
    for distance, discount, timing in settings.worlds():
        rows = select(table, distance=distance, discount=discount, timing=timing)
        if timing == "departure" and discount < 1:
            world = make_world(settings, distance, discount, timing)
            for seed, episode in rows.groupby("seed"):
                cells = episode.sort_values("time")["cell"].to_numpy(int)
                found.append(choices(world, cells).assign(seed=seed, distance=distance, discount=discount))
    names = ["time", "site", "went", "right", "seed", "distance", "discount"]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=names).astype({"seed": int})


def _play_trained(world: World, params: Params) -> Episode:
    """Plays one episode of each run."""

    def act(params: Params) -> Episode:
        return play(jax.random.key(0), world, forward_backward.policy(params, world))[1]

    return jax.jit(jax.vmap(act))(params)


def stays(
    world: World,
    cells: Int[np.ndarray, "episodes moments"],
    rewards: Float[np.ndarray, "episodes steps"],
    seeds: Sequence[int] | None = None,
    **labels: Any,
) -> pd.DataFrame:
    """Returns every stay of some episodes together with the theorem's leaving time, by both rules.

    There is one episode for each seed, or a single one without seeds.
    """
    column = {} if seeds is None else {"seed": np.array(seeds)}
    table, lam = foraging.table_from_rollout(world, cells, rewards, **column), lam_of(world)
    tables = []
    for rule in RULES:
        found = foraging.leaving_difference(table, lam, discount=world.discount, by=list(column), rule=rule)
        tables.append(found.assign(rule=rule, site=found["site"].astype(int)).drop(columns="episode"))
    return pd.concat(tables, ignore_index=True).assign(**labels)


def differences(table: pd.DataFrame, discount: float, rule: str = "paper", timing: str = "departure") -> pd.DataFrame:
    """Returns the stays of a table that end within the episode, both for the agent and for the theorem."""
    rows = select(table, rule=rule, discount=discount, bound="exact")
    return select(rows, timing=timing) if "timing" in rows else rows


def by_lam(tables: Tables, agent: str, discount: float, rule: str = "paper") -> pd.Series:
    """Returns the mean difference of exact agents or the optimum from the theorem over distances and stays, by λ."""
    return select(differences(tables["exact_stays"], discount, rule), agent=agent).groupby("lam")["difference"].mean()
