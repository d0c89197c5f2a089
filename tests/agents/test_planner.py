"""The planner earns exactly what the optimum says, on every timing, and acts on its own memory alone."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.agents import planner
from wane.agents.common.rollout import discounts, play
from wane.worlds import make

KEY = jax.random.key(0)


@pytest.mark.parametrize("timing", ["arrival", "departure"])
@pytest.mark.parametrize("name", ["toy", "corridor"])
def test_it_earns_the_optimum(name, timing):
    world = make(name, timing=timing, horizon=8)
    state = planner.init(KEY, world, planner.Config())
    best = world.optimum()
    run = jax.jit(lambda start: play(KEY, world, planner.policy(state, world), start=start)[1].value)
    for start in range(world.n_states):
        np.testing.assert_allclose(run(jnp.asarray(start)), best.values[start], atol=1e-9)


def test_it_plans_with_rewards_that_grow_back():
    """What it earns lies between the value of its plan and the bound above it, also on a coarse grid of memories."""
    for depletion, grid in [(wane.TimeElapsed(0.5), None), (wane.EligibilityTrace(0.4, 0.7), 12)]:
        world = make("corridor", horizon=12, depletion=depletion, timing="departure")
        best = world.optimum(grid=grid)
        start = int(np.argmax(world.start))
        state = planner.init(KEY, world, planner.Config(grid=grid))
        earned = float(play(KEY, world, planner.policy(state, world))[1].value)
        assert best.values[start] - 1e-9 <= earned <= best.values[start] + best.error + 1e-9
        assert (best.error == 0) == (grid is None)


def test_no_sequence_of_actions_is_better():
    world = make("corridor", length=3, horizon=5, rewards=[1.0, 0.7], discount=0.9)
    moves, start = world.map.next_states(5), int(world.start.argmax())
    best = -np.inf
    for actions in itertools.product((1, 3, 4), repeat=5):
        cell, visits, value = start, np.zeros(2, int), 0.0
        for step, action in enumerate(actions):
            cell = moves[cell, action]
            at = world.sites == cell
            value += discounts(world)[step] * float((world.rewards * 0.5**visits)[at].sum())
            visits += at
        best = max(best, value)
    state = planner.init(KEY, world, planner.Config())
    assert float(play(KEY, world, planner.policy(state, world))[1].value) == pytest.approx(best)


def test_a_wrong_belief_earns_less():
    """The toy's left reward is gone after one visit. Who believes that it lasts stays there."""
    world = make("toy")
    right, wrong = (
        planner.follow(KEY[None], world, planner.plan(world, believed)) for believed in (None, wane.Geometric(1.0))
    )
    assert float(right.value[0]) > float(wrong.value[0]) + 5
    left = world.map.find("1")
    assert (np.asarray(wrong.cells[0])[1:] == left).all()


def test_it_is_told_nothing_of_what_remains():
    """Its observation is the state number; in a world where rewards wear off in another way it acts the same."""
    world = make("corridor", horizon=10)
    state = planner.init(KEY, world, planner.Config())
    policy = planner.policy(state, world)
    assert policy.observation == "index"
    other = dataclasses.replace(world, depletion=wane.Geometric(0.0))
    cells = [play(KEY, each, policy)[1].cells.tolist() for each in (world, other)]
    assert cells[0] == cells[1]


def test_a_threshold_is_left_out():
    world = make("corridor", horizon=12, threshold=0.4)
    played = planner.follow(jax.random.split(KEY, 2), world, planner.plan(world))
    assert played.live.shape == (2, 12)
    assert (np.asarray(played.live) == 1).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [(dict(horizon=None), "give the world a horizon"), (dict(horizon=1, timing="departure"), "nothing to decide")],
)
def test_refusals(change, message):
    with pytest.raises(ValueError, match=message):
        planner.init(KEY, make("corridor", **change), planner.Config())
