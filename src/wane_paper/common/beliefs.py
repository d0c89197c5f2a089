"""The beliefs of agents: each agent believes in one λ̂, and one of these may be the true λ of the world.

Settings list the beliefs, and any list is allowed. A claim that compares the true λ with others checks here whether
both were run.
"""

from collections.abc import Callable, Mapping

import pandas as pd

from wane.lab import Finding, NotTested, exceeds
from wane.lab.statistics import paired_difference


def label(lam: float) -> str:
    """The name of an agent that believes in a λ̂."""
    return f"λ̂ = {lam:g}"


def need(beliefs: tuple[float, ...], *wanted: float) -> None:
    """Raises NotTested if one of the wanted λ̂ is not among the beliefs."""
    for lam in wanted:
        if lam not in beliefs:
            raise NotTested(f"There is no agent with {label(lam)}: there are {in_words(beliefs)}.")


def others(beliefs: tuple[float, ...], lam: float) -> tuple[float, ...]:
    """Returns the beliefs that are not the true λ. Raises NotTested if there are none."""
    found = tuple(each for each in beliefs if each != lam)
    if not found:
        raise NotTested(f"There is no agent with a wrong λ̂: there are {in_words(beliefs)}.")
    return found


def names(beliefs: tuple[float, ...], lam: float) -> dict[float, str]:
    """Returns the name of each agent, in which the one with the true λ is marked."""
    return {each: label(each) + (" (true)" if each == lam else "") for each in beliefs}


def need_another(beliefs: tuple[float, ...], lam: float, other: float) -> None:
    """Raises NotTested unless the true λ and another λ̂ were run."""
    need(beliefs, lam, other)
    if other == lam:
        raise NotTested(f"The true λ itself is {other:g}.")


def rival(measured: pd.DataFrame, beliefs: tuple[float, ...], lam: float, best: Callable[..., float] = max) -> float:
    """Returns the wrong λ̂ with the best mean. Raises NotTested if there is none, or if the true λ was not run."""
    need(beliefs, lam)
    return best(others(beliefs, lam), key=lambda each: measured[each].mean())


def means(measured: Mapping[float, pd.Series] | pd.DataFrame, beliefs: tuple[float, ...], digits: str = ".4g") -> str:
    """Describes the mean of every agent."""
    return ", ".join(f"{label(each)}: {measured[each].mean():{digits}}" for each in beliefs)


def least_for_the_true(errors: pd.DataFrame, beliefs: tuple[float, ...], lam: float) -> Finding:
    """Finds whether errors (seeds, λ̂) are smaller for the true λ than for the best wrong λ̂, paired by seed."""
    found = paired_difference(errors[rival(errors, beliefs, lam, min)], errors[lam])
    return exceeds(found, f"{means(errors, beliefs)}; {len(errors)} seeds")


def in_words(beliefs: tuple[float, ...]) -> str:
    """Returns the names of all agents, separated by commas."""
    return ", ".join(map(label, beliefs))
