"""Checked settings: the type of a field declares, in one place, which values the setting may have.

    @dataclass(frozen=True)
    class Config(Checked):
        epsilon: Probability = 0.2
        lambdas: Annotated[tuple[Lambda, ...], DISTINCT] = (0.0, 1.0)
        rounds: Annotated[int, Range(2, 100)] = 10

        def rules(self) -> None:
            check_setting(self.rounds >= len(self.lambdas), self, "rounds", "at least one for each λ is needed")

`Checked` checks all fields when such a dataclass is made, those of nested dataclasses included, and then calls `rules`,
which checks conditions on several fields. An error names the setting, the value that it got and what is needed:

    epsilon = 7: a probability between 0 and 1 is needed

A field without a declared range is checked too: a number must be finite and not negative, and a whole number must be
at least 1. Values that JAX is tracing are unknown, so they pass.

tyro, which reads the command line, checks types and not ranges. annotated-types has markers such as `Range` and no
checks, so it would replace about ten of these 290 lines. pydantic has checks, but not of arrays and of values that JAX
is tracing, so what is longest here would stay.
"""

import dataclasses
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial, wraps
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from wane.names import nearest
from wane.texts import LONGEST_VALUE, cut


class SettingError(ValueError):
    """Raised for a setting that cannot be used. It holds the name, the value, and what is needed."""

    def __init__(self, name: str, value: Any, needed: str):
        self.name, self.value, self.needed = name, value, needed
        super().__init__(f"{name} = {_shown(value)}: {needed}")

    def __reduce__(self) -> tuple[type, tuple[str, Any, str]]:
        # Python would pickle the message alone, and errors come back from worker processes pickled.
        return type(self), (self.name, self.value, self.needed)

    @property
    def as_option(self) -> str:
        """The message for the command line: it names the option as it is typed.

        >>> SettingError("agent.step_size", 7.0, "a number between 0 and 1 is needed").as_option
        '--agent.step-size 7: a number between 0 and 1 is needed'
        """
        is_list = isinstance(self.value, tuple | list)
        value = cut(" ".join(map(_shown, self.value)), 4 * LONGEST_VALUE) if is_list else _shown(self.value)
        return f"--{self.name.replace('_', '-')} {value}".rstrip() + f": {self.needed}"


@dataclass(frozen=True)
class Range:
    """The numbers that a setting may have: from `low` to `high`, both included unless `above` or `below` is set."""

    low: float = -math.inf
    high: float = math.inf
    what: str = ""
    """What the number is, with its article: "a probability". If empty: "a number" or "a whole number"."""
    above: bool = False
    """Whether `low` itself is excluded."""
    below: bool = False
    """Whether `high` itself is excluded."""

    def holds(self, number: float) -> bool:
        """Returns whether a number is finite and lies in the range."""
        # A whole number may be too large for a float.
        if isinstance(number, float) and not math.isfinite(number):
            return False
        return (number > self.low if self.above else number >= self.low) and (
            number < self.high if self.below else number <= self.high
        )

    def needed(self, whole: bool) -> str:
        """Returns what is needed, in words.

        >>> Range(0, 1, "a probability").needed(False), Range(1).needed(True)
        ('a probability between 0 and 1 is needed', 'a whole number of at least 1 is needed')
        >>> Range(0, 5, above=True).needed(False)
        'a number above 0 and at most 5 is needed'
        """
        what = self.what or ("a whole number" if whole else "a number")
        low = f"above {self.low:,}" if self.above else f"of at least {self.low:,}"
        high = f"below {self.high:,}" if self.below else f"at most {self.high:,}"
        if math.isinf(self.low) and math.isinf(self.high):
            return f"{what} that is finite is needed"
        if math.isinf(self.high):
            return f"{what} {low} is needed"
        if math.isinf(self.low):
            return f"{what} of {high} is needed"
        if self.above or self.below:
            return f"{what} {low} and {high} is needed"
        return f"{what} between {self.low:,} and {self.high:,} is needed"


class _Distinct:
    """Marks a list in which no value may appear twice."""


DISTINCT = _Distinct()
Probability = Annotated[float, Range(0, 1, "a probability")]
Share = Annotated[float, Range(0, 1, "a share")]
Lambda = Annotated[float, Range(0, 1, "a λ")]
"""The fraction of a reward that a visit leaves."""
Discount = Annotated[float, Range(0, 1, "a discount")]
"""γ."""
Weight = Annotated[float, Range(0, 1, "a weight")]
Finite = Annotated[float, Range(-1_000_000, 1_000_000)]
NotNegative = Annotated[float, Range(0, 1_000_000)]
Positive = Annotated[float, Range(0, 1_000_000, above=True)]
Count = Annotated[int, Range(1, 1_000_000)]
"""A number of things, at least 1."""

_deferred: ContextVar[bool] = ContextVar("deferred", default=False)


class Checked:
    """A dataclass that checks its settings when it is made."""

    def __post_init__(self) -> None:
        if not _deferred.get():
            check(self)

    def rules(self) -> None:
        """Raises SettingError if settings contradict each other. Each setting has passed its own check before."""


Settings = TypeVar("Settings", bound=type)


def renamed(**names: str) -> Callable[[Settings], Settings]:
    """Decorates a dataclass whose settings had other names: @renamed(old="new").

    The old names work for one release, when settings are made and when they are read, with a DeprecationWarning.
    """

    def decorate(kind: Settings) -> Settings:
        init = kind.__init__

        @wraps(init)
        def __init__(self: Any, *values: Any, **given: Any) -> None:
            for old in names.keys() & given.keys():
                _warn(kind, old, names[old])
                given[names[old]] = given.pop(old)
            init(self, *values, **given)

        kind.__init__, kind.RENAMED = __init__, names
        for old, new in names.items():
            setattr(kind, old, property(partial(_read, kind, old, new)))
        return kind

    return decorate


def _warn(kind: type, old: str, new: str) -> None:
    warnings.warn(f"the setting {old} of {kind.__module__}.{kind.__name__} is now {new}", DeprecationWarning, 3)


def _read(kind: type, old: str, new: str, settings: Any) -> Any:
    _warn(kind, old, new)
    return getattr(settings, new)


def with_present_names(kind: type, content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings that a file holds under the names that they have now, those of nested dataclasses included."""
    names, types = getattr(kind, "RENAMED", {}), get_type_hints(kind)
    found = {names.get(name, name): value for name, value in content.items()}
    return {
        name: with_present_names(types[name], value)
        if isinstance(value, Mapping) and dataclasses.is_dataclass(types.get(name))
        else value
        for name, value in found.items()
    }


@contextmanager
def deferred() -> Iterator[None]:
    """Switches the checks off while dataclasses are made. The caller then calls `check` on the outermost one.

    A nested dataclass is made before the one around it, so its own check could not name its place ("agent.").
    """
    token = _deferred.set(True)
    try:
        yield
    finally:
        _deferred.reset(token)


def check_setting(fine: bool, settings: Any, name: str, needed: str) -> None:
    """Raises SettingError unless `fine` is true. The error names a setting, "agent.epsilon", and shows its value."""
    if not fine:
        value = settings
        for part in name.split("."):
            value = getattr(value, part)
        raise SettingError(name, value, needed)


def check(settings: Any) -> None:
    """Checks a dataclass of settings and the dataclasses in it. Raises SettingError for the first wrong setting."""
    check_values(_values(settings), field_types(type(settings)))
    _check_rules(settings, "")


def check_values(values: Mapping[str, Any], types: Mapping[str, Any], prefix: str = "") -> None:
    """Checks values against the types of their fields or parameters. Raises SettingError for the first wrong value."""
    for name, value in values.items():
        hint = types.get(name, Any)
        if is_nested(value):
            check_values(_values(value), field_types(type(value)), _inside(prefix, name, hint))
        else:
            _check_value(prefix + name, value, hint)


@cache
def field_types(kind: type) -> Mapping[str, Any]:
    """Returns the types of a dataclass's fields, with their ranges."""
    return get_type_hints(kind, include_extras=True)


def is_nested(value: Any) -> bool:
    """Returns whether a value is itself a group of settings. A depletion or a world is not: it checks itself."""
    equinox = sys.modules.get("equinox")
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return False
    return equinox is None or not isinstance(value, equinox.Module)


def _values(settings: Any) -> dict[str, Any]:
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}


def _check_rules(settings: Any, prefix: str) -> None:
    """Calls `rules`, for the innermost dataclasses first. Errors name a setting by its full path, "agent.epsilon"."""
    types = field_types(type(settings))
    for name, value in _values(settings).items():
        if is_nested(value):
            _check_rules(value, _inside(prefix, name, types.get(name, Any)))
    if isinstance(settings, Checked):
        try:
            settings.rules()
        except SettingError as error:
            raise SettingError(prefix + error.name, error.value, error.needed) from None


def _inside(prefix: str, name: str, hint: Any) -> str:
    """Returns the prefix of a nested dataclass's settings: "agent.", or the outer prefix if its option is unnamed."""
    unnamed = any(getattr(note, "name", None) == "" for note in getattr(hint, "__metadata__", ()))
    return prefix if unnamed else f"{prefix}{name}."


def _check_value(name: str, value: Any, hint: Any) -> None:
    notes, members = _opened(hint)
    if value is None and type(None) in members:
        return
    limits = next((note for note in notes if isinstance(note, Range)), None)
    if isinstance(value, tuple | list):
        _check_list(name, tuple(value), limits, members, DISTINCT in notes)
    else:
        _check_one(name, value, value, limits, members)


def _check_list(
    name: str, values: tuple[Any, ...], limits: Range | None, members: tuple[Any, ...], distinct: bool
) -> None:
    if not values:
        raise SettingError(name, values, "at least one value is needed")
    kinds = next((get_args(member) for member in members if get_origin(member) is tuple), ())
    for i, each in enumerate(values):
        kind = Any if not kinds else kinds[0] if kinds[-1] is Ellipsis else kinds[min(i, len(kinds) - 1)]
        notes, inner = _opened(kind)
        inner_limits = next((note for note in notes if isinstance(note, Range)), limits)
        _check_one(name, each, values, inner_limits, inner if kinds else members)
        if distinct and each in values[:i]:
            raise SettingError(name, values, f"different values are needed, but {_shown(each)} is given twice")


def _check_one(name: str, value: Any, shown: Any, limits: Range | None, members: tuple[Any, ...]) -> None:
    """Checks a word against the allowed words, and a number (or an array of numbers) against its range."""
    but = f", not {_shown(value)}" if value is not shown else ""
    words = [word for member in members if get_origin(member) is Literal for word in get_args(member)]
    if words:
        if value not in words:
            near = nearest(str(value), map(str, words))
            meant = f"; did you mean {near}?" if near else ""
            raise SettingError(name, shown, f"{_either(words)} is needed{but}{meant}")
        return
    if bool in members and not {int, float} & set(members):
        # 0 and 1 are read too: version 0.2.0 wrote some of these settings as numbers.
        if not _is_traced(value) and value not in (True, False):
            raise SettingError(name, shown, f"True or False is needed{but}")
        return
    is_number, whole = limits is not None or float in members or int in members, int in members and float not in members
    if not is_number or _is_traced(value):
        return
    limits = limits or Range(1 if whole else 0)
    numbers = _numbers(value)
    if numbers is None or not all(limits.holds(each) and (not whole or type(each) is int) for each in numbers):
        raise SettingError(name, shown, limits.needed(whole) + but)


def _opened(hint: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Returns the annotations of a type, and the members of its union (or the type itself)."""
    notes: tuple[Any, ...] = ()
    while get_origin(hint) is Annotated:
        notes, hint = (*notes, *hint.__metadata__), get_args(hint)[0]
    if get_origin(hint) not in (Union, UnionType):
        return notes, (hint,)
    opened = [_opened(member) for member in get_args(hint)]
    return notes + sum((inner for inner, _ in opened), ()), sum((members for _, members in opened), ())


def _is_traced(value: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def _numbers(value: Any) -> list[Any] | None:
    """Returns the numbers in a number or an array, or None for anything else."""
    found = value.ravel().tolist() if hasattr(value, "ravel") else [value]
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in found)
    return found if numbers else None


def _either(words: list[Any]) -> str:
    *most, last = [f'"{word}"' for word in words]
    return f"{', '.join(most)} or {last}" if most else last


def _shown(value: Any) -> str:
    """Returns a value as a person would write it, 7 for 7.0, cut if it is long."""
    if isinstance(value, tuple | list):
        return cut(f"({', '.join(map(_shown, value))})", 4 * LONGEST_VALUE)
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return cut(str(int(value) if whole else value))
