"""HTML as nested calls. Text is escaped unless it came out of such a call, so that nobody has to remember to."""

import html
from collections.abc import Iterable
from typing import Any

VOID = frozenset({"br", "img", "link", "meta"})


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | None | Iterable[Any]
"""text, markup, nothing, or a list of these"""


def join(*children: Child) -> Html:
    """Children one after the other: text escaped, markup as it is, lists opened, None left out."""
    return Html("".join(_pieces(children)))


def tag(name: str, /, *children: Child, **attributes: str | int | bool | None) -> Html:
    """One element. An attribute's trailing _ is dropped, other _ are hyphens; True is a bare one, None and False none.

    >>> tag("p", "1 < 2, ", tag("b", "really"), class_="note")
    '<p class="note">1 &lt; 2, <b>really</b></p>'
    """
    opening = name + "".join(_attribute(key, value) for key, value in attributes.items())
    return Html(f"<{opening}>" if name in VOID else f"<{opening}>{join(*children)}</{name}>")


def _attribute(key: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    key = key.rstrip("_").replace("_", "-")
    return f" {key}" if value is True else f' {key}="{html.escape(str(value))}"'


def _pieces(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if isinstance(child, str):
            yield child if isinstance(child, Html) else html.escape(child)
        elif child is not None:
            yield from _pieces(child)
