"""The walk of `wane run q-lambda`: the modules whose functions are called from the command line to the published table.

Whoever wants to know what a run does reads these. `python tests/runs/test_walk.py` prints them.
"""

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

SRC = Path(__file__).parents[2] / "src"
MATHEMATICS = ("wane.agents", "wane.exact", "wane.worlds")
"""What is computed, as opposed to how a run is carried out."""
MOST = 40
"""The most modules of the walk without the mathematics. How many there are in all is printed, and not bounded here."""
WORDS = ["run", "q-lambda", "--seeds", "2", "--agent.episodes", "10", "--agent.evaluate-every", "2", "--out"]


class Walk:
    """Notes who calls which function of ours. What runs while a module is imported does not count."""

    def __init__(self) -> None:
        self.calls: set[tuple[CodeType | None, CodeType]] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Is called by Python at every call."""
        if event != "call" or module_of(frame.f_code) is None or frame.f_code.co_name == "<module>":
            return
        around = frame.f_back
        while around is not None and module_of(around.f_code) is None:
            around = around.f_back
        call = (around.f_code if around else None, frame.f_code)
        if call in self.calls:
            return
        while around is not None and not (around.f_code.co_name == "<module>" and module_of(around.f_code)):
            around = around.f_back
        if around is None:
            self.calls.add(call)

    @property
    def modules(self) -> list[str]:
        """The modules in which a function was called."""
        return sorted({str(module_of(code)) for _, code in self.calls})

    def pairs(self, imports: Callable[[str], frozenset[str]]) -> dict[tuple[str, str], set[str]]:
        """Returns which package called which other one, as "module → function".

        A function that was handed over, or a method that was overridden, is no call of its package: the module that
        calls it does not import it. `imports` returns the modules that a module imports.
        """
        found = defaultdict[tuple[str, str], set[str]](set)
        for caller, code in self.calls:
            one, other = module_of(caller) if caller else None, str(module_of(code))
            if one and package_of(one) != package_of(other) and other in imports(one):
                found[package_of(one), package_of(other)].add(f"{one} → {other}.{code.co_qualname}")
        return found


def module_of(code: CodeType) -> str | None:
    """Returns the module of ours that some code belongs to, or None."""
    return _module_at(code.co_filename)


@cache
def _module_at(path: str) -> str | None:
    if not path.startswith(f"{SRC}{os.sep}"):
        return None
    return ".".join(Path(path).relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


def package_of(module: str) -> str:
    """Returns the package of a module. Those that lie in `wane` itself are each on their own."""
    package = module.rpartition(".")[0]
    return module if package in ("", "wane") else package


def main(out: str) -> None:
    """Runs the experiment, prints the walk, and ends with an error if it is too long or goes back and forth."""
    from wane import cli
    from wane.lab.runs.fingerprint import imported_modules

    walk, sys.argv = Walk(), ["wane", *WORDS, out]
    sys.setprofile(walk)
    try:
        cli.main()
    finally:
        sys.setprofile(None)
    calls = walk.pairs(imported_modules)
    both = sorted(pair for pair in calls if pair[::-1] in calls and pair[0] < pair[1])
    rest = [name for name in walk.modules if not name.startswith(MATHEMATICS)]
    print(*walk.modules, sep="\n")
    print(f"{len(walk.modules)} modules, {len(rest)} of them without {', '.join(MATHEMATICS)}")
    for pair in both:
        print(*pair, "call each other:", *sorted(calls[pair]), *sorted(calls[pair[::-1]]), sep="\n    ")
    assert len(rest) <= MOST, f"the walk has {len(rest)} modules; merge what belongs together"
    assert calls, "no call from one package to another was seen: the walk was not noted"
    assert not both, f"two packages call each other: {both}"


@pytest.mark.slow
def test_the_walk_of_a_run_is_short_and_goes_one_way(tmp_path):
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    main(*sys.argv[1:])
