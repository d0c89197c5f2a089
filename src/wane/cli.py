"""The command line: `wane list`, `run`, `reproduce`, `report`, `show`, `evaluate`, `errata`.

Every command is a function whose parameters are its options. What is heavy to import is imported inside of the
functions, so `wane --help` and `wane --version` answer at once.
"""

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import wane
from wane.experiments import FOLDERS, LEARNED, SCALES, Scale, find
from wane.runs.errors import RunError
from wane.runs.options import Launcher

KEPT = Path(wane.__file__).parent / "results"
"""Runs of the paper's scale that come with the package, made where there is a GPU."""

Unprefixed = tyro.conf.arg(name="")
"""Options of a nested dataclass without the name of its field in front."""
LOCAL = Launcher()


@dataclass(frozen=True)
class ScaleOption:
    """The option that chooses the preset of the settings."""

    scale: Scale = "quick"
    """quick: seconds to minutes on two cores; paper: the paper's own numbers"""


@dataclass(frozen=True)
class RunOptions(ScaleOption):
    """Options of every run."""

    out: Path = Path("out")
    """folder of all runs"""
    launch: Annotated[Launcher, Unprefixed] = LOCAL
    resume: bool = False
    """go on where an interrupted run stopped"""
    save_seconds: float = 10.0
    """seconds between checkpoints"""


def run(words: Sequence[str]) -> None:
    """Runs an experiment: tables, claims, figure, films. `wane run NAME --help` shows its settings."""
    if not words or list(words) in (["-h"], ["--help"]):
        _print_experiments()
        print("wane run NAME runs one of them, or package.module of your own; wane run NAME --help shows its settings.")
        return
    options, settings, name = parse_run(words)
    from wane import report as reports
    from wane.runs import Run, run_all

    each, console = Run(name, settings, options.scale, options.out), Console()
    run_all([each], options.launch, resume=options.resume, save_seconds=options.save_seconds, console=console)
    console.print(reports.verdict_table(reports.collect(each.folder.path)))
    console.print(f"results: {each.folder.path}", soft_wrap=True)


def parse_run(words: Sequence[str]) -> tuple[RunOptions, Any, str]:
    """The options, the settings and the name of `wane run NAME …`.

    The name and the scale decide which settings there are and what their defaults are, so they are read first.
    """
    from wane.runs.settings import parse_settings

    known, rest = tyro.cli(ScaleOption, args=list(words), prog="wane run", add_help=False, return_unknown_args=True)
    if not rest or rest[0].startswith("-"):
        raise ValueError("name the experiment before its options: wane run NAME … (wane list shows the names)")
    name, *rest = rest
    options, settings = parse_settings(find(name), RunOptions(known.scale), rest, prog=f"wane run {name}")
    return options, settings, name


def reproduce(
    only: tuple[str, ...] = tuple(FOLDERS),
    tabular: bool = False,
    scale: Scale = "quick",
    out: Path = Path("out"),
    launch: Annotated[Launcher, Unprefixed] = LOCAL,
) -> None:
    """Runs all experiments that are not there yet, and writes the report.

    Args:
        only: names of experiments; all by default
        tabular: leave out those that train networks, which take minutes each
        scale: quick (minutes on two cores), or paper
        out: folder of all runs and of the report
    """
    from wane.runs import Run, run_all

    chosen = [name for name in dict.fromkeys(only) if not (tabular and name in LEARNED)]
    runs = [Run(name, find(name).settings(scale), scale, out) for name in chosen]
    run_all(runs, launch, resume=True, replace=True, console=Console())
    report(out)


def report(out: Path = Path("out")) -> None:
    """Writes the report of all runs, and prints their verdicts.

    Args:
        out: folder of the runs; the report becomes report.html in it
    """
    from wane import report as reports

    console = Console()
    if not out.is_dir():
        raise RunError(f"there is no folder {out}: begin with `wane reproduce --out {out}`")
    roots = [root for root in (out, KEPT) if root.is_dir()]
    page = reports.write(out / "report.html", *roots)
    console.print(reports.verdict_table(reports.collect(*roots), [find(name) for name in FOLDERS]))
    console.print(f"report: {page}", soft_wrap=True)


def list_experiments(out: Path = Path("out")) -> None:
    """Lists the experiments, and which of them were run.

    Args:
        out: folder of the runs
    """
    _print_experiments(out)


def _print_experiments(out: Path | None = None) -> None:
    """Prints all experiments, and where a folder is given, the scales that each was run at."""
    from wane.runs import Run

    table = Table("name", "what", "in the paper", *(["run at"] if out else []), title="Experiments")
    for name in FOLDERS:
        experiment = find(name)
        runs = [Run(name, experiment.settings(scale), scale, out) for scale in SCALES] if out else []
        done = ", ".join(run.scale for run in runs if run.is_done())
        table.add_row(name, experiment.title, experiment.source, *([done] if out else []))
    Console().print(table)


def show(
    name: Annotated[str, tyro.conf.Positional],
    scale: Scale = "quick",
    out: Path = Path("out"),
    open: bool = False,
) -> None:
    """Tells what an experiment is about, and what came out of it.

    Args:
        name: one of `wane list`
        scale: of the run to show
        out: folder of all runs; runs that come with the package are shown too
        open: also open the figure
    """
    from wane import report as reports
    from wane.runs import Run

    experiment, console = find(name), Console()
    console.print(f"[bold]{escape(experiment.title)}[/] ({escape(experiment.source)})\n{escape(experiment.summary)}")
    folders = [Run(name, experiment.settings(scale), scale, root).folder for root in (out, KEPT)]
    found = next(((folder.path, record) for folder in folders if (record := folder.record())), None)
    if found is None:
        console.print(f"not run yet: wane run {name} --scale {scale} --out {out}", soft_wrap=True)
        return
    folder, record = found
    console.print(reports.verdict_table(reports.collect(folder)))
    console.print(f"{record['seconds']:.1f} s on {record['device']}; figure: {folder / 'figure.png'}", soft_wrap=True)
    if open:
        import webbrowser

        webbrowser.open((folder / "figure.png").resolve().as_uri())


def evaluate(
    folder: Annotated[Path, tyro.conf.Positional],
    world: str | None = None,
    episodes: int = 100,
    seed: int = 0,
    film: Path | None = None,
) -> None:
    """Plays episodes with a saved agent, and prints what it earns.

    Args:
        folder: a saved agent; of a run's folder, the agents in it are listed
        world: name of a world to play in; the agent's own if not given
        episodes: how many to play
        seed: of the random numbers
        film: a GIF to write, of the first episode
    """
    from wane.runs import evaluation

    console = Console()
    if (folder / "run.json").is_file():
        for path in evaluation.saved_agents(folder):
            console.print(f"wane evaluate {path}", soft_wrap=True, highlight=False)
        if not evaluation.saved_agents(folder):
            console.print(f"{folder} holds no agents: the experiment keeps none, or they were too large together")
        return
    from wane import worlds

    trained = evaluation.load_agent(folder)
    place = trained.world if world is None else worlds.make(world)
    found = evaluation.evaluate(trained, place, episodes, seed)
    console.print(_earnings(trained.agent, found, evaluation.best_return(place)))
    if film is not None:
        place.film(evaluation.first_episode(found), film)
        console.print(f"film: {film}", soft_wrap=True)


def _earnings(agent: str, found: Any, best: float | None) -> Table:
    """What an agent earned, as a table."""
    from wane.runs.evaluation import mean_and_error

    table = Table("", "mean", "± standard error", title=f"{agent}, {len(found.returns)} episodes")
    rows = {"discounted return": found.returns, "sum of rewards": found.rewards, "steps": found.lengths}
    for name, values in rows.items():
        mean, error = mean_and_error(values)
        table.add_row(name, f"{mean:.4g}", "one episode has none" if error is None else f"{error:.2g}")
    table.add_row("best possible return", "cannot be computed" if best is None else f"{best:.4g}", "")
    return table


def errata() -> None:
    """Reproduces a counterexample to every statement of the paper that does not hold as printed."""
    from wane.exact import counterexamples

    table = Table("where", "the paper; what is true; a case", "violated by", title="Errata", show_lines=True)
    table.columns[0].max_width = 20
    for find_case in counterexamples.ALL:
        case = find_case()
        verdict = "holds" if case.corrected_violation <= counterexamples.ROUNDING else "FAILS"
        claim, correction, shown = (escape(text) for text in (case.claim, case.correction, case.case))
        text = f"paper: {claim}\n[green]{verdict}:[/] {correction}\n[dim]case: {shown}[/]"
        table.add_row(case.where, text, f"{case.violation:.3g}")
    Console().print(table)


COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_experiments,
    "run": run,
    "reproduce": reproduce,
    "report": report,
    "show": show,
    "evaluate": evaluate,
    "errata": errata,
}


def call(words: Sequence[str]) -> None:
    """Calls the command that the first word names, with the other words as its options."""
    command, *rest = words or ["--help"]
    if command in ("-h", "--help"):
        print_help()
    elif command == "--version":
        print(wane.__version__)
    elif command == "run":
        run(rest)
    elif command in COMMANDS:
        tyro.cli(COMMANDS[command], args=rest, prog=f"wane {command}")
    else:
        print(f"wane: unknown command {command!r}: there are {', '.join(COMMANDS)}", file=sys.stderr)
        raise SystemExit(2)


def print_help() -> None:
    """Prints every command with the first line of its docstring."""
    table = Table("command", "what it does", title="wane: reinforcement learning when rewards wear off")
    for name, function in COMMANDS.items():
        table.add_row(name, (inspect.getdoc(function) or "").splitlines()[0])
    console = Console()
    console.print(table)
    console.print("wane COMMAND --help shows the options of a command; wane --version, the version.", highlight=False)


def main() -> None:
    """Entry point of the `wane` command."""
    try:
        call(sys.argv[1:])
    except KeyboardInterrupt:
        print("\ninterrupted; go on with --resume, or with the same `wane reproduce`", file=sys.stderr)
        raise SystemExit(130) from None
    except Exception as error:
        if os.environ.get("WANE_DEBUG") or not _is_expected(error):
            raise
        print(f"wane: {_cure(error)}", file=sys.stderr)
        raise SystemExit(1) from None


def _is_expected(error: Exception) -> bool:
    """Whether an error tells the user what to do. Others are faults of the program and show a traceback."""
    if isinstance(error, ValueError | RunError | OSError):
        return True
    from wane.files import DamagedFile

    return isinstance(error, DamagedFile)


def _cure(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror}. Earlier results are untouched; mend that and go on with --resume"


if __name__ == "__main__":
    main()
