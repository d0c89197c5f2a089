"""The paper's verdicts as a table in Markdown, for the README: `python -m wane_paper.readme README.md`.

The table is made from the runs that come with the package, and a test compares it with them. It stands between two
comments of the page, and everything outside of these stays as it is.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from wane.lab.registry import Missing, find
from wane.lab.report.collect import Run, collect
from wane.lab.report.places import Row, missing, rows_of
from wane.lab.report.verdicts import Known, Line, entries, tally
from wane_paper.collection import NAMES, RESULTS

BEGIN, END = "<!-- verdicts: written by python -m wane_paper.readme README.md -->", "<!-- end of verdicts -->"
WORDS = {
    "holds": ("1 holds", "{} hold"),
    "fails": ("1 fails", "{} fail"),
    "undecided": ("1 is undecided", "{} are undecided"),
    "not tested": ("1 was not tested", "{} were not tested"),
    "not run": ("1 was not run", "{} were not run"),
}


def kept_table() -> str:
    """Returns the table of the runs that come with the package, and of experiments that have none."""
    runs = collect(RESULTS)
    others = set(NAMES) - {run.experiment for run in runs}
    return paper_markdown(runs, [find(name) for name in NAMES if name in others])


def paper_markdown(runs: Sequence[Run], experiments: Sequence[Known]) -> str:
    """Returns the paper place by place with the verdicts of its claims, what fails, and what is missing."""
    found = entries(runs, experiments)
    rows = rows_of(found)
    judged, errata = ([row for row in rows if row.is_erratum is wanted] for wanted in (False, True))
    paper = [line for row in judged if row.kind == "paper" for _, line in row.claims]
    shown = [row for row in errata if set(row.verdicts) == {"holds"}]
    lines = [
        f"Of {len(paper)} claims of the paper that data can refute, {_count(tally(line.verdict for line in paper))}.",
        "",
        "| in the paper | about | verdicts | experiments |",
        "| --- | --- | --- | --- |",
        *map(_row, judged),
        *_listed("What fails", [(row, line.statement) for row, line in _with_verdict(judged, "fails")]),
        "",
        f"Wrong as printed, each with a counterexample (`wane errata`): {', '.join(row.place for row in shown)}.",
        *_listed("Missing", [(part, f"{part.what} {part.why}") for part in missing(found)]),
    ]
    return "\n".join(lines) + "\n"


def _with_verdict(rows: Sequence[Row], verdict: str) -> list[tuple[Row, Line]]:
    return [(row, line) for row in rows for _, line in row.claims if line.verdict == verdict]


def _row(row: Row) -> str:
    kind = {"paper": "", "identity": " (identities)", "ours": " (our questions)"}[row.kind]
    names = ", ".join(f"`{name}`" for name in row.experiments)
    return "| " + " | ".join((row.place, row.what, _count(row.verdicts) + kind, names)) + " |"


def _listed(title: str, parts: Sequence[tuple[Row | Missing, str]]) -> list[str]:
    """Returns the lines of a list with a title, or nothing if there is nothing to list."""
    places = [part.place if isinstance(part, Row) else part.name for part, _ in parts]
    texts = [text if text.endswith(".") else f"{text}." for _, text in parts]
    listed = [f"- {place}: {text}" for place, text in zip(places, texts, strict=True)]
    return ["", f"{title}:", "", *listed] if parts else []


def _count(verdicts: dict[str, int]) -> str:
    """Returns numbers of verdicts in words.

    >>> _count({"holds": 3, "fails": 1, "undecided": 0})
    '3 hold, 1 fails'
    """
    counted = ((WORDS[verdict], number) for verdict, number in verdicts.items() if number)
    return ", ".join(one if number == 1 else several.format(number) for (one, several), number in counted)


def fill(page: str, table: str) -> str:
    """Returns a page with the table between its two comments. Raises ValueError if the page lacks one of them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for the table: write {BEGIN} and {END} on lines of their own")
    return f"{before}{begin}\n{table}{end}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(fill(path.read_text("utf-8"), kept_table()), "utf-8")
