"""What an agent is shown: functions (cell, facing, worth of each site) → array, pure and ready for `jit` and `vmap`.

| name | shape | what it shows |
| --- | --- | --- |
| index | () | the state number |
| one-hot | (states,) | 1 for the state, 0 for all others |
| cell | (2,) | the row and the column |
| symbolic | (rows, columns) | 0 for a free cell, 1 for a wall, 2 for the agent, 3 + i for the i-th site |
| top-down | (8 rows, 8 columns, 3) | a picture of the map from above, RGB |
| first-person | (128, 128, 3) | the paper's pixel task: the view along the last move, RGB |

A name that ends with "+remaining", such as "index+remaining", adds what remains of the reward of every site: the
observation is then a `Seen(view, remaining)`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from wane.types import Integer, Tree
from wane.worlds.grid import Map
from wane.worlds.pixels import FirstPerson
from wane.worlds.top_down import TopDown

Observation = Callable[[Any, Any, Any], Tree]
"""A function of the cell, the facing and the worth of each site. It returns what the agent sees."""
REMAINING = "+remaining"
"""The end of the name of an observation that also tells what remains of the rewards."""


class Seen(NamedTuple):
    """An observation that also tells what remains of the rewards."""

    view: Tree
    """What the observation without "+remaining" is."""
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
    """Shows a picture in which sites fade with what remains of them."""

    view: FirstPerson | TopDown

    def __call__(self, cell: Integer, facing: Integer, worth: Float[Array, " sites"]) -> UInt8[Array, "height width 3"]:
        return self.view.frame(cell, facing, jnp.clip(worth, 0.0, 1.0))


def _symbolic(map: Map, sites: Int[np.ndarray, " sites"]) -> Symbolic:
    background = np.where(map.free, 0, 1).astype(np.int32)
    for i, site in enumerate(sites):
        background[tuple(map.cells[site])] = 3 + i
    return Symbolic(jnp.asarray(map.cells, jnp.int32), jnp.asarray(background))


OBSERVATIONS: dict[str, Callable[[Map, np.ndarray], Observation]] = {
    "index": lambda map, sites: Index(map.n_states),
    "one-hot": lambda map, sites: OneHot(map.n_states),
    "cell": lambda map, sites: Cell(jnp.asarray(map.cells, jnp.int32)),
    "symbolic": _symbolic,
    "top-down": lambda map, sites: Pixels(TopDown(map, sites)),
    "first-person": lambda map, sites: Pixels(FirstPerson(map, sites)),
}
"""The observations by their names: functions that make one for a map and its sites."""


def tells_remaining(observation: str | Observation) -> bool:
    """Returns whether an observation is given by a name that ends with "+remaining"."""
    return isinstance(observation, str) and observation.endswith(REMAINING)


_made: WeakKeyDictionary[Map, dict[tuple[str, tuple[int, ...]], Observation]] = WeakKeyDictionary()


def make_observation(observation: Any, map: Map, sites: Int[np.ndarray, " sites"]) -> Observation:
    """Returns the function of an observation that is given by its name, or the function that is given.

    The view of a name is made once for a map and its sites, because it can be large, and never while JAX traces.
    """
    if callable(observation):
        return observation
    if not isinstance(observation, str):
        raise TypeError(f"observation is a name or a function, got {observation!r}")
    name = observation.removesuffix(REMAINING)
    if name not in OBSERVATIONS:
        raise ValueError(
            f'unknown observation {name!r}: there are {", ".join(OBSERVATIONS)}, and each of them with "{REMAINING}"'
        )
    known = _made.setdefault(map, {})
    key = name, tuple(sites.tolist())
    if key not in known:
        with jax.ensure_compile_time_eval():
            known[key] = OBSERVATIONS[name](map, sites)
    return known[key]
