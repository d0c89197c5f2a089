"""The command line: `wane list`, `run`, `reproduce`, `report`, `show`, `errata`."""

import argparse
import dataclasses
import os
import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wane import report as reports
from wane.exact import counterexamples
from wane.experiments import NAMES, TABULAR, find
from wane.experiments.experiment import Experiment, Scale, Settings
from wane.runs import Launcher, Run, RunError, finish_moves
from wane.runs import run as run_all

KEPT = Path("results")
"""runs that come with the repository, made where there is a GPU"""

Merged = tyro.conf.OmitArgPrefixes
LOCAL = Launcher()


@dataclass(frozen=True)
class Options:
    scale: Scale = "quick"
    """quick: seconds to minutes on two cores; paper: the paper's own numbers"""
    out: Path = Path("out")
    """folder of all runs"""
    launch: Merged[Launcher] = LOCAL
    set: tuple[str, ...] = ()
    """settings as field=value; commas separate several values"""
    resume: bool = False
    """go on where an interrupted run stopped"""
    save_seconds: float = 10.0
    """seconds between checkpoints"""


def run(name: Annotated[str, tyro.conf.Positional]) -> None:
    """Runs an experiment: table, claims, figure, films. `wane run NAME --help` shows its settings.

    Args:
        name: one of `wane list`, or package.module of your own
    """
    run_named([name])


def run_named(words: list[str]) -> None:
    """`wane run NAME …`: the experiment's settings are options beside those of every run."""
    name, *words = words
    experiment = find(name)
    both = parse_run(name, experiment, words)
    each = Run(name, both.settings, both.options.scale, both.options.out)
    console = Console()
    run_all(
        [each],
        both.options.launch,
        resume=both.options.resume,
        save_seconds=both.options.save_seconds,
        console=console,
    )
    console.print(reports.verdict_table(reports.collect(each.folder.path)))
    console.print(f"results: {each.folder.path}", soft_wrap=True)


def parse_run(name: str, experiment: Experiment, words: list[str]) -> Any:
    """Options and settings, the scale's preset overridden by --field value, or --set field=value."""
    first = argparse.ArgumentParser(prog=f"wane run {name}", add_help=False, allow_abbrev=False)
    first.add_argument("--scale", default="quick", choices=["quick", "paper"])
    first.add_argument("--set", action="append", default=[])
    known, words = first.parse_known_args(words)
    preset = experiment.settings(known.scale)
    for change in known.set:
        words += _option(change, preset)
    both = dataclasses.make_dataclass(
        "Both",
        [
            ("options", Merged[Options], dataclasses.field(default=Options(scale=known.scale))),
            ("settings", Merged[type(preset)], dataclasses.field(default=preset)),
        ],
        frozen=True,
    )
    return tyro.cli(both, args=words, prog=f"wane run {name}", description=f"{experiment.title}. {experiment.says}")


def _option(change: str, preset: Settings) -> list[str]:
    """`field=value` as the words of an option; commas separate several values."""
    field, equals, value = change.partition("=")
    fields = [each.name for each in dataclasses.fields(preset)]
    if field not in fields or not equals:
        raise ValueError(f"--set {change}: it is field=value, and the fields are {', '.join(fields) or 'none at all'}")
    return [f"--{field.replace('_', '-')}", *value.split(",")]


def reproduce(
    only: tuple[str, ...] = NAMES,
    tabular: bool = False,
    scale: Scale = "quick",
    out: Path = Path("out"),
    launch: Merged[Launcher] = LOCAL,
) -> None:
    """Runs all experiments that are not there yet, and writes the report.

    Args:
        only: names of experiments; all by default
        tabular: leave out those that train networks, which take minutes each
        scale: quick (minutes on two cores), or paper
        out: folder of all runs and of the report
    """
    console = Console()
    chosen = [name for name in dict.fromkeys(only) if name in TABULAR or not tabular]
    runs = [Run(name, find(name).settings(scale), scale, out) for name in chosen]
    run_all(runs, launch, resume=True, console=console)
    report(out)


def report(out: Path = Path("out")) -> None:
    """Writes the report of all runs, and prints their verdicts.

    Args:
        out: folder of the runs; the report becomes report.html in it
    """
    console = Console()
    if not out.is_dir():
        raise RunError(f"there is no folder {out}: begin with `wane reproduce --out {out}`")
    finish_moves(out)
    roots = [root for root in (out, KEPT) if root.is_dir()]
    page = reports.write(out / "report.html", *roots)
    console.print(reports.verdict_table(reports.collect(*roots), [find(name) for name in NAMES]))
    console.print(f"report: {page}", soft_wrap=True)


def list_experiments(out: Path = Path("out")) -> None:
    """The experiments there are, and which of them were run.

    Args:
        out: folder of the runs
    """
    table = Table("name", "what", "in the paper", "run at", title="Experiments")
    for name in NAMES:
        experiment = find(name)
        done = [scale for scale in ("quick", "paper") if Run(name, experiment.settings(scale), scale, out).is_done()]
        table.add_row(name, experiment.title, experiment.source, ", ".join(done))
    Console().print(table)


def show(
    name: Annotated[str, tyro.conf.Positional],
    scale: Scale = "quick",
    out: Path = Path("out"),
    open: bool = False,
) -> None:
    """What an experiment is about, and what came out of it.

    Args:
        name: one of `wane list`
        scale: of the run to show
        out: folder of all runs
        open: also open the figure
    """
    experiment, console = find(name), Console()
    finish_moves(out)
    console.print(f"[bold]{escape(experiment.title)}[/] ({escape(experiment.source)})\n{escape(experiment.says)}")
    each = Run(name, experiment.settings(scale), scale, out)
    found = each.folder.record()
    if found is None:
        console.print(f"not run yet: wane run {name} --scale {scale} --out {out}", soft_wrap=True)
        return
    console.print(reports.verdict_table(reports.collect(each.folder.path)))
    figure = each.folder.path / "figure.png"
    console.print(f"{found['seconds']:.1f} s on {found['device']}; figure: {figure}", soft_wrap=True)
    if open:
        webbrowser.open(figure.resolve().as_uri())


def errata() -> None:
    """Reproduces a counterexample to every statement of the paper that does not hold as printed."""
    table = Table("where", "the paper; what is true; a case", "violated by", title="Errata", show_lines=True)
    table.columns[0].max_width = 20
    for find_case in counterexamples.ALL:
        case = find_case()
        verdict = "holds" if case.corrected_violation <= counterexamples.ROUNDING else "FAILS"
        claim, correction, shown = (escape(text) for text in (case.claim, case.correction, case.case))
        text = f"paper: {claim}\n[green]{verdict}:[/] {correction}\n[dim]case: {shown}[/]"
        table.add_row(case.where, text, f"{case.violation:.3g}")
    Console().print(table)


COMMANDS = {
    "list": list_experiments,
    "run": run,
    "reproduce": reproduce,
    "report": report,
    "show": show,
    "errata": errata,
}


def main() -> None:
    """Entry point of the `wane` command."""
    words = sys.argv[1:]
    try:
        if len(words) > 1 and words[0] == "run" and not words[1].startswith("-"):
            run_named(words[1:])
        else:
            tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="wane", args=words)
    except KeyboardInterrupt:
        print("\ninterrupted; go on with --resume, or with the same `wane reproduce`", file=sys.stderr)
        raise SystemExit(130) from None
    except (ValueError, RunError, OSError) as error:
        if os.environ.get("WANE_DEBUG"):
            raise
        print(f"wane: {_cure(error)}", file=sys.stderr)
        raise SystemExit(1) from None


def _cure(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror}. Earlier results are untouched; mend that and go on with --resume"


if __name__ == "__main__":
    main()
