"""The report as text in a terminal."""

import pytest

from report.folders import claim, experiment, run_folder
from report.pages import printed
from wane.lab import find, report
from wane_paper.collection import NAMES


def test_the_summary_tells_failures_first_and_counts_what_holds(tmp_path):
    run_folder(tmp_path)
    run_folder(tmp_path, scale="paper", claims=[claim("first", "fails"), claim("third", interval=None)])
    run_folder(tmp_path, changed={"lam": 0.3})
    shown = printed(report.summary(report.collect(tmp_path), [experiment(), experiment("other")]), 80)
    assert [line.rstrip() for line in shown.splitlines()] == [
        "1 claim holds, 2 claims fail and 2 claims were not run.",
        "✗ toy  first   paper  The first claim.",
        "✗ toy  second  quick  The second claim.",
        "✓ what holds: toy (1)",
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
        run_folder(tmp_path, name, claims=[claim(each, "fails", statement=statement) for each in names])
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
    run_folder(tmp_path, "evil", experiment="[red]evil\x1b[2J", claims=[claim("[/]", "fails")])
    run_folder(tmp_path)
    for show in (report.summary, report.details):
        shown = printed(show(report.collect(tmp_path)))
        assert "[red]evil�[2J" in shown
        assert "[/]" in shown
