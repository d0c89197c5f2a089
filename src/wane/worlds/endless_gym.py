"""An endless field as a Gymnasium environment. `wane.worlds.gym` registers it as wane/EndlessField-v0."""

from typing import Any

from wane.extras import require

require("gym", "wane.worlds.endless_gym")

import gymnasium
import jax
import numpy as np
from gymnasium import spaces

from wane.worlds.endless import EndlessField, FieldState
from wane.worlds.rules import check_action


class FieldEnvironment(gymnasium.Env):
    """A field in play, with the settings of `wane.worlds.EndlessField`. `render` draws the cells around the agent."""

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 6}  # noqa: RUF012  (Gymnasium's own)

    def __init__(self, render_mode: str | None = None, **settings: Any) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"unknown render_mode {render_mode!r}: there are {self.metadata['render_modes']}")
        self.world, self.render_mode = EndlessField(**settings), render_mode
        self.action_space = spaces.Discrete(self.world.n_actions)
        seen = jax.eval_shape(lambda: self.world.reset()[0])
        if np.issubdtype(seen.dtype, np.integer):
            self.observation_space = spaces.Box(0, max(self.world.rows, self.world.columns), seen.shape, np.int32)
        else:
            most = (
                np.inf
                if callable(self.world.observation)
                else max(self.world.depletion.bound * abs(self.world.reward), 1)
            )
            self.observation_space = spaces.Box(-most, most, seen.shape, np.float32)
        self._begin, self._step = jax.jit(self.world.begin), jax.jit(self.world.step)
        self._state: FieldState | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode, in a given (row, column) with `options={"state": cell}`."""
        super().reset(seed=seed)
        cell = np.asarray((options or {}).get("state", self.world.start), np.int32)
        if cell.shape != (2,) or not self.world.is_free(cell):
            raise ValueError(f"an episode begins in a free (row, column), got {cell.tolist()}")
        seen, state = self._begin(cell)
        self._state = state
        return np.asarray(seen), {"remaining": np.asarray(self.world.remaining(state))}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes one step, as Gymnasium defines it."""
        if self._state is None:
            raise RuntimeError("there is no episode yet: call reset first")
        key = None if self.world.is_certain else jax.random.key(int(self.np_random.integers(2**31)))
        action = check_action(action, self.world.n_actions)
        seen, self._state, reward, terminated, truncated, info = self._step(key, self._state, action)
        shown = {"remaining": np.asarray(info["remaining"]), "site": int(info["site"])}
        return np.asarray(seen), float(reward), bool(terminated), bool(truncated), shown

    def render(self) -> Any:
        """Returns the cells around the agent, as text or as a picture."""
        if self._state is None or self.render_mode is None:
            return None
        reach, cell = max(self.world._reach, 5), np.asarray(self._state.cell)
        top, left = np.maximum(cell - reach, 0)
        rows, columns = cell + reach + 1 - (top, left)
        part = self.world.window(int(top), int(left), int(rows), int(columns))
        place = part.map.state(*(cell - (top, left) + 1))
        if self.render_mode == "ansi":
            from wane.worlds.gym import text

            return text(part, part.begin(place)[1])
        from wane.worlds.top_down import TopDownView

        sites = part.map.cells[part.sites] - 1 + (top, left)
        worth = np.asarray(self.world.remaining_at(self._state, sites)) / (self.world.reward or 1.0)
        return np.asarray(TopDownView(part.map, part.sites, cell_pixels=16).frame(place, 0, np.clip(worth, 0, 1)))
