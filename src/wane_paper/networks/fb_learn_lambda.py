"""λO-FB that learns λ while it trains, compared with λO-FB that keeps λ = 1, in FourRooms where λ = ½ is true.

λ is learned from the rewards of states in which the agent stayed. The same regression has a closed form, which is also
tried with slips and with noisy readings of the rewards. Noise biases least squares; other weights have no such bias.
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
from wane.agents.forward_backward import Params, State, Tasks
from wane.agents.forward_backward.training import collect
from wane.depletion import Geometric
from wane.lab import Claim, Experiment, Finding, Loop, Tables, exceeds, matches, plots, seed_keys
from wane.lab.statistics import bootstrap, paired_difference
from wane.lab.tables import frame, select
from wane.settings import Count, Lambda
from wane.worlds.world import World
from wane_paper.common import episodes
from wane_paper.common.parts import entry, join_tables
from wane_paper.networks import training
from wane_paper.networks.training import RoomTasks, require_data
from wane_paper.texts import texts

LEARNS, KEEPS = "learns λ", "keeps λ = 1"
START = 1.0
"""The λ that agents start from, as in the paper."""
ESTIMATORS = ("least squares", "ratio", "earlier")
SLIPS, NOISES = (0.0, 0.2), (0.0, 0.1)
"""Probabilities of slipping, and standard deviations of the errors with which rewards are read."""
TROUBLES = {"none": (0.0, 0.0), "20 % slip": (0.2, 0.0), "noisy rewards": (0.0, 0.1), "slip and noise": (0.2, 0.1)}
"""The probability of slipping and the standard deviation of the errors, by name."""
RECOVERED = 0.05
"""λ counts as recovered if its estimate is at most this far from the true λ."""


@dataclass(frozen=True)
class LearnLambda(RoomTasks):
    """Settings of fb-learn-lambda."""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = {
        "agent.lam": "lam, the true λ (agents start from 1)",
        "agent.learn_lam": "nothing (agents that learn λ and agents that keep it are both trained)",
        "agent.goals": "goals",
        "agent.condition": "the experiment to fb-zero-shot",
    }

    lam: Lambda = 0.5
    """the true λ"""
    observed_episodes: Count = 10_000
    """random episodes from which the closed forms estimate λ"""

    def rules(self) -> None:
        """Raises SettingError if Φ would be infinite."""
        super().rules()
        needed = "a discount below 1 is needed, because agents start from λ = 1, for which Φ is infinite without it"
        self.require(self.agent.discount < 1, "agent.discount", needed)


def make_world(settings: LearnLambda, **changes: Any) -> World:
    """Returns FourRooms with the true λ."""
    return training.rooms(settings, depletion=Geometric(settings.lam), **changes)


def seeded(settings: LearnLambda, seeds: Sequence[int], loop: Loop) -> Tables:
    """Trains and tests both kinds of agents for some seeds, and estimates λ in closed form."""
    parts = [_train_and_test(settings, seeds, loop, agent) for agent in (LEARNS, KEEPS)]
    return join_tables(parts) | {"estimates": closed_form_estimates(settings, seeds)}


def _train_and_test(settings: LearnLambda, seeds: Sequence[int], loop: Loop, agent: str) -> Tables:
    """Returns the tables of the agents that learn λ, or of the agents that keep it."""
    world, learns = make_world(settings), agent == LEARNS

    def test(params: Params, tasks: Tasks) -> Float[Array, ""]:
        policy = forward_backward.policy(params, world)
        return forward_backward.undiscounted_returns(world, policy, tasks).mean()

    def watch(key: jax.Array, state: State) -> Float[Array, ""]:
        return test(state.params, settings.tasks(key, settings.episodes))

    config = dataclasses.replace(settings.agent, lam=START, learn_lam=learns, goals=settings.goals)
    name, keys = "learning λ" if learns else "keeping λ", seed_keys(seeds)
    states, info = training.train(name, loop, world, config, keys, jnp.full(len(seeds), START), watch)
    ends = jax.jit(jax.vmap(lambda params: test(params, settings.final_tasks)))(states.params)
    curves = frame(info["watched"], "mean_return", epoch=range(1, config.schedule.epochs + 1), seed=seeds)
    tables = {
        "curves": curves.assign(lam=np.ravel(info["lam"]), agent=agent),
        "ends": frame(ends, "mean_return", seed=seeds).assign(agent=agent),
    }
    if 0 in seeds:
        run, task = list(seeds).index(0), settings.shown_task(settings.lam)
        training.keep(loop, "learns-lambda" if learns else "keeps-lambda", world, config, states, run)
        policy = forward_backward.policy(entry(states.params, run), task)
        episode = play(jax.random.key(0), task, policy, start=0)[1]
        tables["episodes"] = episodes.rows(task, episode, seed=0, agent=agent)
    return tables


def closed_form_estimates(settings: LearnLambda, seeds: Sequence[int]) -> pd.DataFrame:
    """Estimates λ in closed form from random episodes of every seed, with every kind of slips and noise."""
    tables = []
    for slip in SLIPS:
        world = make_world(settings, slip=slip)

        def estimates(key: jax.Array, world: World = world) -> Float[Array, "noises estimators"]:
            return jnp.stack([_estimates(key, world, settings, noise) for noise in NOISES])

        found = jax.jit(jax.vmap(estimates))(seed_keys(seeds))
        tables.append(frame(found, "lam", seed=seeds, noise=NOISES, estimator=ESTIMATORS).assign(slip=slip))
    return pd.concat(tables, ignore_index=True)


def _estimates(key: jax.Array, world: World, settings: LearnLambda, noise: float) -> Float[Array, " estimators"]:
    """Returns λ̂ of every estimator. All see the same random episodes, and the same errors times the noise."""
    config = dataclasses.replace(settings.agent, lam=1.0, goals=settings.goals, epsilon=1.0, noise=noise)
    # Uniform actions need no networks, but `collect` requires them as an argument.
    params = forward_backward.init(jax.random.key(0), world, config).params
    steps = collect(key, params, world, config, settings.observed_episodes)
    steps = jax.tree_util.tree_map(jnp.ravel, steps)
    return jnp.stack([forward_backward.estimate(steps, weights) for weights in ESTIMATORS])


def draw(settings: LearnLambda, tables: Tables) -> Figure:
    """Draws λ and the return after each epoch, and the closed-form estimates of λ."""
    figure = plots.figure(11.0, 3.8)
    lam_ax, return_ax, estimate_ax = figure.subplots(1, 3)
    for agent, shade in ((LEARNS, plots.OTHERS[1]), (KEEPS, plots.OTHERS[3])):
        rows = select(tables["curves"], agent=agent)
        plots.curve(lam_ax, with_start(rows), "epoch", "lam", agent, shade, ".-")
        plots.curve(return_ax, rows, "epoch", "mean_return", agent, shade)
    lam_ax.axhline(settings.lam, color=plots.INK, ls="--", lw=1, label="true λ")
    lam_ax.set_ylim(0, 1.05)
    # λ changes in the first epochs only. This axis shows the start at 0, and all later epochs.
    lam_ax.set_xscale("symlog", linthresh=1)
    lam_ax.set_xlim(left=-0.2)
    lam_ax.xaxis.set_major_formatter("{x:g}")
    lam_ax.legend(frameon=False)
    plots.tidy(lam_ax, "λ while learning", "epoch (0: before training)", "λ")
    return_ax.legend(frameon=False, loc="lower right")
    plots.tidy(return_ax, "return while learning", "epoch", "reward in an episode")
    _draw_estimates(estimate_ax, settings, tables)
    return figure


def with_start(curves: pd.DataFrame) -> pd.DataFrame:
    """Returns the curves with the λ before training added as epoch 0 of every seed."""
    before = pd.DataFrame({"seed": curves["seed"].unique(), "epoch": 0, "lam": START})
    return pd.concat([before, curves], ignore_index=True)


def _draw_estimates(ax: Axes, settings: LearnLambda, tables: Tables) -> None:
    for i, estimator in enumerate(ESTIMATORS):
        found = [estimates(tables, trouble, estimator) for trouble in TROUBLES]
        label = estimator + (" (the paper's)" if i == 0 else "")
        places = np.arange(len(TROUBLES)) + 0.2 * (i - 1)
        means, spreads = [each.mean() for each in found], [each.std() for each in found]
        ax.errorbar(places, means, spreads, fmt="os^"[i], ms=5, capsize=2, color=plots.OTHERS[i], label=label)
    ax.axhline(settings.lam, color=plots.INK, ls="--", lw=1)
    names = [name.replace(" s", "\ns").replace(" r", "\nr").replace(" a", "\na") for name in TROUBLES]
    ax.set_xticks(range(len(TROUBLES)), names)
    ax.set_ylim(0, max(0.75, 1.5 * settings.lam))
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(0.0, 0.4), fontsize="small")
    plots.tidy(ax, "λ in closed form, ± s.d.", "", "estimate")


def films(settings: LearnLambda, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """Returns one film for each kind of agent, of seed 0."""
    title = f"λO-FB that {{}}, true λ = {settings.lam:g}"
    return episodes.films(settings.shown_task(settings.lam), tables["episodes"], "agent", title)


def finds_lambda(settings: LearnLambda, tables: Tables) -> Finding:
    """Tests that the learned λ ends within 0.02 of the true λ."""
    last = select(tables["curves"], agent=LEARNS, epoch=settings.agent.schedule.epochs)["lam"]
    error = float(np.abs(last - settings.lam).max())
    return matches(bootstrap(last), settings.lam, 0.02, f"largest error of a seed {error:.4f}")


def learning_pays(settings: LearnLambda, tables: Tables) -> Finding:
    """Tests that agents that learn λ earn more than agents that keep λ = 1, paired by seed."""
    require_data(settings.lam < 1, "λ = 1 is true, so to keep it is right: give a lam below 1.")
    score = tables["ends"].pivot_table(index="seed", columns="agent", values="mean_return")
    found, base = paired_difference(score[LEARNS], score[KEEPS]), score[KEEPS].mean()
    percent = f": {100 * found.value / base:+.1f} %" if base else ""
    detail = f"{score[LEARNS].mean():.3f} against {base:.3f}{percent}; {len(score)} seeds"
    return exceeds(found, detail)


def estimates(tables: Tables, trouble: str, estimator: str) -> pd.Series:
    """Returns the closed-form estimates of λ under one kind of slips and noise, one for each seed."""
    slip, noise = TROUBLES[trouble]
    return select(tables["estimates"], estimator=estimator, slip=slip, noise=noise)["lam"]


def survives_noise(estimator: str) -> Callable[[LearnLambda, Tables], Finding]:
    """Returns a test that an estimate in closed form is the true λ, up to a margin, where rewards are noisy."""

    def test(settings: LearnLambda, tables: Tables) -> Finding:
        found = estimates(tables, "noisy rewards", estimator)
        missing = f"In {settings.observed_episodes} random episodes no agent stayed in a state that pays: raise "
        require_data(bool(np.isfinite(found).all()), f"{missing}observed_episodes.")
        spread = f"{np.std(found, ddof=1):.3f}" if len(found) > 1 else "unknown"
        detail = f"readings with an error of 0.1; standard deviation between seeds {spread}"
        return matches(bootstrap(found), settings.lam, RECOVERED, detail)

    return test


EXPERIMENT = Experiment(
    **texts("fb-learn-lambda"),
    quick=LearnLambda(seeds=2, agent=training.quick(epochs=8), observed_episodes=4000),
    paper=LearnLambda(seeds=6),
    seeded=seeded,
    draw=draw,
    films=films,
    claims=(
        Claim(
            "finds-lambda",
            "The learned λ ends at the true one.",
            finds_lambda,
            kind="paper",
            place="section 6, figure 6.1",
        ),
        Claim(
            "learning-pays",
            "Agents that learn λ earn more than agents that keep λ = 1.",
            learning_pays,
            kind="paper",
            place="section 6, figure 6.1",
        ),
        Claim("noise", "The paper's regression recovers λ from noisy rewards too.", survives_noise("least squares")),
        Claim("ratio", "A ratio of sums recovers λ from noisy rewards.", survives_noise("ratio")),
    ),
    double_precision=False,
)
