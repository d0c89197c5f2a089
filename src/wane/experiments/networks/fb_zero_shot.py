"""One model for every λ: conditioned on λ, or trained for λ = 1 and told what wears off (beyond the paper).

Both are compared with models that were trained for the very λ, on FourRooms with two random goals: in worlds where λ is
the same everywhere, and in a mixed world where some goals last and others are gone at the first visit. All agents look
up at every step what remains of the rewards.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.agents import forward_backward
from wane.agents.common.policy import Policy
from wane.agents.forward_backward import Config, Params, Tasks
from wane.agents.forward_backward.acting import conditioned_policy, equivalent_policy
from wane.depletion import Geometric
from wane.experiments.common import plots
from wane.experiments.common.checks import Lambdas
from wane.experiments.common.judging import exceeds
from wane.experiments.common.statistics import paired_difference
from wane.experiments.common.tables import frame
from wane.experiments.contract import Claim, Experiment, Finding, Loop, Tables, seed_keys
from wane.experiments.networks import training
from wane.experiments.networks.training import Training, label, require_data
from wane.settings import Count, Share
from wane.worlds.world import World

TRAINED, CONDITIONED, EQUIVALENT = "trained for it", "conditioned on λ", "λ = 1, equivalent rewards"
ALONE, PLAIN = "λ = 1, equivalent rewards alone", "λ = 1, as it is"
AGENTS = (TRAINED, CONDITIONED, EQUIVALENT, ALONE, PLAIN)
MIXED = "mixed"


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
    """λ of every state in every world. The mixed world is the last."""
    n = training.rooms(settings).n_states
    mixed = (np.random.default_rng(0).permutation(n) < settings.lasting * n).astype(float)
    return np.vstack([np.outer(settings.lambdas, np.ones(n)), mixed])


def seeded(settings: ZeroShot, seeds: Sequence[int], loop: Loop) -> Tables:
    """Trains a model for each world and one for all, for some seeds, and tests them in each world."""
    world, lams, config = training.rooms(settings), lams_of_worlds(settings), settings.agent
    keys, (own,) = training.pairs(seed_keys(seeds), lams)
    states, _ = training.train("a model for each λ", loop, world, config, keys, own)
    for_all = dataclasses.replace(config, lam=1.0, condition="per state")
    ones = jnp.ones((len(seeds), world.n_states))
    states_for_all, _ = training.train("one model for all λ", loop, world, for_all, seed_keys(seeds), ones)
    by_seed = jax.tree_util.tree_map(lambda leaf: leaf.reshape(len(seeds), -1, *leaf.shape[1:]), states.params)
    tasks = forward_backward.draw_tasks(jax.random.key(1), world, settings.episodes, settings.goals)
    test = jax.vmap(lambda trained, conditioned: _mean_returns(settings, lams, tasks, trained, conditioned))
    found = jax.jit(test)(by_seed, states_for_all.params)
    if 0 in seeds:
        place = list(seeds).index(0)
        names = [*(f"lam-{name}" for name in settings.names), "lam-mixed"]
        for i, (name, lam) in enumerate(zip(names, [*settings.lambdas, lams[-1]], strict=True)):
            training.keep(loop, name, world, dataclasses.replace(config, lam=lam), states, place * len(lams) + i)
        training.keep(loop, "conditioned", world, for_all, states_for_all, place)
    return {"returns": frame(found, "mean_return", seed=seeds, world=[*settings.names, MIXED], agent=AGENTS)}


def _mean_returns(
    settings: ZeroShot, lams: Float[np.ndarray, "worlds states"], tasks: Tasks, trained: Params, conditioned: Params
) -> Float[Array, "worlds agents"]:
    """Mean returns of one seed's models, all on the same tasks."""
    ordinary = jax.tree_util.tree_map(lambda leaf: leaf[len(settings.lambdas) - 1], trained)

    def test(lam: Float[Array, " states"], own: Params) -> Float[Array, " agents"]:
        world = _world(settings, lam)
        policies = _policies(world, settings.agent, lam, own, conditioned, ordinary)
        returns = [forward_backward.undiscounted_returns(world, policies[agent], tasks).mean() for agent in AGENTS]
        return jnp.stack(returns)

    return jax.lax.map(lambda pair: test(*pair), (jnp.asarray(lams), trained))


def _world(settings: ZeroShot, lam: Float[Array, " states"]) -> World:
    """FourRooms with a λ for each state."""
    n = len(lam)
    return training.rooms(settings, sites=np.arange(n), rewards=np.zeros(n), depletion=Geometric(lam))


def _policies(
    world: World,
    config: Config,
    lam: Float[Array, " states"],
    own: Params,
    conditioned: Params,
    ordinary: Params,
) -> dict[str, Policy]:
    """The agents that are compared where λ is true. `own` was trained for it, `ordinary` for λ = 1."""
    for_all = dataclasses.replace(config, condition="per state")
    return {
        TRAINED: forward_backward.policy(own, world),
        CONDITIONED: conditioned_policy(conditioned, world, for_all, lam),
        EQUIVALENT: equivalent_policy(ordinary, world, config, lam),
        ALONE: equivalent_policy(ordinary, world, config, lam, own=False),
        PLAIN: forward_backward.policy(ordinary, world),
    }


def draw(settings: ZeroShot, tables: Tables) -> Figure:
    """Returns relative to the model trained for each λ, and returns in the mixed world."""
    figure = plots.figure(11.0, 4.0)
    same_ax, mixed_ax = figure.subplots(1, 2, width_ratios=[1.6, 1])
    means = tables["returns"].groupby(["world", "agent"])["mean_return"].mean().unstack()
    _draw_same(same_ax, settings, means.loc[settings.names])
    shades = list(plots.OTHERS[1 : 1 + len(AGENTS)])
    labels = [agent.replace(", ", ",\n").replace(" rewards", "\nrewards").replace(" for", "\nfor") for agent in AGENTS]
    plots.bars(mixed_ax, labels, means.loc[MIXED, list(AGENTS)], None, shades)
    mixed_ax.tick_params(axis="x", labelsize="x-small")
    share = 100 * settings.lasting
    plots.tidy(mixed_ax, f"rewards last in {share:g} % of the states", "", "reward in an episode")
    return figure


def _draw_same(ax: Axes, settings: ZeroShot, means: pd.DataFrame) -> None:
    # Where the trained model earned nothing there is no share of it to draw.
    base = means[TRAINED].where(means[TRAINED] > 0)
    for agent, shade in zip(AGENTS, plots.OTHERS[1:], strict=False):
        ax.plot(settings.names, 100 * (means[agent] / base - 1), "o-", ms=4, color=shade, label=agent)
    ax.axhline(0, color=plots.INK, lw=0.8)
    ax.legend(frameon=False, fontsize="small")
    plots.tidy(ax, "the same λ everywhere", "λ", "difference from the model trained for it, %")


def scores(tables: Tables, world: str) -> pd.DataFrame:
    """Mean returns in a world: one row for each seed, one column for each agent."""
    returns = tables["returns"]
    return returns[returns["world"] == world].pivot_table(index="seed", columns="agent", values="mean_return")


def no_worse_than_trained(agent: str, share: float) -> Callable[[ZeroShot, Tables], Finding]:
    """Tests that an agent earns a share of what models trained for each λ earn, averaged over worlds with one λ."""

    def test(settings: ZeroShot, tables: Tables) -> Finding:
        require_data(len(settings.lambdas) > 1, "Models were trained for λ = 1 alone: add other values to lambdas.")
        score = {name: scores(tables, name) for name in settings.names}
        for name, each in score.items():
            require_data(each[TRAINED].mean() > 0, f"The model trained for λ = {name} earned nothing.")
        ratios = {name: each[agent] / each[TRAINED].mean() for name, each in score.items()}
        mean = np.mean(list(ratios.values()), 0)
        found = paired_difference(mean, np.zeros(len(mean)))
        detail = ", ".join(
            f"λ = {name}: {each[agent].mean() / each[TRAINED].mean():.3f}" for name, each in score.items()
        )
        return exceeds(found, detail, share)

    return test


def helps_where_mixed(agent: str) -> Callable[[ZeroShot, Tables], Finding]:
    """Tests that an agent earns more than the λ = 1 model as it is, where some rewards last and some do not."""

    def test(settings: ZeroShot, tables: Tables) -> Finding:
        require_data(0 < settings.lasting < 1, "No world is mixed: give a lasting between 0 and 1.")
        score = scores(tables, MIXED)
        found = paired_difference(score[agent], score[PLAIN])
        detail = ", ".join(f"{name}: {score[name].mean():.3f}" for name in AGENTS)
        return exceeds(found, detail)

    return test


EXPERIMENT = Experiment(
    name="fb-zero-shot",
    title="One model for every λ",
    source="beyond the paper",
    summary=(
        "The paper trains a λ operator for one λ, and lists as a limitation that it serves only tasks with that λ. We "
        "compare two ways around it with models that were trained for each λ."
    ),
    quick=ZeroShot(seeds=2, agent=training.quick(epochs=6), lambdas=(0.0, 0.5, 1.0)),
    paper=ZeroShot(),
    seeded=seeded,
    draw=draw,
    claims=(
        Claim(
            "conditioned",
            "A model conditioned on λ earns 98 % of what a model trained for the λ earns.",
            no_worse_than_trained(CONDITIONED, 0.98),
        ),
        Claim(
            "equivalent",
            "A model for λ = 1 with equivalent rewards earns 98 % of what a model trained for the λ earns.",
            no_worse_than_trained(EQUIVALENT, 0.98),
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
    differences=(
        "All of it is beyond the paper. A conditioned model costs one training run for all λ. Equivalent rewards cost "
        "no further training."
    ),
    paper_cost="none stated",
    double_precision=False,
)
