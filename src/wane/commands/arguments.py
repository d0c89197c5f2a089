"""Reads the words of a command line: into a dataclass, the arguments of a function, or the settings of an experiment.

Every field of an experiment's settings is an option, nested ones included. An error is one line that names the option.
This module loads neither JAX nor pandas.
"""

import contextlib
import dataclasses
import functools
import inspect
import io
import re
import sys
from collections.abc import Callable, Sequence
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from wane.lab.runs.errors import UsageError
from wane.settings import check, check_values, deferred
from wane.texts import cut

if TYPE_CHECKING:
    from wane.lab.contract import Experiment, Settings

Options = TypeVar("Options")

REGISTRY = ConstructorRegistry()
SENTENCES = {
    r"^Unrecognized options?: (-[^\s,]*).*": r"\1: there is no such option",
    r"^Unrecognized options?: ([^\s,]+).*": r"\1: this word does not belong to any option",
    r"^Error parsing (\S+?): ": r"\1: ",
    r"^Missing value for argument '(\S+)'. Expected ([2-9]) values": r"\1: \2 values are needed",
    r"^Missing value for argument '(\S+)'.*": r"\1: a value is needed",
    r"^invalid choice '(.*)' for argument '(\S+)'\. Expected one of \((.*?),?\)": r"\2 \1: one of \3 is needed",
    r"^Argument (\S+) is fixed to .*": r"\1: this can be set in Python only",
}
"""Patterns of tyro's messages, and the sentences that replace them."""
_refused: list[str] = []
"""The reasons why words of this command line are not numbers."""


def parse(kind: Any, words: Sequence[str], prog: str, **options: Any) -> Any:
    """Returns what tyro parses from the words. The settings in it are not checked yet.

    Raises UsageError if an option is unknown, lacks its value or has a value of the wrong type. With --help, tyro
    prints the help and ends the program.
    """
    complaint = io.StringIO()
    _refused.clear()
    try:
        with deferred(), contextlib.redirect_stderr(complaint):
            return tyro.cli(kind, args=list(words), prog=prog, registry=REGISTRY, **options)
    except SystemExit as end:
        if not end.code:
            raise
        raise UsageError(one_line(complaint.getvalue(), prog)) from None


def parse_call(function: Callable[..., None], words: Sequence[str], prog: str) -> dict[str, Any]:
    """Returns the arguments that the words name for a function, checked against the types of its parameters.

    Raises UsageError as `parse` does, and SettingError for a value out of its range.
    """

    @functools.wraps(function)
    def arguments(*values: Any, **named: Any) -> dict[str, Any]:
        return dict(inspect.signature(function).bind(*values, **named).arguments)

    found = parse(arguments, words, prog)
    check_values(found, get_type_hints(function, include_extras=True))
    return found


def parse_settings(
    experiment: "Experiment", options: Options, words: Sequence[str], prog: str
) -> tuple[Options, "Settings"]:
    """Reads the options of a run and the settings of an experiment from the words of a command line.

    `options` is a dataclass with a field `scale`, which chooses the preset. Its values and those of the preset are the
    defaults. Options of a nested dataclass begin with its name: --agent.step-size. Raises UsageError for words
    that make no sense, and SettingError for a setting that cannot be used.
    """
    preset = experiment.settings(options.scale)  # pyright: ignore[reportAttributeAccessIssue]
    if not hasattr(preset, "seeds") and any(word.partition("=")[0] == "--seeds" for word in words):
        raise UsageError(f"--seeds: {experiment.name} has no seeds, because nothing in it is random")
    both = dataclasses.make_dataclass(
        "Both",
        [
            (name, Annotated[type(default), tyro.conf.arg(name="")], dataclasses.field(default=default))
            for name, default in (("options", options), ("settings", preset))
        ],
        frozen=True,
    )
    parsed = parse(both, words, prog, description=f"{experiment.title}. {experiment.summary}")
    check(parsed)
    return parsed.options, parsed.settings


def one_line(text: str, prog: str) -> str:
    """Returns one sentence in place of the box that tyro prints about a mistake.

    >>> box = "╭─ Unrecognized options ─╮\\n│ Unrecognized options: --sed, 3 │\\n│ ───── │\\n"
    >>> box += "│ Perhaps you meant: │\\n│     --seed INT │\\n╰──╯"
    >>> print(one_line(box, "wane run toy"))
    --sed: there is no such option; did you mean --seed? `wane run toy --help` shows all
    """
    lines = [line.strip("│ ") for line in text.splitlines() if not line.startswith(("╭", "╰"))]
    parts = re.split(r"\n[─-]+\n", "\n".join(lines))
    # Where tyro cannot draw a box, the title is a separate part.
    fault = " ".join(parts["╭" not in text and len(parts) > 1].split()).removesuffix(".")
    for pattern, sentence in SENTENCES.items():
        fault = re.sub(pattern, sentence, fault)
    if _refused:
        # About a list, tyro says only that it cannot be read.
        fault = re.sub(r"^(\S+): Could not .*", lambda found: f"{found[1]}: {_refused[-1]}", fault)
    if meant := re.search(r"Perhaps you meant:.*?(--[\w.-]+)", " ".join(lines)):
        fault += f"; did you mean {meant[1]}?"
    return f"{fault}{'' if fault.endswith('?') else ';'} `{prog} --help` shows all"


@REGISTRY.primitive_rule
def number_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Returns how to read a number, also for types that may be arrays (`wane.types.Scalar`, `Integer`), or None.

    JAX traces such settings when agents are batched over them; on the command line they are numbers, or "none" where
    None is allowed.
    """
    members = [_bare(member) for member in _members(info.type)]
    if not (int in members or float in members) or any(member in (str, bool, Any) for member in members):
        return None
    number, optional = (float if float in members else int), NoneType in members

    def read(words: list[str]) -> Any:
        if optional and words[0].lower() == "none":
            return None
        try:
            return number(words[0])
        except ValueError:
            kind = "a number" if number is float else "a whole number"
            _refused.append(f"{kind} is needed, got {cut(repr(words[0]))}")
            raise ValueError(_refused[-1]) from None

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="{None}|" * optional + number.__name__.upper(),
        instance_from_str=read,
        is_instance=lambda value: (optional and value is None) or _is_number(value),
        str_from_instance=lambda value: [str(value)],
    )


@REGISTRY.primitive_rule
def flag_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Returns how to read True or False for a type that may also be an array (`wane.types.Flag`), or None."""
    members = [_bare(member) for member in _members(info.type)]
    if bool not in members or len(members) == 1 or any(member in (str, int, float, NoneType) for member in members):
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="{True,False}",
        instance_from_str=lambda words: words[0] == "True",
        choices=("True", "False"),
        is_instance=lambda value: isinstance(value, bool) or hasattr(value, "dtype"),
        str_from_instance=lambda value: [str(bool(value))],
    )


@REGISTRY.primitive_rule
def object_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Returns how to read an object such as a depletion, which no word can stand for, or None for any other type.

    Without this rule, tyro would offer a command for each class. Such an option takes "none" alone.
    """
    equinox, members = sys.modules.get("equinox"), [_bare(member) for member in _members(info.type)]
    if equinox is None or not any(isinstance(each, type) and issubclass(each, equinox.Module) for each in members):
        return None

    def read(words: list[str]) -> None:
        if NoneType not in members or words[0].lower() != "none":
            _refused.append(f"this can be set in Python only, not to {cut(repr(words[0]))}")
            raise ValueError(_refused[-1])

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="{None}" if NoneType in members else "{set in Python}",
        instance_from_str=read,
        is_instance=lambda value: True,
        str_from_instance=lambda value: [str(value)],
    )


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or hasattr(value, "dtype")
