"""The Markov chains that the exact part is timed on."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse


def random_dense(n: int) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(n), n)


def grid(*shape: int) -> sparse.csr_array:
    """Returns a random walk on a box. A move against the border leaves the state unchanged."""
    states = np.arange(np.prod(shape)).reshape(shape)
    ends = [
        np.take(states, np.clip(np.arange(length) + move, 0, length - 1), axis).ravel()
        for axis, length in enumerate(shape)
        for move in (-1, 1)
    ]
    rows = np.tile(states.ravel(), len(ends))
    entries = np.full(rows.size, 1 / len(ends))
    return sparse.csr_array((entries, (rows, np.concatenate(ends))), shape=(states.size, states.size))


def random_successors(n: int, successors: int = 5) -> sparse.csr_array:
    """Returns a random MDP under a policy: every state has a few random successors, with random probabilities."""
    rng = np.random.default_rng(0)
    entries = rng.dirichlet(np.ones(successors), n).ravel()
    rows, columns = np.repeat(np.arange(n), successors), rng.integers(n, size=n * successors)
    return sparse.csr_array((entries, (rows, columns)), shape=(n, n))


def random_regular(n: int, degree: int = 10) -> sparse.csr_array:
    """Returns a random walk on a random regular graph: the union of random permutations and their inverses."""
    rng = np.random.default_rng(0)
    ends = [rng.permutation(n) for _ in range(degree // 2)]
    rows, columns = np.tile(np.arange(n), degree // 2), np.concatenate(ends)
    both = np.concatenate([rows, columns]), np.concatenate([columns, rows])
    return sparse.csr_array((np.full(both[0].size, 1 / degree), both), shape=(n, n))


CHAINS: dict[str, Callable[..., Any]] = {
    "dense": random_dense,
    "walk": grid,
    "grid": grid,
    "random": random_successors,
    "regular": random_regular,
}


def describe(chain: str, shape: tuple) -> str:
    """Returns a chain in words."""
    if chain in ("grid", "walk"):
        return f"walk on {' × '.join(f'{side:,}' for side in shape)}"
    names = {"random": "5 random successors", "regular": "random 10-regular graph", "dense": "dense chain"}
    return f"{names[chain]}, {shape[0]:,} states"
