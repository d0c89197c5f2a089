"""What a run notes about itself: settings, versions, commit, device, memory."""

import contextlib
import dataclasses
import datetime
import hashlib
import importlib.metadata
import os
import platform
import resource
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jax

import wane
from wane.experiments.experiment import Settings

OUTSIDE = ("cli.py", "report", "runs")
"""parts of the package that no result depends on"""
PACKAGES = ("equinox", "jax", "jaxlib", "matplotlib", "numpy", "optax", "pandas", "pyarrow", "scipy")


def about(name: str, settings: Settings, scale: str, changed: dict[str, Any]) -> dict[str, Any]:
    """All but the cost of a run."""
    return {
        "experiment": name,
        "scale": scale,
        "settings": dataclasses.asdict(settings),
        "changed": changed,
        "versions": {"wane": wane.__version__, "python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in PACKAGES},
        "commit": commit(),
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def commit() -> str | None:
    """The commit that the package's source is at, "+" if it has changed since; None where it is no checkout."""

    def git(*words: str) -> str:
        folder = Path(__file__).parent
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if not (Path(git("rev-parse", "--show-toplevel")) / "src" / "wane").is_dir():
            return None
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "--", "../") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


@cache
def code() -> str:
    """A mark of the sources that results depend on."""
    package = Path(wane.__file__).parent
    files = [path for path in sorted(package.rglob("*.py")) if path.relative_to(package).parts[0] not in OUTSIDE]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def device() -> str:
    """What JAX computes on."""
    chips = jax.devices()
    if chips[0].platform == "cpu":
        return f"{os.cpu_count()} CPU cores ({platform.machine()})"
    return chips[0].device_kind if len(chips) == 1 else f"{len(chips)} × {chips[0].device_kind}"


def forget_peak_memory() -> None:
    """Lets `peak_memory` begin anew, where the system can (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """The most bytes this process held since `forget_peak_memory`, or ever."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
