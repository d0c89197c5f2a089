"""Three patches along a corridor: when λO-FB leaves them, and when the marginal value theorem would.

The corridor is the same for every distance between patches, and training sees no rewards: a run serves all distances.
With γ < 1 the theorem's averages are discounted, with γ = 1 they are not; λ < 1 keeps Φ finite there, but not useful:
every state is visited again and again whatever is done first, so Φ_λ(s, a, s') = 1 / (1 − λ) for all s and a, and the
exact representation leaves nothing to choose by. What an agent does with γ = 1 comes from not having learned Φ fully.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wane import foraging
from wane.agents import goals, zero_shot
from wane.depletion import Geometric
from wane.experiments import episodes, fb_training, plots
from wane.experiments.experiment import Claim, Experiment, Finding, Loop, seed_keys
from wane.experiments.fb_training import Training
from wane.experiments.statistics import bootstrap
from wane.foraging.optimal import follow, plan
from wane.worlds.catalog import patches
from wane.worlds.world import World

AGENT, BEST = "λO-FB", "optimum"
FORMS = ("paper", "corrected")


@dataclass(frozen=True)
class MVT(Training):
    seeds: int = 3
    """independent repetitions, numbered from 0"""
    distances: tuple[int, ...] = (2, 4, 6)
    """steps between patches"""
    discounts: tuple[float, ...] = (0.99, 1.0)
    """γ"""
    lam: float = 0.5
    """of the patches, and as the agent believes"""
    timings: tuple[Literal["departure", "arrival"], ...] = ("departure", "arrival")
    """when a step pays: for the state it leaves, as the paper's Algorithm 3 reads, or for the one it enters"""


def make_world(settings: MVT, distance: int, discount: float, timing: Any = "departure") -> World:
    lam = Geometric(settings.lam)
    return patches(distance, depletion=lam, horizon=settings.horizon, discount=discount, timing=timing)


def compute(settings: MVT, seeds: Sequence[int], loop: Loop) -> pd.DataFrame:
    keys, lams = seed_keys(seeds), jnp.full(len(seeds), settings.lam)
    collecting = patches(min(settings.distances), horizon=settings.horizon, start="uniform")
    tables = []
    for discount in settings.discounts:
        name = f"training, γ = {discount:g}"
        states, info = fb_training.train(name, loop, settings, collecting, keys, lams, discount=discount)
        for distance, timing in product(settings.distances, settings.timings):
            world = make_world(settings, distance, discount, timing)
            act = jax.vmap(
                lambda params, world=world: goals.rollout(jax.random.key(0), world, zero_shot.trained(params))
            )
            labels: dict[str, Any] = {"distance": distance, "discount": discount, "timing": timing}
            tables.append(_left(settings, world, jax.jit(act)(states.params), seeds, agent=AGENT, **labels))
            best = follow(jax.random.split(jax.random.key(0), 1), world, plan(world))
            tables.append(_left(settings, world, best, [-1], agent=BEST, **labels))
        errors = fb_training.frame(np.median(info.error.rms, -1)[-1], "value", seed=seeds)
        tables.append(errors.assign(panel="error", discount=discount))
    return pd.concat(tables, ignore_index=True)


def _left(settings: MVT, world: World, played: Any, seeds: Sequence[int], **labels: Any) -> pd.DataFrame:
    """Every stay with the theorem's leaving time beside it, in both forms, and the episodes themselves."""
    played = jax.tree_util.tree_map(np.asarray, played)
    table = foraging.table_from_rollout(world, played.cells, played.rewards, seed=np.array(seeds))
    tables = []
    for form in FORMS:
        found = foraging.leaving_difference(table, settings.lam, discount=world.discount, by="seed", form=form)
        tables.append(found.assign(panel="stay", form=form, site=found["site"].astype(int)))
    for i, seed in enumerate(seeds):
        episode = jax.tree_util.tree_map(lambda leaf, i=i: leaf[i], played)
        tables.append(episodes.rows(world, episode, seed=seed, panel="episode"))
    return pd.concat(tables).assign(**labels)


def differences(
    table: pd.DataFrame, discount: float, agent: str = AGENT, form: str = "paper", timing: str = "departure"
) -> pd.DataFrame:
    """Stays that both the agent and the theorem end within the episode."""
    rows = table[(table["panel"] == "stay") & (table["agent"] == agent) & (table["form"] == form)]
    return rows[(rows["discount"] == discount) & (rows["bound"] == "exact") & (rows["timing"] == timing)]


def draw(settings: MVT, table: pd.DataFrame) -> Figure:
    figure = plots.figure(11.0, 6.4)
    grid = figure.add_gridspec(2, 6)
    for i, distance in enumerate(settings.distances[:3]):
        ax = figure.add_subplot(grid[0, 2 * i : 2 * i + 2])
        for discount, shade in zip(settings.discounts, plots.OTHERS[1:], strict=False):
            for agent, style in ((AGENT, "-"), (BEST, ":")):
                rows = table[(table["panel"] == "episode") & (table["distance"] == distance)]
                rows = rows[rows["timing"] == settings.timings[0]]
                rows = rows[(rows["agent"] == agent) & (rows["discount"] == discount)]
                rows = rows[rows["seed"] == rows["seed"].min()]
                column = make_world(settings, distance, 1.0).map.cells[rows["cell"].to_numpy(int), 1]
                ax.plot(rows["time"], column, style, color=shade, label=f"{agent}, γ = {discount:g}")
        for site in make_world(settings, distance, 1.0).sites:
            ax.axhline(
                make_world(settings, distance, 1.0).map.cells[site, 1], color=plots.GREY, lw=4, alpha=0.35, zorder=0
            )
        plots.tidy(ax, f"patches {distance} steps apart", "time", "place in the corridor" if i == 0 else "")
        if i == 0:
            figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    for i, discount in enumerate(settings.discounts[:2]):
        ax = figure.add_subplot(grid[1, 3 * i : 3 * i + 3])
        _draw_differences(ax, settings, table, discount)
    return figure


def _draw_differences(ax: Any, settings: MVT, table: pd.DataFrame, discount: float) -> None:
    looks = (
        (AGENT, "paper", "o", plots.OTHERS[1]),
        (AGENT, "corrected", "s", plots.OTHERS[2]),
        (BEST, "paper", "D", plots.INK),
    )
    places = [*map(str, settings.distances), "all"]
    for j, (agent, form, marker, shade) in enumerate(looks):
        rows = differences(table, discount, agent, form)
        groups = [rows[rows["distance"] == distance]["difference"] for distance in settings.distances]
        groups.append(rows["difference"])
        means = [group.mean() for group in groups]
        errors = [group.std(ddof=1) / np.sqrt(len(group)) if len(group) > 1 else 0.0 for group in groups]
        at = np.arange(len(places)) + 0.18 * (j - 1)
        label = f"{agent} − MVT{'' if form == 'paper' else ' (corrected)'}"
        ax.errorbar(at, means, errors, fmt=marker, ms=5, color=shade, capsize=3, label=label)
    ax.axhline(0, color=plots.INK, lw=1)
    ax.set_xticks(range(len(places)), places)
    plots.tidy(ax, f"γ = {discount:g}: leaving later (+) or earlier (−)", "distance between patches", "steps, ± s.e.")
    if discount == settings.discounts[-1]:
        ax.legend(frameon=False, fontsize="small", loc="center right")


def films(settings: MVT, table: pd.DataFrame) -> Mapping:
    rows = table[(table["panel"] == "episode") & (table["seed"] == 0) & (table["timing"] == settings.timings[0])]
    distance = sorted(settings.distances)[len(settings.distances) // 2]
    return {
        f"γ = {discount:g}": episodes.film(
            make_world(settings, distance, discount),
            rows[(rows["discount"] == discount) & (rows["distance"] == distance)],
            f"λO-FB, γ = {discount:g}",
        )
        for discount in settings.discounts
    }


def like_the_theorem(discount: float):
    """That the mean difference over distances and seeds is within a step of zero."""

    def test(settings: MVT, table: pd.DataFrame) -> Finding:
        rows = differences(table, discount)
        if rows.empty:
            return Finding(False, 0.0, None, "no agent ever left a patch that the theorem would leave as well")
        found, mean = bootstrap(rows.groupby("seed")["difference"].mean()), rows["difference"].mean()
        others = {
            "with the corrected rule": differences(table, discount, form="corrected"),
            "paid on arrival": differences(table, discount, timing="arrival"),
            "the optimum": differences(table, discount, BEST),
        }
        told = "; ".join(f"{name} {other['difference'].mean():+.2f}" for name, other in others.items())
        size = rows["difference"].abs().mean()
        detail = f"mean {mean:+.2f} steps, mean size {size:.2f}, over {len(rows)} stays; {told}"
        return Finding(abs(mean) < 1, mean, (found.low, found.high), detail)

    return test


def earned(settings: MVT, table: pd.DataFrame, discount: float) -> pd.DataFrame:
    """What agents and the optimum earn, discounted, (distance and seed, agent)."""
    rows = table[(table["panel"] == "episode") & (table["discount"] == discount)]
    rows = rows[rows["timing"] == settings.timings[0]]
    return rows.groupby(["agent", "distance", "seed"])["earned"].last().reset_index()


def near_the_optimum(discount: float):
    def test(settings: MVT, table: pd.DataFrame) -> Finding:
        found = earned(settings, table, discount).groupby("agent")["earned"].mean()
        share = found[AGENT] / found[BEST]
        return Finding(bool(share > 0.95), share, None, f"earns {found[AGENT]:.2f} of {found[BEST]:.2f}")

    return test


EXPERIMENT = Experiment(
    name="mvt",
    title="Leaving patches: the marginal value theorem",
    source="appendix H.2, figure H.2",
    says=(
        "On average over distances between rewards, λO-FB leaves patches when the discounted marginal value "
        "theorem says "
        "so for γ = 0.99, and when the ordinary one says so for γ = 1, where the λ operator is still finite."
    ),
    quick=MVT(**fb_training.quick(seeds=3, epochs=6)),
    paper=MVT(),
    compute=compute,
    draw=draw,
    films=films,
    claims=(
        Claim(
            "like-discounted",
            "With γ = 0.99 agents leave within a step of the discounted theorem.",
            like_the_theorem(0.99),
        ),
        Claim("like-undiscounted", "With γ = 1 agents leave within a step of the theorem.", like_the_theorem(1.0)),
        Claim("earns-discounted", "With γ = 0.99 agents earn 95 % of the optimum.", near_the_optimum(0.99)),
        Claim("earns-undiscounted", "With γ = 1 agents earn 95 % of the optimum.", near_the_optimum(1.0)),
    ),
    differs=(
        f"{fb_training.SCHEDULE} The paper does not say which λ its patches have: ours have ½. Episodes of "
        "collection start "
        "anywhere in the corridor, as random walks from its end hardly reach the other. The printed rule divides "
        "what is to "
        "come by the whole episode; the corrected one divides by the time left. With γ = 1 the exact Φ is the same for "
        "all states and actions, so behaviour there rests on errors of learning."
    ),
    cost=fb_training.COST,
    double=False,
)
