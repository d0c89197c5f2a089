"""A paper's figures, theorems and equations in its own order, with the verdicts of what it claims there.

The collections of experiments (`wane.lab.registry`) say which experiments belong to which place, and what is missing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wane.lab import registry
from wane.lab.registry import Missing, Place
from wane.lab.report.collect import Run
from wane.lab.report.verdicts import Entry, Known, Line, entries, tally


@dataclass(frozen=True)
class Row:
    """A place of the paper with what the runs found there: one row of the table that `paper_table` returns."""

    place: str
    """The place in the paper: "Figure 5.3"."""
    what: str
    """What the place is about, in a few words."""
    experiments: tuple[str, ...]
    """The names of the experiments."""
    kind: str
    """Whose claims the row holds: "paper", or "identity" or "ours" where the paper claims nothing that data could
    refute."""
    claims: tuple[tuple[str, Line], ...]
    """The claims, each with the name of its experiment."""
    is_erratum: bool = False
    """Whether the claims say that the printed statement is wrong."""

    @property
    def verdicts(self) -> dict[str, int]:
        """How many of the claims have each verdict; verdicts that no claim has are left out."""
        return {verdict: n for verdict, n in tally(line.verdict for _, line in self.claims).items() if n}

    @property
    def sentences(self) -> tuple[tuple[str, str], ...]:
        """The verdict and the statement of each claim."""
        return tuple((line.verdict, line.statement) for _, line in self.claims)


def paper_table(runs: Sequence[Run], experiments: Sequence[Known]) -> list[Row]:
    """Returns the paper's figures, theorems and equations in the paper's order, with what the runs found there.

    `runs` come from `collect`, and `experiments` are the registered ones. A row holds its place, what the place is
    about, the experiments' names, how many claims have each verdict (`verdicts`), and each claim's verdict and sentence
    (`sentences`). Every claim of the paper is in exactly one row. Experiments that test a claim of the paper and
    have no place come last, under the place that they name. Experiments beyond the paper have no row.
    A place whose experiments are not given and were not run has no row: see `missing` for those.
    """
    return rows_of(entries(runs, experiments))


def rows_of(found: Sequence[Entry]) -> list[Row]:
    """Returns the rows of `paper_table` from experiments that were already joined with their runs."""
    by_name = {entry.name: entry for entry in found}
    places = [place for collection in registry.collections() for place in collection.places]
    rows = [row for place in places if (row := _row(place, by_name))]
    placed = {(name, line.name) for row in rows for name, line in row.claims}
    for entry in found:
        chosen = [line for line in entry.lines if line.kind == "paper" and (entry.name, line.name) not in placed]
        if chosen:
            source = entry.texts.source if entry.texts and entry.texts.source else entry.name
            claims = tuple((entry.name, line) for line in chosen)
            place = source[:1].upper() + source[1:]
            rows.append(Row(place, entry.title, (entry.name,), "paper", claims))
    return rows


def missing(found: Sequence[Entry]) -> list[Missing]:
    """Returns the parts of the paper that are not built or not tested, without those that a run has filled."""
    parts = [part for collection in registry.collections() for part in collection.missing]
    return [part for part in parts if not _is_filled(part, found)]


def _is_filled(part: Missing, found: Sequence[Entry]) -> bool:
    """Returns whether a run of the experiment judges the place."""
    runs = [entry for entry in found if entry.name == part.experiment and entry.runs]
    return any(not part.claim or part.claim in [line.name for line in entry.lines] for entry in runs)


def _row(place: Place, by_name: Mapping[str, Entry]) -> Row | None:
    """Returns the row of a place, or None if none of its experiments is known."""
    known = tuple(name for name in place.experiments if name in by_name)
    claims = [(name, line) for name in known for line in by_name[name].lines]
    if place.claims:
        claims = [(name, line) for name, line in claims if line.name in place.claims]
    if not known or (place.claims and not claims):
        return None
    kinds = [line.kind for _, line in claims]
    kind = next((kind for kind in ("paper", "identity", "ours") if kind in kinds), "paper")
    chosen = tuple((name, line) for name, line in claims if line.kind == kind)
    return Row(place.name, place.what, known, kind, chosen, place.is_erratum)
