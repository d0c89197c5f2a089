"""Where is the best λ̂? Every tabular agent against the true optimum, for beliefs from 0 to 1; beyond the paper.

FourRooms: composing the four policies by GPI, as the paper does (Q counts the present state), as the world pays (on
arrival), and without looking up what is left; and policy iteration on Q_λ̂, whose last policy is played for itself.
TwoRooms: Qλ-learning. The regret is what the optimum over (cell × visit counts) earns more, in per cent.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wane.agents import gpi, policy_iteration
from wane.depletion import Geometric
from wane.experiments import gpi_tabular, plots, q_lambda
from wane.experiments.experiment import Claim, Experiment, Finding, Loop, Seeded
from wane.experiments.statistics import paired_difference

PAPERS, ARRIVAL, FORGETFUL = "GPI (the paper's)", "GPI, on arrival", "GPI, nothing looked up"
ITERATED, LEARNED = "policy iteration", "Qλ-learning"
PLANNERS = (PAPERS, ARRIVAL, FORGETFUL, ITERATED)


@dataclass(frozen=True)
class Regret(Seeded):
    seeds: int = 16
    """runs of Qλ-learning"""
    planned: int = 21
    """beliefs λ̂ from 0 to 1 of those that plan"""
    learned: int = 11
    """beliefs λ̂ from 0 to 1 of those that learn"""
    lam: float = 0.5
    """the true λ"""
    episodes: int = 500
    """of Qλ-learning"""


def compute(settings: Regret, seeds: Sequence[int], loop: Loop) -> pd.DataFrame:
    beliefs = tuple(np.linspace(0, 1, settings.learned).tolist())
    learning = q_lambda.QLambda(
        seeds=settings.seeds, lambdas=beliefs, lam=settings.lam, episodes=settings.episodes, evaluate_every=20
    )
    table = q_lambda.compute(learning, seeds, loop)
    ends = q_lambda.ends(learning, table)[[q_lambda.name(lam) for lam in beliefs]]
    learned = ends.set_axis(list(beliefs), axis=1).melt(ignore_index=False, var_name="lam").reset_index()
    learned = learned.assign(agent=LEARNED, optimum=table["optimum"].iloc[0], lam=learned["lam"].astype(float))
    table = pd.concat([_planned(settings), learned], ignore_index=True)
    return table.assign(regret=100 * (1 - table["value"] / table["optimum"]))


def _planned(settings: Regret) -> pd.DataFrame:
    task = gpi_tabular.GPI(lam=settings.lam)
    world, lams = gpi_tabular.make_world(task), np.linspace(0, 1, settings.planned)
    paper, arrival = (
        np.stack([gpi.representations(world, depletion=Geometric(lam), timing=timing) for lam in lams])
        for timing in ("departure", "arrival")
    )
    policies = [
        policy_iteration.train(
            jax.random.key(0), world, policy_iteration.Config(Geometric(lam), policy=world.policies[1])
        )[0].policy
        for lam in lams
    ]
    chosen = np.eye(world.n_actions)[np.array(policies)][:, None, :, :, None] * np.ones(world.n_sites)
    phis = np.concatenate([paper, arrival, paper, np.broadcast_to(chosen, (len(lams), *paper.shape[1:]))])
    fresh = np.repeat([True, True, False, False], len(lams))
    play = jax.vmap(lambda phi, fresh: gpi.returns(jax.random.key(0), world, phi, refresh=fresh).mean())
    value = np.asarray(jax.jit(play)(phis, fresh))
    index = pd.MultiIndex.from_product([PLANNERS, lams], names=["agent", "lam"])
    best = gpi_tabular.best(task).mean()
    return pd.DataFrame({"value": value}, index=index).reset_index().assign(seed=-1, optimum=best)


def draw(settings: Regret, table: pd.DataFrame) -> Figure:
    figure = plots.figure(10.0, 4.0)
    planning, learning = figure.subplots(1, 2, width_ratios=[1.2, 1])
    for agent, shade in zip(PLANNERS, plots.OTHERS[1:], strict=False):
        rows = table[table["agent"] == agent]
        planning.plot(rows["lam"], rows["regret"], "o-", ms=3, color=shade, label=agent)
        best = rows.iloc[int(np.argmin(rows["regret"]))]
        planning.plot(best["lam"], best["regret"], "*", ms=13, color=shade, mec="white")
    planning.set(yscale="log", ylim=(0.2, 100))
    planning.legend(frameon=False, fontsize="small", loc="lower left")
    plots.tidy(planning, "FourRooms, all starts (★: best λ̂)", "believed λ̂", "regret, % of the optimum")
    plots.curve(learning, table[table["agent"] == LEARNED], "lam", "regret", LEARNED, plots.OTHERS[1])
    learning.set_ylim(bottom=0)
    plots.tidy(learning, f"TwoRooms, {settings.seeds} seeds, ± s.e.", "believed λ̂", "regret, % of the optimum")
    for ax in (planning, learning):
        ax.axvline(settings.lam, color=plots.GREY, ls="--", lw=1)
    learning.annotate("true λ", (settings.lam, 0.9), (4, 0), ("data", "axes fraction"), textcoords="offset points")
    learning.legend(frameon=False)
    return figure


def best_belief(table: pd.DataFrame, agent: str) -> pd.Series:
    means = table[table["agent"] == agent].groupby("lam")["regret"].mean()
    return means.reset_index().iloc[means.argmin()]


def close_to_the_truth(settings: Regret, table: pd.DataFrame) -> Finding:
    best = best_belief(table, PAPERS)
    rows = table[table["agent"] == PAPERS].set_index("lam")["regret"]
    at_truth = rows.iloc[int(np.abs(rows.index.to_numpy(float) - settings.lam).argmin())]
    detail = f"best λ̂ = {best['lam']:.2f} with regret {best['regret']:.2f} %; the true λ {at_truth:.2f} %"
    return Finding(bool(abs(best["lam"] - settings.lam) < 1e-9), best["lam"], None, detail)


def arrival_is_no_worse(settings: Regret, table: pd.DataFrame) -> Finding:
    paper, arrival = (table[table["agent"] == agent]["regret"].to_numpy() for agent in (PAPERS, ARRIVAL))
    gain = paper - arrival
    detail = (
        f"regret {paper.mean():.2f} % against {arrival.mean():.2f} % on average, largest gain {gain.max():.2f} points"
    )
    return Finding(bool(gain.mean() > 0), gain.mean(), None, detail)


def nobody_beats_the_optimum(settings: Regret, table: pd.DataFrame) -> Finding:
    low, who = table["regret"].min(), table["agent"].iloc[int(np.argmin(table["regret"]))]
    return Finding(bool(low > -1e-9), low, None, f"smallest regret {low:.3f} %, of {who}")


def learning_is_best_at_the_truth(settings: Regret, table: pd.DataFrame) -> Finding:
    best = best_belief(table, LEARNED)
    runs = table[table["agent"] == LEARNED].pivot_table(index="seed", columns="lam", values="regret")
    beliefs = runs.columns.to_numpy(float)
    truth = beliefs[np.abs(beliefs - settings.lam).argmin()]
    found = paired_difference(runs[truth], runs[best["lam"]])
    detail = (
        f"best λ̂ = {best['lam']:.2f} with {best['regret']:.2f} %, the true λ {runs[truth].mean():.2f} %: "
        f"difference {found.value:.2f} points"
    )
    return Finding(found.high < 5, found.value, (found.low, found.high), detail)


EXPERIMENT = Experiment(
    name="regret",
    title="Where is the best λ̂?",
    source="beyond the paper",
    says=(
        "The paper compares λ̂ = 0, ½ and 1 and finds the correct ½ best. Here every agent is compared with the true "
        "optimum, over the whole range of beliefs."
    ),
    quick=Regret(),
    paper=Regret(seeds=64, planned=101, learned=21),
    compute=compute,
    draw=draw,
    claims=(
        Claim("gpi-best-at-truth", "Composing policies, no belief earns more than the true λ.", close_to_the_truth),
        Claim(
            "learning-near-truth",
            "Learning, no belief has a regret over 5 points below that of the true λ.",
            learning_is_best_at_the_truth,
        ),
        Claim(
            "arrival-helps", "Values that count rewards as the world pays them lower the regret.", arrival_is_no_worse
        ),
        Claim("optimum-is-optimal", "No agent earns more than the optimum.", nobody_beats_the_optimum),
    ),
    differs="The paper does not compute the optimum.",
    cost="none stated",
)
