"""Data sets of what an agent sees along its trajectories, in which everything that repeats is stored once.

A view is the input of a network: a stack of the last greyscale pictures, with black ones before the start of an
episode, or a one-hot state. In a deterministic world most views repeat, and all pictures do. So a data set stores each
picture once, as bytes, and each view as the indices of its pictures; it stores each transition once, with the number of
times that it occurred. A loss that is weighted by these counts equals the loss over the whole data set.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from wane.agents.common.policy import sample_action
from wane.lazy import attach
from wane.mdp import check_policy, probabilities
from wane.settings import Checked, Range, check_setting
from wane.types import AnyArray
from wane.worlds.observe import Index, Observation, read_observation, shows_pictures
from wane.worlds.world import World

BRIGHTNESS = (0.299, 0.587, 0.114)
"""The weights of red, green and blue in a shade of grey."""


@dataclass(frozen=True)
class Vision(Checked):
    """What an agent sees."""

    observation: str = "first-person:128:unfading"
    """a picture, with its size and whether sites fade, or index, of which the agent sees a one-hot vector"""
    frames: Annotated[int, Range(1, 100)] = 7
    """pictures that are stacked, the present one included"""

    def rules(self) -> None:
        """Raises SettingError for an observation that no network takes."""
        cure = "index, top-down or first-person is needed, because networks see one-hot states or pictures"
        try:
            fine = self.shown == Index() or self.is_picture
        except ValueError as error:
            fine, cure = False, f"{error}"
        check_setting(fine, self, "observation", cure)

    @property
    def is_picture(self) -> bool:
        """Whether the agent sees pictures."""
        return shows_pictures(self.shown)

    @property
    def shown(self) -> Observation:
        """The observation of this name."""
        return read_observation(self.observation)

    def shape(self, world: World) -> tuple[int, ...]:
        """The shape of a view."""
        if not self.is_picture:
            return (world.n_states,)
        frame = jax.eval_shape(self.view(world), 0, 0, jnp.ones(world.n_sites))
        return (*frame.shape[:2], self.frames)

    def view(self, world: World) -> Any:
        """The function that draws pictures in a world."""
        return partial(self.shown.see, world)


class Stacks(eqx.Module):
    """Views as stacks of pictures. Picture 0 is black."""

    frames: UInt8[Array, "pictures height width"]
    stacks: Int[Array, "views frames"]

    def __getitem__(self, index: Any) -> UInt8[Array, "*batch height width frames"]:
        return jnp.moveaxis(self.frames[self.stacks[index]], -3, -1)

    def __len__(self) -> int:
        return len(self.stacks)


class OneHots(eqx.Module):
    """Views as one-hot states: view s is state s."""

    n_states: int = eqx.field(static=True)

    def __getitem__(self, index: Any) -> Float[Array, "*batch states"]:
        return jax.nn.one_hot(index, self.n_states)

    def __len__(self) -> int:
        return self.n_states


class Transitions(NamedTuple):
    """Transitions of one policy, or of several along the first axis. Shorter lists are padded with counts of 0."""

    view: Int[Array, "*policies transitions"]
    action: Int[Array, "*policies transitions"]
    next_view: Int[Array, "*policies transitions"]
    next_action: Int[Array, "*policies transitions"]
    counts: Float[Array, "*policies transitions"]
    """How often the transition occurred."""


class Dataset(eqx.Module):
    """The views and transitions of some policies."""

    views: Stacks | OneHots
    cells: Int[Array, " views"]
    """The state that each view was seen in."""
    counts: Float[Array, " views"]
    """How often each view was seen."""
    seen: Int[Array, "policies trajectories moments"]
    """The index of the view at every moment of the trajectories."""
    actions: Int[Array, "policies trajectories moments"]
    """The action at every moment."""
    transitions: Transitions
    n_steps: int = eqx.field(static=True)
    """Transitions of each policy, repetitions included."""


class Tracks(NamedTuple):
    """Trajectories (policies, trajectories, moments)."""

    cells: Int[AnyArray, "*batch moments"]
    facings: Int[AnyArray, "*batch moments"]
    worths: Float[AnyArray, "*batch moments sites"]
    actions: Int[AnyArray, "*batch moments"]
    """The action that was taken at each moment."""
    own_actions: Int[AnyArray, "*batch moments"]
    """The policy's action at each moment. `actions` may differ at the first moment, and where they are random."""


def follow(key: jax.Array, world: World, policies: Sequence[Any], horizon: int, epsilon: float = 0.0) -> Tracks:
    """Follows every policy from every state, after every first action, for `horizon` moments (as in the paper).

    After the first action, each action is uniformly random with probability `epsilon`.
    """
    checked = [check_policy(policy, world.n_states, world.n_actions) for policy in policies]
    cumulated = jnp.asarray(np.cumsum(np.stack([probabilities(policy, world.n_actions) for policy in checked]), -1))
    starts, firsts = (part.ravel() for part in np.indices((world.n_states, world.n_actions)))
    keys = jax.random.split(key, (len(policies), len(starts)))

    def track(policy: Array, key: Array, start: Array, action: Array) -> Tracks:
        def step(now: tuple[Any, Any], key: Array) -> tuple[Any, Tracks]:
            state, action = now
            worth = jnp.broadcast_to(world.depletion.worth(state.memory), (world.n_sites,))
            step_key, draw_key = jax.random.split(key)
            draws = jax.random.uniform(draw_key, (3,))
            own = sample_action(policy[state.cell], draws[0])
            random = jnp.floor(draws[2] * world.n_actions).astype(jnp.int32)
            action = jnp.where(action >= 0, action, jnp.where(draws[1] < epsilon, random, own))
            after = world.step(step_key, state, action)[1]
            return (after, jnp.int32(-1)), Tracks(state.cell, state.facing, worth, action, own)

        begin = world.begin(start)[1], action
        return jax.lax.scan(step, begin, jax.random.split(key, horizon))[1]

    together = jax.vmap(jax.vmap(track, (None, 0, 0, 0)), (0, 0, None, None))
    tracks = jax.jit(together)(cumulated, keys, starts.astype(np.int32), firsts.astype(np.int32))
    return Tracks(*map(np.asarray, tracks))


def collect(
    key: jax.Array, world: World, policies: Sequence[Any], horizon: int, vision: Vision, epsilon: float = 0.0
) -> Dataset:
    """Returns the trajectories of `follow` as a data set, in which everything that repeats is stored once."""
    return to_dataset(world, follow(key, world, policies, horizon, epsilon), vision)


def to_dataset(world: World, tracks: Tracks, vision: Vision) -> Dataset:
    """Returns trajectories as a data set."""
    if vision.is_picture:
        views, seen = _stacks(world, tracks, vision)
        index, cells = np.unique(seen, return_index=True)
        cells = tracks.cells.ravel()[cells[np.argsort(index)]]
    else:
        views, seen, cells = OneHots(world.n_states), tracks.cells, np.arange(world.n_states)
    counts = np.bincount(seen.ravel(), minlength=len(views)).astype(float)
    rows = np.stack([seen[..., :-1], tracks.actions[..., :-1], seen[..., 1:], tracks.own_actions[..., 1:]], -1)
    rows = rows.reshape(len(rows), -1, 4)
    moments = jnp.asarray(seen, jnp.int32), jnp.asarray(tracks.actions, jnp.int32)
    return Dataset(
        views, jnp.asarray(cells), jnp.asarray(counts, float), *moments, _count_transitions(rows), rows.shape[1]
    )


def _stacks(world: World, tracks: Tracks, vision: Vision) -> tuple[Stacks, Int[np.ndarray, "*batch moments"]]:
    """All different views, and the index of the view at every moment."""
    view = vision.view(world)
    worths = tracks.worths if getattr(vision.shown, "fades", True) else np.ones_like(tracks.worths)
    scenes = np.concatenate([np.stack([tracks.cells, tracks.facings], -1), worths], -1)
    unique, picture = np.unique(scenes.reshape(-1, scenes.shape[-1]), axis=0, return_inverse=True)
    frames = _draw(view, unique)
    # Picture 0 is the black one before the start, so all others move up by one.
    picture = np.pad(picture.reshape(-1, tracks.cells.shape[-1]) + 1, ((0, 0), (vision.frames - 1, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(picture, vision.frames, axis=1)
    stacks, seen = np.unique(windows.reshape(-1, vision.frames), axis=0, return_inverse=True)
    return Stacks(jnp.asarray(frames), jnp.asarray(stacks, jnp.int32)), seen.reshape(tracks.cells.shape)


def _draw(view: Any, scenes: Float[np.ndarray, "pictures scene"]) -> UInt8[np.ndarray, "pictures+1 height width"]:
    """Draws the pictures in shades of grey. A black picture comes first."""

    def one(scene: Array) -> Array:
        return grey(view(scene[0].astype(jnp.int32), scene[1].astype(jnp.int32), scene[2:]))

    drawn = np.asarray(jax.jit(lambda scenes: jax.lax.map(one, scenes, batch_size=64))(jnp.asarray(scenes)))
    return np.concatenate([np.zeros_like(drawn[:1]), drawn])


def grey(picture: UInt8[Array, "height width 3"]) -> UInt8[Array, "height width"]:
    """Returns a picture in shades of grey."""
    return jnp.round(picture.astype(jnp.float32) @ jnp.asarray(BRIGHTNESS, jnp.float32)).astype(jnp.uint8)


def push(stack: UInt8[Array, "height width frames"], picture: UInt8[Array, "height width 3"]) -> UInt8[Array, "..."]:
    """Returns a stack with one more picture and without its oldest one."""
    return jnp.concatenate([stack[..., 1:], grey(picture)[..., None]], -1)


def _count_transitions(rows: Int[np.ndarray, "policies steps 4"]) -> Transitions:
    """The different transitions of every policy, and how often each occurred."""
    found = [np.unique(each, axis=0, return_counts=True) for each in rows]
    longest = max(len(counts) for _, counts in found)
    filled = np.stack([np.pad(unique, ((0, longest - len(unique)), (0, 0)), mode="edge") for unique, _ in found])
    counts = np.stack([np.pad(counts, (0, longest - len(counts))) for _, counts in found])
    view, action, next_view, next_action = (jnp.asarray(filled[..., i], jnp.int32) for i in range(4))
    return Transitions(view, action, next_view, next_action, jnp.asarray(counts, float))


__getattr__, __dir__ = attach(__name__, {"Sight": "wane.agents.common.views.Vision"})
