"""The paper's verdicts as a table in Markdown, for the README: `python -m wane_paper.readme README.md`.

The table is made from the runs that come with the package, and a test compares it with them. It stands between two
comments of the page, and everything outside of these stays as it is.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from wane.lab.registry import Missing, find
from wane.lab.report.kept_runs import KeptRun, collect
from wane.lab.report.verdicts import Experiment, JudgedClaim, Row, judged, missing, rows_of, tally
from wane.lab.report.words import verb
from wane_paper.collection import NAMES, RESULTS

BEGIN, END = "<!-- verdicts: written by python -m wane_paper.readme README.md -->", "<!-- end of verdicts -->"


def kept_table() -> str:
    """Returns the table of the runs that come with the package, and of experiments that have none."""
    runs = collect(RESULTS)
    others = set(NAMES) - {run.experiment for run in runs}
    return paper_markdown(runs, [find(name) for name in NAMES if name in others])


def paper_markdown(runs: Sequence[KeptRun], experiments: Sequence[Experiment]) -> str:
    """Returns the paper place by place with the verdicts of its claims, what fails, and what is missing."""
    found = judged(runs, experiments)
    rows = rows_of(found)
    stated, errata = ([row for row in rows if row.is_erratum is wanted] for wanted in (False, True))
    paper = [claim for row in stated if row.kind == "paper" for _, claim in row.claims]
    shown = [row for row in errata if set(row.verdicts) == {"holds"}]
    lines = [
        f"Of {len(paper)} claims of the paper that data can refute, {_count(tally(claim.verdict for claim in paper))}.",
        "",
        "| in the paper | about | verdicts | experiments |",
        "| --- | --- | --- | --- |",
        *map(_row, stated),
        *_listed("What fails", [(row, claim.statement) for row, claim in _with_verdict(stated, "fails")]),
        "",
        f"Wrong as printed, each with a counterexample (`wane errata`): {', '.join(row.place for row in shown)}.",
        *_listed("Missing", [(part, f"{part.what} {part.why}") for part in missing(found)]),
    ]
    return "\n".join(lines) + "\n"


def _with_verdict(rows: Sequence[Row], verdict: str) -> list[tuple[Row, JudgedClaim]]:
    return [(row, claim) for row in rows for _, claim in row.claims if claim.verdict == verdict]


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
    return ", ".join(f"{number} {verb(verdict, number)}" for verdict, number in verdicts.items() if number)


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
