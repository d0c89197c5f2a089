"""TwoRooms: a recurrent actor–critic with a λF critic, for a right or wrong λ̂, and what each of its parts contributes.

Three rewards of 10, 5 and 5 wear off. The paper's agents, one for each λ̂, are compared with plain A2C; with an agent
that learns the λF as an additional task but has no correction in the target of its value; with agents without memory,
and agents that are told what remains of the rewards (all others must remember which they used up); with agents whose λF
is learned from multi-step returns; and with agents whose φ counts the state that a step enters, the state that pays.

Agents differ in numbers only, so all agents and all seeds train in one program. The agents of a seed begin with the
same network.

| table | kind | a row for each | columns |
| --- | --- | --- | --- |
| `optimum` | fixed | (one row) | value |
| `curves` | seeded | epoch, seed, agent | episode, training, greedy, sampled |
| `errors` | seeded | epoch, seed, agent with a λF | episode, error |
| `episodes` | seeded | agent, moment of an episode of seed 0 | agent, time, cell, reward, earned, remaining0, … |

`training` is the mean return of the training episodes; `greedy` and `sampled` are returns of separate evaluation
episodes. `error` is the error of the learned φ_λ (`wane.agents.a2c.probing`).
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.lab import Claim, Experiment, Finding, NotTested, Tables, exceeds, plots
from wane.lab.statistics import mean_and_error, paired_difference
from wane.lab.tables import select
from wane_paper.common import beliefs, episodes
from wane_paper.common.learning import draw_optimum
from wane_paper.networks.a2c_learning import (
    PLAIN,
    QUICK,
    TASK,
    ActorCritic,
    far_sighted,
    fixed,
    forgetful,
    informed,
    on_arrival,
    seeded,
    variants,
)
from wane_paper.texts import texts

Test = Callable[[ActorCritic, Tables], Finding]
LATE = 0.2
"""The share of the epochs that counts as the end of training."""


def at_the_end(tables: Tables, measure: str = "sampled") -> pd.DataFrame:
    """Returns mean returns of the evaluations in the last fifth of training."""
    curves = tables["curves"]
    late = curves["episode"] > (1 - LATE) * curves["episode"].max()
    return curves[late].pivot_table(index="seed", columns="agent", values=measure)


def beats(other: float) -> Test:
    """Returns a test that agents with the true λ earn more at the end than agents with another λ̂."""

    def test(settings: ActorCritic, tables: Tables) -> Finding:
        beliefs.need_another(settings.lambdas, settings.lam, other)
        scores = at_the_end(tables)
        found = paired_difference(scores[beliefs.label(settings.lam)], scores[beliefs.label(other)])
        means = beliefs.means({lam: scores[beliefs.label(lam)] for lam in settings.lambdas}, settings.lambdas, ".2f")
        return exceeds(found, f"{means}; {_circumstances(tables, scores)}")

    return test


def earns_more(ours: Callable[[ActorCritic], str], theirs: Callable[[ActorCritic], str]) -> Test:
    """Returns a test that one agent earns more at the end than another, when actions are drawn.

    The detail also gives the difference over all of training, and the difference of greedy actions at the end.
    """

    def test(settings: ActorCritic, tables: Tables) -> Finding:
        drawn, greedy = at_the_end(tables), at_the_end(tables, "greedy")
        average = tables["curves"].pivot_table(index="seed", columns="agent", values="sampled")
        one, other = ours(settings), theirs(settings)
        if one == other:
            raise NotTested(f"{one!r} would be compared with itself.")
        for name in (one, other):
            if name not in drawn:
                raise NotTested(f"There is no agent {name!r}: add its λ̂ to lambdas.")
        means = f"{drawn[one].mean():.2f} ({one}) against {drawn[other].mean():.2f} ({other})"
        differences = [paired_difference(scores[one], scores[other]) for scores in (average, greedy)]
        detail = f"{means}; over all of training the difference is {differences[0]}, of greedy actions {differences[1]}"
        detail += f"; {_circumstances(tables, drawn)}"
        return exceeds(paired_difference(drawn[one], drawn[other]), detail)

    return test


def _circumstances(tables: Tables, scores: pd.DataFrame) -> str:
    optimum = f"the optimum is {tables['optimum']['value'].iloc[0]:.3f}; " if "optimum" in tables else ""
    return f"{optimum}{len(scores)} seeds"


def true_lam(settings: ActorCritic) -> str:
    """Returns the name of the agent with the true λ."""
    return beliefs.label(settings.lam)


def draw(settings: ActorCritic, tables: Tables) -> Figure:
    """Draws learning curves of the paper's and of the other agents, final results, errors, and paths of two agents."""
    figure, shades = plots.figure(16.5, 8.0), colours(settings)
    grid = figure.add_gridspec(2, 4)
    # The agent with the true λ comes first, if there is one, so that its path is drawn.
    believing = [*map(beliefs.label, sorted(settings.lambdas, key=lambda lam: lam != settings.lam)), PLAIN]
    arriving = [on_arrival(beliefs.label(lam)) for lam in settings.lambdas]
    others = [name for name in variants(settings) if name not in believing + arriving]
    _draw_curves(figure.add_subplot(grid[0, 0]), tables, believing, shades, "actions drawn")
    _draw_curves(figure.add_subplot(grid[0, 1]), tables, arriving, shades, "correction in time")
    _draw_curves(figure.add_subplot(grid[0, 2]), tables, others, shades, "other agents")
    _draw_ends(figure.add_subplot(grid[:, 3]), tables, shades)
    errors = figure.add_subplot(grid[1, 0])
    for name, rows in tables["errors"].groupby("agent", sort=False):  # The legends above apply here too.
        style = "--" if name in arriving else "-"
        plots.curve(errors, rows, "episode", "error", str(name), shades[str(name)], style)
    plots.tidy(
        errors,
        "error of the learned φ_λ, memory frozen\n(dashed: correction in time)",
        "episode",
        "relative, root mean square",
    )
    for i, name in enumerate((believing[0], informed(beliefs.label(settings.lam)))):
        rows = select(tables["episodes"], agent=name)
        ax = figure.add_subplot(grid[1, 1 + i])
        episodes.path(ax, settings.world, rows, f"{name}: {rows['earned'].iloc[-1]:.2f}")
    return figure


def colours(settings: ActorCritic) -> dict[str, str]:
    """Returns the colour of every agent."""
    true_name, believed = (
        beliefs.label(settings.lam),
        {beliefs.label(lam): plots.colour(lam) for lam in settings.lambdas},
    )
    others = {
        TASK: "#44AA99",
        PLAIN: plots.GREY,
        informed(true_name): "#56B4E9",
        informed(PLAIN): plots.INK,
        forgetful(true_name): "#117733",
        forgetful(PLAIN): "#C9B400",
        far_sighted(true_name): "#6A3D9A",
        far_sighted(forgetful(true_name)): "#B15928",
    }
    return believed | {on_arrival(name): shade for name, shade in believed.items()} | others


def _draw_curves(ax: Axes, tables: Tables, names: Sequence[str], shades: Mapping[str, str], title: str) -> None:
    curves = tables["curves"]
    plots.plot_learning(curves[curves["agent"].isin(names)], y="sampled", interval="error", ax=ax, colours=shades)
    draw_optimum(ax, tables)
    ax.set_ylim(0, 1.3 * ax.get_ylim()[1])
    ax.legend(frameon=False, fontsize="x-small", ncols=2, loc="upper left")
    plots.tidy(ax, f"{title} ({curves['seed'].nunique()} seeds, ± s.e.)", "episode", "discounted return")


def _draw_ends(ax: Axes, tables: Tables, shades: Mapping[str, str]) -> None:
    names = list(tables["curves"]["agent"].unique())
    for measure, marker, shift in (("sampled", "o", 0.15), ("greedy", "D", -0.15)):
        scores = at_the_end(tables, measure)
        for i, name in enumerate(names):
            mean, error = mean_and_error(scores[name])
            inside = shades[name] if measure == "sampled" else "white"
            place = float(mean), i + shift
            ax.errorbar(*place, xerr=float(error), fmt=marker, capsize=3, color=shades[name], mfc=inside)
    ax.set_yticks(range(len(names)), [name.replace("memory, ", "memory,\n") for name in names], fontsize="x-small")
    ax.invert_yaxis()
    if "optimum" in tables:
        ax.axvline(tables["optimum"]["value"].iloc[0], color=plots.INK, ls="--", lw=1)
    plots.tidy(ax, "the end: drawn ●, greedy ◇", "discounted return ± s.e.", "")


def films(settings: ActorCritic, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """Returns films of the paper's agents, of plain A2C, and of an agent told what remains; actions are drawn."""
    names = [*map(beliefs.label, settings.lambdas), PLAIN, informed(beliefs.label(settings.lam))]
    shown = tables["episodes"][tables["episodes"]["agent"].isin(names)]
    return episodes.films(settings.world, shown, "agent", f"A2C, {{}}, true λ = {settings.lam:g}")


FALL = 0.5
"""The error of a learned λF falls if at most this share of it is left."""


def learns_the_features(settings: ActorCritic, tables: Tables) -> Finding:
    """Tests that the error of the λF halves from the first to the last epoch, in agents without memory."""
    if settings.agent.epochs < 2:
        raise NotTested("There was one epoch, so no error can fall: raise agent.epochs.")
    errors, name = tables["errors"], forgetful(true_lam(settings))
    by_epoch = errors[errors["agent"] == name].pivot_table(index="seed", columns="episode", values="error")
    early, late = by_epoch.iloc[:, 0], by_epoch.iloc[:, -1]
    ends = errors[errors["episode"] == errors["episode"].max()].groupby("agent", sort=False)["error"].mean()
    detail = f"{name}: {early.mean():.3f} → {late.mean():.3f}; at the end "
    detail += ", ".join(f"{agent}: {error:.3f}" for agent, error in ends.items())
    return exceeds(paired_difference(FALL * early, late), detail)


EXPERIMENT = Experiment(
    **texts("a2c"),
    quick=ActorCritic(seeds=8, size=7, horizon=50, agent=QUICK),
    paper=ActorCritic(),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=(
        Claim(
            "beats-lambda-1-end",
            "At the end of training, the true λ earns more than λ̂ = 1.",
            beats(1.0),
            kind="paper",
            place="section 5.2, figure 5.2",
        ),
        Claim(
            "beats-lambda-0-end",
            "At the end of training, the true λ earns more than λ̂ = 0.",
            beats(0.0),
            kind="paper",
            place="section 5.2, figure 5.2",
        ),
        Claim(
            "on-arrival-beats-lambda-1",
            "If the correction is made when rewards are paid, the true λ earns more at the end than λ̂ = 1.",
            earns_more(
                lambda settings: on_arrival(true_lam(settings)), lambda settings: on_arrival(beliefs.label(1.0))
            ),
        ),
        Claim(
            "target",
            "The correction in the value's target makes an agent that learns the λF earn more.",
            earns_more(true_lam, lambda settings: TASK),
        ),
        Claim(
            "told",
            "An agent that is told what remains of the rewards earns more than one that must remember it.",
            earns_more(lambda settings: informed(PLAIN), lambda settings: PLAIN),
        ),
        Claim(
            "remembers",
            "An agent with memory earns more than one without.",
            earns_more(lambda settings: PLAIN, lambda settings: forgetful(PLAIN)),
        ),
        Claim(
            "features",
            "Where memory plays no part, the error of the learned λF against the exact one falls by half or more.",
            learns_the_features,
        ),
    ),
    double_precision=False,
)
