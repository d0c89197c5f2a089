"""What a run notes about itself: settings, versions, commit, device, memory."""

import dataclasses
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
from wane.experiments.experiment import Experiment, Settings

PACKAGES = ("equinox", "jax", "jaxlib", "matplotlib", "numpy", "optax", "pandas", "pyarrow", "scipy")


def about(experiment: Experiment, settings: Settings, scale: str, changed: dict[str, Any]) -> dict[str, Any]:
    """All but the cost of a run."""
    return {
        "experiment": experiment.name,
        "scale": scale,
        "settings": dataclasses.asdict(settings),
        "changed": changed,
        "versions": {"wane": wane.__version__, "python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in PACKAGES},
        "commit": commit(),
        "device": device(),
        "peak_memory": peak_memory(),
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def commit() -> str | None:
    """The commit that the package's folder is at, "+" if something in it has changed since; None outside of git."""

    def git(*words: str) -> str:
        folder = Path(__file__).parent
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "--", "../") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def device() -> str:
    """What JAX computes on."""
    chips = jax.devices()
    if chips[0].platform == "cpu":
        return f"{os.cpu_count()} CPU cores ({platform.machine()})"
    return chips[0].device_kind if len(chips) == 1 else f"{len(chips)} × {chips[0].device_kind}"


def peak_memory() -> int:
    """The most bytes this process ever held."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
