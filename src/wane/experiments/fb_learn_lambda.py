"""λO-FB that learns λ as it goes, beside one that keeps λ = 1, in FourRooms where λ = ½ is true.

λ is learned from the rewards of states that were stayed in. The same regression has a closed form; it is tried with
slips and with noisy readings of the rewards, where least squares is biased and other weights are not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wane.agents import forward_backward, goals, learn_lambda, zero_shot
from wane.depletion import Geometric
from wane.experiments import episodes, fb_training, plots
from wane.experiments.experiment import Claim, Experiment, Finding, Loop, seed_keys
from wane.experiments.fb_training import Training, frame
from wane.experiments.statistics import bootstrap, paired_difference
from wane.worlds.world import World

LEARNS, KEEPS = "learns λ", "keeps λ = 1"
ESTIMATORS = ("least squares", "ratio", "earlier")
SLIPS, NOISES = (0.0, 0.2), (0.0, 0.1)
"""probabilities of slipping, and standard deviations of the errors of reading rewards"""
TROUBLES = {"none": (0.0, 0.0), "20 % slip": (0.2, 0.0), "noisy rewards": (0.0, 0.1), "slip and noise": (0.2, 0.1)}


@dataclass(frozen=True)
class LearnLambda(Training):
    seeds: int = 6
    """independent repetitions, numbered from 0"""
    lam: float = 0.5
    """the true λ"""
    goals: int = 2
    """random unit rewards of an episode"""
    episodes: int = 10
    """test episodes of each run after each epoch"""
    last: int = 300
    """test episodes of each run at the end"""
    observed: int = 10_000
    """random episodes that the closed forms estimate λ from"""


def compute(settings: LearnLambda, seeds: Sequence[int], loop: Loop) -> pd.DataFrame:
    world = fb_training.rooms(settings, depletion=Geometric(settings.lam))

    def test(key, params, count):
        return goals.returns(key, world, zero_shot.trained(params), count, settings.goals).mean()

    def watch(key, state):
        return test(key, state.params, settings.episodes)

    keys, ones = seed_keys(seeds), jnp.ones(len(seeds))
    tables, epochs = [_estimates(settings, seeds)], range(1, settings.epochs + 1)
    for agent, learns in ((LEARNS, True), (KEEPS, False)):
        name = "learning λ" if learns else "keeping λ"
        states, info = fb_training.train(
            name, loop, settings, world, keys, ones, watch=watch, learn_lam=learns, goals=settings.goals
        )
        last = jax.jit(jax.vmap(lambda params: test(jax.random.key(1), params, settings.last)))(states.params)
        curves = frame(info.watched, "value", epoch=epochs, seed=seeds)
        curves["lam"] = np.ravel(info.lam)
        tables.append(curves.assign(panel="curve", agent=agent))
        tables.append(frame(last, "value", seed=seeds).assign(panel="end", agent=agent))
        if 0 in seeds:
            mine = jax.tree_util.tree_map(lambda leaf: leaf[list(seeds).index(0)], states.params)
            played = goals.rollout(jax.random.key(0), task(settings), zero_shot.trained(mine), start=0)
            tables.append(episodes.rows(task(settings), played, panel="shown", agent=agent, seed=0))
    return pd.concat(tables, ignore_index=True)


def _estimates(settings: LearnLambda, seeds: Sequence[int]) -> pd.DataFrame:
    """λ̂ in closed form from random episodes of every seed, under every trouble."""
    noises, tables = jnp.array(NOISES), []
    for slip in SLIPS:
        world = fb_training.rooms(settings, depletion=Geometric(settings.lam), slip=slip)

        def one(key, noise, world=world):
            config = settings.config(goals=settings.goals, noise=noise)
            seen = forward_backward.collect(key, _no_networks(world, config), world, config, settings.observed)
            flat = jax.tree_util.tree_map(jnp.ravel, seen)
            return jnp.stack([learn_lambda.estimate(flat, weights) for weights in ESTIMATORS])

        found = jax.jit(jax.vmap(jax.vmap(one, (None, 0)), (0, None)))(seed_keys(seeds), noises)
        table = frame(found, "lam", seed=seeds, noise=NOISES, estimator=ESTIMATORS)
        tables.append(table.assign(panel="estimate", slip=slip))
    return pd.concat(tables)


def _no_networks(world: World, config: Any) -> Any:
    """Uniform actions need none."""
    return forward_backward.init(jax.random.key(0), world, config).params


def task(settings: LearnLambda) -> World:
    """The task of the drawn episodes."""
    lam = Geometric(settings.lam)
    return fb_training.rooms(settings, depletion=lam, sites=[(3, 8), (8, 2)], rewards=[1.0, 1.0], discount=1.0)


def draw(settings: LearnLambda, table: pd.DataFrame) -> Figure:
    figure = plots.figure(11.0, 3.8)
    left, middle, right = figure.subplots(1, 3)
    curves = table[table["panel"] == "curve"]
    for agent, shade in ((LEARNS, plots.OTHERS[1]), (KEEPS, plots.OTHERS[3])):
        rows = curves[curves["agent"] == agent]
        plots.curve(left, rows, "epoch", "lam", agent, shade)
        plots.curve(middle, rows, "epoch", "value", agent, shade)
    left.axhline(settings.lam, color=plots.INK, ls="--", lw=1, label="true λ")
    left.set_ylim(0, 1.05)
    left.legend(frameon=False)
    plots.tidy(left, "λ while learning", "epoch", "λ")
    middle.legend(frameon=False, loc="lower right")
    plots.tidy(middle, "return while learning", "epoch", "reward in an episode")
    for i, estimator in enumerate(ESTIMATORS):
        found = [estimates(table, trouble, estimator) for trouble in TROUBLES]
        label = estimator + (" (the paper's)" if i == 0 else "")
        places, look = np.arange(len(TROUBLES)) + 0.2 * (i - 1), dict(fmt="os^"[i], ms=5, capsize=2, label=label)
        right.errorbar(places, [e.mean() for e in found], [e.std() for e in found], color=plots.OTHERS[i], **look)
    right.axhline(settings.lam, color=plots.INK, ls="--", lw=1)
    right.set_xticks(
        range(len(TROUBLES)), [name.replace(" s", "\ns").replace(" r", "\nr").replace(" a", "\na") for name in TROUBLES]
    )
    right.set_ylim(0, 0.75)
    right.legend(frameon=False, loc="center left", bbox_to_anchor=(0.0, 0.4), fontsize="small")
    plots.tidy(right, "λ in closed form, ± s.d.", "", "estimate")
    return figure


def films(settings: LearnLambda, table: pd.DataFrame) -> Mapping:
    shown = table[table["panel"] == "shown"]
    return {
        str(agent): episodes.film(task(settings), rows, f"λO-FB that {agent}, true λ = {settings.lam:g}")
        for agent, rows in shown.groupby("agent", sort=False)
    }


def finds_lambda(settings: LearnLambda, table: pd.DataFrame) -> Finding:
    curves = table[(table["panel"] == "curve") & (table["agent"] == LEARNS)]
    last = curves[curves["epoch"] == settings.epochs]["lam"]
    found = bootstrap(last)
    off = float(np.abs(last - settings.lam).max())
    return Finding(off < 0.02, found.value, (found.low, found.high), f"largest error of a seed {off:.4f}")


def learning_pays(settings: LearnLambda, table: pd.DataFrame) -> Finding:
    score = table[table["panel"] == "end"].pivot_table(index="seed", columns="agent", values="value")
    found = paired_difference(score[LEARNS], score[KEEPS])
    share = 100 * found.value / score[KEEPS].mean()
    detail = f"{score[LEARNS].mean():.3f} against {score[KEEPS].mean():.3f}: {share:+.1f} %; {len(score)} seeds"
    return Finding(found.low > 0, found.value, (found.low, found.high), detail)


def estimates(table: pd.DataFrame, trouble: str, estimator: str) -> pd.Series:
    slip, noise = TROUBLES[trouble]
    rows = table[(table["panel"] == "estimate") & (table["estimator"] == estimator)]
    return rows[(rows["slip"] == slip) & (rows["noise"] == noise)]["lam"]


def slip_is_harmless(settings: LearnLambda, table: pd.DataFrame) -> Finding:
    off = (estimates(table, "20 % slip", "least squares") - settings.lam).abs().max()
    return Finding(bool(off < 1e-3), off, None, f"largest error of the closed form {off:.1e}")


def noise_biases(settings: LearnLambda, table: pd.DataFrame) -> Finding:
    found = bootstrap(estimates(table, "noisy rewards", "least squares"))
    detail = "least squares, readings with an error of 0.1; without noise it is exact"
    return Finding(found.high > settings.lam > found.low, found.value, (found.low, found.high), detail)


def ratio_is_unbiased(settings: LearnLambda, table: pd.DataFrame) -> Finding:
    found = estimates(table, "noisy rewards", "ratio")
    mean = bootstrap(found)
    fine = mean.low <= settings.lam <= mean.high and found.std() < 0.25
    return Finding(fine, mean.value, (mean.low, mean.high), f"standard deviation between seeds {found.std():.3f}")


EXPERIMENT = Experiment(
    name="fb-learn-lambda",
    title="Learning λ",
    source="section 6, figure 6.1 (a, b)",
    says=(
        "An agent that learns λ beside the λ operator finds the correct value, and that increases its performance over "
        "an agent that keeps λ = 1. The regression provably recovers λ where enough states are stayed in."
    ),
    quick=LearnLambda(**fb_training.quick(seeds=2, observed=4000)),
    paper=LearnLambda(),
    compute=compute,
    draw=draw,
    films=films,
    claims=(
        Claim("finds-lambda", "The learned λ ends at the true one.", finds_lambda),
        Claim("learning-pays", "Learning λ earns more than keeping λ = 1.", learning_pays),
        Claim("slip", "Slips do not disturb the estimate.", slip_is_harmless),
        Claim("noise", "The paper's regression recovers λ from noisy rewards too.", noise_biases),
        Claim("ratio", "A ratio of sums recovers λ from noisy rewards.", ratio_is_unbiased),
    ),
    differs=f"{fb_training.SCHEDULE} λ is kept within [0, 1]. The closed forms, slip and noise are added.",
    cost=fb_training.COST,
    double=False,
)
