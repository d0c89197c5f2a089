"""Settings on the command line: every field of an experiment's settings is an option, nested ones included."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, TypeVar

import tyro

from wane.lab.contract import Experiment, Settings
from wane.lab.runs.arguments import parse
from wane.lab.runs.errors import UsageError
from wane.settings import check

Options = TypeVar("Options")


def parse_settings(
    experiment: Experiment, options: Options, words: Sequence[str], prog: str
) -> tuple[Options, Settings]:
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
