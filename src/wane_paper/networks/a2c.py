"""TwoRooms: a recurrent actor–critic with a λF critic, for a right or wrong λ̂, and what each of its parts contributes.

Three rewards of 10, 5 and 5 wear off. The paper's agents, one for each λ̂, are compared with

- plain A2C, which has no λF;
- an agent that learns the λF as an additional task but has no correction in the target of its value, which separates
  the effect of the task from that of the target;
- agents without memory, and agents that are told what remains of the rewards: all other agents must remember which
  rewards they used up;
- agents whose λF is learned from multi-step returns;
- agents whose φ counts the state that a step enters, which is the state that pays.

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

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.lab import plots
from wane.lab.contract import Experiment, Tables
from wane.lab.statistics import mean_and_error
from wane.lab.tables import select
from wane_paper.common import beliefs, episodes
from wane_paper.networks.a2c_claims import CLAIMS, at_the_end
from wane_paper.networks.a2c_learning import (
    PLAIN,
    QUICK,
    TASK,
    ActorCritic,
    far_sighted,
    fixed,
    forgetful,
    on_arrival,
    seeded,
    told,
    variants,
)


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
    for i, name in enumerate((believing[0], told(beliefs.label(settings.lam)))):
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
        told(true_name): "#56B4E9",
        told(PLAIN): plots.INK,
        forgetful(true_name): "#117733",
        forgetful(PLAIN): "#C9B400",
        far_sighted(true_name): "#6A3D9A",
        far_sighted(forgetful(true_name)): "#B15928",
    }
    return believed | {on_arrival(name): shade for name, shade in believed.items()} | others


def _draw_curves(ax: Axes, tables: Tables, names: Sequence[str], shades: Mapping[str, str], title: str) -> None:
    curves = tables["curves"]
    plots.plot_learning(curves[curves["agent"].isin(names)], y="sampled", interval="error", ax=ax, colours=shades)
    if "optimum" in tables:
        ax.axhline(tables["optimum"]["value"].iloc[0], color=plots.INK, ls="--", lw=1, label="optimum")
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
    shown = [*map(beliefs.label, settings.lambdas), PLAIN, told(beliefs.label(settings.lam))]
    return {
        name: episodes.film(
            settings.world, select(tables["episodes"], agent=name), f"A2C, {name}, true λ = {settings.lam:g}"
        )
        for name in shown
    }


EXPERIMENT = Experiment(
    name="a2c",
    title="Learning a policy in TwoRooms with a recurrent network",
    source="section 5.2, figure 5.2 (right)",
    summary=(
        "The paper gives A2C a λF critic, whose head shares an LSTM with the policy and the value, and a value target "
        "that is the λF's definition times the reward. It states that correct value targets, those of the true λ, lead "
        "to improved performance."
    ),
    quick=ActorCritic(seeds=8, size=7, horizon=50, agent=QUICK),
    paper=ActorCritic(),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=CLAIMS,
    differences=(
        "The paper's w is read as what remains of the rewards in s_t, so that r_t = wᵀφ(s_t) where rewards are paid on "
        "departure; TwoRooms pays on arrival, and the correction is then made one step late, as in the paper. Further "
        "agents make it in time. "
        "Sequences have 32 steps throughout and go over the ends of episodes, with the memory emptied there; the "
        "library that the paper builds on cuts them at the ends. The mean of the λF's squared error is taken over "
        "steps and features. We train sixteen seeds instead of three, and add plain A2C, the λF without the "
        "correction, agents without memory, agents that are told what remains, and multi-step λF returns. The quick "
        "scale has TwoRooms with 7 × 7 cells and episodes of 50 steps, an LSTM of 32 units and four environments. "
        "The learned λF is compared with the exact one of the policy that the network has when its memory is frozen "
        "at zero, over the states that are visited; that policy is the agent's own only if it has no memory."
    ),
    paper_cost="about 30 minutes for one run on a GTX 1080",
    double_precision=False,
)
