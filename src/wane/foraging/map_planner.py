"""A model of an animal that plans its moves on a map: softmax over the optimal Q, with a believed λ̂.

The animal knows the map and the sites, counts its own visits, and believes that each visit leaves a fraction λ̂ of a
reward. In state s, with c the visits to all sites so far (the present one included), it chooses action a with
probability ∝ exp(slope · Q(s, c, a)), where Q solves the task over (state × visit counts) without an end:

    Q(s, c, a) = γ E[ r̄(s') λ̂^c(s') + A(s', c⁺(s')) − cost(s, a) ],    A(s, c) = max_a Q(s, c, a),    s' ~ p(·|s, a)

c⁺(s') has one more visit at the site in s', and cost(s, a) is the expected cost of bumping into walls. Visits are
counted up to m, the largest count in the data plus `ahead`. From there on every visit pays r̄ λ̂^m (1 − γ) / (1 − γ λ̂)
so that staying forever has the same value as with unlimited counts. To see whether this is good enough,
`MapPlanner.check` computes the likelihood with twice as many visits ahead.

Q comes from a fixed number of steps of value iteration in JAX, enough that γ to their power is below 10⁻⁶. Gradients go
through these steps: at the optimum, a change of the best action does not matter to first order. The table has states ×
(m + 1)^sites entries, so this is a model for small maps with few sites.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from wane.foraging.arguments import check_fields
from wane.foraging.choices import MapChooser, Moves, log_probability, map_parameters
from wane.foraging.models import Parameter, Params
from wane.settings import Count
from wane.worlds.world import World

MOST_PAIRS = 200_000
"""The largest number of pairs (state, visit counts) for which a table is solved."""
MOST_DISCOUNT = 0.97
"""The largest γ that is fitted, so that the number of steps of value iteration is known."""
NEGLIGIBLE = 1e-6


@dataclass(frozen=True)
class MapPlanner(MapChooser):
    """Softmax over the optimal Q of a forager that counts its visits and believes in λ̂."""

    ahead: Count = 8
    """How many visits to a site are counted beyond those that the animal made."""
    fit_discount: bool = False
    """Whether γ is fitted, between 0 and 0.97; otherwise it is the world's, which must be below 1."""

    def __post_init__(self) -> None:
        check_fields(self)

    def parameters(self, world: World) -> list[Parameter]:
        """The parameters: λ̂, the slope, and γ if it is fitted."""
        return map_parameters(world, self.fit_discount, MOST_DISCOUNT)

    def values(
        self, world: World, policies: Sequence[Any], params: Params, moves: Moves
    ) -> Float[Array, "steps actions"]:
        """Q at every move; `policies` are not used. Raises ValueError if the map is too large, or if γ is 1."""
        visits = counted_visits(world, moves)
        sizes = visits.max(0) + self.ahead + 1
        q = optimal_values(world, sizes, params["lam"], params.get("discount", world.discount), self.steps(world))
        return q[np.asarray(moves.state), :, np.ravel_multi_index(tuple(visits.T), tuple(sizes))]

    def steps(self, world: World) -> int:
        """The number of steps of value iteration. Raises ValueError if γ is 1, for which no number is enough."""
        largest = MOST_DISCOUNT if self.fit_discount else float(world.discount)
        if largest >= 1:
            raise ValueError(
                "MapPlanner plans without an end, which needs a discount below 1, and the world's is 1: make the world "
                "with another discount, or fit it, MapPlanner(fit_discount=True)"
            )
        return int(np.ceil(np.log(NEGLIGIBLE) / np.log(max(largest, NEGLIGIBLE)))) + 1

    def check(self, world: World, params: Params, moves: Moves) -> None:
        """Warns if looking twice as many visits ahead changes the log-likelihood by more than 0.1."""
        further = MapPlanner(2 * self.ahead, self.fit_discount)
        try:
            values = [float(log_probability(world, (), each, params, moves)) for each in (self, further)]
        except ValueError:
            return  # The table for twice as many visits ahead would be too large, so nothing can be compared.
        if abs(values[1] - values[0]) > 0.1:
            warnings.warn(
                f"looking {2 * self.ahead} instead of {self.ahead} visits ahead changes the log-likelihood from "
                f"{values[0]:.2f} to {values[1]:.2f}: fit MapPlanner(ahead={2 * self.ahead})",
                stacklevel=3,
            )


def counted_visits(world: World, moves: Moves) -> Int[np.ndarray, "steps sites"]:
    """Visits to each site before every move, the present one included."""
    visits = np.asarray(moves.visits)
    if world.timing == "departure":
        visits = visits + (world.site_of[np.asarray(moves.state)][:, None] == np.arange(world.n_sites))
    return visits


def optimal_values(
    world: World, sizes: Int[np.ndarray, " sites"], lam: Any, discount: Any, steps: int
) -> Float[Array, "states actions combinations"]:
    """Q(s, c, a) as (state, action, combination of counts), where site i is counted from 0 to sizes[i] − 1.

    Combinations are in the order of `np.ravel_multi_index`. Raises ValueError if there are too many.
    """
    combinations = int(np.prod(sizes, dtype=object))
    if world.n_states * combinations > MOST_PAIRS:
        raise ValueError(
            f"{world.n_states} states × {combinations} combinations of visit counts (up to {sizes.max() - 1}) are more "
            f"than {MOST_PAIRS} pairs: take a smaller map, fewer sites, shorter episodes or a smaller `ahead`, or fit "
            "MapModel, which has no such limit"
        )
    counts = np.stack(np.unravel_index(np.arange(combinations), tuple(sizes)))
    after = np.tile(np.arange(combinations), (world.n_states, 1))
    pay: Any = jnp.zeros((world.n_states, combinations))
    tail = (1 - discount) / (1 - discount * lam)
    for i, states in enumerate(world.patches):
        stride = int(np.prod(sizes[i + 1 :], dtype=np.int64))
        last = counts[i] == sizes[i] - 1
        after[states] += np.where(last, 0, stride)
        pay = pay.at[states].add(world.rewards[i] * jnp.power(lam, counts[i]) * jnp.where(last, tail, 1.0))
    to, chance = _successors(world)
    costs = np.asarray(world.action_costs)[:, :, None]

    def backup(best: Array) -> Array:
        """Returns Q, given A."""
        arrival = pay + jnp.take_along_axis(best, jnp.asarray(after), 1)
        return discount * (jnp.einsum("sak,sakc->sac", chance, arrival[to]) - costs)

    def step(best: Array, _: None) -> tuple[Array, None]:
        return backup(best).max(1), None

    best = jax.lax.scan(step, jnp.zeros_like(pay), None, length=steps)[0]
    return backup(best)


def _successors(
    world: World,
) -> tuple[Int[np.ndarray, "states actions successors"], Float[np.ndarray, "states actions successors"]]:
    """The states to which each action can lead, and their probabilities; unused places have probability 0."""
    chance = np.asarray(world.mdp.dense(), float)
    most = int((chance > 0).sum(-1).max())
    to = np.argsort(-chance, axis=-1, kind="stable")[..., :most]
    return to, np.take_along_axis(chance, to, -1)
