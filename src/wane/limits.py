"""Limits the memory that a computation may take, and refuses computations that need more.

A function that makes large arrays estimates their size and calls `require_memory` before it allocates anything. So a
computation that is too large is refused at once, with a message that names the sizes and a remedy, and the machine does
not start to swap.

The limit is half of the memory that is available: to the machine, or to the container (cgroup) that the process runs
in. The environment variable WANE_MEMORY_GIB sets another limit, in GiB. It is read at each check, so a program can set
it too, with os.environ["WANE_MEMORY_GIB"] = "4".

psutil would not make this module shorter: it reads /proc/meminfo, which a container shares with its host, and knows
nothing of control groups (psutil's issue 490). A limit that only looked at the machine would not protect a container.
"""

import math
import os
from itertools import groupby
from pathlib import Path

from wane.types import Integer, Real

VARIABLE = "WANE_MEMORY_GIB"
GIB = 2**30
_NEVER_REFUSED = 2**26  # Looking up the memory takes longer than solving a small chain, so this much is not checked.
_GROUPS = Path("/sys/fs/cgroup")


def require_memory(
    what: str, *factors: tuple[Integer | Real, str], cure: str, itemsize: int = 8, copies: int = 1
) -> None:
    """Raise a ValueError if arrays of this shape take more memory than the limit.

    `factors` are the sizes of the axes with their names, `copies` is how many such arrays are held at the same time,
    and `cure` says what the caller can do instead.
    """
    needed = itemsize * copies * math.prod(float(size) for size, _ in factors)
    if needed <= _NEVER_REFUSED or needed <= (limit := memory_limit()):
        return
    groups = ((f"{size} {name}", len(list(same))) for (size, name), same in groupby(factors))
    names = [each if count == 1 else f"({each})^{count}" for each, count in groups]
    sizes = " × ".join([*names, f"{itemsize} byte{'s' if itemsize > 1 else ''}"])
    sizes += f" × {copies} arrays" if copies > 1 else ""
    raise ValueError(
        f"{what} needs about {_in_gib(needed)} of memory ({sizes}), and the limit is {_in_gib(limit)}: {cure}. The "
        f"environment variable {VARIABLE} sets another limit"
    )


def memory_limit() -> float:
    """Return how many bytes a computation may take. Raises a ValueError if WANE_MEMORY_GIB is not a positive number."""
    chosen = os.environ.get(VARIABLE)
    if not chosen:
        return available_memory() / 2
    try:
        limit = float(chosen)
    except ValueError:
        limit = math.nan
    if not limit > 0:
        raise ValueError(f"the environment variable {VARIABLE} must be a number of GiB above 0, got {chosen!r}")
    return limit * GIB


def available_memory() -> float:
    """Return how many bytes this process could still get without swapping."""
    return min(_of_the_machine(), _of_the_container())


def _of_the_machine() -> float:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        # This is all memory and not only the free part, which macOS does not publish as a file.
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return 8.0 * GIB


def _of_the_container() -> float:
    """Return the least bytes that the process's control group or one around it can still get. Caches count as free."""
    try:
        own = Path("/proc/self/cgroup").read_text().rsplit("::", 1)[-1].strip().lstrip("/")
    except OSError:
        return math.inf
    folder, least = _GROUPS / own, math.inf
    for group in (folder, *folder.parents):
        try:
            limit = (group / "memory.max").read_text().strip()
            in_use = float((group / "memory.current").read_text())
            cached = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())["inactive_file"]
        except (OSError, ValueError, KeyError):
            continue
        if limit != "max":
            least = min(least, float(limit) - in_use + float(cached))
    return max(least, 0.0)


def _in_gib(size: float) -> str:
    gib = size / GIB
    digits = ".2g" if gib < 1 else ".1f" if gib < 100 else ".0f" if gib < 1e5 else ".1e"
    return f"{gib:{digits}} GiB"
