"""`wane list`, `show`, `compare` and `report` read what was computed, and show it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Group
from rich.text import Text

from wane.commands.terminal import Terminal
from wane.lab.registry import experiments, find, modules, results
from wane.lab.runs.errors import RunError
from wane.lab.scales import Scale
from wane.texts import join

if TYPE_CHECKING:
    from wane.lab.report import KeptRun


def report(out: Path = Path("out"), verbose: bool = False) -> None:
    """Writes the report of all runs, those that come with the package included, and prints their verdicts.

    Args:
        out: folder of the runs; the report becomes report.html in it
        verbose: print every claim with its statement and details
    """
    if not out.is_dir() and out != Path("out"):
        raise RunError(f"there is no folder {out}: begin with `{join(['wane', 'reproduce', '--out', str(out)])}`")
    write_report(out, verbose)


def write_report(out: Path, verbose: bool, folders: Sequence[Path] = ()) -> None:
    """Writes the report of all runs, and prints the verdicts of those in some folders, or of all experiments."""
    from wane.lab import report as reports

    console = Terminal()
    page = reports.write(out / "report.html", *_roots(out))
    show_claims = reports.details if verbose else reports.summary
    known = [] if folders else list(experiments().values())
    console.print(show_claims(reports.collect(*(folders or _roots(out))), known))
    console.say(f"report: {page}")


def list_experiments(out: Path = Path("out")) -> None:
    """Lists the experiments and all runs.

    Args:
        out: folder of the runs
    """
    from wane.lab import report as reports

    console, runs, known = Terminal(), reports.collect(*_roots(out)), experiments()
    standard = [run for run in runs if run.is_standard and not run.started and run.experiment in known]
    at = {name: ", ".join(_scale_words(run) for run in standard if run.experiment == name) for name in known}
    name_width, widest = (max(map(len, texts)) for texts in (at.keys(), at.values()))
    lines = [reports.one_line(("Experiments, the scales that they were run at, and what they are about", "bold"))]
    for name, scales in at.items():
        about = f"{known[name].title} ({known[name].source})"
        lines.append(reports.one_line(f"  {name:<{name_width}}  ", (f"{scales:<{widest}}  ", "green"), about))
    if "*" in "".join(at.values()):
        lines.append(reports.one_line(("  * made by an earlier version of the code", "dim")))
    console.print(Group(*lines))
    _print_runs(console, [run for run in runs if run not in standard], f"Other runs in {out}")


def _scale_words(run: "KeptRun") -> str:
    """Returns the scale of a finished run, with a star if `wane reproduce` would compute it again."""
    from wane.lab.runs import Run

    name, scale, root = run.experiment, run.scale, run.folder.parent.parent
    wanted = Run(name, find(name).settings(scale), scale, root)  # pyright: ignore[reportArgumentType]
    same = root in results() or run.record.get("fingerprint") == wanted.fingerprint
    return scale if same else f"{scale}*"


def _print_runs(console: Terminal, runs: Sequence["KeptRun"], title: str) -> None:
    """Prints the state and the folder of each run, and the command that resumes an interrupted run."""
    from wane.lab import report as reports

    states = [reports.run_state(run).partition(": ") for run in runs]
    if runs:
        console.print()
        console.say(title, style="bold")
    for run, (state, _, reason) in zip(runs, states, strict=True):
        width = max(len(state) for state, _, _ in states)
        console.say(f"  {state:<{width}}  {run.scale}/{run.folder.name}")
        more = run.started.resume if run.started and not run.started.is_running else reason
        if more:
            console.say(f"      {more}", style="dim")


def show(
    name: Annotated[str, tyro.conf.Positional],
    scale: Scale | None = None,
    out: Path = Path("out"),
    open: bool = False,
    verbose: bool = False,
) -> None:
    """Shows what an experiment is about, and what came out of it.

    Args:
        name: one of `wane list`, an experiment or a run
        scale: the scale of the run to show; if not given, quick, or paper if only that was run
        out: folder of all runs; runs that come with the package are shown too
        open: also open the figure
        verbose: print where the experiment differs from the paper, and every claim with its statement and details
    """
    from wane.lab import report as reports
    from wane.lab.report.kept_runs import runs_called, standard_run
    from wane.lab.report.words import command

    console, runs = Terminal(), runs_called(name, _roots(out))
    texts = runs[0].texts if runs and runs[0].texts else find(name) if name in modules() or not runs else None
    if texts:
        about = Text.assemble((texts.title, "bold"), f" ({texts.source})\n{texts.summary}")
        console.print(about)
    if texts and verbose and texts.differences:
        console.print(f"Where we differ: {texts.differences}")
    chosen = standard_run(name, scale, runs)
    if chosen is None and not any(run.started for run in runs):
        console.say(f"not run yet: {command(name, scale or 'quick', {}, out)}")
    if chosen is not None:
        console.print((reports.details if verbose else reports.summary)([chosen]))
        figure = chosen.folder / "figure.png"
        cost = f"{chosen.record.get('seconds', 0):.1f} s on {chosen.record.get('device', '?')}"
        console.say(f"{cost}; figure: {figure}")
        if open:
            import webbrowser

            webbrowser.open(figure.resolve().as_uri())
    _print_runs(console, [run for run in runs if run is not chosen], "Other runs of it")


def _roots(out: Path) -> list[Path]:
    """Returns the folders with runs that exist: the user's and those that came with packages."""
    return [root for root in (out, *results()) if root.is_dir()]


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
    from wane.lab.report.compare import MOST_LINES, differences
    from wane.lab.report.compare import compare as compare_runs
    from wane.lab.report.kept_runs import one_run

    console, most = Terminal(), None if verbose else MOST_LINES
    one, other = (one_run(name, scale, _roots(out)) for name in (a, b))
    console.print(differences(one, other, compare_runs(one, other, verbose), console.room, most))
