"""The run-time check of types and shapes that the tests switch on for the whole package (see `conftest.py`).

It is beartype with two exceptions. A whole number is a `float` too, as type checkers have it. And a `Literal` is not
checked: it tells checkers and the command line which words there are, and the functions themselves refuse other words
with a message that the tests want to see.
"""

from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from beartype import BeartypeConf, beartype


def check(function: Any) -> Any:
    """beartype, with annotations that are literals left out."""
    annotations = getattr(function, "__annotations__", None)
    if annotations:
        function.__annotations__ = {name: Any if _is_literal(hint) else hint for name, hint in annotations.items()}
    return beartype(conf=BeartypeConf(is_pep484_tower=True))(function)


def _is_literal(hint: Any) -> bool:
    if get_origin(hint) in (Union, UnionType):
        return any(_is_literal(each) for each in get_args(hint))
    return get_origin(hint) is Literal
