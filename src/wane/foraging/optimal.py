"""When it is best to leave: trajectory tables of the optimal policy.

The marginal value theorem is a rule of thumb. It knows the rate of reward. It does not know where the next patch is,
what remains there, or that time runs out. Where a world is small enough for `wane.optimum`, the optimal policy over
(state × visit counts) is known, and with it the best times to leave.
"""

from typing import Any

import jax
import pandas as pd

from wane.agents.planner import follow, plan
from wane.foraging.door import Seed, at_the_door
from wane.foraging.leaving import leaving_times
from wane.foraging.trajectory import table_from_rollout
from wane.settings import Count, Positive
from wane.types import Integer
from wane.worlds.world import World

Start = Integer | tuple[int, int] | str | None
"""A state number, a (row, column), a letter on the map, or None for the world's own start."""


@at_the_door
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
