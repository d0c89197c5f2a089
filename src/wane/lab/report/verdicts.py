"""Every claim with the results of the runs at each scale, from which the page and the terminal make their tables.

A paper's figures, theorems and equations have rows of their own, in the paper's order. The collections of experiments
(`wane.lab.registry`) say which experiments belong to which place, and what is missing.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wane.lab import registry
from wane.lab.contract import Experiment
from wane.lab.registry import Missing, Place
from wane.lab.report.contents import VERDICTS
from wane.lab.report.kept_runs import SCALES, KeptRun, Texts

TESTED = ("holds", "fails", "undecided")
"""The verdicts of claims that were tested."""


@dataclass(frozen=True)
class JudgedClaim:
    """A claim, and its record at each scale that ran with the settings of the scale."""

    name: str
    statement: str
    records: Mapping[str, Mapping[str, Any]]
    """By scale. The run with the most seeds comes first, and the paper scale before the quick one."""
    kind: str = "ours"
    place: str = ""

    @property
    def scales(self) -> tuple[str, ...]:
        """The scales that ran, the decisive one first."""
        others = (scale for scale in self.records if scale != self.decisive)
        return (self.decisive, *others) if self.decisive else ()

    @property
    def record(self) -> Mapping[str, Any] | None:
        """What the decisive run found, or None if nothing ran."""
        return self.records[self.decisive] if self.decisive else None

    @property
    def account(self) -> str:
        """Why a claim of the paper fails, in a paragraph that a reader can check; empty for all other claims."""
        is_shown = self.kind == "paper" and self.verdict == "fails"
        return self.record.get("account", "") if is_shown and self.record else ""

    def verdict_at(self, scale: str) -> str:
        """Returns the verdict at a scale."""
        return self.records[scale]["verdict"] if scale in self.records else "not run"

    @property
    def decisive(self) -> str | None:
        """The scale whose verdict counts: the first one that tested the claim, or else the first one that ran."""
        tested = [scale for scale, record in self.records.items() if record["verdict"] in TESTED]
        return next(iter([*tested, *self.records]), None)

    @property
    def verdict(self) -> str:
        """The verdict that counts."""
        return self.verdict_at(self.decisive) if self.decisive else "not run"


@dataclass(frozen=True)
class JudgedExperiment:
    """An experiment with its runs and its claims."""

    name: str
    texts: Texts | None
    runs: tuple[KeptRun, ...]
    claims: tuple[JudgedClaim, ...]

    @property
    def title(self) -> str:
        """The title of the experiment, or its name if the title is unknown."""
        return self.texts.title if self.texts else self.name

    @property
    def verdicts(self) -> dict[str, int]:
        """How many of the claims have each verdict."""
        return tally(claim.verdict for claim in self.claims)

    @property
    def raster(self) -> Path | None:
        """The figure as a PNG file: of the first whole run with the settings of a scale, else of any run."""
        runs = sorted(self.runs, key=lambda run: not run.is_standard)
        return next((run.raster for run in runs if run.raster), None)

    def is_folded(self, run: KeptRun) -> bool:
        """Returns whether the page folds a run away: a quick run is folded where the paper scale ran too."""
        at_paper = any(other.is_standard and other.scale == "paper" for other in self.runs)
        return run.is_standard and run.scale == "quick" and at_paper


def judged(runs: Sequence[KeptRun], experiments: Iterable[Experiment]) -> list[JudgedExperiment]:
    """Returns the given experiments in their order, and after them the experiments that only the runs know."""
    known: dict[str, Experiment | None] = {experiment.name: experiment for experiment in experiments}
    known |= {run.experiment: None for run in runs if run.experiment not in known}
    return [_judged(name, one, tuple(run for run in runs if run.experiment == name)) for name, one in known.items()]


def _judged(name: str, experiment: Experiment | None, runs: tuple[KeptRun, ...]) -> JudgedExperiment:
    standard = {run.scale: run for run in reversed(runs) if run.claims and not run.changed}
    found = {scale: {claim["name"]: claim for claim in standard[scale].claims} for scale in SCALES if scale in standard}
    order = sorted(found, key=lambda scale: (-_seeds(standard[scale]), SCALES.index(scale)))
    known = {claim.name: claim.record() for claim in (experiment.claims if experiment else ())}
    for scale in reversed(order):
        known |= found[scale]
    claims = [
        JudgedClaim(
            name,
            record["statement"],
            {scale: found[scale][name] for scale in order if name in found[scale]},
            record.get("kind", "ours"),
            record.get("place", ""),
        )
        for name, record in known.items()
    ]
    texts = [run.texts for run in runs if run.texts]
    return JudgedExperiment(name, texts[0] if texts else _texts(experiment), runs, tuple(claims))


def _seeds(run: KeptRun) -> int:
    """Returns how many seeds a run had; 0 where nothing is random."""
    seeds = run.record.get("settings", {}).get("seeds", 0)
    return seeds if isinstance(seeds, int) else 0


def _texts(experiment: Experiment | None) -> Texts | None:
    names = [field.name for field in dataclasses.fields(Texts)]
    return Texts(**{name: getattr(experiment, name) for name in names}) if experiment else None


def scales_of(runs: Iterable[KeptRun]) -> tuple[str, ...]:
    """Returns the scales that ran, or the quick scale if nothing ran."""
    return tuple(scale for scale in SCALES if scale in {run.scale for run in runs}) or ("quick",)


def tally(verdicts: Iterable[str]) -> dict[str, int]:
    """Returns how often each verdict was given."""
    counts = Counter(verdicts)
    return {verdict: counts[verdict] for verdict in VERDICTS}


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
    claims: tuple[tuple[str, JudgedClaim], ...]
    """The claims, each with the name of its experiment."""
    is_erratum: bool = False
    """Whether the claims say that the printed statement is wrong."""

    @property
    def verdicts(self) -> dict[str, int]:
        """How many of the claims have each verdict; verdicts that no claim has are left out."""
        return {verdict: n for verdict, n in tally(claim.verdict for _, claim in self.claims).items() if n}

    @property
    def sentences(self) -> tuple[tuple[str, str], ...]:
        """The verdict and the statement of each claim."""
        return tuple((claim.verdict, claim.statement) for _, claim in self.claims)


def paper_table(runs: Sequence[KeptRun], experiments: Sequence[Experiment]) -> list[Row]:
    """Returns the paper's figures, theorems and equations in the paper's order, with what the runs found there.

    `runs` come from `collect`, and `experiments` are the registered ones. A row holds its place, what the place is
    about, the experiments' names, how many claims have each verdict (`verdicts`), and each claim's verdict and sentence
    (`sentences`). Every claim of the paper is in exactly one row. Experiments that test a claim of the paper and
    have no place come last, under the place that they name. Experiments beyond the paper have no row.
    A place whose experiments are not given and were not run has no row: see `missing` for those.
    """
    return rows_of(judged(runs, experiments))


def rows_of(found: Sequence[JudgedExperiment]) -> list[Row]:
    """Returns the rows of `paper_table` from experiments that were already joined with their runs."""
    by_name = {experiment.name: experiment for experiment in found}
    places = [place for collection in registry.collections() for place in collection.places]
    rows = [row for place in places if (row := _row(place, by_name))]
    placed = {(name, claim.name) for row in rows for name, claim in row.claims}
    for experiment in found:
        papers = [claim for claim in experiment.claims if claim.kind == "paper"]
        if chosen := [claim for claim in papers if (experiment.name, claim.name) not in placed]:
            source = experiment.texts.source if experiment.texts and experiment.texts.source else experiment.name
            claims = tuple((experiment.name, claim) for claim in chosen)
            place = source[:1].upper() + source[1:]
            rows.append(Row(place, experiment.title, (experiment.name,), "paper", claims))
    return rows


def missing(found: Sequence[JudgedExperiment]) -> list[Missing]:
    """Returns the parts of the paper that are not built or not tested, without those that a run has filled."""
    parts = [part for collection in registry.collections() for part in collection.missing]
    return [part for part in parts if not _is_filled(part, found)]


def _is_filled(part: Missing, found: Sequence[JudgedExperiment]) -> bool:
    """Returns whether a run of the experiment judges the place."""
    runs = [experiment for experiment in found if experiment.name == part.experiment and experiment.runs]
    return any(not part.claim or part.claim in [claim.name for claim in experiment.claims] for experiment in runs)


def _row(place: Place, by_name: Mapping[str, JudgedExperiment]) -> Row | None:
    """Returns the row of a place, or None if none of its experiments is known."""
    known = tuple(name for name in place.experiments if name in by_name)
    claims = [(name, claim) for name in known for claim in by_name[name].claims]
    if place.claims:
        claims = [(name, claim) for name, claim in claims if claim.name in place.claims]
    if not known or (place.claims and not claims):
        return None
    kinds = [claim.kind for _, claim in claims]
    kind = next((kind for kind in ("paper", "identity", "ours") if kind in kinds), "paper")
    chosen = tuple((name, claim) for name, claim in claims if claim.kind == kind)
    return Row(place.name, place.what, known, kind, chosen, place.is_erratum)
