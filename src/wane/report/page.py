"""The reproduction report: one HTML file that needs nothing else, neither network nor script.

At the top a verdict for every claim; then, for each experiment, what the paper says, what was found, the figure and
films, what it cost here and in the paper, where we differ, and the command that does it again.
"""

from collections.abc import Sequence
from pathlib import Path

from wane import files
from wane.experiments import NAMES, Experiment, find
from wane.report.collect import Run, collect
from wane.report.markup import Child, Html, tag
from wane.report.parts import badge, bullets, css_class, facts, link, table
from wane.report.section import section
from wane.report.verdicts import Entry, entries, scales_of, tally
from wane.report.words import count, duration, moment, size

STYLE = Path(__file__).with_name("style.css")
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""what a browser may load: pictures and style that are in the file, and nothing else"""
WORDS = {"holds": ("claim holds", "claims hold"), "fails": ("claim fails", "claims fail"), "not run": ("not run",) * 2}


def write(path: str | Path, *roots: str | Path, experiments: Sequence[Experiment] | None = None) -> Path:
    """Writes the report of all runs below some folders; of the registered experiments if none are given."""
    experiments = [find(name) for name in NAMES] if experiments is None else experiments
    page = build(collect(*roots), experiments)
    # Names read from JSON may hold halves of characters, which no file can.
    return files.write(Path(path), lambda draft: draft.write_text(page, encoding="utf-8", errors="replace"))


def build(runs: Sequence[Run], experiments: Sequence[Experiment]) -> str:
    """The report as HTML: of the experiments in their order, then of runs of any others."""
    found, scales = entries(runs, experiments), scales_of(runs)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", "Diminishing rewards: reproduction report"),
        tag("link", rel="icon", href="data:,"),
        tag("style", Html(STYLE.read_text("utf-8"))),
    )
    body = tag(
        "body",
        tag("a", "Skip to the verdicts", href="#/verdicts", class_="skip"),
        _header(found, runs),
        tag("main", _contents(found, scales), _damaged(runs), [section(entry, scales) for entry in found]),
        tag("footer", tag("p", "Made by ", tag("code", "wane report"), " from the run folders alone.")),
    )
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"


def _header(found: Sequence[Entry], runs: Sequence[Run]) -> Html:
    counts = tally(line.verdict for entry in found for line in entry.lines)
    both = len(scales_of(runs)) > 1
    tiles = [
        tag("li", tag("b", str(n)), " ", WORDS[verdict][n != 1], class_=css_class(verdict))
        for verdict, n in counts.items()
    ]
    return tag(
        "header",
        tag("p", "wane · reproduction report", class_="eyebrow"),
        tag("h1", "A State Representation for Diminishing Rewards"),
        tag("p", "Moskovitz, Hromadka, Touati, Borsa and Sahani, NeurIPS 2023", class_="lead"),
        tag(
            "p",
            "Every experiment states what the paper claims as something that data can refute, and gives the verdict "
            "of the data; a claim that fails is reported as failing. Brackets hold 95 % intervals. ",
            (tag("i", "Paper"), " scale has the paper’s own settings, ", tag("i", "quick"), " scale just enough of "),
            "them to test the claim on two CPU cores.",
        ),
        tag("ul", tiles, class_="tiles"),
        tag("p", tag("small", "By the verdict at paper scale where it ran, else at quick scale.")) if both else None,
        facts(*_totals(found, runs)),
    )


def _totals(found: Sequence[Entry], runs: Sequence[Run]) -> list[tuple[str, Child]]:
    """What all runs together have to say of themselves."""
    cost: dict[str, float] = {}
    versions: dict[str, dict[str, None]] = {}
    for record in [run.record for run in runs if run.record]:
        device = record.get("device", "an unknown device")
        cost[device] = cost.get(device, 0.0) + record.get("seconds", 0.0)
        for package, version in record.get("versions", {}).items():
            versions.setdefault(package, {})[str(version)] = None
    commits = dict.fromkeys(run.record["commit"] for run in runs if run.record.get("commit"))
    times = sorted(run.record["finished"] for run in runs if "finished" in run.record)
    memory = max((run.record["peak_memory"] for run in runs if run.record.get("peak_memory")), default=None)
    ran = sum(bool(entry.runs) for entry in found)
    return [
        ("Experiments", f"{len(found)}, of which {ran} ran, in {count(len(runs), 'run', 'runs')}"),
        ("Finished", " to ".join(dict.fromkeys(moment(time) for time in (times[:1] + times[-1:])))),
        ("Cost", "; ".join(f"{duration(seconds)} on {device}" for device, seconds in cost.items())),
        ("Peak memory", size(memory) if memory else None),
        ("Commit", [(tag("code", commit), " ") for commit in commits]),
        ("Versions", " · ".join(f"{package} {', '.join(seen)}" for package, seen in versions.items())),
    ]


def _contents(found: Sequence[Entry], scales: Sequence[str]) -> Html:
    failing = [
        (link(line.statement, entry.name, line.name), " ", tag("small", entry.title))
        for entry in found
        for line in entry.lines
        if "fails" in map(line.verdict_at, scales)
    ]
    columns = [tag("th", f"{scale.capitalize()} scale", scope="col") for scale in scales]
    return tag(
        "nav",
        tag("h2", "Verdicts", id="/verdicts"),
        tag("p", " ".join(_counts(found, scale) for scale in scales)),
        tag("div", tag("h3", "What fails"), bullets(failing), class_="failing") if failing else None,
        table(
            "Verdicts of all claims",
            tag("thead", tag("tr", tag("th", "Claim", scope="col"), columns)),
            [_rows(entry, scales) for entry in found],
            class_="verdicts",
        ),
        aria_label="Contents",
    )


def _counts(found: Sequence[Entry], scale: str) -> str:
    counts = tally(line.verdict_at(scale) for entry in found for line in entry.lines)
    holding = f"{count(counts['holds'], 'claim holds', 'claims hold')}, {count(counts['fails'], 'fails', 'fail')}"
    return f"At {scale} scale {holding}, {count(counts['not run'], 'was', 'were')} not run."


def _rows(entry: Entry, scales: Sequence[str]) -> Html:
    source = tag("small", entry.experiment.source) if entry.experiment else None
    title = tag("th", link(entry.title, entry.name), " ", source, colspan=1 + len(scales), scope="rowgroup")
    rows = [
        tag(
            "tr",
            tag("td", link(line.statement, entry.name, line.name)),
            [tag("td", badge(line.verdict_at(scale))) for scale in scales],
        )
        for line in entry.lines
    ]
    nothing = tag("tr", tag("td", tag("small", "no claims on record"), colspan=1 + len(scales)))
    return tag("tbody", tag("tr", title), rows or nothing)


def _damaged(runs: Sequence[Run]) -> Html | None:
    items = [(tag("code", str(run.folder)), bullets(run.problems)) for run in runs if run.problems]
    if not items:
        return None
    note = tag("p", "What is whole of them is shown; run them again to have the rest.")
    return tag("aside", tag("h2", "Damaged or incomplete run folders"), note, bullets(items), class_="damaged")
