import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from report.folders import claim, edit_record, experiment, rewrite, run_folder, texts, untested
from wane import report
from wane.experiments import NAMES, find
from wane.files import checksum
from wane.report import pictures
from wane.report.verdicts import entries

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

    def verdicts(self, kind: str = "verdict") -> list[str]:
        """The verdicts in the details, or with "sign" those of the summary."""
        classes = [attributes.get("class") or "" for attributes in self.all("span")]
        return [name.removeprefix(f"{kind} ").replace("-", " ") for name in classes if name.startswith(f"{kind} ")]


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
    told += ["1 min 12 s on 2 × CPU, with 512 MB of memory at the peak", "an hour", "Solved, not iterated."]
    told += ["15 November 2026, 10:35 UTC", "0123456789", "jax 0.10.2", "lambdas [0.0, 0.5]", "An agent at work"]
    told += ["agent.step_size 0.1", "agent.timing arrival", "returns.parquet", "wane run toy --scale quick"]
    told += ["1 claim holds 1 claim fails 0 claims are undecided 0 claims were not tested 0 claims were not run"]
    told += ["The first claim. the paper, figure 9.9"]
    assert [words for words in told if words not in page.text] == []
    assert page.verdicts("sign") == page.verdicts() == ["holds", "fails"]
    assert "Damaged" not in page.text


def test_pictures_are_inside_with_words_for_them(tmp_path):
    run_folder(tmp_path)
    small, figure, film = page_of(tmp_path).all("img")
    assert small["src"].startswith("data:image/png;base64,")
    assert (small["width"], small["height"]) == ("320", "96")
    assert small["alt"] == "Our figure: About toy"
    assert figure["src"].startswith("data:image/svg+xml;base64,")
    assert (figure["width"], figure["height"]) == ("960", "288")
    assert "What toy shows." in figure["alt"]
    assert film["src"].startswith("data:image/gif;base64,")
    assert film["alt"] == "Film: An agent at work"


def test_a_heavy_or_damaged_drawing_gives_way_to_the_png(tmp_path, monkeypatch):
    folder = run_folder(tmp_path)
    rewrite(folder, "figure.svg", "<svg")
    figure = page_of(tmp_path).all("img")[1]
    assert figure["src"].startswith("data:image/png;base64,")
    assert (figure["width"], figure["height"]) == ("960", "288")
    rewrite(folder, "figure.svg", "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'/>")
    assert page_of(tmp_path).all("img")[1]["src"].startswith("data:image/svg+xml")
    monkeypatch.setattr(pictures, "HEAVY", 10)
    assert page_of(tmp_path).all("img")[1]["src"].startswith("data:image/png")


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        ("claims.json", "[{", "claims.json cannot be read"),
        ("claims.json", "{}", "claims.json holds a dict where a list belongs"),
        ("claims.json", "[" * 100_000, "claims.json cannot be read"),
        ("claims.json", json.dumps([claim(verdict="perhaps")]), "1 of 1 entries are not claims with a verdict"),
        ("claims.json", json.dumps([claim(kind=[])]), "1 of 1 entries are not claims with a verdict"),
        ("claims.json", json.dumps([claim(account=7)]), "1 of 1 entries are not claims with a verdict"),
        ("claims.json", json.dumps([claim(interval=[1.0])]), "1 of 1 entries are not claims with a verdict"),
        ("claims.json", json.dumps([claim(interval=7)]), "1 of 1 entries are not claims with a verdict"),
        ("claims.json", json.dumps([claim(estimate=None)]), "1 of 1 entries are not claims with a verdict"),
        ("claims.json", json.dumps([claim(estimate=10**400)]), "1 of 1 entries are not claims with a verdict"),
        ("claims.json", None, "claims.json is missing"),
        ("run.json", "\xff", "run.json cannot be read"),
        ("run.json", "7", "run.json holds a int where a dict belongs"),
        ("run.json", '{"seconds": -1}', "run.json has no usable 'seconds'"),
        ("run.json", '{"files": ["claims.json"]}', "run.json has no usable 'files'"),
        ("run.json", '{"files": {"claims.json": 7}}', "run.json has no usable 'files'"),
        ("run.json", '{"texts": {"title": 7}}', "run.json has no usable 'texts'"),
        ("run.json", '{"settings": ' + '{"a": ' * 60 + "1" + "}" * 61, "run.json nests lists or dictionaries"),
        (
            "run.json",
            None,
            "There is no run.json: the run is still working or was stopped. Continue it with wane run toy",
        ),
        ("returns.parquet", None, "returns.parquet is missing"),
        ("film.gif", "GIF89a", "film.gif is not a whole GIF picture"),
        ("film.gif", None, "film.gif is missing"),
    ],
)
def test_damage_is_named_and_breaks_nothing(tmp_path, file, content, named):
    folder = run_folder(tmp_path / "runs")
    run_folder(tmp_path / "runs", "whole")
    if content is None:
        (folder / file).unlink()
    else:
        rewrite(folder, file, content)
    page = page_of(tmp_path / "runs", experiments=[experiment(), experiment("whole")])
    assert "Damaged or incomplete run folders" in page.text
    assert str(folder) in page.text
    assert named in page.text
    assert page.verdicts()[-2:] == ["holds", "fails"]
    if file in ("claims.json", "run.json"):
        assert page.verdicts()[:2] == ["not run", "not run"]


def test_missing_and_truncated_figures(tmp_path):
    folder = run_folder(tmp_path, films={})
    record = json.loads((folder / "run.json").read_text())
    del record["files"]["figure.svg"]
    (folder / "run.json").write_text(json.dumps(record))
    whole = (folder / "figure.png").read_bytes()
    rewrite(folder, "figure.png", whole[: len(whole) // 2])
    page = page_of(tmp_path)
    assert "figure.png is not a whole PNG picture" in page.text
    assert page.all("img") == []
    (folder / "figure.png").unlink()
    text = page_of(tmp_path).text
    assert text.count("figure.png is missing") == 2
    assert "The run has no figure that can be shown." in text


@pytest.mark.parametrize(
    "file", ["claims.json", "returns.parquet", "figure.svg", "film.gif", "agents/best/config.json"]
)
def test_a_file_that_was_changed_is_named_and_not_used(tmp_path, file):
    folder = run_folder(tmp_path, agents=["best", "other"])
    (folder / file).write_bytes((folder / file).read_bytes() + b" ")
    (run,) = report.collect(tmp_path)
    assert run.problems == (f"{file} was changed after the run: run.json notes another SHA-256.",)
    assert f"{file} was changed after the run" in page_of(tmp_path).text
    assert (run.claims == ()) == (file == "claims.json")
    assert (run.films == ()) == (file == "film.gif")
    assert run.agents == (("other",) if "best" in file else ("best", "other"))
    assert run.figure
    assert run.figure.mime == ("image/png" if file == "figure.svg" else "image/svg+xml")


def test_a_file_that_no_checksum_covers_is_named_and_not_used(tmp_path):
    folder = run_folder(tmp_path)
    edit_record(folder, tables=["returns", "second"], agents=["ghost"])
    (folder / "second.parquet").write_bytes(b"PAR1")
    (folder / "stray.gif").write_bytes((folder / "film.gif").read_bytes())
    (run,) = report.collect(tmp_path)
    assert run.problems == (
        "second.parquet is not among the files that run.json lists.",
        "agents/ghost/config.json is missing.",
        "agents/ghost/params.safetensors is missing.",
    )
    assert [film.title for film in run.films] == ["An agent at work"]
    assert run.agents == ()


@pytest.mark.parametrize(
    "name", ["../outside", "/etc/outside", "linked/outside", "link", "nul\0", "half\ud800", "circle"]
)
def test_a_table_that_leads_out_of_the_folder_is_no_table(tmp_path, name):
    outside = tmp_path / "quick" / "outside.parquet"
    folder = run_folder(tmp_path)
    outside.write_bytes(b"PAR1")
    (folder / "linked").symlink_to(outside.parent)
    (folder / "link.parquet").symlink_to(outside)
    (folder / "circle.parquet").symlink_to(folder / "circle.parquet")
    edit_record(folder, tables=["returns", name], files={f"{name}.parquet": checksum(outside)})
    (run,) = report.collect(tmp_path)
    assert run.problems == (f"{name}.parquet leads out of the folder.",)


@pytest.mark.parametrize("depth", [0, 1])
def test_links_to_folders_of_runs_are_not_followed(tmp_path, depth):
    folder = run_folder(tmp_path / "runs", device="a secret")
    place = folder if depth == 0 else folder.parent
    place.symlink_to(place.rename(tmp_path / "elsewhere"))
    (run,) = report.collect(tmp_path / "runs")
    assert run.problems == (f"{place} is a symbolic link, which is not followed.",)
    page = page_of(tmp_path / "runs")
    assert "is a symbolic link" in page.text
    assert "a secret" not in page.text
    assert report.collect(folder)[0].problems == (), "whoever names a folder may name a link"


def test_results_that_are_not_all_in_their_places_yet_are_read_from_where_they_are(tmp_path):
    folder = run_folder(tmp_path)
    (folder / ".ready").mkdir()
    for name in ("run.json", "claims.json"):
        (folder / name).rename(folder / ".ready" / name)
    for root in (tmp_path, folder):
        (run,) = report.collect(root)
        assert run.problems == ()
        assert len(run.claims) == 2


def test_what_could_not_be_drawn_is_told(tmp_path):
    folder = run_folder(tmp_path, failures={"figure": f"KeyError: {EVIL}"}, films={})
    for name in ("figure.png", "figure.svg", "film.gif"):
        (folder / name).unlink()
    record = json.loads((folder / "run.json").read_text())
    record["files"] = {name: sha for name, sha in record["files"].items() if not name.startswith("fi")}
    (folder / "run.json").write_text(json.dumps(record))
    (run,) = report.collect(tmp_path)
    assert run.problems == ()
    assert f"The figure could not be drawn: KeyError: {EVIL}" in page_of(tmp_path).text


def test_a_record_that_is_a_link_out_of_the_folder_is_not_read(tmp_path):
    folder = run_folder(tmp_path)
    (folder / "run.json").rename(tmp_path / "run.json")
    (folder / "run.json").symlink_to(tmp_path / "run.json")
    (run,) = report.collect(tmp_path / "quick" / "toy")
    assert run.problems == ("run.json leads out of the folder.",)
    assert run.claims == ()


def test_agents_are_listed_with_the_command_that_plays_them(tmp_path):
    folder = run_folder(tmp_path, agents=["lam=0.5", "two words"])
    text = page_of(tmp_path).text
    assert f"wane evaluate {folder}/agents/lam=0.5" in text
    assert f"wane evaluate '{folder}/agents/two words'" in text


def test_an_experiment_that_nobody_registered_is_told_by_its_folder(tmp_path):
    told = texts("own") | {"title": "My own", "differences": "None at all.\n\nReally."}
    run_folder(tmp_path, "own.module", claims=[claim("mine", statement="Mine is true.")], texts=told)
    page = page_of(tmp_path, experiments=[])
    words = [*told.values(), "Mine is true.", "An agent at work", "wane run own.module --scale quick"]
    assert [text for text in words if " ".join(text.split()) not in page.text] == []
    assert page.verdicts() == ["holds"]
    assert "own.module About" not in page.text


def test_the_folder_is_believed_before_the_registry(tmp_path):
    run_folder(tmp_path, texts=texts("the folder"))
    text = page_of(tmp_path, experiments=[experiment("toy", title="Registered", summary="Registered.")]).text
    assert "About the folder" in text
    assert "Registered" not in text


def test_a_folder_without_texts_still_has_a_section(tmp_path):
    run_folder(tmp_path, "bare", texts={})
    page = page_of(tmp_path, experiments=[])
    assert "No run folder tells what this experiment is about." in page.text
    assert page.verdicts() == ["holds", "fails"]


def test_untested_claims_are_counted_apart_with_their_reason(tmp_path):
    run_folder(tmp_path, claims=[claim("first"), untested("second")])
    page = page_of(tmp_path)
    assert page.verdicts() == ["holds", "not tested"]
    assert "One λ is not enough." in page.text
    assert "1 claim was not tested 0 claims were not run" in page.text
    assert (
        "that the runs do not test The second claim. the paper, figure 9.9 · About toy One λ is not enough."
        in page.text
    )
    one_run = untested("second", detail="One run has no interval.") | {"estimate": 0.25}
    run_folder(tmp_path / "more", claims=[one_run])
    shown = printed(report.summary(report.collect(tmp_path / "more")))
    assert shown.splitlines() == ["1 claim was not tested at quick scale.", "? second  One run has no interval."]
    assert "? second: not tested, quick scale, 0.25" in printed(report.details(report.collect(tmp_path / "more")))


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
        tables=["returns", EVIL],
        agents=[EVIL],
    )
    told = dict.fromkeys(texts(""), EVIL)
    run_folder(tmp_path / EVIL.replace("/", ""), "evil", "paper", experiment=EVIL, claims=[hostile], texts=told)
    one = experiment("registered", **told)
    page = page_of(*tmp_path.iterdir(), experiments=[one])
    assert page.all("script") == []
    assert [image for image in page.all("img") if not image["src"].startswith("data:")] == []
    assert [(tag, key) for tag, attributes in page.tags for key in attributes if key.startswith("on")] == []
    assert page.text.count(EVIL) > 20


def test_halves_of_characters_can_be_written(tmp_path):
    run_folder(tmp_path / "runs", "toy", device="\ud800", claims=[claim("\ud800")])
    path = report.write(tmp_path / "report.html", tmp_path / "runs", experiments=[experiment()])
    assert "on ?, with 512 MB" in path.read_text("utf-8")


def test_claims_of_the_paper_are_counted_apart_from_ours_and_from_identities(tmp_path):
    ours, identity = {"kind": "ours", "place": ""}, {"kind": "identity", "place": ""}
    claims = [claim("a"), claim("b", "undecided"), claim("c", "fails", **ours), claim("d", **ours)]
    run_folder(tmp_path, claims=[*claims, claim("e", **identity), untested("f") | ours])
    page = page_of(tmp_path)
    tiles = "1 claim holds 0 claims fail 1 claim is undecided 0 claims were not tested 2 claims were not run"
    assert tiles in page.text
    told = "Of our own questions beyond the paper, 1 claim holds, 1 claim fails and 1 claim was not tested."
    told += " Of the identities, which only a fault of the program could refute, 1 claim holds."
    assert told in page.text
    assert "What of the paper fails" not in page.text
    assert (
        "What of the paper is undecided The b claim. the paper, figure 9.9 · About toy 1.234 [−0.5, 2.5]" in page.text
    )
    assert "beyond the paper (1) ✗ fails The c claim. our question · About toy" in page.text
    assert "Claims of the paper that the runs do not test" not in page.text
    shown = printed(report.summary(report.collect(tmp_path))).splitlines()
    assert shown[1] == "Of these, the paper's own: 1 claim holds and 1 claim is undecided."
    assert [line[:3] for line in shown[2:]] == ["✗ c", "~ b", "? f", "✓ a", "✓ d", "✓ e"]


def test_an_identity_that_fails_is_not_folded_away(tmp_path):
    run_folder(tmp_path, claims=[claim("first", "fails", kind="ours", place="")])
    assert "open" not in page_of(tmp_path).all("details")[1]
    run_folder(tmp_path, "other", claims=[claim("second", "fails", kind="identity", place="")])
    page = page_of(tmp_path)
    assert "open" in page.all("details")[1]
    assert "✗ fails The second claim. identity · About other" in page.text


def test_a_failing_claim_of_the_paper_is_told_with_its_account(tmp_path):
    account = f"The paper says so. We did as it does. {EVIL}"
    ours = claim("ours", "fails", kind="ours", place="", account="Not for the paper.")
    claims = [claim("first", account="Not for what holds."), claim("second", "fails", account=account), ours]
    run_folder(tmp_path, claims=claims)
    page = page_of(tmp_path)
    assert page.text.count(account) == 2, "in the list of what fails and in the details"
    detailed = printed(report.details(report.collect(tmp_path)))
    assert "We did as it does." in detailed
    assert "Not for" not in detailed
    assert "What of the paper fails The second claim. the paper, figure 9.9 · About toy" in page.text
    assert "Not for" not in page.text
    assert page.all("script") == []


def test_a_run_with_fewer_seeds_never_overrides_one_with_more(tmp_path):
    run_folder(tmp_path, claims=[claim("first")], settings={"seeds": 64})
    run_folder(tmp_path, scale="paper", claims=[claim("first", "undecided")], settings={"seeds": 3})
    (entry,) = entries(report.collect(tmp_path), [])
    assert (entry.lines[0].verdict, entry.lines[0].decisive) == ("holds", "quick")
    assert "✓ first  1.234" in printed(report.summary(report.collect(tmp_path)))


def test_the_decisive_scale_comes_first_and_the_other_where_it_ran(tmp_path):
    run_folder(tmp_path, claims=[claim("first", "fails"), claim("second")])
    run_folder(tmp_path, scale="paper", claims=[claim("first"), untested("second")])
    page = page_of(tmp_path)
    assert page.verdicts("sign") == ["holds", "holds"]
    assert page.verdicts() == ["holds", "fails", "holds", "not tested"]
    assert "The first claim. the paper, figure 9.9 ✓ holds paper scale · 1.234" in page.text
    assert "The second claim. the paper, figure 9.9 ✓ holds quick scale · 1.234" in page.text
    assert "not run" not in page.text.replace("0 claims were not run", "")
    assert "2 claims hold" in page.text
    assert page.text.index("--scale paper") < page.text.index("--scale quick")


def test_what_did_not_run_is_listed(tmp_path):
    page = page_of(tmp_path / "nowhere")
    assert page.verdicts("sign") == page.verdicts() == ["not run"] * 2
    assert "The second claim of toy." in page.text
    assert "wane run toy --scale quick" in page.text


def test_changed_settings_do_not_decide_the_verdict(tmp_path):
    run_folder(tmp_path, changed={"agent.step_size": 0.1, "lambdas": [0.0, 0.5]})
    page = page_of(tmp_path)
    assert page.verdicts() == ["not run"] * 2 + ["holds", "fails"]
    assert "Quick scale, with agent.step_size = 0.1, lambdas = [0.0, 0.5]" in page.text
    assert "wane run toy --scale quick --agent.step-size 0.1 --lambdas 0.0 0.5" in page.text
    assert "agent.step_size 0.1 changed agent.timing arrival Folder" in page.text


def test_the_first_whole_run_is_taken(tmp_path):
    run_folder(tmp_path / "a", device="first")
    run_folder(tmp_path / "b", device="second")
    runs = report.collect(tmp_path / "a", tmp_path / "b")
    assert [run.record["device"] for run in runs] == ["first"]
    rewrite(tmp_path / "a" / "quick" / "toy", "claims.json", "[")
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
    assert "About trap.py" in page.text
    assert "../other.gif leads out of the folder" in page.text
    assert len(page.all("img")) == 2


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
    assert page.verdicts() == ["not run"] * len(statements)
    assert [statement for statement in statements if " ".join(statement.split()) not in page.text] == []


def test_the_summary_tells_each_claim_in_one_line_and_failures_first(tmp_path):
    run_folder(tmp_path)
    run_folder(tmp_path, scale="paper", claims=[claim("first", "fails"), claim("third", interval=None)])
    run_folder(tmp_path, changed={"lam": 0.3})
    shown = printed(report.summary(report.collect(tmp_path), [experiment(), experiment("other")]), 80)
    assert [line.rstrip() for line in shown.splitlines()] == [
        "1 claim holds, 2 claims fail and 2 claims were not run.",
        "✗ toy  first   paper  1.234 [−0.5, 2.5]",
        "✗ toy  second  quick  1.234",
        "✓ toy  third   paper  1.234",
        "○ not run: other (2 claims)",
        "",
        "Other runs",
        "  1 of 2 claims hold  quick/toy+lam=0.3",
    ]


@pytest.mark.parametrize("width", [60, 80])
def test_lines_of_the_summary_are_cut_and_names_are_whole(tmp_path, width):
    """The longest names of the package fit, and no line is broken."""
    statement = "A statement that is longer than any terminal, word after word after word after word after word."
    names = sorted({each.name for name in NAMES for each in find(name).claims})
    for name in ("representations", "policy-evaluation"):
        run_folder(tmp_path, name, claims=[claim(each, statement=statement) for each in names])
    for runs in (report.collect(tmp_path), report.collect(tmp_path)[:1]):
        lines = printed(report.summary(runs), width).splitlines()
        assert len(lines) == 1 + len(runs) * len(names)
        assert max(map(len, lines)) <= width
        for name in names:
            assert sum(f" {name} " in line for line in lines) == len(runs)


def test_details_tell_statements_and_what_was_not_run(tmp_path):
    run_folder(tmp_path)
    run_folder(tmp_path, scale="paper", claims=[claim("first", "fails")])
    shown = printed(report.details(report.collect(tmp_path), [experiment(), experiment("other")]))
    lines = [line.strip() for line in shown.splitlines()]
    told = ["✗ first: fails, paper scale, 1.234 [−0.5, 2.5]", "The first claim.", "in the detail"]
    told += [
        "✓ first: holds, quick scale, 1.234 [−0.5, 2.5]",
        "✗ second: fails, quick scale, 1.234",
        "○ first: not run",
    ]
    assert [text for text in told if text not in lines] == []
    assert lines[-1] == "2 claims fail and 2 claims were not run."


def test_the_claims_of_one_run_are_listed_whatever_its_settings(tmp_path):
    folder = run_folder(tmp_path, changed={"lam": 0.3})
    run_folder(tmp_path, "other")
    shown = printed(report.summary(report.collect(folder)))
    assert shown.splitlines()[0] == "1 claim holds and 1 claim fails at quick scale."
    assert "✗ second  1.234  The second claim." in shown
    detailed = printed(report.details(report.collect(folder)))
    assert "quick scale, lam = 0.3" in detailed
    assert detailed.splitlines()[-1] == "1 claim holds and 1 claim fails."
    assert "other" not in shown
    moved = folder.rename(tmp_path / "moved")
    with pytest.raises(
        ValueError, match="moved is not a run folder: a run folder lies in a folder that is named paper or quick"
    ):
        report.collect(moved)


def test_the_terminal_shows_names_as_they_are(tmp_path):
    run_folder(tmp_path, "evil", experiment="[red]evil\x1b[2J", claims=[claim("[/]")])
    run_folder(tmp_path)
    for show in (report.summary, report.details):
        shown = printed(show(report.collect(tmp_path)))
        assert "[red]evil�[2J" in shown
        assert "[/]" in shown


def test_importing_the_report_does_not_import_plotting_or_tables():
    """The package `wane` is replaced by an empty one, so that only the report's own imports count."""
    code = f"""
import sys, types
sys.modules["wane"] = types.ModuleType("wane")
sys.modules["wane"].__path__ = [{str(Path(report.__file__).parents[1])!r}]
import wane.report
print([name for name in ("matplotlib", "pandas", "wane.experiments") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
