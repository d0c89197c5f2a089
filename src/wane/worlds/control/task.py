"""A continuous-control task, and copies of it that are stepped together on the host.

A `ControlTask` is a name with settings; tasks can be compared, saved and described. `task.copies(seeds)` makes one copy
for each seed. All copies take a step at once, and a copy whose episode ends begins the next one in the
same step. What `step` returns belongs to the old episode: `next_observation` is the observation after the step, even if
the episode ended there.

    >>> task = ControlTask("Pendulum-v1")
    >>> copies = task.copies([0, 1, 2])
    >>> outcome = copies.step(np.zeros((3, 1), np.float32))
    >>> outcome.next_observation.shape, outcome.terminated.any(), outcome.truncated.any()
    ((3, 3), np.False_, np.False_)

Actions are in [−1, 1]; they are scaled to the task's own limits. Episode e of the copy with seed s begins as
Gymnasium's environment does after `reset(seed=episode_seed(s, e))`. So a copy's future follows from its seed, the
number of its episode, the time in the episode and its physical state alone: `get` returns all of these except the seed,
and `set` restores them exactly.
"""

import dataclasses
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from wane.depletion import Depletion
from wane.exact.representations import check_depletion
from wane.settings import renamed, with_present_names
from wane.worlds.rules import check_horizon

OWN = {
    "Pendulum-v1": ("pendulum", "Pendulum"),
    "HalfCheetah-v5": ("mujoco", "HalfCheetah"),
    "Hopper-v5": ("mujoco", "Hopper"),
    "wane/PointMass-v0": ("point_mass", "PointMass"),
}
"""The tasks that are stepped by this package, with the module and the class that do it. Gymnasium steps all others."""

Rows = Int[np.ndarray, " some"]
Moved = tuple[Float[np.ndarray, " copies"], Bool[np.ndarray, " copies"]]
"""The rewards of a step, and which episodes it terminated."""


class Outcome(NamedTuple):
    """What a step of all copies leads to."""

    next_observation: Float[np.ndarray, "copies observations"]
    """The observation after the step, in the same episode, even if the episode ends there."""
    reward: Float[np.ndarray, " copies"]
    terminated: Bool[np.ndarray, " copies"]
    """Whether the episode is over, so that nothing more can be earned."""
    truncated: Bool[np.ndarray, " copies"]
    """Whether the episode was cut off, although more could have been earned."""
    earned: Float[np.ndarray, " copies"]
    """What the episode has earned so far, this step included, without discounting."""

    @property
    def ended(self) -> Bool[np.ndarray, " copies"]:
        """Whether the episode is over, for either reason."""
        return self.terminated | self.truncated


@renamed(told="remaining")
@dataclass(frozen=True)
class ControlTask:
    """A continuous-control task."""

    name: str
    """An id of Gymnasium, or "wane/PointMass-v0"."""
    horizon: int | None = None
    """Steps until an episode is truncated; None takes the task's own."""
    depletion: Depletion | None = None
    """How rewards wear off, in tasks that have sites; with None they do not."""
    remaining: bool = False
    """Whether observations hold what remains of every site."""

    def __post_init__(self) -> None:
        kind = _kind(self.name)
        if not kind.has_sites and (self.depletion is not None or self.remaining):
            raise ValueError(f"{self.name} has no sites, so no reward can wear off: choose wane/PointMass-v0")
        check_horizon(self.horizon)
        if self.depletion is not None:
            check_depletion(self.depletion)

    @property
    def n_observations(self) -> int:
        """How many numbers an observation has."""
        return _kind(self.name).sizes(self).observations

    @property
    def n_actions(self) -> int:
        """How many numbers an action has."""
        return _kind(self.name).sizes(self).actions

    @property
    def steps(self) -> int:
        """Steps until an episode is truncated."""
        return self.horizon or _kind(self.name).sizes(self).horizon

    def copies(self, seeds: Sequence[int], threads: int | None = None) -> "Copies":
        """One copy for each seed, at the beginning of its first episode. Results do not depend on `threads`."""
        return _kind(self.name)(self, seeds, threads)

    def batch(self, seeds: Sequence[int], threads: int | None = None) -> "Copies":
        """The old name of `copies`."""
        warnings.warn("ControlTask.batch is now ControlTask.copies", DeprecationWarning, stacklevel=2)
        return self.copies(seeds, threads)

    def pictures(self, states: Float[np.ndarray, "moments numbers"]) -> Iterable[UInt8[np.ndarray, "height width 3"]]:
        """Pictures of physical states (`Copies.states`). Raises ValueError for tasks that cannot be drawn."""
        return _kind(self.name).pictures(self, states)

    def film(self, episode: Any, path: str | Path, title: str | None = None) -> Path:
        """Writes a played episode to a GIF. Returns the path."""
        from wane.worlds.control.film import write_film

        return write_film(self, episode, Path(path), title)


class Sizes(NamedTuple):
    """The sizes of a task."""

    observations: int
    actions: int
    horizon: int


class Copies:
    """Copies of a task that are stepped together. Subclasses define their physics, observations and states."""

    has_sites = False
    saved: tuple[str, ...]
    """The arrays that the future of the copies depends on, by their attributes without the underscore."""
    final_states: Float[np.ndarray, "copies numbers"]
    """The states after the last step in which an episode ended, before new episodes began."""

    def __init__(self, task: ControlTask, seeds: Sequence[int], threads: int | None = None):
        self.task, self.seeds, self.horizon = task, [int(seed) for seed in seeds], task.steps
        self.threads = threads
        self.restart()

    @classmethod
    def sizes(cls, task: ControlTask) -> Sizes:
        """The sizes of the task."""
        raise NotImplementedError

    @classmethod
    def pictures(cls, task: ControlTask, states: Float[np.ndarray, "moments numbers"]) -> Iterable[np.ndarray]:
        """Pictures of physical states."""
        raise ValueError(f"{task.name} cannot be drawn from here: play it in Gymnasium with render_mode='rgb_array'")

    @property
    def states(self) -> Float[np.ndarray, "copies numbers"]:
        """The physical states, from which `pictures` draws."""
        raise NotImplementedError

    def restart(self, seeds: Sequence[int] | None = None) -> None:
        """Begins episode 0 of every copy, with other seeds if they are given."""
        self.seeds = self.seeds if seeds is None else [int(seed) for seed in seeds]
        copies = len(self.seeds)
        self.episode, self.time = np.zeros(copies, np.int64), np.zeros(copies, np.int64)
        self.earned = np.zeros(copies)
        self._prepare()
        self._reset(np.arange(copies))
        self.observation = self._observe()

    def step(self, actions: Float[np.ndarray, "copies actions"]) -> Outcome:
        """Takes a step in every copy with actions in [−1, 1], and begins new episodes where one ended."""
        reward, terminated = self._advance(np.asarray(actions, np.float32))
        self.time, self.earned = self.time + 1, self.earned + reward
        truncated = (self.time >= self.horizon) & ~terminated
        outcome = Outcome(self._observe(), reward, terminated, truncated, self.earned)
        rows = np.flatnonzero(outcome.ended)
        self.observation = outcome.next_observation
        if len(rows):
            self.final_states = self.states
            self.episode[rows] += 1
            self.time[rows], self.earned = 0, np.where(outcome.ended, 0.0, self.earned)
            self._reset(rows)
            self.observation = self._observe()
        return outcome

    def get(self) -> dict[str, np.ndarray]:
        """Returns everything that the future of the copies depends on, except their seeds."""
        counts = {"episode": self.episode.copy(), "time": self.time.copy(), "earned": self.earned.copy()}
        return counts | {name: getattr(self, f"_{name}").copy() for name in self.saved}

    def set(self, tree: Mapping[str, Any]) -> None:
        """Restores what `get` returned."""
        self.episode, self.time, self.earned = (np.array(tree[name]) for name in ("episode", "time", "earned"))
        for name in self.saved:
            setattr(self, f"_{name}", np.array(tree[name]))
        self._resume()
        self.observation = self._observe()

    def generators(self, rows: Rows) -> list[np.random.Generator]:
        """The random generators with which the present episodes of some copies begin."""
        return [np.random.default_rng(episode_seed(self.seeds[i], int(self.episode[i]))) for i in rows]

    def _prepare(self) -> None:
        """Allocates the arrays for all copies."""

    def _reset(self, rows: Rows) -> None:
        """Begins the present episode of some copies."""
        raise NotImplementedError

    def _advance(self, actions: Float[np.ndarray, "copies actions"]) -> Moved:
        """Moves all copies. Returns the rewards, and which episodes terminated."""
        raise NotImplementedError

    def _observe(self) -> Float[np.ndarray, "copies observations"]:
        raise NotImplementedError

    def _resume(self) -> None:
        """Restores what is not in the saved arrays."""


def episode_seed(seed: int, episode: int) -> int:
    """The seed of an episode of a copy: Gymnasium's `reset(seed=…)` begins the same episode with it."""
    return int(np.random.SeedSequence([seed, episode]).generate_state(1)[0])


def describe(task: ControlTask) -> dict[str, Any]:
    """The task as a dictionary that JSON can hold. The module in an id such as "module:Swim-v0" is left out of it."""
    from wane.worlds.describe import describe_depletion

    depletion = None if task.depletion is None else describe_depletion(task.depletion)
    name = _plain_name(task.name.rpartition(":")[2])
    return {"task": name, "horizon": task.horizon, "depletion": depletion, "remaining": task.remaining}


def from_description(description: Mapping[str, Any], trust: Sequence[str] = ()) -> ControlTask:
    """The task of a description. Raises ValueError for unknown entries and for wrong values.

    The task is one of this package or of Gymnasium itself, or its id is in `trust`, with or without "module:" in front.
    """
    from wane.worlds.describe import depletion_from_description

    fields = {"task", *(field.name for field in dataclasses.fields(ControlTask))} - {"name"}
    description = with_present_names(ControlTask, description)
    if strange := sorted(set(description) - fields):
        raise ValueError(f"a task has no {strange[0]!r}: it has {', '.join(sorted(fields))}")
    name, horizon, seen = description.get("task"), description.get("horizon"), description.get("remaining", False)
    if not isinstance(name, str) or not isinstance(seen, bool) or type(horizon) not in (int, type(None)):
        raise ValueError(
            f"a task has a name, a horizon (or null) and remaining (true or false), got {dict(description)!r}"
        )
    depletion = description.get("depletion")
    depletion = None if depletion is None else depletion_from_description(depletion, trust)
    return ControlTask(_trusted_name(_plain_name(name), trust), horizon, depletion, seen)


def _plain_name(name: str) -> str:
    """Returns a name that a file may hold: Gymnasium would import what stands before a colon."""
    if not re.fullmatch(r"([\w-]+/)?[\w-]+", name, re.ASCII):
        raise ValueError(
            f"{name!r} is not the plain name of a task: such a name has letters, digits, - and _, as Hopper-v5 does, "
            "and may have a namespace, as wane/PointMass-v0 does"
        )
    return name


def _trusted_name(name: str, trust: Sequence[str]) -> str:
    """Returns the id by which to make a task that a file names. Raises ValueError if that would run unknown code."""
    for each in trust:
        if each.rpartition(":")[2] == name:
            return each
    if name not in OWN:
        from wane.worlds.control.vector import is_gymnasium_s_own

        if not is_gymnasium_s_own(name):
            raise ValueError(
                f"the task {name!r} comes neither with wane nor with Gymnasium, and making it would run code that you "
                f"have not named: if you trust it, name it with its module, load(folder, trust=['module:{name}']) or "
                f"wane evaluate … --world module:{name}"
            )
    return name


@cache
def _kind(name: str) -> type[Copies]:
    """The class that steps a task. Raises MissingExtra if it needs packages that are not installed."""
    module, kind = OWN.get(name, ("vector", "GymnasiumCopies"))
    return getattr(import_module(f"wane.worlds.control.{module}"), kind)
