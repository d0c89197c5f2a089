"""TwoRooms with rewards that grow back: Qλ-learning under λ^(n / (0.1 m)), m steps after the last of n visits.

The agents are compared with the optimum over all visiting times. In a deterministic world, the return depends only on
which site is entered when. A behaviour is a list of visits (site i₁ at time t₁, site i₂ at t₂, …) with t_{k+1} − t_k at
least the distance between the two sites; the agent waits elsewhere in between. A visit at time t after n earlier visits
to the same site, m steps after the last of them, pays γᵗ r̄ λ^(n / (rate · m)).

The search extends the most promising list first, until none can beat the best one so far. What can still be earned is
at most the sum over sites of what each would pay alone, if the agent could enter it at any time from the first moment
at which it can be there (`values_alone`, by dynamic programming over visits and the time of the last visit). So the
answer is exact up to `SLACK`. `World.optimum` serves every world and every depletion that grows back, but on TwoRooms,
with a hundred steps, its grid of memories leaves an error of a third.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from wane.depletion import Depletion
from wane.lab import Experiment, Tables
from wane.regrowth import Elapsed, TimeElapsed
from wane.settings import Count, Positive
from wane.worlds.world import World
from wane_paper.common.episodes import steps_to_sites
from wane_paper.common.learning import Learning, claims, draw, films, seeded
from wane_paper.texts import texts

SLACK = 1e-9
"""A list of visits is extended only if it can beat the best list by more than this."""
MOST_LISTS = 2_500
"""The number of lists after which the search gives up. TwoRooms with λ = ½ needs about a thousand."""


@dataclass(frozen=True)
class ReplenishingQ(Learning):
    """Settings of replenishing-q."""

    seeds: Count = 5
    """independent repetitions, numbered from 0"""
    rate: Positive = 0.1
    """how fast rewards grow back"""

    @property
    def depletion(self) -> Depletion:
        """The depletion of the world: rewards grow back with the time since the last visit."""
        return TimeElapsed(self.lam, self.rate)


def fixed(settings: ReplenishingQ) -> Tables:
    """Returns the table `optimum`, one row with its return, or nothing if the search for the optimum takes too long."""
    value = best_return(settings.world)
    return {} if value is None else {"optimum": pd.DataFrame({"value": [value]})}


class _Visits(NamedTuple):
    """The properties of a list of visits that matter for later visits."""

    earned: float
    time: int
    place: int
    """The index of the site where the agent is; at the start, the number of sites."""
    counts: tuple[int, ...]
    last: tuple[int, ...]
    """The time of the last visit to each site."""


def best_return(world: World, most: int = MOST_LISTS) -> float | None:
    """Returns the largest return from the start of a world whose rewards pay on arrival and grow back.

    Returns None if the search would have to extend more than `most` lists of visits.
    """
    assert isinstance(world.depletion, TimeElapsed)
    horizon, rewards, steps = world.horizon or 0, np.asarray(world.rewards, float), _distances(world)
    # What a visit pays per unit of r̄ after n visits, the last one m steps ago. A first visit pays 1.
    counts, waits = np.meshgrid(np.arange(horizon + 2), np.maximum(np.arange(horizon + 2), 1), indexing="ij")
    worth = np.asarray(world.depletion.worth(Elapsed(counts, waits)), float)
    pay = world.discount ** np.arange(horizon + 1)
    alone, nothing = values_alone(worth, world.discount), (0,) * len(rewards)

    def longer(visits: _Visits, site: int) -> Iterator[tuple[float, _Visits]]:
        """Yields every list with one more visit to a site, with a bound on its total return."""
        times = np.arange(visits.time + steps[visits.place, site], horizon + 1)
        earned = visits.earned + pay[times] * rewards[site] * worth[visits.counts[site], times - visits.last[site]]
        counts, bounds = _replace(visits.counts, site, visits.counts[site] + 1), earned.copy()
        for other, reward in enumerate(rewards):
            from_then = np.minimum(times + steps[site, other], horizon + 1)
            bounds += reward * alone[counts[other], times if other == site else visits.last[other], from_then]
        for bound, paid, time in zip(bounds.tolist(), earned.tolist(), times.tolist(), strict=True):
            yield bound, _Visits(paid, time, site, counts, _replace(visits.last, site, time))

    best, queue = 0.0, [(-np.inf, _Visits(0.0, 0, len(rewards), nothing, nothing))]
    for _ in range(most):
        if not queue or -queue[0][0] <= best + SLACK:
            return best
        _, visits = heappop(queue)
        for site in range(len(rewards)):
            for bound, each in longer(visits, site):
                best = max(best, each.earned)
                if bound > best + SLACK:
                    heappush(queue, (-bound, each))
    return None


def values_alone(
    worth: Float[np.ndarray, "counts waits"], discount: float
) -> Float[np.ndarray, "counts last earliest"]:
    """Returns the most that a site with r̄ = 1 can pay if it was visited n times, last at time u, from time t on.

    The entry [n, u, t] allows any times of entering the site, at least one step apart.
    """
    horizon = len(worth) - 2
    times = np.arange(horizon + 2)
    values, after = np.zeros((horizon + 2, horizon + 2, horizon + 2)), np.zeros(horizon + 2)
    pay = discount**times * (times <= horizon)
    for n in range(horizon, -1, -1):
        after[:-1] = values[n + 1, times[:-1], times[1:]]
        for last in range(horizon + 1):
            entering = np.zeros(horizon + 2)
            entering[last + 1 :] = (pay * worth[n, np.maximum(times - last, 0)] + after)[last + 1 :]
            values[n, last] = np.maximum.accumulate(entering[::-1])[::-1]
    return values


def _replace(numbers: tuple[int, ...], place: int, number: int) -> tuple[int, ...]:
    return (*numbers[:place], number, *numbers[place + 1 :])


def _distances(world: World) -> Int[np.ndarray, "places sites"]:
    """Returns the steps from every site and from the start to every site. Entering the same site again takes one."""
    places = [*map(int, world.sites), int(np.asarray(world.start).argmax())]
    ways = [steps_to_sites(world, place) for place in places]
    return np.array([[way.get(int(site), 1) for site in world.sites] for way in ways])


EXPERIMENT = Experiment(
    **texts("replenishing-q"),
    quick=ReplenishingQ(seeds=64),
    paper=ReplenishingQ(seeds=256),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=claims("appendix J, figure J.2"),
)
