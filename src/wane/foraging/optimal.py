"""When it is truly best to leave: the optimum over (state × visit counts), rolled out.

The marginal value theorem is a rule of thumb. It knows the rate of reward, but not where the next patch is, what is
left there, nor that time runs out. Where a world is small enough for `wane.optimum`, the best policy of all is known,
and with it when to leave.
"""

import dataclasses
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from wane.agents.episode import Episode, play
from wane.depletion import Diminishing
from wane.exact.optimum import Optimum, optimum
from wane.foraging.leaving import leaving_times
from wane.foraging.trajectory import table_from_rollout
from wane.worlds.world import World


def optimal_table(
    world: World, start: Any = None, *, episodes: int = 1, seed: int = 0, tolerance: float = 1e-6
) -> pd.DataFrame:
    """The trajectory table of the optimal policy, from a given place or from the world's start.

    Episodes last until the horizon; a `threshold` that would end them earlier is left out of account. More than one
    episode is of use where the world slips or starts at random. `tolerance` is that of `wane.optimum`.
    """
    if episodes < 1:
        raise ValueError(f"episodes is 1 or more, got {episodes}")
    played = follow(jax.random.split(jax.random.key(seed), episodes), world, plan(world, tolerance=tolerance), start)
    return table_from_rollout(world, played.cells, played.rewards)


def optimal_leaving_times(world: World, start: Any = None, **settings: Any) -> pd.DataFrame:
    """When the optimal policy leaves each site; settings as in `optimal_table`."""
    return leaving_times(optimal_table(world, start, **settings))


def plan(world: World, believed: Diminishing | None = None, *, tolerance: float = 1e-6) -> Optimum:
    """`wane.optimum` of a world until its horizon, or of what it would be with another depletion."""
    if world.horizon is None:
        raise ValueError("an episode needs an end: give the world a horizon, dataclasses.replace(world, horizon=…)")
    if world.horizon == 1 and world.timing == "departure":
        raise ValueError("one reward, paid at departure, leaves nothing to decide: give the world a longer horizon")
    bumps = -world.wall_penalty * (1 - world.slip) * world.map.bumps(world.n_actions)
    return optimum(
        world.mdp,
        world.rewards,
        cast(Diminishing, world.depletion if believed is None else believed),
        discount=world.discount,
        sites=world.sites,
        horizon=world.horizon,
        timing=world.timing,
        action_rewards=bumps if world.wall_penalty else None,
        tolerance=tolerance,
    )


def follow(keys: jax.Array, world: World, best: Optimum, start: Any = None) -> Episode:
    """Episodes of a plan, which goes by the time and by the agent's own visits, one for each key."""
    world, caps, sites = dataclasses.replace(world, threshold=None), np.array(best.caps), jnp.asarray(world.sites)
    fresh, late = (jnp.zeros((), int), jnp.zeros(world.n_sites, int)), world.timing == "departure"

    def episode(key, policy):
        def act(seen, cell, left, draws):
            time, visits = seen
            # A plan counts the present visit as made: on arrival it is, at departure not yet.
            visits = visits + (sites == cell) if late else visits
            return policy[(jnp.minimum(time, len(policy) - 1), cell, *jnp.minimum(visits, caps))]

        def count(seen, step, draws):
            time, visits = seen
            return time + 1, visits + (sites == (step.cell if late else step.next_cell))

        return play(key, world, act, fresh, count, start=start)[1]

    # The policy, which may be large, goes in as an argument: as a constant it would be compiled into the program.
    return jax.jit(jax.vmap(episode, (0, None)))(keys, jnp.asarray(best.policy))
