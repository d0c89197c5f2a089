import functools

import numpy as np
import pandas as pd
import pytest

from wane import foraging
from wane.worlds import make

WORLD = make("corridor", length=7, discount=0.97, horizon=40)
BELIEVED = [0.5, 0.8, 1.0]


@functools.cache
def stays(agent):
    return foraging.overstaying(WORLD, BELIEVED, agent=agent)


def first_stays(agent):
    return stays(agent).drop_duplicates("believed").set_index("believed")


def test_a_plan_for_the_true_lambda_is_the_optimum():
    found = stays("plan").query("believed == 0.5")
    assert found["overstay"].tolist() == [0, 0]
    np.testing.assert_allclose(found["value"], found["optimal_value"])
    table = foraging.optimal_table(WORLD)
    value = (0.97 ** table["time"] * table["reward"]).sum()
    np.testing.assert_allclose(found["optimal_value"], value)


@pytest.mark.parametrize("agent", ["plan", "imagine"])
def test_too_large_a_lambda_overstays_if_nobody_says_what_is_left(agent):
    found = first_stays(agent)
    assert np.all(np.diff(found["steps"]) > 0)
    assert found["censored"].tolist() == [False, False, True], "for λ̂ = 1 there is never a reason to go"
    assert found["steps"].iloc[-1] == 40 - 2, "all that is left of the episode"
    assert np.all(np.diff(found["value"]) < 0)


def test_too_large_a_lambda_leaves_early_if_it_is_told_what_is_left():
    found = first_stays("gpi")
    assert found["steps"].loc[0.5] > found["steps"].loc[0.8] > found["steps"].loc[1.0] == 1
    assert not found["censored"].any()
    alike = [stays(agent).query("believed == 0.5")["steps"].tolist() for agent in ("imagine", "gpi")]
    assert alike[0] == alike[1], "the true λ imagines what is so"


@pytest.mark.parametrize("timing", ["arrival", "departure"])
def test_the_true_lambda_imagines_what_remains(timing):
    """The agent counts its own visits as the world does, whenever rewards are paid. The start is a site."""
    world = make("corridor", length=5, discount=0.97, horizon=12, timing=timing, start="1")
    imagined, told = (foraging.overstaying(world, [0.5], agent=agent, tolerance=1e-2) for agent in ("imagine", "gpi"))
    assert len(told) == 2
    pd.testing.assert_frame_equal(imagined, told)


def test_errors():
    with pytest.raises(ValueError, match='agent = none: "plan", "imagine" or "gpi" is needed'):
        foraging.overstaying(WORLD, [0.5], agent="none")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"believed must lie in \[0, 1\], got 2"):
        foraging.overstaying(WORLD, [0.5, 2.0])
    with pytest.raises(ValueError, match="one certain episode"):
        foraging.overstaying(make("corridor", slip=0.1), [0.5])
    with pytest.raises(ValueError, match="one certain episode"):
        foraging.overstaying(make("corridor", start="uniform"), [0.5])
