"""The beliefs of agents: each agent believes in one λ̂, and one of these may be the true λ of the world.

Settings list the beliefs, and any list is allowed. A claim that compares the true λ with others checks here whether
both were run.
"""

from wane.experiments.contract import NotTested


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


def in_words(beliefs: tuple[float, ...]) -> str:
    """Returns the names of all agents, separated by commas."""
    return ", ".join(map(label, beliefs))
