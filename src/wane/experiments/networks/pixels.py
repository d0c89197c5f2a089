"""What the experiments with λ-features from pixels share: their settings, training in chunks, and errors.

A seed trains base features first, one epoch in each chunk. Then come the fits, one for each policy, target and λ̂. A
chunk is one iteration of all of them, so that a run can stop after any iteration and go on another day. All fits of a
policy share their batches and their fresh networks, so they are compared in pairs.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wane.agents import gpi, lambda_features, laplacian
from wane.agents.common.rollout import discount_of
from wane.agents.common.views import Dataset, Sight, collect
from wane.agents.lambda_features import Config, Params
from wane.agents.lambda_features.config import Target
from wane.depletion import Geometric
from wane.exact.bellman import bellman_target
from wane.experiments.common.checks import Lambdas
from wane.experiments.contract import Loop, Seeded, seed_keys
from wane.settings import DISTINCT, Count, Lambda
from wane.types import Integer
from wane.worlds.catalog import four_rooms
from wane.worlds.world import World

LONG = 300
"""Moments by which trajectories are continued to sum up their exact λF: 0.97³⁰⁰ is 1e-4."""
COST = "about 45 minutes for the base features and about 10 hours for the λFs on a GTX 1080, with about 30 GB of memory"
QUICK = Config(
    base=laplacian.Config(sight=Sight("first-person:32:unfading"), channels=16, learning_rate=1e-3, epochs=4),
    learning_rate=1e-3,
    iterations=20,
    epochs=4,
    fresh=False,
)
"""An agent for two cores: pictures of 32 × 32 pixels, half of the filters, few epochs from where the last one ended."""


@dataclass(frozen=True)
class FromPixels(Seeded):
    """Settings of the experiments with λ-features from pixels."""

    lambdas: Lambdas = (0.0, 0.5, 1.0)
    """the agents' λ̂"""
    lam: Lambda = 0.5
    """the true λ"""
    targets: Annotated[tuple[Target, ...], DISTINCT] = ("product", "vector")
    """what is regressed: wᵀφ_λ (the paper), or all of φ_λ"""
    horizon: Count = 50
    """steps of an episode"""
    agent: Config = field(default_factory=Config)
    """the settings of the agents"""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = {"agent.lam": "lambdas", "agent.target": "targets"}

    def rules(self) -> None:
        """Raises SettingError unless the agents learn from the data of the policies that they evaluate."""
        super().rules()
        self.require(self.agent.method == "fitted", "agent.method", "fitted is needed: pictures are learned from data")
        self.require(self.agent.features == "laplacian", "agent.features", "laplacian is needed: no states are known")
        walk = self.agent.base.walk == "policies"
        self.require(walk, "agent.base.walk", "policies is needed, because fitted iteration evaluates these")

    @property
    def world(self) -> World:
        """FourRooms."""
        return four_rooms(depletion=Geometric(self.lam), horizon=self.horizon)

    def config(self, target: Target, lam: Any) -> Config:
        """The settings of one agent."""
        return dataclasses.replace(self.agent, target=target, lam=lam)


class Fits(NamedTuple):
    """What the fits of one seed came to."""

    base_loss: Float[np.ndarray, " epochs"]
    params: Params
    """The networks have the axes policies, targets and λ̂."""
    told: dict[str, Float[np.ndarray, "policies targets lambdas iterations"]]
    """The loss of every iteration, and the errors of `errors`."""

    def agent(self, target: int, lam: int) -> Params:
        """The parameters of one agent."""
        return self.params._replace(
            networks=jax.tree_util.tree_map(lambda leaf: leaf[:, target, lam], self.params.networks)
        )


def train_base(
    name: str, loop: Loop, key: jax.Array, world: World, config: Config, data: Dataset
) -> tuple[laplacian.Params, Float[np.ndarray, " epochs"]]:
    """Trains base features, one epoch in each chunk. Returns them and the loss of every epoch."""

    @jax.jit
    def epoch(state: laplacian.State, number: Integer, data: Dataset) -> tuple[laplacian.State, Array]:
        state, info = laplacian.train(key, world, config.base, state, number, 1, data)
        return state, info.loss[0]

    def step(state: laplacian.State, number: int) -> tuple[laplacian.State, Array]:
        return epoch(state, number, data)

    batches = data.seen.shape[0] * data.n_steps // config.base.batch
    state = laplacian.init(key, world, config.base)
    state, losses = loop(name, step, state, config.base.epochs, max(1, batches), "gradient steps")
    return state.params, losses


def fit_all(
    name: str,
    loop: Loop,
    key: jax.Array,
    settings: FromPixels,
    base: laplacian.Params,
    data: Dataset,
    policies: Sequence[int],
) -> tuple[Params, dict[str, Any]]:
    """Fits the networks of every policy, target and λ̂, one iteration of all in each chunk."""
    world, config = settings.world, settings.agent
    state = lambda_features.with_base(lambda_features.init(key, world, config), base, world, data)
    weights = state.params.weights @ jnp.asarray(world.rewards, state.params.weights.dtype)
    phi = lambda_features.all_features(base, data)
    reference = reference_data(settings)
    truth = exact_values(settings, base, reference, weights)
    projections = jnp.stack([lambda_features.projection(target, weights) for target in settings.targets])
    which = np.indices((len(settings.targets), len(settings.lambdas))).reshape(2, -1)
    variants = jnp.asarray(settings.lambdas, phi.dtype)[which[1]], projections[which[0]], jnp.asarray(which[1])
    chosen = jnp.asarray(list(policies))

    @jax.jit
    def iteration(
        networks: Any, k: Integer, data: Dataset, phi: Array, reference: Dataset, truth: Truth
    ) -> tuple[Any, Any]:
        def of_policy(one: tuple[Any, Any]) -> tuple[Any, Any]:
            number, networks = one
            steps = jax.tree_util.tree_map(lambda leaf: leaf[number], data.transitions)
            own = jax.random.fold_in(jax.random.fold_in(key, number), k)

            def of_variant(one: tuple[Any, ...]) -> tuple[Any, Any]:
                network, (lam, project, place) = one
                believer = dataclasses.replace(config, lam=lam)
                network, loss = lambda_features.fit_iteration(own, network, steps, phi, project, data, world, believer)
                told = errors(network, weights, reference, truth, place, number, world.n_actions)
                return network, told | {"loss": loss}

            return lambda_features.many(of_variant, (networks, variants))

        return lambda_features.many(of_policy, (chosen, networks), networks=which.shape[1])

    def repeat(leaf: Array) -> Array:
        return jnp.repeat(leaf[chosen][:, None], which.shape[1], 1)

    work = len(chosen) * which.shape[1] * config.epochs * -(-data.transitions.view.shape[1] // config.batch)
    begin = jax.tree_util.tree_map(repeat, state.params.networks)
    step = lambda networks, k: iteration(networks, k, data, phi, reference, truth)  # noqa: E731
    networks, told = loop(name, step, begin, config.iterations, work, "gradient steps")
    shape = (len(chosen), len(settings.targets), len(settings.lambdas))
    networks = jax.tree_util.tree_map(lambda leaf: leaf.reshape(*shape, *leaf.shape[2:]), networks)
    told = {name: np.moveaxis(np.asarray(each), 0, -1).reshape(*shape, -1) for name, each in told.items()}
    return state.params._replace(networks=networks), told


def reference_data(settings: FromPixels) -> Dataset:
    """The paper's trajectories, on which errors are measured: no random actions but the first one."""
    world, base = settings.world, settings.agent.base
    return collect(jax.random.key(0), world, world.policies, base.horizon, base.sight)


class Truth(NamedTuple):
    """Exact values, to measure errors against."""

    q: Float[Array, "lambdas policies states actions"]
    """Q of every policy, from the λR of every λ̂."""
    true_q: Float[Array, "policies states actions"]
    """Q of every policy under the true λ."""
    features: Float[Array, "lambdas policies trajectories moments"]
    """wᵀφ_λ at every moment, from the exact λF of the learned base features."""


def exact_values(
    settings: FromPixels, base: laplacian.Params, data: Dataset, weights: Float[Array, " features"]
) -> Truth:
    """The exact values of all policies, by the λR of the states and by the λF of the base features."""
    world = settings.world
    lambdas = (*settings.lambdas, settings.lam)
    q = [gpi.representations(world, depletion=Geometric(lam)) @ np.asarray(world.rewards) for lam in lambdas]
    exact = exact_features(settings, base, data, weights)
    return Truth(*(jnp.asarray(each, weights.dtype) for each in (np.stack(q[:-1]), q[-1], exact)))


def exact_features(
    settings: FromPixels, base: laplacian.Params, data: Dataset, weights: Float[Array, " features"]
) -> Float[np.ndarray, "lambdas policies trajectories moments"]:
    """wᵀφ_λ at every moment of the data, by the definition of the λF along trajectories that go on for long.

    The world does not slip, so the future of a view in the data is certain and can be summed up.
    """
    world, config, moments = settings.world, settings.agent, data.seen.shape[-1]
    discount = discount_of(world, config)
    longer = collect(jax.random.key(0), world, world.policies, moments + LONG, config.base.sight)

    @jax.jit
    def sum_up(phi: Array, seen: Array, lam: Array) -> Array:
        def back(following: Array, now: Array) -> tuple[Array, Array]:
            features = bellman_target(following, phi[now], lam, discount)
            return features, features @ weights

        last = jnp.zeros((*seen.shape[:-1], phi.shape[-1]), phi.dtype)
        values = jax.lax.scan(back, last, jnp.moveaxis(seen, -1, 0), reverse=True)[1]
        return jnp.moveaxis(values, 0, -1)[..., :moments]

    phi = jax.jit(lambda_features.all_features)(base, longer)
    lams = jnp.asarray(settings.lambdas, phi.dtype)
    return np.stack([[np.asarray(sum_up(phi, seen, lam)) for seen in longer.seen] for lam in lams])


def errors(
    network: Any, weights: Array, data: Dataset, truth: Truth, lam: Integer, policy: Integer, n_actions: int
) -> dict[str, Array]:
    """How far wᵀφ_θ(s, a) is from exact values, over all moments of a policy's data but the last.

    `error` is the paper's mean squared error against Q under the true λ, `own_error` that against Q under λ̂,
    `features_error` that against the exact λF of the same base features; `correlation` is with Q under λ̂.
    """
    table = laplacian.map_views(lambda views: lambda_features.feature_table(network, views, n_actions), data.views)
    seen, actions = (each[policy, :, :-1] for each in (data.seen, data.actions))
    q, cells = (table @ weights)[seen, actions], data.cells[seen]
    own = truth.q[lam, policy][cells, actions]
    return {
        "error": jnp.mean((q - truth.true_q[policy][cells, actions]) ** 2),
        "own_error": jnp.mean((q - own) ** 2),
        "features_error": jnp.mean((q - truth.features[lam, policy][:, :-1]) ** 2),
        "correlation": jnp.corrcoef(q.ravel(), own.ravel())[0, 1],
    }


def train_seed(
    loop: Loop, seed: int, settings: FromPixels, data: Dataset, policies: Sequence[int]
) -> tuple[laplacian.Params, Fits]:
    """Trains all agents of one seed. Returns the base features and the fits."""
    key = seed_keys([seed])[0]
    base, losses = train_base(f"base features, seed {seed}", loop, key, settings.world, settings.agent, data)
    return base, Fits(losses, *fit_all(f"λ-features, seed {seed}", loop, key, settings, base, data, policies))
