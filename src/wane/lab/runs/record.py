"""What a run notes about itself: settings, texts, versions, commit, device, memory."""

import contextlib
import datetime
import importlib.metadata
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax

import wane
from wane.files import as_json
from wane.lab.contract import Experiment

PACKAGES = ("equinox", "jax", "jaxlib", "matplotlib", "numpy", "optax", "pandas", "pyarrow", "scipy")
TEXTS = ("title", "source", "summary", "differences", "paper_cost")


def about(experiment: Experiment) -> dict[str, Any]:
    """Returns what the record says about the experiment and the software. The report takes its texts from here."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {
        "texts": {name: getattr(experiment, name) for name in TEXTS},
        "versions": {"wane": wane.__version__, "python": platform.python_version()} | versions,
        "commit": commit(),
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def plain(value: Any) -> Any:
    """Returns a setting for JSON: nested settings as dictionaries, arrays as lists, other objects as their `repr`."""
    return as_json(value, repr)


def commit() -> str | None:
    """Returns the commit of the package's source, with "+" if it has changed since, or None outside of a checkout."""

    def git(*words: str) -> str:
        folder = Path(__file__).parent
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if not (Path(git("rev-parse", "--show-toplevel")) / "src" / "wane").is_dir():
            return None
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "--", "../") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def device() -> str:
    """Returns the name of the device that JAX computes on."""
    chips = jax.devices()
    if chips[0].platform == "cpu":
        return f"{os.cpu_count()} CPU cores ({platform.machine()})"
    return chips[0].device_kind if len(chips) == 1 else f"{len(chips)} × {chips[0].device_kind}"


def forget_peak_memory() -> None:
    """Resets `peak_memory`, where the system allows it (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """Returns the most bytes that this process has held since `forget_peak_memory`, or since it started."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
