"""A replay: a ring of arrays of a fixed size, in which the newest items take the place of the oldest.

The items may be any pytree: transitions of a table, or observations with pixels. All functions are pure.

    >>> replay = add(empty({"reward": jnp.zeros(())}, size=3), {"reward": jnp.arange(4.0)[:2]})
    >>> sample(replay, jnp.array([0.0, 0.9]))["reward"].tolist()
    [0.0, 1.0]
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from wane.types import Tree


class Replay(NamedTuple):
    """A ring of fixed size, in which a new item replaces the oldest one."""

    items: Tree
    """Arrays whose first axis is the ring."""
    added: Int[Array, ""]
    """How many items were ever added."""


def empty(example: Tree, size: int) -> Replay:
    """Returns an empty ring for `size` items that have the shapes and types of `example`."""

    def make(leaf):
        leaf = jnp.asarray(leaf)
        return jnp.zeros((size, *leaf.shape), leaf.dtype)

    return Replay(jax.tree_util.tree_map(make, example), jnp.zeros((), jnp.int32))


def add(replay: Replay, items: Tree) -> Replay:
    """Returns the ring with new items, whose arrays may have any number of axes before those of one item.

    Raises ValueError if there are more new items than the ring can hold.
    """
    size = len(jax.tree_util.tree_leaves(replay.items)[0])
    flat = jax.tree_util.tree_map(lambda new, old: new.reshape(-1, *old.shape[1:]), items, replay.items)
    count = len(jax.tree_util.tree_leaves(flat)[0])
    if count > size:
        raise ValueError(f"{count} items at once are more than the {size} that are kept: make the replay larger")
    where = (replay.added + jnp.arange(count)) % size

    def put(old, new):
        return old.at[where].set(new.astype(old.dtype), unique_indices=True)

    return Replay(jax.tree_util.tree_map(put, replay.items, flat), replay.added + count)


def sample(replay: Replay, draws: Float[Array, "*batch"]) -> Tree:
    """Draws items with replacement from those in the ring. `draws` are uniform numbers in [0, 1), one for each item."""
    size = len(jax.tree_util.tree_leaves(replay.items)[0])
    filled = jnp.minimum(replay.added, size)
    index = jnp.minimum((draws * filled).astype(jnp.int32), filled - 1)
    return jax.tree_util.tree_map(lambda values: values[index], replay.items)
