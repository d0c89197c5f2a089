"""TD on features in the 6 × 6 grid: the third panel of the paper's figure of policy evaluation.

The agent learns the λF of base features along episodes. The features are one-hot states, as the paper's text says, or
learned Laplacian features, as its appendix says. The error is defined as in `policy-evaluation`. The limit of TD is
known for both, because the exact λF of any features can be computed (`wane.lambda_features`).

| table | kind | a row for each | columns |
| --- | --- | --- | --- |
| `exact` | fixed | λ̂, number of eigenfunctions | lam, features, error: the error of their exact λF |
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
from wane.agents.common.views import Vision
from wane.agents.lambda_features import Config, Params, State
from wane.agents.lambda_features.config import Features
from wane.exact.features import eigenfunctions
from wane.exact.features import lambda_features as exact_lambda_features
from wane.lab import Claim, Experiment, Finding, Loop, NotTested, Tables, plots, seed_keys
from wane.lab.tables import frame, select
from wane.settings import DISTINCT
from wane.types import Integer
from wane.worlds.world import World
from wane_paper.common import beliefs
from wane_paper.common.parts import entry, join_tables
from wane_paper.tabular.policy_evaluation import CHUNKS, OnGrid, QValues, exact_q, last_learning, learning_table
from wane_paper.texts import account, texts

PAPER = Config(
    base=laplacian.Config(
        vision=Vision("index"), features=8, hidden=(16,), learning_rate=3e-4, epochs=300, walk="uniform"
    ),
    hidden=(16, 16),
    method="online",
)
"""The paper's networks: two layers with 16 units for the base features, three layers with 16 units each for the λF."""
TITLES = {"one-hot": "TD on one-hot features", "laplacian": "TD on learned\nLaplacian features"}


@dataclass(frozen=True)
class GridFeatures(OnGrid):
    """Settings of TD on features."""

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
        """Raises SettingError if there are too few episodes, or unless the agents learn online from one-hot states."""
        super().rules()
        self.require(self.agent.method == "online", "agent.method", "online is needed: that is TD")
        picture = self.agent.base.vision.is_picture
        self.require(not picture, "agent.base.vision.observation", "index is needed: TD sees one-hot states")


def fixed(settings: GridFeatures) -> Tables:
    """Computes errors of the exact λF of eigenfunctions."""
    world = settings.world
    truth, counts = exact_q(world, settings.lam), range(1, world.n_states + 1)
    errors = [[_eigenfunction_error(world, count, lam, truth) for count in counts] for lam in settings.lambdas]
    exact = frame(errors, "error", lam=settings.lambdas, features=counts)
    return {"exact": exact}


def _eigenfunction_error(world: World, count: int, lam: float, truth: QValues) -> float:
    """Returns the error of the exact λF of the first eigenfunctions of the uniform walk."""
    walk = world.mdp.under(np.full((world.n_states, world.n_actions), 1 / world.n_actions))
    phi = eigenfunctions(walk, count).unit_range()
    weights = np.linalg.lstsq(phi, np.eye(world.n_states)[:, world.sites] @ world.rewards, rcond=None)[0]
    exact = exact_lambda_features(world.mdp.under(world.policies[0]), phi, lam, discount=world.discount)
    return float(((exact.q_values(world.mdp, weights) - truth) ** 2).mean())


def seeded(settings: GridFeatures, seeds: Sequence[int], loop: Loop) -> Tables:
    """Runs TD on each kind of features."""
    joined = join_tables([_learn(settings, kind, seeds, loop) for kind in settings.kinds])
    # The table is long, and single precision halves its size.
    return joined | {"learning": joined["learning"].astype({"error": np.float32})}


def _learn(settings: GridFeatures, kind: Features, seeds: Sequence[int], loop: Loop) -> Tables:
    """Runs TD on one kind of features for all seeds and λ̂ in one program. Keeps the agents of seed 0."""
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
    limits = [_limits(settings, entry(states.params, i), truth).assign(seed=seed) for i, seed in enumerate(seeds)]
    for i, lam in enumerate(settings.lambdas) if 0 in seeds else ():
        own = dataclasses.replace(config, lam=lam, episodes=size * CHUNKS)
        params = entry(states.params, list(seeds).index(0), i)
        loop.keep(f"{kind}-lam-{lam:g}", Trained("lambda_features", world, own, params))
    tables = {"learning": learning_table(settings, seeds, errors), "limits": pd.concat(limits)}
    return {name: each.assign(features=kind) for name, each in tables.items()}


def _limits(settings: GridFeatures, params: Params, truth: QValues) -> pd.DataFrame:
    """Returns the error of the exact λF of one seed's base features and its distance to the learned λF, by λ̂."""
    world, rows = settings.world, []
    kernel, views = world.mdp.under(world.policies[0]), jnp.eye(world.n_states)
    for i, lam in enumerate(settings.lambdas):
        own = entry(params, i)
        phi = np.asarray(laplacian.base_features(own.base, views), float)
        weights = np.asarray(own.weights @ world.rewards, float)
        exact = exact_lambda_features(kernel, phi, lam, discount=world.discount).q_values(world.mdp, weights)
        table = lambda_features.feature_table(entry(own.networks, 0), views, world.n_actions)
        learned = np.asarray(table @ weights)
        squares = ((exact - truth) ** 2).mean(), ((exact - learned) ** 2).mean()
        rows.append({"lam": lam, "error": squares[0], "distance": squares[1]})
    return pd.DataFrame(rows)


def draw(settings: GridFeatures, tables: Tables) -> Figure:
    """Draws the errors of all methods. Dotted lines are the errors of the exact λF of the features."""
    figure = plots.figure(3.1 * (1 + len(settings.kinds)), 3.6)
    names = beliefs.names(settings.lambdas, settings.lam)
    colours = {names[lam]: plots.colour(lam) for lam in settings.lambdas}
    *axes, exact = figure.subplots(1, 1 + len(settings.kinds))
    for ax, kind in zip(axes, settings.kinds, strict=True):
        rows = select(tables["learning"], features=kind)
        named = rows.assign(agent=rows["lam"].map(names))
        plots.plot_learning(named, y="error", interval="error", ax=ax, colours=colours)
        limits = select(tables["limits"], features=kind).groupby("lam")["error"].mean()
        for lam in settings.lambdas:
            ax.axhline(limits[lam], color=plots.colour(lam), ls=":", lw=1)
        plots.tidy(ax, TITLES[kind], "episode", "mean squared error of Q")
    for lam, rows in tables["exact"].groupby("lam"):
        exact.plot(rows["features"], rows["error"], ".-", color=plots.colour(lam))
    plots.tidy(exact, "Exact λF of exact\neigenfunctions", "number of eigenfunctions", "mean squared error of Q")
    return figure


def learning_is_best_with_the_true_lambda(kind: Features) -> Callable[[GridFeatures, Tables], Finding]:
    """Returns a test that TD on features ends with a smaller error for the true λ than for the best wrong λ̂."""

    def test(settings: GridFeatures, tables: Tables) -> Finding:
        _need(settings, kind)
        rows = {"learning": select(tables["learning"], features=kind)}
        return beliefs.least_for_the_true(last_learning(rows), settings.lambdas, settings.lam)

    return test


def the_limit_is_best_with_the_true_lambda(settings: GridFeatures, tables: Tables) -> Finding:
    """Tests whether the exact λF of the learned base features has the smallest error for the true λ."""
    _need(settings, "laplacian")
    rows = select(tables["limits"], features="laplacian")
    errors = rows.pivot_table("error", index="seed", columns="lam")
    return beliefs.least_for_the_true(errors, settings.lambdas, settings.lam)


def exact_eigenfunctions_favour_the_true_lambda(settings: GridFeatures, tables: Tables) -> Finding:
    """Tests whether the exact λF of eigenfunctions, as many as the agents have features, is best with the true λ."""
    beliefs.need(settings.lambdas, settings.lam)
    error = tables["exact"].pivot_table("error", index="features", columns="lam")
    rivals = error[list(beliefs.others(settings.lambdas, settings.lam))].min(axis=1)
    lead = rivals - error[settings.lam]
    count = settings.agent.base.features
    if count not in lead.index:
        raise NotTested(f"The grid has {len(lead)} eigenfunctions, and the agents have {count} features.")
    best = ", ".join(str(each) for each in lead.index[lead > 0]) or "none"
    detail = "; ".join(f"λ̂ = {lam:g}: {error[lam][count]:.3f}" for lam in settings.lambdas)
    detail += f"; the true λ is best with {best} of {len(lead)} eigenfunctions"
    return Finding(bool(lead[count] > 0), float(lead[count]), None, detail)


def _need(settings: GridFeatures, kind: Features) -> None:
    if kind not in settings.kinds:
        raise NotTested(f"No agent has {kind} features: there are {', '.join(settings.kinds)}.")


EXPERIMENT = Experiment(
    **texts("grid-features"),
    quick=GridFeatures(seeds=64),
    paper=GridFeatures(seeds=64),
    fixed=fixed,
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
            kind="paper",
            place="section 5.1, figure 5.1",
            account=account("grid-features", "laplacian-accurate"),
        ),
        Claim(
            "laplacian-limit",
            "The exact λF of the learned Laplacian features has the smallest error for the true λ.",
            the_limit_is_best_with_the_true_lambda,
        ),
        Claim(
            "laplacian-exact",
            "The exact λF of as many exact Laplacian eigenfunctions has the smallest error for the true λ.",
            exact_eigenfunctions_favour_the_true_lambda,
        ),
    ),
)
