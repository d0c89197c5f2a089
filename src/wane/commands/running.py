"""`wane run` computes an experiment."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from wane import user_files
from wane.commands.arguments import parse, parse_settings
from wane.commands.reading import list_experiments
from wane.commands.terminal import Terminal
from wane.executors import ExecutorOptions
from wane.lab.registry import find
from wane.lab.runs.errors import RunError, UsageError
from wane.lab.scales import Scale
from wane.settings import Checked, Range

if TYPE_CHECKING:
    from wane.lab.runs import Run

Unprefixed = tyro.conf.arg(name="")
"""Marks a nested dataclass whose options do not begin with the name of its field."""
HOW = (
    "wane run NAME runs one of the experiments that `wane list` shows, wane run ./file.py or package.module one of "
    "your own. wane run NAME --help shows its settings, which are options too."
)


LOCAL = ExecutorOptions()


@dataclass(frozen=True)
class ScaleOption:
    """The option that chooses the preset of the settings."""

    scale: Scale = "quick"
    """quick: seconds to minutes on two cores; paper: the paper's own numbers"""


@dataclass(frozen=True)
class RunOptions(ScaleOption, Checked):
    """Options of every run."""

    out: Path = Path("out")
    """folder of all runs"""
    launch: Annotated[ExecutorOptions, Unprefixed] = LOCAL
    resume: bool = False
    """go on where an interrupted run stopped"""
    save_seconds: Annotated[float, Range(0, 1_000_000)] = 10.0
    """seconds between checkpoints"""
    verbose: bool = False
    """print every claim with its statement and details"""


def run(words: Sequence[str]) -> None:
    """Runs an experiment: tables, claims, figure, films. `wane run NAME --help` shows its settings."""
    if not words or list(words) in (["-h"], ["--help"]):
        with contextlib.suppress(SystemExit):
            parse(RunOptions, ["--help"], "wane run NAME", description=f"{HOW} These are the options of every run:")
        print()
        list_experiments(Path("out"))
        return
    options, settings, name = parse_run(words)
    from wane.lab import report as reports
    from wane.lab.runs import Run, run_all

    each, console = Run(name, settings, options.scale, options.out), Terminal()
    refuse_other_file(each)
    run_all([each], options.launch, resume=options.resume, save_seconds=options.save_seconds, console=console)
    console.print((reports.details if options.verbose else reports.summary)(reports.collect(each.folder.path)))
    console.say(f"results: {each.folder.path}")


def parse_run(words: Sequence[str]) -> tuple[RunOptions, Any, str]:
    """Returns the options, the settings and the name of `wane run NAME …`.

    The name and the scale decide which settings there are and what their defaults are, so they are read first. Raises
    UsageError, UnknownName or SettingError for words that make no sense.
    """
    known, rest = parse(ScaleOption, words, "wane run", add_help=False, return_unknown_args=True)
    if not rest or rest[0].startswith("-"):
        raise UsageError("name the experiment before its options: wane run NAME … (wane list shows the names)")
    given, *rest = rest
    name = user_files.add_file(given) if user_files.is_file_name(given) else given
    options, settings = parse_settings(find(name), RunOptions(known.scale), rest, prog=f"wane run {given}")
    return options, settings, name


def refuse_other_file(run: "Run") -> None:
    """Raises RunError if a folder holds results of another file with an experiment of this name."""
    from wane.lab.report.kept_runs import read

    folder = run.folder.path
    found = read(folder).record.get("file") if user_files.is_file_name(run.name) and folder.is_dir() else None
    if found and Path(found) != user_files.path_of(run.name) and Path(found).is_file():
        other = f"{found}, another file with an experiment of this name"
        raise RunError(f"{folder} holds results of {other}: choose another --out")
