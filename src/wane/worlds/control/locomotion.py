"""Gymnasium's HalfCheetah-v5 and Hopper-v5 in batches.

The paper used version 2 of both, which no longer exists: it needed a version of MuJoCo from before 2021. Since then

- version 4 replaced the old bindings by MuJoCo's own, and version 5 asks for MuJoCo 2.3.3 or later, so the simulated
  physics are those of a newer engine;
- in version 5 of Hopper, the reward of 1 for being healthy is paid only if the hopper *is* healthy; before, the last
  step of an episode was paid too. HalfCheetah's reward did not change.

Rewards, terminations, observations and initial states are those of version 5 (tested step by step).
"""

from pathlib import Path
from typing import Any

from wane.extras import require

require("control", "a locomotion task")

import gymnasium
import numpy as np
from jaxtyping import Bool, Float

from wane.worlds.control.rollouts import RolloutBatch, model_from
from wane.worlds.control.task import Rows, Sizes, Task

ASSETS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
Moved = tuple[Float[np.ndarray, " copies"], Bool[np.ndarray, " copies"]]


class Runner(RolloutBatch):
    """A model that is paid for running forward."""

    file: str
    cost: float
    """The factor of the squared actions in the cost."""
    noise: float
    """The size of the noise in the initial state of an episode."""

    @classmethod
    def model(cls) -> Any:
        """The model that comes with Gymnasium."""
        return model_from(ASSETS / cls.file)

    def _run(self, actions: Float[np.ndarray, "copies actions"]) -> Float[np.ndarray, " copies"]:
        """Moves all copies. Returns their forward speeds minus the cost of the actions."""
        before = self.positions[:, 0].copy()
        self._simulate(actions)
        speed = (self.positions[:, 0] - before) / self.seconds
        return speed - self.cost * np.sum(np.square(actions), axis=1)


class HalfCheetah(Runner):
    """Copies of HalfCheetah-v5: r = speed − 0.1 |a|², and no episode ends before its time."""

    file, frames, cost, noise = "half_cheetah.xml", 5, 0.1, 0.1

    @classmethod
    def sizes(cls, task: Task) -> Sizes:
        """17 observations, 6 actions, 1,000 steps."""
        return Sizes(17, 6, 1000)

    def _reset(self, rows: Rows) -> None:
        for i, rng in zip(rows, self.generators(rows), strict=True):
            positions = rng.uniform(low=-self.noise, high=self.noise, size=self._model.nq)
            self._begin(int(i), positions, self.noise * rng.standard_normal(self._model.nv))

    def _advance(self, actions: Float[np.ndarray, "copies actions"]) -> Moved:
        return self._run(actions), np.zeros(len(actions), bool)

    def _observe(self) -> Float[np.ndarray, "copies observations"]:
        return np.concatenate([self.positions[:, 1:], self.velocities], 1).astype(np.float32)


class Hopper(Runner):
    """Copies of Hopper-v5: r = 1 + speed − 0.001 |a|² while it is healthy; an episode ends when it is not."""

    file, frames, cost, noise = "hopper.xml", 4, 1e-3, 5e-3

    @classmethod
    def sizes(cls, task: Task) -> Sizes:
        """11 observations, 3 actions, 1,000 steps."""
        return Sizes(11, 3, 1000)

    def _reset(self, rows: Rows) -> None:
        low, high = -self.noise, self.noise
        for i, rng in zip(rows, self.generators(rows), strict=True):
            positions = rng.uniform(low=low, high=high, size=self._model.nq)
            self._begin(int(i), positions, rng.uniform(low=low, high=high, size=self._model.nv))

    def _advance(self, actions: Float[np.ndarray, "copies actions"]) -> Moved:
        reward = self._run(actions)
        states = np.concatenate([self.positions, self.velocities], 1)[:, 2:]
        height, angle = self.positions[:, 1], self.positions[:, 2]
        healthy = (np.abs(states) < 100).all(1) & (height > 0.7) & (np.abs(angle) < 0.2)
        return reward + healthy, ~healthy

    def _observe(self) -> Float[np.ndarray, "copies observations"]:
        speeds = np.clip(self.velocities, -10, 10)
        return np.concatenate([self.positions[:, 1:], speeds], 1).astype(np.float32)
