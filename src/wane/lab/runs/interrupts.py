"""Ctrl-C during a run, which must neither be lost nor come while a chunk is half computed.

Python turns Ctrl-C into a KeyboardInterrupt wherever the program is at that moment. JAX calls a function of its own
whenever Python collects garbage, and Python forgets what is raised in such a function. So a Ctrl-C that it forgets is
repeated; and every Ctrl-C is noted, so that `check` raises it at the next point where the run can stop, whoever else
forgot it. While a loop computes a chunk, Ctrl-C is only noted: the chunk is computed to its end and saved. A second
Ctrl-C interrupts at once.

Where Ctrl-C is ignored, as in a script that a shell runs in the background, it stays ignored.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_received: list[int] = []
"""The signals since the outermost `collected` began."""
_held: list[bool] = []
"""Not empty while the first Ctrl-C is only noted."""


def _receive(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    if not _held or len(_received) > 1:
        raise KeyboardInterrupt


def is_interrupted() -> bool:
    """Returns whether there was a Ctrl-C."""
    return bool(_received)


def check() -> None:
    """Raises KeyboardInterrupt if there was a Ctrl-C."""
    if _received:
        raise KeyboardInterrupt


@contextmanager
def collected() -> Iterator[None]:
    """Notes every Ctrl-C until the block ends, which then raises KeyboardInterrupt. Signals reach the main thread only.

    An error after a Ctrl-C is taken for its effect: libraries turn a KeyboardInterrupt into errors of their own.
    """
    earlier = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or earlier in (signal.SIG_IGN, None, _receive):
        yield
        return
    hook, timers = sys.unraisablehook, list[threading.Timer]()

    def repeat(forgotten: "sys.UnraisableHookArgs") -> None:
        if issubclass(forgotten.exc_type, KeyboardInterrupt):  # A moment later, Python is somewhere else.
            timers.append(threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)))
            timers[-1].start()
        else:
            hook(forgotten)

    _received.clear()
    signal.signal(signal.SIGINT, _receive)
    sys.unraisablehook = repeat
    try:
        yield
        check()
    except Exception as error:
        if _received:
            raise KeyboardInterrupt from error
        raise
    finally:
        for timer in timers:
            timer.cancel()
        signal.signal(signal.SIGINT, earlier)
        sys.unraisablehook = hook
        _received.clear()


@contextmanager
def held() -> Iterator[None]:
    """Holds the first Ctrl-C back until the block ends. A second one interrupts at once."""
    with collected():
        check()
        _held.append(True)
        try:
            yield
        finally:
            _held.pop()
        check()
