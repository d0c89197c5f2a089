"""Every claim with what the runs of each scale found. The tables of the page and of the terminal are made of this."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from wane.report.checks import VERDICTS
from wane.report.collect import SCALES, Run, Texts


@runtime_checkable
class Known(Protocol):
    """What the report uses of a registered experiment (`wane.experiments.Experiment`), where no run tells it."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def differences(self) -> str: ...
    @property
    def paper_cost(self) -> str: ...
    @property
    def claims(self) -> Sequence[Any]: ...


@dataclass(frozen=True)
class Line:
    """A claim, and its record at each scale that ran with the settings of the scale."""

    name: str
    statement: str
    records: Mapping[str, Mapping[str, Any]]

    def verdict_at(self, scale: str) -> str:
        """Returns the verdict at a scale."""
        return self.records[scale]["verdict"] if scale in self.records else "not run"

    @property
    def verdict(self) -> str:
        """The verdict of the paper scale if the claim was tested there, else of the quick scale."""
        found = [self.verdict_at(scale) for scale in SCALES]
        tested = [verdict for verdict in found if verdict in ("holds", "fails")]
        return tested[0] if tested else "not tested" if "not tested" in found else "not run"


@dataclass(frozen=True)
class Entry:
    """An experiment with its runs and its claims."""

    name: str
    texts: Texts | None
    runs: tuple[Run, ...]
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """The title of the experiment, or its name if no run folder tells the title."""
        return self.texts.title if self.texts else self.name

    def is_folded(self, run: Run) -> bool:
        """Whether the page folds a run away: a quick run is folded where the paper scale ran too."""
        at_paper = any(other.is_standard and other.scale == "paper" for other in self.runs)
        return run.is_standard and run.scale == "quick" and at_paper


def entries(runs: Sequence[Run], experiments: Iterable[Known]) -> list[Entry]:
    """Returns the given experiments in their order, and after them the experiments that only the runs know."""
    known: dict[str, Known | None] = {experiment.name: experiment for experiment in experiments}
    known |= {run.experiment: None for run in runs if run.experiment not in known}
    return [_entry(name, one, tuple(run for run in runs if run.experiment == name)) for name, one in known.items()]


def _entry(name: str, experiment: Known | None, runs: tuple[Run, ...]) -> Entry:
    standard = {run.scale: run for run in reversed(runs) if run.claims and not run.changed}
    found = {scale: {claim["name"]: claim for claim in standard[scale].claims} for scale in SCALES if scale in standard}
    statements = {claim.name: claim.statement for claim in (experiment.claims if experiment else ())}
    for scale in reversed(SCALES):
        statements |= {claim: record["statement"] for claim, record in found.get(scale, {}).items()}
    lines = [
        Line(claim, statement, {scale: records[claim] for scale, records in found.items() if claim in records})
        for claim, statement in statements.items()
    ]
    told = [run.texts for run in runs if run.texts]
    return Entry(name, told[0] if told else _texts(experiment), runs, tuple(lines))


def _texts(experiment: Known | None) -> Texts | None:
    if experiment is None:
        return None
    one = experiment
    return Texts(one.title, one.source, one.summary, one.differences, one.paper_cost)


def scales_of(runs: Iterable[Run]) -> tuple[str, ...]:
    """Returns the scales that ran, or the quick scale if nothing ran."""
    return tuple(scale for scale in SCALES if scale in {run.scale for run in runs}) or ("quick",)


def tally(verdicts: Iterable[str]) -> dict[str, int]:
    """Returns how often each verdict was given."""
    counts = Counter(verdicts)
    return {verdict: counts[verdict] for verdict in VERDICTS}
