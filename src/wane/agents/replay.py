"""A ring of transitions, arrays of a fixed size: the newest take the place of the oldest. Pure functions of arrays."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Transitions(NamedTuple):
    """One entry for each step."""

    cell: Any
    """s_t"""
    next_cell: Any
    """s_{t+1}"""
    here: Any
    """r_t(s_t): what a visit to s_t would pay at time t"""
    ahead: Any
    """r_{t+1}(s_{t+1})"""
    action: Any = None


class Replay(NamedTuple):
    kept: Transitions
    seen: Any
    """how many there have been"""


def empty(size: int) -> Replay:
    whole, real = jnp.zeros(size, jnp.int32), jnp.zeros(size)
    return Replay(Transitions(whole, whole, real, real, whole), jnp.zeros((), jnp.int32))


def remember(replay: Replay, fresh: Transitions) -> Replay:
    """The ring with new transitions, arrays of any one shape; no more than it can hold."""
    size, count = len(replay.kept.cell), fresh.cell.size
    if count > size:
        raise ValueError(f"{count} transitions at once are more than the {size} that are kept: make the memory larger")
    where = (replay.seen + jnp.arange(count)) % size

    def put(old, new):
        return old.at[where].set(new.reshape(-1).astype(old.dtype), unique_indices=True)

    return Replay(jax.tree_util.tree_map(put, replay.kept, fresh), replay.seen + count)


def pick(replay: Replay, draws: jax.Array) -> Transitions:
    """Transitions for uniform numbers in [0, 1), with replacement, from those that are there."""
    filled = jnp.minimum(replay.seen, len(replay.kept.cell))
    index = jnp.minimum((draws * filled).astype(jnp.int32), filled - 1)
    return jax.tree_util.tree_map(lambda values: values[index], replay.kept)
