"""One large reward on the left, six small ones with a larger sum on the right: where does λ send an agent?

λO-FB is trained for λ = 1 and for λ = 0.1, and each agent acts where its λ is true. It is compared with the optimum
over (cell × visit counts) of the same episodes and, for λ = 1, with the exact agent, which has the same softmax
policies and no error in Φ. The exact agent goes to the large reward only if this reward is large enough, or if the
policies are sharp enough (`switching`).
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
from wane.experiments.common.tables import select
from wane.experiments.contract import Claim, Experiment, Finding, Loop, Tables, seed_keys
from wane.experiments.networks import switching, training
from wane.experiments.networks.training import Training, require_data
from wane.settings import DISTINCT, Count, Positive, Range
from wane.types import Scalar
from wane.worlds import draw as maps
from wane.worlds.catalog import asymmetric
from wane.worlds.world import World

LASTING, QUICKLY_GONE = 1.0, 0.1
"""The two λ of the paper."""
PLAIN = 1.0
"""The paper's factor of the rewards in z_R."""
SMALL = 2.0
"""The size of each of the six small rewards."""
STAYS = 0.8
"""We say that an agent stays at the large reward if it spends more than this share of the time there."""
SOON = 0.9999
"""A discount so close to 1 that the optimal episode still earns as much, but as early as possible. Without this
discount, the planner of a long episode may wander first."""
EXACT_LARGES = tuple(float(large) for large in np.round(np.arange(2.0, 12.1, 0.2), 1))
EXACT_TEMPERATURES = (1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 70.0, 100.0, 150.0, 200.0)
EXACT_TEMPERATURES += (300.0, 500.0, 700.0, 1000.0)


Distinct = Annotated[tuple[Positive, ...], DISTINCT]
"""Several numbers above 0, none given twice."""


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
    large: Positive = 6.0
    """the large reward; each of the six small ones is 2"""
    exact_larges: Distinct = EXACT_LARGES
    """large rewards for which exact agents are computed"""
    exact_temperatures: Distinct = EXACT_TEMPERATURES
    """temperatures of the policies of the exact agents"""
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


def make_world(settings: Asymmetric, lam: Scalar, **changes: Any) -> World:
    """Returns the world in which λ is true. Its returns are undiscounted sums."""
    task = dict(rewards=[settings.large, *[SMALL] * 6], depletion=Geometric(lam), horizon=settings.agent.horizon)
    return asymmetric(**(task | {"discount": 1.0} | changes))


def fixed(settings: Asymmetric) -> Tables:
    """Computes an optimal episode for each λ, and the behaviour of exact agents for λ = 1."""
    best = []
    for lam in settings.lambdas:
        world = make_world(settings, lam)
        found = plan(make_world(settings, lam, discount=SOON), tolerance=settings.tolerance)
        played = follow(jax.random.split(jax.random.key(0), 1), world, found)
        best.append(episodes.rows(world, episodes.select(played, 0), lam=lam))
    tables = {"best_episodes": pd.concat(best, ignore_index=True)}
    if LASTING not in settings.lambdas:
        return tables
    larges = sorted({settings.large, *settings.exact_larges})
    temperatures = sorted({*settings.exact_temperatures, *map(settings.temperature, settings.factors)})
    exact = switching.switching_table(make_world(settings, LASTING), larges, temperatures, settings.agent.discount)
    return tables | {"exact": exact}


def seeded(settings: Asymmetric, seeds: Sequence[int], loop: Loop) -> Tables:
    """Trains the agents of some seeds, and plays one episode of each with each factor of the rewards."""
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
    """Returns the policy that acts as if all rewards were larger by a factor."""

    def act(params: Any, carry: Any, observation: Any, key: Any) -> tuple[Any, Any, Any]:
        return policy.act(params, carry, observation._replace(remaining=factor * observation.remaining), key)

    return dataclasses.replace(policy, act=act)


def draw(settings: Asymmetric, tables: Tables) -> Figure:
    """Draws for each λ an agent's episode, an optimal one and where agents spend their time; below, exact agents."""
    exact = "exact" in tables
    figure = plots.figure(11.0, 2.5 * len(settings.lambdas) + 3.4 * exact)
    heights = [2.5] * len(settings.lambdas) + [3.4] * exact
    grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
    for i, lam in enumerate(settings.lambdas):
        row = [figure.add_subplot(place) for place in grid[i].subgridspec(1, 3)]
        _draw_row(row, make_world(settings, lam), *_episodes_of(tables, lam, settings.factors[0]), lam)
    if exact:
        left, right = (figure.add_subplot(place) for place in grid[-1].subgridspec(1, 2))
        _draw_line(left, settings, tables)
        _draw_earnings(right, settings, tables)
    return figure


def _draw_row(axes: Sequence[Axes], world: World, learned: pd.DataFrame, best: pd.DataFrame, lam: float) -> None:
    shown = learned[learned["seed"] == learned["seed"].min()]
    episodes.path(axes[0], world, shown, f"λO-FB, λ = {lam:g}: earns {shown['earned'].iloc[-1]:.2f}")
    episodes.path(axes[1], world, best, f"optimum, λ = {lam:g}: earns {best['earned'].iloc[-1]:.2f}")
    share = np.bincount(learned["cell"].to_numpy(int), minlength=world.n_states) / len(learned)
    sites = dict(sites=world.sites, rewards=world.rewards)
    title = f"λO-FB, λ = {lam:g}: all {learned['seed'].nunique()} seeds"
    maps.still(world.map, values=share, title=title, label="share of time", ax=axes[2], **sites)


def _draw_line(ax: Axes, settings: Asymmetric, tables: Tables) -> None:
    """Draws where exact agents go, by the large reward and the temperature, and where the trained agents go."""
    exact = tables["exact"].pivot_table(index="temperature", columns="large", values="at_large", dropna=False)
    levels, shades = [-0.1, STAYS, 1.1], ["#fde3c8", "#c9dff0"]
    if min(exact.shape) > 1:
        ax.contourf(exact.columns, exact.index, exact.fillna(0.0), levels, colors=shades)
    ax.text(0.03, 0.95, "exact agent goes to a small reward", transform=ax.transAxes, va="top")
    ax.text(0.97, 0.2, "exact agent goes to\nthe large reward, and stays", transform=ax.transAxes, ha="right")
    for factor in settings.factors:
        stays = measure(settings, tables, LASTING, factor)[0]["large"] > STAYS
        ax.plot(settings.large, settings.temperature(factor), "o", ms=8, mfc="white", mec=plots.INK)
        told = f"  × {factor:g}: {stays.sum()} of {len(stays)} stay"
        ax.annotate(told, (settings.large, settings.temperature(factor)), va="center")
    ax.set_yscale("log")
    title, label = (
        "λ = 1: the switching line; ○ trained, rewards × a factor",
        f"large reward (small ones: {SMALL:g} each)",
    )
    plots.tidy(ax, title, label, "temperature τ / factor")


def _draw_earnings(ax: Axes, settings: Asymmetric, tables: Tables) -> None:
    """Draws what exact and trained agents earn with the large reward of the map, by the temperature."""
    rows = select(tables["exact"], large=settings.large)
    ax.plot(rows["temperature"], rows["best_earned"], "--", color=plots.INK, lw=1, label="optimum")
    ax.plot(rows["temperature"], rows["earned"], ".-", color=plots.OTHERS[1], label="exact agent")
    for i, factor in enumerate(settings.factors):
        earned = measure(settings, tables, LASTING, factor)[0]["earned"]
        places, name = np.full(len(earned), settings.temperature(factor)), "trained agents, each seed"
        ax.plot(places, earned, "o", mfc="none", color=plots.OTHERS[2], label=None if i else name)
    ax.set_xscale("log")
    ax.set_ylim(0)
    ax.legend(frameon=False)
    title = f"λ = 1, large reward {settings.large:g}"
    plots.tidy(ax, title, "temperature τ / factor", "sum of rewards in an episode")


def films(settings: Asymmetric, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """Returns one film for each λ, of seed 0."""
    shown = {lam: _episodes_of(tables, lam, settings.factors[0])[0] for lam in settings.lambdas}
    return {
        f"λ = {lam:g}": episodes.film(make_world(settings, lam), rows[rows["seed"] == 0], f"λO-FB, λ = {lam:g}")
        for lam, rows in shown.items()
    }


def _episodes_of(tables: Tables, lam: float, factor: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns the episodes of the agents with this λ and factor, and the optimal episode."""
    learned, best = tables["episodes"], tables["best_episodes"]
    return learned[(learned["lam"] == lam) & (learned["factor"] == factor)], best[best["lam"] == lam]


def measure(settings: Asymmetric, tables: Tables, lam: float, factor: float) -> tuple[pd.DataFrame, pd.Series]:
    """Returns measurements of the agents' episodes, one row for each seed, and of the optimal episode.

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
    """Describes what agents and the optimum earn, and what agents earn with the other factors of the rewards."""
    learned, best = measure(settings, tables, lam, PLAIN)
    told = f"earned {learned['earned'].mean():.1f} of {best['earned']:.1f}"
    for factor in settings.factors:
        if factor != PLAIN:
            other, _ = measure(settings, tables, lam, factor)
            told += f"; with rewards × {factor:g} in z_R {other['earned'].mean():.1f}"
    return told


def exact_agent(settings: Asymmetric, tables: Tables, factor: float) -> pd.Series:
    """Returns the exact agent's row for the large reward of the map and a factor. Raises NotTested without λ = 1."""
    require_data(LASTING in settings.lambdas, "No agents were trained for λ = 1: add 1 to lambdas.")
    rows = select(tables["exact"], large=settings.large, temperature=settings.temperature(factor))
    return rows.iloc[0]


def fair_factors(settings: Asymmetric, tables: Tables) -> list[float]:
    """Returns the factors for which the paper's premise holds: optimum and exact agent stay at the large reward."""
    exact = {factor: exact_agent(settings, tables, factor) for factor in settings.factors}
    return [factor for factor, each in exact.items() if min(each["best_at_large"], each["at_large"]) > STAYS]


def exploits_the_large_one(settings: Asymmetric, tables: Tables) -> Finding:
    """Tests that agents with λ = 1 spend more than 80 % of the time at the large reward, where exact agents do."""
    fair = fair_factors(settings, tables)
    missing = "With none of the factors does the exact agent itself stay at the large reward: raise large or factors."
    require_data(bool(fair), missing)
    learned = {factor: measure(settings, tables, LASTING, factor)[0] for factor in fair}
    told = [
        f"rewards × {factor:g}: {', '.join(f'{share:.2f}' for share in each['large'])} (earned "
        f"{each['earned'].mean():.1f} of {exact_agent(settings, tables, factor)['best_earned']:.1f})"
        for factor, each in learned.items()
    ]
    shares = pd.concat([each["large"] for each in learned.values()])
    detail = (
        f"share of the time at the large reward, seed by seed, where the exact agent stays there; {'; '.join(told)}"
    )
    return Finding(bool((shares > STAYS).all()), shares.mean(), None, detail)


def agrees_with_the_exact_agent(settings: Asymmetric, tables: Tables) -> Finding:
    """Tests that agents with λ = 1 earn what the exact agent earns, up to 5 %, with the paper's z_R."""
    learned, _ = measure(settings, tables, LASTING, PLAIN)
    exact = exact_agent(settings, tables, PLAIN)
    require_data(exact["earned"] > 0, "The exact agent earns nothing: raise agent.horizon.")
    shares = learned["earned"] / exact["earned"]
    detail = f"agents {', '.join(f'{earned:.1f}' for earned in learned['earned'])}, the exact agent "
    detail += f"{exact['earned']:.1f}, the optimum {exact['best_earned']:.1f}; τ = {exact['temperature']:g}"
    return Finding(bool(((shares - 1).abs() < 0.05).all()), shares.mean(), None, detail)


def temperature_decides(settings: Asymmetric, tables: Tables) -> Finding:
    """Tests that the exact agent ignores the large reward at the agents' τ, and stays there at smaller τ."""
    plain = exact_agent(settings, tables, PLAIN if PLAIN in settings.factors else settings.factors[0])
    exact = tables["exact"]
    here = select(exact, large=settings.large).sort_values("temperature")
    sharp = here[here["at_large"] > STAYS]["temperature"].max()
    enough = select(exact, temperature=plain["temperature"])
    least = enough[enough["at_large"] > STAYS]["large"].min()
    detail = (
        f"at τ = {plain['temperature']:g} it earns {plain['earned']:g} of {plain['best_earned']:g}; with the large "
        f"reward of {settings.large:g} it stays there up to τ = {sharp:g}, and at τ = {plain['temperature']:g} from a "
        f"large reward of {least:g} on (the small ones add up to {6 * SMALL:g})"
    )
    return Finding(bool(plain["at_large"] <= STAYS and sharp < plain["temperature"]), float(sharp), None, detail)


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
    quick=Asymmetric(seeds=2, agent=training.quick(epochs=8), exact_larges=EXACT_LARGES[::5]),
    paper=Asymmetric(),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=(
        Claim(
            "large-for-ever",
            "With λ = 1 agents go to the large reward and stay there, where the exact agent does.",
            exploits_the_large_one,
            kind="paper",
            place="section 6, figure 6.1",
            account=(
                "The paper says that with λ = 1 the λ operator recovers the best strategy: to reach the large reward "
                "and exploit it for ever (figure 6.1 d). It gives neither the sizes of the rewards nor the map. We "
                "trained as the paper does, with τ = 200, γ = 0.99 and T = 50, on a map of ours with the same idea: 6 "
                "on the left, six times 2 on the right. A softmax with τ = 200 over values of this size is nearly a "
                "random walk, and on our map the agent with the exact Φ of these policies goes for a small reward too "
                "(90 of 276), as the trained agents do; that is no evidence against the paper. So we judge where the "
                "exact agent does go to the large reward and stays: with all rewards ten or a hundred times as large, "
                "for which the policies are as sharp as with τ = 20 or 2. There the trained agents still stay with the "
                "small rewards or in between. What changes it is a more accurate Φ for sharp policies: after 100,000 "
                "gradient steps the relative error of Φ for λ = 1 is about 0.3, while actions differ by about 1 % of "
                "their value with γ = 0.99. Large rewards from 10.6 on make the exact agent go there at τ = 200 too "
                "(--large 11 trains and judges that; no agents were trained for it at the paper's scale)."
            ),
        ),
        Claim(
            "tour",
            "With λ = 0.1 agents visit six of the seven rewards at least.",
            tours_the_small_ones,
            kind="paper",
            place="section 6, figure 6.1",
        ),
        Claim(
            "as-the-exact-agent",
            "With λ = 1 agents earn what the agent with the exact Φ of the same softmax policies earns.",
            agrees_with_the_exact_agent,
        ),
        Claim(
            "temperature-decides",
            "On our map the exact agent for λ = 1 leaves the large reward aside because its policies are too blunt.",
            temperature_decides,
        ),
        Claim("near-the-optimum", "With each λ agents earn at least 95 % of the optimum.", near_the_optimum),
    ),
    differences=(
        f"{training.SCHEDULE} The paper gives no numbers for its map: ours has a reward of 6 on the left and six "
        "rewards of 2 on the right. Whether an agent for λ = 1 goes left depends on these numbers and on τ, so we add "
        "the exact agents and the line at which they switch, and judge the paper's statement where the exact agent "
        "goes to the large reward. Episodes start anywhere while data are collected. We add the optimum."
    ),
    paper_cost=training.COST,
    double_precision=False,
)
