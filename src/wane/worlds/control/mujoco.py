"""Copies of a MuJoCo model that are stepped together by MuJoCo's own threaded roll-outs (`mujoco.rollout`).

A state is what MuJoCo calls the full physics: time, positions and velocities. Every step starts the constraint solver
from scratch, so that a copy's future depends on its state alone, however many threads there are. Gymnasium starts it
from the last step's solution. Both find the same solution: steps from the same state differ by less than 1e-9 (tested;
the largest difference was 6e-13 in 400 steps of HalfCheetah-v5, and 2e-15 in Hopper-v5).

HalfCheetah-v5 and Hopper-v5 are Gymnasium's. The paper used version 2 of both, which no longer exists: it needed a
version of MuJoCo from before 2021. Since then

- version 4 replaced the old bindings by MuJoCo's own, and version 5 asks for MuJoCo 2.3.3 or later, so the simulated
  physics are those of a newer engine;
- in version 5 of Hopper, the reward of 1 for being healthy is paid only if the hopper *is* healthy; before, the last
  step of an episode was paid too. HalfCheetah's reward did not change.

Rewards, terminations, observations and initial states are those of version 5 (tested step by step).
"""

import copy
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from ctypes.util import find_library
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from wane.extras import require
from wane.worlds.control.task import ControlTask, Copies, Moved, Rows, Sizes

# MuJoCo chooses how to render when it is imported, and by default it needs a screen. Without a screen it needs EGL;
# without EGL it can still simulate, but its import would fail if rendering were not disabled.
if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
    os.environ.setdefault("MUJOCO_GL", "egl" if find_library("EGL") else "disable")
require("control", "a task of MuJoCo")
mujoco: Any = import_module("mujoco")  # It has no annotations that a type checker could follow.
rollout: Any = import_module("mujoco.rollout")

PIXELS = 160
DISABLED = ("disable", "disabled", "off", "false", "0")
"""What the variable MUJOCO_GL holds if MuJoCo does not render."""


class MujocoCopies(Copies):
    """Copies of a MuJoCo model."""

    saved: tuple[str, ...] = ("physics",)
    frames: int
    """The number of simulation steps in a step of the task."""

    @classmethod
    def model(cls) -> Any:
        """The MuJoCo model."""
        raise NotImplementedError

    def __init__(self, task: ControlTask, seeds: Sequence[int], threads: int | None = None):
        self._model = self.model()
        wanted = min(threads or os.cpu_count() or 1, len(seeds))
        # One thread needs no pool: the calling thread computes the roll-outs.
        self._rollout = rollout.Rollout(nthread=wanted if wanted > 1 else 0)
        self._data = [mujoco.MjData(self._model) for _ in range(wanted)]
        self._size = mujoco.mj_stateSize(self._model, mujoco.mjtState.mjSTATE_FULLPHYSICS.value)
        super().__init__(task, seeds, threads)

    @property
    def seconds(self) -> float:
        """The simulated time of a step of the task, in seconds."""
        return self._model.opt.timestep * self.frames

    @property
    def states(self) -> Float[np.ndarray, "copies numbers"]:
        """Time, positions and velocities."""
        return self._physics.copy()

    @property
    def positions(self) -> Float[np.ndarray, "copies positions"]:
        """MuJoCo's qpos."""
        return self._physics[:, 1 : 1 + self._model.nq]

    @property
    def velocities(self) -> Float[np.ndarray, "copies velocities"]:
        """MuJoCo's qvel."""
        return self._physics[:, 1 + self._model.nq : 1 + self._model.nq + self._model.nv]

    def _prepare(self) -> None:
        copies, data = len(self.seeds), mujoco.MjData(self._model)
        mujoco.mj_getState(self._model, data, first := np.empty(self._size), mujoco.mjtState.mjSTATE_FULLPHYSICS.value)
        self._first, self._physics = first, np.tile(first, (copies, 1))
        self._models = [self._model] * copies
        self._found = np.empty((copies, self.frames, self._size))
        self._sensed = np.empty((copies, self.frames, self._model.nsensordata))

    def _begin(self, row: int, positions: Float[np.ndarray, " qpos"], velocities: Float[np.ndarray, " qvel"]) -> None:
        """Sets a copy to the model's initial state plus the given positions and velocities."""
        self._physics[row] = self._first
        self.positions[row] += positions
        self.velocities[row] += velocities

    def _simulate(self, controls: Float[np.ndarray, "copies actions"]) -> None:
        """Simulates a step of the task in all copies, with constant controls."""
        held = np.repeat(controls.astype(float)[:, None], self.frames, 1)
        self._rollout.rollout(
            self._models,
            self._data,
            self._physics,
            held,
            nstep=self.frames,
            state=self._found,
            sensordata=self._sensed,
            skip_checks=True,
        )
        self._physics = self._found[:, -1].copy()

    @classmethod
    def pictures(
        cls, task: ControlTask, states: Float[np.ndarray, "moments numbers"]
    ) -> Iterable[UInt8[np.ndarray, "height width 3"]]:
        """Renders off-screen. MUJOCO_GL chooses how; without a screen it is egl, which Mesa provides."""
        return render(cls.model(), states, cls.camera())

    @classmethod
    def camera(cls) -> Any:
        """The name of the camera: the one that follows the model."""
        return "track"


@cache
def model_from(path: Path) -> Any:
    """Returns the model of an XML file. Each file is read once."""
    # Gymnasium's models use an attribute for which MuJoCo would write a warning to a file in the working folder.
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        return mujoco.MjModel.from_xml_path(str(path))
    finally:
        mujoco.set_mju_user_warning(None)


def render(
    model: Any, states: Float[np.ndarray, "moments numbers"], camera: Any
) -> Iterator[UInt8[np.ndarray, "height width 3"]]:
    """Draws states, one picture each. Raises RuntimeError on a machine that has neither a screen nor EGL."""
    if os.environ.get("MUJOCO_GL") in DISABLED:
        raise RuntimeError(
            "MuJoCo cannot draw here, because there is no screen and no EGL: install libegl1 and libgl1-mesa-dri, or "
            "what your system calls them, or draw on another machine"
        )
    model = _with_endless_floor(model)
    data = mujoco.MjData(model)
    with mujoco.Renderer(model, PIXELS, PIXELS) as renderer:
        for state in states:
            mujoco.mj_setState(model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS.value)
            mujoco.mj_forward(model, data)
            for _ in range(2):  # A floor without an end is drawn around where the camera was in the scene before.
                renderer.update_scene(data, camera=camera)
            yield renderer.render()


def _with_endless_floor(model: Any) -> Any:
    """Returns a copy of the model whose floor is drawn without an end, because fast runners leave a finite one."""
    model = copy.copy(model)
    floors = model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE
    model.geom_size[floors, :2] = 0  # MuJoCo draws such a plane up to the horizon.
    materials = model.geom_matid[floors & (model.geom_matid >= 0)]
    model.mat_texuniform[materials], model.mat_texrepeat[materials] = 1, 1.0  # The pattern repeats at every metre.
    return model


class Runner(MujocoCopies):
    """A model that is paid for running forward."""

    file: str
    cost: float
    """The factor of the squared actions in the cost."""
    noise: float
    """The size of the noise in the initial state of an episode."""

    @classmethod
    def model(cls) -> Any:
        """The model that comes with Gymnasium."""
        import gymnasium

        return model_from(Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / cls.file)

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
    def sizes(cls, task: ControlTask) -> Sizes:
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
    def sizes(cls, task: ControlTask) -> Sizes:
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
