"""Worlds as Gymnasium environments, and any Gymnasium environment as one whose rewards wear off.

Importing this module registers the catalogue with Gymnasium. `import wane` does so too if Gymnasium was imported
before. Gymnasium loads no plug-ins by itself, but the name of this module in front of the id makes it import the
module, which always works:

    >>> env = gymnasium.make("wane.worlds.gym:wane/FourRooms-v0", slip=0.2)
    >>> env.observation_space
    Discrete(68)

The settings are those of `wane.worlds.make`. `gymnasium.make_vec` makes many copies of a world, which one call steps.
An episode that reaches its horizon is truncated; one in which less than `threshold` remains of every reward is
terminated.

By default, environments show only the state number. They hide what remains of the rewards, so that a learner without
memory faces a partially observed world (docs/partial-observability.md). An observation with "+remaining" is a
dictionary with "view" and "remaining"; with "+remaining+flat" it is one vector.

The steps are those of `wane.worlds.simulate`, in NumPy. `wane.worlds.sb3` is for Stable-Baselines3.
`wane.worlds.depleting` makes the rewards of any other Gymnasium environment wear off.
"""

from dataclasses import replace
from typing import Any

from wane.extras import require

require("gym", "wane.worlds.gym")

import gymnasium
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from jaxtyping import UInt8

from wane.types import Integer
from wane.worlds.catalog import ENDLESS, names, world_of
from wane.worlds.depleting import Depleting, DepletingVector
from wane.worlds.rules import check_action, check_actions, find_state
from wane.worlds.simulate import Copies, Single
from wane.worlds.spaces import batch_space, observation_space
from wane.worlds.top_down import TopDownView
from wane.worlds.world import State, World

__all__ = ["Depleting", "DepletingVector", "Environment", "VectorEnvironment", "environment_id", "register_all", "text"]

_RENDER_MODES = ("rgb_array", "human", "ansi")


class Environment(gymnasium.Env):
    """One world as a Gymnasium environment. The world is given as it is or by its name; settings change it.

    The default observation is the state number, which hides what remains of the rewards, so that the environment is
    partially observed. With `observation="index+remaining"`, or `Index(remaining=True)`, it is a dictionary that also
    holds what remains, and with "index+remaining+flat" one vector. `info["remaining"]` always holds what remains.
    """

    metadata: dict[str, Any] = {"render_modes": list(_RENDER_MODES), "render_fps": 6}  # noqa: RUF012  (Gymnasium's own)

    def __init__(self, world: World | str, render_mode: str | None = None, **settings: Any) -> None:
        self.world = world_of(world, settings)
        self.render_mode = _check_render_mode(render_mode)
        self.observation_space = observation_space(self.world)
        self.action_space = spaces.Discrete(self.world.n_actions)
        self._simulation, self._began = Single(self.world), False
        self._window = self._picture = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode, in a given place with `options={"state": s}`: a letter, a cell or a state number."""
        super().reset(seed=seed)
        if unknown := set(options or {}) - {"state"}:
            raise ValueError(f"unknown option {unknown.pop()!r}: the only option is 'state', the initial state")
        number = self.np_random.random()
        if options and "state" in options:
            self._simulation.begin(find_state(self.world.map, options["state"], "start"))
        else:
            self._simulation.reset(number)
        self._began = True
        if self.render_mode == "human":
            self.render()
        return self._simulation.observe(), {"remaining": self._simulation.remaining}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes one step, as Gymnasium defines it."""
        action = check_action(action, self.world.n_actions)
        if not self._began:
            raise RuntimeError("there is no episode yet: call reset first")
        simulation = self._simulation
        numbers = self.np_random.random(2) if self.world.slip else None
        reward, terminated, truncated, site = simulation.step(action, numbers)
        if self.render_mode == "human":
            self.render()
        info = {"remaining": simulation.remaining, "site": site}
        return simulation.observe(), reward, terminated, truncated, info

    def render(self) -> Any:
        """Returns the map as text or as a picture, or shows it in a window, depending on the render mode."""
        if not self._began or self.render_mode is None:
            return None
        state = self._simulation.state
        if self.render_mode == "ansi":
            return text(self.world, state)
        if self._picture is None:
            pixels = max(4, min(32, 1024 // max(self.world.map.shape)))
            self._picture = TopDownView(self.world.map, self.world.sites, cell_pixels=pixels)
        worth = jnp.clip(self._simulation.sites.worth(), 0, 1)
        frame = np.asarray(self._picture.frame(state.cell, state.facing, worth))
        return frame if self.render_mode == "rgb_array" else self._show(frame)

    def _show(self, frame: UInt8[np.ndarray, "height width 3"]) -> None:
        """Shows a picture in a window that follows the agent."""
        from matplotlib import pyplot

        if self._window is None:
            self._window = pyplot.figure(f"wane {id(self)}").add_axes((0, 0, 1, 1)).imshow(frame)
        self._window.set_data(frame)
        pyplot.pause(1 / self.metadata["render_fps"])

    def close(self) -> None:
        """Closes the window, if there is one."""
        if self._window is not None:
            from matplotlib import pyplot

            pyplot.close(f"wane {id(self)}")
            self._window = None


class VectorEnvironment(VectorEnv):
    """Many copies of a world, which one call steps in NumPy. A copy that has ended begins anew at its next step."""

    def __init__(
        self,
        world: World | str,
        num_envs: int = 1,
        render_mode: str | None = None,
        max_episode_steps: Integer | None = None,
        **settings: Any,
    ) -> None:
        self.world = world_of(world, settings)
        if max_episode_steps is not None:
            self.world = replace(self.world, horizon=min(max_episode_steps, self.world.horizon or max_episode_steps))
        self.num_envs, self.render_mode = num_envs, None
        if render_mode is not None:
            raise ValueError("a batch of worlds has no picture: render a single one, gymnasium.make(…)")
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}
        self.single_observation_space = observation_space(self.world)
        self.single_action_space = spaces.Discrete(self.world.n_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._simulation, self._began, self._done = Copies(self.world, num_envs), False, np.zeros(num_envs, bool)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode in every copy, with one seed or one for each of them."""
        if options:
            raise ValueError(f"a batch of worlds takes no options, got {options}")
        super().reset(seed=one_seed(seed, self.num_envs))
        self._simulation.reset(self.np_random.random(self.num_envs))
        self._began, self._done = True, np.zeros(self.num_envs, bool)
        return self._simulation.observe(), {"remaining": self._simulation.remaining}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Takes one step in every copy, as Gymnasium defines it."""
        actions = check_actions(actions, self.num_envs, self.world.n_actions)
        if not self._began:
            raise RuntimeError("there are no episodes yet: call reset first")
        simulation, done = self._simulation, self._done
        reward, terminated, truncated, site = simulation.step(actions, simulation.sample_numbers(self.np_random))
        if done.any():
            simulation.reset(self.np_random.random(int(done.sum())), done)
            reward[done], terminated[done], truncated[done], site[done] = 0.0, False, False, -1
        self._done = terminated | truncated
        info = {"remaining": simulation.remaining, "site": site}
        return simulation.observe(), reward, terminated, truncated, info


def one_seed(seed: Any, copies: int) -> int | None:
    """Returns one seed for the random numbers of all copies; a list of seeds is combined into one."""
    if np.ndim(seed) and len(seed) != copies:
        raise ValueError(f"a batch of {copies} worlds takes one seed or {copies} seeds, got {len(seed)}")
    return None if seed is None else int(np.random.SeedSequence(np.atleast_1d(seed).tolist()).generate_state(1)[0])


def text(world: World, state: State) -> str:
    """Returns the map as text, with the agent as @ and sites that are used up as a dot."""
    letters = np.where(world.map.free, ".", "#")
    worth = np.broadcast_to(world.depletion.worth(state.memory), (world.n_sites,))
    for i, states in enumerate(world.patches):
        if worth[i] > 0:
            letters[tuple(world.map.cells[states].T)] = str(i) if i < 10 else "+"
    letters[tuple(world.map.cells[int(state.cell)])] = "@"
    return "\n".join("".join(row) for row in letters)


def _check_render_mode(mode: str | None) -> str | None:
    if mode is not None and mode not in _RENDER_MODES:
        raise ValueError(f"unknown render_mode {mode!r}: there are {', '.join(_RENDER_MODES)}")
    return mode


def environment_id(name: str) -> str:
    """Returns the Gymnasium id of a world: that of four-rooms-17 is wane/FourRooms17-v0."""
    return "wane/" + "".join(part[:1].upper() + part[1:] for part in name.split("-")) + "-v0"


def register_all() -> None:
    """Registers every world of the catalogue that Gymnasium does not know yet."""
    for name in names():
        if environment_id(name) not in gymnasium.registry:
            gymnasium.register(
                environment_id(name),
                entry_point="wane.worlds.gym:Environment",
                vector_entry_point="wane.worlds.gym:VectorEnvironment",
                kwargs={"world": name},
            )
    if (field := environment_id(ENDLESS)) not in gymnasium.registry:
        gymnasium.register(field, entry_point="wane.worlds.endless_gym:FieldEnvironment")


register_all()
