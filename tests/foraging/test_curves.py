import numpy as np
import pytest

import wane
from wane.foraging.curves import make_curves


def test_next_rewards_by_hand():
    half = make_curves(0.5, None, ["a"], 5)
    assert half.next_reward(0, np.array([8.0, 2.0]), np.array([1, 3])).tolist() == [4.0, 1.0]
    hyperbolic = make_curves(wane.Hyperbolic(1.0), None, ["a"], 5)
    assert hyperbolic.next_reward(0, 6.0, 1) == pytest.approx(3.0), "1, 1/2, 1/3: the second is half of the first"
    assert hyperbolic.next_reward(0, 3.0, 2) == pytest.approx(2.0)
    known = make_curves(wane.Hyperbolic(1.0), 6.0, ["a"], 5)
    assert known.next_reward(0, 0.0, 2) == pytest.approx(2.0), "what was paid last does not matter"
    first = make_curves(wane.FirstVisits(2), None, ["a"], 5)
    assert first.next_reward(0, np.array([7.0, 7.0, 0.0]), np.array([1, 2, 3])).tolist() == [7.0, 0.0, 0.0]


def test_a_curve_for_each_site():
    curves = make_curves({"a": 0.5, "b": wane.FirstVisits(1)}, {"a": 8.0, "b": 2.0}, ["b", "a"], 3)
    assert curves.next_reward(np.array([0, 1]), np.zeros(2), np.array([1, 1])).tolist() == [0.0, 4.0]
    for lam in ([0.5, 0.25], wane.Geometric([0.5, 0.25])):
        numbered = make_curves(lam, None, [1, 0], 3)
        assert numbered.next_reward(np.array([0, 1]), np.ones(2), np.array([1, 1])).tolist() == [0.25, 0.5]


@pytest.mark.usefixtures("unchecked_types")
@pytest.mark.parametrize(
    ("lam", "rewards", "error", "message"),
    [
        (1.5, None, ValueError, r"must lie in \[0, 1\]"),
        ({"b": 0.5}, None, ValueError, "lam has no entry for site 'a': it has 'b'"),
        ([0.5, 0.5], None, ValueError, "2 sites that are numbered from 0, but there is a site 'a'"),
        (wane.TimeElapsed(0.5), None, TypeError, "TimeElapsed grows back"),
        (wane.Listed([1.0, 0.0, 1.0]), None, ValueError, "pays nothing at visit 1 and something at visit 2"),
        (0.5, {"b": 1.0}, ValueError, "rewards has no entry for site 'a'"),
        (0.5, np.nan, ValueError, "that of site 'a' is nan"),
    ],
)
def test_errors(lam, rewards, error, message):
    with pytest.raises(error, match=message):
        make_curves(lam, rewards, ["a"], 4)


def test_a_curve_that_pays_again_needs_to_know_the_reward():
    assert make_curves(wane.Listed([1.0, 0.0, 1.0]), 2.0, ["a"], 4).next_reward(0, 0.0, 2) == 2.0
