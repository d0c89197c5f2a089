"""Errors for mistyped names: they list the known names, and propose the one that was probably meant."""

import difflib
from collections.abc import Iterable

from wane.texts import LONGEST_VALUE, shown


class UnknownName(ValueError):
    """Raised for an unknown name. The message proposes the nearest known name."""


def unknown(kind: str, name: object, known: Iterable[str], more: str = "") -> UnknownName:
    """Returns the error for a name that is not among the known names of a kind. `more` ends the message.

    >>> print(unknown("world", "four-room", ["toy", "four-rooms"]))
    unknown world 'four-room': did you mean 'four-rooms'? There are toy, four-rooms
    """
    known = [str(each) for each in known]
    near = nearest(str(name), known)
    begin = f"did you mean {near!r}? There are" if near else "there are"
    return UnknownName(f"unknown {kind} {shown(name)}: {begin} {', '.join(known)}{more}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that is most similar to a name, or None if none is similar.

    Neither upper and lower case nor "-" and "_" are told apart.

    >>> nearest("Q_lamda", ["toy", "q-lambda"]), nearest("walk", ["toy", "q-lambda"])
    ('q-lambda', None)
    """
    if len(name) > LONGEST_VALUE:  # Comparing long texts takes long, and no known name is as long.
        return None
    folded = {each.lower().replace("_", "-"): each for each in known}
    found = difflib.get_close_matches(name.lower().replace("_", "-"), folded, 1, 0.7)
    return folded[found[0]] if found else None
