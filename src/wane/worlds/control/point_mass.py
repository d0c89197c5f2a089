"""A point mass that collects from three sites on a plane. Their rewards may wear off.

A force of up to 1 in each direction moves the mass, with damping, between walls at ±1. After a step, a site at the
distance d pays exp(−(d / 0.4)²) times what remains of its reward. A step that ends within 0.25 of a site is a visit:
the site's reward then wears off by the task's depletion (each step is one visit, so a geometric λ = 0.9 means that a
stay of 10 steps uses up two thirds). Without a depletion nothing wears off. Observations are positions and velocities.
With the task's setting `remaining`, they also hold what remains of each site as a fraction of its reward.

Without a depletion it is best to go to the best site and stay. With a depletion it is best to tour the sites.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image, ImageDraw

from wane.worlds.control.mujoco import MujocoCopies, mujoco
from wane.worlds.control.task import ControlTask, Moved, Rows, Sizes

XML = """
<mujoco model="point mass">
  <option timestep="0.02"/>
  <worldbody>
    <body name="mass" pos="0 0 0.05">
      <joint name="x" type="slide" axis="1 0 0" limited="true" range="-1 1" damping="1"/>
      <joint name="y" type="slide" axis="0 1 0" limited="true" range="-1 1" damping="1"/>
      <geom type="sphere" size="0.05" mass="0.3" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <actuator>
    <motor joint="x" gear="1" ctrllimited="true" ctrlrange="-1 1"/>
    <motor joint="y" gear="1" ctrllimited="true" ctrlrange="-1 1"/>
  </actuator>
</mujoco>
"""
SITES = np.array([[-0.6, -0.6], [0.6, -0.4], [0.0, 0.7]])
REWARDS = np.array([1.0, 0.5, 0.5])
RADIUS, WIDTH = 0.25, 0.4
PIXELS, COLOURS = 160, ((0, 114, 178), (213, 94, 0), (0, 158, 115))


@cache
def _model() -> Any:
    return mujoco.MjModel.from_xml_string(XML)


class PointMass(MujocoCopies):
    """Copies of the task."""

    frames, has_sites, saved = 5, True, ("physics", "memory")

    @classmethod
    def model(cls) -> Any:
        """The mass on its two rails."""
        return _model()

    @classmethod
    def sizes(cls, task: ControlTask) -> Sizes:
        """Four observations (seven with what remains), two actions, 100 steps."""
        return Sizes(4 + len(SITES) * task.remaining, 2, 100)

    @property
    def states(self) -> Float[np.ndarray, "copies numbers"]:
        """Time, positions, velocities, and what remains of each site."""
        return np.concatenate([super().states, self._worth()], 1)

    def _prepare(self) -> None:
        super()._prepare()
        depletion, shape = self.task.depletion, (len(self.seeds), len(SITES))
        self._memory = np.zeros(shape) if depletion is None else np.array(depletion.initial(shape))
        if self._memory.shape != shape:
            raise ValueError(
                f"{depletion!r} has a memory of more than one number per site, which this task does not support"
            )

    def _worth(self) -> Float[np.ndarray, "copies sites"]:
        """What remains of each site, as a fraction of its reward."""
        depletion = self.task.depletion
        return (
            np.ones(self._memory.shape[:2]) if depletion is None else np.asarray(depletion.worth(self._memory), float)
        )

    def _reset(self, rows: Rows) -> None:
        for i, rng in zip(rows, self.generators(rows), strict=True):
            self._begin(int(i), rng.uniform(-0.1, 0.1, 2), np.zeros(2))
        if self.task.depletion is not None:
            self._memory[rows] = self.task.depletion.initial((len(rows), len(SITES)))

    def _advance(self, actions: Float[np.ndarray, "copies actions"]) -> Moved:
        self._simulate(actions)
        distance = np.linalg.norm(self.positions[:, None] - SITES, axis=-1)
        reward = (np.exp(-((distance / WIDTH) ** 2)) * self._worth() * REWARDS).sum(1)
        if self.task.depletion is not None:
            after, waited = self.task.depletion.visit(self._memory), self.task.depletion.wait(self._memory)
            self._memory = np.where(distance < RADIUS, after, waited)
        return reward, np.zeros(len(actions), bool)

    def _observe(self) -> Float[np.ndarray, "copies observations"]:
        seen = [self.positions, self.velocities] + [self._worth()] * self.task.remaining
        return np.concatenate(seen, 1).astype(np.float32)

    @classmethod
    def pictures(
        cls, task: ControlTask, states: Float[np.ndarray, "moments numbers"]
    ) -> Iterable[UInt8[np.ndarray, "height width 3"]]:
        """Draws the plane from above with Pillow. Sites fade as their rewards wear off."""
        for state in states:
            image = Image.new("RGB", (PIXELS, PIXELS), "white")
            pen = ImageDraw.Draw(image)
            for site, colour, worth in zip(SITES, COLOURS, state[-len(SITES) :], strict=True):
                faded = tuple(int(255 - (0.15 + 0.85 * worth) * (255 - each)) for each in colour)
                pen.ellipse(_circle(site, RADIUS), fill=faded)
            pen.ellipse(_circle(state[1:3], 0.06), fill="#222222")
            yield np.asarray(image)


def _circle(centre: Float[np.ndarray, " 2"], radius: float) -> list[float]:
    """The box of a circle in pixels, with the y axis upward."""
    x, y = (1.1 + centre[0]) * PIXELS / 2.2, (1.1 - centre[1]) * PIXELS / 2.2
    reach = radius * PIXELS / 2.2
    return [x - reach, y - reach, x + reach, y + reach]
