"""What errors say about names and values: the known names and the one that was probably meant, and a value in short."""

import difflib
import reprlib
from collections.abc import Iterable


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


def shown(value: object) -> str:
    """Returns a value as an error shows it: as Python writes it, without the middle of a long one.

    >>> print(shown("four-rooms"), shown(10**400))
    'four-rooms' 1000000000000000000...0000000000000000000
    """
    return _SHORT.repr(value)


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that is most similar to a name, or None if none is similar.

    Neither upper and lower case nor "-" and "_" are told apart.

    >>> nearest("Q_lamda", ["toy", "q-lambda"]), nearest("walk", ["toy", "q-lambda"])
    ('q-lambda', None)
    """
    folded = {each.lower().replace("_", "-"): each for each in known}
    found = difflib.get_close_matches(name.lower().replace("_", "-"), folded, 1, 0.7)
    return folded[found[0]] if found else None
