"""Timings of calls in turns, and of work in a separate process with limits on time and address space."""

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

GIB = 2**30
PAUSE = 0.2
"""Seconds between two timings, in which idle threads of a BLAS stop spinning."""
ADDRESS_SPACE = 12 * GIB


def race(*rivals: Callable[[], Any], repeats: int = 7, pause: float = PAUSE) -> list[float]:
    """Returns the seconds per call of each rival, the best of interleaved repeats. Quick calls are timed in bunches."""
    bunches = []
    for rival in rivals:
        rival()
        start = time.perf_counter()
        rival()
        bunches.append(max(1, int(0.03 / (time.perf_counter() - start))))
    best = [np.inf] * len(rivals)
    for _ in range(repeats):
        for i, (rival, bunch) in enumerate(zip(rivals, bunches, strict=True)):
            time.sleep(pause)
            start = time.perf_counter()
            for _ in range(bunch):
                rival()
            best[i] = min(best[i], (time.perf_counter() - start) / bunch)
    return best


def apart(work: Callable[..., dict], *arguments: Any, limit: float = 600.0) -> dict:
    """Returns what `work` returns in a separate process, with its peak memory, or why it was `stopped`."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_limited, args=(theirs, work, arguments))
    process.start()
    theirs.close()
    # The 30 seconds are for importing and for building the chain.
    answer = None
    if ours.poll(limit + 30.0):
        try:
            answer = ours.recv()
        except EOFError:
            process.join()
            answer = {"stopped": f"ended with exit code {process.exitcode}"}
    else:
        process.kill()
    process.join()
    return answer or {"stopped": f"{limit:.0f} s", "seconds": limit}


def _limited(pipe: Any, work: Callable[..., dict], arguments: tuple) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    try:
        answer = work(*arguments)
    except MemoryError:
        answer = {"stopped": f"{ADDRESS_SPACE // GIB} GiB of address space"}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    pipe.send(answer | {"peak_gib": peak / GIB})
