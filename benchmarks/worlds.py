"""How fast the worlds are, compared with gymnax, a plain ray-caster, and environments of Gymnasium.

Every number is a ratio to a peer that is timed in the same run. Both sides are timed in turns, and the best repeat
counts. gymnax lives in its own virtual environment (made on first use under .cache/, a minute), because its pinned
versions and ours need not agree.

    python -m benchmarks.worlds
    python -m benchmarks.worlds single batch      # some cases; the others keep the numbers they had
    python -m benchmarks.worlds --quick           # few steps; prints, keeps and judges nothing
"""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import QUICK, readme
from benchmarks.beside import peer_python
from benchmarks.numpy_raycaster import cast_frame
from wane import TimeElapsed
from wane.worlds import FirstPersonView, World, make
from wane.worlds.gym import VectorEnvironment
from wane.worlds.sb3 import make_infos
from wane.worlds.simulate import Copies

HERE = Path(__file__).parent
BATCH, STEPS = (64, 20) if QUICK else (4096, 200)
REPEATS = 1 if QUICK else 7

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


def steps_beside_gymnax() -> list[dict]:
    """Steps FourRooms with four actions that fail a third of the time and episodes of 40 steps, on both sides.

    Our rewards also deplete. A quick run leaves the row out where gymnax is not installed.
    """
    world = make("four-rooms", n_actions=4, slip=1 / 3, policies=())
    run = walk(world, BATCH, STEPS)
    jax.block_until_ready(run(jax.random.key(0)))
    try:
        python = peer_python("gymnax")
    except OSError as error:
        print(f"The row beside gymnax is left out, because it is not installed: {error}")
        return []
    talk = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    peer = subprocess.Popen([python, "-P", "-c", textwrap.dedent(PEER_SCRIPT)], **talk)  # pyright: ignore
    assert peer.stdin
    assert peer.stdout
    ours, theirs = [], []
    for _ in range(REPEATS):
        ours.append(seconds(lambda: run(jax.random.key(1))))
        peer.stdin.write("go\n")
        peer.stdin.flush()
        theirs.append(float(peer.stdout.readline()))
    peer.communicate("stop\n")
    rates = [BATCH * STEPS / min(times) for times in (ours, theirs)]
    what = f"steps/s, FourRooms with slip, batch of {BATCH:,}, starting anew"
    return [row(what, "gymnax 1.0 FourRooms", *rates, 1.0)]


def frames_beside_numpy() -> list[dict]:
    batch, plain, repeats = (8, 1, 1) if QUICK else (1024, 64, 5)
    world, rng = make("four-rooms"), np.random.default_rng(0)
    states, facings = rng.integers(0, world.n_states, batch), rng.integers(0, 4, batch)
    fractions = rng.random((batch, world.n_sites), dtype=np.float32)
    views = FirstPersonView(world.map, world.sites)
    draw = jax.jit(jax.vmap(views.frame))
    moves = [jnp.asarray(part) for part in (states, facings, fractions)]
    jax.block_until_ready(draw(*moves))

    def reference():
        return [cast_frame(world.map, world.sites, states[i], facings[i], fractions[i]) for i in range(plain)]

    ours, theirs = zip(*((seconds(lambda: draw(*moves)), seconds(reference)) for _ in range(repeats)), strict=True)
    return [row("first-person frames/s, 128 × 128", "NumPy ray-caster", batch / min(ours), plain / min(theirs), 20.0)]


def play(env: Any, steps: int):
    """Returns a program that takes random steps in one environment, and begins anew when an episode ends."""
    actions = np.random.default_rng(0).integers(0, env.action_space.n, steps)

    def run():
        env.reset(seed=0)
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return run


def jitted_steps(world: World, steps: int):
    """Returns a program that steps the compiled world one by one, with the conversions that Gymnasium wants."""
    reset, step = jax.jit(world.reset), jax.jit(world.step)
    actions = np.random.default_rng(0).integers(0, world.n_actions, steps)

    def run():
        key = jax.random.key(0)
        state = reset(key)[1]
        for action in actions:
            key, now = jax.random.split(key)
            seen, state, reward, terminated, truncated, info = step(now, state, action)
            int(seen), float(reward), np.asarray(info["remaining"]), np.asarray(info["site"])
            if bool(terminated) or bool(truncated):
                state = reset(now)[1]

    return run


def single_environments() -> list[dict]:
    """Compares one FourRooms from `gymnasium.make` with CartPole and with the compiled step."""
    steps = 400 if QUICK else 20_000
    few = steps // 20
    world = make("four-rooms")
    runs = [
        (play(gymnasium.make("wane/FourRooms-v0"), steps), steps),
        (play(gymnasium.make("CartPole-v1"), steps), steps),
        (play(gymnasium.make("wane/FourRooms-v0", depletion=TimeElapsed(0.5)), steps), steps),
        (jitted_steps(world, few), few),
    ]
    ours, pole, regrowing, compiled = rates(runs)
    what = "steps/s of one environment, FourRooms"
    return [
        row(what, "Gymnasium's CartPole", ours, pole, 1.0),
        row(what, "the compiled step, called from Python", ours, compiled, 30.0),
        row(f"{what}, rewards that grow back", "Gymnasium's CartPole", regrowing, pole, 0.5),
    ]


def vector_environments() -> list[dict]:
    """Compares many copies of FourRooms that one call steps with Gymnasium's vector form of CartPole."""
    copies, steps = 1024, 10 if QUICK else 100
    world = make("four-rooms")
    batch, rng = Copies(world, copies), np.random.default_rng(0)
    batch.reset(rng.random(copies))
    actions = rng.integers(0, 5, (steps, copies))
    vectors = [VectorEnvironment(world, copies), gymnasium.make_vec("CartPole-v1", copies, "vector_entry_point")]
    for vector in vectors:
        vector.reset(seed=0)

    def same_step():
        for row in actions:
            *_, terminated, truncated, final = batch.auto_step(row, rng)
            make_infos(terminated | truncated, truncated, final)

    def step(vector: Any, actions: Any):
        return lambda: [vector.step(row) for row in actions]

    runs = [same_step, step(vectors[0], actions), step(vectors[1], actions % 2)]
    sb3, ours, pole = rates([(run, copies * steps) for run in runs])
    return [
        row(f"steps/s of a vector of {copies:,}, FourRooms", "Gymnasium's CartPole, vectorised", ours, pole, 0.5),
        row(f"steps/s of {copies:,} copies for Stable-Baselines3, infos included", "a million", sb3, 1e6, 1.0),
    ]


def rates(runs: list) -> list[float]:
    """Returns the best steps/s of each (program, steps), timed in turns."""
    for run, _ in runs:
        run()
    times = [[seconds(run) for run, _ in runs] for _ in range(REPEATS)]
    return [steps / min(each) for (_, steps), each in zip(runs, zip(*times, strict=True), strict=True)]


def row(what: str, peer: str, ours: float, theirs: float, floor: float) -> dict:
    return dict(what=what, peer=peer, ours=ours, theirs=theirs, ratio=ours / theirs, floor=floor)


CASES = {
    "gymnax": steps_beside_gymnax,
    "frames": frames_beside_numpy,
    "single": single_environments,
    "batch": vector_environments,
}


def main() -> None:
    kept = HERE / "results" / "worlds.json"
    before = json.loads(kept.read_text("utf-8"))["results"] if kept.exists() else []
    chosen = [word for word in sys.argv[1:] if word != "--quick"] or list(CASES)
    results = []
    for name, case in CASES.items():
        measured = case() if name in chosen else [r for r in before if r.get("case") == name]
        results += [{"case": name} | r for r in measured]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("jax", "numpy", "gymnasium"))
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    hardware = f"{machine}; Python {platform.python_version()}, {versions}"
    table = Table("what", "ours", "peer", "its", "ratio", "floor", "", title=hardware)
    for r in results:
        verdict = "passes" if r["ratio"] >= r["floor"] else "FAILS"
        numbers = [f"{r['ours']:,.0f}", r["peer"], f"{r['theirs']:,.0f}", f"{r['ratio']:.2f} ×", f"{r['floor']:g} ×"]
        table.add_row(r["what"], *numbers, verdict)
    Console().print(table)
    if QUICK:
        return
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
    readme.write("worlds", lines)


if __name__ == "__main__":
    main()
