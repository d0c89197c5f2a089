"""Tables of memories: pytrees whose leaves are arrays with one entry for each memory."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Int, Shaped

from wane.depletion import Depletion, Memory

Keys = Shaped[np.ndarray, " memories"]


def waits(depletion: Depletion, memories: Memory, times: int) -> tuple[Memory, tuple[int, int]]:
    """Return the memories after 0, …, times − 1 steps of waiting, flattened, and their shape (memories, times)."""
    steps = [memories]
    for _ in range(times - 1):
        steps.append(depletion.wait(steps[-1]))
    table = jax.tree_util.tree_map(lambda *leaves: np.stack(leaves, axis=1).ravel(), *steps)
    return table, (count(memories), times)


def count(memories: Memory) -> int:
    """Return the number of memories in the table."""
    return len(jax.tree_util.tree_leaves(memories)[0])


def pick(memories: Memory, index: Any) -> Memory:
    """Return the memories at an index: a slice, a mask or whole numbers."""
    return jax.tree_util.tree_map(lambda leaf: np.asarray(leaf)[index], memories)


def distinct(memories: Memory) -> Memory:
    """Return each memory once, sorted by key."""
    return pick(memories, np.unique(keys(memories), return_index=True)[1])


def keys(memories: Memory) -> Keys:
    """Return one sortable key for each memory: a real number, a complex one for two numbers, else a record."""
    # Adding 0.0 turns −0.0 into 0.0, so that equal numbers have equal keys.
    leaves = [np.asarray(leaf, dtype=np.float64) + 0.0 for leaf in jax.tree_util.tree_leaves(memories)]
    if len(leaves) == 1:
        return leaves[0]
    if len(leaves) == 2 and np.isfinite(leaves[1]).all():
        return leaves[0] + 1j * leaves[1]
    return np.ascontiguousarray(np.stack(leaves, axis=1)).view([("", np.float64)] * len(leaves)).ravel()


def find(known: Shaped[np.ndarray, " known"], wanted: Shaped[np.ndarray, " wanted"]) -> Int[np.ndarray, " wanted"]:
    """Return the index of each wanted key among the known keys, which are sorted, or −1 if it is not among them."""
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, place, -1)
