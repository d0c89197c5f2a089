"""The page of the report: what it shows of a run, and that nothing in a folder can harm its reader."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from report.folders import claim, experiment, rewrite, run_folder, texts
from report.pages import EVIL, Page, page_of
from wane.lab import find, report
from wane.lab.report import pictures
from wane_paper.collection import NAMES


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
    assert "on �, with 512 MB" in path.read_text("utf-8")


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


def test_importing_the_report_does_not_import_plotting_or_tables():
    """The package `wane` is replaced by an empty one, so that only the report's own imports count."""
    code = f"""
import sys, types
sys.modules["wane"] = types.ModuleType("wane")
sys.modules["wane"].__path__ = [{str(Path(report.__file__).parents[2])!r}]
import wane.lab.report
print([name for name in ("matplotlib", "pandas", "wane_paper") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
