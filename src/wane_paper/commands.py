"""`wane reproduce` and `wane errata`: the commands of the paper, which `wane` finds by entry points."""

from pathlib import Path
from typing import Annotated

from rich.table import Table
from rich.text import Text

from wane import user_files
from wane.commands.reading import write_report
from wane.commands.running import LOCAL, Unprefixed, refuse_other_file
from wane.commands.terminal import Terminal
from wane.executors import ExecutorOptions
from wane.lab.registry import find
from wane.lab.scales import Scale
from wane_paper.collection import LEARNED, NAMES


def reproduce(
    only: tuple[str, ...] = NAMES,
    tabular: bool = False,
    scale: Scale = "quick",
    out: Path = Path("out"),
    launch: Annotated[ExecutorOptions, Unprefixed] = LOCAL,
    verbose: bool = False,
) -> None:
    """Runs the paper's experiments that are not up to date, and writes the report.

    Args:
        only: names of experiments; all of the paper's by default
        tabular: leave out those that train networks, which take minutes each
        scale: quick (minutes on two cores), or paper
        out: folder of all runs and of the report
        verbose: print every claim with its statement and details
    """
    from wane.lab.runs import Run, run_all

    names = [user_files.add_file(name) if user_files.is_file_name(name) else name for name in only]
    chosen = [name for name in dict.fromkeys(names) if not (tabular and name in LEARNED)]
    runs = [Run(name, find(name).settings(scale), scale, out) for name in chosen]
    for each in runs:
        refuse_other_file(each)
    run_all(runs, launch, resume=True, replace=True, console=Terminal())
    write_report(out, verbose, () if only == NAMES else [each.folder.path for each in runs])


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
    Terminal().print(table)
