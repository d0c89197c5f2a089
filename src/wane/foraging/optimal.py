"""When it is best to leave a site of a world, and how long agents stay that believe in a wrong λ̂.

The marginal value theorem is a rule of thumb. It knows the rate of reward. It does not know where the next patch is,
what remains there, or that time runs out. Where a world is small enough for `wane.optimum`, the optimal policy over
(state × visit counts) is known, and with it the best times to leave.

The paper suggests (section 6) that too large a λ̂ may explain why animals overstay in depleted patches. Whether it does
depends on what the agent sees:

- "plan" does not see what remains. It follows the plan that would be best if λ̂ were true, over (state × its visits).
- "imagine" does not see it either. It is GPI with Φ_λ̂ over the policies that walk to each site, and it computes what
  remains with λ̂ from its own visits.
- "gpi" is the paper's agent. It is GPI as well, but it sees at every step what remains of every reward.

The first two overstay when λ̂ is too large, and for λ̂ = 1 they never leave. The paper's agent does the opposite: the
further λ̂ is above the true λ, the earlier it leaves. It knows what remains at its site, and is wrong only about what
comes after, where a larger λ̂ favours the fuller patch elsewhere.
"""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, Int

from wane.agents import gpi
from wane.agents.common.policy import Policy, no_draws
from wane.agents.common.rollout import Episode, play
from wane.agents.planner import follow, plan
from wane.checks import check_range
from wane.depletion import Geometric
from wane.foraging.arguments import Seed, check_arguments
from wane.foraging.leaving import bouts, leaving_times
from wane.foraging.trajectory import Values, table_from_rollout
from wane.settings import Count, Positive
from wane.types import AnyArray, Integer, Scalar
from wane.worlds.catalog import shortest_paths
from wane.worlds.process import at_site, single_states
from wane.worlds.world import World

Agent = Literal["plan", "imagine", "gpi"]
Beliefs = Float[np.ndarray, " beliefs"]
Start = Integer | tuple[int, int] | str | None
"""A state number, a (row, column), a letter on the map, or None for the world's own start."""


@check_arguments
def optimal_table(
    world: World, start: Start = None, *, episodes: Count = 1, seed: Seed = 0, tolerance: Positive = 1e-6
) -> pd.DataFrame:
    """The trajectory table of the optimal policy, from a given place or from the world's start.

    Episodes last until the horizon; a `threshold` that would end them earlier is ignored. More than one episode is
    useful where the world slips or starts at random. `tolerance` is that of `wane.optimum`.
    """
    played = follow(jax.random.split(jax.random.key(seed), episodes), world, plan(world, tolerance=tolerance), start)
    return table_from_rollout(world, played.cells, played.rewards)


def optimal_leaving_times(world: World, start: Start = None, **settings: Any) -> pd.DataFrame:
    """When the optimal policy leaves each site. The settings are those of `optimal_table`."""
    return leaving_times(optimal_table(world, start, **settings))


@check_arguments
def overstaying(
    world: World,
    believed: Values,
    *,
    agent: Agent = "plan",
    policies: Sequence[Values] | np.ndarray | None = None,
    start: Start = None,
    tolerance: Positive = 1e-4,
) -> pd.DataFrame:
    """One row for each λ̂ and each site the agent goes to: the steps of its first stay, and how many more than optimal.

    `censored` means that the episode ended before the agent left. `optimal` is missing for sites to which the optimal
    policy does not go. `value` and `optimal_value` are discounted returns of the episode; their difference is the cost
    of the wrong belief. GPI composes `policies`, by default the shortest paths to each site. `tolerance` is that of
    `wane.optimum`. Raises ValueError if the world slips, or if its start is random and no `start` is given.
    """
    beliefs = np.atleast_1d(np.asarray(believed, float))
    check_range("believed", beliefs, 0, 1, "λ̂ is the fraction of a reward that a visit leaves, as the agent thinks")
    if world.slip or (start is None and np.count_nonzero(world.start) > 1):
        raise ValueError("overstaying follows one certain episode: take a world with slip=0, and name its start")
    world = dataclasses.replace(world, threshold=None)
    best = _follow_plans(world, [None], start, tolerance)
    if agent == "plan":
        episodes = _follow_plans(world, [Geometric(lam) for lam in beliefs], start, tolerance)
    else:
        episodes = _compose(world, beliefs, agent == "gpi", policies, start)
    found = _first_stays(world, episodes, beliefs)
    optimal = _first_stays(world, best, np.full(1, np.nan)).set_index("site")
    found["optimal"] = found["site"].map(optimal["steps"])
    found["overstay"] = found["steps"] - found["optimal"]
    return found.assign(optimal_value=float(best.value[0]))[
        ["believed", "site", "steps", "optimal", "overstay", "censored", "value", "optimal_value"]
    ]


def _follow_plans(world: World, beliefs: Sequence[Geometric | None], start: Start, tolerance: float) -> Episode:
    """One episode of the plan for each belief; None stands for the world's own depletion."""
    keys = jax.random.key(0)[None]
    played = [follow(keys, world, plan(world, belief, tolerance=tolerance), start) for belief in beliefs]
    return jax.tree_util.tree_map(lambda *parts: jnp.concatenate(parts), *played)


def _compose(
    world: World, beliefs: Beliefs, sees: bool, policies: Sequence[Values] | np.ndarray | None, start: Start
) -> Episode:
    """One episode of GPI for each belief. GPI `sees` what remains of the rewards, or imagines it."""
    if policies is None:
        sites = single_states(world, "composing policies")
        policies = [shortest_paths(world.map, int(site), world.n_actions) for site in sites]
    phis = np.stack([gpi.representations(world, policies, Geometric(lam)) for lam in beliefs])

    def episode(phi: Any, lam: Any) -> Episode:
        policy = gpi.composed(phi, world) if sees else imagining(phi, lam, world)
        return play(jax.random.key(0), world, policy, start=start)[1]

    return jax.jit(jax.vmap(episode))(phis, beliefs)


class Visits(NamedTuple):
    """What an agent carries along that imagines what remains."""

    time: Int[Array, ""]
    visits: Int[Array, " sites"]
    """Visits to each site before the present state."""


def imagining(phi: Float[AnyArray, "policies states actions sites"], lam: Scalar, world: World) -> Policy:
    """GPI that does not see what remains of the rewards, but computes it with λ̂ = `lam` from its own visits."""
    params = jnp.asarray(phi), jnp.asarray(lam), jnp.asarray(world.rewards)
    fresh = Visits(jnp.zeros((), jnp.int32), jnp.zeros(world.n_sites, jnp.int32))
    return Policy(partial(_act, world), params, fresh, draw=no_draws, observation="index")


def _act(
    world: World, params: Any, carry: Visits, cell: Int[Array, ""], key: None
) -> tuple[Int[Array, ""], Visits, None]:
    phi, lam, rewards = params
    on_departure = world.timing == "departure"
    # A world that pays on arrival has paid for the present visit, unless this is the start of the episode. A world that
    # pays on departure will pay for the present visit in the coming step, so the visit counts from then on.
    visits = carry.visits + (at_site(world.site_of, cell, world.n_sites) & (on_departure | (carry.time > 0)))
    paid = carry.visits if on_departure else visits
    action = gpi.greedy_action(phi[:, cell], rewards * Geometric(lam).worth(paid))
    return action, Visits(carry.time + 1, visits), None


def _first_stays(world: World, episodes: Episode, beliefs: Beliefs) -> pd.DataFrame:
    """The first stay at each site, for each episode."""
    table = table_from_rollout(world, episodes.cells, episodes.rewards)
    stays = bouts(table).drop_duplicates(["episode", "site"]).reset_index(drop=True)
    number = stays["episode"].to_numpy(int)
    return stays[["site", "steps", "censored"]].assign(
        believed=beliefs[number], value=np.asarray(episodes.value, float)[number]
    )
