import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wane import foraging
from wane.foraging.leaving import find_stays


def test_by_hand():
    table = pd.DataFrame(
        {
            "episode": [0] * 6 + [1] * 3,
            "time": [10, 12, 14, 16, 18, 20, 10, 12, 14],
            "site": ["a", "a", "b", None, "b", "b", "b", None, None],
            "reward": [4.0, 2.0, 8.0, 0.0, 4.0, 2.0, 8.0, 0.0, 0.0],
        }
    )
    found = foraging.bouts(table)
    expected = pd.DataFrame(
        {
            "episode": [0, 0, 0, 1],
            "bout": [0, 1, 2, 0],
            "site": ["a", "b", "b", "b"],
            "arrival": [10.0, 14.0, 18.0, 10.0],
            "leaving": [12.0, 14.0, 20.0, 10.0],
            "steps": [2, 1, 2, 1],
            "first_reward": [4.0, 8.0, 4.0, 8.0],
            "last_reward": [2.0, 8.0, 2.0, 8.0],
            "reward": [6.0, 8.0, 6.0, 8.0],
            "censored": [False, False, True, False],
        }
    )
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    left = foraging.leaving_times(table)
    assert left["leaving"].tolist() == [12, 14, 10], "the stay that the episode cut short was not left"


def test_stays_by_hand():
    """Two episodes of four steps: two stays, the second of them cut off, then one stay that lasts for all of them."""
    stays = find_stays(np.repeat([0, 1], 4), np.array([2, 2, -1, 0, 0, 0, 0, 0]))
    assert stays.arrival.tolist() == [0, 3, 4]
    assert stays.departure.tolist() == [1, 3, 7]
    assert stays.steps.tolist() == [2, 1, 4]
    assert stays.censored.tolist() == [False, True, True]
    assert find_stays(np.zeros(3, int), np.full(3, -1)).steps.tolist() == []


def test_going_from_patch_to_patch_and_from_episode_to_episode():
    table = pd.DataFrame({"episode": [0, 0, 1, 1], "time": [0, 1, 0, 1], "site": [5, 5, 5, 6], "reward": 1.0})
    assert foraging.bouts(table)[["episode", "site", "steps", "censored"]].to_numpy().tolist() == [
        [0, 5, 2, True],
        [1, 5, 1, False],
        [1, 6, 1, True],
    ]


def test_a_table_without_stays():
    table = pd.DataFrame({"episode": 0, "time": [0, 1], "site": [None, None], "reward": 0.0})
    assert foraging.bouts(table).empty
    assert foraging.mvt_leaving_times(table, 0.5).empty
    with pytest.raises(ValueError, match="no step of the table is at a site"):
        foraging.marginal_values(table, 0.5)


@given(seed=st.integers(0, 10_000))
def test_bouts_are_the_table_again(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 40))
    episode = np.sort(rng.integers(0, 4, size))
    time = pd.Series(episode).groupby(episode).cumcount()
    table = pd.DataFrame(
        {"episode": episode, "time": time, "site": rng.integers(-1, 3, size), "reward": rng.random(size)}
    )
    rebuilt = pd.Series(-1, pd.MultiIndex.from_frame(table[["episode", "time"]]))
    total = 0.0
    for bout in foraging.bouts(table).itertuples():
        for t in np.arange(bout.arrival, bout.leaving + 1):
            assert rebuilt[bout.episode, t] == -1, "no step is in two bouts"
            rebuilt[bout.episode, t] = bout.site
        assert bout.censored == (bout.leaving == time[episode == bout.episode].max())
        total += bout.reward
    assert rebuilt.tolist() == table["site"].tolist()
    assert total == pytest.approx(table["reward"][table["site"] >= 0].sum())
