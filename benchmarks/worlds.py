"""How fast the worlds are, beside gymnax, a plain ray-caster, and their own Gymnasium adapter.

Every number is a ratio to a peer timed in the same run, ours and the peer's alternating, the best of the repeats
counting. gymnax lives in a virtual environment of its own (made on first use under .cache/, a minute), as its pins
and ours need not agree.

    python benchmarks/worlds.py
"""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import textwrap
import time
import venv
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from numpy_raycaster import cast_frame
from wane.worlds import FirstPerson, make
from wane.worlds.gym import Environment

HERE = Path(__file__).parent
PEER = HERE.parent / ".cache" / "bench-gymnax"
BATCH, STEPS = 4096, 200
MARKS = "<!-- written by worlds.py -->", "<!-- end of worlds.py -->"

PEER_SCRIPT = f"""
    import time, gymnax, jax
    env, params = gymnax.make("FourRooms-misc")
    params = params.replace(max_steps_in_episode=40)

    @jax.jit
    def run(key):
        first, rest = jax.random.split(key)
        state = jax.vmap(env.reset, (0, None))(jax.random.split(first, {BATCH}), params)[1]

        def step(state, key):
            act, move = jax.random.split(key)
            action = jax.random.randint(act, ({BATCH},), 0, 4)
            keys = jax.random.split(move, {BATCH})
            seen, state, reward, *_ = jax.vmap(env.step, (0, 0, 0, None))(keys, state, action, params)
            return state, (reward.sum(), seen.sum())

        return jax.lax.scan(step, state, jax.random.split(rest, {STEPS}))[1]

    jax.block_until_ready(run(jax.random.key(0)))
    for line in iter(input, "stop"):
        start = time.perf_counter()
        jax.block_until_ready(run(jax.random.key(1)))
        print(time.perf_counter() - start, flush=True)
"""


def peer_python() -> Path:
    python = PEER / "bin" / "python"
    if not (PEER / "ready").exists():
        venv.create(PEER, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "gymnax>=1.0", "six"], check=True)
        (PEER / "ready").touch()
    return python


def walk(world, batch: int, steps: int):
    """Returns a jitted program that takes random steps in a batch of worlds, and begins anew when an episode ends."""

    @jax.jit
    def run(key):
        first, rest = jax.random.split(key)
        state = jax.vmap(world.reset)(jax.random.split(first, batch))[1]

        def step(state, key):
            act, move = jax.random.split(key)
            action = jax.random.randint(act, (batch,), 0, world.n_actions)
            observation, state, reward, *_ = jax.vmap(world.auto_step)(jax.random.split(move, batch), state, action)
            return state, (reward.sum(), observation.sum())

        return jax.lax.scan(step, state, jax.random.split(rest, steps))[1]

    return run


def seconds(run) -> float:
    start = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - start


def steps_beside_gymnax(repeats: int = 7) -> dict:
    """Steps FourRooms with four actions that fail a third of the time and episodes of 40 steps, on both sides.

    Our rewards also deplete.
    """
    script = textwrap.dedent(PEER_SCRIPT)
    talk = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    peer = subprocess.Popen([peer_python(), "-c", script], **talk)  # pyright: ignore
    assert peer.stdin
    assert peer.stdout
    world = make("four-rooms", n_actions=4, slip=1 / 3, policies=())
    run = walk(world, BATCH, STEPS)
    jax.block_until_ready(run(jax.random.key(0)))
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(seconds(lambda: run(jax.random.key(1))))
        peer.stdin.write("go\n")
        peer.stdin.flush()
        theirs.append(float(peer.stdout.readline()))
    peer.communicate("stop\n")
    rates = [BATCH * STEPS / min(times) for times in (ours, theirs)]
    what = f"steps/s, FourRooms with slip, batch of {BATCH:,}, starting anew"
    return row(what, "gymnax 1.0 FourRooms", *rates, 1.0)


def frames_beside_numpy(batch: int = 1024, plain: int = 64, repeats: int = 5) -> dict:
    world, rng = make("four-rooms"), np.random.default_rng(0)
    states, facings = rng.integers(0, world.n_states, batch), rng.integers(0, 4, batch)
    fractions = rng.random((batch, world.n_sites), dtype=np.float32)
    views = FirstPerson(world.map, world.sites)
    draw = jax.jit(jax.vmap(views.frame))
    moves = [jnp.asarray(part) for part in (states, facings, fractions)]
    jax.block_until_ready(draw(*moves))

    def reference():
        return [cast_frame(world.map, world.sites, states[i], facings[i], fractions[i]) for i in range(plain)]

    ours, theirs = zip(*((seconds(lambda: draw(*moves)), seconds(reference)) for _ in range(repeats)), strict=True)
    return row("first-person frames/s, 128 × 128", "NumPy ray-caster", batch / min(ours), plain / min(theirs), 20.0)


def batch_beside_adapter(steps: int = 500, repeats: int = 3) -> dict:
    world = make("four-rooms")
    run = walk(world, BATCH, STEPS)
    jax.block_until_ready(run(jax.random.key(0)))
    env = Environment(world)
    actions = np.random.default_rng(0).integers(0, 5, steps)

    def one_by_one():
        env.reset(seed=0)
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    one_by_one()
    pairs = ((seconds(lambda: run(jax.random.key(1))), seconds(one_by_one)) for _ in range(repeats))
    ours, theirs = zip(*pairs, strict=True)
    what = f"steps/s of the world in batches of {BATCH:,}"
    return row(what, "its own Gymnasium adapter", BATCH * STEPS / min(ours), steps / min(theirs), 500.0)


def row(what: str, peer: str, ours: float, theirs: float, floor: float) -> dict:
    return dict(what=what, peer=peer, ours=ours, theirs=theirs, ratio=ours / theirs, floor=floor)


def main() -> None:
    results = [steps_beside_gymnax(), frames_beside_numpy(), batch_beside_adapter()]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("jax", "numpy", "gymnasium"))
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    hardware = f"{machine}; Python {platform.python_version()}, {versions}"
    table = Table("what", "ours", "peer", "its", "ratio", "floor", "", title=hardware)
    for r in results:
        verdict = "passes" if r["ratio"] >= r["floor"] else "FAILS"
        numbers = [f"{r['ours']:,.0f}", r["peer"], f"{r['theirs']:,.0f}", f"{r['ratio']:.2f} ×", f"{r['floor']:g} ×"]
        table.add_row(r["what"], *numbers, verdict)
    Console().print(table)
    kept = HERE / "results" / "worlds.json"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps({"hardware": hardware, "results": results}, indent=1, ensure_ascii=False) + "\n")
    write_readme(hardware, results)
    sys.exit(any(r["ratio"] < r["floor"] for r in results))


def write_readme(hardware: str, results: list[dict]) -> None:
    """Puts the numbers between their marks in README.md."""
    lines = [
        hardware,
        "",
        "| what | ours | beside | theirs | measured | floor |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for r in results:
        numbers = f"{r['ours']:,.0f} | {r['peer']} | {r['theirs']:,.0f} | {r['ratio']:.3g} × | ≥ {r['floor']:g}"
        lines.append(f"| {r['what']} | {numbers} |")
    page = HERE / "README.md"
    before, rest = page.read_text(encoding="utf-8").split(MARKS[0])
    text = "\n".join(lines)
    page.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{rest.split(MARKS[1])[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
