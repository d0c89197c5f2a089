"""TD on features in the 6 × 6 grid: the third panel of the paper's figure of policy evaluation.

The agent learns the λF of base features along episodes. The features are one-hot states, as the paper's text says, or
learned Laplacian features, as its appendix says. The error is that of `policy-evaluation`. What TD converges to is
known for both, because the exact λF of any features is (`wane.lambda_features`).

| table | kind | a row for each | columns |
| --- | --- | --- | --- |
| `learning` | seeded | base features, seed, λ̂, tenth episode | features, seed, lam, episode, error |
| `limits` | seeded | base features, seed, λ̂ | features, seed, lam, error, distance |

`limits` has the error of the exact λF of the seed's base features, and the mean squared distance between the learned
and the exact wᵀφ_λ.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wane.agents import Trained, lambda_features, laplacian
from wane.agents.common.views import Sight
from wane.agents.lambda_features import Config, Params, State
from wane.agents.lambda_features.config import Features
from wane.depletion import Geometric
from wane.exact.features import lambda_features as exact_lambda_features
from wane.experiments.common import beliefs, plots
from wane.experiments.common.checks import Lambdas
from wane.experiments.common.statistics import paired_difference
from wane.experiments.common.tables import frame, select
from wane.experiments.contract import Claim, Experiment, Finding, Loop, NotTested, Seeded, Tables, seed_keys
from wane.experiments.tabular.policy_evaluation import CHUNKS, RECORDED, QValues, exact_q, last_learning
from wane.settings import DISTINCT, Count, Lambda, Range
from wane.types import Integer
from wane.worlds.catalog import grid_6x6
from wane.worlds.world import World

PAPER = Config(
    base=laplacian.Config(
        sight=Sight("index"), features=16, hidden=(16,), learning_rate=3e-4, epochs=300, walk="uniform"
    ),
    hidden=(16, 16),
    method="online",
)
"""The paper's networks: two layers with 16 units for the base features, three layers with 16 units each for the λF."""


@dataclass(frozen=True)
class GridFeatures(Seeded):
    """Settings of TD on features."""

    lambdas: Lambdas = (0.0, 0.5, 1.0)
    """the agents' λ̂; the paper has ½ and 1"""
    lam: Lambda = 0.5
    """the true λ"""
    discount: Annotated[float, Range(0, 1, "a discount", below=True)] = 0.9
    """γ"""
    horizon: Count = 10
    """steps of an episode"""
    agent: Config = PAPER
    """the agents"""
    kinds: Annotated[tuple[Features, ...], DISTINCT] = ("one-hot", "laplacian")
    """their base features"""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = {
        "agent.lam": "lambdas",
        "agent.discount": "discount",
        "agent.features": "kinds",
    }

    def rules(self) -> None:
        """Raises SettingError if there are too few episodes, or if the agents do not learn online from states."""
        super().rules()
        least = CHUNKS * RECORDED
        needed = f"at least {least} is needed, because every tenth error of the last tenth of them is judged"
        self.require(self.agent.episodes >= least, "agent.episodes", needed)
        self.require(self.agent.method == "online", "agent.method", "online is needed: that is TD")
        picture = self.agent.base.sight.is_picture
        self.require(not picture, "agent.base.sight.observation", "index is needed: TD sees one-hot states")

    @property
    def world(self) -> World:
        """The grid."""
        return grid_6x6(depletion=Geometric(self.lam), discount=self.discount, horizon=self.horizon)


def seeded(settings: GridFeatures, seeds: Sequence[int], loop: Loop) -> Tables:
    """TD on each kind of features."""
    found = [_learn(settings, kind, seeds, loop) for kind in settings.kinds]
    return {name: pd.concat([each[name] for each in found]) for name in found[0]}


def _learn(settings: GridFeatures, kind: Features, seeds: Sequence[int], loop: Loop) -> Tables:
    """TD on one kind of features, all seeds and λ̂ in one program; keeps the agents of seed 0."""
    world, lams = settings.world, jnp.asarray(settings.lambdas)
    config, truth = dataclasses.replace(settings.agent, features=kind), exact_q(world, settings.lam)
    data = laplacian.collect_data(jax.random.key(0), world, config.base)
    keys, size = seed_keys(seeds), -(-config.episodes // CHUNKS)
    views = jnp.eye(world.n_states)

    def measure(params: Params, network: Any) -> Any:
        table = lambda_features.feature_table(network, views, world.n_actions)
        return ((table @ params.weights @ world.rewards - truth) ** 2).mean()

    @jax.jit
    def step(states: State, chunk: Integer) -> tuple[State, Any]:
        def one(key: Any, lam: Any, state: Any) -> tuple[Any, Any]:
            own = dataclasses.replace(config, lam=lam)
            state, info = lambda_features.train(key, world, own, state, chunk * size, size, data, measure)
            return state, info.measured[0]

        return jax.vmap(jax.vmap(one, (None, 0, 0)), (0, None, 0))(keys, lams, states)

    def prepare(key: jax.Array) -> State:
        state = lambda_features.prepare(key, world, config, data)[0]
        return jax.tree_util.tree_map(lambda leaf: jnp.repeat(leaf[None], len(lams), 0), state)

    work = size * settings.horizon * len(seeds) * len(lams)
    states, errors = loop(f"TD on {kind} features", step, jax.jit(jax.vmap(prepare))(keys), CHUNKS, work)
    errors = np.moveaxis(errors, 0, 2).reshape(len(seeds), len(lams), -1)[..., : config.episodes]
    table = frame(errors, "error", seed=seeds, lam=settings.lambdas, episode=range(1, config.episodes + 1))
    limits = [_limits(settings, _one(states.params, i), truth).assign(seed=seed) for i, seed in enumerate(seeds)]
    for i, lam in enumerate(settings.lambdas) if 0 in seeds else ():
        own = dataclasses.replace(config, lam=lam, episodes=size * CHUNKS)
        params = _one(states.params, list(seeds).index(0), i)
        loop.keep(f"{kind}-lam-{lam:g}", Trained("lambda_features", world, own, params))
    tables = {"learning": table[table["episode"] % RECORDED == 0], "limits": pd.concat(limits)}
    return {name: each.assign(features=kind) for name, each in tables.items()}


def _one(tree: Any, *index: int) -> Any:
    """One run out of many that are stacked along the first axes."""
    return jax.tree_util.tree_map(lambda leaf: leaf[index], tree)


def _limits(settings: GridFeatures, params: Params, truth: QValues) -> pd.DataFrame:
    """The error of the exact λF of one seed's base features, and how far the learned one is from it, by λ̂."""
    world, rows = settings.world, []
    kernel, views = world.mdp.under(world.policies[0]), jnp.eye(world.n_states)
    for i, lam in enumerate(settings.lambdas):
        own = _one(params, i)
        phi = np.asarray(laplacian.base_features(own.base, views), float)
        weights = np.asarray(own.weights @ world.rewards, float)
        exact = exact_lambda_features(kernel, phi, lam, discount=world.discount).q_values(world.mdp, weights)
        table = lambda_features.feature_table(_one(own.networks, 0), views, world.n_actions)
        learned = np.asarray(table @ weights)
        squares = ((exact - truth) ** 2).mean(), ((exact - learned) ** 2).mean()
        rows.append({"lam": lam, "error": squares[0], "distance": squares[1]})
    return pd.DataFrame(rows)


def draw(settings: GridFeatures, tables: Tables) -> Figure:
    """The errors of each kind of features, with the exact limits."""
    figure = plots.figure(4.2 * len(settings.kinds), 3.6)
    names = {lam: beliefs.label(lam) + (" (true)" if lam == settings.lam else "") for lam in settings.lambdas}
    colours = {names[lam]: plots.colour(lam) for lam in settings.lambdas}
    axes = figure.subplots(1, len(settings.kinds), squeeze=False)[0]
    for ax, kind in zip(axes, settings.kinds, strict=True):
        rows = select(tables["learning"], features=kind)
        named = rows.assign(agent=rows["lam"].map(names))
        plots.plot_learning(named, y="error", interval="error", ax=ax, colours=colours)
        limits = select(tables["limits"], features=kind).groupby("lam")["error"].mean()
        for lam in settings.lambdas:
            ax.axhline(limits[lam], color=plots.colour(lam), ls=":", lw=1)
        plots.tidy(ax, f"TD on {kind} features", "episode", "mean squared error of Q")
    return figure


def learning_is_best_with_the_true_lambda(kind: Features) -> Callable[[GridFeatures, Tables], Finding]:
    """A test that TD on features ends with a smaller error for the true λ than for the best wrong one."""

    def test(settings: GridFeatures, tables: Tables) -> Finding:
        _need(settings, kind)
        rows = {"learning": select(tables["learning"], features=kind)}
        return _true_lambda_is_best(settings, last_learning(rows))

    return test


def the_limit_is_best_with_the_true_lambda(settings: GridFeatures, tables: Tables) -> Finding:
    """Whether the exact λF of the learned base features has a smaller error for the true λ than for any wrong one."""
    _need(settings, "laplacian")
    rows = select(tables["limits"], features="laplacian")
    return _true_lambda_is_best(settings, rows.pivot_table("error", index="seed", columns="lam"))


def _need(settings: GridFeatures, kind: Features) -> None:
    if kind not in settings.kinds:
        raise NotTested(f"No agent has {kind} features: there are {', '.join(settings.kinds)}.")


def _true_lambda_is_best(settings: GridFeatures, error: pd.DataFrame) -> Finding:
    beliefs.need(settings.lambdas, settings.lam)
    wrong = min(beliefs.others(settings.lambdas, settings.lam), key=lambda lam: error[lam].mean())
    found = paired_difference(error[wrong], error[settings.lam])
    detail = ", ".join(f"λ̂ = {lam:g}: {error[lam].mean():.4g}" for lam in settings.lambdas) + f"; {len(error)} seeds"
    return Finding(found.low > 0, found.value, (found.low, found.high), detail)


EXPERIMENT = Experiment(
    name="grid-features",
    title="Evaluating a policy on features",
    source="section 5.1, figure 5.1 right",
    summary=(
        "The paper states that TD on features, too, finds accurate values only with the λF of the true λ. Its text "
        "says that the features are one-hot states, its appendix that they are Laplacian eigenfunctions."
    ),
    quick=GridFeatures(),
    paper=GridFeatures(),
    seeded=seeded,
    draw=draw,
    claims=(
        Claim(
            "one-hot-accurate",
            "TD on one-hot features ends with the smallest error for the true λ.",
            learning_is_best_with_the_true_lambda("one-hot"),
        ),
        Claim(
            "laplacian-accurate",
            "TD on Laplacian features ends with the smallest error for the true λ.",
            learning_is_best_with_the_true_lambda("laplacian"),
        ),
        Claim(
            "laplacian-limit",
            "The exact λF of the learned Laplacian features has the smallest error for the true λ.",
            the_limit_is_best_with_the_true_lambda,
        ),
    ),
    differences=(
        "A λF of features that are not one-hot is not the λR, so even the exact one need not give the true values. The "
        "paper does not say how many base features it has, nor how long they are trained; we have 16, trained on a "
        "uniform walk."
    ),
    paper_cost="less than one hour on a laptop (2020, quad-core)",
)
