"""How fast the recurrent actor–critic learns: steps in the world per second, at the paper's size.

- Nine runs as one program (three λ, three seeds, as in the paper), compared with one run of the same agent that is
  driven step by step: the world is its Gymnasium environment, and the compiled network is called once to act and once
  to learn.
- One run as one program, compared with RecurrentPPO of sb3-contrib on the same world, with the same LSTM and the same
  number of gradient steps (`sb3_recurrent.py`).

Both sides of a row are timed in turns, and the best repeat counts. The floor of the first row, 30, is for a GPU: at the
paper's size two cores are busy with one network already, so nine of them cannot be 30 times as fast.

sb3-contrib lives in a virtual environment of its own (made on first use under .cache/, a few minutes and 5 GB, because
of PyTorch) unless it is installed already. Where it cannot be installed, its row is left out, and the script says so.

    python -m benchmarks.a2c
"""

import dataclasses
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import QUICK
from benchmarks.beside import Peer, compare, compare_with_peer, report
from wane.agents import a2c
from wane.agents.a2c import Config, Moment, Sequences
from wane.agents.common.rollout import Transition
from wane.worlds import make
from wane.worlds.gym import Environment

WORLD = make("two-rooms", discount=0.99)
LAMS = (0.0, 0.5, 1.0)
FLOORS = {"cpu": None, "gpu": 30.0}


class Together:
    """Several runs as one program, or a single run."""

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
        self.carry = self.empty

        @jax.jit
        def act(params, carry, x, draw):
            return policy.act(policy.params._replace(params=params), carry, x, draw)[:2]

        self.act, self.update = act, jax.jit(lambda state, data: a2c.update(state, data, WORLD, self.config)[0])
        self.play()

    def rate(self) -> float:
        start = time.perf_counter()
        for _ in range(self.updates):
            self.play()
        jax.block_until_ready(self.state)
        return self.updates * self.config.length / (time.perf_counter() - start)

    def play(self) -> None:
        """Plays one sequence, and takes the gradient step on it."""
        begin, steps = self.carry, []
        for _ in range(self.config.length):
            cell, info = self.seen
            now = Moment(self.one_hot[cell], np.int32(cell), info["remaining"])
            action, self.carry = self.act(self.state.params, self.carry, now.x, self.rng.random(1))
            after, reward, terminated, truncated, later = self.env.step(int(action))
            then = Moment(self.one_hot[after], np.int32(after), later["remaining"])
            steps.append(Transition(now, action, reward, then, terminated, truncated, 1.0))
            self.seen = after, later
            if terminated or truncated:
                self.seen, self.carry = self.env.reset(), self.empty
        stacked = jax.tree_util.tree_map(lambda *leaves: np.stack(leaves)[:, None], *steps)
        carry = jax.tree_util.tree_map(lambda leaf: leaf[None], begin)
        self.state = self.update(self.state, Sequences(carry, stacked))


def measure(kind: str) -> list[dict[str, Any]]:
    """Returns both rows, without the one for RecurrentPPO where sb3-contrib cannot be installed."""
    updates = 1 if QUICK else 60 if kind == "cpu" else 500
    peer = "one run, step by step through Gymnasium"
    many, alone = Together(9, updates), StepByStep(1 if QUICK else 30)
    return [
        compare("steps/s, nine runs", peer, many, alone, 5, FLOORS[kind]),
        *compare_with_peer(
            "steps/s, one run",
            "sb3-contrib's RecurrentPPO",
            lambda: Together(1, 10 * updates),
            lambda: Peer("sb3_contrib", "sb3_recurrent.py", steps=1024),
            5,
            1.0,
        ),
    ]


if __name__ == "__main__":
    report("a2c", "sb3_contrib", measure)
