"""Every world with every depletion steps in NumPy as it does compiled; slips, observations and rules vary in turn."""

import dataclasses

import pytest

from stepping import DEPLETIONS, assert_steps_like_the_compiled_world, cases, variety
from wane.worlds import make, names

pytestmark = pytest.mark.fuzz


@pytest.mark.parametrize(("number", "case"), cases(names(), DEPLETIONS))
def test_steps_like_the_compiled_world(number, case):
    name, depletion = case
    for shift in (0, 1, 7):
        world = make(name, depletion=DEPLETIONS[depletion])
        changed = dataclasses.replace(world, **variety(number + shift, world))
        assert_steps_like_the_compiled_world(changed, seed=number)
