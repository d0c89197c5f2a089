"""The table of the paper's figures: each claim of the paper stands in it once, and gaps are told."""

import pytest

from report.folders import claim, experiment, run_folder
from wane.lab import find, report
from wane.lab.report.verdicts import judged, missing
from wane_paper.collection import NAMES
from wane_paper.places import ERRATA, MISSING, PLACES


@pytest.fixture(scope="module")
def registered():
    return [find(name) for name in NAMES]


def test_every_claim_of_the_paper_stands_in_one_row(registered):
    rows = report.paper_table([], registered)
    found = [(name, claim.name) for row in rows if row.kind == "paper" for name, claim in row.claims]
    claims = [(one.name, claim.name) for one in registered for claim in one.claims if claim.kind == "paper"]
    assert sorted(found) == sorted(claims)


def test_every_erratum_stands_in_one_row(registered):
    rows = [row for row in report.paper_table([], registered) if row.is_erratum]
    found = [claim.name for row in rows for _, claim in row.claims]
    assert sorted(found) == sorted(claim.name for claim in find(ERRATA).claims)
    assert {row.place for row in rows} <= {place.name for place in PLACES}


def test_places_name_experiments_that_exist_or_are_missing(registered):
    known = {*NAMES, *(part.experiment for part in MISSING)}
    assert [place.name for place in PLACES if not known.issuperset(place.experiments)] == []
    assert len({place.name for place in PLACES}) == len(PLACES)
    built = [part.name for part in MISSING if part.experiment in NAMES and not part.claim]
    assert built == [], "a registered experiment is not missing"


def test_a_row_tells_place_verdicts_and_sentences(tmp_path):
    run_folder(tmp_path, "gpi-tabular", claims=[claim("first"), claim("second", "fails"), claim("q", kind="ours")])
    run_folder(tmp_path, "own.module", claims=[claim("third", "undecided")], texts={"title": "Mine", "source": "here"})
    run_folder(tmp_path, "beyond", claims=[claim("fourth", kind="ours", place="")])
    composing, own = report.paper_table(report.collect(tmp_path), [])
    assert (composing.place, composing.what) == ("Figure 5.3", "Composing policies in FourRooms")
    assert (composing.experiments, composing.kind) == (("gpi-tabular",), "paper")
    assert composing.verdicts == {"holds": 1, "fails": 1}
    assert composing.sentences == (("holds", "The first claim."), ("fails", "The second claim."))
    assert (own.place, own.what, own.verdicts) == ("Here", "Mine", {"undecided": 1})


def test_where_the_paper_claims_nothing_identities_are_told(tmp_path):
    identity = {"kind": "identity", "place": ""}
    run_folder(tmp_path, "diminishing", claims=[claim("first", **identity), claim("q", kind="ours", place="")])
    (row,) = report.paper_table(report.collect(tmp_path), [])
    assert (row.kind, row.verdicts, row.is_erratum) == ("identity", {"holds": 1}, False)


def test_what_was_run_is_not_missing(tmp_path):
    assert missing([]) == list(MISSING)
    assert missing(judged([], [experiment("mvt")])) == list(MISSING)
    run_folder(tmp_path, "mvt", claims=[claim("where-to-go")])
    left_out = set(MISSING) - set(missing(judged(report.collect(tmp_path), [])))
    assert [part.name for part in left_out] == ["Section 6"]


def test_a_claim_that_is_not_judged_yet_is_missing_until_a_run_has_it(tmp_path):
    part = next(part for part in MISSING if part.claim == "where-to-go")
    run_folder(tmp_path, "mvt", claims=[claim("first")])
    assert part in missing(judged(report.collect(tmp_path), []))
    run_folder(tmp_path, "mvt", "paper", claims=[claim("where-to-go")])
    assert part not in missing(judged(report.collect(tmp_path), []))
