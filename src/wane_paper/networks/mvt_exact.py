"""What λO-FB would do if it had learned Φ exactly, what the optimum does, and where each of them goes next.

An agent that acts by λO-FB takes argmax_a Q(s, a) of the policy that is the softmax of this Q, for the remaining
rewards:

    Q = Φ_λ^π r,    π(·|s) = softmax(Q(s, ·) / τ),    Φ_λ(s, a, s') = 1(s = s') (1 + λγ E Φ) + γ 1(s ≠ s') E Φ

With the exact Φ this is a fixed point, which is found by iteration. The worlds here are deterministic, so one episode
describes an agent completely, and nothing depends on a seed.

**Where to go.** When an agent leaves a patch, it could go to any other patch that is reached without crossing a third
one. Going there by the shortest path and following the optimum from then on is worth V; the choice is right if no other
patch is worth more. Moments at which all patches are worth the same, or only one can be reached, are not counted.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from wane.depletion import Geometric
from wane.exact.planning import Optimum
from wane.exact.product import strides_of
from wane.worlds.world import World
from wane_paper.common.distances import steps_to_sites
from wane_paper.common.soft_policies import TIE, first_best, soft_q_values

Visits = Int[np.ndarray, " states"]
"""How often each state was visited."""


class Run(NamedTuple):
    """The cells and the rewards of one episode."""

    cells: Int[np.ndarray, " moments"]
    rewards: Float[np.ndarray, " steps"]


def play_exact(world: World, temperature: float) -> Run:
    """Plays the episode of the agent with the exact Φ. Among equally good actions it takes the first."""
    lam, fresh = lam_of(world), _fresh_rewards(world)

    def act(time: int, cell: int, visits: Visits) -> int:
        return first_best(soft_q_values(world, fresh * lam**visits, lam, world.discount, temperature)[cell])

    return _play(world, act, 0, _start(world), np.zeros(world.n_states, int))


def follow_plan(world: World, best: Optimum) -> Run:
    """Plays the optimal episode."""
    return _follow_from(world, best, 0, _start(world), np.zeros(world.n_states, int))


def choices(world: World, best: Optimum, cells: Int[np.ndarray, " moments"]) -> pd.DataFrame:
    """Returns one row for every departure at which the patches that could be reached were worth different amounts.

    The columns are `time`, the `site` that was left, the next patch (`went`), and whether no other patch is worth more
    (`right`).
    """
    sites = [int(cell) for cell in world.sites]
    ways = {cell: steps_to_sites(world, cell) for cell in sites}
    visits, rows = np.zeros(world.n_states, int), []
    for time, cell in enumerate(map(int, cells[:-1])):
        visits[cell] += 1
        leaves = cell in sites and int(cells[time + 1]) != cell
        went = next((int(each) for each in cells[time + 1 :] if each in sites and each != cell), None)
        if leaves and went in ways[cell]:
            worth = {site: _worth(world, best, time, site, steps, visits) for site, steps in ways[cell].items()}
            good = [site for site, each in worth.items() if each >= max(worth.values()) * (1 - TIE)]
            if len(good) < len(worth):
                rows.append((time, sites.index(cell), sites.index(went), went in good))
    return pd.DataFrame(rows, columns=["time", "site", "went", "right"]).astype({"right": bool})


def _worth(world: World, best: Optimum, time: int, site: int, steps: int, visits: Visits) -> float:
    """Returns the value of going to a patch at a time, discounted to that time, if the optimum is followed after it."""
    rewards = _follow_from(world, best, time + steps, site, visits).rewards
    return float(world.discount**steps * (world.discount ** np.arange(len(rewards)) @ rewards))


def _follow_from(world: World, best: Optimum, time: int, cell: int, visits: Visits) -> Run:
    """Plays the optimum from a time and a cell on, given the visits made before."""
    strides, caps = strides_of(best.levels), np.array(best.caps, int)

    def act(time: int, cell: int, visits: Visits) -> int:
        # A plan counts the present visit among the visits made.
        counts = np.minimum(visits[world.sites] + (world.sites == cell), caps)
        return int(best.policy[min(time, len(best.policy) - 1), cell, int(strides @ counts)])

    return _play(world, act, time, cell, visits)


def _play(world: World, act: Callable[[int, int, Visits], int], time: int, cell: int, visits: Visits) -> Run:
    """Plays an episode from a time and a cell until the horizon. Every step pays for the state that it leaves.

    In `act(time, cell, visits)`, `visits` counts the visits before the present one.
    """
    lam, fresh, visits = lam_of(world), _fresh_rewards(world), visits.copy()
    cells, rewards = [cell], []
    for now in range(time, world.horizon or 0):
        action = act(now, cell, visits)
        rewards.append(fresh[cell] * lam ** visits[cell])
        visits[cell] += 1
        cell = int(world.tables.next_states[cell, action])
        cells.append(cell)
    return Run(np.array(cells), np.array(rewards, float))


def lam_of(world: World) -> float:
    """Returns the λ of a world in which every site has the same λ."""
    assert isinstance(world.depletion, Geometric)
    return float(np.asarray(world.depletion.lam))


def _start(world: World) -> int:
    return int(np.searchsorted(world.start_cumulated, 0.5, side="right"))


def _fresh_rewards(world: World) -> Float[np.ndarray, " states"]:
    """Returns r̄ of every state."""
    rewards = np.zeros(world.n_states)
    rewards[world.sites] = np.asarray(world.rewards)
    return rewards
