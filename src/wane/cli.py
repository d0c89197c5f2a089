"""The command line: `wane demo`, `list`, `run`, `reproduce`, `report`, `show`, `compare`, `evaluate` and others.

Every command is a function whose parameters are its options. What is heavy to import is imported inside of the
functions, so `wane --help` and `wane --version` answer at once. An error is one line: exit status 2 means that the
command makes no sense, 1 that it could not be carried out.
"""

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

import wane
from wane.experiments import FOLDERS, KEPT, LEARNED, Scale, find, own
from wane.explorer.command import explore
from wane.extras import MissingExtra
from wane.names import UnknownName, unknown
from wane.runs.arguments import parse, parse_call
from wane.runs.errors import RunError, UsageError
from wane.runs.forage import forage
from wane.runs.options import Launcher
from wane.settings import Checked, Count, Range, SettingError

if TYPE_CHECKING:
    from wane.report import Run as FoundRun

Unprefixed = tyro.conf.arg(name="")
"""Options of a nested dataclass without the name of its field in front."""
LOCAL = Launcher()


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
    launch: Annotated[Launcher, Unprefixed] = LOCAL
    resume: bool = False
    """go on where an interrupted run stopped"""
    save_seconds: Annotated[float, Range(0, 1_000_000)] = 10.0
    """seconds between checkpoints"""
    verbose: bool = False
    """print every claim with its statement and details"""


def run(words: Sequence[str]) -> None:
    """Runs an experiment: tables, claims, figure, films. `wane run NAME --help` shows its settings."""
    if not words or list(words) in (["-h"], ["--help"]):
        list_experiments(Path("out"))
        print("\nwane run NAME runs one of them, wane run ./file.py or package.module one of your own.")
        print("wane run NAME --help shows its settings.")
        return
    options, settings, name = parse_run(words)
    from wane import report as reports
    from wane.runs import Run, run_all

    each, console = Run(name, settings, options.scale, options.out), Console(markup=False)
    _refuse_other_file(each.folder.path, name)
    run_all([each], options.launch, resume=options.resume, save_seconds=options.save_seconds, console=console)
    console.print((reports.details if options.verbose else reports.summary)(reports.collect(each.folder.path)))
    console.print(f"results: {each.folder.path}", soft_wrap=True)


def parse_run(words: Sequence[str]) -> tuple[RunOptions, Any, str]:
    """The options, the settings and the name of `wane run NAME …`.

    The name and the scale decide which settings there are and what their defaults are, so they are read first. Raises
    UsageError, UnknownName or SettingError for what makes no sense.
    """
    from wane.runs.settings import parse_settings

    known, rest = parse(ScaleOption, words, "wane run", add_help=False, return_unknown_args=True)
    if not rest or rest[0].startswith("-"):
        raise UsageError("name the experiment before its options: wane run NAME … (wane list shows the names)")
    given, *rest = rest
    name = own.add_file(given) if own.is_file_name(given) else given
    options, settings = parse_settings(find(name), RunOptions(known.scale), rest, prog=f"wane run {given}")
    return options, settings, name


def _refuse_other_file(folder: Path, name: str) -> None:
    """Raises RunError if a folder holds results of another file of the same name, which would be replaced."""
    from wane.report.collect import read

    found = read(folder).record.get("file") if own.is_file_name(name) and folder.is_dir() else None
    if found and Path(found) != own.path_of(name) and Path(found).is_file():
        raise RunError(f"{folder} holds results of {found}, another file of this name: choose another --out")


def reproduce(
    only: tuple[str, ...] = tuple(FOLDERS),
    tabular: bool = False,
    scale: Scale = "quick",
    out: Path = Path("out"),
    launch: Annotated[Launcher, Unprefixed] = LOCAL,
    verbose: bool = False,
) -> None:
    """Runs all experiments that are not there yet, and writes the report.

    Args:
        only: names of experiments; all by default
        tabular: leave out those that train networks, which take minutes each
        scale: quick (minutes on two cores), or paper
        out: folder of all runs and of the report
        verbose: print every claim with its statement and details
    """
    from wane.runs import Run, run_all

    names = [own.add_file(name) if own.is_file_name(name) else name for name in only]
    chosen = [name for name in dict.fromkeys(names) if not (tabular and name in LEARNED)]
    runs = [Run(name, find(name).settings(scale), scale, out) for name in chosen]
    run_all(runs, launch, resume=True, replace=True, console=Console(markup=False))
    report(out, verbose)


def report(out: Path = Path("out"), verbose: bool = False) -> None:
    """Writes the report of all runs, those that come with the package included, and prints their verdicts.

    Args:
        out: folder of the runs; the report becomes report.html in it
        verbose: print every claim with its statement and details
    """
    from wane import report as reports

    console = Console(markup=False)
    if not out.is_dir() and out != Path("out"):
        raise RunError(f"there is no folder {out}: begin with `wane reproduce --out {out}`")
    page = reports.write(out / "report.html", *_roots(out))
    show_claims = reports.details if verbose else reports.summary
    console.print(show_claims(reports.collect(*_roots(out)), [find(name) for name in FOLDERS]))
    console.print(f"report: {page}", soft_wrap=True)


def list_experiments(out: Path = Path("out")) -> None:
    """Lists the experiments, and all runs that there are.

    Args:
        out: folder of the runs
    """
    from wane import report as reports

    console, runs = Console(markup=False), reports.collect(*_roots(out))
    standard = [run for run in runs if run.is_standard and not run.started and run.experiment in FOLDERS]
    at = {name: ", ".join(_scale_words(run) for run in standard if run.experiment == name) for name in FOLDERS}
    name_width, widest = (max(map(len, texts)) for texts in (at.keys(), at.values()))
    lines = [reports.one_line(("Experiments, the scales that they were run at, and what they are about", "bold"))]
    for name, scales in at.items():
        experiment = find(name)
        about = f"{experiment.title} ({experiment.source})"
        lines.append(reports.one_line(f"  {name:<{name_width}}  ", (f"{scales:<{widest}}  ", "green"), about))
    if "*" in "".join(at.values()):
        lines.append(reports.one_line(("  * made by an earlier version of the code", "dim")))
    console.print(Group(*lines), highlight=False)
    _print_runs(console, [run for run in runs if run not in standard], f"Other runs in {out}")


def _scale_words(run: "FoundRun") -> str:
    """The scale of a finished run, with a star if `wane reproduce` would compute it again."""
    from wane.runs import Run

    name, scale, root = run.experiment, run.scale, run.folder.parent.parent
    wanted = Run(name, find(name).settings(scale), scale, root)  # pyright: ignore[reportArgumentType]
    same = root == KEPT or run.record.get("fingerprint") == wanted.fingerprint
    return scale if same else f"{scale}*"


def _print_runs(console: Console, runs: Sequence["FoundRun"], title: str) -> None:
    """Prints a line for each run: its state, and its folder. What was interrupted comes with the command to resume."""
    from wane import report as reports

    states = [reports.run_state(run).partition(": ") for run in runs]
    if runs:
        console.print(f"\n{title}", style="bold", highlight=False)
    for run, (state, _, reason) in zip(runs, states, strict=True):
        width = max(len(state) for state, _, _ in states)
        name = reports.plain(f"{run.scale}/{run.folder.name}")
        console.print(f"  {state:<{width}}  {name}", highlight=False, soft_wrap=True)
        more = run.started.resume if run.started and not run.started.is_running else reason
        if more:
            console.print(f"      {reports.plain(more)}", style="dim", highlight=False, soft_wrap=True)


def show(
    name: Annotated[str, tyro.conf.Positional],
    scale: Scale = "quick",
    out: Path = Path("out"),
    open: bool = False,
    verbose: bool = False,
) -> None:
    """Tells what an experiment is about, and what came out of it.

    Args:
        name: one of `wane list`, an experiment or a run
        scale: the scale of the run to show
        out: folder of all runs; runs that come with the package are shown too
        open: also open the figure
        verbose: print every claim with its statement and details
    """
    from wane import report as reports
    from wane.report.lookup import runs_called, standard_run

    console, runs = Console(markup=False), runs_called(name, _roots(out))
    told = runs[0].texts if runs and runs[0].texts else find(name) if name in FOLDERS or not runs else None
    if told:
        about = Text.assemble((told.title, "bold"), f" ({told.source})\n{told.summary}")
        console.print(about, highlight=False)
    chosen = standard_run(name, scale, runs)
    if chosen is None and not any(run.started for run in runs):
        console.print(f"not run yet: wane run {name} --scale {scale} --out {out}", soft_wrap=True)
    if chosen is not None:
        console.print((reports.details if verbose else reports.summary)([chosen]))
        figure = chosen.folder / "figure.png"
        cost = f"{chosen.record.get('seconds', 0):.1f} s on {reports.plain(chosen.record.get('device', '?'))}"
        console.print(f"{cost}; figure: {figure}", soft_wrap=True)
        if open:
            import webbrowser

            webbrowser.open(figure.resolve().as_uri())
    _print_runs(console, [run for run in runs if run is not chosen], "Other runs of it")


def _roots(out: Path) -> list[Path]:
    """The folders with runs: that of the user, and that of the package."""
    return [root for root in (out, KEPT) if root.is_dir()]


def compare(
    a: Annotated[str, tyro.conf.Positional],
    b: Annotated[str, tyro.conf.Positional],
    scale: Scale = "quick",
    out: Path = Path("out"),
    verbose: bool = False,
) -> None:
    """Compares two runs: settings, claims, and the numbers of their tables.

    Args:
        a: a run: its folder, or its name in `wane list`
        b: another run
        scale: the scale of runs that are given by name
        out: folder of all runs
        verbose: show the differences of all rows of the tables
    """
    from wane.report.compare import compare as compare_runs
    from wane.report.differences import MOST_LINES, differences
    from wane.report.lookup import one_run

    console, most = Console(markup=False), None if verbose else MOST_LINES
    one, other = (one_run(name, scale, _roots(out)) for name in (a, b))
    console.print(differences(one, other, compare_runs(one, other, verbose), console.width, most))


def evaluate(
    folder: Annotated[Path, tyro.conf.Positional],
    world: str | None = None,
    episodes: Count = 100,
    seed: Annotated[int, Range(0, 2**32 - 1)] = 0,
    film: Path | None = None,
) -> None:
    """Plays episodes with a saved agent, and prints what it earns.

    Args:
        folder: a saved agent, or the folder of a run, whose agents are then listed
        world: name of a world to play in; the agent's own if not given
        episodes: how many episodes to play
        seed: the seed of the random numbers
        film: a GIF file to write the first episode to
    """
    from wane.runs import evaluation

    console = Console(markup=False)
    if (folder / "run.json").is_file():
        for path in evaluation.saved_agents(folder):
            console.print(f"wane evaluate {path}", soft_wrap=True, highlight=False)
        if not evaluation.saved_agents(folder):
            console.print(f"{folder} holds no agents: the experiment keeps none, or they were too large together")
        return
    trained = evaluation.load_agent(folder)
    place = trained.world if world is None else evaluation.place_called(world, trained)
    found = evaluation.evaluate(trained, place, episodes, seed)
    console.print(_earnings(trained.agent, found, evaluation.best_return(place)))
    if film is not None:
        evaluation.write_film(place, found, film)
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
        shown = (
            f"paper: {case.claim}\n",
            (f"{verdict}:", "green"),
            f" {case.correction}\n",
            (f"case: {case.case}", "dim"),
        )
        table.add_row(case.where, Text.assemble(*shown), f"{case.violation:.3g}")
    Console(markup=False).print(table)


def demo(out: Path = Path("out"), animate: bool = True) -> None:
    """Shows foragers with different beliefs about λ beside the optimum, in seconds.

    Args:
        out: folder of all runs; a page to play with, and films if they can be made, go to demo/ in it
        animate: let the foragers walk, if the terminal is wide enough
    """
    from wane import demo as demos

    demos.show(Console(markup=False), out / "demo", animate)


COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "list": list_experiments,
    "run": run,
    "reproduce": reproduce,
    "report": report,
    "show": show,
    "compare": compare,
    "evaluate": evaluate,
    "forage": forage,
    "errata": errata,
    "explore": explore,
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
        COMMANDS[command](**parse_call(COMMANDS[command], rest, f"wane {command}"))
    else:
        raise unknown("command", command, COMMANDS)


def print_help() -> None:
    """Prints every command with the first line of its docstring."""
    table = Table("command", "what it does", title="wane: reinforcement learning when rewards wear off")
    for name, function in COMMANDS.items():
        table.add_row(name, (inspect.getdoc(function) or "").splitlines()[0])
    console = Console(markup=False)
    console.print(table)
    console.print("wane COMMAND --help shows the options of a command; wane --version, the version.", highlight=False)


def main() -> None:
    """Entry point of the `wane` command."""
    try:
        call(sys.argv[1:])
    except KeyboardInterrupt:
        print("\ninterrupted; go on with --resume, or with the same `wane reproduce`", file=sys.stderr)
        raise SystemExit(130) from None
    except (UsageError, UnknownName, SettingError) as error:
        if os.environ.get("WANE_DEBUG"):
            raise
        _print_error(error.as_option if isinstance(error, SettingError) else str(error))
        raise SystemExit(2) from None
    except Exception as error:
        if os.environ.get("WANE_DEBUG") or not _is_expected(error):
            raise
        _print_error(_cure(error))
        raise SystemExit(1) from None


def _print_error(message: str) -> None:
    """Prints a message in one line. A word of the command line may hold characters that no terminal can show."""
    print("wane:", "".join(letter if letter.isprintable() else "�" for letter in message), file=sys.stderr)


def _is_expected(error: Exception) -> bool:
    """Whether an error tells the user what to do. Others are faults of the program and show a traceback."""
    if isinstance(error, ValueError | RunError | MissingExtra | OSError):
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
