"""One large reward on the left, six small ones with a larger sum on the right: where does λ send an agent?

λO-FB is trained for λ = 1 and for λ = 0.1 and acts where that λ is true. The optimum over (cell × visit counts) of the
same episodes is beside it.
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
from wane.experiments import episodes, fb_training, plots
from wane.experiments.experiment import Claim, Experiment, Finding, Loop, seed_keys
from wane.experiments.fb_training import Training
from wane.foraging.optimal import follow, plan
from wane.worlds import draw as maps
from wane.worlds.catalog import asymmetric
from wane.worlds.world import World

BEST = "optimum"


@dataclass(frozen=True)
class Asymmetric(Training):
    seeds: int = 3
    """independent repetitions, numbered from 0"""
    lambdas: tuple[float, ...] = (1.0, 0.1)
    """of the agents, and true"""
    scales: tuple[float, ...] = (1.0, 10.0, 100.0)
    """factors of the rewards in z_R: the larger, the sharper the policy π_z; the paper has 1"""
    tolerance: float = 0.1
    """what the optimum may be off by"""


def make_world(settings: Asymmetric, lam: Any, **changes: Any) -> World:
    return asymmetric(depletion=Geometric(lam), horizon=settings.horizon, discount=1.0, **changes)


def compute(settings: Asymmetric, seeds: Sequence[int], loop: Loop) -> pd.DataFrame:
    keys, (lams,) = fb_training.pairs(seed_keys(seeds), settings.lambdas)
    states, _ = fb_training.train("training", loop, settings, make_world(settings, 1.0, start="uniform"), keys, lams)

    def act(params, lam, scale):
        choose = zero_shot.trained(params)
        return goals.rollout(
            jax.random.key(0), make_world(settings, lam), lambda cell, rewards: choose(cell, scale * rewards)
        )

    scales = jnp.asarray(settings.scales)
    played = jax.jit(jax.vmap(jax.vmap(act, (None, None, 0)), (0, 0, None)))(states.params, lams, scales)
    tables = []
    for i, j in np.ndindex(len(keys), len(scales)):
        lam, seed = settings.lambdas[i % len(settings.lambdas)], seeds[i // len(settings.lambdas)]
        episode = jax.tree_util.tree_map(lambda leaf, i=i, j=j: np.asarray(leaf)[i, j], played)
        rows = episodes.rows(make_world(settings, lam), episode, agent="λO-FB", lam=lam, seed=seed)
        tables.append(rows.assign(scale=settings.scales[j]))
    tables += [best_episode(settings, lam) for lam in settings.lambdas]
    return pd.concat(tables, ignore_index=True)


def best_episode(settings: Asymmetric, lam: float) -> pd.DataFrame:
    """An optimal episode, as rows."""
    world = make_world(settings, lam)
    played = follow(jax.random.split(jax.random.key(0), 1), world, plan(world, tolerance=settings.tolerance))
    episode = jax.tree_util.tree_map(lambda leaf: np.asarray(leaf)[0], played)
    return episodes.rows(world, episode, agent=BEST, lam=lam, seed=-1, scale=1.0)


def draw(settings: Asymmetric, table: pd.DataFrame) -> Figure:
    figure = plots.figure(11.0, 2.5 * len(settings.lambdas))
    axes = np.atleast_2d(figure.subplots(len(settings.lambdas), 3))
    for row, lam in zip(axes, settings.lambdas, strict=True):
        world, mine = make_world(settings, lam), table[table["lam"] == lam]
        learned = mine[(mine["agent"] != BEST) & (mine["scale"] == settings.scales[0])]
        shown = learned[learned["seed"] == learned["seed"].min()]
        episodes.path(row[0], world, shown, f"λO-FB, λ = {lam:g}: {shown['earned'].iloc[-1]:.2f}")
        best = mine[mine["agent"] == BEST]
        episodes.path(row[1], world, best, f"optimum, λ = {lam:g}: {best['earned'].iloc[-1]:.2f}")
        share = np.bincount(learned["cell"].to_numpy(int), minlength=world.n_states) / len(learned)
        maps.still(
            world.map,
            values=share,
            sites=world.sites,
            rewards=world.rewards,
            title="time spent, all seeds",
            label="share",
            ax=row[2],
        )
    return figure


def films(settings: Asymmetric, table: pd.DataFrame) -> Mapping:
    mine = table[(table["agent"] != BEST) & (table["seed"] == 0) & (table["scale"] == settings.scales[0])]
    return {
        f"λ = {lam:g}": episodes.film(make_world(settings, float(str(lam))), rows, f"λO-FB, λ = {lam:g}")
        for lam, rows in mine.groupby("lam", sort=False)
    }


def sites_seen(settings: Asymmetric, table: pd.DataFrame, lam: float, scale: float = 1.0) -> pd.DataFrame:
    """For each seed: how many sites were visited, the share of time at the large one, what was earned."""
    world, found = make_world(settings, lam), []
    chosen = table[(table["lam"] == lam) & ((table["scale"] == scale) | (table["agent"] == BEST))]
    for (agent, seed), rows in chosen.groupby(["agent", "seed"]):
        cells = rows["cell"].to_numpy(int)
        at_large = (cells == world.sites[0]).mean()
        found.append((agent, seed, len(np.intersect1d(cells, world.sites)), at_large, rows["earned"].iloc[-1]))
    return pd.DataFrame(found, columns=["agent", "seed", "sites", "large", "earned"])


def exploits_the_large_one(settings: Asymmetric, table: pd.DataFrame) -> Finding:
    found = sites_seen(settings, table, 1.0)
    learned, best = found[found["agent"] != BEST], found[found["agent"] == BEST]
    detail = (
        f"share of time at the large reward: agents {', '.join(f'{share:.2f}' for share in learned['large'])}, "
        f"optimum {best['large'].iloc[0]:.2f}; earned {learned['earned'].mean():.1f} of {best['earned'].iloc[0]:.1f}"
        f"{_scaled(settings, table, 1.0)}"
    )
    return Finding(bool((learned["large"] > 0.8).all()), learned["large"].mean(), None, detail)


def tours_the_small_ones(settings: Asymmetric, table: pd.DataFrame) -> Finding:
    found = sites_seen(settings, table, min(settings.lambdas))
    learned, best = found[found["agent"] != BEST], found[found["agent"] == BEST]
    detail = (
        f"sites visited: agents {', '.join(map(str, learned['sites']))}, optimum {best['sites'].iloc[0]}; earned "
        f"{learned['earned'].mean():.1f} of "
        f"{best['earned'].iloc[0]:.1f}{_scaled(settings, table, min(settings.lambdas))}"
    )
    return Finding(bool((learned["sites"] >= 6).all()), learned["sites"].mean(), None, detail)


def _scaled(settings: Asymmetric, table: pd.DataFrame, lam: float) -> str:
    """What agents earn with larger rewards in z_R."""
    told = ""
    for scale in settings.scales[1:]:
        found = sites_seen(settings, table, lam, scale)
        told += f"; with rewards × {scale:g} in z_R {found[found['agent'] != BEST]['earned'].mean():.1f}"
    return told


def near_the_optimum(settings: Asymmetric, table: pd.DataFrame) -> Finding:
    shares = []
    for lam in settings.lambdas:
        found = sites_seen(settings, table, lam).set_index("agent")["earned"]
        shares.append(found[found.index != BEST].mean() / found[BEST])
    detail = ", ".join(f"λ = {lam:g}: {100 * share:.1f} %" for lam, share in zip(settings.lambdas, shares, strict=True))
    return Finding(min(shares) > 0.95, min(shares), None, f"of the optimum, {detail}")


EXPERIMENT = Experiment(
    name="fb-asymmetric",
    title="One large reward or many small ones",
    source="section 6, figure 6.1 (c–e)",
    says=(
        "With λ = 1 the optimal strategy is to reach the large reward and to exploit it for ever; with λ = 0.1 it is "
        "to exploit each reward for a few steps and to move on. The λ operator recovers both."
    ),
    quick=Asymmetric(**fb_training.quick(seeds=2)),
    paper=Asymmetric(),
    compute=compute,
    draw=draw,
    films=films,
    claims=(
        Claim("large-for-ever", "With λ = 1 agents go to the large reward and stay.", exploits_the_large_one),
        Claim("tour", "With λ = 0.1 agents tour the rewards, six of seven at least.", tours_the_small_ones),
        Claim("near-the-optimum", "With either λ agents earn 95 % of the optimum.", near_the_optimum),
    ),
    differs=(
        f"{fb_training.SCHEDULE} The paper gives no numbers for its map: ours has 6 on the left and six times 2 on the "
        "right. Episodes of collection start anywhere. The optimum is added."
    ),
    cost=fb_training.COST,
    double=False,
)
