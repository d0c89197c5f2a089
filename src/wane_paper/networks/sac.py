"""Continuous control: one critic that adapts its own pessimism, compared with SAC with two critics and with one.

The kinds of agents are SAC with two critics ("SAC-2") and with one ("SAC-1"), one critic whose target has a fixed λ
("0-SAC", "0.5-SAC", "1-SAC"), and λ-SAC, whose λ a bandit draws for each episode ("lambda-SAC"; with the paper's
proposed feedback, "lambda-SAC-average"). They differ in numbers only, so all kinds and all seeds train in one program.
The agents of a seed begin with the same networks and in the same states of the task.

| table | kind | a row for each | columns |
| --- | --- | --- | --- |
| `flops` | fixed | task, agent | flops: FLOPs of one update |
| `curves` | seeded | task, step, seed, agent | greedy, training, value, correction, lam, … |
| `arms` | seeded | task, step, seed, agent with a bandit, lam | probability |
| `episodes` | seeded | task, agent, moment of an episode of seed 0 | time, earned, state0, … |

`greedy` is the return of evaluations with the mean action, `training` the return of the training episodes, both without
discounting. The other columns of `curves` are means over an epoch: the critic's value, the correction
(λ − 1) wᵀ(φ ⊙ φ_λ), λ, the policy's entropy, α, the losses of the critic and of the λF.

At the paper's scale, replay and simulators take several GB, so a checkpoint is written every five minutes; with
`--save-seconds 100000`, only when the run is interrupted. The tasks are learned one after the
other; `--tasks HalfCheetah-v5` learns one of them. To work in sittings of ten minutes, repeat

    timeout -s INT 540 wane run sac --scale paper --resume --save-seconds 100000

until it ends: the interrupt saves everything, and the next sitting continues from there, with the same numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from wane.agents.sac import Config
from wane.lab import Claim, Experiment, Finding, NotTested, Tables, judging, plots
from wane.lab.statistics import paired_difference
from wane.lab.tables import select
from wane.worlds.control import ControlTask
from wane_paper.networks.sac_learning import ADAPTIVE, AVERAGE, ONE, SIX, TWO, Control, fixed, seeded, updates_by
from wane_paper.texts import account, texts

COLOURS = {
    TWO: plots.INK,
    ONE: plots.GREY,
    "0-SAC": plots.colour(0.0),
    "0.5-SAC": plots.colour(0.5),
    "1-SAC": plots.colour(1.0),
    ADAPTIVE: "#56B4E9",
    AVERAGE: "#117733",
}


def draw(settings: Control, tables: Tables) -> Figure:
    """Draws for each task learning curves, the bandit's probabilities, return against FLOPs, and critics' values."""
    names = tasks_of(tables)
    figure = plots.figure(16.0, 3.6 * len(names))
    grid = figure.subplots(len(names), 4, squeeze=False)
    for row, task in zip(grid, names, strict=True):
        curves = select(tables["curves"], task=task)
        draw_returns(row[0], curves)
        seeds = curves["seed"].nunique()
        plots.tidy(row[0], f"{task} ({seeds} seeds, ± s.e.)", "step", "return, mean action")
        draw_arms(row[1], select(tables["arms"], task=task))
        _draw_costs(row[2], settings, tables, task)
        plots.plot_learning(curves.dropna(subset=["value"]), "step", "value", ax=row[3], colours=COLOURS)
        row[3].get_legend().remove()
        plots.tidy(row[3], "mean value of the first critic", "step", "Q")
        for ax in (row[0], row[1], row[3]):
            ax.xaxis.set_major_locator(MaxNLocator(5))
            ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    return figure


def draw_returns(ax: Axes, curves: pd.DataFrame) -> None:
    """Draws learning curves. SAC with one critic is dashed, because 1-SAC learns the same values and lies under it."""
    plots.plot_learning(curves, "step", "greedy", interval="error", ax=ax, colours=COLOURS)
    for line in ax.lines:
        if line.get_label() == ONE:
            line.set(linestyle=(0, (3, 3)), zorder=10)
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.25 * (high - low))  # The legend needs room above the curves.
    ax.legend(frameon=False, fontsize="x-small", ncols=3, loc="upper left")


def draw_arms(ax: Axes, arms: pd.DataFrame) -> None:
    """Draws the probabilities of the arms. Dashed lines belong to the bandit with the other feedback."""
    for (agent, lam), rows in arms.groupby(["agent", "lam"], sort=False):
        style = "-" if agent == ADAPTIVE else "--"
        label = f"λ = {lam:g}" if agent == ADAPTIVE else ""
        plots.curve(ax, rows, "step", "probability", label, plots.colour(lam), style)
    ax.set_ylim(0, 1)
    if len(arms):
        ax.legend(frameon=False, fontsize="x-small")
    plots.tidy(ax, "the bandit's arms", "step", "probability")


def _draw_costs(ax: Axes, settings: Control, tables: Tables, task: str) -> None:
    curves, flops = select(tables["curves"], task=task), select(tables["flops"], task=task).set_index("agent")["flops"]
    costs = curves.assign(
        cost=updates_by(curves["step"], settings.agent) * curves["agent"].map(flops).to_numpy(float) / 1e12
    )
    shown = costs[costs["agent"].isin([TWO, ONE, ADAPTIVE])]
    plots.plot_learning(shown, "cost", "greedy", interval="error", ax=ax, colours=COLOURS)
    ax.legend(frameon=False, fontsize="x-small")
    plots.tidy(ax, "cost of learning, counted by the compiler", "TFLOPs of updates", "return, mean action")


def films(settings: Any, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """Returns films of an episode of SAC with two critics, and of λ-SAC, in every task that can be drawn."""
    episodes, found = tables.get("episodes", pd.DataFrame()), {}
    for task in tasks_of(tables):
        for agent in (TWO, ADAPTIVE):
            rows = select(episodes, task=task, agent=agent) if len(episodes) else episodes
            if len(rows):
                found[f"{agent}, {task}"] = film(settings.places()[task], rows, f"{agent}, {task}")
    return found


def film(task: ControlTask, rows: pd.DataFrame, title: str) -> Callable[[Path], Any]:
    """Returns a function that writes the film of an episode in the table `episodes`."""
    states = rows[[name for name in rows if str(name).startswith("state")]].dropna(axis=1)
    paid = np.diff(rows["earned"])
    episode = SimpleNamespace(
        states=states.to_numpy(float), rewards=paid, live=np.ones(len(paid)), times=rows["time"].to_numpy()
    )
    return lambda path: task.film(episode, path, title)


Test = Callable[[Any, Tables], Finding]
LATE = 0.2
"""The share of training that counts as its end."""
MARGIN = 0.1
"""An agent matches another if it is not worse by more than this share of what the other has learned."""
PAPER_STEPS = 1_000_000
"""The number of steps of the paper's agents."""
REACHED = 0.8
"""The share of what SAC has learned at which the cost is compared."""
SMOOTH = 0.1
"""A return is reached if the mean over this share of all evaluations reaches it, so that one lucky episode does not."""


def late(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows of the last fifth of training, of a table of one task."""
    return rows[rows["step"] > (1 - LATE) * rows["step"].max()]


def at_the_end(tables: Tables, task: str) -> pd.DataFrame:
    """Returns mean returns of evaluations in the last fifth of training: a row for each seed, a column per agent."""
    return late(select(tables["curves"], task=task)).pivot_table(index="seed", columns="agent", values="greedy")


def at_the_beginning(tables: Tables, task: str) -> float:
    """Returns the mean return of the first evaluation, over all agents and seeds."""
    curves = select(tables["curves"], task=task)
    return float(curves[curves["step"] == curves["step"].min()]["greedy"].mean())


def need(tables: Tables, task: str, *agents: str) -> pd.DataFrame:
    """Returns the scores at the end. Raises NotTested if the task or an agent was not run."""
    if task not in set(tables["curves"]["task"]):
        raise NotTested(f"{task} was not learned: add it to tasks.")
    scores = at_the_end(tables, task)
    for agent in agents:
        if agent not in scores:
            raise NotTested(f"There is no agent {agent}: add it to agents.")
    return scores


def gain_of(tables: Tables, task: str, agent: str) -> float:
    """Returns an agent's final return minus the mean first return of all. Raises NotTested if it is not positive."""
    gain = float(at_the_end(tables, task)[agent].mean() - at_the_beginning(tables, task))
    if gain <= 0:
        raise NotTested(f"{agent} learned nothing in {task}, so there is nothing to compare with: train for longer.")
    return gain


def tasks_of(tables: Tables) -> list[str]:
    """Returns the tasks that were learned."""
    return [str(name) for name in tables["curves"]["task"].unique()]


def means_of(scores: pd.DataFrame) -> str:
    """Describes the mean score of every agent."""
    means = {agent: float(scores[agent].mean()) for agent in scores}
    return ", ".join(f"{agent} {mean:,.0f}" if mean >= 1000 else f"{agent} {mean:.4g}" for agent, mean in means.items())


def worst(findings: Sequence[Finding]) -> Finding:
    """Returns the finding of the task in which a claim does worst, with the details of all tasks."""
    rank = {False: 0, None: 1, True: 2}
    least = min(findings, key=lambda finding: (rank[finding.holds], finding.estimate))
    return least._replace(detail=" | ".join(finding.detail for finding in findings))


def earns_more(task: str, ours: str, theirs: str) -> Test:
    """Returns a test that one kind of agent earns more than another at the end, in one task."""

    def test(settings: Any, tables: Tables) -> Finding:
        scores = need(tables, task, ours, theirs)
        found = paired_difference(scores[ours], scores[theirs])
        return judging.exceeds(found, f"{task}: {means_of(scores[[ours, theirs]])}; {len(scores)} seeds")

    return test


def matches(task: str | None, ours: str, theirs: str) -> Test:
    """Returns a test that one kind of agent is worse than another by less than a tenth of what the other has learned.

    The estimate is the difference as a share of what the other has learned. Without a task, the worst task counts.
    """

    def one(tables: Tables, name: str) -> Finding:
        scores = need(tables, name, ours, theirs)
        gain = gain_of(tables, name, theirs)
        found = paired_difference(scores[ours] / gain, scores[theirs] / gain)
        detail = f"{name}: {means_of(scores[[ours, theirs]])}; {len(scores)} seeds"
        return judging.exceeds(found, detail, than=-MARGIN)

    def test(settings: Any, tables: Tables) -> Finding:
        return worst([one(tables, name) for name in ([task] if task else tasks_of(tables))])

    return test


def learns(settings: Any, tables: Tables) -> Finding:
    """Tests that in at least one task every kind of agent earns more at the end than at the beginning."""
    best = None
    for name in tasks_of(tables):
        scores, start = at_the_end(tables, name), at_the_beginning(tables, name)
        gains = {agent: paired_difference(scores[agent], np.full(len(scores), start)) for agent in scores}
        agent, least = min(gains.items(), key=lambda gain: gain[1].low / max(abs(start), 1e-9))
        detail = f"{name}: {start:.4g} at first; {means_of(scores)}; the least sure one is {agent}"
        finding = judging.exceeds(least, detail)
        best = finding if best is None or (finding.holds and not best.holds) else best
    assert best is not None
    return best


def chooses(task: str, lam: float, often: bool) -> Test:
    """Returns a test that an arm of λ-SAC ends with a probability above chance, or below it if not chosen often."""

    def test(settings: Any, tables: Tables) -> Finding:
        need(tables, task, ADAPTIVE)
        arms = late(select(tables["arms"], task=task, agent=ADAPTIVE))
        chances = arms.pivot_table(index="seed", columns="lam", values="probability")
        if lam not in chances:
            raise NotTested(f"There is no arm λ = {lam:g}: add it to agent.lambdas.")
        chance = np.full(len(chances), 1 / len(chances.columns))
        found = paired_difference(chances[lam], chance) if often else paired_difference(chance, chances[lam])
        shares = ", ".join(f"λ = {each:g}: {chances[each].mean():.2f}" for each in chances)
        return judging.exceeds(found, f"{task}: probabilities {shares}; {len(chances)} seeds")

    return test


def flops_to_reach(settings: Control, tables: Tables, task: str, agent: str, goal: float) -> pd.Series:
    """Returns FLOPs of learning until the running mean of evaluations reaches a return, by seed; NaN if it never does.

    The running mean is over the last tenth of all evaluations: five of them at the paper's scale.
    """
    curves = select(tables["curves"], task=task, agent=agent)
    cost = select(tables["flops"], task=task, agent=agent)["flops"].iloc[0]
    returns = curves.pivot_table(index="step", columns="seed", values="greedy")
    reached = returns.rolling(max(1, round(SMOOTH * len(returns)))).mean() >= goal
    steps = reached.idxmax().where(reached.any())
    return cost * pd.Series(updates_by(steps, settings.agent), index=steps.index)


def fewer_flops(settings: Control, tables: Tables, task: str = "Hopper-v5") -> Finding:
    """Tests that λ-SAC reaches 80 % of what SAC learns with fewer FLOPs, with every seed, in one task."""
    need(tables, task, ADAPTIVE, TWO)
    goal = at_the_beginning(tables, task) + REACHED * gain_of(tables, task, TWO)
    ours, theirs = (flops_to_reach(settings, tables, task, agent, goal) for agent in (ADAPTIVE, TWO))
    if theirs.isna().any():
        raise NotTested(f"Not every seed of {TWO} reached a return of {goal:.4g} in {task}: train for longer.")
    budget = select(tables["flops"], task=task, agent=ADAPTIVE)["flops"].iloc[0]
    # A seed that never reaches the return costs at least the whole of training.
    whole = budget * float(updates_by(steps_of(tables, task), settings.agent))
    found = paired_difference(theirs / theirs.mean(), ours.fillna(whole) / theirs.mean())
    missing = f", and never with {ours.isna().sum()} of {len(ours)} seeds of λ-SAC" if ours.isna().any() else ""
    spent = "" if ours.isna().all() else f"{ours.mean() / 1e12:.3g} against "
    detail = f"{task}: a return of {goal:,.4g} is reached after {spent}{theirs.mean() / 1e12:.3g} TFLOPs{missing}"
    finding = judging.exceeds(found, detail)
    return finding._replace(holds=False) if missing else finding


def steps_of(tables: Tables, task: str) -> int:
    """Returns the number of steps that agents took in a task."""
    return int(select(tables["curves"], task=task)["step"].max())


def at_full_length(task: str, test: Test) -> Test:
    """Returns the test restricted to tasks that were learned for as long as in the paper. Others raise NotTested."""

    def tested(settings: Any, tables: Tables) -> Finding:
        need(tables, task)
        if (steps := steps_of(tables, task)) < PAPER_STEPS:
            raise NotTested(
                f"Agents took {steps:,} steps in {task} and {PAPER_STEPS:,} in the paper: raise agent.epochs."
            )
        return test(settings, tables)

    return tested


APPENDIX: dict[str, Any] = {"kind": "paper", "place": "appendix on SAC"}
CHEETAH, HOPPER = "HalfCheetah-v5", "Hopper-v5"
MATCHES = "λ-SAC, with one critic, matches SAC with two critics"
PAPER: dict[str, tuple[str, str, Test]] = {
    "matches-halfcheetah": (CHEETAH, MATCHES, matches(CHEETAH, ADAPTIVE, TWO)),
    "one-critic": (CHEETAH, "SAC with one critic matches SAC with two", matches(CHEETAH, ONE, TWO)),
    "low-lambda-hurts": (
        CHEETAH,
        "a fixed λ of 0 earns less than a fixed λ of 1",
        earns_more(CHEETAH, "1-SAC", "0-SAC"),
    ),
    "finds-one": (CHEETAH, "the bandit learns to choose λ = 1", chooses(CHEETAH, 1.0, often=True)),
    "matches-hopper": (HOPPER, MATCHES, matches(HOPPER, ADAPTIVE, TWO)),
    "low-lambda-helps": (HOPPER, "a fixed λ of 0 earns more than a fixed λ of 1", earns_more(HOPPER, "0-SAC", "1-SAC")),
    "finds-lower": (HOPPER, "the bandit learns to choose values of λ below 1", chooses(HOPPER, 1.0, often=False)),
    "fewer-flops": (HOPPER, "λ-SAC reaches 80 % of what SAC learns with fewer FLOPs", fewer_flops),
}
"""What the paper states about the end of training: the task, the words and the test."""


def _paper_claim(name: str, task: str, words: str, test: Test) -> Claim:
    statement = f"On {task.removesuffix('-v5')}, {words}."
    return Claim(name, statement, at_full_length(task, test), account=account("sac", name), **APPENDIX)


CLAIMS = (
    *(_paper_claim(name, *stated) for name, stated in PAPER.items()),
    Claim("matches-so-far", f"At the end of this run, in every task: {MATCHES}.", matches(None, ADAPTIVE, TWO)),
    Claim("learns", "In one of the tasks, every kind of agent earns more at the end than at first.", learns),
)

EXPERIMENT = Experiment(
    **texts("sac"),
    quick=Control(seeds=5, tasks=("Pendulum-v1", "wane/PointMass-v0"), agents=(*SIX, "lambda-SAC-average")),
    paper=Control(seeds=8, agent=Config(steps=20_000, epochs=50, block=50)),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=CLAIMS,
    double_precision=False,
)
