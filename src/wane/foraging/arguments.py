"""Arguments are checked before anything is read or computed, against what the signature says they may be.

`check_arguments` decorates public functions. A number is checked against the `Range` in its type, and an object of this
package against its class, also in lists and dictionaries. The error says what was given, what is needed, and which
function makes it:

    >>> @check_arguments
    ... def wait(steps: StepCount) -> None: ...
    >>> wait(-1)
    Traceback (most recent call last):
    wane.settings.SettingError: steps = -1: a whole number of steps of at least 0 is needed

A word is checked against the words of its `Literal`. `check_fields` does the same for the fields of a dataclass.
"""

import dataclasses
import functools
import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from wane.settings import Range, check_values
from wane.types import Real

P = ParamSpec("P")
R = TypeVar("R")

Above = Annotated[Real, Range(0, math.inf, "a number", above=True)]
Finite = Annotated[Real, Range(-math.inf, math.inf, "a number")]
NotNegative = Annotated[Real, Range(0, math.inf, "a number")]
StepCount = Annotated[int, Range(0, math.inf, "a whole number of steps")]
Seed = Annotated[int, Range(0, 2**63 - 1, "a whole number")]
Level = Annotated[float, Range(0, 1, "the probability of an interval, a number", above=True, below=True)]

CURES = {
    "PatchVisits": "call from_stays(table, task, patches=…), or recording.to_visits(task, patches=…), and pass on what "
    "it returns",
    "Recording": "call from_events(…) or from_track(…), and pass on what it returns",
    "Task": "describe the task with Task(rewards, travel) or Task.linear(first, drop, travel)",
    "Model": 'make one, such as MarginalValue(), or take one by its name, find_model("theorem")',
    "MapChooser": "make one, such as MapModel() or MapPlanner()",
    "Belief": "make one, such as LinearDrop() or CurveBelief(wane.Geometric)",
    "Discount": "make one, such as Exponential(0.01)",
    "Diminishing": "make one, such as wane.Geometric(0.5)",
    "Fit": "call fit(data, model), and pass on what it returns",
    "Comparison": "call compare(data, models), and pass on what it returns",
    "Recovery": "call recover(model, data), and pass on what it returns",
    "Moves": "call read_moves(world, cells, actions), and pass on what it returns",
    "World": 'make one, such as wane.worlds.make("toy")',
    "DataFrame": "give a pandas table",
}
"""How to get what is needed, by the names of classes."""


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Checks the arguments of every call against the types of the function's parameters."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:  # A missing or an unknown argument: Python's own message names the function.
            return function(*args, **kwargs)
        _check_all(given, _hints(function))
        return function(*args, **kwargs)

    return checked


def old_arguments(new: str, make: Callable[..., Any], *old: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Lets a function take its argument `new` in parts, by their `old` names, for one release with a warning.

    `make` makes the argument from the parts that were given: `f(tolerance=2)` is `f(cleaning=Cleaning(tolerance=2))`.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            parts = {name: kwargs.pop(name) for name in old if name in kwargs}
            if parts:
                given = ", ".join(f"{name}=…" for name in parts)
                message = f"{function.__name__}({given}) is deprecated: use {new}=…"
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                if new in kwargs:
                    raise TypeError(f"{function.__name__} got {new} and also {given}: give {new} alone")
                kwargs[new] = make(**parts)
            return function(*args, **kwargs)

        return call

    return decorate


def check_fields(settings: Any) -> None:
    """Checks the fields of a dataclass against their types."""
    fields = [field.name for field in dataclasses.fields(settings) if field.init]
    _check_all({name: getattr(settings, name) for name in fields}, _hints(type(settings)))


@functools.cache
def _hints(owner: Any) -> Mapping[str, Any]:
    return get_type_hints(owner, include_extras=True)


def _check_all(values: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    """Raises SettingError for a number or a word, and TypeError for an object that is not what its type says."""
    for name, value in values.items():
        _check(name, value, hints.get(name, Any))


def _check(name: str, value: Any, hint: Any) -> None:
    members = [each for each in _members(hint) if each is not NoneType]
    if value is None and len(members) < len(_members(hint)):
        return
    if members and all(_is_checked(each) for each in members):
        check_values({name: value}, {name: hint})
    elif len(members) == 1 and get_origin(members[0]) is Mapping:
        if not isinstance(value, Mapping):
            raise TypeError(f"{name} is {_described(value)}, and a dictionary is needed, with a value for each label")
        for key, each in value.items():
            _check(f"{name}[{key!r}]", each, get_args(members[0])[1])
    elif members == [bool] and not isinstance(value, bool):
        raise TypeError(f"{name} is {_described(value)}, and True or False is needed")
    elif len(members) == 1 and get_origin(members[0]) is Callable and not callable(value):
        raise TypeError(f"{name} is {_described(value)}, and a function is needed")
    elif len(members) == 1:
        _check_class(name, value, members[0])


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_checked(hint: Any) -> bool:
    """Returns whether a type is a number with a range, or one of some words."""
    ranged = any(isinstance(note, Range) for note in getattr(hint, "__metadata__", ()))
    return ranged or get_origin(hint) is Literal


def _check_class(name: str, value: Any, kind: Any) -> None:
    """Raises TypeError unless a value is an object of this class, or a list of such objects."""
    several = get_origin(kind) is Sequence
    kind = get_args(kind)[0] if several else kind
    cure = CURES.get(getattr(kind, "__name__", ""))
    if cure is None or not isinstance(kind, type):
        return
    if several and (isinstance(value, str) or not isinstance(value, Sequence)):
        raise TypeError(f"{name} is {_described(value)}, and a list is needed, of {kind.__name__} objects: {cure}")
    for i, each in enumerate(value if several else [value]):
        if not isinstance(each, kind):
            place = f"{name}[{i}]" if several else name
            raise TypeError(f"{place} is {_described(each)}, and a {kind.__name__} is needed: {cure}")


def _described(value: Any) -> str:
    """Returns what a value is: a DataFrame, the text 'theorem', the class MarginalValue."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, Iterable) or not isinstance(value, int | float | NoneType):
        return f"a {type(value).__name__}"
    return repr(value)
