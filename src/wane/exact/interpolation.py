"""Linear interpolation operators on an interval: matrices that take values on nodes to values at other points."""

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float
from scipy.interpolate import BarycentricInterpolator

Nodes = Float[np.ndarray, " nodes"]
Operator = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""A function (nodes, points, weights) → the matrix with entries Σ_τ weights(τ) ℓ_j(points(i, τ))."""


def interpolations(low: float, high: float) -> Iterator[tuple[Operator, list[np.ndarray]]]:
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
