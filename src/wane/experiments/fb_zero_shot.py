"""One model for every λ: conditioned on λ, or trained with λ = 1 and told what wears off; beyond the paper.

Both are compared with models that were trained for the very λ, on FourRooms with two random goals, where λ is the same
everywhere, and where some goals last and others wear off quickly. What is left is looked up at every step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wane.agents import goals, zero_shot
from wane.agents.fb_model import Params
from wane.depletion import Geometric
from wane.experiments import fb_training, plots
from wane.experiments.experiment import Claim, Experiment, Finding, Loop, seed_keys
from wane.experiments.fb_training import Training, frame
from wane.experiments.statistics import paired_difference

TRAINED, CONDITIONED, EQUIVALENT = "trained for it", "conditioned on λ", "λ = 1, equivalent rewards"
PLAIN, ALONE = "λ = 1, as it is", "λ = 1, equivalent rewards alone"
AGENTS = (TRAINED, CONDITIONED, EQUIVALENT, ALONE, PLAIN)
MIXED = "mixed"


@dataclass(frozen=True)
class ZeroShot(Training):
    lambdas: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    """λ of worlds where it is the same everywhere; the last must be 1"""
    lasting: float = 0.5
    """share of states whose reward lasts in the mixed world; elsewhere it is gone at the first visit"""
    goals: int = 2
    """random unit rewards of an episode"""
    episodes: int = 500
    """test episodes of each run in each world"""

    def __post_init__(self):
        super().__post_init__()
        if self.lambdas[-1] != 1:
            raise ValueError(f"lambdas must end with 1, the model that knows nothing of λ, got {self.lambdas}")


def worlds(settings: ZeroShot) -> np.ndarray:
    """λ of every state in every world, (worlds, states); the mixed one is the last."""
    n = fb_training.rooms(settings).n_states
    mixed = (np.random.default_rng(0).permutation(n) < settings.lasting * n).astype(float)
    return np.vstack([np.outer(settings.lambdas, np.ones(n)), mixed])


def compute(settings: ZeroShot, seeds: Sequence[int], loop: Loop) -> pd.DataFrame:
    room, lams = fb_training.rooms(settings), worlds(settings)
    keys, (own,) = fb_training.pairs(seed_keys(seeds), lams)
    states, _ = fb_training.train("a model for each λ", loop, settings, room, keys, own)
    trained = _by_seed(states.params, len(seeds))
    ones = jnp.ones((len(seeds), room.n_states))
    states, _ = fb_training.train(
        "one model for all λ", loop, settings, room, seed_keys(seeds), ones, condition="per state"
    )
    value = jax.jit(jax.vmap(lambda *models: _tests(settings, lams, *models)))(trained, states.params)
    names = [*(f"{lam:g}" for lam in settings.lambdas), MIXED]
    return frame(value, "value", seed=seeds, world=names, agent=AGENTS)


def _by_seed(params: Params, seeds: int) -> Params:
    return jax.tree_util.tree_map(lambda leaf: leaf.reshape(seeds, -1, *leaf.shape[1:]), params)


def _tests(settings: ZeroShot, lams: np.ndarray, trained: Params, conditioned: Params) -> jax.Array:
    """Mean returns (worlds, agents) of one seed's models, all on the same tasks."""
    config, one = settings.config(lam=1.0), len(settings.lambdas) - 1
    ordinary = jax.tree_util.tree_map(lambda leaf: leaf[one], trained)
    given = settings.config(condition="per state")

    def world(lam, mine):
        agents = (
            zero_shot.trained(mine),
            zero_shot.conditioned(conditioned, lam, given),
            zero_shot.equivalent(ordinary, lam, config),
            zero_shot.equivalent(ordinary, lam, config, own=False),
            zero_shot.trained(ordinary),
        )
        return jnp.stack([_mean_return(settings, lam, choose) for choose in agents])

    return jax.lax.map(lambda pair: world(*pair), (jnp.asarray(lams), trained))


def _mean_return(settings: ZeroShot, lam: Any, choose: Any) -> jax.Array:
    n = len(lam)
    room = fb_training.rooms(settings, sites=np.arange(n), rewards=np.zeros(n), depletion=Geometric(lam))
    return goals.returns(jax.random.key(1), room, choose, settings.episodes, settings.goals).mean()


def draw(settings: ZeroShot, table: pd.DataFrame) -> Figure:
    figure = plots.figure(11.0, 4.0)
    left, right = figure.subplots(1, 2, width_ratios=[1.6, 1])
    means = table.groupby(["world", "agent"])["value"].mean().unstack()
    best = means[TRAINED]
    names = [f"{lam:g}" for lam in settings.lambdas]
    for agent, shade in zip(AGENTS, plots.OTHERS[1:], strict=False):
        share = 100 * (means[agent] / best - 1)
        left.plot(names, share[names], "o-", ms=4, color=shade, label=agent)
    left.axhline(0, color=plots.INK, lw=0.8)
    left.legend(frameon=False, fontsize="small")
    plots.tidy(left, "the same λ everywhere", "λ", "return, % of the model trained for it")
    shades = list(plots.OTHERS[1 : 1 + len(AGENTS)])
    labels = [agent.replace(", ", ",\n").replace(" rewards", "\nrewards").replace(" for", "\nfor") for agent in AGENTS]
    plots.bars(right, labels, means.loc[MIXED, list(AGENTS)], None, shades)
    right.tick_params(axis="x", labelsize="x-small")
    plots.tidy(right, "half of the states last, half pay once", "", "reward in an episode")
    return figure


def scores(table: pd.DataFrame, world: str) -> pd.DataFrame:
    return table[table["world"] == world].pivot_table(index="seed", columns="agent", values="value")


def no_worse_than_trained(agent: str, share: float):
    """That an agent earns a share of what models trained for each λ earn, averaged over uniform worlds."""

    def test(settings: ZeroShot, table: pd.DataFrame) -> Finding:
        names = [f"{lam:g}" for lam in settings.lambdas]
        ratio = np.mean([scores(table, name)[agent] / scores(table, name)[TRAINED].mean() for name in names], 0)
        found = paired_difference(ratio, np.zeros(len(ratio)))
        each = [
            f"λ = {name}: {scores(table, name)[agent].mean() / scores(table, name)[TRAINED].mean():.3f}"
            for name in names
        ]
        return Finding(found.low > share, found.value, (found.low, found.high), ", ".join(each))

    return test


def helps_where_mixed(agent: str):
    """That an agent earns more than the λ = 1 model as it is, where some rewards last and some do not."""

    def test(settings: ZeroShot, table: pd.DataFrame) -> Finding:
        score = scores(table, MIXED)
        found = paired_difference(score[agent], score[PLAIN])
        detail = ", ".join(f"{name}: {score[name].mean():.3f}" for name in AGENTS)
        return Finding(found.low > 0, found.value, (found.low, found.high), detail)

    return test


EXPERIMENT = Experiment(
    name="fb-zero-shot",
    title="One model for every λ",
    source="beyond the paper",
    says=(
        "The paper trains a λ operator for one λ, and lists as a limitation that it serves only tasks with that λ. Two "
        "ways around it are compared with models trained for each λ."
    ),
    quick=ZeroShot(**fb_training.quick(seeds=2, lambdas=(0.0, 0.5, 1.0), epochs=6)),
    paper=ZeroShot(),
    compute=compute,
    draw=draw,
    claims=(
        Claim(
            "conditioned",
            "A model conditioned on λ earns 98 % of one trained for it.",
            no_worse_than_trained(CONDITIONED, 0.98),
        ),
        Claim(
            "equivalent",
            "A λ = 1 model with equivalent rewards earns 98 % of that.",
            no_worse_than_trained(EQUIVALENT, 0.98),
        ),
        Claim(
            "mixed-conditioned",
            "Where some rewards last, conditioning beats plain λ = 1.",
            helps_where_mixed(CONDITIONED),
        ),
        Claim(
            "mixed-equivalent",
            "Where some rewards last, equivalent rewards beat plain λ = 1.",
            helps_where_mixed(EQUIVALENT),
        ),
    ),
    differs="All of it. A conditioned model costs one training run for all λ, equivalent rewards cost none.",
    cost="none stated",
    double=False,
)
