"""FourRooms: composing four given policies by GPE and GPI, with representations for a believed λ̂.

Three rewards of 5, 10 and 5 halve with every visit. The paper plays 50 episodes from random starts; here also every
start once, which leaves nothing to chance, and the optimum over (cell × visit counts), which no λ̂ can beat.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wane.agents import gpi
from wane.agents.episode import Episode
from wane.depletion import Geometric
from wane.experiments import episodes, plots
from wane.experiments.experiment import Claim, Experiment, Finding, Loop, NotTested, Seeded, seed_keys
from wane.experiments.statistics import mean_and_error, paired_difference
from wane.foraging.optimal import plan
from wane.worlds.catalog import four_rooms
from wane.worlds.world import World

MEMORIES = {"refreshed": True, "never refreshed": False}


@dataclass(frozen=True)
class GPI(Seeded):
    seeds: int = 1
    """independent sets of episodes"""
    believed: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    """the agents' λ̂; the paper has 0, ½ and 1"""
    lam: float = 0.5
    """the true λ"""
    episodes: int = 50
    """episodes from random starts, the same for every agent"""
    slip: float = 0.0
    """probability of a random step to a neighbour"""
    repeats: int = 1
    """episodes from every start; without slips all of them are alike"""
    shown: int = 30
    """the state that the drawn episodes start in"""

    MAY_BE_ZERO = ("shown",)

    def __post_init__(self):
        super().__post_init__()
        self.require(self.lam in self.believed, f"believed must hold the true λ, {self.lam:g}, got {self.believed}")
        states = four_rooms().n_states
        self.require(self.shown < states, f"shown = {self.shown}: FourRooms has the states 0 to {states - 1}")


def make_world(settings: GPI) -> World:
    return four_rooms(depletion=Geometric(settings.lam), slip=settings.slip)


def best(settings: GPI) -> np.ndarray:
    """The optimum over (cell × visit counts) from every state, no episode ended early."""
    return plan(make_world(settings)).values


def compute(settings: GPI, seeds: Sequence[int], loop: Loop) -> pd.DataFrame:
    world = make_world(settings)
    phis = np.stack([gpi.representations(world, depletion=Geometric(lam)) for lam in settings.believed])
    table = pd.concat(
        [*_everywhere(world, settings, phis), _drawn(world, settings, seeds, phis), _shown(world, settings, phis)],
        ignore_index=True,
    )
    return table.assign(optimum=best(settings)[table["start"].to_numpy(int)])


def play(world: World, phis: np.ndarray, keys: jax.Array, starts: np.ndarray, refresh: np.ndarray) -> Episode:
    """Episodes (agents, episodes) of every agent with the same keys and starts."""

    def one(phi, key, start, fresh):
        return gpi.rollout(key, world, phi, start, refresh=fresh)

    together = jax.vmap(jax.vmap(one, (None, 0, 0, 0)), (0, None, None, None))
    return jax.tree_util.tree_map(np.asarray, jax.jit(together)(phis, keys, starts.astype(np.int32), refresh))


def _everywhere(world: World, settings: GPI, phis: np.ndarray) -> list[pd.DataFrame]:
    """Every start, with what is left looked up at each step and without, with the same slips."""
    shape = (settings.repeats, world.n_states)
    keys, starts = jax.random.split(jax.random.key(0), shape).ravel(), np.tile(np.arange(world.n_states), shape[0])
    refresh = np.repeat(list(MEMORIES.values()), len(starts))
    played = play(world, phis, jnp.concatenate([keys, keys]), np.tile(starts, 2), refresh)
    tables = []
    for memory, flag in MEMORIES.items():
        cells = played.cells[:, refresh == flag].reshape(-1, shape[1], played.cells.shape[-1])
        stays = [episodes.stays(world, each).mean() for each in cells]
        value = played.value[:, refresh == flag]
        table = _rows(settings, value, "repeat", range(shape[0]), "start", range(shape[1]))
        tables.append(table.assign(panel="all starts", seed=-1, memory=memory, stay=np.repeat(stays, shape[1])))
    return tables


def _drawn(world: World, settings: GPI, seeds: Sequence[int], phis: np.ndarray) -> pd.DataFrame:
    """The paper's episodes from random starts."""
    keys = jax.vmap(lambda key: jax.random.split(key, settings.episodes))(seed_keys(seeds)).ravel()
    draws = [np.random.default_rng(seed).integers(world.n_states, size=settings.episodes) for seed in seeds]
    starts = np.concatenate(draws)
    value = play(world, phis, keys, starts, np.ones(len(starts), bool)).value
    table = _rows(settings, value, "seed", seeds, "episode", range(settings.episodes))
    return table.assign(panel="episodes", memory="refreshed", start=np.tile(starts, len(phis)))


def _rows(settings: GPI, value: np.ndarray, *axes: Any) -> pd.DataFrame:
    """A row for each believed λ and each place along two named axes."""
    names, levels = ["lam", *axes[::2]], [settings.believed, *axes[1::2]]
    return pd.DataFrame({"value": value.ravel()}, pd.MultiIndex.from_product(levels, names=names)).reset_index()


def _shown(world: World, settings: GPI, phis: np.ndarray) -> pd.DataFrame:
    """One episode of every agent, step by step."""
    played = play(world, phis, jax.random.split(jax.random.key(1), 1), np.array([settings.shown]), np.array([True]))
    tables = [
        episodes.rows(world, jax.tree_util.tree_map(lambda leaf, i=i: leaf[i, 0], played), lam=lam)
        for i, lam in enumerate(settings.believed)
    ]
    return pd.concat(tables).assign(panel="shown", seed=-1, memory="refreshed", start=settings.shown)


def draw(settings: GPI, table: pd.DataFrame) -> Figure:
    figure = plots.figure(11.0, 6.6)
    grid = figure.add_gridspec(2, 6)
    left, right = figure.add_subplot(grid[0, :3]), figure.add_subplot(grid[0, 3:])
    drawn, every = table[table["panel"] == "episodes"], everywhere(table)
    by_lam = drawn.groupby("lam")["value"]
    names = [f"λ̂ = {lam:g}" for lam in by_lam.groups]
    shades = [plots.colour(lam) for lam in by_lam.groups]
    errors = [mean_and_error(values)[1] for _, values in by_lam]
    plots.bars(left, names, by_lam.mean(), errors, shades)
    plots.tidy(left, f"{settings.episodes} episodes from random starts", "", "discounted return ± s.e.")
    plots.bars(right, names, every.groupby("lam")["value"].mean(), None, shades)
    highest = every["optimum"].mean()
    right.axhline(highest, color=plots.INK, ls="--", lw=1)
    right.annotate(f"optimum {highest:.3f}", (4.4, highest), (0, 4), textcoords="offset points", ha="right")
    forgetful = everywhere(table, "never refreshed").groupby("lam")["value"].mean()
    right.plot(names, forgetful, "D", color=plots.INK, mfc="white", label="what is left is never looked up")
    right.set_ylim(0, 1.3 * highest)
    right.legend(frameon=False, loc="upper left")
    plots.tidy(right, "every start", "", "discounted return")
    world = make_world(settings)
    shown = [lam for lam in (0.0, 0.5, 1.0) if lam in settings.believed] or settings.believed[:3]
    for i, lam in enumerate(shown):
        ax = figure.add_subplot(grid[1, 2 * i : 2 * i + 2])
        rows = table[(table["panel"] == "shown") & (table["lam"] == lam)]
        episodes.path(ax, world, rows, f"λ̂ = {lam:g}: {rows['earned'].iloc[-1]:.2f}")
    return figure


def everywhere(table: pd.DataFrame, memory: str = "refreshed") -> pd.DataFrame:
    return table[(table["panel"] == "all starts") & (table["memory"] == memory)]


def films(settings: GPI, table: pd.DataFrame) -> Mapping:
    world, shown = make_world(settings), table[table["panel"] == "shown"]
    return {
        f"λ̂ = {lam:g}": episodes.film(world, rows, f"GPI with λ̂ = {lam:g}, true λ = {settings.lam:g}")
        for lam, rows in shown.groupby("lam")
        if lam in (0.0, settings.lam, 1.0)
    }


def more_than(other: float):
    """That the true λ earns more than another, in the paper's episodes, pair by pair."""

    def test(settings: GPI, table: pd.DataFrame) -> Finding:
        _need_others(settings, other in settings.believed and other != settings.lam)
        value = table[table["panel"] == "episodes"].pivot_table(
            index=["seed", "episode"], columns="lam", values="value"
        )
        found = paired_difference(value[settings.lam], value[other])
        exact = everywhere(table).groupby("lam")["value"].mean()
        detail = f"over every start {exact[settings.lam]:.3f} against {exact[other]:.3f}"
        return Finding(found.low > 0, found.value, (found.low, found.high), detail)

    return test


def the_true_lambda_is_best(settings: GPI, table: pd.DataFrame) -> Finding:
    runs = everywhere(table).pivot_table(index="repeat", columns="lam", values="value")
    top = runs.mean().idxmax()
    others = [lam for lam in settings.believed if lam != settings.lam]
    _need_others(settings, bool(others))
    rival = max(others, key=lambda lam: runs[lam].mean())
    gap, interval = _difference(settings, runs[settings.lam], runs[rival])
    detail = (
        f"best is λ̂ = {top:g} with {runs[top].mean():.3f}; λ = {settings.lam:g} earns {runs[settings.lam].mean():.3f}"
    )
    return Finding((interval or (gap,))[0] > 0, gap, interval, detail)


def stays(table: pd.DataFrame) -> pd.DataFrame:
    """Mean steps in a row at a site, (repetitions, λ̂)."""
    return everywhere(table).pivot_table(index="repeat", columns="lam", values="stay")


def leaves_too_early(settings: GPI, table: pd.DataFrame) -> Finding:
    _need_others(settings, min(settings.believed) < settings.lam)
    longest = max((lam for lam in settings.believed if lam < settings.lam), key=lambda lam: stays(table)[lam].mean())
    return _longer(settings, table, settings.lam, longest)


def overstays(settings: GPI, table: pd.DataFrame) -> Finding:
    _need_others(settings, max(settings.believed) > settings.lam)
    shortest = min((lam for lam in settings.believed if lam > settings.lam), key=lambda lam: stays(table)[lam].mean())
    return _longer(settings, table, shortest, settings.lam)


def _longer(settings: GPI, table: pd.DataFrame, one: float, other: float) -> Finding:
    """That agents with one λ̂ stay longer than those with another."""
    found = stays(table)
    gap, interval = _difference(settings, found[one], found[other])
    told = ", ".join(f"λ̂ = {lam:g}: {found[lam].mean():.2f}" for lam in settings.believed)
    return Finding((interval or (gap,))[0] > 0, gap, interval, f"mean steps in a row at a site: {told}")


def _difference(settings: GPI, ours: Any, theirs: Any) -> tuple[float, tuple[float, float] | None]:
    """A mean difference, and its interval over repetitions where slips make them differ."""
    found = paired_difference(ours, theirs)
    return found.value, (found.low, found.high) if settings.repeats > 1 else None


def _need_others(settings: GPI, there: bool) -> None:
    if not there:
        raise NotTested(f"believed = {settings.believed} leaves nothing to compare with")


def memory_matters(settings: GPI, table: pd.DataFrame) -> Finding:
    kept, lost = (
        everywhere(table, memory).pivot_table(index="repeat", columns="lam", values="value") for memory in MEMORIES
    )
    least = settings.believed[int(np.argmin((kept - lost).mean()))]
    gap, interval = _difference(settings, kept[least], lost[least])
    detail = f"least for λ̂ = {least:g}: {kept[least].mean():.3f} with, {lost[least].mean():.3f} without"
    return Finding((interval or (gap,))[0] > 0, gap, interval, detail)


def near_the_optimum(settings: GPI, table: pd.DataFrame) -> Finding:
    rows, highest = everywhere(table), everywhere(table)["optimum"].mean()
    runs = rows[rows["lam"] == settings.lam].groupby("repeat")["value"].mean()
    share, interval = _difference(settings, runs / highest, np.zeros(len(runs)))
    return Finding((interval or (share,))[0] > 0.98, share, interval, f"{runs.mean():.3f} of {highest:.3f}")


CLAIMS = (
    Claim("beats-lambda-0", "The true λ earns more than λ̂ = 0.", more_than(0.0)),
    Claim("beats-lambda-1", "The true λ earns more than λ̂ = 1, the SR.", more_than(1.0)),
    Claim(
        "true-lambda-is-best", "No other λ̂, the paper's or not, earns more than the true one.", the_true_lambda_is_best
    ),
    Claim("leaves-early", "With λ̂ too low, agents leave a site earlier than with the true λ.", leaves_too_early),
    Claim("overstays", "With λ̂ too high, agents stay longer at a site than with the true λ.", overstays),
    Claim("memory", "Agents that never look up what is left earn less, whatever their λ̂.", memory_matters),
    Claim("near-the-optimum", "With the true λ, GPI is within 2 % of the optimum.", near_the_optimum),
)

EXPERIMENT = Experiment(
    name="gpi-tabular",
    title="Composing policies in FourRooms",
    source="section 5.3, figure 5.3",
    says=(
        "Composing four policies by GPE and GPI, the correct λ = ½ nets the highest return; with λ̂ too high agents "
        "overstay in rewarding states, with λ̂ too low they leave too early."
    ),
    quick=GPI(),
    paper=GPI(),
    compute=compute,
    draw=draw,
    films=films,
    claims=CLAIMS,
    differs=(
        "Representations are solved, not iterated. Besides the paper's 50 episodes, every start is played once, and "
        "the optimum over cells and visit counts is computed. λ̂ = ¼ and ¾ are added to the paper's 0, ½ and 1."
    ),
    cost="less than one hour on a laptop (2020, quad-core)",
)
