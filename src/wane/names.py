"""Names that somebody may mistype: the error lists those that there are, and the one that was probably meant."""

import difflib
from collections.abc import Iterable


class UnknownName(ValueError):
    """Raised for a name that nothing has. The message proposes the nearest name."""


def unknown(kind: str, name: object, known: Iterable[str], more: str = "") -> UnknownName:
    """Returns the error for a name of some kind that is not among the known ones. `more` ends its sentence.

    >>> print(unknown("world", "four-room", ["toy", "four-rooms"]))
    unknown world 'four-room': did you mean 'four-rooms'? There are toy, four-rooms
    """
    known = [str(each) for each in known]
    near = nearest(str(name), known)
    begin = f"did you mean {near!r}? There are" if near else "there are"
    return UnknownName(f"unknown {kind} {name!r}: {begin} {', '.join(known)}{more}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that is most like a name, or None if none is.

    Capitals count for nothing, and neither does whether words are joined by "-" or by "_".

    >>> nearest("Q_lamda", ["toy", "q-lambda"]), nearest("walk", ["toy", "q-lambda"])
    ('q-lambda', None)
    """
    folded = {each.lower().replace("_", "-"): each for each in known}
    found = difflib.get_close_matches(name.lower().replace("_", "-"), folded, 1, 0.7)
    return folded[found[0]] if found else None
