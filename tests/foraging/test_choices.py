"""Models of moves on a map, against the exact representation and a plain loop."""

import numpy as np
import pytest

from wane import foraging
from wane.agents import gpi
from wane.depletion import Geometric
from wane.foraging.choices import MapModel, action_values, log_probability
from wane.worlds import make


@pytest.fixture(scope="module")
def world():
    return make("four-rooms", threshold=None)


def simulate(world, lam, slope, steps, seed=0):
    """One episode of an animal that is told what remains: cells and actions."""
    rng = np.random.default_rng(seed)
    phi, kernels = gpi.representations(world, depletion=Geometric(lam)), world.mdp.dense().swapaxes(0, 1)
    cell, cells, actions, visits = int(np.argmax(world.start)), [], [], np.zeros(world.n_sites, int)
    for _ in range(steps):
        remaining = world.rewards * world.depletion.worth(visits)
        q = (phi[:, cell] @ remaining).max(0)
        chance = np.exp(slope * (q - q.max()))
        action = int(rng.choice(world.n_actions, p=chance / chance.sum()))
        row = kernels[action, cell]
        cells.append(cell)
        actions.append(action)
        cell = int(rng.choice(world.n_states, p=row))
        visits = visits + (np.asarray(world.sites) == cell)
    return np.array([*cells, cell]), np.array(actions)


def test_action_values_are_the_exact_ones(world):
    found = action_values(world, world.policies, 0.6, world.discount)
    np.testing.assert_allclose(found, gpi.representations(world, depletion=Geometric(0.6)), atol=1e-10)


def test_the_likelihood_is_that_of_a_plain_loop(world):
    cells, actions = simulate(world, 0.7, 1.0, 300)
    moves = foraging.read_moves(world, [cells], [actions])
    assert repr(moves) == f"Moves(300 moves, {world.n_sites} sites)"
    phi = gpi.representations(world, depletion=Geometric(0.3))
    by_hand = 0.0
    for s, a, remaining in zip(moves.state, moves.action, moves.remaining, strict=True):
        q = 0.8 * (phi[:, s] @ remaining).max(0)
        by_hand += q[a] - np.log(np.exp(q - q.max()).sum()) - q.max()
    params = {"lam": 0.3, "slope": 0.8}
    assert float(log_probability(world, world.policies, MapModel(), params, moves)) == pytest.approx(by_hand, abs=1e-6)


@pytest.mark.fuzz
def test_believed_lambda_is_found(world):
    moves = foraging.read_moves(world, *([each] for each in simulate(world, 0.7, 1.0, 300)))
    table, _ = foraging.fit_moves(world, moves, starts=2)
    rows = table.set_index("parameter")
    assert rows.loc["lam", "low"] < 0.7 < rows.loc["lam", "high"]
    assert rows.loc["slope", "low"] < 1.0 < rows.loc["slope", "high"]


def test_bad_moves_are_named(world):
    with pytest.raises(ValueError, match="episode 0 has 2 cells and 2 actions: give one cell more"):
        foraging.read_moves(world, [[0, 1]], [[0, 1]])
    with pytest.raises(ValueError, match=r"episode 0 has the cells \[0, 10000\]: give whole numbers from 0 to"):
        foraging.read_moves(world, [[0, 10_000]], [[0]])
    for cells in ([], [[0, 1], [0, 1]]):
        with pytest.raises(ValueError, match=f"there are cells of {len(cells)} episodes and actions of 1: give a list"):
            foraging.read_moves(world, cells, [[0]])
    with pytest.raises(ValueError, match='sees = counts: "remaining" or "count" is needed; did you mean count?'):
        foraging.MapModel(sees="counts")
