"""One large reward on the left, six small ones with a larger sum on the right: where does λ send an agent?

λO-FB is trained for λ = 1 and for λ = 0.1. Training does not depend on the rewards of the map, so the same agents act
with several sizes of the large reward, where their λ is true. They are compared with the optimum over (cell × visit
counts) of the same episodes and, for λ = 1, with the exact agent, which has the same softmax policies and no error in
Φ. The exact agent goes to the large reward only if this reward is large enough, or if the policies are sharp enough.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.lab import plots
from wane.lab.contract import Claim, Experiment, Finding, Tables
from wane.lab.tables import select
from wane.worlds import draw as maps
from wane.worlds.world import World
from wane_paper.common import episodes
from wane_paper.networks import training
from wane_paper.networks.asymmetric_tables import (
    LASTING,
    PLAIN,
    QUICKLY_GONE,
    Asymmetric,
    episodes_of,
    exact_agent,
    fixed,
    make_world,
    measure,
    seeded,
)
from wane_paper.networks.training import require_data

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
    maps.still(world.map, values=share, title=title, label="share of time", ax=axes[2], **sites)


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
    missing = "The exact agent itself never stays at the large reward: raise larges or factors."
    require_data(bool(fair), missing)
    learned = {case: measure(settings, tables, LASTING, *case) for case in fair}
    told = [
        f"large reward {large:g}, rewards × {factor:g}: {(each['at_large'] > STAYS).sum()} of {len(each)} seeds, "
        f"{each['at_large'].mean():.2f} of the time, earned {each['earned'].mean():.1f} of {best['earned']:.1f}"
        for (large, factor), (each, best) in learned.items()
    ]
    shares = pd.concat([each["at_large"] for each, _ in learned.values()])
    detail = f"who stays at the large reward, where the exact agent does: {'; '.join(told)}"
    return Finding(bool((shares > STAYS).all()), shares.mean(), None, detail)


def agrees_with_the_exact_agent(settings: Asymmetric, tables: Tables) -> Finding:
    """Tests that agents with λ = 1 earn what the exact agent earns, up to 5 %, with the paper's z_R."""
    shares, told = [], []
    for large in settings.larges:
        learned, best = measure(settings, tables, LASTING, large, PLAIN)
        exact = exact_agent(settings, tables, large, PLAIN)
        require_data(exact["earned"] > 0, "The exact agent earns nothing: raise agent.horizon.")
        shares.append(learned["earned"] / exact["earned"])
        agents = ", ".join(f"{earned:.1f}" for earned in learned["earned"])
        told.append(
            f"large reward {large:g}: agents {agents}, the exact agent {exact['earned']:.1f}, "
            f"the optimum {best['earned']:.1f}"
        )
    share = pd.concat(shares)
    detail = f"{'; '.join(told)}; τ = {settings.temperature(PLAIN):g}"
    return Finding(bool(((share - 1).abs() < 0.05).all()), share.mean(), None, detail)


def tours_the_small_ones(settings: Asymmetric, tables: Tables) -> Finding:
    """Tests that agents with λ = 0.1 visit at least six of the seven sites, with every large reward."""
    visited, told = [], []
    for large in settings.larges:
        learned, best = measure(settings, tables, QUICKLY_GONE, large, PLAIN)
        visited.append(learned["sites"])
        sites = ", ".join(f"{sites:.0f}" for sites in learned["sites"])
        earned = f"earned {learned['earned'].mean():.1f} of {best['earned']:.1f}"
        for factor in settings.factors:
            if factor != PLAIN:
                other, _ = measure(settings, tables, QUICKLY_GONE, large, factor)
                earned += f", with rewards × {factor:g} in z_R {other['earned'].mean():.1f}"
        told.append(f"large reward {large:g}: sites visited: agents {sites}, optimum {best['sites']:.0f}; {earned}")
    sites = pd.concat(visited)
    return Finding(bool((sites >= 6).all()), sites.mean(), None, "; ".join(told))


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
            "With λ = 1 agents go to the large reward and stay there, in every case in which the exact agent does.",
            exploits_the_large_one,
            kind="paper",
            place="section 6, figure 6.1",
            account=(
                "The paper says that with λ = 1 the λ operator recovers the best strategy: to reach the large reward "
                "and exploit it for ever (figure 6.1 d). Its text gives neither the sizes of the rewards nor the map. "
                "We trained six seeds as the paper does (τ = 200, γ = 0.99, T = 50), but for 100,000 gradient steps "
                "where its table read literally has 2,500, on a map of ours with the same idea: 6 or 11 on the left, "
                "six times 2 on the right. A softmax with τ = 200 over such values is nearly a random walk, and with "
                "6 the agent with the exact Φ of these policies stays at a small reward (90 of 276), as all trained "
                "agents do; that is no evidence against the paper. So we judge where the exact agent and the optimum "
                "stay at the large reward: with 11, and with both sizes if rewards in z_R are ten or a hundred times "
                "as large, which makes policies as sharp as with τ = 20 or 2. With 11 and sharper policies the "
                "statement holds: all six seeds go there and stay (506 of 506). With 11, the paper's own z_R and τ = "
                "200, none of six does: each stays at a small reward (90 of 506). The exact agent is close to its "
                "switch at 10.6 there: at the start, left is worth 1.5 % more than right. With 6 and sharper policies "
                "none does either (90 to 94 of 276), although left is worth 15 % more with τ = 20. So trained agents "
                "need a larger reward than exact ones. What changes it is a larger reward with sharper policies, as "
                "above, or a more accurate Φ of sharp policies: in FourRooms, where we measured it (fb-lambda-table), "
                "the relative error for λ = 1 is still 0.3 at the end. The experiment learned-operator shows that the "
                "latter is enough: a network trained on the exact Φ of sharper policies, with a temperature relative "
                "to the values, goes to the large reward of 6 and stays with every one of six seeds (276 of 276; "
                "median relative error of Φ 0.06). It needs the world's kernel and three times the GPU seconds."
            ),
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
    differences=(
        f"{training.SCHEDULE} The paper gives no numbers for its map: ours has a reward of 6 or 11 on the left and "
        "six rewards of 2 on the right. Whether an agent for λ = 1 goes left depends on these numbers and on τ, so we "
        "add the exact agents, and judge the paper's statement where the exact agent goes to the large reward. "
        "Episodes start anywhere while data are collected. We add the optimum, and use six "
        "seeds where the paper has three."
    ),
    paper_cost=training.COST,
    double_precision=False,
)
