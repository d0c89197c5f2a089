"""A batch of copies of a world as a `VecEnv` of Stable-Baselines3, which must be installed: `pip install 'wane[sb3]'`.

    from stable_baselines3 import PPO
    from wane.worlds.sb3 import VecWorld

    PPO("MlpPolicy", VecWorld("four-rooms", num_envs=64, observation="index+remaining+flat")).learn(100_000)

A copy whose episode ends begins anew in the same step. `infos` of such a copy hold the last observation of the old
episode ("terminal_observation") and whether it was cut off ("TimeLimit.truncated"); all other `infos` are empty. Wrap
a `VecWorld` in Stable-Baselines3's `VecMonitor` to log the returns of episodes.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from wane.extras import require

require("gym", "wane.worlds.sb3")

import numpy as np
from gymnasium import spaces
from jaxtyping import Bool, Float

from wane.worlds.catalog import world_of
from wane.worlds.rules import check_actions
from wane.worlds.simulate import Copies
from wane.worlds.spaces import observation_space
from wane.worlds.world import World

if TYPE_CHECKING:
    VecEnv = Any
else:
    try:
        from stable_baselines3.common.vec_env import VecEnv
    except ImportError:
        VecEnv = object

Indices = int | Iterable[int] | None


class VecWorld(VecEnv):
    """Many copies of a world for Stable-Baselines3. The world is given as it is or by its name; settings change it.

    The default observation hides what remains of the rewards; `observation="index+remaining+flat"` shows it to policies
    that take vectors, and "index+remaining" to those that take dictionaries ("MultiInputPolicy").
    """

    def __init__(self, world: World | str, num_envs: int = 1, **settings: Any) -> None:
        require("sb3", "VecWorld")
        self.world = world_of(world, settings)
        self._simulation, self._rng = Copies(self.world, num_envs), np.random.default_rng()
        self._actions = np.zeros(num_envs, int)
        super().__init__(num_envs, observation_space(self.world), spaces.Discrete(self.world.n_actions))

    def reset(self) -> Any:
        """Begins an episode in every copy. The seed is that of the last call of `seed`, if there was one."""
        if self._seeds[0] is not None:
            self._rng = np.random.default_rng(self._seeds[0])
        self._reset_seeds()
        self._simulation.reset(self._rng.random(self.num_envs))
        return self._simulation.observe()

    def step_async(self, actions: Any) -> None:
        """Keeps the actions that `step_wait` takes."""
        self._actions = check_actions(actions, self.num_envs, self.world.n_actions)

    def step_wait(self) -> tuple[Any, Float[np.ndarray, " copies"], Bool[np.ndarray, " copies"], list[dict[str, Any]]]:
        """Takes one step in every copy. Returns the observation, the reward, whether the episode ended, and infos."""
        observation, reward, terminated, truncated, final = self._simulation.auto_step(self._actions, self._rng)
        done = terminated | truncated
        return observation, reward.astype(np.float32), done, make_infos(done, truncated, final)

    def close(self) -> None:
        """Does nothing, as nothing is open."""

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Returns an attribute, which all copies share, once for each copy."""
        value = None if attr_name == "render_mode" else getattr(self, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Raises NotImplementedError, because the copies are one object."""
        raise NotImplementedError(
            f"the copies of a world share {attr_name!r}: make another VecWorld with other settings"
        )

    def env_method(self, method_name: str, *arguments: Any, indices: Indices = None, **options: Any) -> list[Any]:
        """Raises NotImplementedError, because the copies are one object."""
        raise NotImplementedError(f"the copies of a world have no method {method_name!r} of their own")

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        """Returns False for each copy."""
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[None]:
        """Returns no pictures."""
        return [None] * self.num_envs


def make_infos(
    done: Bool[np.ndarray, " copies"], truncated: Bool[np.ndarray, " copies"], final: Any
) -> list[dict[str, Any]]:
    """Returns a dictionary for each copy. Only the dictionaries of copies that are done have entries.

    `final` is the last observation of each old episode: a batch, of which only the copies that are done count.
    """
    infos: list[dict[str, Any]] = [{} for _ in range(len(done))]
    for i in np.flatnonzero(done).tolist():
        last = {name: part[i].copy() for name, part in final.items()} if isinstance(final, dict) else final[i].copy()
        infos[i] = {"terminal_observation": last, "TimeLimit.truncated": bool(truncated[i])}
    return infos
