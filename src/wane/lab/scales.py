"""The two scales that every experiment has."""

from typing import Literal

Scale = Literal["quick", "paper"]
"""quick: seconds to minutes on two cores, and it still tests the claims; paper: the paper's own numbers."""
SCALES: tuple[Scale, ...] = ("quick", "paper")
"""The names of the scales, the cheaper one first."""
