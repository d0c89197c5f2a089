"""The largest sum of rewards in tasks with a few goals, compared with the optimum over visit counts."""

import dataclasses

import numpy as np
import pytest

from wane.depletion import Geometric
from wane.worlds import make
from wane_paper.networks import task_optima


@pytest.mark.parametrize("lams", [0.0, 0.5, "mixed"])
def test_the_optimum_of_tasks_is_that_over_visit_counts(lams):
    """Short episodes, in which not all goals can be reached, a start at a goal among them."""
    world = dataclasses.replace(make("corridor", length=5), horizon=6, discount=1.0)
    lam = np.linspace(0, 1, world.n_states) if lams == "mixed" else np.full(world.n_states, lams)
    sites, starts = np.array([[0, 4], [1, 3], [2, 0]]), np.array([0, 4, 3])
    rewards = np.zeros((3, world.n_states))
    rewards[np.arange(3)[:, None], sites] = [1.0, 3.0]
    found = task_optima.best_returns(world, rewards, starts, lam)
    for i, places in enumerate(sites):
        task = dataclasses.replace(world, sites=places, rewards=[1.0, 3.0], depletion=Geometric(lam[places]))
        assert found[i] == pytest.approx(task.optimum().values[starts[i]], abs=1e-6)


def test_tasks_with_too_many_goals_are_refused():
    world = dataclasses.replace(make("corridor", length=5), horizon=6)
    with pytest.raises(ValueError, match=r"every task needs the same number of goals, 1 to 4, got \[5\]"):
        task_optima.best_returns(world, np.ones((2, 5)), np.zeros(2, int), 0.5)
