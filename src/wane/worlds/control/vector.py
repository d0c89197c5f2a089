"""Any other continuous-control environment of Gymnasium, stepped through Gymnasium's vector API.

Gymnasium cannot save an environment. So each copy keeps the actions of its present episode, and `set` begins that
episode again with its seed and takes the same actions. This is exact for environments whose random numbers all come
from `reset(seed=…)`, as Gymnasium requires.
"""

from functools import cache

from wane.extras import MissingExtra, install_command, require

require("gym", "a task of Gymnasium")

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from jaxtyping import Float

from wane.worlds.control.task import ControlTask, Copies, Moved, Rows, Sizes, episode_seed


class GymnasiumCopies(Copies):
    """Copies of an environment of Gymnasium with vectors of floats as observations and actions."""

    saved = ("actions",)

    @classmethod
    def sizes(cls, task: ControlTask) -> Sizes:
        """The sizes of its spaces, and its time limit."""
        return _sizes(task.name, task.horizon)

    @property
    def states(self) -> Float[np.ndarray, "copies observations"]:
        """The observations, because the physical states are not known."""
        return self._observe().astype(float)

    def _prepare(self) -> None:
        copies, limit = len(self.seeds), self.task.horizon
        if not hasattr(self, "_env") or self._env.num_envs != copies:
            makers = [lambda: _make(self.task.name, limit)] * copies
            self._env = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED)
        space = self._env.single_action_space
        assert isinstance(space, spaces.Box)
        self._low, self._high = space.low, space.high
        self._actions = np.zeros((copies, self.horizon, *space.shape), np.float32)
        self._seen = np.zeros((copies, self.sizes(self.task).observations), np.float32)

    def _reset(self, rows: Rows) -> None:
        mask = np.zeros(len(self.seeds), bool)
        mask[rows] = True
        numbers = zip(self.seeds, self.episode, strict=True)
        seeds: list[int | None] = [episode_seed(seed, int(episode)) for seed, episode in numbers]
        seen, _ = self._env.reset(seed=seeds, options={"reset_mask": mask})
        self._seen[mask] = np.asarray(seen, np.float32)[mask]

    def _advance(self, actions: Float[np.ndarray, "copies actions"]) -> Moved:
        self._actions[np.arange(len(actions)), self.time] = actions
        seen, reward, terminated, _, _ = self._env.step(self._scaled(actions))
        self._seen = np.array(seen, np.float32)
        return np.array(reward, float), np.array(terminated)

    def _scaled(self, actions: Float[np.ndarray, "... actions"]) -> Float[np.ndarray, "... actions"]:
        return (self._low + (actions + 1) / 2 * (self._high - self._low)).astype(self._low.dtype)

    def _observe(self) -> Float[np.ndarray, "copies observations"]:
        return self._seen.copy()

    def _resume(self) -> None:
        self._reset(np.arange(len(self.seeds)))
        for i, env in enumerate(self._env.envs):
            for action in self._scaled(self._actions[i, : self.time[i]]):
                self._seen[i] = env.step(action)[0]


def is_gymnasium_s_own(name: str) -> bool:
    """Whether an id is one that Gymnasium brings, so that making it runs the code of Gymnasium alone."""
    spec = gymnasium.registry.get(name)
    modules = str(spec.entry_point) if spec and not spec.additional_wrappers else ""
    return modules.startswith("gymnasium.envs.")


def _make(name: str, horizon: int | None) -> gymnasium.Env:
    try:
        return gymnasium.make(name, max_episode_steps=horizon)
    except gymnasium.error.DependencyNotInstalled as error:
        raise MissingExtra(f"{name} needs more packages ({error}): {install_command('control')}") from error
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        raise ValueError(f"there is no task {name!r}: {error}") from error


@cache
def _sizes(name: str, horizon: int | None) -> Sizes:
    env = _make(name, horizon)
    for what, space in (("observations", env.observation_space), ("actions", env.action_space)):
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise ValueError(
                f"the {what} of {name} are {space}, and vectors of floats (a Box with one axis) are needed"
            )
    if not np.all(np.isfinite(env.action_space.low) & np.isfinite(env.action_space.high)):  # pyright: ignore
        raise ValueError(f"the actions of {name} have no limits, but limits are needed to scale them from [−1, 1]")
    limit = horizon or (env.spec.max_episode_steps if env.spec else None)
    if limit is None:
        raise ValueError(f"{name} has no time limit: give one, ControlTask({name!r}, horizon=1000)")
    return Sizes(env.observation_space.shape[0], env.action_space.shape[0], limit)  # pyright: ignore
