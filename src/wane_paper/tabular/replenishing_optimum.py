"""The optimum where rewards grow back with the time since the last visit, by branch and bound over visiting times.

In a deterministic world, the return depends only on which site is entered when. A behaviour is a list of visits (site
i₁ at time t₁, site i₂ at t₂, …) with t_{k+1} − t_k at least the distance between the two sites; the agent waits
elsewhere in between. A visit at time t after n earlier visits to the same site, m steps after the last of them, pays
γᵗ r̄ λ^(n / (rate · m)).

The search extends the most promising list first, until none can beat the best one so far. What can still be earned is
at most the sum over sites of what each would pay alone, if the agent could enter it at any time from the first moment
at which it can be there (`values_alone`, by dynamic programming over visits and the time of the last visit). So the
answer is exact up to `SLACK`. `World.optimum` serves every world and every depletion that grows back, but on TwoRooms,
with a hundred steps, its grid of memories leaves an error of a third.
"""

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from wane.regrowth import Elapsed, TimeElapsed
from wane.worlds.world import World
from wane_paper.common.distances import steps_to_sites

SLACK = 1e-9
"""A list of visits is extended only if it can beat the best list by more than this."""
MOST_LISTS = 2_500
"""The number of lists after which the search gives up. TwoRooms with λ = ½ needs about a thousand."""


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
    search = _Search(world)
    return search.best if search.run(most) else None


def worth_table(depletion: TimeElapsed, horizon: int) -> Float[np.ndarray, "counts waits"]:
    """Returns what a visit pays per unit of r̄ after n visits, the last one m steps ago. A first visit pays 1."""
    counts, waits = np.meshgrid(np.arange(horizon + 2), np.maximum(np.arange(horizon + 2), 1), indexing="ij")
    return np.asarray(depletion.worth(Elapsed(counts, waits)), float)


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


class _Search:
    """The search and the best return that it has found so far."""

    def __init__(self, world: World) -> None:
        assert isinstance(world.depletion, TimeElapsed)
        self.horizon, self.rewards = world.horizon or 0, np.asarray(world.rewards, float)
        self.worth = worth_table(world.depletion, self.horizon)
        self.alone = values_alone(self.worth, world.discount)
        self.pay = world.discount ** np.arange(self.horizon + 1)
        self.steps = _distances(world)
        self.best = 0.0

    def run(self, most: int) -> bool:
        """Extends lists of visits, the most promising first. Returns whether it finished within `most` lists."""
        empty = (0,) * len(self.rewards)
        start = _Visits(0.0, 0, len(self.rewards), empty, empty)
        queue = [(-np.inf, start)]
        for _ in range(most):
            if not queue or -queue[0][0] <= self.best + SLACK:
                return True
            _, visits = heappop(queue)
            for site in range(len(self.rewards)):
                for bound, each in self.next_visits(visits, site):
                    self.best = max(self.best, each.earned)
                    heappush(queue, (-bound, each))
        return False

    def next_visits(self, visits: _Visits, site: int) -> list[tuple[float, _Visits]]:
        """Returns every list with one more visit to a site that can beat the best, with a bound on its total return."""
        times = np.arange(visits.time + self.steps[visits.place, site], self.horizon + 1)
        count, rewards = visits.counts[site], self.rewards
        earned = visits.earned + self.pay[times] * rewards[site] * self.worth[count, times - visits.last[site]]
        bounds = earned.copy()
        for other, reward in enumerate(rewards):
            from_then = np.minimum(times + self.steps[site, other], self.horizon + 1)
            # The site that is entered has one visit more; the visits of the other sites do not change.
            number = count + 1 if other == site else visits.counts[other]
            last = times if other == site else visits.last[other]
            bounds += reward * self.alone[number, last, from_then]
        counts = (*visits.counts[:site], count + 1, *visits.counts[site + 1 :])
        return [
            (
                float(bounds[i]),
                _Visits(float(earned[i]), int(time), site, counts, _replace(visits.last, site, int(time))),
            )
            for i, time in enumerate(times)
            if bounds[i] > self.best + SLACK
        ]


def _replace(numbers: tuple[int, ...], place: int, number: int) -> tuple[int, ...]:
    return (*numbers[:place], number, *numbers[place + 1 :])


def _distances(world: World) -> Int[np.ndarray, "places sites"]:
    """Returns the steps from every site and from the start to every site. Entering the same site again takes one."""
    places = [*map(int, world.sites), int(np.asarray(world.start).argmax())]
    ways = [steps_to_sites(world, place) for place in places]
    return np.array([[way.get(int(site), 1) for site in world.sites] for way in ways])
