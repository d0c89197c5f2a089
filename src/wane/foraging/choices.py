"""Models of an animal's moves on a map: softmax over Q of the λ representation, with a believed λ̂.

An animal in state s of a world with known sites chooses action a with probability ∝ exp(slope · Q(s, a)), where

    Q(s, a) = max_π Σ_j Φ^π(s, a, j) r_j        (GPI over policies π; one policy is one-step improvement)
    Φ^π(s, a, j) = 1(s = j) + γ λ̂^1(s = j) Σ_s' p(s' | s, a) Φ^π(s', j)

Φ^π of a state is the closed form of `wane.lambda_representation`, and gradients in λ̂ and γ go through it. r_j is the
reward that the animal believes to remain at site j: the true one with sees="remaining", r̄_j λ̂ⁿ after n visits with
sees="count". `wane.foraging.map_planner.MapPlanner` is an animal that plans exactly instead of composing policies.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, Int
from scipy import stats

from wane.exact.representations import lambda_representation
from wane.foraging.arguments import Level, check_arguments, check_fields
from wane.foraging.fitting import describe_estimates, determined
from wane.foraging.models import Parameter, Params, typical_point, values_at
from wane.foraging.newton import minimise_from
from wane.settings import Count
from wane.types import AnyArray, ArrayLike
from wane.worlds.process import single_states
from wane.worlds.world import World


class Moves(NamedTuple):
    """Moves of one animal, step by step: where it was, what it did, and what it knew."""

    state: Int[AnyArray, " steps"]
    action: Int[AnyArray, " steps"]
    visits: Int[AnyArray, "steps sites"]
    """Visits to each site that were paid before the move."""
    remaining: Float[AnyArray, "steps sites"]
    """What truly remained of each reward."""

    def __repr__(self) -> str:
        return f"Moves({len(self.state)} moves, {self.visits.shape[-1]} sites)"


class MapChooser(abc.ABC):
    """The interface of models of moves on a map: `MapModel`, `MapPlanner`, or your own frozen dataclass."""

    needs_policies: bool = False
    """Whether the model composes policies."""

    @abc.abstractmethod
    def parameters(self, world: World) -> list[Parameter]:
        """The parameters, one of which is the `slope` of the softmax."""

    @abc.abstractmethod
    def values(
        self, world: World, policies: Sequence[Any], params: Params, moves: Moves
    ) -> Float[Array, "steps actions"]:
        """The value of each action to the animal, at every move."""

    def check(self, world: World, params: Params, moves: Moves) -> None:  # noqa: B027
        """Warns if the values are imprecise at these parameters. It does nothing for models with a closed form."""


def map_parameters(world: World, fit_discount: bool, most_discount: float = 1.0) -> list[Parameter]:
    """The parameters: λ̂, the slope, and γ if it is fitted."""
    size = float(np.abs(np.asarray(world.rewards)).max())
    found = [Parameter("lam", 0.0, 1.0, 0.5), Parameter("slope", 0.0, np.inf, 2.0 / size)]
    return found + [Parameter("discount", 0.0, most_discount, 0.9 * most_discount)] * fit_discount


@dataclass(frozen=True)
class MapModel(MapChooser):
    """Softmax over Q of the λ representation."""

    sees: Literal["remaining", "count"] = "remaining"
    fit_discount: bool = False
    """Whether γ is fitted; otherwise it is the world's."""
    needs_policies = True

    def __post_init__(self) -> None:
        check_fields(self)

    def parameters(self, world: World) -> list[Parameter]:
        """The parameters: λ̂, the slope, and γ if it is fitted."""
        return map_parameters(world, self.fit_discount)

    def values(
        self, world: World, policies: Sequence[Any], params: Params, moves: Moves
    ) -> Float[Array, "steps actions"]:
        """Q at every move, the largest over the policies."""
        lam, discount = params["lam"], params.get("discount", world.discount)
        phi = action_values(world, policies, lam, discount)
        imagined = jnp.asarray(world.rewards) * jnp.power(lam, jnp.asarray(moves.visits))
        reward = jnp.asarray(moves.remaining) if self.sees == "remaining" else imagined
        return jnp.max(jnp.einsum("ptaj,tj->pta", phi[:, jnp.asarray(moves.state)], reward), 0)


@check_arguments
def read_moves(world: World, cells: Sequence[ArrayLike], actions: Sequence[ArrayLike]) -> Moves:
    """The moves of one animal, from the cells and the actions of its episodes (one more cell than actions).

    Visits are counted as the world pays them: on arrival, or on departure. Raises ValueError for cells and actions that
    do not exist, and for an episode with the wrong number of cells.
    """
    parts = []
    if not len(cells) or len(cells) != len(actions):
        raise ValueError(
            f"there are cells of {len(cells)} episodes and actions of {len(actions)}: give a list of both for each of "
            "one or more episodes"
        )
    for number, (place, move) in enumerate(zip(cells, actions, strict=True)):
        place, move = np.atleast_1d(np.asarray(place)), np.atleast_1d(np.asarray(move))
        if len(place) != len(move) + 1:
            raise ValueError(
                f"episode {number} has {len(place)} cells and {len(move)} actions: give one cell more than actions, "
                "the last one included"
            )
        for name, values, most in (("cell", place, world.n_states), ("action", move, world.n_actions)):
            bad = (values < 0) | (values >= most)
            if values.dtype.kind not in "iu" or bad.any():
                raise ValueError(
                    f"episode {number} has the {name}s {values.tolist()}: give whole numbers from 0 to {most - 1}"
                )
        there = world.site_of[place][:, None] == np.arange(world.n_sites)
        if world.timing == "arrival":
            there[0] = False
            visits = np.cumsum(there, 0)[:-1]
        else:
            visits = np.cumsum(there, 0)[:-1] - there[:-1]
        parts.append((place[:-1], move, visits))
    state, action, visits = (np.concatenate(each) for each in zip(*parts, strict=True))
    remaining = np.asarray(world.rewards) * np.asarray(world.depletion.worth(visits))
    return Moves(state, action, visits, remaining.astype(float))


def action_values(
    world: World, policies: Sequence[Any], lam: Any, discount: Any
) -> Float[Array, "policies states actions sites"]:
    """Φ^π(s, a, j) of every policy for a believed λ̂, as JAX arrays that can be differentiated."""
    steps = jnp.asarray(world.mdp.dense())
    sites = single_states(world, "a model of choices on a map")
    at_site = (jnp.arange(world.n_states)[:, None] == jnp.asarray(sites)).astype(steps.dtype)
    found = []
    for policy in policies:
        kernel: Any = world.mdp.under(policy)
        kernel = jnp.asarray(kernel.toarray() if hasattr(kernel, "toarray") else kernel)
        phi = lambda_representation(kernel, lam, discount=discount, sites=sites).matrix
        later = jnp.einsum("sat,tj->saj", steps, jnp.asarray(phi))
        here = at_site[:, None, :]
        found.append(here + discount * jnp.where(here > 0, lam, 1.0) * later)
    return jnp.stack(found)


def log_probability(world: World, policies: Sequence[Any], model: MapChooser, params: Params, moves: Moves) -> Array:
    """The logarithm of the probability of all moves."""
    chosen = jax.nn.log_softmax(params["slope"] * model.values(world, policies, params, moves))
    return jnp.sum(jnp.take_along_axis(chosen, jnp.asarray(moves.action)[:, None], 1))


@check_arguments
def fit_moves(
    world: World,
    moves: Moves,
    model: MapChooser | None = None,
    *,
    policies: Sequence[Any] | None = None,
    starts: Count = 5,
    level: Level = 0.95,
) -> tuple[pd.DataFrame, float]:
    """Fits a model to moves. Returns the estimates with profile intervals, and the log-likelihood.

    `model` is a `MapModel` (the default) or a `MapPlanner`. `policies` are the policies that the animal composes; by
    default they are the world's. Raises ValueError if there are no moves, or no policies to compose.
    """
    model = MapModel() if model is None else model
    chosen: Any = world.policies if policies is None else policies
    if len(moves.state) == 0:
        raise ValueError("there are no moves to fit a model to: give the cells and actions of an episode to read_moves")
    if model.needs_policies and len(chosen) == 0:
        raise ValueError(
            f"{type(model).__name__} composes policies, and there are none: name some, policies=[…], or take a world "
            "that has its own"
        )
    names = model.parameters(world)
    rise = stats.chi2.ppf(level, 1) / 2

    def aim(z: Array) -> Array:
        return -log_probability(world, chosen, model, values_at(names, z), moves)

    with jax.enable_x64(True):
        draws = np.random.default_rng(0).normal(size=(starts, len(names)))
        draws[0] = 0.0
        best, ends = jax.jit(partial(minimise_from, aim))(typical_point(names) + jnp.asarray(draws), rise)
        z, ends = np.asarray(best.z), np.asarray(ends)
        model.check(world, values_at(names, jnp.asarray(z)), moves)
        table = describe_estimates(names, z, ends, determined(ends, names))
    return table, -float(best.value)
