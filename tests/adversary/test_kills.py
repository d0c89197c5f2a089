"""100 kills over all experiments, 100 identical results: `make fuzz` only, because every kill needs a new process."""

import zlib

import numpy as np
import pytest

from adversary.kills import kill
from wane.experiments import NAMES

EACH = 5
"""Kills of every experiment: there are 20 experiments."""


def test_there_are_a_hundred_kills():
    assert len(NAMES) * EACH >= 100


@pytest.mark.fuzz
@pytest.mark.parametrize("name", NAMES)
def test_killed_runs_end_like_others(name):
    assert kill(name, EACH, np.random.default_rng(zlib.crc32(name.encode()))) == EACH
