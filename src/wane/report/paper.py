"""The paper's figures, theorems and equations in its own order, with the verdicts of what it claims there.

`PLACES` says which experiments belong to which place of the paper, and `MISSING` lists what no experiment tests.
Both lists are kept here only: the report and the table in the README are made from them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wane.report.collect import Run
from wane.report.verdicts import Entry, Known, Line, entries, tally


@dataclass(frozen=True)
class Place:
    """A place of the paper, and the experiments that belong to it."""

    name: str
    what: str
    experiments: tuple[str, ...]
    claims: tuple[str, ...] = ()
    """The claims that belong to the place; all of the experiments' claims if none are named."""


@dataclass(frozen=True)
class Missing:
    """Something in the paper that the package does not build or does not test, and why."""

    name: str
    what: str
    why: str
    experiment: str = ""
    """The experiment whose run fills the place, if there is one."""
    claim: str = ""
    """The claim of the experiment that fills the place; any run of the experiment does if none is named."""

    def is_filled(self, found: Iterable[Entry]) -> bool:
        """Returns whether a run of the experiment judges the place."""
        runs = [entry for entry in found if entry.name == self.experiment and entry.runs]
        return any(not self.claim or self.claim in [line.name for line in entry.lines] for entry in runs)


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


ERRATA = "errata"
"""The experiment whose claims say that a printed statement is wrong."""

PLACES = (
    Place("Figure 1.1", "Rewards that wear off", ("diminishing",)),
    Place("Section 2", "Policy improvement (a misprint)", (ERRATA,), ("improvement",)),
    Place("Figures 4.1, F.1 and F.2", "The λ representation between FR and SR", ("representations",)),
    Place("Proposition 4.1", "How fast dynamic programming converges", (ERRATA,), ("convergence",)),
    Place("Figure 5.1", "Evaluating a policy", ("policy-evaluation", "grid-features")),
    Place("Section 5.2", "The operator of control (a misprint)", (ERRATA,), ("target-action",)),
    Place("Figure 5.2", "Learning a policy in TwoRooms", ("q-lambda", "a2c")),
    Place("Theorem 5.1", "What GPI can lose", (ERRATA,), ("gpi",)),
    Place("Figure 5.3", "Composing policies in FourRooms", ("gpi-tabular",)),
    Place("Figure 5.4", "Composing policies from pixels", ("gpi-pixels",)),
    Place("Figure 6.1", "The λ operator: learning λ; a large reward or many", ("fb-learn-lambda", "fb-asymmetric")),
    Place("Lemma B.2", "The operator contracts", (ERRATA,), ("contraction",)),
    Place("Lemma B.3", "The largest values (a step of the proof)", (ERRATA,), ("maximum",)),
    Place("Lemma B.4", "Subadditivity", (ERRATA,), ("subadditivity",)),
    Place("Lemma B.6", "What a wrong λ costs", (ERRATA,), ("mismatch",)),
    Place("Lemma B.7", "The best policy of another task (a step of the proof)", (ERRATA,), ("optimum-mismatch",)),
    Place("Theorem B.1", "An extension of GPI", (ERRATA,), ("gpi-extension",)),
    Place("Appendix C", "The first N visits", ("n-occupancy",)),
    Place("Figure E.1", "Learning λ-features from pixels", ("lambda-features-curves",)),
    Place("Figure F.3", "Convergence of dynamic programming", ("dp-convergence",)),
    Place("Figure F.4", "Composing policies with noisy transitions", ("gpi-noisy",)),
    Place("Figure G.1", "Three states: the correct λ", ("toy",)),
    Place("Appendix H", "The loss of the λ operator (a misprint)", (ERRATA,), ("lambda-operator",)),
    Place("Figure H.1", "The λ operator on random tasks", ("fb-lambda-table",)),
    Place("Figure H.2", "Leaving patches: the marginal value theorem", ("mvt",)),
    Place("Figures I.1 and I.2", "λ-SAC: continuous control", ("sac", "sac-flops")),
    Place("Figure J.1", "Rewards that grow back", ("replenishing",)),
    Place("Appendix J", "Representations of rewards that grow back", (ERRATA,), ("eligibility-trace", "total-time")),
    Place("Figure J.2", "Learning where rewards grow back", ("replenishing-q",)),
    Place("Appendix K", "λ beside γ", ("lambda-vs-gamma",)),
)
"""The places of the paper, in its order."""

MISSING = (
    Missing(
        "Section 4.1",
        "The λ operator on sets of states.",
        "It is computed exactly (wane.patch_representation), the gallery draws it, and lemma B.4 is judged; but no "
        "network learns it for sets.",
    ),
    Missing(
        "Section 4.1",
        "λ-features scale to continuous state spaces.",
        "All experiments here with features, pixels included, have a grid's cells as states; the only continuous "
        "states are those of λ-SAC.",
    ),
    Missing(
        "Figure 5.4, right",
        "The principal components of the λFs show the structure that values give.",
        "They are drawn, but the paper gives no measure of such structure, so no claim judges them.",
    ),
    Missing(
        "Section 6",
        "The λ operator predicts not only when to leave a patch but also where to go.",
        "No claim judges where agents go: the paper shows no data for it either.",
        "mvt",
        "where-to-go",
    ),
    Missing(
        "Lemmas 3.1 and B.1",
        "Values alone have no Bellman equation.",
        "It is mathematics without a figure: the package's tests hold two chains that prove it, and no claim of the "
        "report repeats them.",
    ),
    Missing(
        "Lemmas B.5, B.7 and B.8",
        "Steps of the proofs about GPI.",
        "Only the theorems that rest on them are judged.",
        ERRATA,
        "optimum-mismatch",
    ),
    Missing(
        "Tables H.1 and I.1",
        "Settings of the λ operator and of SAC.",
        "They state no result. The settings of the experiments are those of the tables, except where an experiment "
        "says that it differs.",
    ),
)
"""The parts of the paper that are not built or not tested."""


def paper_table(runs: Sequence[Run], experiments: Sequence[Known]) -> list[Row]:
    """Returns the paper's figures, theorems and equations in the paper's order, with what the runs found there.

    `runs` come from `collect`, and `experiments` are the registered ones. A row holds its place, what the place is
    about, the experiments' names, how many claims have each verdict (`verdicts`), and each claim's verdict and sentence
    (`sentences`). Every claim of the paper is in exactly one row. Experiments that test a claim of the paper and
    have no place in `PLACES` come last, under the place that they name. Experiments beyond the paper have no row.
    A place whose experiments are not given and were not run has no row: see `missing` for those.
    """
    return rows_of(entries(runs, experiments))


def rows_of(found: Sequence[Entry]) -> list[Row]:
    """Returns the rows of `paper_table` from experiments that were already joined with their runs."""
    by_name = {entry.name: entry for entry in found}
    rows = [row for place in PLACES if (row := _row(place, by_name))]
    placed = {(name, line.name) for row in rows for name, line in row.claims}
    for entry in found:
        others = [line for line in entry.lines if (entry.name, line.name) not in placed]
        chosen = [line for line in others if line.kind == "paper" or entry.name == ERRATA]
        if chosen:
            source = entry.texts.source if entry.texts and entry.texts.source else entry.name
            claims = tuple((entry.name, line) for line in chosen)
            place = source[:1].upper() + source[1:]
            rows.append(Row(place, entry.title, (entry.name,), chosen[0].kind, claims, entry.name == ERRATA))
    return rows


def missing(found: Sequence[Entry]) -> list[Missing]:
    """Returns the parts of the paper that are not built or not tested, without those that a run has filled."""
    return [part for part in MISSING if not part.is_filled(found)]


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
    return Row(place.name, place.what, known, kind, chosen, bool(place.claims))
