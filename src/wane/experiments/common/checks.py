"""Checks of settings that several experiments have, and the words for them in figures."""

from collections.abc import Hashable, Sequence

from wane.depletion import check_range


def check_lambdas(lambdas: Sequence[float], name: str = "lambdas") -> None:
    """Raises ValueError unless every λ lies in [0, 1] and none is given twice."""
    check_range(name, list(lambdas), 0, 1, "λ is the fraction of a reward that a visit leaves")
    for lam in lambdas:
        if list(lambdas).count(lam) > 1:
            raise ValueError(f"{name} has {lam:g} more than once: give every value once")


def check_slip(slip: float, *, may_be_zero: bool = False) -> None:
    """Raises ValueError unless `slip` is a probability; 0 is refused where an experiment needs a noisy world."""
    if not 0 <= slip <= 1 or (slip == 0 and not may_be_zero):
        least = "from 0" if may_be_zero else "above 0"
        raise ValueError(f"slip = {slip:g}: the chance of a random move lies {least} and up to 1")


def slip_name(slip: Hashable) -> str:
    """The name of a world with this chance of a random move, a number or a label of pandas: "20 % slip", "no slip"."""
    percent = 100 * float(str(slip))
    return f"{percent:g} % slip" if percent else "no slip"
