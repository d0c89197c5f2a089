"""Types of settings that several experiments share, and their names in figures."""

from collections.abc import Hashable
from typing import Annotated

from wane.settings import DISTINCT, Lambda, Range

Lambdas = Annotated[tuple[Lambda, ...], DISTINCT]
"""Several λ, none given twice."""
Slip = Annotated[float, Range(0, 1, "a probability", above=True)]
"""The chance of a random move in a world that must be noisy."""
Tolerance = Annotated[float, Range(1e-12, 1_000_000)]
"""An error at which an iteration stops. Rounding keeps iterations from reaching smaller errors."""
Drawn = Annotated[int, Range(1, 10_000)]
"""How many steps or visits are drawn."""


def slip_name(slip: Hashable) -> str:
    """Returns the name of a world by its chance of a random move (a number or a pandas label): "20 % slip"."""
    percent = 100 * float(str(slip))
    return f"{percent:g} % slip" if percent else "no slip"
