"""How fast the recurrent actor–critic learns: steps in the world a second, at the paper's size.

- Nine runs as one program (three λ, three seeds, as in the paper) beside one run of the same agent that is driven step
  by step: the world is its Gymnasium environment, and the compiled network is called once to act and once to learn.
- One run as one program beside RecurrentPPO of sb3-contrib on the same world, with the same LSTM and as many gradient
  steps (`sb3_recurrent.py`).

Both sides of a row are timed in turns, and the best repeat counts. The floor of the first row, 30, is for a GPU: at the
paper's size two cores are busy with one network already, so nine of them cannot be 30 times as fast.

sb3-contrib lives in a virtual environment of its own (made on first use under .cache/, a few minutes and 5 GB, because
of PyTorch) unless it is installed already. Where it cannot be installed, its row is left out, and the script says so.

    python benchmarks/a2c.py
"""

import dataclasses
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
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from wane.agents import a2c
from wane.agents.a2c import Batch, Config, Moment
from wane.agents.common.rollout import Transition
from wane.worlds import make
from wane.worlds.gym import Environment

HERE = Path(__file__).parent
PEER = HERE.parent / ".cache" / "bench-sb3"
KEPT = HERE / "results" / "a2c.json"
MARKS = "<!-- written by a2c.py -->", "<!-- end of a2c.py -->"
WORLD = make("two-rooms", discount=0.99)
LAMS = (0.0, 0.5, 1.0)
FLOORS = {"cpu": None, "gpu": 30.0}


class Together:
    """So many runs as one program."""

    def __init__(self, runs: int, updates: int):
        config = Config(epochs=1, updates=updates, evaluation_episodes=1)
        self.steps = runs * config.steps
        keys, lams = jax.random.split(jax.random.key(0), runs), jnp.resize(jnp.array(LAMS), runs)

        def train(key, lam):
            return a2c.train(key, WORLD, dataclasses.replace(config, lam=lam))[1].returns

        program = jax.jit(jax.vmap(train) if runs > 1 else train)
        inputs = (keys, lams) if runs > 1 else (keys[0], lams[1])
        self.run = lambda: jax.block_until_ready(program(*inputs))
        self.run()

    def rate(self) -> float:
        start = time.perf_counter()
        self.run()
        return self.steps / (time.perf_counter() - start)


class StepByStep:
    """One run of the same agent in the Gymnasium environment, driven from Python."""

    def __init__(self, updates: int):
        self.config, self.env, self.updates = Config(), Environment(WORLD), updates
        self.state = a2c.init(jax.random.key(0), WORLD, self.config)
        policy = a2c.sampled_policy(self.state.params, WORLD, self.config)
        self.empty, self.rng = policy.carry, np.random.default_rng(0)
        self.one_hot, self.seen = np.eye(WORLD.n_states, dtype=np.float32), self.env.reset(seed=0)
        self.memory = self.empty

        @jax.jit
        def act(params, memory, x, draw):
            return policy.act(policy.params._replace(params=params), memory, x, draw)[:2]

        self.act, self.update = act, jax.jit(lambda state, data: a2c.update(state, data, WORLD, self.config)[0])
        self.play()

    def rate(self) -> float:
        start = time.perf_counter()
        for _ in range(self.updates):
            self.play()
        jax.block_until_ready(self.state)
        return self.updates * self.config.length / (time.perf_counter() - start)

    def play(self) -> None:
        """One sequence, and the gradient step on it."""
        begin, steps = self.memory, []
        for _ in range(self.config.length):
            cell, info = self.seen
            now = Moment(self.one_hot[cell], np.int32(cell), info["remaining"])
            action, self.memory = self.act(self.state.params, self.memory, now.x, self.rng.random(1))
            after, reward, terminated, truncated, later = self.env.step(int(action))
            then = Moment(self.one_hot[after], np.int32(after), later["remaining"])
            steps.append(Transition(now, action, reward, then, terminated, truncated, 1.0))
            self.seen = after, later
            if terminated or truncated:
                self.seen, self.memory = self.env.reset(), self.empty
        stacked = jax.tree_util.tree_map(lambda *leaves: np.stack(leaves)[:, None], *steps)
        memory = jax.tree_util.tree_map(lambda leaf: leaf[None], begin)
        self.state = self.update(self.state, Batch(memory, stacked))


def peer_python() -> str:
    """A Python with sb3-contrib and wane. Raises CalledProcessError if it cannot be installed."""
    if importlib.util.find_spec("sb3_contrib"):
        return sys.executable
    python = PEER / "bin" / "python"
    if not (PEER / "ready").exists():
        venv.create(PEER, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "sb3-contrib>=2.4", str(HERE.parent)], check=True)
        (PEER / "ready").touch()
    return str(python)


class Peer:
    """RecurrentPPO in a process of its own, which waits between timings."""

    def __init__(self, steps: int):
        script = [peer_python(), str(HERE / "sb3_recurrent.py"), str(steps)]
        self.process = subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.steps = steps
        if self._read() != "ready":
            raise RuntimeError("RecurrentPPO did not start: see its message above")

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


def compare(what: str, peer: str, ours, theirs, repeats: int, floor: float | None) -> dict:
    """Both sides in turns, the best of the repeats."""
    rates = [(ours.rate(), theirs.rate()) for _ in range(repeats)]
    best, their_best = map(max, zip(*rates, strict=True))
    return dict(what=what, peer=peer, ours=best, theirs=their_best, ratio=best / their_best, floor=floor)


def measure(kind: str) -> list[dict]:
    updates = 60 if kind == "cpu" else 500
    peer = "one run, step by step through Gymnasium"
    found = [compare("steps/s, nine runs", peer, Together(9, updates), StepByStep(30), 5, FLOORS[kind])]
    try:
        theirs = Peer(1024)
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        print(f"The row beside RecurrentPPO is left out, because sb3-contrib is not installed: {error}")
        return found
    found.append(compare("steps/s, one run", "sb3-contrib's RecurrentPPO", Together(1, 10 * updates), theirs, 5, 1.0))
    theirs.stop()
    return found


def hardware() -> str:
    device = jax.devices()[0]
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    where = machine if device.platform == "cpu" else device.device_kind
    versions = f"Python {platform.python_version()}, jax {importlib.metadata.version('jax')}"
    return f"{where}; {versions}; system load {os.getloadavg()[0]:.1f} when the timing ended"


def missed(result: dict) -> bool:
    return result["floor"] is not None and result["ratio"] < result["floor"]


def main() -> None:
    kind = "cpu" if jax.devices()[0].platform == "cpu" else "gpu"
    results = measure(kind)
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    kept[kind] = {"hardware": hardware(), "results": results}
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    table = Table("what", "ours", "peer", "its", "ratio", "floor", "", title=kept[kind]["hardware"])
    for r in results:
        floor, verdict = ("", "") if r["floor"] is None else (f"{r['floor']:g} ×", "FAILS" if missed(r) else "passes")
        numbers = [f"{r['ours']:,.0f}", r["peer"], f"{r['theirs']:,.0f}", f"{r['ratio']:.2f} ×", floor]
        table.add_row(r["what"], *numbers, verdict)
    Console(width=140).print(table)
    write_readme(kept)
    sys.exit(any(map(missed, results)))


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
