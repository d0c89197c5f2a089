"""How fast the tabular agents are, compared with plain NumPy loops that do the same.

Every number is a ratio to a loop that is timed in the same run. Our code and the loop are timed in turns, and the best
repeat counts. The loops follow the paper's text, one agent and one episode at a time, with a column of Φ for every
state. The script first checks that both sides compute the same.

    python -m benchmarks.tabular
    python -m benchmarks.tabular --quick    # one repeat; prints, keeps and judges nothing
"""

import importlib.metadata
import json
import os
import platform
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import wane
from benchmarks import QUICK, readme
from wane.agents import gpi, q_lambda
from wane.agents.common.rollout import Transition
from wane.worlds import World, make
from wane.worlds.observe import Seen

HERE = Path(__file__).parent
AGENTS, EPISODES = 24, 100
BELIEVED = 0.5


class Loop:
    """A world for the loops: tables, and rewards over all states."""

    def __init__(self, world: World):
        self.moves, self.bumps = world.map.next_states(world.n_actions), world.map.bumps(world.n_actions)
        self.rewards = np.zeros(world.n_states)
        self.rewards[world.sites] = world.rewards
        assert isinstance(world.depletion, wane.Geometric)
        self.lam, self.horizon, self.threshold = float(world.depletion.lam), world.horizon or 0, world.threshold
        self.penalty, self.start = world.wall_penalty, int(world.start.argmax())

    def reset(self, s=None):
        self.s, self.remaining = self.start if s is None else s, self.rewards.copy()

    def step(self, a):
        bumped, self.s = self.bumps[self.s, a], self.moves[self.s, a]
        reward = self.remaining[self.s] - self.penalty * bumped
        self.remaining[self.s] *= self.lam
        return reward


def algorithm_1(phi, r, s, a, s_next, whole_table=True, lam=BELIEVED, discount=0.95, alpha=0.1):
    """Updates Φ by the paper's Algorithm 1, line by line, or with Q computed only for the next state."""
    q = (phi @ r)[s_next] if whole_table else phi[s_next] @ r
    ahead = phi[s_next, np.argmax(q)]
    one = np.zeros(len(r))
    one[s] = 1
    delta = one * (1 + discount * lam * ahead) + discount * (1 - one) * ahead - phi[s, a]
    phi[s, a] += alpha * delta


def loop_q_lambda(loop: Loop, episodes: int, whole_table: bool, epsilon=0.2, optimism=0.2) -> np.ndarray:
    rng = np.random.default_rng(0)
    n_states, n_actions = loop.moves.shape
    phi = np.full((n_states, n_actions, n_states), optimism)
    for _ in range(episodes):
        loop.reset()
        for _ in range(loop.horizon):
            s = loop.s
            a = rng.integers(n_actions) if rng.random() < epsilon else np.argmax(phi[s] @ loop.remaining)
            loop.step(a)
            algorithm_1(phi, loop.remaining, s, a, loop.s, whole_table)
    return phi


def loop_gpi(loop: Loop, phis: list[np.ndarray], discount: float) -> np.ndarray:
    """Returns Σ γᵗ rₜ from every start, one after another."""
    returns = np.zeros(len(loop.moves))
    for start in range(len(returns)):
        loop.reset(start)
        for t in range(1, loop.horizon + 1):
            q = np.array([phi[loop.s] @ loop.remaining for phi in phis])
            returns[start] += discount**t * loop.step(np.argmax(q.max(0)))
            if loop.threshold is not None and loop.remaining.max() < loop.threshold:
                break
    return returns


def seconds(run) -> float:
    start = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - start


def best(ours, theirs, repeats: int, calls: int = 1) -> tuple[float, ...]:
    """Returns the best seconds of both, timed in turns. `calls` calls of ours take about as long as one of theirs."""
    jax.block_until_ready(ours())
    pairs = [
        (seconds(lambda: [ours() for _ in range(calls)]) / calls, seconds(theirs))
        for _ in range(1 if QUICK else repeats)
    ]
    return tuple(min(times) for times in zip(*pairs, strict=True))


def check_same_update(world: World, steps: int = 500) -> None:
    """Checks that the loop's table and ours agree in the sites' columns after the same random steps."""
    config, loop, rng = q_lambda.Config(lam=BELIEVED), Loop(world), np.random.default_rng(1)
    state = q_lambda.init(jax.random.key(0), world, config)
    update = jax.jit(lambda state, t: q_lambda.update(state, t, world, config)[0])
    phi = np.full((world.n_states, world.n_actions, world.n_states), config.optimism)
    loop.reset()
    for _ in range(steps):
        s, a = loop.s, int(rng.integers(world.n_actions))
        reward = loop.step(a)
        algorithm_1(phi, loop.remaining, s, a, loop.s)
        remaining = loop.remaining[world.sites]
        state = update(state, Transition(Seen(s, remaining), a, reward, Seen(loop.s, remaining), False, False, 1.0))
    np.testing.assert_allclose(state.phi, phi[..., world.sites], atol=1e-4)


def q_lambda_beside_numpy(whole_table: bool, peer: str, floor: float | None, repeats: int = 25) -> dict:
    world, episodes = make("two-rooms"), 10
    check_same_update(world)
    config = q_lambda.Config(lam=BELIEVED, episodes=EPISODES, evaluate_every=EPISODES + 1)
    keys = jax.random.split(jax.random.key(0), AGENTS)
    train = jax.jit(jax.vmap(lambda key: q_lambda.train(key, world, config)))
    loop, steps = Loop(world), world.horizon or 0
    ours, theirs = best(lambda: train(keys), lambda: loop_q_lambda(loop, episodes, whole_table), repeats)
    rates = AGENTS * EPISODES * steps / ours, episodes * steps / theirs
    return row(f"Qλ-learning steps/s, TwoRooms, {AGENTS} agents", peer, *rates, floor)


def gpi_beside_numpy(repeats: int = 25) -> dict:
    world = make("four-rooms")
    believed = wane.Geometric(BELIEVED)
    phi = jnp.asarray(gpi.representations(world, depletion=believed))
    run = jax.jit(lambda phi: gpi.discounted_returns(jax.random.key(0), world, phi))
    mdp = world.mdp
    kernels = [mdp.under(policy) for policy in world.policies]
    full = [wane.representation(kernel, believed, discount=world.discount).action_matrix(mdp) for kernel in kernels]
    loop = Loop(world)
    np.testing.assert_allclose(run(phi), loop_gpi(loop, full, world.discount), atol=1e-3)
    ours, theirs = best(lambda: run(phi), lambda: loop_gpi(loop, full, world.discount), repeats, 100)
    what = f"GPI over all {world.n_states} starts of FourRooms, sets of episodes/s"
    return row(what, "NumPy loop over starts and steps", 1 / ours, 1 / theirs, 100.0)


def row(what: str, peer: str, ours: float, theirs: float, floor: float | None) -> dict:
    return dict(what=what, peer=peer, ours=ours, theirs=theirs, ratio=ours / theirs, floor=floor)


def main() -> None:
    results = [
        q_lambda_beside_numpy(True, "one agent in NumPy, as in the box", 50.0),
        q_lambda_beside_numpy(False, "one agent in NumPy, Q of one state only", None),
        gpi_beside_numpy(),
    ]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("jax", "numpy"))
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    hardware = f"{machine}; Python {platform.python_version()}, {versions}"
    table = Table("what", "ours", "peer", "its", "ratio", "floor", "", title=hardware)
    for r in results:
        floor, verdict = ("", "") if r["floor"] is None else (f"{r['floor']:g} ×", "FAILS" if missed(r) else "passes")
        numbers = [f"{r['ours']:,.0f}", r["peer"], f"{r['theirs']:,.0f}", f"{r['ratio']:.0f} ×", floor]
        table.add_row(r["what"], *numbers, verdict)
    Console().print(table)
    if QUICK:
        return
    kept = HERE / "results" / "tabular.json"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps({"hardware": hardware, "results": results}, indent=1, ensure_ascii=False) + "\n")
    write_readme(hardware, results)
    sys.exit(any(map(missed, results)))


def missed(result: dict) -> bool:
    return result["floor"] is not None and result["ratio"] < result["floor"]


def write_readme(hardware: str, results: list[dict]) -> None:
    """Puts the numbers between their marks in README.md."""
    lines = [
        hardware,
        "",
        "| what | ours | beside | theirs | measured | floor |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for r in results:
        floor = "" if r["floor"] is None else f"≥ {r['floor']:g}"
        numbers = f"{r['ours']:,.0f} | {r['peer']} | {r['theirs']:,.0f} | {r['ratio']:.0f} × | {floor}"
        lines.append(f"| {r['what']} | {numbers} |")
    readme.write("tabular", lines)


if __name__ == "__main__":
    main()
