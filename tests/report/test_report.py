import json
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from report.folders import claim, experiment, run_folder
from wane import report
from wane.experiments import NAMES, find
from wane.report import pictures

EVIL = "<script>alert('\"&')</script><img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """Tags with their attributes, and the text outside of the style sheet."""

    def __init__(self, html: str):
        super().__init__()
        self.tags, self.words, self.within = [], [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.within = tag
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.within != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.tags if name == tag]

    def verdicts(self) -> list[str]:
        classes = [attributes.get("class") or "" for attributes in self.all("span")]
        return [name.removeprefix("verdict ").replace("-", " ") for name in classes if name.startswith("verdict ")]


def page_of(*roots: Path, experiments=None) -> Page:
    return Page(report.build(report.collect(*roots), [experiment()] if experiments is None else experiments))


def printed(table, width=160) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_a_whole_run_is_told_in_full(tmp_path):
    run_folder(tmp_path)
    page = page_of(tmp_path)
    told = ["About toy", "figure 9.9", "What toy shows.", "The first claim.", "1.234 [−0.5, 2.5]", "in the detail"]
    told += ["1 min 12 s on 2 × CPU, 512 MB at the peak", "an hour", "Solved, not iterated.", "An agent at work"]
    told += ["15 November 2026, 10:35 UTC", "0123456789", "jax 0.10.2", "lambdas [0.0, 0.5]", "timing arrival"]
    told += ["wane run toy --scale quick", "At quick scale 1 claim holds, 1 fails, 0 were not run."]
    assert [words for words in told if words not in page.text] == []
    assert page.verdicts() == ["holds", "fails"] * 2
    assert "Damaged" not in page.text


def test_pictures_are_inside_with_words_for_them(tmp_path):
    run_folder(tmp_path)
    figure, film = page_of(tmp_path).all("img")
    assert figure["src"].startswith("data:image/svg+xml;base64,")
    assert (figure["width"], figure["height"]) == ("960", "288")
    assert "What toy shows." in figure["alt"]
    assert film["src"].startswith("data:image/gif;base64,")
    assert film["alt"] == "Film: An agent at work"


def test_a_heavy_or_damaged_drawing_gives_way_to_the_png(tmp_path, monkeypatch):
    folder = run_folder(tmp_path)
    (folder / "figure.svg").write_text("<svg")
    figure = page_of(tmp_path).all("img")[0]
    assert figure["src"].startswith("data:image/png;base64,")
    assert (figure["width"], figure["height"]) == ("960", "288")
    (folder / "figure.svg").write_bytes(b"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'/>")
    assert page_of(tmp_path).all("img")[0]["src"].startswith("data:image/svg+xml")
    monkeypatch.setattr(pictures, "HEAVY", 10)
    assert page_of(tmp_path).all("img")[0]["src"].startswith("data:image/png")


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        ("claims.json", "[{", "claims.json cannot be read"),
        ("claims.json", "{}", "claims.json holds a dict where a list belongs"),
        ("claims.json", "[" * 100_000, "claims.json cannot be read"),
        ("claims.json", json.dumps([claim(verdict="perhaps")]), "1 of 1 entries are no claims with a verdict"),
        ("claims.json", json.dumps([claim(interval=[1.0])]), "1 of 1 entries are no claims with a verdict"),
        ("claims.json", json.dumps([claim(estimate=None)]), "1 of 1 entries are no claims with a verdict"),
        ("claims.json", json.dumps([claim(estimate=10**400)]), "1 of 1 entries are no claims with a verdict"),
        ("claims.json", None, "claims.json is missing"),
        ("run.json", "\xff", "run.json cannot be read"),
        ("run.json", "7", "run.json holds a int where a dict belongs"),
        ("run.json", '{"seconds": -1}', "run.json has no usable 'seconds'"),
        ("run.json", None, "no run.json: still at work, or stopped; go on with wane run toy --scale quick --resume"),
        ("results.parquet", None, "results.parquet is missing"),
        ("film.gif", "GIF89a", "film.gif is no whole GIF picture"),
        ("film.gif", None, "film.gif is missing"),
    ],
)
def test_damage_is_named_and_breaks_nothing(tmp_path, file, content, named):
    folder = run_folder(tmp_path / "runs")
    run_folder(tmp_path / "runs", "whole")
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_text(content, encoding="latin-1")
    page = page_of(tmp_path / "runs", experiments=[experiment(), experiment("whole")])
    assert "Damaged or incomplete run folders" in page.text
    assert str(folder) in page.text
    assert named in page.text
    assert page.verdicts()[2:4] == ["holds", "fails"]
    if file == "claims.json":
        assert page.verdicts()[:2] == ["not run", "not run"]


def test_missing_and_truncated_figures(tmp_path):
    folder = run_folder(tmp_path, films={})
    (folder / "film.gif").unlink()
    (folder / "figure.svg").unlink()
    whole = (folder / "figure.png").read_bytes()
    (folder / "figure.png").write_bytes(whole[: len(whole) // 2])
    page = page_of(tmp_path)
    assert "figure.png is no whole PNG picture" in page.text
    assert page.all("img") == []
    (folder / "figure.png").unlink()
    assert page_of(tmp_path).text.count("figure.png is missing") == 2


def test_text_is_escaped_everywhere(tmp_path):
    hostile = claim(EVIL, statement=EVIL, detail=EVIL)
    run_folder(
        tmp_path / EVIL.replace("/", ""),
        "evil",
        experiment=EVIL,
        claims=[hostile],
        settings={EVIL: EVIL},
        changed={"x": EVIL.replace("/", "")},
        versions={EVIL: EVIL},
        commit=EVIL,
        device=EVIL,
        finished=EVIL,
        films={"film.gif": EVIL, EVIL: EVIL},
        files=[EVIL],
    )
    run_folder(tmp_path / EVIL.replace("/", ""), "evil", "paper", experiment=EVIL, claims=[hostile])
    one = experiment(EVIL, title=EVIL, source=EVIL, says=EVIL, differs=EVIL, cost=EVIL)
    page = page_of(*tmp_path.iterdir(), experiments=[one])
    assert page.all("script") == []
    assert [image for image in page.all("img") if not image["src"].startswith("data:")] == []
    assert [(tag, key) for tag, attributes in page.tags for key in attributes if key.startswith("on")] == []
    assert page.text.count(EVIL) > 20


def test_halves_of_characters_can_be_written(tmp_path):
    run_folder(tmp_path / "runs", "toy", device="\ud800", claims=[claim("\ud800")])
    path = report.write(tmp_path / "report.html", tmp_path / "runs", experiments=[experiment()])
    assert "on ?, 512 MB" in path.read_text("utf-8")


def test_paper_and_quick_stand_side_by_side(tmp_path):
    run_folder(tmp_path, claims=[claim("first", "fails"), claim("second")])
    run_folder(
        tmp_path, scale="paper", claims=[claim("first"), claim("second", "not run", estimate=None, interval=None)]
    )
    page = page_of(tmp_path)
    rows = ["holds", "fails", "not run", "holds"]
    assert page.verdicts() == rows * 2
    assert "Claim Paper scale Quick scale About toy" in page.text
    assert "At paper scale 1 claim holds, 0 fail, 1 was not run. At quick scale 1 claim holds, 1 fails" in page.text
    assert "2 claims hold" in page.text
    assert page.text.index("--scale paper") < page.text.index("--scale quick")


def test_what_did_not_run_is_listed(tmp_path):
    page = page_of(tmp_path / "nowhere")
    assert page.verdicts() == ["not run"] * 4
    assert "The second claim of toy." in page.text
    assert "wane run toy --scale quick" in page.text


def test_changed_settings_do_not_decide_the_verdict(tmp_path):
    run_folder(tmp_path, changed={"lam": 0.3})
    page = page_of(tmp_path)
    assert page.verdicts()[:4] == ["not run"] * 4
    assert page.verdicts()[4:] == ["holds", "fails"]
    assert "Quick scale, with lam = 0.3" in page.text
    assert "wane run toy --scale quick --set lam=0.3" in page.text


def test_the_first_whole_run_is_taken(tmp_path):
    run_folder(tmp_path / "a", device="first")
    run_folder(tmp_path / "b", device="second")
    runs = report.collect(tmp_path / "a", tmp_path / "b")
    assert [run.record["device"] for run in runs] == ["first"]
    (tmp_path / "a" / "quick" / "toy" / "claims.json").write_text("[")
    page = page_of(tmp_path / "a", tmp_path / "b")
    assert page.verdicts()[:2] == ["holds", "fails"]
    assert "claims.json cannot be read" in page.text


def test_runs_come_in_the_order_of_the_report(tmp_path):
    for name, scale in (("own.module", "quick"), ("toy", "quick"), ("toy", "paper"), ("diminishing", "quick")):
        run_folder(tmp_path, name, scale)
    found = [(run.experiment, run.scale) for run in report.collect(tmp_path)]
    assert found == [("diminishing", "quick"), ("toy", "paper"), ("toy", "quick"), ("own.module", "quick")]


def test_nothing_that_a_folder_names_is_imported_or_opened(tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    folder = run_folder(tmp_path / "runs", "trap.py", experiment="trap", films={"../other.gif": "stolen"})
    (folder.parent / "other.gif").write_bytes((folder / "film.gif").read_bytes())
    page = page_of(tmp_path / "runs")
    assert "trap" not in sys.modules
    assert "known by its runs alone" in page.text
    assert "../other.gif is missing" in page.text
    assert [image["alt"] for image in page.all("img")][1:] == ["Film: film"]


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    page = tmp_path / "report.html"
    page.write_text("old")

    def full(self, target):
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        report.write(page, tmp_path, experiments=[experiment()])
    assert page.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_registered_experiments_are_reported_by_default(tmp_path):
    page = Page(report.write(tmp_path / "new" / "report.html", tmp_path).read_text("utf-8"))
    statements = [claim.statement for name in NAMES for claim in find(name).claims]
    assert page.verdicts() == ["not run"] * 2 * len(statements)
    assert [statement for statement in statements if " ".join(statement.split()) not in page.text] == []


def test_verdict_table(tmp_path):
    run_folder(tmp_path)
    run_folder(tmp_path, scale="paper", claims=[claim("first", "fails")])
    shown = printed(report.verdict_table(report.collect(tmp_path), [experiment(), experiment("other")]))
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "toy paper first fails 1.234 [−0.5, 2.5]" in lines
    assert "toy quick first holds 1.234 [−0.5, 2.5]" in lines
    assert "toy quick second fails 1.234" in lines
    assert "other first not run" in lines
    assert "0 hold, 2 fail, 2 not run" in lines


def test_verdict_table_of_one_run_folder(tmp_path):
    folder = run_folder(tmp_path, changed={"lam": 0.3})
    run_folder(tmp_path, "other")
    shown = printed(report.verdict_table(report.collect(folder)))
    assert "toy, lam = 0.3" in shown
    assert "1 holds, 1 fails, 0 not run" in shown
    assert "other" not in shown
    moved = folder.rename(tmp_path / "moved")
    with pytest.raises(ValueError, match="moved is no run folder: its place is in a folder named paper or quick"):
        report.collect(moved)


def test_verdict_table_shows_names_as_they_are(tmp_path):
    run_folder(tmp_path, "evil", experiment="[red]evil\x1b[2J", claims=[claim("[/]")])
    shown = printed(report.verdict_table(report.collect(tmp_path)))
    assert "[red]evil�[2J" in shown
    assert "[/]" in shown
