"""Experiments run without the checks inside `jit`, as for users. The agents' own tests, and `make fuzz`, have them."""

import pytest

import wane


@pytest.fixture(scope="module", autouse=True)
def as_for_users(request):
    with wane.jit_checks("fuzz" in request.config.option.markexpr):
        yield
