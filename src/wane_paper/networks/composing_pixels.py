"""The settings and the tables of `gpi_pixels`.

| table | kind | a row for each | columns |
| --- | --- | --- | --- |
| `optimum` | fixed | start | start, value: the best return over states and counts |
| `exact` | fixed | features, choice, λ̂, memory, start | …, value: the return with exact Φ or exact λFs |
| `starts` | seeded | seed, target (or "exact"), choice, λ̂, memory, start | …, value |
| `fits` | seeded | seed, target, λ̂, policy, iteration | …, loss, error, own_error, features_error, correlation |
| `states` | seeded | target, λ̂, policy, state (seed 0) | …, value, learned, x, y: two principal components |
| `shown` | seeded | target, λ̂, moment (seed 0) | …, time, cell, reward, earned, remaining0, … |
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float

from wane.agents import Trained, gpi, lambda_features
from wane.agents.common.rollout import Episode, play
from wane.agents.common.views import Dataset
from wane.agents.lambda_features import Config, Params
from wane.agents.lambda_features.config import Choice
from wane.agents.laplacian import collect_data, map_views
from wane.agents.planner import plan
from wane.depletion import Geometric
from wane.exact.features import eigenfunctions
from wane.exact.features import lambda_features as exact_lambda_features
from wane.lab.contract import Loop, Tables
from wane.lab.tables import frame
from wane.settings import Range
from wane.worlds.world import World
from wane_paper.common import episodes
from wane_paper.networks import pixels
from wane_paper.networks.pixels import FromPixels

MEMORIES = {"refreshed": True, "never refreshed": False}
"""Whether agents recompute w at each step from what remains of the rewards."""
CHOICES: dict[str, Choice] = {"all actions": "actions", "policies' own actions": "policies"}
"""What agents compare: values of all actions (the paper's GPI), or only of the actions that the policies take."""
COMPARING, FOLLOWING = CHOICES
STATES, SMOOTH = "one-hot states", "exact Laplacian features"
EXACT = "exact"
"""The target in the rows of agents that use the exact λF of the learned base features instead of a regression."""
STARTS_AT_A_TIME = 68


@dataclass(frozen=True)
class GpiPixels(FromPixels):
    """Settings of composing policies from pixels."""

    shown: Annotated[int, Range(0, 1_000_000)] = 30
    """the state that the drawn episodes start in"""

    def rules(self) -> None:
        """Raises SettingError if the shown state does not exist, or if there are more features than states."""
        super().rules()
        states = self.world.n_states
        self.require(
            self.shown < states, "shown", f"at most {states - 1} is needed, because FourRooms has {states} states"
        )
        needed = f"at most {states} is needed, because the world has as many eigenfunctions"
        self.require(self.agent.base.features <= states, "agent.base.features", needed)


def fixed(settings: GpiPixels) -> Tables:
    """Computes the optimum, and the returns with exact representations and λFs."""
    world = settings.world
    exact = [
        frame(_exact_returns(settings, phis), "value", **_played(settings)).assign(features=name)
        for name, phis in ((STATES, _state_phis(settings)), (SMOOTH, _smooth_phis(settings)))
    ]
    return {
        "optimum": frame(plan(world).values, "value", start=range(world.n_states)),
        "exact": pd.concat(exact, ignore_index=True),
    }


def _state_phis(settings: GpiPixels) -> Float[np.ndarray, "lambdas policies states actions sites"]:
    """Returns Φ of one-hot states, which is the λR."""
    return np.stack([gpi.representations(settings.world, depletion=Geometric(lam)) for lam in settings.lambdas])


def _smooth_phis(settings: GpiPixels) -> Float[np.ndarray, "lambdas policies states actions sites"]:
    """Returns `_feature_phis` of as many eigenfunctions of the uniform walk as there are base features."""
    world = settings.world
    walk = world.mdp.under(np.full((world.n_states, world.n_actions), 1 / world.n_actions))
    return _feature_phis(settings, eigenfunctions(walk, settings.agent.base.features).unit_range())


def _feature_phis(
    settings: GpiPixels, phi: Float[np.ndarray, "states features"]
) -> Float[np.ndarray, "lambdas policies states actions sites"]:
    """Returns wᵀφ_λ of the exact λF of given features of the states, for a reward of 1 at each site."""
    world = settings.world
    weights = np.linalg.lstsq(phi, np.eye(world.n_states)[:, world.sites], rcond=None)[0]

    def one(policy: Any, lam: float) -> np.ndarray:
        exact = exact_lambda_features(world.mdp.under(policy), phi, lam, discount=world.discount)
        return np.asarray(exact.action_matrix(world.mdp)) @ weights

    return np.stack([[one(policy, lam) for policy in world.policies] for lam in settings.lambdas])


def _exact_returns(
    settings: GpiPixels, phis: Float[np.ndarray, "lambdas policies states actions sites"]
) -> Float[np.ndarray, "choices lambdas memories starts"]:
    world, key = settings.world, jax.random.key(0)

    def of_choice(policies: Sequence[Any] | None) -> np.ndarray:
        def one(phi: Array, refresh: Array) -> Array:
            return gpi.discounted_returns(key, world, phi, refresh=refresh, policies=policies)

        together = jax.vmap(jax.vmap(one, (None, 0)), (0, None))
        return np.asarray(jax.jit(together)(phis, np.array(list(MEMORIES.values()))))

    return np.stack([of_choice(world.policies if choose == "policies" else None) for choose in CHOICES.values()])


def _played(settings: GpiPixels) -> dict[str, Any]:
    """Returns the labels along the axes of `_exact_returns`."""
    starts = range(settings.world.n_states)
    return {"choice": CHOICES, "lam": settings.lambdas, "memory": MEMORIES, "start": starts}


def seeded(settings: GpiPixels, seeds: Sequence[int], loop: Loop) -> Tables:
    """Trains the agents of all seeds, and plays them from every start."""
    world = settings.world
    data = collect_data(jax.random.key(0), world, settings.agent.base)
    fits = pixels.train_seeds(loop, seeds, settings, data, range(len(world.policies)))
    axes = {"seed": seeds, "policy": range(len(world.policies)), "target": settings.targets, "lam": settings.lambdas}
    axes["iteration"] = range(1, settings.agent.iterations + 1)
    told = {name: np.asarray(each, float).ravel() for name, each in fits.told.items()}
    tables = {"fits": [frame(fits.told["loss"], "loss", **axes).assign(**told)]}
    for number, seed in enumerate(seeds):
        for name, table in _one_seed(settings, number, fits, data, loop if seed == 0 else None).items():
            tables.setdefault(name, []).append(table.assign(seed=seed))
    return {name: pd.concat(parts, ignore_index=True) for name, parts in tables.items()}


def _one_seed(settings: GpiPixels, number: int, fits: pixels.Fits, data: Dataset, loop: Loop | None) -> Tables:
    """Returns the tables of one seed. With a loop, it keeps the agents and adds their λFs and an episode of each."""
    world, base = settings.world, pixels.take(fits.params.base, number)
    tables: dict[str, list[pd.DataFrame]] = {"starts": [], "states": [], "shown": []}
    phi = _state_means(np.asarray(lambda_features.all_features(base, data)), np.asarray(data.counts), data, world)
    exact = _exact_returns(settings, _feature_phis(settings, np.clip(phi, 0, 1)))
    tables["starts"].append(frame(exact, "value", **_played(settings)).assign(target=EXACT))
    for (i, target), (j, lam) in product(enumerate(settings.targets), enumerate(settings.lambdas)):
        own, labels = fits.agent(number, i, j), {"target": target, "lam": lam}
        played = _play(own, world, settings.agent)
        axes = _played(settings)
        tables["starts"].append(frame(played.value, "value", **axes | {"lam": [lam]}).assign(target=target))
        if loop is not None:
            tables["states"].append(_state_rows(settings, own, data, lam).assign(**labels))
            shown = pixels.take(played, (0, 0, settings.shown))
            tables["shown"].append(episodes.rows(world, shown, **labels))
            kept = dataclasses.replace(settings.agent, target=target, lam=lam)
            loop.keep(f"{target}-lam-{lam:g}", Trained("lambda_features", world, kept, own))
    return {name: pd.concat(parts, ignore_index=True) for name, parts in tables.items() if parts}


def _state_means(
    values: Float[np.ndarray, "views features"], counts: Float[np.ndarray, " views"], data: Dataset, world: World
) -> Float[np.ndarray, "states features"]:
    """Returns the mean over the views of every state, weighted by how often each view was seen."""
    cells, total = np.asarray(data.cells), np.zeros((world.n_states, values.shape[1]))
    np.add.at(total, cells, values * counts[:, None])
    return total / np.maximum(np.bincount(cells, counts, world.n_states), 1)[:, None]


@partial(jax.jit, static_argnums=(1, 2))
def _play(params: Params, world: World, config: Config) -> Episode:
    """Plays an episode from every start. The axes of the result are (choices, memories, starts)."""

    def one(case: tuple[Array, Array, Array]) -> Episode:
        follows, refresh, start = case
        policy = lambda_features.composed(params, world, config, refresh, follows)
        return play(jax.random.key(0), world, policy, start=start)[1]

    follows = [choose == "policies" for choose in CHOICES.values()]
    cases = jnp.meshgrid(*map(jnp.asarray, (follows, list(MEMORIES.values()), range(world.n_states))), indexing="ij")
    shape = cases[0].shape
    played = jax.lax.map(one, tuple(case.ravel() for case in cases), batch_size=STARTS_AT_A_TIME)
    return jax.tree_util.tree_map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), played)


def _state_rows(settings: GpiPixels, params: Params, data: Dataset, lam: float) -> pd.DataFrame:
    """Returns the exact value, the learned value and two principal components of the λF for each policy and state."""
    world, rows = settings.world, []
    weights = np.asarray(params.weights) @ np.asarray(world.rewards)
    exact = gpi.representations(world, depletion=Geometric(lam)) @ np.asarray(world.rewards)
    for number, policy in enumerate(world.policies):
        network = jax.tree_util.tree_map(lambda leaf, number=number: leaf[number], params.networks)
        table = np.asarray(all_tables(network, data, world.n_actions))
        counts = np.bincount(np.asarray(data.seen[number]).ravel(), minlength=len(table)).astype(float)
        mean = _state_means(table[np.arange(len(table)), policy[np.asarray(data.cells)]], counts, data, world)
        left, size, _ = np.linalg.svd(mean - mean.mean(0), full_matrices=False)
        x, y = (left * size).T[:2]
        value = exact[number][np.arange(world.n_states), policy]
        found = {"value": value, "learned": mean @ weights, "x": x, "y": y}
        rows.append(pd.DataFrame({"policy": number, "state": np.arange(world.n_states)} | found))
    return pd.concat(rows, ignore_index=True)


@partial(jax.jit, static_argnums=2)
def all_tables(network: Any, data: Dataset, n_actions: int) -> Float[Array, "views actions features"]:
    """Returns φ_θ(s, ·) of all views."""
    return map_views(lambda views: lambda_features.feature_table(network, views, n_actions), data.views)
