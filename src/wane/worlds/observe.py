"""What an agent is shown: functions (cell, facing, worth of each site) → array, pure and ready for `jit` and `vmap`.

| name | shape | what it shows |
| --- | --- | --- |
| index | () | the state number |
| one-hot | (states,) | 1 for the state, 0 for all others |
| cell | (2,) | the row and the column |
| symbolic | (rows, columns) | 0 for a free cell, 1 for a wall, 2 for the agent, 3 + i for the i-th site |
| top-down | (8 rows, 8 columns, 3) | a picture of the map from above, RGB |
| first-person | (128, 128, 3) | the paper's pixel task: the view along the last move, RGB |

None of the first four shows what remains of the rewards, so an agent that sees nothing else faces a partially observed
world (docs/partial-observability.md). Two endings of a name change that:

- "+remaining", as in "index+remaining", adds what a visit to each site would pay now. The observation is then a
  `Seen(view, remaining)`, and a dictionary with these two entries in Gymnasium.
- "+flat", as in "index+remaining+flat", makes one vector of floats of all that is seen, for networks that take vectors.
  An index becomes a one-hot vector, any other view is laid out row by row as it is. What remains of each site comes
  last, divided by the largest reward of the world, so that it is of the size of the other entries.
"""

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from wane.names import unknown
from wane.sums import namespace
from wane.types import AnyArray, Integer, Tree
from wane.worlds.grid import Map
from wane.worlds.pixels import FirstPerson
from wane.worlds.top_down import TopDown

Observation = Callable[[Any, Any, Any], Tree]
"""A function of the cell, the facing and the worth of each site. It returns what the agent sees."""
REMAINING = "+remaining"
"""The ending of an observation that also holds what remains of the rewards."""
FLAT = "+flat"
"""The ending of an observation that is one vector of floats. It comes last."""


class Seen(NamedTuple):
    """An observation that also holds what remains of the rewards."""

    view: Tree
    """The observation that the name without "+remaining" stands for."""
    remaining: Float[Array, "*batch sites"]
    """What a visit to each site would pay now."""


class Index(eqx.Module):
    """Shows the state number."""

    n_states: int = eqx.field(static=True)

    def __call__(self, cell: Integer, facing: Integer, worth: Float[Array, " sites"]) -> Int[Array, ""]:
        return jnp.asarray(cell, jnp.int32)


class OneHot(eqx.Module):
    """Shows the state as a vector with a single 1."""

    n_states: int = eqx.field(static=True)

    def __call__(self, cell: Integer, facing: Integer, worth: Float[Array, " sites"]) -> Float[Array, " states"]:
        return jax.nn.one_hot(cell, self.n_states, dtype=jnp.float32)


class Cell(eqx.Module):
    """Shows the row and the column."""

    cells: Int[Array, "states 2"]

    def __call__(self, cell: Integer, facing: Integer, worth: Float[Array, " sites"]) -> Int[Array, "2"]:
        return self.cells[cell]


class Symbolic(eqx.Module):
    """Shows the map as numbers, with the agent on it."""

    cells: Int[Array, "states 2"]
    background: Int[Array, "rows columns"]

    def __call__(self, cell: Integer, facing: Integer, worth: Float[Array, " sites"]) -> Int[Array, "rows columns"]:
        row, column = self.cells[cell]
        return self.background.at[row, column].set(2)


class Pixels(eqx.Module):
    """Shows a picture in which sites fade with what remains of them, or always look fresh."""

    view: FirstPerson | TopDown
    fading: bool = eqx.field(static=True, default=True)

    def __call__(self, cell: Integer, facing: Integer, worth: Float[Array, " sites"]) -> UInt8[Array, "height width 3"]:
        return self.view.frame(cell, facing, jnp.clip(worth, 0.0, 1.0) if self.fading else jnp.ones_like(worth))


def _symbolic(map: Map, sites: Int[np.ndarray, " sites"]) -> Symbolic:
    background = np.where(map.free, 0, 1).astype(np.int32)
    for i, site in enumerate(sites):
        background[tuple(map.cells[site])] = 3 + i
    return Symbolic(jnp.asarray(map.cells, jnp.int32), jnp.asarray(background))


OBSERVATIONS: dict[str, Callable[..., Observation]] = {
    "index": lambda map, sites: Index(map.n_states),
    "one-hot": lambda map, sites: OneHot(map.n_states),
    "cell": lambda map, sites: Cell(jnp.asarray(map.cells, jnp.int32)),
    "symbolic": _symbolic,
    "top-down": lambda map, sites, **options: _pixels(TopDown, "cell_pixels", map, sites, **options),
    "first-person": lambda map, sites, **options: _pixels(FirstPerson, "size", map, sites, **options),
}
"""The observations by their names: functions that make one for a map and its sites."""
PICTURES = ("top-down", "first-person")
"""The observations whose name may go on with a size, and with "unfading": "first-person:32:unfading"."""


def _pixels(
    view: type[FirstPerson] | type[TopDown],
    size_name: str,
    map: Map,
    sites: Int[np.ndarray, " sites"],
    size: int | None = None,
    fading: bool = True,
) -> Pixels:
    """Makes a view in pictures. `size` is in pixels: of the picture, or of a cell if the picture is from above."""
    options: dict[str, Any] = {} if size is None else {size_name: size}
    return Pixels(view(map, sites, **options), fading)


class Form(NamedTuple):
    """What the name of an observation asks for."""

    name: str
    """The view: a name in `OBSERVATIONS`."""
    remaining: bool
    """Whether the observation holds what remains of the rewards."""
    flat: bool
    """Whether the observation is one vector."""


def form_of(observation: Any) -> Form:
    """Returns what the name of an observation asks for by its endings. A function has no endings."""
    if not isinstance(observation, str):
        return Form("", False, False)
    name = observation.removesuffix(FLAT)
    return Form(name.removesuffix(REMAINING), name.endswith(REMAINING), observation.endswith(FLAT))


def largest_reward(rewards: Float[AnyArray, " sites"]) -> Any:
    """Returns the size of the largest reward: the unit of what remains in a flat observation. It is never 0."""
    xp = namespace(rewards)
    largest = xp.max(xp.abs(rewards), initial=0.0)
    return xp.where(largest > 0, largest, 1.0)


def flatten(view: Observation, seen: Tree, share: Float[Array, " sites"] | None) -> Float[Array, " entries"]:
    """Returns what is seen as one vector: the view, then the share of the largest reward that remains of each site."""
    shown = jax.nn.one_hot(seen, view.n_states) if isinstance(view, Index) else jnp.ravel(seen)
    parts = [shown] if share is None else [shown, share]
    return jnp.concatenate([part.astype(jnp.float32) for part in parts])


def show(world: Any, state: Any) -> Tree:
    """Returns what an agent sees in a state of a world: a `Seen` if the name of the observation says so."""
    worth = jnp.broadcast_to(world.depletion.worth(state.memory), (world.n_sites,))
    seen, form = world.view(state.cell, state.facing, worth), form_of(world.observation)
    remaining = world.remaining(state) if form.remaining else None
    if form.flat:
        return flatten(world.view, seen, None if remaining is None else remaining / largest_reward(world.rewards))
    return seen if remaining is None else Seen(seen, remaining)


_made: WeakKeyDictionary[Map, dict[tuple[str, tuple[int, ...]], Observation]] = WeakKeyDictionary()


def make_observation(observation: Any, map: Map, sites: Int[np.ndarray, " sites"]) -> Observation:
    """Returns the function that makes an observation. The observation is a name, or already such a function.

    The function of a name is made once for a map and its sites, because it can be large, and never while JAX traces.
    Raises UnknownName for an unknown name, and TypeError if the observation is neither a name nor a function.
    """
    if callable(observation):
        return observation
    if not isinstance(observation, str):
        raise TypeError(f"observation is a name or a function, got {observation!r}")
    full_name = form_of(observation).name
    name, *words = full_name.split(":")
    if name not in OBSERVATIONS or (words and name not in PICTURES):
        endings = (
            f', and each of them with "{REMAINING}", with "{FLAT}", or with "{REMAINING}{FLAT}"; '
            f'{" and ".join(PICTURES)} also with a size in pixels, as "first-person:32"'
        )
        raise unknown("observation", full_name, OBSERVATIONS, endings)
    known = _made.setdefault(map, {})
    key = full_name, tuple(sites.tolist())
    if key not in known:
        with jax.ensure_compile_time_eval():
            known[key] = OBSERVATIONS[name](map, sites, **_picture_options(full_name, words))
    return known[key]


def _picture_options(name: str, words: list[str]) -> dict[str, Any]:
    """Reads what follows the name of a picture: a size, the word "unfading", or both."""
    options: dict[str, Any] = {}
    for word in words:
        if word == "unfading":
            options["fading"] = False
        elif word.isascii() and word.isdigit() and "size" not in options:
            options["size"] = int(word)
        else:
            raise ValueError(f'{word!r} in the observation {name!r} is neither a size in pixels nor "unfading"')
    return options
