import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import jaxtyping
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# Kernels, discounts and parameters are checked inside `jit` too (`wane.jit_checks`).
os.environ.setdefault("WANE_JIT_CHECKS", "1")
# Types and shapes are checked at run time in the whole package; `tests/typecheck.py` says how.
install_import_hook(["wane", "wane_paper"], "typecheck.check")

import wane  # noqa: E402, F401  (doctests then run in the modules of the package, not in copies of them)

jax.config.update("jax_enable_x64", True)

# A package of its own, which tests/test_stranger.py installs.
collect_ignore = ["tests/stranger"]

settings.register_profile("wane", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("wane")


def pytest_configure(config: pytest.Config) -> None:
    """Compiles quickly, because compiling takes most of the time of small tests.

    `make fuzz` compiles as for users, except where a test asks for `quick_compilation`, and so do the examples of the
    documentation and the command line, which have processes of their own.
    """
    if "fuzz" not in config.option.markexpr:
        jax.config.update("jax_disable_most_optimizations", True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out tests that are marked `fuzz`, unless they are asked for with `-m fuzz`."""
    if "fuzz" not in config.option.markexpr:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("fuzz")])
        items[:] = [item for item in items if not item.get_closest_marker("fuzz")]


MUCH = 1 << 30
"""The bytes of memory above which a process of tests drops the programs that it has compiled."""
kept = [0]
"""The bytes that were left the last time. Only what has grown since is worth dropping."""


def resident() -> int:
    """The bytes of memory of this process, or 0 where the system does not tell."""
    told = Path("/proc/self/statm")
    return int(told.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if told.exists() else 0


@pytest.fixture(autouse=True)
def forget_programs() -> Iterator[None]:
    """Drops compiled programs if they take much memory. JAX keeps all of them, which would be several gigabytes."""
    yield
    if resident() > max(MUCH, kept[0] + MUCH // 2):
        jax.clear_caches()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # Without it, the C library keeps what was freed.
        kept[0] = resident()


@pytest.fixture(scope="module")
def quick_compilation() -> Iterator[None]:
    """Compiles quickly in `make fuzz` too, where programs are many and small."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture
def unchecked_types() -> Iterator[None]:
    """Switches the run-time checks off, as for users, to test what the package itself says about wrong input."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs a command in this process; returns its exit status, what it printed, and its errors."""
    from wane import cli

    monkeypatch.setenv("COLUMNS", "200")

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["wane", *map(str, words)])
        status = 0
        try:
            cli.main()
        except SystemExit as end:
            status = end.code
        out, err = capsys.readouterr()
        return status, out, err

    return call
