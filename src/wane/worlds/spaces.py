"""The Gymnasium spaces of what a world shows, and of what remains of rewards."""

from typing import Any

from wane.extras import require

require("gym", "wane.worlds.spaces")

import gymnasium.vector.utils
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Float

from wane.worlds.observe import largest_reward
from wane.worlds.world import World


def observation_space(world: World) -> spaces.Space:
    """Returns the space of a world's observations in Gymnasium."""
    shown, view = world.observation, _view_space(world)
    if not shown.remaining:
        return flat_space(view) if shown.flat else view
    rewards = np.abs(np.asarray(world.rewards, float))
    # A reward of 0 stays 0, however much the worth of a site can grow.
    most = np.multiply(rewards, world.depletion.bound, out=np.zeros_like(rewards), where=rewards > 0)
    if shown.flat:
        return flat_space(view, remaining_space(most / largest_reward(rewards)))
    return spaces.Dict({"view": view, "remaining": remaining_space(most)})


def remaining_space(most: Float[np.ndarray, " sites"]) -> spaces.Box:
    """Returns the space of what remains, given its largest size for each site. A margin covers 32-bit rounding."""
    high = np.where(most < np.finfo(np.float32).max / 2, 1.00001 * most, np.inf).astype(np.float32)
    return spaces.Box(-high, high, high.shape, np.float32)


def flat_space(view: spaces.Space, remaining: spaces.Box | None = None) -> spaces.Box:
    """Returns the space of one vector: the view as `gymnasium.spaces.flatten` lays it out, then what remains."""
    flat = spaces.flatten_space(view)
    if not isinstance(flat, spaces.Box):
        raise ValueError(f"{view} cannot be flattened into one vector: choose an observation without the flat form")
    parts = [flat] if remaining is None else [flat, remaining]
    low, high = (np.concatenate([getattr(part, side).astype(np.float32) for part in parts]) for side in ("low", "high"))
    return spaces.Box(low, high, low.shape, np.float32)


def batch_space(space: spaces.Space, copies: int) -> spaces.Space:
    """Returns the space of what a batch of copies shows."""
    return gymnasium.vector.utils.batch_space(space, copies)


def _view_space(world: World) -> spaces.Space:
    """Returns the space of the view, without what remains of the rewards: its bounds are those of the observation."""
    place = jax.ShapeDtypeStruct((), jnp.int32)
    worth = jax.ShapeDtypeStruct((world.n_sites,), jnp.zeros(0).dtype)
    seen = jax.eval_shape(lambda *given: world.view(*given), place, place, worth)
    whole, has_bounds = jnp.issubdtype(seen.dtype, jnp.integer), hasattr(world.observation, "bounds")
    if seen.dtype == jnp.bool_:
        return spaces.MultiBinary(seen.shape)
    most: Any = jnp.iinfo(seen.dtype) if whole else None
    low, high = world.observation.bounds(world) if has_bounds else (most.min, most.max) if whole else (-np.inf, np.inf)
    if has_bounds and whole and seen.shape == ():
        return spaces.Discrete(int(high - low) + 1, start=int(low))
    return spaces.Box(low, high, seen.shape, seen.dtype)
