"""Which λ̂ is best? Every tabular agent against the true optimum, for beliefs from 0 to 1 (beyond the paper).

In FourRooms three agents compose the four policies by GPI: as the paper does (Q counts the present state), as the world
pays (on arrival), and without looking up what remains. Policy iteration on Q_λ̂ is a fourth agent, whose last policy is
played. In TwoRooms the agent is Qλ-learning. The regret is how much more the optimum over (cell × visit counts) earns,
in per cent of the optimum.

| table | kind | a row for each | columns |
| --- | --- | --- | --- |
| `optimum` | fixed | world | world, value |
| `planned` | fixed | agent, λ̂ in FourRooms | agent, lam, value |
| `learned` | seeded | seed, λ̂ in TwoRooms | seed, lam, value |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import jax
import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.agents import gpi, policy_iteration, q_lambda
from wane.agents.common.rollout import play
from wane.agents.planner import plan
from wane.depletion import Geometric
from wane.experiments.common import beliefs, composing, learning, plots
from wane.experiments.common.judging import stays_below
from wane.experiments.common.statistics import paired_difference
from wane.experiments.common.tables import frame
from wane.experiments.contract import Claim, Experiment, Finding, Loop, NotTested, Seeded, Tables
from wane.settings import Count, Discount, Lambda, Range
from wane.worlds.world import World

PAPERS, ARRIVAL, FORGETFUL = "GPI (the paper's)", "GPI, on arrival", "GPI, nothing looked up"
ITERATED, LEARNED = "policy iteration", "Qλ-learning"
PLANNERS = (PAPERS, ARRIVAL, FORGETFUL, ITERATED)


@dataclass(frozen=True)
class Regret(Seeded):
    """Settings of the comparison."""

    seeds: Count = 16
    """runs of Qλ-learning"""
    planned: Annotated[int, Range(1, 1001)] = 21
    """beliefs λ̂ from 0 to 1 of the agents that plan"""
    learned: Annotated[int, Range(1, 1001)] = 11
    """beliefs λ̂ from 0 to 1 of the agents that learn"""
    lam: Lambda = 0.5
    """the true λ"""
    discount: Discount = 0.95
    """γ of TwoRooms; FourRooms has 0.97"""
    agent: q_lambda.Config = field(default_factory=q_lambda.Config)
    """the agents that learn"""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = {"agent.lam": "learned", "agent.discount": "discount"}

    def rules(self) -> None:
        """Raises SettingError if the agents that learn cannot be judged, or if the optimum cannot be computed."""
        super().rules()
        highest = learning.HIGHEST_LAM
        needed = f"at most {highest}, or 1, is needed, because too many visits count in the optimum with another λ"
        self.require(learning.has_optimum(self.lam), "lam", needed)
        _ = self.learning

    @property
    def learning(self) -> learning.Learning:
        """The settings of the agents that learn."""
        lambdas = tuple(np.linspace(0, 1, self.learned).tolist())
        return learning.Learning(self.seeds, lambdas, self.lam, self.discount, self.agent)


def fixed(settings: Regret) -> Tables:
    """Returns what the optimum earns in both worlds, and what the agents that plan earn in FourRooms."""
    world, lams = composing.make_world(settings.lam), np.linspace(0, 1, settings.planned)
    best = {"FourRooms": plan(world).values.mean(), "TwoRooms": learning.optimal_return(settings.learning)}
    value = np.concatenate([_composed_values(world, lams), _iterated_values(world, lams)[None]])
    return {
        "optimum": frame(list(best.values()), "value", world=best),
        "planned": frame(value, "value", agent=PLANNERS, lam=lams),
    }


def _composed_values(world: World, lams: Float[np.ndarray, " beliefs"]) -> Float[np.ndarray, "agents beliefs"]:
    """Returns the mean returns over all starts of the three agents that compose policies."""
    paper, arrival = (
        np.stack([gpi.representations(world, depletion=Geometric(lam), timing=timing) for lam in lams])
        for timing in ("departure", "arrival")
    )
    value = jax.vmap(lambda phi, fresh: gpi.discounted_returns(jax.random.key(0), world, phi, refresh=fresh).mean())
    phis, fresh = np.concatenate([paper, arrival, paper]), np.repeat([True, True, False], len(lams))
    return np.asarray(jax.jit(value)(phis, fresh)).reshape(3, len(lams))


def _iterated_values(world: World, lams: Float[np.ndarray, " beliefs"]) -> Float[np.ndarray, " beliefs"]:
    """Returns the mean returns over all starts of the last policies of policy iteration."""
    key = jax.random.key(0)
    configs = [policy_iteration.Config(Geometric(lam), policy=world.policies[1]) for lam in lams]
    found = np.stack([policy_iteration.train(key, world, config)[0].policy for config in configs])

    def value(actions, start):
        policy = policy_iteration.policy(policy_iteration.State(actions), world, configs[0])
        return play(key, world, policy, start=start)[1].value

    starts = np.arange(world.n_states, dtype=np.int32)
    return np.asarray(jax.jit(jax.vmap(jax.vmap(value, (None, 0)), (0, None)))(found, starts).mean(1))


def seeded(settings: Regret, seeds: Sequence[int], loop: Loop) -> Tables:
    """Trains Qλ-learning in TwoRooms. Returns what it earns at the end."""
    task = settings.learning
    curves = learning.curves(task, seeds, learning.learn(task, seeds, loop))
    value = learning.results(task, curves)[[beliefs.label(lam) for lam in task.lambdas]]
    return {"learned": frame(value.loc[list(seeds)].to_numpy(), "value", seed=seeds, lam=task.lambdas)}


def regrets(tables: Tables) -> Tables:
    """Returns the tables `planned` and `learned` with a column `regret`, in per cent of the optimum of their world."""
    best = tables["optimum"].set_index("world")["value"]
    planned, learned = tables["planned"], tables["learned"]
    return {
        "planned": planned.assign(regret=100 * (1 - planned["value"] / best["FourRooms"])),
        "learned": learned.assign(regret=100 * (1 - learned["value"] / best["TwoRooms"])),
    }


def draw(settings: Regret, tables: Tables) -> Figure:
    """Draws the regret against the belief, for the agents that plan and for those that learn."""
    figure = plots.figure(10.0, 4.0)
    planning, learned = figure.subplots(1, 2, width_ratios=[1.2, 1])
    found = regrets(tables)
    _draw_planned(planning, found["planned"])
    plots.curve(learned, found["learned"], "lam", "regret", LEARNED, plots.OTHERS[1])
    learned.set_ylim(bottom=0)
    plots.tidy(learned, f"TwoRooms, {settings.seeds} seeds, ± s.e.", "believed λ̂", "regret, % of the optimum")
    for ax in (planning, learned):
        ax.axvline(settings.lam, color=plots.GREY, ls="--", lw=1)
    learned.annotate("true λ", (settings.lam, 0.9), (4, 0), ("data", "axes fraction"), textcoords="offset points")
    learned.legend(frameon=False)
    return figure


def _draw_planned(ax: Axes, planned: pd.DataFrame) -> None:
    for i, (agent, shade) in enumerate(zip(PLANNERS, plots.OTHERS[1:], strict=False)):
        rows = planned[planned["agent"] == agent]
        best = rows.iloc[int(np.argmin(rows["regret"]))]
        ax.plot(rows["lam"], rows["regret"], "o-", ms=3, color=shade, label=f"{agent}: ★ {best['lam']:.2f}")
        # Every second star is small, so that it does not hide the previous star in the same place.
        ax.plot(best["lam"], best["regret"], "*", ms=20 - 9 * (i % 2), color=shade, mec="white", mew=1, zorder=5)
    ax.set(yscale="log", ylim=(0.08, 100))
    ax.legend(frameon=False, fontsize="small", loc="lower left")
    plots.tidy(ax, "FourRooms, all starts (★: the best λ̂)", "believed λ̂", "regret, % of the optimum")


def no_learner_is_much_better_than_the_true_lambda(settings: Regret, tables: Tables) -> Finding:
    """Tests whether the regret of the true λ is less than 5 points above the least regret, paired by seed."""
    runs = regrets(tables)["learned"].pivot_table(index="seed", columns="lam", values="regret")
    truth, best = _truth_and_best(runs.mean(), settings.lam)
    found = paired_difference(runs[truth], runs[best])
    detail = (
        f"best λ̂ = {best:.2f} with {runs[best].mean():.2f} %, the true λ {runs[truth].mean():.2f} %: "
        f"difference {found.value:.2f} points"
    )
    return stays_below(found, 5.0, detail)


def _truth_and_best(regret: pd.Series, lam: float) -> tuple[float, float]:
    """Returns the true belief and the belief with the least regret. Raises NotTested if there is nothing to compare."""
    truth = beliefs.true_belief(regret.index.to_numpy(float), lam)
    if len(regret) == 1:
        raise NotTested(f"The only belief is λ̂ = {truth:g}.")
    return truth, float(regret.index[int(np.argmin(regret))])


def counting_on_arrival_helps(settings: Regret, tables: Tables) -> Finding:
    """Tests whether values that count rewards on arrival lower the mean regret of composing policies."""
    planned = regrets(tables)["planned"].set_index("agent")["regret"]
    paper, arrival = (planned[[agent]].to_numpy() for agent in (PAPERS, ARRIVAL))
    gain = paper - arrival
    detail = (
        f"regret {paper.mean():.2f} % against {arrival.mean():.2f} % on average, largest gain {gain.max():.2f} points"
    )
    return Finding(bool(gain.mean() > 0), gain.mean(), None, detail)


def nobody_beats_the_optimum(settings: Regret, tables: Tables) -> Finding:
    """Tests whether no agent has a negative regret."""
    found = regrets(tables)
    rows = pd.concat([found["planned"], found["learned"].assign(agent=LEARNED)], ignore_index=True)
    least = rows.iloc[int(np.argmin(rows["regret"]))]
    detail = f"smallest regret {least['regret']:.3f} %, of {least['agent']}"
    return Finding(bool(least["regret"] > -1e-9), least["regret"], None, detail)


EXPERIMENT = Experiment(
    name="regret",
    title="Where is the best λ̂?",
    source="beyond the paper",
    summary=(
        "The paper compares λ̂ = 0, ½ and 1 and finds that the correct ½ is best. This experiment compares every agent "
        "with the true optimum, over the whole range of beliefs."
    ),
    quick=Regret(),
    paper=Regret(seeds=64, planned=101, learned=21),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    claims=(
        Claim(
            "learning-near-truth",
            "Among agents that learn, no belief has a regret of more than 5 points below that of the true λ.",
            no_learner_is_much_better_than_the_true_lambda,
        ),
        Claim(
            "arrival-helps",
            "Values that count rewards as the world pays them lower the regret.",
            counting_on_arrival_helps,
        ),
        Claim("optimum-is-optimal", "No agent earns more than the optimum.", nobody_beats_the_optimum, kind="identity"),
    ),
    differences="The paper does not compute the optimum.",
    paper_cost="none stated",
)
