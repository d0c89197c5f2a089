"""Text from elsewhere, made fit to be shown: what stands in files, in names of folders, and on command lines.

Such text can hold characters that a terminal obeys, or that reverse the order of what follows them; it can be as long
as a book; and a word of a command can hold spaces and quotes. `plain`, `cut` and `quote` are the only cures for these.
"""

import os
import reprlib
import shlex
import unicodedata
from collections.abc import Iterable
from typing import Any

OBEYED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that are not shown but obeyed: controls, marks of direction, halves of characters."""
LONGEST_VALUE = 60
"""The most characters of a value that a message shows."""
LONGEST_MESSAGE = 2000
"""The most characters of a message. The longest of our own list all names of experiments."""


def plain(text: str, keep: str = "") -> str:
    """Returns text in which every character that would not be shown but obeyed is replaced, except those to `keep`.

    >>> plain("toy\\x1b[2J \\u202eyot")
    'toy�[2J �yot'
    """
    if text.isprintable():
        return text
    return "".join("�" if letter not in keep and unicodedata.category(letter) in OBEYED else letter for letter in text)


def cut(text: str, most: int = LONGEST_VALUE) -> str:
    """Returns text without its middle if it is long. Of a message, the culprit at its beginning and the cure stay.

    >>> cut("a word and many more", 9)
    'a word…re'
    """
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end - 1]}…{text[len(text) - end :]}"


def shown(value: object) -> str:
    """Returns a value as an error shows it: as Python writes it, without the middle of a long one.

    >>> print(shown("four-rooms"), shown(10**400))
    'four-rooms' 100000000000000000...0000000000000000000
    """
    return _SHORT.repr(value)


def brief(self: Any) -> str:
    """Returns an answer in one line, with the type and the shape of its arrays.

    It is made to be the `__repr__` of a named tuple or a dataclass.
    """
    fields = getattr(self, "_fields", None) or self.__dataclass_fields__
    parts = (f"{name}={_brief(getattr(self, name))}" for name in fields)
    return f"{type(self).__name__}({', '.join(parts)})"


def _brief(value: Any) -> str:
    if getattr(value, "shape", ()):
        return f"{value.dtype}{list(value.shape)}"
    return f"{value:.4g}" if isinstance(value, float) else shown(value)


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200


def message(text: str) -> str:
    """Returns a message in one line that a terminal can show whole."""
    return plain(cut(" ".join(text.split("\n")), LONGEST_MESSAGE))


def quote(word: str) -> str:
    """Returns a word as a shell needs it. Characters that a terminal would obey are written as their bytes.

    >>> quote("lam=0.5"), quote("two words"), print(quote("it's \\x1b[2J"))
    $'it\\'s \\x1b[2J'
    ('lam=0.5', "'two words'", None)
    """
    if plain(word) == word:
        return shlex.quote(word)
    return f"$'{''.join(map(_escaped, word))}'"


def join(words: Iterable[str]) -> str:
    """Returns the words of a command as one line to be copied.

    >>> join(["wane", "show", "my run"])
    "wane show 'my run'"
    """
    return " ".join(map(quote, words))


def _escaped(letter: str) -> str:
    if letter in "\\'":
        return f"\\{letter}"
    if plain(letter) == letter:
        return letter
    try:
        content = os.fsencode(letter)
    except UnicodeEncodeError:  # Half of a character, which can stand in JSON but in no name of a file.
        return "�"
    return "".join(f"\\x{byte:02x}" for byte in content)
