"""More than 100 kills over all experiments, all with the same results: `make fuzz` only, for each needs a process."""

import zlib

import numpy as np
import pytest

from adversary.kills import DIVIDED, kill
from adversary.toys import MORE
from wane_paper.collection import NAMES

EACH = 3
"""Kills of every experiment."""
MANY = 10
"""Kills of those with several checkpoints of networks or replay memories, and of those that two processes compute."""
CASES = [*((name, 1, MANY if name in MORE else EACH) for name in NAMES), *((name, 2, MANY) for name in DIVIDED)]


def test_there_are_a_hundred_kills():
    assert sum(kills for _, _, kills in CASES) >= 100


@pytest.mark.fuzz
@pytest.mark.parametrize(("name", "processes", "kills"), CASES)
def test_killed_runs_end_like_others(name, processes, kills):
    assert kill(name, kills, np.random.default_rng(zlib.crc32(name.encode())), processes) == kills
