"""What an agent is shown: functions (cell, facing, worth of each site) → array, pure and ready for `jit` and `vmap`.

| name | shape | what |
| --- | --- | --- |
| index | () | the state number |
| one-hot | (states,) | 1 for the state |
| cell | (2,) | row and column |
| symbolic | (rows, columns) | 0 free, 1 wall, 2 agent, 3 + i the i-th site |
| top-down | (8 rows, 8 columns, 3) | a picture of the map from above, RGB |
| first-person | (128, 128, 3) | the paper's pixel task: the view along the last move, RGB |
"""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from wane.worlds.grid import Map
from wane.worlds.pixels import FirstPerson
from wane.worlds.top_down import TopDown

Observation = Callable[[Any, Any, Any], jax.Array]


class Index(eqx.Module):
    n_states: int = eqx.field(static=True)

    def __call__(self, cell: Any, facing: Any, worth: Any) -> jax.Array:
        return jnp.asarray(cell, jnp.int32)


class OneHot(eqx.Module):
    n_states: int = eqx.field(static=True)

    def __call__(self, cell: Any, facing: Any, worth: Any) -> jax.Array:
        return jax.nn.one_hot(cell, self.n_states, dtype=jnp.float32)


class Cell(eqx.Module):
    cells: jax.Array

    def __call__(self, cell: Any, facing: Any, worth: Any) -> jax.Array:
        return self.cells[cell]


class Symbolic(eqx.Module):
    cells: jax.Array
    background: jax.Array

    def __call__(self, cell: Any, facing: Any, worth: Any) -> jax.Array:
        row, column = self.cells[cell]
        return self.background.at[row, column].set(2)


class Pixels(eqx.Module):
    """A picture in which sites fade with what is left of them."""

    view: FirstPerson | TopDown

    def __call__(self, cell: Any, facing: Any, worth: Any) -> jax.Array:
        return self.view.frame(cell, facing, jnp.clip(worth, 0.0, 1.0))


def _symbolic(map: Map, sites: np.ndarray) -> Symbolic:
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


_made: WeakKeyDictionary[Map, dict[tuple[str, tuple[int, ...]], Observation]] = WeakKeyDictionary()


def make_observation(name: str, map: Map, sites: tuple[int, ...]) -> Observation:
    """An observation by its name. Made once for a map and its sites, as views can be large, and never traced."""
    if name not in OBSERVATIONS:
        raise ValueError(f"unknown observation {name!r}: there are {', '.join(OBSERVATIONS)}")
    known = _made.setdefault(map, {})
    if (name, sites) not in known:
        with jax.ensure_compile_time_eval():
            known[name, sites] = OBSERVATIONS[name](map, np.array(sites, int))
    return known[name, sites]
