"""Every claim with the results of the runs at each scale, from which the page and the terminal make their tables."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from wane.lab.report.checks import VERDICTS
from wane.lab.report.collect import SCALES, Run, Texts

TESTED = ("holds", "fails", "undecided")
"""The verdicts of claims that were tested."""


@runtime_checkable
class Known(Protocol):
    """What the report needs of a registered experiment (`wane.lab.Experiment`), where no run provides it."""

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
        told = self.kind == "paper" and self.verdict == "fails" and self.record
        return self.record.get("account", "") if told and self.record else ""

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
class Entry:
    """An experiment with its runs and its claims."""

    name: str
    texts: Texts | None
    runs: tuple[Run, ...]
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """The title of the experiment, or its name if the title is unknown."""
        return self.texts.title if self.texts else self.name

    @property
    def verdicts(self) -> dict[str, int]:
        """How many of the claims have each verdict."""
        return tally(line.verdict for line in self.lines)

    @property
    def raster(self) -> Path | None:
        """The figure as a PNG file: of the first whole run with the settings of a scale, else of any run."""
        runs = sorted(self.runs, key=lambda run: not run.is_standard)
        return next((run.raster for run in runs if run.raster), None)

    def is_folded(self, run: Run) -> bool:
        """Returns whether the page folds a run away: a quick run is folded where the paper scale ran too."""
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
    order = sorted(found, key=lambda scale: (-_seeds(standard[scale]), SCALES.index(scale)))
    known = {claim.name: claim.record() for claim in (experiment.claims if experiment else ())}
    for scale in reversed(order):
        known |= found[scale]
    lines = [
        Line(
            name,
            record["statement"],
            {scale: found[scale][name] for scale in order if name in found[scale]},
            record.get("kind", "ours"),
            record.get("place", ""),
        )
        for name, record in known.items()
    ]
    told = [run.texts for run in runs if run.texts]
    return Entry(name, told[0] if told else _texts(experiment), runs, tuple(lines))


def _seeds(run: Run) -> int:
    """Returns how many seeds a run had; 0 where nothing is random."""
    seeds = run.record.get("settings", {}).get("seeds", 0)
    return seeds if isinstance(seeds, int) else 0


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
