"""Code that the page hands out runs as it is, and prints the numbers that the page shows."""

import os
import subprocess
import sys

import numpy as np
import pytest

from explorer import cases

STATES = 10
SHOWN = """states => states.map((given) => {
  const state = wane.state.readState(given), { world, view } = state, problem = wane.engine.makeProblem(world);
  const { grid, sites, rewards, depletion, discount, start } = problem, { Chain, row, values } = wane.representation;
  const chain = new Chain(grid, wane.engine.viewedPolicy(problem, view.policy), discount, sites);
  const paid = chain.paid(depletion, sites.map((_, i) => i)), cell = grid.number[view.cell];
  const best = wane.engine.TASKS.best({ world, seed: view.seed });
  const agents = wane.engine.TASKS.agents({ world, agents: view.agents, seed: view.seed });
  const all = values(chain, paid, rewards, world.wallPenalty);
  const numbers = { visits: [...row(chain, paid, cell)], value: [all[cell]] };
  if (best) numbers.optimum = [best.value];
  view.agents.forEach(({ kind }, i) => {
    const found = kind === "best" ? best : agents[i];
    if (found) numbers[`forager ${i + 1}`] = [found.episode.returns.at(-1)];
  });
  return { numbers, code: wane.python.pythonCode(state, best ? best.tolerance : null) };
})"""
RUN_ALL = """
import sys
for part in sys.stdin.read().split("\\f"):
    print("\\f")
    exec(compile(part, "copied", "exec"), {"__name__": "__main__"})
"""


def random_state(rng: np.random.Generator) -> dict:
    world = cases.random_world(rng)
    agents = [
        {"kind": "paths", "belief": [None, float(rng.random())][int(rng.integers(2))]},
        {"kind": "walk", "belief": [None, 0.0, 1.0][int(rng.integers(3))]},
        {"kind": "best"},
    ]
    policy = ["walk", *range(len(world["sites"]))][int(rng.integers(1 + len(world["sites"])))]
    return {"world": world, "view": {"policy": policy, "agents": agents, "seed": int(rng.integers(1, 1000))}}


def printed(text: str) -> dict[str, list[float]]:
    """The numbers of each line that was printed, by the words before them."""
    found = {}
    for line in text.split("\n"):
        words = line.split()
        if words:
            name = words[0] if words[0] != "forager" else " ".join(words[:2])
            found[name] = [float(word) for word in words[len(name.split()) :]]
    return found


def test_copied_code_prints_the_numbers_of_the_page(calculator):
    rng = np.random.default_rng(7)
    shown = calculator.evaluate(SHOWN, [random_state(rng) for _ in range(STATES)])
    codes = "\f".join(each["code"] for each in shown)
    run = subprocess.run(
        [sys.executable, "-c", RUN_ALL], input=codes, capture_output=True, text=True, env=os.environ, timeout=600
    )
    assert run.returncode == 0, run.stderr
    outputs = run.stdout.split("\f\n")[1:]
    assert len(outputs) == STATES
    for each, output in zip(shown, outputs, strict=True):
        found = printed(output)
        assert set(found) == set(each["numbers"]), each["code"]
        for name, numbers in each["numbers"].items():
            assert found[name] == pytest.approx(numbers, rel=1e-6, abs=1e-9), (name, each["code"])


def test_a_world_without_rewards_is_told_too(calculator):
    state = {"world": {"map": "...", "sites": [], "rewards": []}}
    code = calculator.evaluate("s => wane.python.pythonCode(wane.state.readState(s), null)", state)
    namespace: dict = {}
    exec(compile(code, "copied", "exec"), namespace)
    assert namespace["world"].n_states == 3
