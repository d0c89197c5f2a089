"""Agents with the exact Φ and the optimum between patches: when they leave, and where they go."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

import wane
from wane.agents.planner import plan
from wane.depletion import Geometric
from wane.worlds.catalog import patches
from wane.worlds.grid import Map
from wane.worlds.world import World
from wane_paper.common.soft_policies import soft_q_values
from wane_paper.networks import mvt, mvt_tables
from wane_paper.networks.mvt_tables import choices, follow_plan, play_exact


@pytest.fixture(scope="module")
def swept():
    """Settings and exact tables for two λ. The distances are the paper's."""
    settings = mvt_tables.MVT()
    return settings, {"exact_stays": pd.concat([mvt_tables.in_corridors(settings, lam, 0.99) for lam in (0.1, 0.5)])}


def test_q_is_that_of_the_softmax_policy_of_itself():
    world, lam, tau = patches(2, depletion=Geometric(0.5)), 0.5, 3.0
    rewards = np.random.default_rng(0).random(world.n_states)
    transitions = np.stack([world.mdp.action(a).toarray() for a in range(world.n_actions)])
    q = soft_q_values(world, rewards, lam, 0.9, tau)
    kernel = np.einsum("sa,ast->st", softmax(q / tau, axis=1), transitions)
    phi = wane.lambda_representation(kernel, lam, discount=0.9)
    np.testing.assert_allclose(q, phi.q_values(world.mdp, rewards), rtol=1e-9)


def test_exact_agents_leave_as_measured(swept):
    _, tables = swept
    found = mvt_tables.by_lam(tables, mvt_tables.EXACT, 0.99)
    np.testing.assert_allclose(found, [-0.8108, -3.0323], atol=1e-4)
    best = mvt_tables.by_lam(tables, mvt_tables.OPTIMUM, 0.99)
    np.testing.assert_allclose(best[0.5], -1.4, atol=1e-12)
    corrected = mvt_tables.by_lam(tables, mvt_tables.OPTIMUM, 0.99, "corrected")
    np.testing.assert_allclose(corrected[0.5], -0.15, atol=1e-12)


def test_the_plan_is_followed():
    world = patches(2, depletion=Geometric(0.3), horizon=12, discount=0.9, timing="departure")
    best = plan(world)
    _, rewards = follow_plan(world, best)
    np.testing.assert_allclose(0.9 ** np.arange(12) @ rewards, best.values[0], atol=1e-6)
    assert play_exact(world, 200.0)[1].sum() <= 3 / 0.7


def field(rewards, **settings):
    """A room in which three patches lie at unequal distances, so that agents must choose where to go."""
    letters = np.array([list(row) for row in ("##########", "#S.......#", "#a.b....c#", "##########")])
    return World(Map.from_letters(letters), sites="abc", rewards=rewards, start="S", timing="departure", **settings)


def test_choices_are_rated_by_hand():
    """From b with 3 steps remaining, a (2 steps away) can still be reached and c (5 steps away) cannot."""
    world = field((1.0, 2.0, 4.0), depletion=Geometric(0.5), horizon=4, discount=0.9)
    b, on_the_way_to_a, a = 10, 9, 8
    assert [int(cell) for cell in world.sites] == [a, b, 15]
    rated = choices(world, np.array([b, on_the_way_to_a, a, a, a]))
    assert rated.to_dict("records") == [{"time": 0, "site": 1, "went": 0, "right": True}]
    wrong = choices(world, np.array([b, 11, 12, 13, 15]))
    assert wrong["right"].tolist() == [False]


def test_optimum_always_goes_to_the_best_patch():
    world = field((2.0, 1.0, 4.0), depletion=Geometric(0.3), horizon=30, discount=0.99)
    best = plan(world)
    rated = choices(world, follow_plan(world, best)[0])
    assert len(rated) >= 3
    assert rated["right"].all()


def test_between_equal_patches_nothing_is_chosen():
    world = patches(2, depletion=Geometric(0.5), horizon=20, discount=0.9, timing="departure")
    middle = int(world.sites[1])
    assert choices(world, np.array([middle, middle - 1, middle - 2])).empty


def test_verdict_over_lambda(swept):
    """Within one step for λ = 0.1 and beyond it for ½ is undecided; either alone is decided."""
    settings, tables = swept
    learned = tables["exact_stays"].assign(seed=0, timing="departure")
    learned = learned[(learned["agent"] == mvt_tables.EXACT) & (learned["lam"] == 0.5)]
    tables = tables | {"stays": pd.concat([learned, learned.assign(seed=1)])}
    test = mvt.like_the_theorem(0.99)
    assert test(settings, tables).holds is None
    for lam, verdict in ((0.1, True), (0.5, False)):
        rows = tables["exact_stays"]
        assert test(settings, tables | {"exact_stays": rows[rows["lam"] == lam]}).holds is verdict
    assert mvt.like_exact_agents(settings, tables).estimate == 0


def test_without_discounts_below_one_there_is_nothing_exact():
    settings = mvt_tables.MVT(discounts=(1.0,))
    assert mvt_tables.exact_stays(settings).empty
