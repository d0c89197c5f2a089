"""Shared parts of the experiments with λ-features from pixels: their settings, training in chunks, and errors.

Every seed trains base features first, one epoch in each chunk. Then come the fits, one for each seed, policy, target
and λ̂. A chunk is one iteration of all fits, so that a run can stop after any iteration and resume later. The fits of a
seed and a policy begin with the same fresh networks, so comparisons are paired. All fits of a policy, also those of
different seeds, see the same batches, so that each picture is read only once.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from wane.agents import gpi, lambda_features, laplacian
from wane.agents.common.rollout import discount_of
from wane.agents.common.views import Dataset, Vision, collect
from wane.agents.lambda_features import Config, Params
from wane.agents.lambda_features.config import Target
from wane.depletion import Geometric
from wane.exact.bellman import bellman_target
from wane.lab import Loop, NotTested, Seeded, seed_keys
from wane.settings import DISTINCT, Count, Lambda
from wane.types import Integer
from wane.worlds.catalog import four_rooms
from wane.worlds.world import World
from wane_paper.common.parts import entry
from wane_paper.common.settings import Lambdas

LONG = 300
"""The number of moments by which trajectories are continued to sum up their exact λF: 0.97³⁰⁰ is 1e-4."""
QUICK = Config(
    base=laplacian.Config(vision=Vision("first-person:32:unfading"), channels=16, learning_rate=1e-3, epochs=4),
    learning_rate=1e-3,
    iterations=10,
    epochs=4,
    fresh=False,
)
"""An agent for two cores: pictures of 32 × 32 pixels, half of the filters, half of the iterations, and few epochs. Each
iteration continues from the networks of the last one."""


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
        both = "is needed, because the experiments play both kinds of agents, or none"
        self.require(self.agent.refresh, "agent.refresh", f"True {both}")
        self.require(self.agent.choose == "actions", "agent.choose", f"actions {both}")

    @property
    def world(self) -> World:
        """FourRooms."""
        return four_rooms(depletion=Geometric(self.lam), horizon=self.horizon)

    def need_targets(self, *targets: str) -> None:
        """Raises NotTested if no network regresses one of the targets."""
        for target in targets:
            if target not in self.targets:
                raise NotTested(f"No network regresses the {target}: there are {', '.join(self.targets)}.")


class Fits(NamedTuple):
    """The results of the fits of some seeds. The first axis of every array is the seeds."""

    base_loss: Float[np.ndarray, "seeds epochs"]
    params: Params
    """The networks, with the axes (seeds, policies, targets, λ̂)."""
    measured: dict[str, Float[np.ndarray, "seeds policies targets lambdas iterations"]]
    """The loss of every iteration, and the measurements of `errors`."""
    limits: Float[np.ndarray, "seeds policies lambdas"]
    """The paper's error, computed for the exact λF of the learned base features."""

    def agent(self, seed: int, target: int, lam: int) -> Params:
        """Returns the parameters of one agent."""
        base, weights, networks = entry(self.params, seed)
        return Params(base, weights, jax.tree_util.tree_map(lambda leaf: leaf[:, target, lam], networks))


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


class Truth(NamedTuple):
    """Exact values, to measure errors against."""

    q: Float[Array, "*lambdas_policies states actions"]
    """Q of every policy, from the λR of every λ̂."""
    true_q: Float[Array, "*policies states actions"]
    """Q of every policy under the true λ."""
    features: Float[Array, "*seeds_lambdas_policies trajectories moments"]
    """wᵀφ_λ at every moment, from the exact λF of the learned base features."""


class OwnViews(NamedTuple):
    """The distinct views of each policy, so that a network is evaluated on each of them only once."""

    numbers: Int[Array, "*policies views"]
    """The numbers of the views. Short lists are padded with their last entry."""
    place: Int[Array, "*policies trajectories moments"]
    """The place in that list of the view at each moment except the last."""


def fit_all(
    loop: Loop,
    keys: Key[Array, " seeds"],
    settings: FromPixels,
    params: Params,
    data: Dataset,
    reference: Dataset,
    policies: Sequence[int],
) -> tuple[Any, dict[str, Any], Truth]:
    """Fits the networks of every seed, policy, target and λ̂, one iteration of all in each chunk.

    `params` holds base features, weights and fresh networks of every seed. Errors are measured on `reference`. Returns
    the networks (policies, seeds, targets, λ̂), the measurements of every iteration with the same axes, and the exact
    values.
    """
    world, config = settings.world, settings.agent
    weights = params.weights @ jnp.asarray(world.rewards, params.weights.dtype)
    phi = jnp.stack([lambda_features.all_features(entry(params.base, i), data) for i in range(len(keys))])
    truth, views = exact_values(settings, params.base, weights), own_views(reference)
    chosen, shape = jnp.asarray(list(policies)), (len(keys), len(settings.targets), len(settings.lambdas))
    variants = tuple(jnp.asarray(each) for each in np.indices(shape).reshape(3, -1))

    @jax.jit
    def iteration(
        networks: Any, k: Integer, data: Dataset, phi: Array, reference: Dataset, truth: Truth, views: OwnViews
    ) -> Any:
        def of_policy(one: tuple[Any, Any]) -> tuple[Any, Any]:
            number, networks = one
            steps = entry(data.transitions, number)

            def fold(key: Array) -> Array:
                return jax.random.fold_in(jax.random.fold_in(key, number), k)

            def of_variant(one: tuple[Any, ...]) -> tuple[Any, Any]:
                network, (seed, target, place) = one
                believer = dataclasses.replace(config, lam=jnp.asarray(settings.lambdas, phi.dtype)[place])
                kinds = [lambda_features.projection(kind, weights[seed]) for kind in settings.targets]
                network, loss = lambda_features.fit_iteration(
                    fold(keys[seed]),
                    network,
                    steps,
                    phi[seed],
                    jnp.stack(kinds)[target],
                    data,
                    world,
                    believer,
                    fold(jax.random.key(0)),
                )
                own = Truth(truth.q[place, number], truth.true_q[number], truth.features[seed, place, number])
                measured = errors(network, weights[seed], reference, own, entry(views, number), number, world.n_actions)
                return network, measured | {"loss": loss}

            return lambda_features.train_each(of_variant, (networks, variants))

        return lambda_features.train_each(of_policy, (chosen, networks), networks=len(variants[0]))

    def begin(leaf: Array) -> Array:
        """Rearranges fresh networks: (seeds, policies) → (policies, seeds · targets · λ̂)."""
        return jnp.repeat(jnp.swapaxes(leaf[:, chosen], 0, 1), shape[1] * shape[2], 1)

    work = len(chosen) * len(variants[0]) * config.epochs * -(-data.transitions.view.shape[1] // config.batch)
    step = lambda networks, k: iteration(networks, k, data, phi, reference, truth, views)  # noqa: E731
    start = jax.tree_util.tree_map(begin, params.networks)
    networks, measured = loop("λ-features", step, start, config.iterations, work, "gradient steps")
    networks = jax.tree_util.tree_map(lambda leaf: leaf.reshape(len(chosen), *shape, *leaf.shape[2:]), networks)
    measured = {
        name: np.moveaxis(np.asarray(each), 0, -1).reshape(len(chosen), *shape, -1) for name, each in measured.items()
    }
    return networks, measured, truth


def own_views(data: Dataset) -> OwnViews:
    """Returns the distinct views of each policy's trajectories."""
    found = [np.unique(np.asarray(seen[:, :-1]), return_inverse=True) for seen in data.seen]
    longest = max(len(numbers) for numbers, _ in found)
    filled = [np.pad(numbers, (0, longest - len(numbers)), mode="edge") for numbers, _ in found]
    places = [place.reshape(data.seen.shape[1], -1) for _, place in found]
    return OwnViews(jnp.asarray(np.stack(filled), jnp.int32), jnp.asarray(np.stack(places), jnp.int32))


def exact_values(settings: FromPixels, bases: laplacian.Params, weights: Float[Array, "seeds features"]) -> Truth:
    """Returns the exact values of all policies, from the λR of the states and the λF of every seed's base features."""
    world = settings.world
    lambdas = (*settings.lambdas, settings.lam)
    q = [gpi.representations(world, depletion=Geometric(lam)) @ np.asarray(world.rewards) for lam in lambdas]
    exact = exact_features(settings, bases, weights)
    return Truth(*(jnp.asarray(each, weights.dtype) for each in (np.stack(q[:-1]), q[-1], exact)))


def exact_features(
    settings: FromPixels, bases: laplacian.Params, weights: Float[Array, "seeds features"]
) -> Float[np.ndarray, "seeds lambdas policies trajectories moments"]:
    """Returns wᵀφ_λ at every moment of the data, by the definition of the λF along long continued trajectories.

    The world does not slip, so the future of a view in the data is certain and can be summed up.
    """
    world, config, moments = settings.world, settings.agent, settings.agent.base.horizon
    discount = discount_of(world, config)
    longer = collect(jax.random.key(0), world, world.policies, moments + LONG, config.base.vision)

    @jax.jit
    def sum_up(phi: Array, seen: Array, lam: Array, weights: Array) -> Array:
        def back(following: Array, now: Array) -> tuple[Array, Array]:
            features = bellman_target(following, phi[now], lam, discount)
            return features, features @ weights

        last = jnp.zeros((*seen.shape[:-1], phi.shape[-1]), phi.dtype)
        values = jax.lax.scan(back, last, jnp.moveaxis(seen, -1, 0), reverse=True)[1]
        return jnp.moveaxis(values, 0, -1)[..., :moments]

    def of_seed(number: int) -> Float[np.ndarray, "lambdas policies trajectories moments"]:
        phi = lambda_features.all_features(entry(bases, number), longer)
        lams = jnp.asarray(settings.lambdas, phi.dtype)
        return np.stack([[np.asarray(sum_up(phi, seen, lam, weights[number])) for seen in longer.seen] for lam in lams])

    return np.stack([of_seed(number) for number in range(len(weights))])


def errors(
    network: Any, weights: Array, data: Dataset, truth: Truth, views: OwnViews, policy: Integer, n_actions: int
) -> dict[str, Array]:
    """Measures how far wᵀφ_θ(s, a) is from exact values, over all moments of a policy's data except the last.

    `error` is the paper's mean squared error against Q under the true λ, `own_error` the one against Q under λ̂, and
    `features_error` the one against the exact λF of the same base features. `correlation` is the correlation with Q
    under λ̂, or 0 if all values are the same.
    """
    table = laplacian.map_views(
        lambda views: lambda_features.feature_table(network, views, n_actions) @ weights, data.views, views.numbers
    )
    seen, actions = (each[policy, :, :-1] for each in (data.seen, data.actions))
    q, cells = table[views.place, actions], data.cells[seen]
    own = truth.q[cells, actions]
    return {
        "error": jnp.mean((q - truth.true_q[cells, actions]) ** 2),
        "own_error": jnp.mean((q - own) ** 2),
        "features_error": jnp.mean((q - truth.features[:, :-1]) ** 2),
        "correlation": jnp.nan_to_num(jnp.corrcoef(q.ravel(), own.ravel())[0, 1]),
    }


def train_seeds(loop: Loop, seeds: Sequence[int], settings: FromPixels, data: Dataset, policies: Sequence[int]) -> Fits:
    """Trains all agents of some seeds: the base features one seed after the other, the λFs of all seeds together."""
    keys, world, config = seed_keys(seeds), settings.world, settings.agent
    found = [
        train_base(f"base features, seed {seed}", loop, key, world, config, data)
        for seed, key in zip(seeds, keys, strict=True)
    ]
    states = [
        lambda_features.with_base(lambda_features.init(key, world, config), base, world, data)
        for key, (base, _) in zip(keys, found, strict=True)
    ]
    params = jax.tree_util.tree_map(lambda *leaves: jnp.stack(leaves), *(state.params for state in states))
    base, reference = config.base, data
    if base.epsilon:  # Errors are measured on the paper's trajectories, in which nothing is explored.
        reference = collect(jax.random.key(0), world, world.policies, base.horizon, base.vision)
    networks, measured, truth = fit_all(loop, keys, settings, params, data, reference, policies)
    networks = jax.tree_util.tree_map(lambda leaf: jnp.swapaxes(leaf, 0, 1), networks)
    measured = {name: np.swapaxes(each, 0, 1) for name, each in measured.items()}
    losses = np.stack([losses for _, losses in found])
    return Fits(losses, params._replace(networks=networks), measured, _limits(reference, truth, policies))


def _limits(data: Dataset, truth: Truth, policies: Sequence[int]) -> Float[np.ndarray, "seeds policies lambdas"]:
    """Returns the error of the exact λF of the base features against Q under the true λ, as in `errors`."""
    chosen = np.asarray(policies)
    cells, actions = data.cells[data.seen[chosen, :, :-1]], data.actions[chosen, :, :-1]
    true_q = jnp.stack([truth.true_q[number][cells[i], actions[i]] for i, number in enumerate(chosen)])
    off = truth.features[:, :, chosen, :, :-1] - true_q
    return np.asarray(jnp.swapaxes(jnp.mean(off**2, (-2, -1)), 1, 2))
