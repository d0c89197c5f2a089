"""The verdicts for the terminal: a summary, and all details on request.

A line is cut at the width of the terminal. Names come first in it, so that they stay whole.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from wane.lab.report.kept_runs import KeptRun
from wane.lab.report.verdicts import Experiment, JudgedExperiment, judged, tally
from wane.lab.report.words import SIGNS, changes, count, estimate, tally_sentence
from wane.texts import plain

STYLES = {"holds": "green", "fails": "bold red", "undecided": "yellow", "not tested": "yellow", "not run": "dim"}
ORDER = ("fails", "undecided", "not tested", "holds")
"""The verdicts in the order of the summary. What needs attention comes first."""


class Judged(NamedTuple):
    """A claim with the verdict that counts."""

    experiment: str
    scale: str
    record: Any


def summary(runs: Sequence[KeptRun], experiments: Sequence[Experiment] = ()) -> RenderableType:
    """Returns how many claims have each verdict, then a line for each claim, failing claims first.

    With several experiments, claims that hold are counted in one line, and so are claims that were not run. Runs with
    changed settings have one line each. The claims of a single run are all listed, whatever its settings are.
    """
    found = judged(runs, experiments)
    if len(runs) == 1 and runs[0].changed:
        return _listed([Judged(found[0].name, runs[0].scale, record) for record in runs[0].claims], [])
    not_run = {experiment.name: sum(claim.verdict == "not run" for claim in experiment.claims) for experiment in found}
    missing = [plain(f"{name} ({count(n, 'claim', 'claims')})") for name, n in not_run.items() if n]
    blocks = [_listed(list(_findings(found)), missing, sum(not_run.values())), *_other_runs(runs)]
    return Group(*blocks)


def details(runs: Sequence[KeptRun], experiments: Sequence[Experiment] = ()) -> RenderableType:
    """Returns every claim of every run with its statement, its estimate and the details of its test."""
    found = judged(runs, experiments)
    changed = len(runs) == 1 and runs[0].changed
    standard = [claim.verdict for experiment in found for claim in experiment.claims]
    verdicts = [record["verdict"] for record in runs[0].claims] if changed else standard
    return Group(
        *(block for experiment in found for block in _experiment_details(experiment)), Text(_counts(verdicts), "bold")
    )


def run_state(run: KeptRun) -> str:
    """Returns the state of a run in a few words.

    If a run has begun again over earlier results, this is its progress.
    """
    if run.started:
        return run.started.words
    if run.problems:
        return f"damaged: {plain(run.problems[0])}"
    counts = tally(claim["verdict"] for claim in run.claims)
    return f"{counts['holds']} of {len(run.claims)} claims hold"


def one_line(*parts: str | tuple[str, str]) -> Text:
    """Returns a line that is cut at the width of the terminal instead of being broken."""
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _listed(findings: Sequence[Judged], missing: Sequence[str], not_run: int = 0) -> Group:
    """Returns how many claims have each verdict, and a line for each claim."""
    verdicts = [finding.record["verdict"] for finding in findings] + ["not run"] * not_run
    scales = {finding.scale for finding in findings}
    where = f" at {scales.pop()} scale" if len(scales) == 1 else ""
    several = len({finding.experiment for finding in findings}) > 1 or bool(missing)
    listed = [finding for finding in findings if not (several and finding.record["verdict"] == "holds")]
    widths = [max((len(plain(text)) for text in texts), default=0) for texts in _names(listed, several)]
    lines = [Text(_counts(verdicts, where), "bold")]
    papers = [finding.record["verdict"] for finding in findings if finding.record.get("kind") == "paper"]
    if papers and len(papers) < len(findings):
        lines.append(Text(f"Of these, the paper's own: {_counts(papers)}", "bold"))
    for verdict in ORDER:
        chosen = [finding for finding in listed if finding.record["verdict"] == verdict]
        for finding, names in zip(chosen, zip(*_names(chosen, several), strict=True), strict=True):
            padded = "  ".join(plain(name).ljust(width) for name, width in zip(names, widths, strict=True))
            padded = padded.rstrip() if several and where else padded
            scale = "" if where else f"{finding.scale:<5}  "
            text = _text(finding.record, with_estimate=not several)
            lines.append(one_line((f"{SIGNS[verdict]} {padded}", STYLES[verdict]), f"  {scale}{text}"))
    if len(listed) < len(findings):
        holding = Counter(finding.experiment for finding in findings if finding.record["verdict"] == "holds")
        names = ", ".join(plain(f"{name} ({number})") for name, number in holding.items())
        lines.append(Text(f"{SIGNS['holds']} what holds: {names}", STYLES["holds"]))
    if missing:
        lines.append(Text(f"{SIGNS['not run']} not run: {', '.join(missing)}", "dim"))
    return Group(*lines)


def _names(findings: Sequence[Judged], several: bool) -> list[list[str]]:
    """Returns the columns of names: experiments, if there are several, and claims."""
    experiments = [[finding.experiment for finding in findings]] if several else []
    return [*experiments, [finding.record["name"] for finding in findings]]


def _text(record: Any, with_estimate: bool) -> str:
    """Returns the text of a claim's line: why it was not tested, or its statement, after its estimate if wanted."""
    if record["verdict"] == "not tested":
        return plain(record["detail"])
    return plain(f"{estimate(record) if with_estimate else ''}  {record['statement']}".strip())


def _counts(verdicts: Iterable[str], where: str = "") -> str:
    """Returns how many claims have each verdict that occurs."""
    counts = {verdict: n for verdict, n in tally(verdicts).items() if n}
    return f"{tally_sentence(counts)}{where}." if counts else "There are no claims."


def _findings(found: Iterable[JudgedExperiment]) -> Iterator[Judged]:
    """Yields every claim that was run with the settings of a scale, with the record that decides its verdict."""
    for experiment in found:
        for claim in experiment.claims:
            if claim.decisive and claim.verdict != "not run":
                yield Judged(experiment.name, claim.decisive, claim.records[claim.decisive])


def _other_runs(runs: Sequence[KeptRun]) -> Iterator[RenderableType]:
    """Yields a line for each run with changed settings, and for each damaged or unfinished run."""
    others = [run for run in runs if run.changed or run.problems or run.started]
    if others:
        yield Text("\nOther runs", "bold")
    states = [run_state(run).partition(": ")[0] for run in others]
    for run, state in zip(others, states, strict=True):
        yield one_line(plain(f"  {state:<{max(map(len, states))}}  {run.scale}/{run.folder.name}"))


def _experiment_details(experiment: JudgedExperiment) -> Iterator[RenderableType]:
    yield Text(plain(f"{experiment.name}: {experiment.title}"), "bold")
    for claim in experiment.claims:
        for scale, record in claim.records.items():
            yield from _claim_details(record, f"{scale} scale")
        if not claim.records:
            yield from _claim_details({"name": claim.name, "statement": claim.statement, "verdict": "not run"}, "")
    for run in experiment.runs:
        for record in run.claims if run.changed else ():
            yield from _claim_details(record, f"{run.scale} scale, {changes(run.changed)}")
        for problem in run.problems:
            yield Padding(Text(plain(problem), "yellow"), (0, 0, 0, 2))
    yield Text()


def _claim_details(record: Any, where: str) -> Iterator[RenderableType]:
    verdict, numbers = record["verdict"], estimate(record) if "estimate" in record else ""
    facts = ", ".join(text for text in (verdict, where, numbers) if text)
    yield Padding(
        Text.assemble((plain(f"{SIGNS[verdict]} {record['name']}"), STYLES[verdict]), plain(f": {facts}")), (0, 0, 0, 2)
    )
    account = record.get("account", "") if verdict == "fails" and record.get("kind") == "paper" else ""
    for text in (record["statement"], record.get("detail", ""), account):
        if text:
            yield Padding(Text(plain(text)), (0, 0, 0, 6))
