"""The command line: `wane demo`, `wane errata`."""

from pathlib import Path

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table


def demo(out: Path = Path("out")) -> None:
    """A first look: the λ representation on a grid, and what the right λ is worth on FourRooms.

    Args:
        out: folder for the picture, the film, the table, and the page that holds them all
    """
    from wane.experiments import demo as first_look  # late, so that --help need not wait for plotting libraries

    if out.exists() and not out.is_dir():
        raise SystemExit(f"--out {out} is a file: name a folder")
    console = Console()
    with console.status("solving…"):
        result = first_look.compute()
        page = first_look.write(result, out)
    table = Table("agent", "mean return", "regret", title="FourRooms, λ = ½, 68 starts")
    for agent, value, regret in result.returns.itertuples(index=False):
        table.add_row(agent, f"{value:.3f}", f"{regret:.3f}")
    console.print(table)
    console.print(f"report: {page}", soft_wrap=True)


def errata() -> None:
    """Reproduces a counterexample to every statement of the paper that does not hold as printed."""
    from wane.exact import counterexamples

    table = Table("where", "the paper; what is true; a case", "violated by", title="Errata", show_lines=True)
    table.columns[0].max_width = 20
    for find in counterexamples.ALL:
        case = find()
        verdict = "holds" if case.corrected_violation <= counterexamples.ROUNDING else "FAILS"
        claim, correction, shown = (escape(text) for text in (case.claim, case.correction, case.case))
        text = f"paper: {claim}\n[green]{verdict}:[/] {correction}\n[dim]case: {shown}[/]"
        table.add_row(case.where, text, f"{case.violation:.3g}")
    Console().print(table)


def main() -> None:
    """Entry point of the `wane` command."""
    try:
        tyro.extras.subcommand_cli_from_dict({"demo": demo, "errata": errata}, prog="wane")
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
