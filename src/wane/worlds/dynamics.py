"""What happens in one step of a world, as pure functions of arrays.

A step looks up where the action leads, lets it slip with some probability, and turns the agent the way it moved. All
functions are written for one world; use `vmap` for batches.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from wane.depletion import Memory
from wane.types import Tree
from wane.worlds.grid import Map


class State(NamedTuple):
    """The complete state of a world during an episode."""

    cell: Int[Array, "*batch"]
    """The state number of the agent's cell."""
    facing: Int[Array, "*batch"]
    """The direction of the agent's last move: 0 up, 1 right, 2 down, 3 left."""
    memory: Memory
    """What the depletion remembers of every site."""
    time: Int[Array, "*batch"]
    """The number of steps taken."""


StepResult = tuple[Tree, State, Float[Array, ""], Bool[Array, ""], Bool[Array, ""], dict[str, Tree]]
"""What a step returns: observation, state, reward, terminated, truncated, info."""


class Tables(NamedTuple):
    """The tables that a step looks up. They are NumPy arrays, so that they can be cached while JAX traces."""

    next_states: Int[np.ndarray, "states actions"]
    """The state that each action leads to when it does not slip."""
    bumps: Bool[np.ndarray, "states actions"]
    """Whether each action runs into a wall."""
    neighbours: Int[np.ndarray, "states 4"]
    """The free neighbours of each state, in the first places of its row."""
    n_neighbours: Int[np.ndarray, " states"]
    """The number of free neighbours."""
    site_of: Int[np.ndarray, " states"]
    """The number of the site in each state, −1 where there is none."""
    cells: Int[np.ndarray, "states 2"]
    """The (row, column) of each state."""
    symbols: Int[np.ndarray, "rows columns"]
    """The map as numbers: 0 for a free cell, 1 for a wall, 3 + i for the i-th site."""


def make_tables(map: Map, site_of: Int[np.ndarray, " states"], n_actions: int) -> Tables:
    """Returns the tables of a map with the site of each state."""
    symbols = np.where(map.free, 0, 1)
    symbols[map.free] = np.where(site_of < 0, 0, 3 + site_of)
    tables = map.next_states(n_actions), map.bumps(n_actions), *map.neighbour_table(), site_of, map.cells, symbols
    return Tables(*(table.astype(np.int32) if table.dtype.kind == "i" else table for table in tables))


def move(
    tables: Tables,
    cell: Int[Array, ""],
    action: Int[Array, ""],
    slip: float,
    numbers: Float[Array, "2"] | None,
) -> tuple[Int[Array, ""], Bool[Array, ""]]:
    """Returns the next cell, and whether the agent bumped into a wall. `numbers` are two uniform ones."""
    aim = jnp.asarray(tables.next_states)[cell, action]
    bumped = jnp.asarray(tables.bumps)[cell, action]
    if slip == 0 or numbers is None:
        return aim.astype(jnp.int32), bumped
    slipped = numbers[0] < slip
    which = jnp.floor(numbers[1] * jnp.asarray(tables.n_neighbours)[cell]).astype(jnp.int32)
    stray = jnp.asarray(tables.neighbours)[cell, which]
    return jnp.where(slipped, stray, aim).astype(jnp.int32), bumped & ~slipped


def turn(
    cells: Int[np.ndarray, "states 2"], cell: Int[Array, ""], next_cell: Int[Array, ""], facing: Int[Array, ""]
) -> Int[Array, ""]:
    """Returns the direction from the old cell to the new one; an agent that did not move keeps its direction."""
    places = jnp.asarray(cells)
    down, right = places[next_cell] - places[cell]
    ways = jnp.array([down < 0, right > 0, down > 0, right < 0])
    return jnp.where(ways.any(), ways.argmax(), facing).astype(jnp.int32)


def select(condition: Bool[Array, "..."], yes: Tree, no: Tree) -> Tree:
    """Chooses between two trees of the same structure, leaf by leaf."""
    return jax.tree_util.tree_map(lambda a, b: jnp.where(condition, a, b), yes, no)
