"""The largest sum of rewards in tasks with a few goals on a map, without a search over all visit counts.

Sums without discounting depend on how often each goal is visited, and not on when. So the best episode goes to some of
the goals in some order by shortest paths, and stays at each of them for some steps. Every order leaves a known number
of steps for staying, and as the reward of a goal never grows, these steps go to the largest rewards that remain:

    return = Σ_j r_j + the T − t largest of all r_j λ_jᵏ, k ≥ 1

for an order that reaches its last goal at step t of T. `wane.optimum` finds the same numbers for any depletion and any
discount, a thousand times more slowly.

With three goals or more, a shortest path may pass a goal that was visited before. That visit is paid but not counted
here, so the result is then a lower bound. No best path of the worlds here does so (tested with an upper bound).
"""

from itertools import permutations

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csgraph

from wane.limits import require_memory
from wane.types import AnyArray
from wane.worlds.world import World

MOST_GOALS = 4
"""The largest number of goals for which all orders are tried, unless the caller allows more."""


def best_returns(
    world: World,
    rewards: Float[AnyArray, "tasks states"],
    starts: Int[AnyArray, " tasks"],
    lams: Float[AnyArray, "*states"] | float,
    most_goals: int = MOST_GOALS,
) -> Float[np.ndarray, " tasks"]:
    """Returns the largest sum of rewards that any agent can earn in each task before the horizon of the world.

    The world has no slip, and a site pays on arrival. Every task has the same number of goals, the states with a reward
    above 0. `lams` is one λ for all states, or one for each. Raises ValueError if the tasks have more than
    `most_goals` goals or different numbers of them.
    """
    rewards, starts, horizon = np.asarray(rewards, float), np.asarray(starts), int(world.horizon or 0)
    counts = np.unique((rewards > 0).sum(1))
    if len(counts) != 1 or not 1 <= counts[0] <= most_goals:
        raise ValueError(f"every task needs the same number of goals, 1 to {most_goals}, got {counts.tolist()}")
    goals = np.nonzero(rewards)[1].reshape(len(rewards), counts[0])
    size = (len(rewards), "tasks"), (int(counts[0]) * horizon, "visits")
    require_memory("the rewards of all visits", *size, copies=4, cure="take fewer episodes or a shorter horizon")
    worth = np.take_along_axis(rewards, goals, 1)
    lam = np.broadcast_to(np.asarray(lams, float), (world.n_states,))[goals]
    distances = csgraph.shortest_path(world.map.neighbours(), unweighted=True)
    best = np.zeros(len(rewards))
    for size in range(1, counts[0] + 1):
        for order in permutations(range(counts[0]), size):
            places = goals[:, order]
            # An agent that starts at a goal is paid for staying there, at the first step.
            reached = np.maximum(distances[starts, places[:, 0]], 1)
            reached = reached + distances[places[:, :-1], places[:, 1:]].sum(1)
            found = _with_stays(worth[:, order], lam[:, order], horizon - reached, horizon)
            best = np.maximum(best, np.where(reached <= horizon, found, 0.0))
    return best


def _with_stays(
    worth: Float[np.ndarray, "tasks goals"],
    lam: Float[np.ndarray, "tasks goals"],
    free: Float[np.ndarray, " tasks"],
    horizon: int,
) -> Float[np.ndarray, " tasks"]:
    """Returns the sum of a first visit to each goal and of the best later visits, one for each free step."""
    later = worth[..., None] * lam[..., None] ** np.arange(1, horizon + 1)
    largest = -np.sort(-later.reshape(len(worth), -1), axis=1)
    sums = np.concatenate([np.zeros((len(worth), 1)), np.cumsum(largest, 1)], 1)
    steps = np.clip(np.nan_to_num(free, posinf=0, neginf=0), 0, horizon).astype(int)
    return worth.sum(1) + sums[np.arange(len(worth)), steps]
