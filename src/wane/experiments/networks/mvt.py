"""Three patches along a corridor: when λO-FB leaves them, and when the marginal value theorem would.

The corridor is the same for every distance between patches, and training sees no rewards, so one run serves all
distances. With γ < 1 the averages of the theorem are discounted, with γ = 1 they are not. λ < 1 keeps Φ finite with
γ = 1, but Φ is of no use there: every state is visited again and again whatever is done first, so that
Φ_λ(s, a, s') = 1 / (1 − λ) for all s and a, and the exact representation leaves nothing to choose by. What an agent
does with γ = 1 comes from not having learned Φ fully.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane import foraging
from wane.agents import forward_backward
from wane.agents.common.rollout import Episode, play
from wane.agents.forward_backward import Params
from wane.agents.planner import follow, plan
from wane.depletion import Geometric
from wane.experiments.common import episodes, plots
from wane.experiments.common.judging import matches
from wane.experiments.common.statistics import bootstrap
from wane.experiments.common.tables import frame
from wane.experiments.contract import Claim, Experiment, Finding, Loop, Tables, seed_keys
from wane.experiments.networks import training
from wane.experiments.networks.training import Training, require_data
from wane.settings import DISTINCT, Count, Lambda, Range
from wane.worlds.catalog import patches
from wane.worlds.world import World

FORMS = ("paper", "corrected")
"""The theorem's rule as the paper prints it, and corrected."""
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
    """λ of the patches, and as the agent believes"""
    timings: Annotated[tuple[Timing, ...], DISTINCT] = ("departure", "arrival")
    """when a step pays: for the state it leaves, as the paper's Algorithm 3 reads, or for the one it enters"""

    def rules(self) -> None:
        """Raises SettingError if discounts are alike, if Φ would be infinite, or if an episode is one step."""
        super().rules()
        self.require_distinct("discounts")
        self.require_finite("lam", [self.lam], self.discounts)
        needed = "at least 2 is needed, because one step leaves nothing to decide"
        self.require(self.agent.horizon > 1, "agent.horizon", needed)

    def worlds(self) -> Iterator[tuple[int, float, Timing]]:
        """The worlds in which agents act: a distance, a discount and a timing."""
        return product(self.distances, self.discounts, self.timings)


def make_world(settings: MVT, distance: int, discount: float, timing: Timing) -> World:
    """The corridor with patches so many steps apart."""
    lam = Geometric(settings.lam)
    return patches(distance, depletion=lam, horizon=settings.agent.horizon, discount=discount, timing=timing)


def fixed(settings: MVT) -> Tables:
    """The optimal episode in every world, and its stays."""
    parts = []
    for distance, discount, timing in settings.worlds():
        world = make_world(settings, distance, discount, timing)
        played = follow(jax.random.split(jax.random.key(0), 1), world, plan(world))
        labels = {"distance": distance, "discount": discount, "timing": timing}
        rows = episodes.rows(world, episodes.select(played, 0), **labels)
        parts.append({"best_stays": stays(settings, world, played, **labels), "best_episodes": rows})
    return _join(parts)


def seeded(settings: MVT, seeds: Sequence[int], loop: Loop) -> Tables:
    """The episodes of the agents of some seeds in every world, their stays, and the error of their Φ."""
    return _join([_train_and_play(settings, seeds, loop, discount) for discount in settings.discounts])


def _train_and_play(settings: MVT, seeds: Sequence[int], loop: Loop, discount: float) -> Tables:
    keys, lams = seed_keys(seeds), jnp.full(len(seeds), settings.lam)
    collecting = patches(min(settings.distances), horizon=settings.agent.horizon, start="uniform")
    config = dataclasses.replace(settings.agent, lam=settings.lam, discount=discount)
    states, info = training.train(f"training, γ = {discount:g}", loop, collecting, config, keys, lams)
    if 0 in seeds:
        training.keep(loop, f"discount-{discount:g}", collecting, config, states, list(seeds).index(0))
    parts = []
    for distance, timing in product(settings.distances, settings.timings):
        world = make_world(settings, distance, discount, timing)
        played = _play(world, states.params)
        labels: dict[str, Any] = {"distance": distance, "discount": discount, "timing": timing}
        rows = [episodes.rows(world, episodes.select(played, i), seed=seed) for i, seed in enumerate(seeds)]
        parts.append(
            {
                "stays": stays(settings, world, played, seeds, **labels),
                "episodes": pd.concat(rows, ignore_index=True).assign(**labels),
            }
        )
    errors = frame(np.median(info["misfit"]["rms"], -1)[-1], "error", seed=seeds).assign(discount=discount)
    return _join(parts) | {"errors": errors}


def _play(world: World, params: Params) -> Episode:
    """One episode of each run."""

    def act(params: Params) -> Episode:
        return play(jax.random.key(0), world, forward_backward.policy(params, world))[1]

    return jax.jit(jax.vmap(act))(params)


def _join(parts: Sequence[Tables]) -> Tables:
    """The tables of each name, one below the other."""
    return {name: pd.concat([part[name] for part in parts], ignore_index=True) for name in parts[0]}


def stays(
    settings: MVT, world: World, played: Episode, seeds: Sequence[int] | None = None, **labels: Any
) -> pd.DataFrame:
    """Every stay of some episodes with the theorem's leaving time beside it, in both forms.

    The episodes are those of the seeds, or without seeds a single one.
    """
    column = {} if seeds is None else {"seed": np.array(seeds)}
    table = foraging.table_from_rollout(world, np.asarray(played.cells), np.asarray(played.rewards), **column)
    tables = []
    for form in FORMS:
        found = foraging.leaving_difference(table, settings.lam, discount=world.discount, by=list(column), form=form)
        tables.append(found.assign(form=form, site=found["site"].astype(int)).drop(columns="episode"))
    return pd.concat(tables, ignore_index=True).assign(**labels)


def differences(table: pd.DataFrame, discount: float, form: str = "paper", timing: str = "departure") -> pd.DataFrame:
    """The stays of a table that end within the episode, both by the agent and by the theorem."""
    chosen = (table["form"] == form) & (table["discount"] == discount) & (table["timing"] == timing)
    return table[chosen & (table["bound"] == "exact")]


def draw(settings: MVT, tables: Tables) -> Figure:
    """Episodes at some distances, and how far leaving times are from the theorem's."""
    figure = plots.figure(11.0, 6.4)
    grid = figure.add_gridspec(2, 6)
    for i, distance in enumerate(settings.distances[:3]):
        ax = figure.add_subplot(grid[0, 2 * i : 2 * i + 2])
        _draw_episodes(ax, settings, tables, distance)
        plots.tidy(ax, f"patches {distance} steps apart", "time", "place in the corridor" if i == 0 else "")
        if i == 0:
            figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    for i, discount in enumerate(settings.discounts[:2]):
        ax = figure.add_subplot(grid[1, 3 * i : 3 * i + 3])
        _draw_differences(ax, settings, tables, discount)
    return figure


def _draw_episodes(ax: Axes, settings: MVT, tables: Tables, distance: int) -> None:
    world = make_world(settings, distance, 1.0, settings.timings[0])
    column = world.map.cells[:, 1]
    for discount, shade in zip(settings.discounts, plots.OTHERS[1:], strict=False):
        for name, agent, style in (("episodes", "λO-FB", "-"), ("best_episodes", "optimum", ":")):
            rows = tables[name]
            rows = rows[(rows["distance"] == distance) & (rows["timing"] == settings.timings[0])]
            rows = rows[rows["discount"] == discount]
            rows = rows[rows["seed"] == rows["seed"].min()] if "seed" in rows else rows
            places = column[rows["cell"].to_numpy(int)]
            ax.plot(rows["time"], places, style, color=shade, label=f"{agent}, γ = {discount:g}")
    for site in world.sites:
        ax.axhline(int(column[site]), color=plots.GREY, lw=4, alpha=0.35, zorder=0)


def _draw_differences(ax: Axes, settings: MVT, tables: Tables, discount: float) -> None:
    looks = (
        ("stays", "paper", "λO-FB − MVT", "o", plots.OTHERS[1]),
        ("stays", "corrected", "λO-FB − MVT (corrected)", "s", plots.OTHERS[2]),
        ("best_stays", "paper", "optimum − MVT", "D", plots.INK),
    )
    for j, (name, form, label, marker, shade) in enumerate(looks):
        rows = differences(tables[name], discount, form, settings.timings[0])
        groups = [rows[rows["distance"] == distance]["difference"] for distance in settings.distances]
        groups.append(rows["difference"])
        means = [group.mean() for group in groups]
        errors = [group.std(ddof=1) / np.sqrt(len(group)) if len(group) > 1 else 0.0 for group in groups]
        at = np.arange(len(groups)) + 0.18 * (j - 1)
        ax.errorbar(at, means, errors, fmt=marker, ms=5, color=shade, capsize=3, label=label)
    ax.axhline(0, color=plots.INK, lw=1)
    ax.set_xticks(range(len(settings.distances) + 1), [*map(str, settings.distances), "all"])
    ax.set_xlim(-0.5, len(settings.distances) + 0.5)
    plots.tidy(ax, f"γ = {discount:g}: leaving later (+) or earlier (−)", "distance between patches", "steps, ± s.e.")
    if discount == settings.discounts[:2][-1]:
        ax.legend(frameon=False, fontsize="small", loc="center right")


def films(settings: MVT, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """One film for each discount, of seed 0 at the middle distance."""
    distance, timing = sorted(settings.distances)[len(settings.distances) // 2], settings.timings[0]
    rows = tables["episodes"]
    rows = rows[(rows["seed"] == 0) & (rows["timing"] == timing) & (rows["distance"] == distance)]
    return {
        f"γ = {discount:g}": episodes.film(
            make_world(settings, distance, discount, timing),
            rows[rows["discount"] == discount],
            f"λO-FB, γ = {discount:g}",
        )
        for discount in settings.discounts
    }


def _require(settings: MVT, discount: float) -> None:
    there = discount in settings.discounts
    require_data(there, f"No agents were trained with γ = {discount:g}: add {discount:g} to discounts.")


def like_the_theorem(discount: float) -> Callable[[MVT, Tables], Finding]:
    """Tests that the mean difference, over distances and stays and then over seeds, is within one step of zero."""

    def test(settings: MVT, tables: Tables) -> Finding:
        _require(settings, discount)
        ties = (
            "With γ = 1 the exact Φ is the same for all actions, so what agents do there rests on errors of learning."
        )
        require_data(discount < 1, ties)
        require_data("departure" in settings.timings, "No world paid on departure: add departure to timings.")
        rows = differences(tables["stays"], discount)
        require_data(len(rows) > 0, "No stay was ended within an episode both by an agent and by the theorem.")
        found, mean = bootstrap(rows.groupby("seed")["difference"].mean()), rows["difference"].mean()
        others = {
            "with the corrected rule": differences(tables["stays"], discount, form="corrected"),
            "paid on arrival": differences(tables["stays"], discount, timing="arrival"),
            "the optimum": differences(tables["best_stays"], discount),
        }
        told = [f"{name} {other['difference'].mean():+.2f}" for name, other in others.items() if len(other)]
        size = rows["difference"].abs().mean()
        detail = "; ".join([f"mean {mean:+.2f} steps, mean size {size:.2f}, over {len(rows)} stays", *told])
        return matches(found, 0.0, 1.0, detail)

    return test


def earned(settings: MVT, table: pd.DataFrame, discount: float) -> float:
    """The mean discounted return of the episodes of a table, over distances and seeds."""
    rows = table[(table["discount"] == discount) & (table["timing"] == settings.timings[0])]
    runs = [name for name in ("distance", "seed") if name in rows]
    return float(rows.groupby(runs)["earned"].last().mean())


def near_the_optimum(discount: float) -> Callable[[MVT, Tables], Finding]:
    """Tests that agents earn more than 95 % of the optimum."""

    def test(settings: MVT, tables: Tables) -> Finding:
        _require(settings, discount)
        mine, best = (earned(settings, tables[name], discount) for name in ("episodes", "best_episodes"))
        require_data(best > 0, "The optimum earns nothing: raise agent.horizon.")
        return Finding(mine / best > 0.95, mine / best, None, f"earns {mine:.2f} of {best:.2f}")

    return test


EXPERIMENT = Experiment(
    name="mvt",
    title="Leaving patches: the marginal value theorem",
    source="appendix H.2, figure H.2",
    summary=(
        "On average over distances between rewards, λO-FB leaves patches when the marginal value theorem says so: the "
        "discounted theorem for γ = 0.99, and the ordinary one for γ = 1, where the λ operator is still finite."
    ),
    quick=MVT(seeds=3, agent=training.quick(epochs=6)),
    paper=MVT(),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=(
        Claim(
            "like-discounted",
            "With γ = 0.99 agents leave within one step of the discounted theorem.",
            like_the_theorem(0.99),
            kind="paper",
            place="appendix H.2, figure H.2",
        ),
        Claim(
            "like-undiscounted",
            "With γ = 1 agents leave within one step of the theorem.",
            like_the_theorem(1.0),
            kind="paper",
            place="appendix H.2, figure H.2",
        ),
        Claim("earns-discounted", "With γ = 0.99 agents earn 95 % of the optimum.", near_the_optimum(0.99)),
        Claim("earns-undiscounted", "With γ = 1 agents earn 95 % of the optimum.", near_the_optimum(1.0)),
    ),
    differences=(
        f"{training.SCHEDULE} The paper does not say which λ its patches have: ours have ½. Episodes start anywhere in "
        "the corridor while data are collected, because random walks from one end hardly reach the other. The printed "
        "rule divides what is to come by the whole episode; the corrected one divides by the time that remains. With "
        "γ = 1 the exact Φ is the same for all states and actions, so what agents do there rests on errors of learning."
    ),
    paper_cost=training.COST,
    double_precision=False,
)
