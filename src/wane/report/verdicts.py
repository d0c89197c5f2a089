"""Every claim with what the runs of each scale found: what the page's and the terminal's tables are made of."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wane.experiments import Experiment
from wane.report.collect import SCALES, VERDICTS, Run


@dataclass(frozen=True)
class Line:
    """A claim, and its record for each scale that tested it with the scale's own settings."""

    name: str
    statement: str
    found: Mapping[str, Mapping[str, Any]]

    def verdict_at(self, scale: str) -> str:
        return self.found[scale]["verdict"] if scale in self.found else "not run"

    @property
    def verdict(self) -> str:
        """Of the paper's scale if it ran, else of the quick one."""
        return next((v for v in map(self.verdict_at, SCALES) if v != "not run"), "not run")


@dataclass(frozen=True)
class Entry:
    """An experiment, its runs and its claims. One that is not registered is known by its runs alone."""

    name: str
    experiment: Experiment | None
    runs: tuple[Run, ...]
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        return self.experiment.title if self.experiment else self.name


def entries(runs: Sequence[Run], experiments: Iterable[Experiment]) -> list[Entry]:
    """The experiments in their order, then those that only the runs name."""
    known: dict[str, Experiment | None] = {experiment.name: experiment for experiment in experiments}
    known |= {run.experiment: None for run in runs if run.experiment not in known}
    return [_entry(name, one, tuple(run for run in runs if run.experiment == name)) for name, one in known.items()]


def _entry(name: str, experiment: Experiment | None, runs: tuple[Run, ...]) -> Entry:
    standard = {run.scale: run for run in reversed(runs) if run.claims and not run.changed}
    found = {scale: {claim["name"]: claim for claim in standard[scale].claims} for scale in SCALES if scale in standard}
    statements = {claim["name"]: claim["statement"] for claim in (experiment.findings() if experiment else ())}
    for scale in reversed(SCALES):
        statements |= {claim: record["statement"] for claim, record in found.get(scale, {}).items()}
    lines = [
        Line(claim, statement, {scale: records[claim] for scale, records in found.items() if claim in records})
        for claim, statement in statements.items()
    ]
    return Entry(name, experiment, runs, tuple(lines))


def scales_of(runs: Iterable[Run]) -> tuple[str, ...]:
    """The scales that ran; the quick one if nothing did."""
    return tuple(scale for scale in SCALES if scale in {run.scale for run in runs}) or ("quick",)


def tally(verdicts: Iterable[str]) -> dict[str, int]:
    counts = Counter(verdicts)
    return {verdict: counts[verdict] for verdict in VERDICTS}
