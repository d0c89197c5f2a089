"""One large reward on the left, six small ones with a larger sum on the right: where does λ send an agent?

λO-FB is trained for λ = 1 and for λ = 0.1. Training does not depend on the rewards of the map, so the same agents act
with several sizes of the large reward, where their λ is true. They are compared with the optimum over (cell × visit
counts) of the same episodes and, for λ = 1, with the exact agent, which has the same softmax policies and no error in
Φ. The exact agent goes to the large reward only if this reward is large enough, or if the policies are sharp enough.
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
from wane.lab import Claim, Experiment, Finding, Loop, Tables, plots, seed_keys
from wane.lab.tables import select
from wane.settings import DISTINCT, Positive, Range
from wane.types import Scalar
from wane.worlds import draw as maps
from wane.worlds.catalog import asymmetric
from wane.worlds.world import World
from wane_paper.common import episodes
from wane_paper.common.parts import entry
from wane_paper.common.settings import Lambdas
from wane_paper.common.soft_policies import first_best, rewards_of_states, soft_q_values
from wane_paper.networks import training
from wane_paper.networks.training import Training, require_data
from wane_paper.texts import account, texts

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
        best.append(episodes.rows(world, entry(played, 0), lam=lam, large=large))
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
        rewards = rewards_of_states(world)
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
        tables.append(episodes.rows(world, entry(played, i, j), **labels))
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


STAYS = 0.8
"""We say that an agent stays at the large reward if it spends more than this share of the time there."""


def shown_cases(settings: Asymmetric) -> list[tuple[float, float]]:
    """Returns the pairs (λ, large reward) of the figure and the films: the first large reward, and the last for λ = 1.

    The first large reward is shown with each λ.
    """
    last = [(LASTING, large) for large in settings.larges[1:][-1:] if LASTING in settings.lambdas]
    return [(lam, settings.larges[0]) for lam in settings.lambdas] + last


def draw(settings: Asymmetric, tables: Tables) -> Figure:
    """Draws an agent's episode, an optimal one, and where agents spend their time."""
    cases = shown_cases(settings)
    figure = plots.figure(11.0, 2.5 * len(cases))
    for row, (lam, large) in zip(figure.subplots(len(cases), 3, squeeze=False), cases, strict=True):
        world, rows = make_world(settings, lam, large), episodes_of(tables, lam, large, settings.factors[0])
        _draw_row(list(row), world, *rows, f"λ = {lam:g}, large {large:g}")
    return figure


def _draw_row(axes: Sequence[Axes], world: World, learned: pd.DataFrame, best: pd.DataFrame, case: str) -> None:
    shown = learned[learned["seed"] == learned["seed"].min()]
    episodes.path(axes[0], world, shown, f"λO-FB, {case}: earns {shown['earned'].iloc[-1]:.2f}")
    episodes.path(axes[1], world, best, f"optimum, {case}: earns {best['earned'].iloc[-1]:.2f}")
    share = np.bincount(learned["cell"].to_numpy(int), minlength=world.n_states) / len(learned)
    sites = dict(sites=world.sites, rewards=world.rewards)
    title = f"λO-FB, {case}: all {learned['seed'].nunique()} seeds"
    maps.draw_map(world.map, values=share, title=title, label="share of time", ax=axes[2], **sites)


def films(settings: Asymmetric, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """Returns one film of seed 0 for each λ with the first large reward, and one for λ = 1 with the last."""
    made = {}
    for lam, large in shown_cases(settings):
        learned, _ = episodes_of(tables, lam, large, settings.factors[0])
        title = f"λ = {lam:g}, large reward {large:g}"
        made[title] = episodes.film(make_world(settings, lam, large), select(learned, seed=0), f"λO-FB, {title}")
    return made


def fair_cases(settings: Asymmetric, tables: Tables) -> list[tuple[float, float]]:
    """Returns the pairs (large reward, factor) for which the paper's premise holds.

    The premise is that the optimum and the exact agent with these policies stay at the large reward.
    """
    cases = list(product(settings.larges, settings.factors))
    best = {large: measure(settings, tables, LASTING, large, settings.factors[0])[1] for large in settings.larges}
    exact = {case: exact_agent(settings, tables, *case) for case in cases}
    return [case for case in cases if min(best[case[0]]["at_large"], exact[case]["at_large"]) > STAYS]


def exploits_the_large_one(settings: Asymmetric, tables: Tables) -> Finding:
    """Tests that agents with λ = 1 spend more than 80 % of the time at the large reward, where exact agents do."""
    fair = fair_cases(settings, tables)
    require_data(bool(fair), "The exact agent itself never stays at the large reward: raise larges or factors.")
    learned = {case: measure(settings, tables, LASTING, *case) for case in fair}
    cases = [
        f"large reward {large:g}, rewards × {factor:g}: {(each['at_large'] > STAYS).sum()} of {len(each)} seeds, "
        f"{each['at_large'].mean():.2f} of the time, earned {each['earned'].mean():.1f} of {best['earned']:.1f}"
        for (large, factor), (each, best) in learned.items()
    ]
    shares = pd.concat([each["at_large"] for each, _ in learned.values()])
    detail = f"who stays at the large reward, where the exact agent does: {'; '.join(cases)}"
    return Finding(bool((shares > STAYS).all()), shares.mean(), None, detail)


def agrees_with_the_exact_agent(settings: Asymmetric, tables: Tables) -> Finding:
    """Tests that agents with λ = 1 earn what the exact agent earns, up to 5 %, with the paper's z_R."""
    shares, cases = [], []
    for large in settings.larges:
        learned, best = measure(settings, tables, LASTING, large, PLAIN)
        exact = exact_agent(settings, tables, large, PLAIN)
        require_data(exact["earned"] > 0, "The exact agent earns nothing: raise agent.horizon.")
        shares.append(learned["earned"] / exact["earned"])
        agents = ", ".join(f"{earned:.1f}" for earned in learned["earned"])
        cases.append(
            f"large reward {large:g}: agents {agents}, the exact agent {exact['earned']:.1f}, "
            f"the optimum {best['earned']:.1f}"
        )
    share = pd.concat(shares)
    detail = f"{'; '.join(cases)}; τ = {settings.temperature(PLAIN):g}"
    return Finding(bool(((share - 1).abs() < 0.05).all()), share.mean(), None, detail)


def tours_the_small_ones(settings: Asymmetric, tables: Tables) -> Finding:
    """Tests that agents with λ = 0.1 visit at least six of the seven sites, with every large reward."""
    visited, cases = [], []
    for large in settings.larges:
        learned, best = measure(settings, tables, QUICKLY_GONE, large, PLAIN)
        visited.append(learned["sites"])
        sites = ", ".join(f"{sites:.0f}" for sites in learned["sites"])
        earned = f"earned {learned['earned'].mean():.1f} of {best['earned']:.1f}"
        for factor in settings.factors:
            if factor != PLAIN:
                other, _ = measure(settings, tables, QUICKLY_GONE, large, factor)
                earned += f", with rewards × {factor:g} in z_R {other['earned'].mean():.1f}"
        cases.append(f"large reward {large:g}: sites visited: agents {sites}, optimum {best['sites']:.0f}; {earned}")
    sites = pd.concat(visited)
    return Finding(bool((sites >= 6).all()), sites.mean(), None, "; ".join(cases))


def near_the_optimum(settings: Asymmetric, tables: Tables) -> Finding:
    """Tests that agents earn more than 95 % of the optimum with every λ and every large reward."""
    shares = {}
    for lam, large in product(settings.lambdas, settings.larges):
        learned, best = measure(settings, tables, lam, large, PLAIN)
        require_data(best["earned"] > 0, f"The optimum for λ = {lam:g} earns nothing: raise agent.horizon.")
        shares[f"λ = {lam:g}, large reward {large:g}"] = learned["earned"].mean() / best["earned"]
    lowest = min(shares.values())
    detail = "; ".join(f"{case}: {100 * share:.1f} %" for case, share in shares.items())
    return Finding(bool(lowest > 0.95), lowest, None, f"of the optimum, {detail}")


EXPERIMENT = Experiment(
    **texts("fb-asymmetric"),
    quick=Asymmetric(seeds=2, agent=training.quick(epochs=8)),
    paper=Asymmetric(seeds=6),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=(
        Claim(
            "large-for-ever",
            "With λ = 1 agents go to the large reward and stay there, in every case in which the exact agent does.",
            exploits_the_large_one,
            kind="paper",
            place="section 6, figure 6.1",
            account=account("fb-asymmetric", "large-for-ever"),
        ),
        Claim(
            "tour",
            "With λ = 0.1 agents visit six of the seven rewards at least, with each size of the large one.",
            tours_the_small_ones,
            kind="paper",
            place="section 6, figure 6.1",
        ),
        Claim(
            "as-the-exact-agent",
            "With λ = 1 and each size of the large reward, agents earn what the agent with the exact Φ of the same "
            "softmax policies earns.",
            agrees_with_the_exact_agent,
        ),
        Claim(
            "near-the-optimum",
            "With each λ and each size of the large reward, agents earn at least 95 % of the optimum.",
            near_the_optimum,
        ),
    ),
    double_precision=False,
)
