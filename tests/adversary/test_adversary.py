"""A fixed number of random cases of every kind: at least 2,000 in all. `make fuzz` goes on with others."""

import pytest

from adversary.kinds import KINDS


@pytest.mark.parametrize("kind", [kind for kind, fuzzer in KINDS.items() if fuzzer.in_test])
def test_random_cases(kind):
    for seed in range(KINDS[kind].in_test):
        KINDS[kind].run(seed)


def test_there_are_many_cases():
    assert sum(fuzzer.in_test for fuzzer in KINDS.values()) >= 2000
