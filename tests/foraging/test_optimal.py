import itertools

import numpy as np
import pytest

import wane
from wane import foraging
from wane.worlds import make

SETTINGS = dict(length=4, rewards=[1.0, 0.9], depletion=wane.Geometric([0.5, 0.6]), horizon=7)


@pytest.mark.parametrize(("timing", "discount"), [("arrival", 0.9), ("arrival", 1.0), ("departure", 0.9)])
def test_against_all_walks(timing, discount):
    """Every walk of seven steps, left, right or stay; the best one is what is rolled out."""
    world = make("corridor", timing=timing, discount=discount, **SETTINGS)
    moves, lam = world.map.next_states(5), np.array([0.5, 0.6])
    start = int(np.argmax(world.start))
    best, walk = -np.inf, None
    for actions in itertools.product([3, 4, 1], repeat=7):
        cells = [start]
        for action in actions:
            cells.append(int(moves[cells[-1], action]))
        visits, rewards = np.zeros(2, int), []
        for cell in cells[1:] if timing == "arrival" else cells[:-1]:
            here = world.sites == cell
            rewards.append(float((world.rewards * lam**visits)[here].sum()))
            visits += here
        value = float(np.dot(discount ** np.arange(7), rewards))
        if value > best + 1e-9:
            best, walk = value, (cells, rewards)
    table = foraging.optimal_table(world)
    np.testing.assert_allclose((discount ** np.arange(7) * table["reward"]).sum(), best)
    assert walk is not None
    by_hand = foraging.table_from_rollout(world, *walk)
    assert table["site"].fillna(-1).tolist() == by_hand["site"].fillna(-1).tolist()
    np.testing.assert_allclose(table["reward"], by_hand["reward"])
    left = foraging.optimal_leaving_times(world)
    assert left["leaving"].tolist() == foraging.leaving_times(by_hand)["leaving"].tolist()


def test_the_rule_is_not_the_optimum():
    """Three equal patches, 50 steps, as in docs/foraging.md. Undiscounted, the optimum stays for a third of the time in
    each; the rule leaves after four or five steps, however much time there is.
    """
    table = foraging.optimal_table(make("patches-4", discount=1.0))
    found = foraging.leaving_difference(table, 0.5, rule="paper")
    assert found["steps"].tolist() == [15, 14, 14]
    assert found["mvt_steps"].tolist()[:2] == [4, 5]
    assert foraging.mvt_leaving_times(table, 0.5, rule="corrected")["mvt_steps"].tolist()[:2] == [4, 4]


def test_slips_and_starts():
    world = make("corridor", slip=0.3, **SETTINGS)
    table = foraging.optimal_table(world, "1", episodes=3, seed=1)
    assert table.groupby("episode").size().tolist() == [7, 7, 7]
    again = foraging.optimal_table(world, "1", episodes=3, seed=1)
    assert table.equals(again)
    assert table["reward"].groupby(table["episode"]).sum().nunique() > 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(horizon=None), "give the world a horizon"),
        (dict(horizon=1, timing="departure"), "leaves nothing to decide"),
    ],
)
def test_errors(change, message):
    with pytest.raises(ValueError, match=message):
        foraging.optimal_table(make("corridor", **(SETTINGS | change)))


def test_at_least_one_episode():
    with pytest.raises(ValueError, match="episodes = 0: a whole number between 1 and"):
        foraging.optimal_table(make("corridor", **SETTINGS), episodes=0)
