"""One large reward on the left, six small ones with a larger sum on the right: where does λ send an agent?

λO-FB is trained for λ = 1 and for λ = 0.1, and each agent acts where its λ is true. It is compared with the optimum
over (cell × visit counts) of the same episodes.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.agents import forward_backward
from wane.agents.common.policy import Policy
from wane.agents.common.rollout import Episode, play
from wane.agents.forward_backward import Params
from wane.agents.planner import follow, plan
from wane.depletion import Geometric
from wane.experiments.common import episodes, plots
from wane.experiments.common.checks import Lambdas
from wane.experiments.contract import Claim, Experiment, Finding, Loop, Tables, seed_keys
from wane.experiments.networks import training
from wane.experiments.networks.training import Training, require_data
from wane.settings import Count, Positive, Range
from wane.types import Scalar
from wane.worlds import draw as maps
from wane.worlds.catalog import asymmetric
from wane.worlds.world import World

LASTING, QUICKLY_GONE = 1.0, 0.1
"""The two λ of the paper."""
PLAIN = 1.0
"""The paper's factor of the rewards in z_R."""


@dataclass(frozen=True)
class Asymmetric(Training):
    """Settings of fb-asymmetric."""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = {"agent.lam": "lambdas"} | training.PLAIN_TRAINING

    seeds: Count = 3
    """independent repetitions, numbered from 0"""
    lambdas: Lambdas = (LASTING, QUICKLY_GONE)
    """λ that agents are trained for and that is true where they act"""
    factors: tuple[Positive, ...] = (PLAIN, 10.0, 100.0)
    """factors of the rewards in z_R: the larger, the sharper the policy π_z; the paper has 1"""
    tolerance: Annotated[float, Range(1e-6, 1_000_000)] = 0.1
    """what the optimum may be off by"""

    def rules(self) -> None:
        """Raises SettingError if values are alike, or if Φ would be infinite."""
        super().rules()
        self.require_distinct("lambdas", "factors")
        self.require_finite("lambdas", self.lambdas, [self.agent.discount])


def make_world(settings: Asymmetric, lam: Scalar, **changes: Any) -> World:
    """The world where λ is true. Its returns are plain sums."""
    return asymmetric(depletion=Geometric(lam), horizon=settings.agent.horizon, discount=1.0, **changes)


def fixed(settings: Asymmetric) -> Tables:
    """An optimal episode for each λ."""
    tables = []
    for lam in settings.lambdas:
        world = make_world(settings, lam)
        played = follow(jax.random.split(jax.random.key(0), 1), world, plan(world, tolerance=settings.tolerance))
        tables.append(episodes.rows(world, episodes.select(played, 0), lam=lam))
    return {"best_episodes": pd.concat(tables, ignore_index=True)}


def seeded(settings: Asymmetric, seeds: Sequence[int], loop: Loop) -> Tables:
    """One episode of each agent of some seeds, with each factor of the rewards."""
    collecting = make_world(settings, 1.0, start="uniform")
    keys, (lams,) = training.pairs(seed_keys(seeds), settings.lambdas)
    states, _ = training.train("training", loop, collecting, settings.agent, keys, lams)

    def act(params: Params, lam: Array, factor: Array) -> Episode:
        world = make_world(settings, lam)
        policy = with_factor(forward_backward.policy(params, world), factor)
        return play(jax.random.key(0), world, policy)[1]

    each_factor = jax.vmap(act, (None, None, 0))
    played = jax.jit(jax.vmap(each_factor, (0, 0, None)))(states.params, lams, jnp.asarray(settings.factors))
    tables = []
    for (i, seed), (j, lam), (k, factor) in product(*map(enumerate, (seeds, settings.lambdas, settings.factors))):
        episode = episodes.select(played, i * len(settings.lambdas) + j, k)
        tables.append(episodes.rows(make_world(settings, lam), episode, seed=seed, lam=lam, factor=factor))
    for j, lam in enumerate(settings.lambdas if 0 in seeds else ()):
        run, config = list(seeds).index(0) * len(settings.lambdas) + j, dataclasses.replace(settings.agent, lam=lam)
        training.keep(loop, f"lam-{lam:g}", make_world(settings, lam), config, states, run)
    return {"episodes": pd.concat(tables, ignore_index=True)}


def with_factor(policy: Policy, factor: Scalar) -> Policy:
    """The policy that acts as if all rewards were larger by a factor."""

    def act(params: Any, carry: Any, observation: Any, key: Any) -> tuple[Any, Any, Any]:
        return policy.act(params, carry, observation._replace(remaining=factor * observation.remaining), key)

    return dataclasses.replace(policy, act=act)


def draw(settings: Asymmetric, tables: Tables) -> Figure:
    """For each λ: an episode of an agent, an optimal one, and where the agents of all seeds spend their time."""
    figure = plots.figure(11.0, 2.5 * len(settings.lambdas))
    axes = figure.subplots(len(settings.lambdas), 3, squeeze=False)
    for row, lam in zip(axes, settings.lambdas, strict=True):
        _draw_row(row, make_world(settings, lam), *_episodes_of(tables, lam, settings.factors[0]), lam)
    return figure


def _draw_row(
    axes: Sequence[Axes] | np.ndarray, world: World, learned: pd.DataFrame, best: pd.DataFrame, lam: float
) -> None:
    shown = learned[learned["seed"] == learned["seed"].min()]
    episodes.path(axes[0], world, shown, f"λO-FB, λ = {lam:g}: {shown['earned'].iloc[-1]:.2f}")
    episodes.path(axes[1], world, best, f"optimum, λ = {lam:g}: {best['earned'].iloc[-1]:.2f}")
    share = np.bincount(learned["cell"].to_numpy(int), minlength=world.n_states) / len(learned)
    sites = dict(sites=world.sites, rewards=world.rewards)
    maps.still(world.map, values=share, title="time spent, all seeds", label="share", ax=axes[2], **sites)


def films(settings: Asymmetric, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """One film for each λ, of seed 0."""
    shown = {lam: _episodes_of(tables, lam, settings.factors[0])[0] for lam in settings.lambdas}
    return {
        f"λ = {lam:g}": episodes.film(make_world(settings, lam), rows[rows["seed"] == 0], f"λO-FB, λ = {lam:g}")
        for lam, rows in shown.items()
    }


def _episodes_of(tables: Tables, lam: float, factor: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The episodes of the agents with a factor, and the optimal episode."""
    learned, best = tables["episodes"], tables["best_episodes"]
    return learned[(learned["lam"] == lam) & (learned["factor"] == factor)], best[best["lam"] == lam]


def measure(settings: Asymmetric, tables: Tables, lam: float, factor: float) -> tuple[pd.DataFrame, pd.Series]:
    """Measures the episodes of the agents, one row for each seed, and the optimal one.

    The columns are the number of sites that were visited, the share of the time at the large reward, and what was
    earned. Raises NotTested if no agent has this λ or this factor.
    """
    require_data(lam in settings.lambdas, f"No agents were trained for λ = {lam:g}: add {lam:g} to lambdas.")
    require_data(factor in settings.factors, f"No agents acted with factor {factor:g}: add {factor:g} to factors.")
    world = make_world(settings, lam)
    learned, best = _episodes_of(tables, lam, factor)
    by_seed = [_measure_one(world, rows).rename(seed) for seed, rows in learned.groupby("seed")]
    return pd.DataFrame(by_seed), _measure_one(world, best)


def _measure_one(world: World, rows: pd.DataFrame) -> pd.Series:
    cells = rows["cell"].to_numpy(int)
    at_large = float((cells == world.sites[0]).mean())
    visited = len(np.intersect1d(cells, world.sites))
    return pd.Series({"sites": visited, "large": at_large, "earned": rows["earned"].iloc[-1]})


def _earnings(settings: Asymmetric, tables: Tables, lam: float) -> str:
    """What agents and the optimum earn, and what agents earn with larger factors of the rewards."""
    learned, best = measure(settings, tables, lam, PLAIN)
    told = f"earned {learned['earned'].mean():.1f} of {best['earned']:.1f}"
    for factor in settings.factors:
        if factor != PLAIN:
            other, _ = measure(settings, tables, lam, factor)
            told += f"; with rewards × {factor:g} in z_R {other['earned'].mean():.1f}"
    return told


def exploits_the_large_one(settings: Asymmetric, tables: Tables) -> Finding:
    """Tests that agents with λ = 1 spend more than 80 % of the time at the large reward."""
    learned, best = measure(settings, tables, LASTING, PLAIN)
    shares = ", ".join(f"{share:.2f}" for share in learned["large"])
    detail = f"share of time at the large reward: agents {shares}, optimum {best['large']:.2f}; "
    detail += _earnings(settings, tables, LASTING)
    return Finding(bool((learned["large"] > 0.8).all()), learned["large"].mean(), None, detail)


def tours_the_small_ones(settings: Asymmetric, tables: Tables) -> Finding:
    """Tests that agents with λ = 0.1 visit at least six of the seven sites."""
    learned, best = measure(settings, tables, QUICKLY_GONE, PLAIN)
    visited = ", ".join(f"{sites:.0f}" for sites in learned["sites"])
    detail = f"sites visited: agents {visited}, optimum {best['sites']:.0f}; "
    detail += _earnings(settings, tables, QUICKLY_GONE)
    return Finding(bool((learned["sites"] >= 6).all()), learned["sites"].mean(), None, detail)


def near_the_optimum(settings: Asymmetric, tables: Tables) -> Finding:
    """Tests that agents earn more than 95 % of the optimum with every λ."""
    shares = {}
    for lam in settings.lambdas:
        learned, best = measure(settings, tables, lam, PLAIN)
        require_data(best["earned"] > 0, f"The optimum for λ = {lam:g} earns nothing: raise agent.horizon.")
        shares[lam] = learned["earned"].mean() / best["earned"]
    lowest = min(shares.values())
    detail = ", ".join(f"λ = {lam:g}: {100 * share:.1f} %" for lam, share in shares.items())
    return Finding(bool(lowest > 0.95), lowest, None, f"of the optimum, {detail}")


EXPERIMENT = Experiment(
    name="fb-asymmetric",
    title="One large reward or many small ones",
    source="section 6, figure 6.1 (c–e)",
    summary=(
        "With λ = 1 the optimal strategy is to reach the large reward and to exploit it for ever. With λ = 0.1 it is "
        "to exploit each reward for a few steps and to move on. The λ operator recovers both strategies."
    ),
    quick=Asymmetric(seeds=2, agent=training.quick(epochs=8)),
    paper=Asymmetric(),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=(
        Claim(
            "large-for-ever",
            "With λ = 1 agents go to the large reward and stay there.",
            exploits_the_large_one,
            kind="paper",
            place="section 6, figure 6.1",
        ),
        Claim(
            "tour",
            "With λ = 0.1 agents visit six of the seven rewards at least.",
            tours_the_small_ones,
            kind="paper",
            place="section 6, figure 6.1",
        ),
        Claim("near-the-optimum", "With each λ agents earn 95 % of the optimum.", near_the_optimum),
    ),
    differences=(
        f"{training.SCHEDULE} The paper gives no numbers for its map: ours has a reward of 6 on the left and six "
        "rewards of 2 on the right. Episodes start anywhere while data are collected. We add the optimum."
    ),
    paper_cost=training.COST,
    double_precision=False,
)
