"""Three patches along a corridor: when λO-FB leaves them and where it goes, compared with the marginal value theorem.

With γ < 1 the averages of the theorem are discounted, with γ = 1 they are not. λ < 1 keeps Φ finite with γ = 1, but Φ
is of no use there: every state is visited infinitely often whatever the first action is, so Φ_λ(s, a, s') = 1 / (1 − λ)
for all s and a, and the exact representation does not distinguish actions. With γ = 1, an agent's choices come from
errors in the Φ that it has learned.

The paper does not say which λ its patches have. Agents are trained for one λ, and agents with the exact Φ act under
many λ, so that the answer does not depend on our choice.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from wane.lab.contract import Claim, Experiment, Finding, Tables
from wane.lab.judging import exceeds, matches
from wane.lab.statistics import bootstrap
from wane_paper.common import episodes
from wane_paper.networks import training
from wane_paper.networks.mvt_figure import draw
from wane_paper.networks.mvt_tables import (
    EXACT,
    MVT,
    OPTIMUM,
    by_lam,
    differences,
    fixed,
    make_world,
    seeded,
)
from wane_paper.networks.training import require_data


def films(settings: MVT, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """Returns one film for each discount, of seed 0 at the middle distance."""
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
    ties = "With γ = 1 the exact Φ is the same for all actions, so what agents do there rests on errors of learning."
    require_data(discount < 1, ties)


def _learned(settings: MVT, tables: Tables, discount: float, form: str = "paper") -> pd.Series:
    """Returns the trained agents' mean difference from the theorem, over distances and stays, for every seed."""
    require_data("departure" in settings.timings, "No world paid on departure: add departure to timings.")
    rows = differences(tables["stays"], discount, form)
    require_data(len(rows) > 0, "No stay was ended within an episode both by an agent and by the theorem.")
    return rows.groupby("seed")["difference"].mean()


def like_the_theorem(discount: float) -> Callable[[MVT, Tables], Finding]:
    """Returns a test that for every λ agents with the exact Φ leave within one step of the theorem on average.

    The paper does not say which λ it used. So the claim holds if it holds for every λ, fails if it fails for every λ,
    and is undecided if the answer depends on λ.
    """

    def test(settings: MVT, tables: Tables) -> Finding:
        _require(settings, discount)
        trained = bootstrap(_learned(settings, tables, discount))
        mean = by_lam(tables, EXACT, discount)
        require_data(len(mean) > 0, "No stay was ended within an episode both by an agent and by the theorem.")
        within = mean.abs() < 1
        verdict = True if within.all() else None if within.any() else False
        best, corrected = by_lam(tables, OPTIMUM, discount), by_lam(tables, EXACT, discount, "corrected")
        shown = [lam for lam in mean.index if lam in (mean.index[0], settings.lam, mean.index[-1])]
        told = [
            f"λ = {lam:g}: {mean[lam]:+.2f} steps, the optimum {best.get(lam, np.nan):+.2f}, with the corrected rule "
            f"{corrected.get(lam, np.nan):+.2f}"
            for lam in shown
        ]
        told.append(f"trained agents at λ = {settings.lam:g}: {trained}")
        detail = f"within one step for {within.sum()} of {len(within)} λ; " + "; ".join(told)
        return Finding(verdict, float(mean.get(settings.lam, np.nan)), None, detail)

    return test


def like_exact_agents(settings: MVT, tables: Tables) -> Finding:
    """Tests that trained agents' leaving times differ by less than half a step from those with the exact Φ."""
    _require(settings, 0.99)
    exact = by_lam(tables, EXACT, 0.99)
    require_data(settings.lam in exact.index, "No stay of the exact agent was ended within an episode.")
    learned = _learned(settings, tables, 0.99)
    return matches(bootstrap(learned - exact[settings.lam]), 0.0, 0.5, f"exact {exact[settings.lam]:+.2f} steps")


def corrected_is_nearer(settings: MVT, tables: Tables) -> Finding:
    """Tests for every λ that agents and the optimum leave closer to the corrected rule than to the printed rule."""
    _require(settings, 0.99)
    gains = {
        agent: (by_lam(tables, agent, 0.99).abs() - by_lam(tables, agent, 0.99, "corrected").abs()).dropna()
        for agent in (EXACT, OPTIMUM)
    }
    require_data(all(len(gain) for gain in gains.values()), "No stay was ended within an episode.")
    lowest = min(gain.min() for gain in gains.values())
    told = "; ".join(f"{agent} nearer by {gain.min():.2f} to {gain.max():.2f} steps" for agent, gain in gains.items())
    return Finding(lowest > 0, float(lowest), None, told)


def goes_to_the_best(settings: MVT, tables: Tables) -> Finding:
    """Tests that trained agents that can leave for one of two patches take the better one more often than chance."""
    _require(settings, 0.99)
    rows = tables["choices"]
    rows = rows[rows["discount"] == 0.99]
    require_data(len(rows) > 0, "No agent ever left for one of two patches of different worth.")
    share = rows.groupby("seed")["right"].mean()
    return exceeds(bootstrap(share), f"{rows['right'].sum()} of {len(rows)} choices are the optimum's", than=0.5)


def earned(settings: MVT, table: pd.DataFrame, discount: float) -> pd.Series:
    """Returns the mean discounted return of a table's episodes over distances, by seed if the table has seeds."""
    rows = table[(table["discount"] == discount) & (table["timing"] == settings.timings[0])]
    last = rows.assign(seed=rows.get("seed", 0)).groupby(["seed", "distance"])["earned"].last()
    return last.groupby("seed").mean()


def near_the_optimum(settings: MVT, tables: Tables) -> Finding:
    """Tests that agents with γ = 0.99 earn more than 95 % of the optimum."""
    _require(settings, 0.99)
    mine = earned(settings, tables["episodes"], 0.99)
    best = float(earned(settings, tables["best_episodes"], 0.99).iloc[0])
    require_data(best > 0, "The optimum earns nothing: raise agent.horizon.")
    return exceeds(bootstrap(mine / best), f"earns {mine.mean():.2f} of {best:.2f}", than=0.95)


EXPERIMENT = Experiment(
    name="mvt",
    title="Leaving patches: the marginal value theorem",
    source="section 6, appendix H.2, figure H.2",
    summary=(
        "On average over distances between rewards, λO-FB leaves patches when the marginal value theorem says so: the "
        "discounted theorem for γ = 0.99, and the ordinary one for γ = 1, where the λ operator is still finite. It "
        "also says where to go next, which the theorem does not."
    ),
    quick=MVT(seeds=3, lambdas=(0.1, 0.5), agent=training.quick(epochs=6)),
    paper=MVT(),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=(
        Claim(
            "like-discounted",
            "With γ = 0.99 agents leave within one step of the discounted theorem on average, whatever λ is.",
            like_the_theorem(0.99),
            kind="paper",
            place="appendix H.2, figure H.2",
        ),
        Claim(
            "like-undiscounted",
            "With γ = 1 agents leave within one step of the theorem on average, whatever λ is.",
            like_the_theorem(1.0),
            kind="paper",
            place="appendix H.2, figure H.2",
        ),
        Claim(
            "where-to-go",
            "Agents predict where to go too: of two patches they take the better one more often than by chance.",
            goes_to_the_best,
            kind="paper",
            place="section 6",
        ),
        Claim(
            "corrected-is-nearer",
            "Agents with the exact Φ and the optimum leave nearer to the corrected rule than to the printed one, "
            "whatever λ is.",
            corrected_is_nearer,
        ),
        Claim("trained-like-exact", "Trained agents leave when agents with the exact Φ do.", like_exact_agents),
        Claim("earns-discounted", "With γ = 0.99 agents earn at least 95 % of the optimum.", near_the_optimum),
    ),
    differences=(
        f"{training.SCHEDULE} The paper does not say which λ its patches have: agents are trained for ½, and agents "
        "with the exact Φ act under λ from 0.1 to 0.9, which needs no training. Episodes start anywhere in the "
        "corridor while data are collected, because random walks from one end hardly reach the other. The printed rule "
        "divides what is to come by the whole episode; the corrected one divides by the time that remains. The optimum "
        "itself leaves before the printed rule does, so the best agent does not follow it. With γ = 1 the exact Φ is "
        "the same for all states and actions, so what agents do there rests on errors of learning. Where to go is "
        "judged at the middle patch of the corridor."
    ),
    paper_cost=training.COST,
    double_precision=False,
)
