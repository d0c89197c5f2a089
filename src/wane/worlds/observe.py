"""What an agent is shown: observations as objects, and the names by which the command line and files know them.

| object | name | shape | what it shows |
| --- | --- | --- | --- |
| `Index()` | index | () | the state number |
| `OneHot()` | one-hot | (states,) | 1 for the state, 0 for all others |
| `Cell()` | cell | (2,) | the row and the column |
| `Symbolic()` | symbolic | (rows, columns) | 0 for a free cell, 1 for a wall, 2 for the agent, 3 + i for site i |
| `TopDown(8)` | top-down:8 | (8 rows, 8 columns, 3) | a picture of the map from above, RGB |
| `FirstPerson(128)` | first-person:128 | (128, 128, 3) | the paper's pixel task: the view along the last move, RGB |

None of the first four shows what remains of the rewards, so an agent that sees nothing else faces a partially observed
world (docs/partial-observability.md). Two settings of every observation change that:

- `remaining=True`, "+remaining" at the end of a name, adds what a visit to each site would pay now. The observation is
  then a `Seen(view, remaining)`, and a dictionary with these two entries in Gymnasium.
- `flat=True`, "+flat" at the very end of a name, makes one vector of floats of all that is seen, for networks that take
  vectors. An index becomes a one-hot vector, any other view is laid out row by row as it is. What remains of each site
  comes last, divided by the largest reward of the world, so that it is of the size of the other entries.

An observation of your own is a frozen dataclass with the fields `remaining` and `flat` and with a method `see`
(docs/extending.md), which `wane.testing.check_observation` checks. A plain function of the cell, the facing and the
worth of each site is accepted too.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable
from warnings import warn
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from wane.names import unknown
from wane.sums import namespace
from wane.types import AnyArray, Integer, Tree
from wane.worlds.grid import Map
from wane.worlds.pixels import FirstPersonView
from wane.worlds.top_down import TopDownView

REMAINING, FLAT, UNFADING = "+remaining", "+flat", "unfading"
"""The words of the names of observations."""


@runtime_checkable
class Observation(Protocol):
    """What an agent is shown in any world. It is a frozen dataclass, so that `dataclasses.replace` changes it.

    Four more names are optional:

    - `see_numpy`, with the arguments of `see`, is its twin in NumPy, for one place or for many along the first axis.
      Gymnasium environments call it; without it they compile `see`, and each step takes longer.
    - `bounds(world)` returns the smallest and the largest entries, numbers or arrays, for Gymnasium's spaces.
    - `fades` is False if what is seen does not depend on the worth of the sites, which then need not be computed.
    - `prepare(world)` is called when a world is made: it raises ValueError if nothing can be seen in this world.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def remaining(self) -> bool:
        """Whether the observation also holds what remains of the rewards."""
        ...

    @property
    def flat(self) -> bool:
        """Whether the observation is one vector of floats."""
        ...

    def see(self, world: Any, cell: Any, facing: Any, worth: Any, /) -> Any:
        """Returns what is seen in a state, looking in a direction from 0 to 3, given the worth of each site.

        It is a pure function of the last three, which `jit` and `vmap` take; the world is a constant.
        """
        ...


class Seen(NamedTuple):
    """An observation that also holds what remains of the rewards."""

    view: Tree
    """What the observation shows without `remaining`."""
    remaining: Float[Array, "*batch sites"]
    """What a visit to each site would pay now."""


@dataclass(frozen=True)
class _Named:
    """An observation that has a name."""

    _: KW_ONLY
    remaining: bool = False
    """Whether the observation also holds what remains of the rewards."""
    flat: bool = False
    """Whether the observation is one vector of floats."""

    def __str__(self) -> str:
        return name_of_observation(self) or repr(self)


class Index(_Named):
    """Shows the state number, or a one-hot vector if it is flat."""

    fades: ClassVar[bool] = False

    def see(self, world: Any, cell: Integer, facing: Integer, worth: Any) -> Int[Array, ""] | Float[Array, " states"]:
        return _one_hot(world, cell) if self.flat else jnp.asarray(cell, jnp.int32)

    def see_numpy(self, world: Any, cell: Any, facing: Any, worth: Any) -> Any:
        return _one_hot_numpy(world, cell) if self.flat else cell if isinstance(cell, int) else cell.copy()

    def bounds(self, world: Any) -> tuple[float, float]:
        return (0.0, 1.0) if self.flat else (0, world.n_states - 1)


class OneHot(_Named):
    """Shows the state as a vector with a single 1."""

    fades: ClassVar[bool] = False

    def see(self, world: Any, cell: Integer, facing: Integer, worth: Any) -> Float[Array, " states"]:
        return _one_hot(world, cell)

    def see_numpy(self, world: Any, cell: Any, facing: Any, worth: Any) -> Float[np.ndarray, "*copies states"]:
        return _one_hot_numpy(world, cell)

    def bounds(self, world: Any) -> tuple[float, float]:
        return 0.0, 1.0


class _OnMap(_Named):
    """An observation that needs a map."""

    def prepare(self, world: Any) -> None:
        if not hasattr(world, "map"):
            raise ValueError(
                f"the observation {self} needs a map, and {type(world).__name__} has none: take index, one-hot or a "
                "function of the state"
            )


class Cell(_OnMap):
    """Shows the row and the column."""

    fades: ClassVar[bool] = False

    def see(self, world: Any, cell: Integer, facing: Integer, worth: Any) -> Int[Array, "2"]:
        return jnp.asarray(world.tables.cells)[cell]

    def see_numpy(self, world: Any, cell: Any, facing: Any, worth: Any) -> Int[np.ndarray, "*copies 2"]:
        return world.tables.cells[cell].copy()

    def bounds(self, world: Any) -> tuple[int, Int[np.ndarray, "2"]]:
        return 0, np.array(world.map.shape) - 1


class Symbolic(_OnMap):
    """Shows the map as numbers, with the agent on it."""

    fades: ClassVar[bool] = False

    def see(self, world: Any, cell: Integer, facing: Integer, worth: Any) -> Int[Array, "rows columns"]:
        row, column = jnp.asarray(world.tables.cells)[cell]
        return jnp.asarray(world.tables.symbols).at[row, column].set(2)

    def see_numpy(self, world: Any, cell: Any, facing: Any, worth: Any) -> Int[np.ndarray, "*copies rows columns"]:
        cells, symbols = world.tables.cells, world.tables.symbols
        if isinstance(cell, int):
            seen = symbols.copy()
            seen[cells.item(cell, 0), cells.item(cell, 1)] = 2
        else:
            seen = np.empty((len(cell), *symbols.shape), np.int32)
            seen[...] = symbols
            seen[np.arange(len(cell)), *cells[cell].T] = 2
        return seen

    def bounds(self, world: Any) -> tuple[int, int]:
        return 0, 2 + world.n_sites


@dataclass(frozen=True)
class _Picture(_OnMap):
    """A picture of the world. Its pixels are drawn once for a map and its sites, because they can be large."""

    drawn_by: ClassVar[type[Any]]
    """The class that draws it. Its settings are the fields that are not in `NOT_DRAWN`."""
    _: KW_ONLY
    fading: bool = True
    """Whether sites fade with what remains of them."""

    def __new__(cls, *given: Any, **options: Any) -> Any:
        """Makes an observation. With a map and sites, as up to 0.2.0, it warns and returns what draws them."""
        if not (given and isinstance(given[0], Map)):
            return super().__new__(cls)
        name = cls.__name__
        warn(f"{name}(map, sites, …) is now wane.worlds.{cls.drawn_by.__name__}", DeprecationWarning, stacklevel=2)
        return cls.drawn_by(*given, **options)

    @property
    def fades(self) -> bool:
        """Whether sites fade with what remains of them."""
        return self.fading

    def prepare(self, world: Any) -> None:
        super().prepare(world)
        self._drawn(world)

    def see(self, world: Any, cell: Integer, facing: Integer, worth: Any) -> UInt8[Array, "height width 3"]:
        worth = jnp.clip(worth, 0.0, 1.0) if self.fading else jnp.ones_like(worth)
        return self._drawn(world).frame(cell, facing, worth)

    def _drawn(self, world: Any) -> Any:
        options = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in NOT_DRAWN}
        known = _pictures.setdefault(world.map, {})
        key = self.drawn_by, *options.values(), *(tuple(states.tolist()) for states in world.patches)
        if key not in known:
            with jax.ensure_compile_time_eval():
                known[key] = self.drawn_by(world.map, world.sites, **options)
        return known[key]


_pictures: WeakKeyDictionary[Map, dict[Any, Any]] = WeakKeyDictionary()
NOT_DRAWN = ("remaining", "flat", "fading")
"""The settings of a picture that leave its pixels as they are."""


@dataclass(frozen=True)
class TopDown(_Picture):
    """Shows the map from above."""

    drawn_by: ClassVar[type[Any]] = TopDownView
    cell_pixels: int = 8
    """The width and the height of a cell."""


@dataclass(frozen=True)
class FirstPerson(_Picture):
    """Shows what the agent sees from the centre of its cell, looking the way it last moved."""

    drawn_by: ClassVar[type[Any]] = FirstPersonView
    size: int = 128
    """The width and the height of the picture, in pixels."""
    field_of_view: float | int = 60.0
    """In degrees."""
    samples: int = 2
    """Each pixel is the mean of samples × samples rays."""
    cache: bool = True
    """Whether all views of a map are drawn once. Without, rays are cast at each step: slow, on maps of any size."""
    cache_limit: int = 2**30
    """The number of bytes that all views may need."""


@dataclass(frozen=True)
class Function(_Named):
    """Shows what a function of the cell, the facing and the worth of each site returns."""

    function: Callable[..., Any]

    def see(self, world: Any, cell: Integer, facing: Integer, worth: Any) -> Tree:
        return self.function(cell, facing, worth)


def _one_hot(world: Any, cell: Integer) -> Float[Array, " states"]:
    return jax.nn.one_hot(cell, world.n_states, dtype=jnp.float32)


def _one_hot_numpy(world: Any, cell: Any) -> Float[np.ndarray, "*copies states"]:
    if isinstance(cell, int):
        seen = np.zeros(world.n_states, np.float32)
        seen[cell] = 1
    else:
        seen = np.zeros((len(cell), world.n_states), np.float32)
        seen[np.arange(len(cell)), cell] = 1
    return seen


OBSERVATIONS: dict[str, type[Any]] = {
    "index": Index,
    "one-hot": OneHot,
    "cell": Cell,
    "symbolic": Symbolic,
    "top-down": TopDown,
    "first-person": FirstPerson,
}
"""The observations by their names."""
SIZES = {"top-down": "cell_pixels", "first-person": "size"}
"""The observations whose name may go on with a size, and with "unfading", and the setting that the size is."""


def read_observation(given: Any) -> Observation:
    """Returns the observation of a name such as "first-person:32:unfading+remaining", of a function, or as it is given.

    Raises UnknownName for an unknown name, ValueError for words in it that mean nothing, and TypeError for anything
    else.
    """
    if isinstance(given, type):
        raise TypeError(f"the observation {given.__name__} is a class: give an object of it, {given.__name__}()")
    # An array of JAX has a `flat`, which raises an error, so dataclasses only are asked for the names.
    if dataclasses.is_dataclass(given) and isinstance(given, Observation):
        return given
    if callable(given):
        return Function(given)
    if not isinstance(given, str):
        raise TypeError(f"observation is a name, an observation such as Index(), or a function, got {given!r}")
    name = given.removesuffix(FLAT)
    kind, *words = name.removesuffix(REMAINING).split(":")
    if kind not in OBSERVATIONS or (words and kind not in SIZES):
        endings = (
            f', and each of them with "{REMAINING}", with "{FLAT}", or with "{REMAINING}{FLAT}"; '
            f'{" and ".join(SIZES)} also with a size in pixels, as "first-person:32"'
        )
        raise unknown("observation", name.removesuffix(REMAINING), OBSERVATIONS, endings)
    settings: dict[str, Any] = {"remaining": name.endswith(REMAINING), "flat": given.endswith(FLAT)}
    for word in words:
        if word == UNFADING:
            settings["fading"] = False
        elif word.isascii() and word.isdigit() and SIZES[kind] not in settings:
            settings[SIZES[kind]] = int(word)
        else:
            raise ValueError(f'{word!r} in the observation {given!r} is neither a size in pixels nor "{UNFADING}"')
    return OBSERVATIONS[kind](**settings)


def name_of_observation(observation: Any) -> str | None:
    """Returns the name that `read_observation` takes for an observation, or None if no name says all of it."""
    kind = next((name for name, each in OBSERVATIONS.items() if type(observation) is each), None)
    if kind is None:
        return None
    words = [kind]
    if kind in SIZES:
        size = getattr(observation, SIZES[kind])
        words += [f"{size}"] * (size != type(observation).__dataclass_fields__[SIZES[kind]].default)
        words += [UNFADING] * (not observation.fading)
    name = ":".join(words) + REMAINING * observation.remaining + FLAT * observation.flat
    return name if read_observation(name) == observation else None


def shows_pictures(observation: Any) -> bool:
    """Returns whether an observation, or one of this name, is a picture of the world."""
    return isinstance(read_observation(observation) if isinstance(observation, str) else observation, _Picture)


def show(world: Any, state: Any) -> Tree:
    """Returns what an agent sees in a state of a world: a `Seen` if its observation holds what remains."""
    worth = jnp.broadcast_to(world.depletion.worth(state.memory), (world.n_sites,))
    seen, shown = world.view(state.cell, state.facing, worth), world.observation
    remaining = world.remaining(state) if shown.remaining else None
    if shown.flat:
        return flatten(seen, None if remaining is None else remaining / largest_reward(world.rewards))
    return seen if remaining is None else Seen(seen, remaining)


def flatten(seen: Tree, share: Float[Array, " sites"] | None) -> Float[Array, " entries"]:
    """Returns what is seen as one vector: the view, then the share of the largest reward that remains of each site."""
    parts = [jnp.ravel(seen)] if share is None else [jnp.ravel(seen), share]
    return jnp.concatenate([part.astype(jnp.float32) for part in parts])


def largest_reward(rewards: Float[AnyArray, " sites"]) -> Any:
    """Returns the size of the largest reward: the unit of what remains in a flat observation. It is never 0."""
    xp = namespace(rewards)
    largest = xp.max(xp.abs(rewards), initial=0.0)
    return xp.where(largest > 0, largest, 1.0)
