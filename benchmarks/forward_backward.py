"""How fast λO-FB learns, beside the same networks and loss in PyTorch.

Gradient steps a second at the paper's size (FourRooms, d = 100, three layers of 256, batches of 128). On a CPU: one run
beside one run. On a GPU: 24 runs as one program beside PyTorch's one, which for 24 runs would be started 24 times; with
PyTorch captured as a CUDA graph it is compared too, without a floor. The two sides alternate, the best repeat counts.

PyTorch lives in a virtual environment of its own (made on first use under .cache/) unless it is installed already.

    python benchmarks/forward_backward.py
"""

import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
import venv
from pathlib import Path

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the peer wants memory on the same GPU

import jax
from rich.console import Console
from rich.table import Table

from wane.agents import forward_backward
from wane.agents.forward_backward import Config, Schedule
from wane.worlds import make

HERE = Path(__file__).parent
PEER = HERE.parent / ".cache" / "bench-torch"
KEPT = HERE / "results" / "forward_backward.json"
MARKS = "<!-- written by forward_backward.py -->", "<!-- end of forward_backward.py -->"


def peer_python() -> str:
    if importlib.util.find_spec("torch"):
        return sys.executable
    python = PEER / "bin" / "python"
    if not (PEER / "ready").exists():
        venv.create(PEER, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "torch", "numpy"], check=True)
        (PEER / "ready").touch()
    return str(python)


class Peer:
    """PyTorch in a process of its own, which waits between timings."""

    def __init__(self, device: str, mode: str, steps: int):
        script = [peer_python(), str(HERE / "torch_forward_backward.py"), device, mode, str(steps)]
        self.process = subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.steps = steps
        if self._read() != "ready":
            raise RuntimeError(f"PyTorch did not start ({device}, {mode}): see its message above")

    def _read(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def rate(self) -> float:
        assert self.process.stdin
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self.steps / float(self._read())

    def stop(self) -> None:
        self.process.communicate("stop\n")


class Ours:
    """So many runs as one program, `cycles` cycles of training at a time."""

    def __init__(self, runs: int, cycles: int):
        config = Config(schedule=Schedule(epochs=1, cycles=cycles), probes=0)
        world = make("four-rooms")
        self.steps = runs * cycles * config.schedule.batches
        keys = jax.random.split(jax.random.key(0), runs)

        def train(key):
            return forward_backward.train(key, world, config)[1].terms.bellman

        self.program = jax.jit(jax.vmap(train) if runs > 1 else train)
        self.keys = keys if runs > 1 else keys[0]
        self.rate()

    def rate(self) -> float:
        start = time.perf_counter()
        jax.block_until_ready(self.program(self.keys))
        return self.steps / (time.perf_counter() - start)


def compare(what: str, peer: str, ours: Ours, theirs: Peer, repeats: int, floor: float | None) -> dict:
    rates = [(ours.rate(), theirs.rate()) for _ in range(repeats)]
    theirs.stop()
    ours_best, theirs_best = map(max, zip(*rates, strict=True))
    return dict(what=what, peer=peer, ours=ours_best, theirs=theirs_best, ratio=ours_best / theirs_best, floor=floor)


def on_cpu() -> list[dict]:
    ours, theirs = Ours(1, 10), Peer("cpu", "eager", 200)
    return [compare("gradient steps/s, one run", "PyTorch", ours, theirs, 7, 1.0)]


def on_gpu() -> list[dict]:
    one, many, what = Ours(1, 50), Ours(24, 50), "gradient steps/s, 24 runs as one program"
    return [
        compare("gradient steps/s, one run", "PyTorch", one, Peer("cuda", "eager", 2000), 3, None),
        compare(what, "PyTorch, one run at a time", many, Peer("cuda", "eager", 2000), 3, 20.0),
        compare(what, "PyTorch as a CUDA graph, one run at a time", many, Peer("cuda", "graph", 2000), 3, None),
    ]


def hardware() -> str:
    device = jax.devices()[0]
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    where = machine if device.platform == "cpu" else device.device_kind
    version = [peer_python(), "-c", "import torch; print(torch.__version__)"]
    torch = subprocess.run(version, check=True, capture_output=True, text=True).stdout.strip()
    return f"{where}; Python {platform.python_version()}, jax {importlib.metadata.version('jax')}, torch {torch}"


def main() -> None:
    kind = "cpu" if jax.devices()[0].platform == "cpu" else "gpu"
    results = on_cpu() if kind == "cpu" else on_gpu()
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    kept[kind] = {"hardware": hardware(), "results": results}
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    table = Table("what", "ours", "peer", "its", "ratio", "floor", "", title=kept[kind]["hardware"])
    for r in results:
        verdict = "" if r["floor"] is None else "passes" if r["ratio"] >= r["floor"] else "FAILS"
        floor = "" if r["floor"] is None else f"{r['floor']:g} ×"
        table.add_row(
            r["what"], f"{r['ours']:,.0f}", r["peer"], f"{r['theirs']:,.0f}", f"{r['ratio']:.2f} ×", floor, verdict
        )
    Console(width=140).print(table)
    write_readme(kept)
    sys.exit(any(r["floor"] is not None and r["ratio"] < r["floor"] for r in results))


def write_readme(kept: dict) -> None:
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
    page = HERE / "README.md"
    before, rest = page.read_text(encoding="utf-8").split(MARKS[0])
    text = "\n".join(lines).rstrip()
    page.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{rest.split(MARKS[1])[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
