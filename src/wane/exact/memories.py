"""Tables of memories, lines of memories, and functions of a memory that is a real number.

A table of memories is a pytree whose leaves are arrays with one entry for each memory. If a visit forgets how long the
wait before it was, memories form a line p₀, p₁ = visit(p₀), p₂ = visit(p₁), …, along which `wane.exact.renewal` sums
what a site pays. Waiting is simulated step by step for the whole line together, so the table of memories × return
times, which can be large, is never stored as a whole. Interpolation operators are matrices that take values on nodes to
values at other memories.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy.interpolate import BarycentricInterpolator

from wane.depletion import Depletion, Memory
from wane.sums import check_bound

Keys = Shaped[np.ndarray, " memories"]
Nodes = Float[np.ndarray, " nodes"]
Interpolation = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""A function (nodes, points, weights) → the matrix with entries Σ_τ weights(τ) ℓ_j(points(i, τ))."""
AT_ONCE = 2**21
"""The largest number of memories that are stored at the same time."""


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


def line_of_memories(depletion: Depletion, memory: Memory, length: int) -> Memory:
    """Return the memories p, visit(p), visit(visit(p)), …"""
    line = [memory]
    while len(line) < length:
        line.append(depletion.visit(line[-1]))
    return jax.tree_util.tree_map(lambda *leaves: np.concatenate(leaves), *line)


def forgets(depletion: Depletion, line: Memory, waited: Memory) -> bool:
    """Return whether a visit leads from each memory of the line (but the last) to the next one, also after waiting.

    `waited` are the memories of the line after some waits.
    """
    following = pick(line, slice(1, None))
    after = keys(depletion.visit(waited)).reshape(count(following), -1)
    return bool(np.all(after == keys(following)[:, None]))


def pays_along(
    depletion: Depletion, line: Memory, weights: Float[np.ndarray, "times sites"]
) -> Float[np.ndarray, "memories sites"] | None:
    """Return Σ_τ g(τ) worth(w_τ(p)) for each memory of the line (but the last), or None if a wait leaves the line."""
    waited = pick(line, slice(-1))
    n, pays = count(waited), np.zeros((count(waited), weights.shape[1]))
    width = max(AT_ONCE // n, 1)
    for first in range(0, len(weights), width):
        columns = []
        for _ in range(min(width, len(weights) - first)):
            if not forgets(depletion, line, waited):
                return None
            columns.append(np.asarray(depletion.worth(waited), float) + np.zeros(n))
            waited = depletion.wait(waited)
        worths = np.stack(columns, axis=1)
        check_bound(depletion, worths)
        pays += worths @ weights[first : first + len(columns)]
    return pays


def interpolations(low: float, high: float) -> Iterator[tuple[Interpolation, list[np.ndarray]]]:
    """Yield ways to interpolate on [low, high], each with finer and finer nodes: first polynomials, then lines."""
    chebyshev = [np.cos(np.pi * np.arange(n) / (n - 1)) for n in (9, 17, 33, 65)]
    yield _polynomial, [low + (high - low) * (1 - x) / 2 for x in chebyshev]
    yield _piecewise_linear, [np.linspace(low, high, n) for n in (257, 513, 1025)]


def _polynomial(
    nodes: Nodes, points: Float[np.ndarray, "points times"], weights: Float[np.ndarray, " times"]
) -> Float[np.ndarray, "points nodes"]:
    """Return Σ_τ weights(τ) ℓ_j(points(i, τ)) for the Lagrange polynomials ℓ_j of the nodes."""
    lagrange = BarycentricInterpolator(nodes, np.eye(len(nodes)))
    points = np.clip(points, nodes.min(), nodes.max())
    return np.stack([weights @ lagrange(row) for row in points])


def _piecewise_linear(
    nodes: Nodes, points: Float[np.ndarray, "points times"], weights: Float[np.ndarray, " times"]
) -> Float[np.ndarray, "points nodes"]:
    """Return Σ_τ weights(τ) ℓ_j(points(i, τ)) for the hat functions ℓ_j of equally spaced nodes."""
    n, place = len(nodes), (np.clip(points, nodes[0], nodes[-1]) - nodes[0]) / (nodes[1] - nodes[0])
    cell = np.minimum(place.astype(int), n - 2)
    part = place - cell
    start = np.arange(len(points))[:, None] * n + cell
    size = len(points) * n
    below = np.bincount(start.ravel(), ((1 - part) * weights).ravel(), size)
    above = np.bincount(start.ravel() + 1, (part * weights).ravel(), size)
    return (below + above).reshape(-1, n)
