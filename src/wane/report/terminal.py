"""The verdicts as a table for the terminal."""

from collections.abc import Sequence

from rich import box
from rich.table import Column, Table
from rich.text import Text

from wane.experiments import Experiment
from wane.report.collect import Run
from wane.report.verdicts import entries, tally
from wane.report.words import changes, count, estimate

STYLES = {"holds": "green", "fails": "bold red", "not run": "dim"}


def verdict_table(runs: Sequence[Run], experiments: Sequence[Experiment] = ()) -> Table:
    """A row for each claim and each run that tested it; claims of `experiments` that nobody tested are "not run"."""
    claims, numbers = Column("claim", overflow="fold"), Column("estimate", no_wrap=True)
    table = Table("experiment", "scale", claims, "verdict", numbers, title="Verdicts", box=box.SIMPLE_HEAD)
    verdicts = []
    for entry in entries(runs, experiments):
        for line in entry.lines:
            verdicts.append(line.verdict)
            for scale, claim in line.found.items():
                _add(table, entry.name, scale, line.name, line.verdict_at(scale), estimate(claim))
            if not line.found:
                _add(table, entry.name, "", line.name, "not run", "")
        for run in entry.runs:
            for claim in run.claims if run.changed else ():
                verdicts.append(claim["verdict"])
                name = f"{entry.name}, {changes(run.changed)}"
                _add(table, name, run.scale, claim["name"], claim["verdict"], estimate(claim))
        table.add_section()
    counts = tally(verdicts)
    holding = f"{count(counts['holds'], 'holds', 'hold')}, {count(counts['fails'], 'fails', 'fail')}"
    table.caption = f"{holding}, {counts['not run']} not run"
    return table


def _add(table: Table, experiment: str, scale: str, claim: str, verdict: str, number: str) -> None:
    table.add_row(_plain(experiment), scale, _plain(claim), Text(verdict, STYLES[verdict]), number)


def _plain(text: str) -> Text:
    """Without rich's markup and without what could steer a terminal."""
    return Text("".join(letter if letter.isprintable() else "�" for letter in text))
