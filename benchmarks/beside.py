"""Shared parts of the benchmarks against other libraries: the peer in its own process, timings in turns, and tables.

The library lives in a virtual environment of its own (made on first use under .cache/) unless it is installed already.
The two sides are timed in turns, and the best repeat counts. A run on a CPU keeps the GPU's numbers, and vice versa.
"""

import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # The peer needs memory on the same GPU.

import jax
from rich.console import Console
from rich.table import Table

from benchmarks import QUICK, readme

HERE = Path(__file__).parent
INSTALLED = {
    "torch": ["torch", "numpy"],
    "sb3_contrib": ["sb3-contrib>=2.4", str(HERE.parent)],
    "stable_baselines3": ["stable-baselines3>=2.4", "gymnasium[mujoco]"],
    "sbx": ["sbx-rl"],
    "gymnax": ["gymnax>=1.0", "six"],
}
"""The packages to install for a library, by the name under which it is imported."""


def peer_python(library: str) -> str:
    """Returns a Python that has a library.

    Raises CalledProcessError if the library cannot be installed, and OSError in a quick run, which installs nothing.
    """
    if importlib.util.find_spec(library):
        return sys.executable
    home = HERE.parent / ".cache" / f"bench-{library}"
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        if QUICK:
            raise OSError("a quick run installs nothing")
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *INSTALLED[library]], check=True)
        (home / "ready").touch()
    return str(python)


class Peer:
    """A script that uses a library, in its own process, which waits between timings."""

    def __init__(self, library: str, script: str, *words: str, steps: int, work: int = 1):
        """Starts a script with some arguments and a number of steps. `work` is the work of one step."""
        # With -P, the scripts beside this one hide no package from the library.
        command = [peer_python(library), "-P", str(HERE / script), *words, str(steps)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.work = steps * work
        if self._read() != "ready":
            raise RuntimeError(f"{' '.join([script, *words])} did not start: see its message above")

    def _read(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def rate(self) -> float:
        assert self.process.stdin
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self.work / float(self._read())

    def stop(self) -> None:
        self.process.communicate("stop\n")


class Timed(Protocol):
    """Something whose speed is measured."""

    def rate(self) -> float:
        """Returns the work per second."""
        ...


def compare(what: str, peer: str, ours: Timed, theirs: Timed, repeats: int, floor: float | None) -> dict:
    """Times both sides in turns, and returns the best of the repeats. A peer is stopped afterwards."""
    rates = [(ours.rate(), theirs.rate()) for _ in range(1 if QUICK else repeats)]
    if isinstance(theirs, Peer):
        theirs.stop()
    ours_best, theirs_best = map(max, zip(*rates, strict=True))
    return dict(what=what, peer=peer, ours=ours_best, theirs=theirs_best, ratio=ours_best / theirs_best, floor=floor)


def compare_with_peer(
    what: str, name: str, ours: Callable[[], Timed], theirs: Callable[[], Peer], repeats: int, floor: float | None
) -> list[dict]:
    """Returns one row, or none where the peer cannot be installed, which is said. Our side runs in either case."""
    timed = ours()
    try:
        peer = theirs()
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        print(f"{what}: the row beside {name} is left out, because it is not installed: {error}")
        return []
    return [compare(what, name, timed, peer, repeats, floor)]


def hardware(library: str) -> str:
    """Returns the machine and the versions, including that of the library if it is installed."""
    device = jax.devices()[0]
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    where = machine if device.platform == "cpu" else device.device_kind
    versions = f"Python {platform.python_version()}, jax {importlib.metadata.version('jax')}"
    try:
        script = f"import {library}; print({library}.__version__)"
        told = subprocess.run([peer_python(library), "-c", script], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return f"{where}; {versions}"
    return f"{where}; {versions}, {library} {told.strip()}"


def report(name: str, library: str, measure: Callable[[str], list[dict[str, Any]]]) -> None:
    """Measures on the available device, a "cpu" or a "gpu", prints the numbers and keeps them.

    Exits with 1 if a ratio is below its floor. A quick run only prints.
    """
    path = HERE / "results" / f"{name}.json"
    kind = "cpu" if jax.devices()[0].platform == "cpu" else "gpu"
    results = measure(kind)
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    kept[kind] = {"hardware": hardware(library), "results": results}
    table = Table("what", "ours", "peer", "its", "ratio", "floor", "", title=kept[kind]["hardware"])
    for r in results:
        verdict = "" if r["floor"] is None else "passes" if r["ratio"] >= r["floor"] else "FAILS"
        floor = "" if r["floor"] is None else f"{r['floor']:g} ×"
        table.add_row(
            r["what"], f"{r['ours']:,.0f}", r["peer"], f"{r['theirs']:,.0f}", f"{r['ratio']:.2f} ×", floor, verdict
        )
    Console(width=140).print(table)
    if QUICK:
        return
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write_readme(name, kept)
    sys.exit(any(r["floor"] is not None and r["ratio"] < r["floor"] for r in results))


def write_readme(name: str, kept: dict) -> None:
    """Puts the numbers of both machines between their marks in README.md."""
    lines = []
    for part in kept.values():
        lines += [part["hardware"], "", "| what | ours | beside | theirs | measured | floor |"]
        lines += ["| --- | --- | --- | --- | --- | --- |"]
        for r in part["results"]:
            floor = "" if r["floor"] is None else f"≥ {r['floor']:g}"
            numbers = f"{r['ours']:,.0f} | {r['peer']} | {r['theirs']:,.0f} | {r['ratio']:.3g} × | {floor}"
            lines.append(f"| {r['what']} | {numbers} |")
        lines.append("")
    readme.write(name, lines)
