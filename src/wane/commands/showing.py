"""`wane demo` and `wane errata`, which need no run."""

from pathlib import Path

from rich.table import Table
from rich.text import Text

from wane.commands.terminal import Terminal


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


def demo(out: Path = Path("out"), animate: bool = True) -> None:
    """Shows foragers with different beliefs about λ, compared with the optimum, in seconds.

    Args:
        out: folder of all runs; a page to play with, and films if they can be made, go to demo/ in it
        animate: let the foragers walk, if the terminal is wide enough
    """
    from wane import demo as demos

    demos.show(Terminal(), out / "demo", animate)
