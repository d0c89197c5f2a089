"""Settings on the command line: every field of an experiment's settings is an option, nested ones included."""

import dataclasses
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import numpy as np
import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from wane.experiments.contract import Experiment, Settings

Options = TypeVar("Options")


def parse_settings(
    experiment: Experiment, options: Options, words: Sequence[str], prog: str
) -> tuple[Options, Settings]:
    """Reads the options of a run and the settings of an experiment from the words of a command line.

    `options` is a dataclass with a field `scale`, which chooses the preset. Its values and those of the preset are the
    defaults. The settings of a nested dataclass have its name in front: --agent.step-size.
    """
    preset = experiment.settings(options.scale)  # pyright: ignore[reportAttributeAccessIssue]
    both = dataclasses.make_dataclass(
        "Both",
        [
            (name, Annotated[type(default), tyro.conf.arg(name="")], dataclasses.field(default=default))
            for name, default in (("options", options), ("settings", preset))
        ],
        frozen=True,
    )
    description = f"{experiment.title}. {experiment.summary}"
    parsed = tyro.cli(both, args=list(words), prog=prog, description=description, registry=REGISTRY)
    return parsed.options, parsed.settings


REGISTRY = ConstructorRegistry()


@REGISTRY.primitive_rule
def number_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Reads settings that may also be arrays (`wane.types.Scalar`, `Integer`) as plain numbers.

    JAX traces such settings when agents are batched over them; on the command line they are numbers, or "none" where
    None is allowed.
    """
    members = get_args(info.type) if get_origin(info.type) in (Union, UnionType) else ()
    if not any(isinstance(member, type) and issubclass(member, np.number) for member in members):
        return None
    number, optional = (float if float in members else int), NoneType in members

    def read(words: list[str]) -> Any:
        return None if optional and words[0].lower() == "none" else number(words[0])

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="{None}|" * optional + number.__name__.upper(),
        instance_from_str=read,
        is_instance=lambda value: (optional and value is None) or isinstance(value, int | float | np.number),
        str_from_instance=lambda value: [str(value)],
    )
