"""What can be computed instead of learned."""

from wane.exact import (
    bounds,
    counterexamples,
    graph,
    iterate,
    occupancy,
    optimum,
    patches,
    renewal,
    replenish,
    representation,
    solve,
)

__all__ = [
    "bounds",
    "counterexamples",
    "graph",
    "iterate",
    "occupancy",
    "optimum",
    "patches",
    "renewal",
    "replenish",
    "representation",
    "solve",
]
