"""One model for every λ: conditioned on λ, or trained for λ = 1 and told what wears off (beyond the paper).

Both are compared with models that were trained for the λ of the world, on FourRooms with two random goals: in worlds
where λ is the same everywhere, and in a mixed world where some goals last and others are gone at the first visit. All
agents look up at every step what remains of the rewards. The optimum of the same tasks and the plain model for λ = 1
are shown too.
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
from wane.agents.common.policy import Policy
from wane.agents.common.rollout import Episode, play
from wane.agents.forward_backward import Config, Params, Tasks
from wane.agents.forward_backward.acting import conditioned_policy, equivalent_policy
from wane.depletion import Geometric
from wane.lab import Claim, Experiment, Finding, Loop, Tables, exceeds, plots, seed_keys
from wane.lab.statistics import bootstrap, mean_and_error, paired_difference
from wane.lab.tables import frame, select
from wane.settings import Count, Share
from wane.worlds.world import World
from wane_paper.common import episodes
from wane_paper.common.parts import entry
from wane_paper.common.settings import Lambdas
from wane_paper.networks import training
from wane_paper.networks.task_optima import MOST_GOALS, best_returns
from wane_paper.networks.training import Training, label, require_data
from wane_paper.texts import texts

TRAINED, CONDITIONED, EQUIVALENT = "trained for it", "conditioned on λ", "λ = 1, equivalent rewards"
ALONE, PLAIN = "λ = 1, equivalent rewards alone", "λ = 1, as it is"
AGENTS = (TRAINED, CONDITIONED, EQUIVALENT, ALONE, PLAIN)
MIXED = "mixed"
SHADES = dict(zip(AGENTS, plots.OTHERS[1:], strict=False))


@dataclass(frozen=True)
class ZeroShot(Training):
    """Settings of fb-zero-shot."""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = training.PLAIN_TRAINING | {
        "agent.lam": "lambdas",
        "agent.condition": "nothing (models with and without λ as an input are both trained)",
    }

    lambdas: Lambdas = (0.0, 0.25, 0.5, 0.75, 1.0)
    """λ of worlds where it is the same everywhere; the last must be 1"""
    lasting: Share = 0.5
    """share of states whose reward lasts in the mixed world; elsewhere it is gone at the first visit"""
    goals: training.Goals = 2
    """random unit rewards of an episode"""
    episodes: Count = 500
    """test episodes of each run in each world"""

    def rules(self) -> None:
        """Raises SettingError unless the last λ is 1, all are different, and Φ is finite for them."""
        super().rules()
        needed = "a 1 is needed at the end, the λ of the model that knows nothing of λ"
        self.require(self.lambdas[-1] == 1, "lambdas", needed)
        self.require_distinct("lambdas")
        self.require_finite("lambdas", self.lambdas, [self.agent.discount])

    @property
    def names(self) -> list[str]:
        """The names of the worlds where λ is the same everywhere."""
        return [label(lam) for lam in self.lambdas]


def lams_of_worlds(settings: ZeroShot) -> Float[np.ndarray, "worlds states"]:
    """Returns λ of every state in every world. The mixed world is the last."""
    n = training.rooms(settings).n_states
    mixed = (np.random.default_rng(0).permutation(n) < settings.lasting * n).astype(float)
    return np.vstack([np.outer(settings.lambdas, np.ones(n)), mixed])


def tasks_of(settings: ZeroShot) -> Tasks:
    """Returns the tasks of the test. They are the same for all agents, seeds and worlds."""
    world = training.rooms(settings)
    return forward_backward.sample_tasks(jax.random.key(1), world, settings.episodes, settings.goals)


def fixed(settings: ZeroShot) -> Tables:
    """Returns the mean optimum of the tasks in each world, or nothing if there are too many goals to compute it."""
    if settings.goals > MOST_GOALS:
        return {}
    world, tasks = training.rooms(settings), tasks_of(settings)
    best = [best_returns(world, tasks.rewards, tasks.starts, lam).mean() for lam in lams_of_worlds(settings)]
    return {"optima": frame(best, "optimum", world=[*settings.names, MIXED])}


def seeded(settings: ZeroShot, seeds: Sequence[int], loop: Loop) -> Tables:
    """Trains a model for each world and one for all, for some seeds, and tests them in each world."""
    world, lams, config = training.rooms(settings), lams_of_worlds(settings), settings.agent
    keys, (own,) = training.pairs(seed_keys(seeds), lams)
    states, _ = training.train("a model for each λ", loop, world, config, keys, own)
    for_all = dataclasses.replace(config, lam=1.0, condition="per state")
    ones = jnp.ones((len(seeds), world.n_states))
    states_for_all, _ = training.train("one model for all λ", loop, world, for_all, seed_keys(seeds), ones)
    by_seed = jax.tree_util.tree_map(lambda leaf: leaf.reshape(len(seeds), -1, *leaf.shape[1:]), states.params)
    tasks = tasks_of(settings)
    test = jax.vmap(lambda trained, conditioned: _mean_returns(settings, lams, tasks, trained, conditioned))
    found = jax.jit(test)(by_seed, states_for_all.params)
    tables = {"returns": frame(found, "mean_return", seed=seeds, world=[*settings.names, MIXED], agent=AGENTS)}
    if 0 not in seeds:
        return tables
    place = list(seeds).index(0)
    names = [*(f"lam-{name}" for name in settings.names), "lam-mixed"]
    for i, (name, lam) in enumerate(zip(names, [*settings.lambdas, lams[-1]], strict=True)):
        training.keep(loop, name, world, dataclasses.replace(config, lam=lam), states, place * len(lams) + i)
    training.keep(loop, "conditioned", world, for_all, states_for_all, place)
    return tables | {"episodes": _show(settings, entry(by_seed, place), entry(states_for_all.params, place))}


def shown_task(settings: ZeroShot) -> World:
    """Returns the films' task: in the mixed world, one goal that is gone at the first visit and one that lasts."""
    lam = lams_of_worlds(settings)[-1]
    sites = np.argsort(lam, kind="stable")[[0, -1]]
    changes = dict(sites=sites, rewards=[1.0, 1.0], depletion=Geometric(lam[sites]), discount=1.0)
    return training.rooms(settings, **changes)


def _show(settings: ZeroShot, trained: Params, conditioned: Params) -> pd.DataFrame:
    """Plays one episode of every agent in the shown task, given the models of one seed."""
    task, lam = shown_task(settings), jnp.asarray(lams_of_worlds(settings)[-1])

    # All episodes are one program, because compiling takes most of the time.
    @jax.jit
    def play_all(trained: Params, conditioned: Params) -> dict[str, Episode]:
        policies = _policies(task, settings.agent, lam, entry(trained, -1), conditioned, entry(trained, -2))
        return {agent: play(jax.random.key(0), task, policies[agent], start=task.n_states // 2)[1] for agent in AGENTS}

    played = play_all(trained, conditioned)
    return pd.concat([episodes.rows(task, played[agent], seed=0, agent=agent) for agent in AGENTS], ignore_index=True)


def films(settings: ZeroShot, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """Returns one film for each agent of seed 0, if the run kept their episodes."""
    shown = tables.get("episodes", pd.DataFrame(columns=["agent"]))
    return episodes.films(shown_task(settings), shown, "agent", "λO-FB, {}: one goal lasts")


def _mean_returns(
    settings: ZeroShot, lams: Float[np.ndarray, "worlds states"], tasks: Tasks, trained: Params, conditioned: Params
) -> Float[Array, "worlds agents"]:
    """Returns the mean returns of one seed's models, all on the same tasks."""
    ordinary = entry(trained, len(settings.lambdas) - 1)

    def test(lam: Float[Array, " states"], own: Params) -> Float[Array, " agents"]:
        n, depletion = len(lam), Geometric(lam)
        world = training.rooms(settings, sites=np.arange(n), rewards=np.zeros(n), depletion=depletion)
        policies = _policies(world, settings.agent, lam, own, conditioned, ordinary)
        returns = [forward_backward.undiscounted_returns(world, policies[agent], tasks).mean() for agent in AGENTS]
        return jnp.stack(returns)

    return jax.lax.map(lambda pair: test(*pair), (jnp.asarray(lams), trained))


def _policies(
    world: World, config: Config, lam: Float[Array, " states"], own: Params, conditioned: Params, ordinary: Params
) -> dict[str, Policy]:
    """Returns the agents that are compared where `lam` is true. `own` was trained for it, `ordinary` for λ = 1."""
    for_all = dataclasses.replace(config, condition="per state")
    return {
        TRAINED: forward_backward.policy(own, world),
        CONDITIONED: conditioned_policy(conditioned, world, for_all, lam),
        EQUIVALENT: equivalent_policy(ordinary, world, config, lam),
        ALONE: equivalent_policy(ordinary, world, config, lam, own=False),
        PLAIN: forward_backward.policy(ordinary, world),
    }


def draw(settings: ZeroShot, tables: Tables) -> Figure:
    """Draws returns as shares of the optimum where λ is the same everywhere, and returns in the mixed world."""
    figure = plots.figure(11.0, 4.2)
    same_ax, mixed_ax = figure.subplots(1, 2, width_ratios=[1.4, 1])
    _draw_same(same_ax, settings, tables)
    score = scores(tables, MIXED)
    mean, error = mean_and_error(score[list(AGENTS)].to_numpy())
    labels = [agent.replace(", ", ",\n").replace(" rewards", "\nrewards").replace(" for", "\nfor") for agent in AGENTS]
    plots.bars(mixed_ax, [label.replace(" on", "\non") for label in labels], mean, error, list(SHADES.values()))
    mixed_ax.tick_params(axis="x", labelsize="x-small")
    best = optimum(tables, MIXED)
    if np.isfinite(best):
        mixed_ax.axhline(best, color=plots.INK, ls="--", lw=1)
        mixed_ax.annotate(f"optimum {best:.2f}", (1, best), (0, 3), textcoords="offset points", ha="center")
    title = f"rewards last in {100 * settings.lasting:g} % of the states; {len(score)} seeds"
    plots.tidy(mixed_ax, title, "", "reward in an episode")
    return figure


def _draw_same(ax: Axes, settings: ZeroShot, tables: Tables) -> None:
    """Draws shares of the optimum, or of the largest mean return where no optimum was computed."""
    worlds = [scores(tables, name)[list(AGENTS)] for name in settings.names]
    best = [optimum(tables, name) for name in settings.names]
    known = bool(np.isfinite(best).all())
    bases = best if known else [each.to_numpy().mean(0).max() or np.nan for each in worlds]
    places = np.arange(len(worlds))
    for i, agent in enumerate(AGENTS):
        found = [mean_and_error(100 * each[agent] / base) for each, base in zip(worlds, bases, strict=True)]
        mean, error = np.array(found, float).T
        shift = 0.06 * (i - len(AGENTS) / 2)
        ax.errorbar(places + shift, mean, error, fmt="o-", ms=4, capsize=2, color=SHADES[agent], label=agent)
    if known:
        ax.axhline(100, color=plots.INK, ls="--", lw=1, label="optimum")
    ax.set_xticks(places, settings.names)
    ax.legend(frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.14), ncol=3)
    share = "the optimum" if known else "the best agent"
    plots.tidy(ax, "the same λ everywhere, ± standard error", "λ", f"reward in an episode, % of {share}")


def scores(tables: Tables, world: str) -> pd.DataFrame:
    """Returns the mean returns in a world: one row for each seed, one column for each agent."""
    return select(tables["returns"], world=world).pivot_table(index="seed", columns="agent", values="mean_return")


def optimum(tables: Tables, world: str) -> float:
    """Returns the mean optimum of the tasks in a world, or NaN if it was not computed."""
    return float(select(tables["optima"], world=world)["optimum"].iloc[0]) if "optima" in tables else np.nan


def ratios(settings: ZeroShot, tables: Tables, agent: str, other: str) -> pd.DataFrame:
    """Returns an agent's returns as shares of another agent's: one row for each seed, one column for each λ.

    Where λ = 1, all models that were trained for λ = 1 are the same, so only the agent that is conditioned on λ is
    compared there. Raises NotTested if there is no λ to compare at, or if the other agent earned nothing.
    """
    names = [name for name in settings.names if name != label(1.0) or CONDITIONED in (agent, other)]
    require_data(bool(names), "Models were trained for λ = 1 alone: add other values to lambdas.")
    score = {name: scores(tables, name) for name in names}
    for name, each in score.items():
        require_data(bool((each[other] > 0).all()), f"A model earned nothing where λ = {name}: {other}.")
    return pd.DataFrame({name: each[agent] / each[other] for name, each in score.items()})


def earns_a_share(agent: str, other: str, share: float) -> Callable[[ZeroShot, Tables], Finding]:
    """Returns a test that an agent earns more than a share of another's return, paired by seed, averaged over λ."""

    def test(settings: ZeroShot, tables: Tables) -> Finding:
        found = ratios(settings, tables, agent, other)
        detail = ", ".join(f"λ = {name}: {each.mean():.3f}" for name, each in found.items())
        return exceeds(bootstrap(found.mean(axis=1)), f"{detail}; {len(found)} seeds", share)

    return test


def helps_where_mixed(agent: str) -> Callable[[ZeroShot, Tables], Finding]:
    """Returns a test that an agent earns more than the plain λ = 1 model in the mixed world."""

    def test(settings: ZeroShot, tables: Tables) -> Finding:
        require_data(0 < settings.lasting < 1, "No world is mixed: give a lasting between 0 and 1.")
        score, best = scores(tables, MIXED), optimum(tables, MIXED)
        found = paired_difference(score[agent], score[PLAIN])
        known = bool(best > 0)
        means = [
            f"{name}: {score[name].mean():.3f}" + (f" ({100 * score[name].mean() / best:.1f} %)" if known else "")
            for name in AGENTS
        ]
        detail = "; ".join(means) + (f"; the optimum is {best:.2f}" if known else "") + f"; {len(score)} seeds"
        return exceeds(found, detail)

    return test


EXPERIMENT = Experiment(
    **texts("fb-zero-shot"),
    quick=ZeroShot(seeds=2, agent=training.quick(epochs=6), lambdas=(0.0, 0.5, 1.0)),
    paper=ZeroShot(seeds=6),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=(
        Claim(
            "conditioned",
            "A model conditioned on λ earns at least 98 % of what a model trained for the λ earns.",
            earns_a_share(CONDITIONED, TRAINED, 0.98),
        ),
        Claim(
            "equivalent",
            "Where rewards wear off, a model for λ = 1 with equivalent rewards earns at least 98 % of what one "
            "trained for the λ earns.",
            earns_a_share(EQUIVALENT, TRAINED, 0.98),
        ),
        Claim(
            "mixed-conditioned",
            "Where only some rewards last, a model conditioned on λ earns more than a plain model for λ = 1.",
            helps_where_mixed(CONDITIONED),
        ),
        Claim(
            "mixed-equivalent",
            "Where only some rewards last, equivalent rewards make a model for λ = 1 earn more.",
            helps_where_mixed(EQUIVALENT),
        ),
    ),
    double_precision=False,
)
