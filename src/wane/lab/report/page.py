"""The reproduction report: one HTML file that needs nothing else, neither a network nor a script.

The page opens with the paper, figure by figure: a card for each place with a small picture and the verdicts of what the
paper claims there. Then it lists the paper's claims that fail or are undecided, and what is not built or not tested.
The details of each experiment are folded: what the paper states, what the runs found, where they differ from the paper
and why, and for each run its figure, its films, its cost, its settings, its saved agents, and the command that repeats
it. The markup is in `templates/*.html`, which Jinja2 fills: it escapes every text, so that no text of a run folder can
become markup.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from wane import files
from wane.lab import registry
from wane.lab.report import words
from wane.lab.report.kept_runs import KeptRun, collect
from wane.lab.report.pictures import Picture, PictureError, thumbnail
from wane.lab.report.verdicts import (
    Experiment,
    JudgedClaim,
    JudgedExperiment,
    judged,
    missing,
    rows_of,
    scales_of,
    tally,
)
from wane.texts import plain

STYLE = Path(__file__).with_name("style.css")
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""What a browser may load: pictures and style that are in the file, and nothing else."""
ATTENTION = ("fails", "undecided", "not tested", "not run")
"""The verdicts of the paper's claims that the page lists."""
Pair = tuple[JudgedExperiment, JudgedClaim]
WIDE = 600
"""A figure that is wider than this many pixels scrolls on a phone instead of shrinking."""


def write(path: str | Path, *roots: str | Path, experiments: Sequence[Experiment] | None = None) -> Path:
    """Writes the report of all runs below some folders, and returns its path.

    The report also lists those `experiments` (by default all registered ones) that were not run.
    """
    known = list(registry.experiments().values()) if experiments is None else experiments
    page = build(collect(*roots), known)
    return files.write(Path(path), lambda draft: draft.write_text(page, encoding="utf-8"))


def build(runs: Sequence[KeptRun], experiments: Sequence[Experiment]) -> str:
    """Returns the report as HTML: the experiments in their order, and after them those that only the runs know."""
    found = judged(runs, experiments)
    rows = rows_of(found)
    return (
        _environment()
        .get_template("page.html")
        .render(
            policy=POLICY,
            style=STYLE.read_text("utf-8"),
            experiments=found,
            experiments_by_name={experiment.name: experiment for experiment in found},
            thumbnails=_thumbnails(found),
            scales=scales_of(runs),
            figures=[row for row in rows if not row.is_erratum],
            printed=[row for row in rows if row.is_erratum],
            missing=missing(found),
            attention_claims={verdict: _pairs_with(found, ("paper",), (verdict,)) for verdict in ATTENTION},
            ours=_pairs_with(found, ("ours", "identity"), ("fails", "undecided")),
            damaged=[run for run in runs if run.problems],
            counts={
                kind: tally(claim.verdict for _, claim in _pairs(found) if claim.kind == kind) for kind in words.KINDS
            },
            totals=_totals(found, runs),
        )
    )


def _pairs(found: Sequence[JudgedExperiment]) -> list[Pair]:
    """Returns every claim with its experiment."""
    return [(experiment, claim) for experiment in found for claim in experiment.claims]


def _pairs_with(found: Sequence[JudgedExperiment], kinds: Sequence[str], verdicts: Sequence[str]) -> list[Pair]:
    """Returns the claims of some kinds that have one of some verdicts, in the order of the verdicts."""
    chosen = [(experiment, claim) for experiment, claim in _pairs(found) if claim.kind in kinds]
    return [pair for verdict in verdicts for pair in chosen if pair[1].verdict == verdict]


def _thumbnails(found: Sequence[JudgedExperiment]) -> dict[str, Picture]:
    """Returns a small picture of each experiment's figure. An experiment without a whole figure has none."""
    small: dict[str, Picture] = {}
    for experiment in found:
        try:
            small |= {experiment.name: thumbnail(experiment.raster)} if experiment.raster else {}
        except PictureError:
            # The page names what is wrong with the figure where it shows the run.
            continue
    return small


def _finalized(value: Any) -> Any:
    """Returns a value as text without the characters that a browser obeys, such as marks that reverse what follows."""
    return value if isinstance(value, Markup) else plain(str(value), keep="\n\t")


@cache
def _environment() -> Environment:
    """Returns the templates, with the functions that turn numbers, times and names into text."""
    environment = Environment(
        loader=PackageLoader("wane.lab.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for function in (
        *(words.anchor, words.changes, words.command, words.cost, words.count, words.dotted, words.estimate),
        *(words.moment, words.phrase, words.setting, words.short_phrase, words.size, words.tally_sentence),
    ):
        environment.globals[function.__name__] = function
    environment.globals |= {"SIGNS": words.SIGNS, "KINDS": words.KINDS, "WIDE": WIDE}
    return environment


def _totals(found: Sequence[JudgedExperiment], runs: Sequence[KeptRun]) -> dict[str, Any]:
    """Returns what all runs together cost and were made with."""
    seconds: dict[str, float] = {}
    versions: dict[str, dict[str, None]] = {}
    for record in [run.record for run in runs if run.record]:
        device = record.get("device", "an unknown device")
        seconds[device] = seconds.get(device, 0.0) + record.get("seconds", 0.0)
        for package, version in record.get("versions", {}).items():
            versions.setdefault(package, {})[str(version)] = None
    times = sorted(run.record["finished"] for run in runs if "finished" in run.record)
    return {
        "experiments": len(found),
        "with_runs": sum(bool(experiment.runs) for experiment in found),
        "runs": len(runs),
        "finished": " to ".join(dict.fromkeys(words.moment(time) for time in (times[:1] + times[-1:]))),
        "cost": "; ".join(f"{words.duration(time)} on {device}" for device, time in seconds.items()),
        "peak_memory": max((run.record.get("peak_memory") or 0 for run in runs), default=0),
        "commits": list(dict.fromkeys(run.record["commit"] for run in runs if run.record.get("commit"))),
        "versions": {package: ", ".join(each) for package, each in versions.items()},
    }
