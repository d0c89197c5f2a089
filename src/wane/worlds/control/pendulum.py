"""Gymnasium's Pendulum-v1 in batches: a weak motor must swing up a rod and keep it upright.

    θ̈ = 15 sin θ + 3 u,  |u| ≤ 2,  |θ̇| ≤ 8,  r = −(θ² + 0.1 θ̇² + 0.001 u²),  0.05 s a step

θ = 0 is upright. Observations, rewards and initial states equal Gymnasium's bit for bit (tested). No extra package is
needed.
"""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float, UInt8

from wane.extras import require
from wane.worlds.control.task import ControlTask, Copies, Moved, Rows, Sizes

TORQUE, SPEED, STEP = 2.0, 8.0, 0.05
PIXELS = 160


class Pendulum(Copies):
    """Copies of Pendulum-v1."""

    saved = ("state",)

    @classmethod
    def sizes(cls, task: ControlTask) -> Sizes:
        """Three observations, one action, 200 steps."""
        return Sizes(3, 1, 200)

    @property
    def states(self) -> Float[np.ndarray, "copies 2"]:
        """The angle and the angular velocity (θ, θ̇) of every copy."""
        return self._state.copy()

    def _prepare(self) -> None:
        self._state = np.zeros((len(self.seeds), 2))

    def _reset(self, rows: Rows) -> None:
        high = np.array([np.pi, 1.0])
        for i, rng in zip(rows, self.generators(rows), strict=True):
            self._state[i] = rng.uniform(low=-high, high=high)

    def _advance(self, actions: Float[np.ndarray, "copies actions"]) -> Moved:
        # The torque keeps its 32 bits, because Gymnasium's does.
        torque = np.clip(np.float32(TORQUE) * actions[:, 0], -TORQUE, TORQUE)
        angle, speed = self._state.T
        turned = ((angle + np.pi) % (2 * np.pi)) - np.pi
        cost = turned**2 + 0.1 * speed**2 + 0.001 * (torque**2)
        speed = np.clip(speed + (15.0 * np.sin(angle) + 3.0 * torque) * STEP, -SPEED, SPEED)
        self._state = np.stack([angle + speed * STEP, speed], 1)
        return -cost, np.zeros(len(cost), bool)

    def _observe(self) -> Float[np.ndarray, "copies observations"]:
        angle, speed = self._state.T
        return np.stack([np.cos(angle), np.sin(angle), speed], 1).astype(np.float32)

    @classmethod
    def pictures(
        cls, task: ControlTask, states: Float[np.ndarray, "moments numbers"]
    ) -> Iterable[UInt8[np.ndarray, "height width 3"]]:
        """Draws the rod with Pillow. Raises MissingExtra if Pillow is not installed."""
        require("plots", "the picture of a task")
        from PIL import Image, ImageDraw

        middle, length = PIXELS / 2, 0.4 * PIXELS
        for angle, _ in states:
            image = Image.new("RGB", (PIXELS, PIXELS), "white")
            tip = middle - length * np.sin(angle), middle - length * np.cos(angle)
            pen = ImageDraw.Draw(image)
            pen.line([(middle, middle), tip], fill="#D55E00", width=10)
            for (x, y), radius in (((middle, middle), 5), (tip, 8)):
                pen.ellipse([x - radius, y - radius, x + radius, y + radius], fill="#222222")
            yield np.asarray(image)
