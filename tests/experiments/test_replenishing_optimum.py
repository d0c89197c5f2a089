"""The optimum over visiting times, where rewards grow back, against the optimum over memories on small worlds."""

import pytest

from wane.regrowth import TimeElapsed
from wane.worlds.catalog import corridor
from wane_paper.tabular.replenishing_q import EXPERIMENT, ReplenishingQ, best_return


@pytest.mark.parametrize(("lam", "rate", "discount"), [(0.5, 0.3, 0.9), (0.2, 1.0, 0.99), (0.9, 0.1, 0.5)])
def test_visiting_times_and_memories_give_the_same_optimum(lam, rate, discount):
    world = corridor(5, rewards=[1.0, 3.0], depletion=TimeElapsed(lam, rate), horizon=10, discount=discount)
    best = world.optimum(grid=100)
    assert best.error < 1e-9
    assert best_return(world) == pytest.approx(float(world.start @ best.values), abs=1e-6)


def test_too_long_a_search_is_given_up():
    world = corridor(5, depletion=TimeElapsed(0.5, 0.3), horizon=10)
    assert best_return(world, most=2) is None


@pytest.mark.fuzz
def test_optimum_in_two_rooms():
    """An agent of the kept run attains it."""
    settings = EXPERIMENT.paper
    assert isinstance(settings, ReplenishingQ)
    assert best_return(settings.world) == pytest.approx(8.324015880880848, abs=1e-9)
