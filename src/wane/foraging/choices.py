"""Models of an animal's moves on a map: softmax over Q of the λ representation, with a believed λ̂.

An animal in state s of a world with known sites chooses action a with probability ∝ exp(slope · Q(s, a)), where

    Q(s, a) = max_π Σ_j Φ^π(s, a, j) r_j        (GPI over policies π; one policy is one-step improvement)
    Φ^π(s, a, j) = 1(s = j) + γ λ̂^1(s = j) Σ_s' p(s' | s, a) Φ^π(s', j)

Φ^π of a state is the closed form of `wane.lambda_representation`, and gradients in λ̂ and γ go through it. r_j is what
the animal takes to remain at site j: with sees="remaining" the truth, with sees="count" r̄_j λ̂ⁿ after its n visits.
"""

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
from wane.foraging.models import Parameter
from wane.foraging.newton import LARGEST, minimise, profile_end
from wane.types import AnyArray, ArrayLike
from wane.worlds.world import World


class Moves(NamedTuple):
    """Moves of one animal, step by step: where it was, what it did, and what it knew."""

    state: Int[AnyArray, " steps"]
    action: Int[AnyArray, " steps"]
    visits: Int[AnyArray, "steps sites"]
    """Visits to each site that were paid before the move."""
    remaining: Float[AnyArray, "steps sites"]
    """What truly remained of each reward."""


@dataclass(frozen=True)
class MapModel:
    """Softmax over Q of the λ representation."""

    sees: Literal["remaining", "count"] = "remaining"
    fit_discount: bool = False
    """Whether γ is fitted; otherwise it is the world's."""

    def parameters(self, world: World) -> list[Parameter]:
        """λ̂, the slope, and perhaps γ."""
        size = float(np.abs(np.asarray(world.rewards)).max())
        found = [Parameter("lam", 0.0, 1.0, 0.5), Parameter("slope", 0.0, np.inf, 2.0 / size)]
        return found + [Parameter("discount", 0.0, 1.0, 0.9)] * self.fit_discount


def read_moves(world: World, cells: Sequence[ArrayLike], actions: Sequence[ArrayLike]) -> Moves:
    """The moves of one animal from its episodes: the cell at each step (one more than actions), and the actions.

    Visits are counted as the world pays them: on arrival, or on departure. Raises ValueError for cells and actions that
    do not exist.
    """
    parts = []
    for number, (place, move) in enumerate(zip(cells, actions, strict=True)):
        place, move = np.asarray(place), np.asarray(move)
        if len(place) != len(move) + 1:
            raise ValueError(f"episode {number} has {len(place)} cells and {len(move)} actions: give one cell more")
        for name, values, most in (("cell", place, world.n_states), ("action", move, world.n_actions)):
            bad = (values < 0) | (values >= most)
            if values.dtype.kind not in "iu" or bad.any():
                raise ValueError(f"episode {number}: every {name} is a whole number from 0 to {most - 1}")
        there = place[:, None] == np.asarray(world.sites)
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
    steps = jnp.asarray(_dense(world))
    at_site = (jnp.arange(world.n_states)[:, None] == jnp.asarray(world.sites)).astype(steps.dtype)
    found = []
    for policy in policies:
        kernel = jnp.asarray(_as_array(world.mdp.under(policy)))
        phi = lambda_representation(kernel, lam, discount=discount, sites=world.sites).matrix
        later = jnp.einsum("sat,tj->saj", steps, jnp.asarray(phi))
        here = at_site[:, None, :]
        found.append(here + discount * jnp.where(here > 0, lam, 1.0) * later)
    return jnp.stack(found)


def _as_array(kernel: Any) -> np.ndarray:
    return np.asarray(kernel.toarray() if hasattr(kernel, "toarray") else kernel, float)


def _dense(world: World) -> Float[np.ndarray, "states actions states"]:
    """p(s' | s, a) as one array."""
    each = [_as_array(world.mdp.under(np.full(world.n_states, action))) for action in range(world.n_actions)]
    return np.stack(each, 1)


def log_probability(
    world: World, policies: Sequence[Any], model: MapModel, params: dict[str, Any], moves: Moves
) -> Array:
    """The logarithm of the probability of all moves."""
    lam, discount = params["lam"], params.get("discount", world.discount)
    phi = action_values(world, policies, lam, discount)
    imagined = jnp.asarray(world.rewards) * jnp.power(lam, jnp.asarray(moves.visits))
    reward = jnp.asarray(moves.remaining) if model.sees == "remaining" else imagined
    q = jnp.max(jnp.einsum("ptaj,tj->pta", phi[:, jnp.asarray(moves.state)], reward), 0)
    chosen = jax.nn.log_softmax(params["slope"] * q)
    return jnp.sum(jnp.take_along_axis(chosen, jnp.asarray(moves.action)[:, None], 1))


def fit_moves(
    world: World,
    moves: Moves,
    model: MapModel | None = None,
    *,
    policies: Sequence[Any] | None = None,
    starts: int = 5,
    level: float = 0.95,
) -> tuple[pd.DataFrame, float]:
    """The estimates with profile intervals, and the log-likelihood.

    `policies` are the behaviours that the animal composes; by default the world's own. Raises ValueError if there are
    no moves or no policies.
    """
    model = MapModel() if model is None else model
    chosen: Any = world.policies if policies is None else policies
    if len(chosen) == 0 or len(moves.state) == 0:
        raise ValueError(
            "there are no moves, or there is no policy to compose: name some, or take a world with its own"
        )
    names = model.parameters(world)
    rise = stats.chi2.ppf(level, 1) / 2

    def aim(z: Array) -> Array:
        return -log_probability(world, chosen, model, {p.name: p.value(z[i]) for i, p in enumerate(names)}, moves)

    def solve(begin: Array) -> tuple[Any, Array]:
        found = jax.vmap(partial(minimise, aim))(begin)
        best = jax.tree_util.tree_map(lambda a: a[jnp.nanargmin(found.value)], found)
        ends = jax.vmap(jax.vmap(lambda i, way: profile_end(aim, best, i, way, rise), (None, 0)), (0, None))(
            jnp.arange(len(names)), jnp.array([-1.0, 1.0])
        )
        return best, ends

    with jax.enable_x64(True):
        centre = jnp.stack([p.unbounded(jnp.asarray(p.typical, float)) for p in names])
        draws = np.random.default_rng(0).normal(size=(max(starts, 1), len(names)))
        draws[0] = 0.0
        best, ends = jax.jit(solve)(centre + jnp.asarray(draws))
        z, ends = np.asarray(best.z), np.asarray(ends)
        rows = [[float(p.value(jnp.asarray(x))) for x in (z[i], *ends[i])] for i, p in enumerate(names)]
    table = pd.DataFrame(rows, columns=["value", "low", "high"])
    table.insert(0, "parameter", [p.name for p in names])
    table["identified"] = np.isfinite(ends).all(1) & (np.abs(z) < LARGEST - 1e-6)
    return table, -float(best.value)
