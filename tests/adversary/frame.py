"""The frame of all fuzzers: one function `case(rng)` makes one random case and asserts, and a seed repeats it.

`make test` runs a fixed number of seeds of every fuzzer (`test_adversary.py`); `make fuzz` goes on with fresh seeds
until its time is up (`__main__.py`). A failure tells the command that repeats it.
"""

import faulthandler
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Fuzzer:
    """A kind of random cases."""

    kind: str
    case: Callable[[np.random.Generator], None]
    """Makes a case out of random numbers, and asserts what must hold. Any exception is a failure."""
    in_test: int
    """How many seeds `make test` runs."""
    longest: int = 100
    """Seconds after which a case counts as a hang: the process then ends with a traceback."""

    def run(self, seed: int) -> None:
        """Runs the case of one seed. An exception gets a note with the command that repeats it."""
        # The watch dog is a thread of C, so it also ends a case that hangs in C and never gives way to Python.
        faulthandler.dump_traceback_later(self.longest, exit=True, file=sys.__stderr__)
        try:
            self.case(np.random.default_rng([zlib.crc32(self.kind.encode()), seed]))
        except BaseException as error:
            error.add_note(f"repeat it with: {command(self.kind, seed)}")
            raise
        finally:
            faulthandler.cancel_dump_traceback_later()


def command(kind: str, seed: int) -> str:
    """The command that repeats a case."""
    return f"PYTHONPATH=tests .venv/bin/python -m adversary {kind} {seed}"


def assert_in_words(error: BaseException) -> None:
    """Asserts that an error's message is a sentence for a person: one line, several words, not only a name."""
    text = str(error)
    assert len(text.split()) >= 4, f"{type(error).__name__} says no more than {text!r}"
    assert "Traceback" not in text


def one_of(rng: np.random.Generator, *choices):
    """One of several values, whatever their types."""
    return choices[rng.integers(len(choices))]
