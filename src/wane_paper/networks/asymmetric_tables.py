"""Settings and tables of fb-asymmetric: what optimal, exact and trained agents do, with several large rewards."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array

from wane.agents import forward_backward
from wane.agents.common.policy import Policy
from wane.agents.common.rollout import Episode, play
from wane.agents.forward_backward import Params
from wane.agents.planner import follow, plan
from wane.depletion import Geometric
from wane.lab.contract import Loop, Tables, seed_keys
from wane.lab.tables import select
from wane.settings import DISTINCT, Count, Positive, Range
from wane.types import Scalar
from wane.worlds.catalog import asymmetric
from wane.worlds.world import World
from wane_paper.common import episodes
from wane_paper.common.checks import Lambdas
from wane_paper.common.soft_policies import first_best, soft_q_values
from wane_paper.networks import training
from wane_paper.networks.training import Training, require_data

LASTING, QUICKLY_GONE = 1.0, 0.1
"""The two λ of the paper."""
PLAIN = 1.0
"""The paper's factor of the rewards in z_R."""
SMALL = 2.0
"""The size of each of the six small rewards."""
SOON = 0.9999
"""A discount so close to 1 that the optimal episode still earns as much, but as early as possible. Without this
discount, the planner of a long episode may wander first."""


@dataclass(frozen=True)
class Asymmetric(Training):
    """Settings of fb-asymmetric."""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = {"agent.lam": "lambdas"} | training.PLAIN_TRAINING

    seeds: Count = 6
    """independent repetitions, numbered from 0"""
    lambdas: Lambdas = (LASTING, QUICKLY_GONE)
    """λ that agents are trained for and that is true where they act"""
    factors: tuple[Positive, ...] = (PLAIN, 10.0, 100.0)
    """factors of the rewards in z_R: the larger, the sharper the policy π_z; the paper has 1"""
    larges: Annotated[tuple[Positive, ...], DISTINCT] = (6.0, 11.0)
    """large rewards with which the agents act; each of the six small ones is 2"""
    tolerance: Annotated[float, Range(1e-6, 1_000_000)] = 0.1
    """error that is allowed in the optimum"""

    def rules(self) -> None:
        """Raises SettingError if a setting lists two values that are written alike, or if Φ would be infinite."""
        super().rules()
        self.require_distinct("lambdas", "factors")
        self.require_finite("lambdas", self.lambdas, [self.agent.discount])

    def temperature(self, factor: float) -> float:
        """Returns the temperature that gives the same softmax policies as rewards that are larger by a factor."""
        return self.agent.temperature / factor


def make_world(settings: Asymmetric, lam: Scalar, large: float, **changes: Any) -> World:
    """Returns the world with this large reward in which λ is true. Its returns are undiscounted sums."""
    task = dict(rewards=[large, *[SMALL] * 6], depletion=Geometric(lam), horizon=settings.agent.horizon)
    return asymmetric(**(task | {"discount": 1.0} | changes))


def fixed(settings: Asymmetric) -> Tables:
    """Computes an optimal episode for each λ and large reward, and the behaviour of exact agents for λ = 1."""
    best = []
    for lam, large in product(settings.lambdas, settings.larges):
        world = make_world(settings, lam, large)
        found = plan(make_world(settings, lam, large, discount=SOON), tolerance=settings.tolerance)
        played = follow(jax.random.split(jax.random.key(0), 1), world, found)
        best.append(episodes.rows(world, episodes.select(played, 0), lam=lam, large=large))
    tables = {"best_episodes": pd.concat(best, ignore_index=True)}
    if LASTING not in settings.lambdas:
        return tables
    return tables | {"exact": exact_table(settings)}


def exact_table(settings: Asymmetric) -> pd.DataFrame:
    """Returns what the agent with the exact Φ earns for λ = 1, and its share of moments at the large reward.

    There is a row for each size of the large reward and each temperature of its policies. With a large temperature the
    policies are nearly a random walk, which easily hits six small rewards that lie close together, but not one large
    reward far away; so the agent can prefer the small rewards although the optimum does not.
    """
    rows = []
    for large, factor in product(settings.larges, settings.factors):
        world, temperature = make_world(settings, LASTING, large), settings.temperature(factor)
        rewards = np.zeros(world.n_states)
        rewards[world.sites] = world.rewards
        q = soft_q_values(world, rewards, LASTING, settings.agent.discount, temperature)
        cells = [int(np.argmax(world.start))]
        for _ in range(settings.agent.horizon):
            cells.append(int(world.tables.next_states[cells[-1], first_best(q[cells[-1]])]))
        found = {"earned": rewards[cells[1:]].sum(), "at_large": np.mean(np.array(cells) == world.sites[0])}
        rows.append({"large": large, "temperature": temperature} | found)
    return pd.DataFrame(rows)


def seeded(settings: Asymmetric, seeds: Sequence[int], loop: Loop) -> Tables:
    """Trains the agents of some seeds, and plays one episode of each with each large reward and factor."""
    start = make_world(settings, 1.0, settings.larges[0])
    collecting = dataclasses.replace(start, start="uniform")
    keys, (lams,) = training.pairs(seed_keys(seeds), settings.lambdas)
    states, _ = training.train("training", loop, collecting, settings.agent, keys, lams)

    def act(params: Params, lam: Array, large: Array, factor: Array) -> Episode:
        rewards = jnp.full(start.n_sites, SMALL).at[0].set(large)
        world = dataclasses.replace(start, depletion=Geometric(lam), rewards=rewards)
        policy = with_factor(forward_backward.policy(params, world), factor)
        return play(jax.random.key(0), world, policy)[1]

    acting = jnp.asarray(list(product(settings.larges, settings.factors))).T
    each_case = jax.vmap(act, (None, None, 0, 0))
    played = jax.jit(jax.vmap(each_case, (0, 0, None, None)))(states.params, lams, *acting)
    runs, cases = (list(product(*axes)) for axes in ((seeds, settings.lambdas), (settings.larges, settings.factors)))
    tables = []
    for (i, (seed, lam)), (j, (large, factor)) in product(enumerate(runs), enumerate(cases)):
        world, labels = make_world(settings, lam, large), dict(seed=seed, lam=lam, large=large, factor=factor)
        tables.append(episodes.rows(world, episodes.select(played, i, j), **labels))
    for run, (seed, lam) in enumerate(runs):
        if seed == 0:
            config = dataclasses.replace(settings.agent, lam=lam)
            training.keep(loop, f"lam-{lam:g}", make_world(settings, lam, settings.larges[0]), config, states, run)
    return {"episodes": pd.concat(tables, ignore_index=True)}


def with_factor(policy: Policy, factor: Scalar) -> Policy:
    """Returns the policy that acts as if all rewards were larger by a factor."""

    def act(params: Any, carry: Any, observation: Any, key: Any) -> tuple[Any, Any, Any]:
        return policy.act(params, carry, observation._replace(remaining=factor * observation.remaining), key)

    return dataclasses.replace(policy, act=act)


def episodes_of(tables: Tables, lam: float, large: float, factor: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns the episodes of the agents with this λ, large reward and factor, and the optimal episode."""
    learned = select(tables["episodes"], lam=lam, large=large, factor=factor)
    return learned, select(tables["best_episodes"], lam=lam, large=large)


def measure(
    settings: Asymmetric, tables: Tables, lam: float, large: float, factor: float
) -> tuple[pd.DataFrame, pd.Series]:
    """Returns measurements of the agents' episodes, one row for each seed, and of the optimal episode.

    The columns are the number of sites that were visited, the share of the time at the large reward, and what was
    earned. Raises NotTested if no agent has this λ or this factor.
    """
    require_data(lam in settings.lambdas, f"No agents were trained for λ = {lam:g}: add {lam:g} to lambdas.")
    require_data(factor in settings.factors, f"No agents acted with factor {factor:g}: add {factor:g} to factors.")
    world = make_world(settings, lam, large)
    learned, best = episodes_of(tables, lam, large, factor)
    by_seed = [_measure_one(world, rows).rename(seed) for seed, rows in learned.groupby("seed")]
    return pd.DataFrame(by_seed), _measure_one(world, best)


def _measure_one(world: World, rows: pd.DataFrame) -> pd.Series:
    cells = rows["cell"].to_numpy(int)
    at_large = float((cells == world.sites[0]).mean())
    visited = len(np.intersect1d(cells, world.sites))
    return pd.Series({"sites": visited, "at_large": at_large, "earned": rows["earned"].iloc[-1]})


def exact_agent(settings: Asymmetric, tables: Tables, large: float, factor: float) -> pd.Series:
    """Returns the exact agent's row for a large reward and a factor. Raises NotTested without λ = 1."""
    require_data(LASTING in settings.lambdas, "No agents were trained for λ = 1: add 1 to lambdas.")
    return select(tables["exact"], large=large, temperature=settings.temperature(factor)).iloc[0]
