"""The exact λ operator beside the optimum: its claims on tables made by hand, and the reference numbers."""

import heapq

import numpy as np
import pandas as pd
import pytest

from wane_paper.tabular import lambda_operator
from wane_paper.tabular.lambda_operator import ASYMMETRIC, EXPERIMENT, MAPS, Operating, make_world, tasks_of


def made_tables(share, walk):
    """Two λ on every map, with an optimum of 10."""
    rows = [
        {"map": name, "lam": lam, "sweeps": sweeps, "mean_return": 10 * earned, "optimum": 10.0}
        for name in MAPS
        for lam in (0.5, 1.0)
        for sweeps, earned in ((0, walk), (1, share))
    ]
    return {"returns": pd.DataFrame(rows)}


@pytest.mark.parametrize(("share", "walk", "verdict"), [(0.99, 0.3, "holds"), (0.96, 0.6, "fails")])
def test_claims_hold_above_and_fail_below_their_thresholds(share, walk, verdict):
    found = EXPERIMENT.findings(Operating(), made_tables(share, walk))
    assert [each["verdict"] for each in found] == [verdict] * 3


def test_claims_without_data_are_not_tested():
    tables = {"returns": made_tables(0.9, 0.9)["returns"].assign(sweeps=7)}
    assert {each["verdict"] for each in EXPERIMENT.findings(Operating(), tables)} == {"not tested"}


def test_the_asymmetric_map_needs_one_improvement():
    table = lambda_operator.fixed(Operating(maps=(ASYMMETRIC,), lambdas=(0.1, 1.0), sweeps=(0, 1)))["returns"]
    earned = table.set_index(["lam", "sweeps"])
    assert earned.loc[(1.0, 0), "mean_return"] == 90
    assert earned.loc[(1.0, 1), "mean_return"] == earned.loc[(1.0, 1), "optimum"] == 276
    assert earned.loc[(0.1, 1), "mean_return"] > 0.98 * earned.loc[(0.1, 1), "optimum"]


def least_elsewhere(world, start):
    """For each set of sites, as bits, the least number of steps that are not at a site in any walk that visits them."""
    after = [world.mdp.action(i).toarray().argmax(1) for i in range(world.n_actions)]
    bits = {int(site): 1 << i for i, site in enumerate(world.sites)}
    found, heap = {(start, 0): 0}, [(0, start, 0)]
    while heap:
        steps, cell, sites = heapq.heappop(heap)
        for action in after:
            new = int(action[cell])
            node, more = (new, sites | bits.get(new, 0)), steps + (new not in bits)
            if more < found.get(node, np.inf):
                found[node] = more
                heapq.heappush(heap, (more, *node))
    least = {}
    for (_, sites), steps in found.items():
        least[sites] = min(steps, least.get(sites, np.inf))
    return least


@pytest.mark.parametrize(
    "lam", [0.5, *(pytest.param(lam, marks=pytest.mark.fuzz) for lam in (0.0, 0.1, 0.25, 0.75, 0.9, 1.0))]
)
def test_the_optimum_of_the_asymmetric_map_is_an_upper_bound_too(lam):
    """No walk has more steps at the sites that it visits, and none can use them better than for the best rewards."""
    settings = Operating()
    world, tasks = make_world(settings, ASYMMETRIC, lam), tasks_of(settings, ASYMMETRIC)
    bounds = []
    for sites, elsewhere in least_elsewhere(world, int(tasks.starts[0])).items():
        first = [reward for i, reward in enumerate(world.rewards) if sites >> i & 1]
        later = sorted((r * lam**n for r in first for n in range(1, settings.horizon + 1)), reverse=True)
        free = settings.horizon - elsewhere - len(first)
        bounds.append(sum(first) + sum(later[:free]) if free >= 0 else 0.0)
    assert lambda_operator.optimum(settings, ASYMMETRIC, lam, tasks) == pytest.approx(max(bounds), abs=1e-9)
