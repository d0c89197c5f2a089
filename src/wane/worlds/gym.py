"""Worlds as Gymnasium environments, and any Gymnasium environment as one whose rewards wear off.

Importing this module registers the catalogue with Gymnasium. `import wane` does so too if Gymnasium was imported
before. Gymnasium loads no plug-ins by itself; a name in front of the id tells it to import this module, which works
always:

    >>> env = gymnasium.make("wane.worlds.gym:wane/FourRooms-v0", slip=0.2)
    >>> env.observation_space
    Discrete(68)

The settings are those of `wane.worlds.make`. `gymnasium.make_vec` makes the batched world, in which one jitted call
steps all environments. An episode that reaches its horizon is truncated; one in which less than `threshold` remains of
every reward is terminated. An observation with "+remaining" is a dictionary with "view" and "remaining".

`Depleting(env, depletion, site=…)` multiplies the rewards of any environment by what remains of their site.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from jaxtyping import Array, Bool, Int, UInt8

from wane.depletion import Depletion, Memory
from wane.types import Tree
from wane.worlds.catalog import make, names
from wane.worlds.checks import check_action
from wane.worlds.dynamics import select
from wane.worlds.observe import Cell, Index, OneHot, Symbolic, tells_remaining
from wane.worlds.top_down import TopDown
from wane.worlds.world import State, World

_RENDER_MODES = ("rgb_array", "human", "ansi")


def observation_space(world: World) -> spaces.Space:
    """Returns the space of a world's observations."""
    shapes = jax.eval_shape(world.reset, jax.random.key(0))[0]
    if not tells_remaining(world.observation):
        return _view_space(world, shapes)
    # The margin covers the rounding of rewards in single precision.
    most = 1.00001 * np.abs(np.asarray(world.rewards)) * world.depletion.bound
    remaining = spaces.Box(-most, most, (world.n_sites,), shapes.remaining.dtype)
    return spaces.Dict({"view": _view_space(world, shapes.view), "remaining": remaining})


def _view_space(world: World, shape: jax.ShapeDtypeStruct) -> spaces.Space:
    """Returns the space of what the agent sees, without what remains of the rewards."""
    if isinstance(world.view, Index):
        return spaces.Discrete(world.n_states)
    if isinstance(world.view, Cell):
        rows, columns = world.map.shape
        return spaces.Box(0, np.array([rows - 1, columns - 1]), (2,), np.int32)
    if isinstance(world.view, Symbolic):
        return spaces.Box(0, 2 + world.n_sites, shape.shape, np.int32)
    if shape.dtype == jnp.bool_:
        return spaces.MultiBinary(shape.shape)
    if jnp.issubdtype(shape.dtype, jnp.integer):
        most = jnp.iinfo(shape.dtype)
        return spaces.Box(most.min, most.max, shape.shape, shape.dtype)
    low, high = (0.0, 1.0) if isinstance(world.view, OneHot) else (-np.inf, np.inf)
    return spaces.Box(low, high, shape.shape, shape.dtype)


def _to_gymnasium(observation: Tree, space: spaces.Space) -> Any:
    """Returns an observation as Gymnasium has it: an int, a NumPy array, or a dictionary in place of a `Seen`."""
    if isinstance(space, spaces.Dict):
        return {name: _to_gymnasium(getattr(observation, name), part) for name, part in space.items()}
    return int(observation) if isinstance(space, spaces.Discrete) else np.asarray(observation)


class Environment(gymnasium.Env):
    """One world as a Gymnasium environment. The world is given as it is, or by its name with settings."""

    metadata: dict[str, Any] = {"render_modes": list(_RENDER_MODES), "render_fps": 6}  # noqa: RUF012  (Gymnasium's own)

    def __init__(self, world: World | str, render_mode: str | None = None, **settings: Any) -> None:
        self.world = make(world, **settings) if isinstance(world, str) else world
        self.render_mode = _check_render_mode(render_mode)
        self.observation_space = observation_space(self.world)
        self.action_space = spaces.Discrete(self.world.n_actions)
        self._reset, self._step = jax.jit(self.world.reset), jax.jit(self.world.step)
        self._key, self._state, self._window = jax.random.key(0), None, None
        self._picture = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode, in a given place with `options={"state": s}`: a letter, a cell or a state number."""
        super().reset(seed=seed)
        if unknown := set(options or {}) - {"state"}:
            raise ValueError(f"unknown option {unknown.pop()!r}: there is 'state', the place to begin in")
        self._key = jax.random.key(int(self.np_random.integers(2**31)))
        self._key, now = jax.random.split(self._key)
        if options and "state" in options:
            observation, self._state = self.world.begin(options["state"])
        else:
            observation, self._state = self._reset(now)
        if self.render_mode == "human":
            self.render()
        seen = _to_gymnasium(observation, self.observation_space)
        return seen, {"remaining": np.asarray(self.world.remaining(self._state))}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes one step, as Gymnasium defines it."""
        action = check_action(action, self.world.n_actions)
        if self._state is None:
            raise RuntimeError("there is no episode yet: call reset first")
        self._key, now = jax.random.split(self._key)
        observation, self._state, reward, terminated, truncated, info = self._step(now, self._state, action)
        if self.render_mode == "human":
            self.render()
        info = {name: np.asarray(value) for name, value in info.items()}
        seen = _to_gymnasium(observation, self.observation_space)
        return seen, float(reward), bool(terminated), bool(truncated), info

    def render(self) -> Any:
        """Returns the map as text or as a picture, or shows it in a window, depending on the render mode."""
        if self._state is None or self.render_mode is None:
            return None
        if self.render_mode == "ansi":
            return text(self.world, self._state)
        worth = jnp.broadcast_to(self.world.depletion.worth(self._state.memory), (self.world.n_sites,))
        if self._picture is None:
            pixels = max(4, min(32, 1024 // max(self.world.map.shape)))
            self._picture = TopDown(self.world.map, self.world.sites, cell_pixels=pixels)
        frame = np.asarray(self._picture.frame(self._state.cell, self._state.facing, jnp.clip(worth, 0, 1)))
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
    """Many copies of a world, stepped by one jitted program. A copy that has ended begins anew at its next step."""

    def __init__(
        self,
        world: World | str,
        num_envs: int = 1,
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        **settings: Any,
    ) -> None:
        self.world = make(world, **settings) if isinstance(world, str) else world
        if max_episode_steps is not None:
            self.world = replace(self.world, horizon=min(max_episode_steps, self.world.horizon or max_episode_steps))
        self.num_envs, self.render_mode = num_envs, None
        if render_mode is not None:
            raise ValueError("a batch of worlds has no picture: render a single one, gymnasium.make(…)")
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}
        self.single_observation_space = observation_space(self.world)
        self.single_action_space = spaces.Discrete(self.world.n_actions)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self._all_reset, self._all_step = jax.jit(self._reset_all), jax.jit(self._step_all)
        self._key, self._state, self._done = jax.random.key(0), None, jnp.zeros(num_envs, bool)

    def _reset_all(self, key: Array) -> tuple[Tree, State]:
        return jax.vmap(self.world.reset)(jax.random.split(key, self.num_envs))

    def _step_one(
        self, reset_key: Array, step_key: Array, state: State, done: Bool[Array, ""], action: Int[Array, ""]
    ) -> tuple[Tree, ...]:
        """Takes one step of one world, or begins a new episode if the last step was the end of one."""
        observation, moved, reward, terminated, truncated, info = self.world.step(step_key, state, action)
        observation, state = select(done, self.world.reset(reset_key), (observation, moved))
        info = {"remaining": self.world.remaining(state), "site": jnp.where(done, -1, info["site"])}
        return observation, state, jnp.where(done, 0.0, reward), terminated & ~done, truncated & ~done, info

    def _step_all(
        self, key: Array, state: State, done: Bool[Array, " worlds"], action: Int[Array, " worlds"]
    ) -> tuple[Tree, ...]:
        next_key, reset_key, step_key = jax.random.split(key, 3)
        reset_keys, step_keys = (jax.random.split(each, self.num_envs) for each in (reset_key, step_key))
        return next_key, *jax.vmap(self._step_one)(reset_keys, step_keys, state, done, action)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode in every copy, with one seed or one for each of them."""
        if options:
            raise ValueError(f"a batch of worlds takes no options, got {options}")
        if np.ndim(seed) and len(seed) != self.num_envs:
            raise ValueError(f"{self.num_envs} worlds want one seed, or as many, got {len(seed)}")
        if seed is not None:  # One stream of random numbers serves all copies; a list of seeds is one long seed.
            seed = int(np.random.SeedSequence(np.atleast_1d(seed).tolist()).generate_state(1)[0])
        super().reset(seed=seed)
        self._key = jax.random.key(int(self.np_random.integers(2**31)))
        self._key, now = jax.random.split(self._key)
        observation, self._state = self._all_reset(now)
        self._done = jnp.zeros(self.num_envs, bool)
        seen = _to_gymnasium(observation, self.observation_space)
        return seen, {"remaining": np.asarray(jax.vmap(self.world.remaining)(self._state))}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Takes one step in every copy, as Gymnasium defines it."""
        actions = np.asarray(actions)
        if actions.shape != (self.num_envs,):
            raise ValueError(f"{self.num_envs} worlds want as many actions, got shape {actions.shape}")
        outside = ~np.isin(actions, np.arange(self.world.n_actions))
        if outside.any():
            check_action(actions[outside][0], self.world.n_actions)
        if self._state is None:
            raise RuntimeError("there are no episodes yet: call reset first")
        results = self._all_step(self._key, self._state, self._done, jnp.asarray(actions, jnp.int32))
        self._key, observation, self._state, reward, terminated, truncated, info = results
        self._done = terminated | truncated
        info = {name: np.asarray(value) for name, value in info.items()}
        seen = _to_gymnasium(observation, self.observation_space)
        return seen, np.asarray(reward), np.asarray(terminated), np.asarray(truncated), info


class Depleting(gymnasium.Wrapper):
    """Any environment, with rewards that wear off where they are collected.

    `site(observation, action, info)` names the place that a reward comes from: anything hashable, or None for a reward
    that does not wear off. By default it is the new observation, where that is a single integer. A step that pays
    nothing visits nothing. `info` holds the site and the worth that its reward was multiplied by. A site's memory lasts
    for the episode.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        depletion: Depletion,
        site: Callable[[Any, Any, dict[str, Any]], Hashable | None] | None = None,
    ) -> None:
        super().__init__(env)
        if not isinstance(depletion, Depletion):
            raise TypeError(f"{depletion!r} is no Depletion: take one of wane.depletion, or subclass it")
        if site is None and not isinstance(env.observation_space, spaces.Discrete):
            raise ValueError(
                f"observations of {env} are no single integers ({env.observation_space}): say where rewards come "
                "from with site=lambda observation, action, info: …"
            )
        self.depletion, self.site = depletion, site or (lambda observation, action, info: int(observation))
        self._waits = type(depletion).wait is not Depletion.wait
        self._forget()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode; all sites are fresh."""
        self._forget()
        return self.env.reset(seed=seed, options=options)

    def _forget(self) -> None:
        self._memories: dict[Hashable, Memory] = {}
        self._clock: dict[Hashable, int] = {}
        self._time, self._fresh = 0, self.depletion.initial()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes one step of the environment and multiplies its reward by what the site is worth."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        place = self.site(observation, action, info)
        worth = 1.0
        if place is not None and not isinstance(place, Hashable):
            raise TypeError(
                f"site {place!r} cannot name a place, as it is not hashable: return an int, a str or a tuple"
            )
        if place is not None and reward != 0:
            memory = self._memory(place)
            worth = float(self.depletion.worth(memory))
            self._memories[place], self._clock[place] = self.depletion.visit(memory), self._time + 1
        self._time += 1
        if self._waits:
            self._fresh = self.depletion.wait(self._fresh)
        return observation, float(reward) * worth, terminated, truncated, {**info, "site": place, "worth": worth}

    def _memory(self, place: Hashable) -> Memory:
        """Returns a site's memory now. It has waited since the last visit, which is made up for only when needed."""
        if place not in self._memories:
            return self._fresh
        memory = self._memories[place]
        if self._waits:
            for _ in range(self._time - self._clock[place]):
                memory = self.depletion.wait(memory)
        return memory


def text(world: World, state: State) -> str:
    """Returns the map as text, with the agent as @ and sites that are used up as a dot."""
    letters = np.where(world.map.free, ".", "#")
    worth = np.broadcast_to(world.depletion.worth(state.memory), (world.n_sites,))
    for i, site in enumerate(world.sites):
        if worth[i] > 0:
            letters[tuple(world.map.cells[site])] = str(i) if i < 10 else "+"
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


register_all()
