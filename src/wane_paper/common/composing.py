"""FourRooms: composing four given policies by GPE and GPI, with representations for a believed λ̂.

Three rewards of 5, 10 and 5 halve with every visit. The paper plays 50 episodes from random starts. Here agents also
play from every start, so that without slips nothing is left to chance, and their returns are compared with the optimum
over (cell × visit counts), which no λ̂ can beat.

| table | kind | a row for each | columns |
| --- | --- | --- | --- |
| `starts` | fixed | agent, memory, repetition, start | lam, memory, repeat, start, value |
| `stays` | fixed | agent, memory, repetition | lam, memory, repeat, stay, behind |
| `optimum` | fixed | start | start, value |
| `episodes_shown` | fixed | agent, moment of one episode | lam, time, cell, reward, earned, remaining0, … |
| `episodes` | seeded | agent, seed, episode from a random start | lam, seed, episode, start, value |
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Bool, Float, Int, Key
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from wane.agents import gpi
from wane.agents.common.rollout import Episode
from wane.agents.planner import plan
from wane.depletion import Geometric
from wane.lab import exceeds, plots
from wane.lab.contract import Claim, Finding, Kind, Loop, NotTested, Seeded, Tables, seed_keys
from wane.lab.statistics import mean_and_error, paired_difference
from wane.lab.tables import frame, select
from wane.settings import Count, Lambda, Probability, Range
from wane.worlds.catalog import four_rooms
from wane.worlds.world import World
from wane_paper.common import beliefs, episodes
from wane_paper.common.parts import entry
from wane_paper.common.settings import Lambdas
from wane_paper.texts import account

MEMORIES = {"refreshed": True, "never refreshed": False}
"""Whether agents look up at each step what remains of the rewards."""
Phis = Float[np.ndarray, "agents policies states actions sites"]


@dataclass(frozen=True)
class Composing(Seeded):
    """Settings of the experiments that compose policies."""

    seeds: Count = 1
    """independent sets of episodes"""
    believed: Lambdas = (0.0, 0.25, 0.5, 0.75, 1.0)
    """the agents' λ̂; the paper has 0, ½ and 1"""
    lam: Lambda = 0.5
    """the true λ"""
    episodes: Count = 50
    """episodes from random starts, the same for every agent"""
    slip: Probability = 0.0
    """probability of a random step to a neighbour"""
    repeats: Count = 1
    """episodes from every start; without slips all of them are alike"""
    shown: Annotated[int, Range(0, 67, "a state of FourRooms")] = 30
    """the state that the drawn episodes start in"""
    agent: gpi.Config = field(default_factory=gpi.Config)
    """all agents"""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = {"agent.depletion": "believed"}

    def rules(self) -> None:
        """Raises SettingError if the agents do not look up what remains."""
        super().rules()
        needed = "True is needed, because the experiment plays agents without it in any case"
        self.require(self.agent.refresh, "agent.refresh", needed)

    @property
    def world(self) -> World:
        """FourRooms."""
        return make_world(self.lam, self.slip)


def make_world(lam: float, slip: float = 0.0) -> World:
    """Returns FourRooms with rewards that wear off with λ."""
    return four_rooms(depletion=Geometric(lam), slip=slip)


def representations(settings: Composing) -> Phis:
    """Returns Φ of the four policies for every believed λ̂."""
    configs = [dataclasses.replace(settings.agent, depletion=Geometric(lam)) for lam in settings.believed]
    return np.stack([gpi.init(jax.random.key(0), settings.world, config).phi for config in configs])


def play(
    world: World,
    phis: Phis,
    keys: Key[Array, " episodes"],
    starts: Int[np.ndarray, " episodes"],
    refresh: Bool[np.ndarray, " episodes"],
) -> Episode:
    """Plays the same keys and starts with every agent. Returns episodes with the axes (agents, episodes)."""

    def one(phi, key, start, fresh):
        return gpi.play_composed(key, world, phi, start, refresh=fresh)

    together = jax.vmap(jax.vmap(one, (None, 0, 0, 0)), (0, None, None, None))
    return jax.tree_util.tree_map(np.asarray, jax.jit(together)(phis, keys, starts.astype(np.int32), refresh))


def fixed(settings: Composing) -> Tables:
    """Computes the returns from every start, the optimum, and one episode of every agent step by step."""
    world, phis = settings.world, representations(settings)
    best = frame(plan(world).values, "value", start=range(world.n_states))
    return {**_every_start(settings, world, phis), "optimum": best, "episodes_shown": _shown(settings, world, phis)}


def _every_start(settings: Composing, world: World, phis: Phis) -> Tables:
    """Plays every start with agents that look up what remains and agents that do not, all with the same slips."""
    shape = (settings.repeats, world.n_states)
    keys, starts = jax.random.split(jax.random.key(0), shape).ravel(), np.tile(np.arange(shape[1]), shape[0])
    refresh = np.repeat(list(MEMORIES.values()), len(starts))
    played = play(world, phis, jnp.concatenate([keys, keys]), np.tile(starts, 2), refresh)
    cells = np.asarray(played.cells).reshape(-1, world.n_states, np.shape(played.cells)[-1])
    stays = [episodes.stays(world, each).mean() for each in cells]
    share = np.asarray(played.remaining)[..., -1, :].reshape(len(stays), -1) / np.tile(world.rewards, world.n_states)
    behind = np.ma.masked_equal(share, 1.0).mean(1).filled(np.nan)  # A site that was never visited is not left behind.
    axes = {"lam": settings.believed, "memory": MEMORIES, "repeat": range(settings.repeats)}
    return {
        "starts": frame(played.value, "value", **axes, start=range(world.n_states)),
        "stays": frame(stays, "stay", **axes).assign(behind=behind),
    }


def _shown(settings: Composing, world: World, phis: Phis) -> pd.DataFrame:
    played = play(world, phis, jax.random.split(jax.random.key(1), 1), np.array([settings.shown]), np.array([True]))
    tables = [episodes.rows(world, entry(played, i, 0), lam=lam) for i, lam in enumerate(settings.believed)]
    return pd.concat(tables)


def seeded(settings: Composing, seeds: Sequence[int], loop: Loop) -> Tables:
    """Plays the paper's episodes from random starts."""
    world, phis = settings.world, representations(settings)
    keys = jax.vmap(lambda key: jax.random.split(key, settings.episodes))(seed_keys(seeds)).ravel()
    draws = [np.random.default_rng(seed).integers(world.n_states, size=settings.episodes) for seed in seeds]
    starts = np.concatenate(draws)
    value = play(world, phis, keys, starts, np.ones(len(starts), bool)).value
    table = frame(value, "value", lam=settings.believed, seed=seeds, episode=range(settings.episodes))
    return {"episodes": table.assign(start=np.tile(starts, len(phis)))}


def draw(settings: Composing, tables: Tables) -> Figure:
    """Draws returns (paper's episodes and every start) and stays at sites by λ̂, and paths of up to three agents."""
    figure = plots.figure(14.0, 6.8)
    grid = figure.add_gridspec(2, 12)
    by_lam = tables["episodes"].groupby("lam")["value"]
    errors = [float(mean_and_error(values)[1]) for _, values in by_lam]
    names = [f"{lam:g}" for lam in sorted(settings.believed)]
    shades = [plots.colour(lam) for lam in sorted(settings.believed)]
    sampled, every, staying, leaving = (figure.add_subplot(grid[0, 3 * i : 3 * i + 3]) for i in range(4))
    plots.bars(sampled, names, by_lam.mean(), errors, shades)
    plots.tidy(sampled, f"{settings.episodes} random starts", "believed λ̂", "discounted return ± s.e.")
    _draw_every_start(every, tables, names, shades)
    stays = select(tables["stays"], memory="refreshed").groupby("lam")[["stay", "behind"]].mean()
    plots.bars(staying, names, stays["stay"], None, shades)
    plots.tidy(staying, "how long agents stay", "believed λ̂", "steps in a row at a site")
    plots.bars(leaving, names, 100 * stays["behind"], None, shades)
    plots.tidy(leaving, "how much they leave behind", "believed λ̂", "% of a visited site's reward")
    for i, lam in enumerate(shown_beliefs(settings)):
        rows = tables["episodes_shown"].query("lam == @lam")
        ax = figure.add_subplot(grid[1, 4 * i : 4 * i + 4])
        episodes.path(ax, settings.world, rows, f"{beliefs.label(lam)}: {rows['earned'].iloc[-1]:.2f}")
    figure.supxlabel(episodes.KEY, fontsize="small")
    return figure


def _draw_every_start(ax: Axes, tables: Tables, names: Sequence[str], shades: Sequence[str]) -> None:
    means = tables["starts"].groupby(["memory", "lam"])["value"].mean()
    plots.bars(ax, names, means["refreshed"], None, shades)
    highest = tables["optimum"]["value"].mean()
    ax.axhline(highest, color=plots.INK, ls="--", lw=1)
    at = (len(names) - 0.6, highest)
    ax.annotate(f"optimum {highest:.3f}", at, (0, 4), textcoords="offset points", ha="right")
    ax.plot(names, means["never refreshed"], "D", color=plots.INK, mfc="white", label="never told what remains")
    ax.set_ylim(0, 1.35 * highest)
    ax.legend(frameon=False, loc="upper left", fontsize="small")
    plots.tidy(ax, "every start", "believed λ̂", "discounted return")


def shown_beliefs(settings: Composing) -> list[float]:
    """Returns the λ̂ whose episodes are shown: 0, the true λ and 1, or the first three if none of these was run."""
    wanted = [lam for lam in settings.believed if lam in (0.0, settings.lam, 1.0)]
    return wanted or list(settings.believed[:3])


def films(settings: Composing, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """Returns films of one episode of up to three agents."""
    shown = tables["episodes_shown"][tables["episodes_shown"]["lam"].isin(shown_beliefs(settings))]
    title = f"GPI with λ̂ = {{:g}}, true λ = {settings.lam:g}"
    return episodes.films(settings.world, shown, "lam", title, "λ̂ = {:g}")


def from_every_start(tables: Tables, memory: str = "refreshed") -> pd.DataFrame:
    """Returns the mean returns over all starts, with the axes (repetitions, λ̂)."""
    return select(tables["starts"], memory=memory).pivot_table(index="repeat", columns="lam", values="value")


def mean_stays(tables: Tables, measure: str = "stay") -> pd.DataFrame:
    """Returns mean steps in a row at a site, or mean shares of visited rewards left behind, (repetitions, λ̂)."""
    return select(tables["stays"], memory="refreshed").pivot_table(index="repeat", columns="lam", values=measure)


def more_than(other: float) -> Callable[[Composing, Tables], Finding]:
    """Returns a test that the true λ earns more than another λ̂ in the paper's episodes, paired by episode."""

    def test(settings: Composing, tables: Tables) -> Finding:
        beliefs.need_another(settings.believed, settings.lam, other)
        value = tables["episodes"].pivot_table(index=["seed", "episode"], columns="lam", values="value")
        exact = from_every_start(tables).mean()
        detail = f"over every start {exact[settings.lam]:.3f} against {exact[other]:.3f}"
        return exceeds(paired_difference(value[settings.lam], value[other]), detail)

    return test


def the_true_lambda_is_best(settings: Composing, tables: Tables) -> Finding:
    """Tests whether the true λ earns more than the best other λ̂, from every start."""
    runs = from_every_start(tables)
    rival = beliefs.rival(runs, settings.believed, settings.lam)
    top = max(settings.believed, key=lambda lam: runs[lam].mean())
    detail = (
        f"best is λ̂ = {top:g} with {runs[top].mean():.3f}; λ = {settings.lam:g} earns {runs[settings.lam].mean():.3f}"
    )
    return _exceeds(settings, runs[settings.lam], runs[rival], detail)


def lower_beliefs_leave_earlier(settings: Composing, tables: Tables) -> Finding:
    """Tests whether agents with any lower λ̂ leave more of the rewards behind than agents with the true λ.

    Steps in a row at a site would mislead, because an agent with λ̂ = 0 steps off a site and on again.
    """
    behind = mean_stays(tables, "behind")
    lower = _some(settings, "lower", (lam for lam in settings.believed if lam < settings.lam))
    if not set(settings.believed) <= set(behind):
        raise NotTested("Some agents wore off no reward, so they left nothing behind.")
    least = min(lower, key=lambda lam: behind[lam].mean())
    detail = f"share of a visited reward that is left behind: {beliefs.means(behind, settings.believed, '.3g')}; "
    return _exceeds(settings, behind[least], behind[settings.lam], detail + _steps(settings, mean_stays(tables)))


def higher_beliefs_stay_longer(settings: Composing, tables: Tables) -> Finding:
    """Tests whether agents with any higher λ̂ stay longer than agents with the true λ."""
    stays = mean_stays(tables)
    higher = _some(settings, "higher", (lam for lam in settings.believed if lam > settings.lam))
    least = min(higher, key=lambda lam: stays[lam].mean())
    return _exceeds(settings, stays[least], stays[settings.lam], _steps(settings, stays))


def _some(settings: Composing, which: str, found: Iterable[float]) -> list[float]:
    beliefs.need(settings.believed, settings.lam)
    found = list(found)
    if not found:
        raise NotTested(f"There is no agent with a {which} λ̂ than the true one: {beliefs.in_words(settings.believed)}.")
    return found


def _steps(settings: Composing, stays: pd.DataFrame) -> str:
    return f"mean steps in a row at a site: {beliefs.means(stays, settings.believed, '.3g')}"


def near_the_optimum(settings: Composing, tables: Tables) -> Finding:
    """Tests whether the true λ earns more than 98 % of the optimum, from every start."""
    beliefs.need(settings.believed, settings.lam)
    runs, highest = from_every_start(tables)[settings.lam], tables["optimum"]["value"].mean()
    detail = f"{runs.mean():.3f} of {highest:.3f}"
    return _exceeds(settings, runs / highest, np.zeros(len(runs)), detail, than=0.98)


def _exceeds(settings: Composing, ours: ArrayLike, theirs: ArrayLike, detail: str, than: float = 0.0) -> Finding:
    """Tests whether a mean difference exceeds a number. The finding has an interval only if actions slip."""
    found = paired_difference(ours, theirs)
    if settings.slip:
        return exceeds(found, detail, than)
    return Finding(found.value > than, found.value, None, detail)


def claims(returns: str, stays: str = "") -> tuple[Claim, ...]:
    """Returns the claims. `returns` and `stays` are the places where the paper compares agents' returns and stays."""
    when: tuple[Kind, str] = ("paper", stays) if stays else ("ours", "")
    return (
        Claim("beats-lambda-0", "The true λ earns more than λ̂ = 0.", more_than(0.0), "paper", returns),
        Claim("beats-lambda-1", "The true λ earns more than λ̂ = 1, the SR.", more_than(1.0), "paper", returns),
        Claim(
            "true-lambda-is-best",
            "No other λ̂, the paper's or not, earns more than the true one.",
            the_true_lambda_is_best,
        ),
        Claim(
            "leaves-early",
            "Agents with a λ̂ that is too low leave too early: more of a reward stays behind than with the true λ.",
            lower_beliefs_leave_earlier,
            *when,
        ),
        Claim(
            "overstays",
            "Agents with a λ̂ that is too high stay longer at a site than agents with the true λ.",
            higher_beliefs_stay_longer,
            *when,
            account=account("gpi-tabular", "overstays") if stays else "",
        ),
        Claim("near-the-optimum", "GPI with the true λ earns at least 98 % of the optimum.", near_the_optimum),
    )
