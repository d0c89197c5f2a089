"""How fast SAC learns: steps of the task per second, each with one update of all networks, at the paper's size.

- One agent with two critics on Pendulum-v1, compared with SAC of Stable-Baselines3 (PyTorch) and of SBX (JAX) with the
  same settings (`sb3_sac.py`).
- 48 agents of six kinds together, compared with one agent, both on HalfCheetah-v5. The floor, 12, is for a GPU: two
  cores are busy with one agent already. This row is left out where MuJoCo is not installed.

The sides of a row are timed in turns, and the best repeat counts. The libraries live in virtual environments of their
own (made on first use under .cache/, a few minutes and some GB, because of PyTorch) unless they are installed already.
Where one cannot be installed, its row is left out, and the script says so.

    python -m benchmarks.sac
"""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import QUICK
from benchmarks.beside import Peer, compare, compare_with_peer, report
from wane.agents.sac import Config, Learners, Variant
from wane.extras import MissingExtra
from wane.worlds.control import ControlTask
from wane_paper.networks.sac_learning import SIX, VARIANTS

PEERS = {"stable_baselines3": "Stable-Baselines3's SAC", "sbx": "SBX's SAC"}
FLOORS = {"cpu": None, "gpu": 12.0}


class Together:
    """Several agents of all kinds as one program, or a single SAC agent with two critics."""

    def __init__(self, task: str, agents: int, steps: int):
        config = Config(replay=100_000, collection_steps=300, random_steps=300, steps=steps, evaluation_episodes=1)
        kinds = [VARIANTS[name] for name in SIX]
        columns = (np.resize(np.asarray(column), agents) for column in zip(*kinds, strict=True))
        variants = Variant(*map(jnp.asarray, columns)) if agents > 1 else None
        config = config if agents > 1 else VARIANTS["SAC-2"].applied(config)
        self.learners = Learners(jax.random.split(jax.random.key(0), agents), ControlTask(task), config, variants)
        # Evaluations are not timed.
        self.learners.player.evaluate = lambda policies, number: np.zeros(agents)  # pyright: ignore
        self.agents, self.steps, self.epoch = agents, steps, 0
        self.states = self.learners.init()
        # Updates begin after 300 steps.
        for _ in range(-(-400 // steps)):
            self.run()

    def run(self) -> None:
        self.states, _ = self.learners.epoch(self.states, self.epoch)
        jax.block_until_ready(self.states)
        self.epoch += 1

    def rate(self) -> float:
        start = time.perf_counter()
        self.run()
        return self.agents * self.steps / (time.perf_counter() - start)


def measure(kind: str) -> list[dict[str, Any]]:
    """Returns all rows that can be measured."""
    steps, found = 1000 if kind == "cpu" else 2000, []
    for library, name in [*PEERS.items()][: 1 if QUICK else None]:
        found += compare_with_peer(
            "steps/s, one agent",
            name,
            lambda: Together("Pendulum-v1", 1, 400 if QUICK else steps),
            lambda library=library: Peer(library, "sb3_sac.py", library, steps=steps),
            3,
            1.0,
        )
    if QUICK:
        return found
    try:
        few = 100 if kind == "cpu" else steps
        many, one = (Together("HalfCheetah-v5", agents, few) for agents in (48, 1))
    except MissingExtra as error:
        print(f"The row of 48 agents is left out: {error}")
        return found
    found.append(compare("steps/s, 48 agents", "one agent", many, one, 2, FLOORS[kind]))
    return found


if __name__ == "__main__":
    report("sac", "stable_baselines3", measure)
