"""One experiment of the report: what the paper says, what was found, and every run with its figure, films and cost."""

from collections.abc import Mapping, Sequence
from typing import Any

from wane.report.collect import Run
from wane.report.markup import Child, Html, tag
from wane.report.parts import anchor, badge, bullets, facts, paragraphs, scrolling, table
from wane.report.pictures import Picture
from wane.report.verdicts import Entry, Line
from wane.report.words import changes, command, duration, estimate, moment, setting, size

WIDE = 600
"""pixels from which on a figure scrolls on a phone rather than shrinks"""


def section(entry: Entry, scales: Sequence[str]) -> Html:
    one = entry.experiment
    source = one.source if one else "not an experiment of this package: known by its runs alone"
    return tag(
        "section",
        tag("p", source, class_="eyebrow"),
        tag("h2", entry.title),
        _says(entry),
        tag("h3", "What was found") if entry.lines else None,
        tag("ul", [_claim(entry, line, scales) for line in entry.lines], class_="claims") if entry.lines else None,
        [_run(entry, run) for run in entry.runs] or _not_run(entry),
        [tag("h3", "Where we differ from the paper, and why"), paragraphs(one.differs)]
        if one and one.differs
        else None,
        tag("p", tag("a", "↑ back to the verdicts", href="#/verdicts"), class_="back"),
        id=anchor(entry.name),
    )


def _says(entry: Entry) -> Child:
    if entry.experiment is None:
        return None
    beyond = entry.experiment.source.lower().startswith("beyond")
    return tag("h3", "The question" if beyond else "What the paper says"), paragraphs(entry.experiment.says)


def _claim(entry: Entry, line: Line, scales: Sequence[str]) -> Html:
    found = [_finding(line.found[scale], scale if len(scales) > 1 else "") for scale in scales if scale in line.found]
    shown = found or tag("p", badge("not run"), class_="finding")
    return tag("li", tag("p", line.statement, class_="statement"), shown, id=anchor(entry.name, line.name))


def _finding(claim: Mapping[str, Any], scale: str = "") -> Html:
    known = [f"{scale} scale" if scale else "", tag("b", estimate(claim)) if estimate(claim) else "", claim["detail"]]
    parts = [part for part in known if part]
    text = [(" · ", part) if i else part for i, part in enumerate(parts)]
    return tag("p", badge(claim["verdict"]), " ", tag("span", text), class_="finding")


def _run(entry: Entry, run: Run) -> Html:
    """A run. A quick one is folded away where there is one at the paper's scale."""
    title = tag("h3", f"{run.scale.capitalize()} scale" + (f", with {changes(run.changed)}" if run.changed else ""))
    claims = [(tag("p", claim["statement"], class_="statement"), _finding(claim)) for claim in run.claims]
    content = (
        bullets(claims, "claims") if run.changed else None,
        _figure(entry, run, run.figure) if run.figure else None,
        tag("div", [_film(film) for film in run.films], class_="films") if run.films else None,
        bullets(run.problems, "problems"),
        facts(*_costs(entry, run.record), ("Do it again", tag("code", run.command))),
        _details(run) if run.record else None,
    )
    if run.is_standard and run.scale == "quick" and any(r.is_standard and r.scale == "paper" for r in entry.runs):
        return tag("details", tag("summary", title), content, class_="run")
    return tag("article", title, content)


def _figure(entry: Entry, run: Run, picture: Picture) -> Html:
    text = f"Figure of “{entry.title}” at {run.scale} scale."
    text += f" {entry.experiment.says}" if entry.experiment else ""
    wide = picture.width > WIDE
    image = _image(picture, text)
    return tag("figure", scrolling("figure", image) if wide else image, class_="card wide" if wide else "card")


def _film(film: Picture) -> Html:
    # What moves must be stoppable: closing the box takes it away.
    card = tag("div", _image(film, f"Film: {film.title}"), class_="card")
    return tag("details", tag("summary", film.title), card, open=True)


def _image(picture: Picture, text: str) -> Html:
    return tag("img", src=picture.uri, alt=text, width=picture.width, height=picture.height)


def _costs(entry: Entry, record: Mapping[str, Any]) -> list[tuple[str, Child]]:
    cost = [
        duration(record["seconds"]) if "seconds" in record else "",
        f" on {record['device']}" if "device" in record else "",
        f", {size(record['peak_memory'])} at the peak" if record.get("peak_memory") else "",
        ", through Ray" if record.get("launcher") == "ray" else "",
    ]
    return [
        ("Cost here", "".join(cost)),
        ("Cost in the paper", (entry.experiment.cost or "not stated") if entry.experiment else None),
        ("Finished", moment(record["finished"]) if "finished" in record else None),
    ]


def _not_run(entry: Entry) -> Html:
    again = tag("code", command(entry.name, "quick", {}))
    return tag("article", tag("h3", "Not run yet"), facts(*_costs(entry, {}), ("Run it", again)))


def _details(run: Run) -> Html:
    rows = [
        tag("tr", tag("th", name, scope="row"), tag("td", tag("code", setting(value))), tag("td", _note(run, name)))
        for name, value in run.record.get("settings", {}).items()
    ]
    commit = run.record.get("commit")
    versions = " · ".join(f"{name} {version}" for name, version in run.record.get("versions", {}).items())
    return tag(
        "details",
        tag("summary", "Settings and versions"),
        table("Settings", tag("tbody", rows)) if rows else tag("p", "It has no settings."),
        facts(("Commit", tag("code", commit) if commit else None), ("Versions", versions)),
    )


def _note(run: Run, name: str) -> str:
    return "changed" if name in run.changed else ""
