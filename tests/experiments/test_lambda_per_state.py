"""Agents in a corridor in which every site has a λ of its own."""

import numpy as np
import pytest

from wane.agents.planner import plan
from wane.experiments.tabular.lambda_per_state import OWN_LAMBDAS, LambdaPerState, exact_return


@pytest.mark.parametrize("believed", [OWN_LAMBDAS, (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)])
def test_exact_agents_earn_no_more_than_the_optimum(believed):
    world = LambdaPerState(horizon=8).world
    best = float(np.asarray(world.start) @ plan(world).values)
    assert 0 < exact_return(world, believed) <= best + 1e-6


def test_what_each_site_leaves_is_counted_by_hand():
    """With five steps the agent that knows each λ takes b at step 2 and c from step 4 on."""
    world, gamma = LambdaPerState(horizon=5).world, 0.95
    by_hand = 2 * gamma**2 + 3 * gamma**4 + 3 * 0.9 * gamma**5
    assert exact_return(world, OWN_LAMBDAS) == pytest.approx(by_hand)
