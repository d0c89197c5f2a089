"""A planner on a map: its Q against the exact optimum of `wane.exact`, and λ̂ found again from its tracks."""

import itertools

import jax
import numpy as np
import pytest

from wane import foraging
from wane.depletion import Geometric
from wane.exact.planning import optimum
from wane.foraging.choices import log_probability
from wane.foraging.map_planner import MapPlanner, counted_visits, optimal_values
from wane.worlds import make

SIZES = np.array([13, 13])


@pytest.fixture(scope="module")
def world():
    return make("corridor", length=5, discount=0.7, rewards=[3.0, 1.0])


@pytest.fixture(scope="module")
def program(world):
    steps = MapPlanner().steps(world)
    with jax.enable_x64(True):
        yield jax.jit(lambda lam: optimal_values(world, SIZES, lam, world.discount, steps))


def simulate(world, q, slope, episodes, steps, seed=0):
    """Tracks of a planner whose Q is given by state, action and counts: cells and actions of each episode."""
    rng, table = np.random.default_rng(seed), world.mdp.dense()
    cells, actions = [], []
    for _ in range(episodes):
        cell, visits, track, moves = int(rng.integers(world.n_states)), np.zeros(2, int), [], []
        for _ in range(steps):
            value = slope * q[cell, :, np.ravel_multi_index(tuple(np.minimum(visits, SIZES - 1)), tuple(SIZES))]
            chance = np.exp(value - value.max())
            action = int(rng.choice(world.n_actions, p=chance / chance.sum()))
            track.append(cell)
            moves.append(action)
            cell = int(np.argmax(table[cell, action]))
            visits = visits + (np.asarray(world.sites) == cell)
        cells.append(np.array([*track, cell]))
        actions.append(np.array(moves))
    return cells, actions


@pytest.mark.parametrize("lam", [0.3, 0.6])
def test_q_is_that_of_the_exact_optimum(world, program, lam):
    q = np.asarray(program(lam))
    exact = optimum(
        world.mdp, world.rewards, Geometric(lam), discount=world.discount, sites=world.sites, timing="arrival"
    )
    np.testing.assert_allclose(q.max(1)[:, 0], exact.values, atol=2e-3)
    for state, counts in itertools.product(range(world.n_states), itertools.product(range(3), repeat=2)):
        own = q[state, :, np.ravel_multi_index(counts, tuple(SIZES))]
        assert own[exact.action(state, np.array(counts))] == pytest.approx(own.max(), abs=2e-3)


@pytest.mark.fuzz
def test_a_planner_is_found_again(world, program):
    """Also with a world whose true λ is another one: the planner is told nothing, so only λ̂ matters."""
    cells, actions = simulate(world, np.asarray(program(0.7)), 3.0, episodes=30, steps=12)
    moves = foraging.read_moves(world, cells, actions)
    table, value = foraging.fit_moves(world, moves, MapPlanner(ahead=4), starts=1)
    rows = table.set_index("parameter")
    assert rows["identified"].all()
    assert rows.loc["lam", "low"] < 0.7 < rows.loc["lam", "high"] < rows.loc["lam", "low"] + 0.2
    assert rows.loc["slope", "low"] < 3.0 < rows.loc["slope", "high"]
    by_hand, q = 0.0, np.asarray(program(rows.loc["lam", "value"]))
    for state, action, visits in zip(moves.state, moves.action, counted_visits(world, moves), strict=True):
        own = rows.loc["slope", "value"] * q[state, :, np.ravel_multi_index(tuple(visits), tuple(SIZES))]
        by_hand += own[action] - np.log(np.exp(own - own.max()).sum()) - own.max()
    assert value == pytest.approx(by_hand, abs=0.1), "the same but for the counts that are told apart"


def test_maps_that_are_too_large_are_refused():
    world = make("four-rooms", threshold=None)
    moves = foraging.read_moves(world, [[9] * 41], [[4] * 40])
    with pytest.raises(ValueError, match=r"68 states × .* combinations of visit counts \(up to 47\).*fit MapModel"):
        foraging.fit_moves(world, moves, MapPlanner())
    with pytest.raises(ValueError, match="needs a discount below 1"):
        log_probability(make("corridor", discount=1.0), (), MapPlanner(), {"lam": 0.5, "slope": 1.0}, moves)


def test_too_few_visits_ahead_are_told():
    world = make("corridor", length=5, discount=0.8, rewards=[3.0, 1.0])
    moves = foraging.read_moves(world, [[2, 1, 0, 0, 0, 0, 1, 2, 3, 4, 4]] * 20, [[2, 2, 4, 4, 4, 1, 1, 1, 1, 4]] * 20)
    with pytest.warns(UserWarning, match=r"looking 2 instead of 1 visits ahead changes the log-likelihood"):
        MapPlanner(ahead=1).check(world, {"lam": 0.8, "slope": 8.0}, moves)
