"""λO-FB on FourRooms: two random goals, a random start, and agents that are trained for λ = ½ or λ = 1.

Each agent is tested where λ = ½ is true and where λ = 1 is true. Training sees no rewards, so one training run serves
both worlds. The paper's statements are judged by the mean over all epochs of the curves that it draws; separate claims
judge the early epochs and the end.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.agents import forward_backward
from wane.agents.common.rollout import play
from wane.agents.common.training import watch_key
from wane.agents.forward_backward import Params, State, Tasks
from wane.depletion import Geometric
from wane.lab import Claim, Experiment, Finding, Loop, Tables, exceeds, plots, seed_keys
from wane.lab.statistics import bootstrap, paired_difference
from wane.lab.tables import frame, select
from wane_paper.common import episodes
from wane_paper.common.parts import entry
from wane_paper.common.settings import Lambdas
from wane_paper.networks import training
from wane_paper.networks.task_optima import MOST_GOALS, best_returns
from wane_paper.networks.training import RoomTasks, require_data
from wane_paper.texts import account, texts


@dataclass(frozen=True)
class LambdaTable(RoomTasks):
    """Settings of fb-lambda-table."""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = {"agent.lam": "agents"} | training.PLAIN_TRAINING

    agents: Lambdas = (0.5, 1.0)
    """λ that agents are trained for"""
    worlds: Lambdas = (0.5, 1.0)
    """true λ of the worlds that they are tested in"""

    def rules(self) -> None:
        """Raises SettingError if a setting lists two values that are written alike, or if Φ would be infinite."""
        super().rules()
        self.require_distinct("agents", "worlds")
        self.require_finite("agents", self.agents, [self.agent.discount])


def fixed(settings: LambdaTable) -> Tables:
    """Returns the optimum of each task of the final test, in each world, or nothing if there are too many goals."""
    if settings.goals > MOST_GOALS:
        return {}
    best, count = _optima(settings, settings.final_tasks), settings.final_episodes
    return {"optima": frame(best, "optimum", true_lam=settings.worlds, task=range(count))}


def _optima(settings: LambdaTable, tasks: Tasks) -> Float[np.ndarray, "worlds tasks"]:
    world = training.rooms(settings)
    return np.stack([best_returns(world, tasks.rewards, tasks.starts, lam) for lam in settings.worlds])


def curve_optima(settings: LambdaTable, seeds: Sequence[int]) -> pd.DataFrame:
    """Returns the mean optimum of the tasks on which each seed is tested after each epoch, in each world.

    All agents of one seed are tested on the same tasks, whatever λ they are trained for, because they share keys.
    """
    epochs = settings.agent.schedule.epochs

    def draw_again(key: jax.Array) -> Tasks:
        drawn = jax.vmap(lambda number: settings.tasks(watch_key(key, number), settings.episodes))(jnp.arange(epochs))
        return jax.tree_util.tree_map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), drawn)

    best = [_optima(settings, jax.jit(draw_again)(key)) for key in seed_keys(seeds)]
    means = np.reshape(best, (len(seeds), len(settings.worlds), epochs, settings.episodes)).mean(-1)
    return frame(means, "optimum", seed=seeds, true_lam=settings.worlds, epoch=range(1, epochs + 1))


def seeded(settings: LambdaTable, seeds: Sequence[int], loop: Loop) -> Tables:
    """Trains and tests the agents of some seeds."""
    world, tasks = training.rooms(settings), settings.final_tasks

    def test(params: Params, tasks: Tasks) -> Float[Array, " worlds"]:
        """Returns the mean return in each world. The tasks are the same whatever λ is true."""
        policy = forward_backward.policy(params, world)

        def mean_return(lam: Array) -> Float[Array, ""]:
            true_world = training.rooms(settings, depletion=Geometric(lam))
            return forward_backward.undiscounted_returns(true_world, policy, tasks).mean()

        return jax.vmap(mean_return)(jnp.asarray(settings.worlds))

    def watch(key: jax.Array, state: State) -> Float[Array, " worlds"]:
        return test(state.params, settings.tasks(key, settings.episodes))

    keys, (lams,) = training.pairs(seed_keys(seeds), settings.agents)
    states, info = training.train("training", loop, world, settings.agent, keys, lams, watch)
    ends = jax.jit(jax.vmap(lambda params: test(params, tasks)))(states.params)
    runs: dict[str, Any] = {"seed": seeds, "trained_lam": settings.agents}
    epochs = {"epoch": range(1, settings.agent.schedule.epochs + 1)}
    tables = {
        "curves": frame(info["watched"], "mean_return", **epochs, **runs, true_lam=settings.worlds),
        "errors": frame(np.median(info["misfit"]["rms"], -1), "error", **epochs, **runs),
        "ends": frame(ends, "mean_return", **runs, true_lam=settings.worlds),
    }
    if settings.goals <= MOST_GOALS:
        tables["curve_optima"] = curve_optima(settings, seeds)
    if 0 in seeds:
        tables["episodes"] = _show(settings, states, list(seeds).index(0), loop)
    return tables


def _show(settings: LambdaTable, states: State, place: int, loop: Loop) -> pd.DataFrame:
    """Keeps the agents of seed 0, and returns one episode of each. `place` is the place of seed 0 among the seeds."""
    world, task, tables = training.rooms(settings), settings.shown_task(min(settings.worlds)), []
    for i, lam in enumerate(settings.agents):
        run, config = place * len(settings.agents) + i, dataclasses.replace(settings.agent, lam=lam)
        training.keep(loop, f"lam-{lam:g}", world, config, states, run)
        policy = forward_backward.policy(entry(states.params, run), task)
        episode = play(jax.random.key(0), task, policy, start=0)[1]
        tables.append(episodes.rows(task, episode, seed=0, trained_lam=lam))
    return pd.concat(tables, ignore_index=True)


HIGHLY = 20
"""We call an agent highly suboptimal if it loses more than this, in percent."""
EARLY = 0.2
"""The share of the epochs that we call early."""


def draw(settings: LambdaTable, tables: Tables) -> Figure:
    """Draws learning curves, the lead of one λ̂, errors against the exact Φ, final returns by seed, two episodes."""
    figure = plots.figure(13.0, 6.6)
    rows = figure.add_gridspec(2, 1)
    upper, lower = rows[0].subgridspec(1, 4), rows[1].subgridspec(1, 3)
    for i, lam in enumerate(settings.worlds[:2]):
        _draw_curves(figure.add_subplot(upper[i]), settings, tables, lam)
    _draw_lead(figure.add_subplot(upper[2]), settings, tables)
    ax = figure.add_subplot(upper[3])
    for lam in settings.agents:
        errors = select(tables["errors"], trained_lam=lam)
        plots.curve(ax, errors, "epoch", "error", f"λ̂ = {lam:g}", plots.colour(lam))
    ax.set_yscale("log")
    plots.tidy(ax, "error of FᵀBμ", "epoch", "root mean square, relative to Φ")
    ax.legend(frameon=False)
    ax = figure.add_subplot(lower[0])
    lowest = min(settings.worlds)
    score = scores(tables, lowest)
    ax.plot([f"λ̂ = {lam:g}" for lam in score.columns], score.T, "o-", color=plots.GREY, ms=4, lw=0.8)
    ax.margins(x=0.3)
    plots.tidy(ax, f"true λ = {lowest:g}: each seed at the end", "", "reward in an episode")
    for i, lam in enumerate(settings.agents[:2]):
        shown = select(tables["episodes"], trained_lam=lam)
        title = f"λ̂ = {lam:g} earns {shown['earned'].iloc[-1]:.2f} (true λ = {lowest:g})"
        episodes.path(figure.add_subplot(lower[1 + i]), settings.shown_task(min(settings.worlds)), shown, title)
    return figure


def _draw_curves(ax: Axes, settings: LambdaTable, tables: Tables, true_lam: float) -> None:
    """Draws the return after each epoch, as the paper does, and the optimum of the same tasks."""
    curves = select(tables["curves"], true_lam=true_lam)
    for lam in settings.agents:
        rows = select(curves, trained_lam=lam)
        plots.curve(ax, rows, "epoch", "mean_return", f"λ̂ = {lam:g}", plots.colour(lam))
    if "curve_optima" in tables:
        best = select(tables["curve_optima"], true_lam=true_lam).groupby("epoch")["optimum"].mean()
        ax.plot(best.index, best, color=plots.INK, ls="--", lw=1, label="optimum, same tasks")
    ax.set_ylim(0)
    plots.tidy(ax, f"true λ = {true_lam:g}", "epoch", "reward in an episode")
    ax.legend(frameon=False, loc="lower right", fontsize="small")


def _draw_lead(ax: Axes, settings: LambdaTable, tables: Tables) -> None:
    """Draws by how much the lowest λ̂ leads the highest one, averaged over each tenth of the epochs."""
    low, high = min(settings.agents), max(settings.agents)
    width, known = max(settings.agent.schedule.epochs // 10, 1), "curve_optima" in tables
    for style, true_lam in zip(("-", "--"), settings.worlds, strict=False):
        by_epoch = by_agent(tables, true_lam)
        largest = by_epoch.to_numpy().max() or 1.0
        base = select(tables["curve_optima"], true_lam=true_lam)["optimum"].mean() if known else largest
        lead = (100 * (by_epoch[low] - by_epoch[high]) / base).rename("lead").reset_index()
        lead["middle"] = (lead["epoch"] - 1) // width * width + (width + 1) / 2
        binned = lead.groupby(["seed", "middle"], as_index=False)["lead"].mean()
        plots.curve(ax, binned, "middle", "lead", f"true λ = {true_lam:g}", plots.colour(true_lam), style)
    ax.axhline(0, color=plots.INK, lw=0.8)
    ax.legend(frameon=False)
    plots.tidy(
        ax, f"lead of λ̂ = {low:g} over λ̂ = {high:g}", "epoch", f"% of the {'optimum' if known else 'largest return'}"
    )


def films(settings: LambdaTable, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """Returns one film for each agent of seed 0."""
    lowest = min(settings.worlds)
    title = f"λO-FB trained for λ = {{:g}}, true λ = {lowest:g}"
    return episodes.films(settings.shown_task(lowest), tables["episodes"], "trained_lam", title, "λ̂ = {:g}")


def scores(tables: Tables, true_lam: float) -> pd.DataFrame:
    """Returns the mean returns at the end where a λ is true: one row for each seed, one column for each agent."""
    ends = select(tables["ends"], true_lam=true_lam)
    return ends.pivot_table(index="seed", columns="trained_lam", values="mean_return")


def by_agent(tables: Tables, true_lam: float) -> pd.DataFrame:
    """Returns mean returns in training where a λ is true: a row for each seed and epoch, a column for each agent."""
    curves = select(tables["curves"], true_lam=true_lam)
    return curves.pivot_table(index=["seed", "epoch"], columns="trained_lam", values="mean_return")


def curve_scores(tables: Tables, true_lam: float, until: float = np.inf) -> pd.DataFrame:
    """Returns the mean of the learning curves over epochs: one row for each seed, one column for each agent.

    Epochs after `until` do not count.
    """
    by_epoch = by_agent(tables, true_lam)
    return by_epoch[by_epoch.index.get_level_values("epoch") <= until].groupby("seed").mean()


def early_epochs(settings: LambdaTable) -> int:
    """Returns the number of epochs that we call early."""
    return max(round(EARLY * settings.agent.schedule.epochs), 1)


def _require(settings: LambdaTable, true_lam: float) -> None:
    """Raises NotTested unless agents for λ = ½ and for λ = 1 were tested where a λ is true."""
    for lam in (0.5, 1.0):
        require_data(lam in settings.agents, f"No agents were trained for λ = {lam:g}: add {lam:g} to agents.")
    require_data(
        true_lam in settings.worlds, f"No agents were tested where λ = {true_lam:g} is true: add it to worlds."
    )


def _compare(score: pd.DataFrame, ours: float, other: float, detail: str) -> Finding:
    """Tests that agents trained for one λ earn more than agents trained for another λ, paired by seed."""
    found, base = paired_difference(score[ours], score[other]), score[other].mean()
    percent = f": {100 * found.value / base:+.1f} %" if base else ""
    means = f"λ̂ = {ours:g} earns {score[ours].mean():.3f}, λ̂ = {other:g} {base:.3f}{percent}; {detail}"
    return exceeds(found, f"{means}; {len(score)} seeds")


def _optimum_in_words(tables: Tables, name: str, true_lam: float) -> str:
    """Describes the mean optimum of the tasks on which agents were tested."""
    if name not in tables:
        return "the optimum was not computed"
    return f"the optimum of the same tasks is {select(tables[name], true_lam=true_lam)['optimum'].mean():.3f}"


def correct_is_better(true_lam: float, other: float) -> Callable[[LambdaTable, Tables], Finding]:
    """Returns a test that agents trained for the true λ earn more, averaged over the curve that the paper draws."""

    def test(settings: LambdaTable, tables: Tables) -> Finding:
        _require(settings, true_lam)
        early = curve_scores(tables, true_lam, early_epochs(settings)).mean()
        detail = (
            f"mean over all epochs; {early[true_lam]:.3f} against {early[other]:.3f} in the first "
            f"{early_epochs(settings)}; {_optimum_in_words(tables, 'curve_optima', true_lam)}"
        )
        return _compare(curve_scores(tables, true_lam), true_lam, other, detail)

    return test


def ends_better(true_lam: float, other: float) -> Callable[[LambdaTable, Tables], Finding]:
    """Returns a test that agents trained for the true λ earn more at the end of training."""

    def test(settings: LambdaTable, tables: Tables) -> Finding:
        _require(settings, true_lam)
        detail = f"{_optimum_in_words(tables, 'optima', true_lam)}; {settings.final_episodes} episodes each"
        return _compare(scores(tables, true_lam), true_lam, other, detail)

    return test


def wrong_leads_early(settings: LambdaTable, tables: Tables) -> Finding:
    """Tests that agents trained for λ = ½ earn more in the first epochs even where λ = 1 is true."""
    _require(settings, 1.0)
    epochs = early_epochs(settings)
    return _compare(curve_scores(tables, 1.0, epochs), 0.5, 1.0, f"mean over the first {epochs} epochs")


def is_highly_suboptimal(settings: LambdaTable, tables: Tables) -> Finding:
    """Tests that agents trained for λ = 1 lose more than a fifth where λ = ½ is true, averaged over the curve."""
    _require(settings, 0.5)
    early = early_epochs(settings)
    spans = {"at the end": scores(tables, 0.5), f"in the first {early} epochs": curve_scores(tables, 0.5, early)}
    score = curve_scores(tables, 0.5)
    require_data(score[0.5].mean() > 0, "Agents trained for λ = 0.5 earned nothing, so there was nothing to lose.")
    lost = bootstrap(100 * (score[0.5] - score[1.0]) / score[0.5].mean())
    losses = [
        f"{name} {100 * (1 - each[1.0].mean() / each[0.5].mean()):.1f} %"
        for name, each in spans.items()
        if each[0.5].mean() > 0
    ]
    detail = f"{lost.value:.1f} % less than with the correct λ over all epochs, {', '.join(losses)}; called highly "
    return exceeds(lost, f"{detail}suboptimal here from {HIGHLY} % on", HIGHLY)


EXPERIMENT = Experiment(
    **texts("fb-lambda-table"),
    quick=LambdaTable(seeds=6, agent=training.quick(epochs=5)),
    paper=LambdaTable(seeds=12),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=(
        Claim(
            "correct-lambda-half",
            "Where λ = ½ is true, agents trained for λ = ½ earn more than agents trained for λ = 1.",
            correct_is_better(0.5, other=1.0),
            kind="paper",
            place="appendix H.1, figure H.1",
        ),
        Claim(
            "correct-lambda-one",
            "Where λ = 1 is true, agents trained for λ = 1 earn more than agents trained for λ = ½.",
            correct_is_better(1.0, other=0.5),
            kind="paper",
            place="appendix H.1, figure H.1",
        ),
        Claim(
            "highly-suboptimal",
            "To assume λ = 1 where λ = ½ is true is highly suboptimal.",
            is_highly_suboptimal,
            kind="paper",
            place="appendix H.1, figure H.1",
            account=account("fb-lambda-table", "highly-suboptimal"),
        ),
        Claim(
            "end-half",
            "Where λ = ½ is true, agents trained for λ = ½ earn more than agents trained for λ = 1 when training ends.",
            ends_better(0.5, other=1.0),
        ),
        Claim(
            "end-one",
            "Where λ = 1 is true, agents trained for λ = 1 earn more than agents trained for λ = ½ when training ends.",
            ends_better(1.0, other=0.5),
        ),
        Claim(
            "wrong-leads-early",
            "In the first fifth of training λ̂ = ½ earns more even where λ = 1 is true: it learns faster.",
            wrong_leads_early,
        ),
    ),
    double_precision=False,
)
