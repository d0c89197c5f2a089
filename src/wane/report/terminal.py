"""The verdicts as a table for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Column, Table
from rich.text import Text

from wane.report.collect import Run
from wane.report.verdicts import Known, entries, tally
from wane.report.words import changes, estimate, tally_sentence

STYLES = {"holds": "green", "fails": "bold red", "not tested": "yellow", "not run": "dim"}


def verdict_table(runs: Sequence[Run], experiments: Sequence[Known] = ()) -> Table:
    """Returns a table with a row for each claim and each run that has it.

    Claims of `experiments` that no run has are listed as "not run".
    """
    claims, numbers = Column("claim", overflow="fold"), Column("estimate", no_wrap=True)
    table = Table("experiment", "scale", claims, "verdict", numbers, title="Verdicts", box=box.SIMPLE_HEAD)
    verdicts = []
    for entry in entries(runs, experiments):
        for line in entry.lines:
            verdicts.append(line.verdict)
            for scale, record in line.records.items():
                _add_claim(table, entry.name, scale, record)
            if not line.records:
                _add_row(table, entry.name, "", line.name, "not run", "")
        for run in entry.runs:
            for record in run.claims if run.changed else ():
                verdicts.append(record["verdict"])
                _add_claim(table, f"{entry.name}, {changes(run.changed)}", run.scale, record)
        table.add_section()
    table.caption = f"{tally_sentence(tally(verdicts))}."
    return table


def _add_claim(table: Table, experiment: str, scale: str, record: Mapping[str, Any]) -> None:
    reason = f": {record['detail']}" if record["verdict"] == "not tested" else ""
    _add_row(table, experiment, scale, record["name"] + reason, record["verdict"], estimate(record))


def _add_row(table: Table, experiment: str, scale: str, claim: str, verdict: str, numbers: str) -> None:
    table.add_row(_plain(experiment), scale, _plain(claim), Text(verdict, STYLES[verdict]), numbers)


def _plain(text: str) -> Text:
    """Returns text without rich's markup and without characters that could steer a terminal."""
    return Text("".join(letter if letter.isprintable() else "�" for letter in text))
