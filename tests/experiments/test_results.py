"""The runs that are kept in the package: whole, of the paper's settings, and saying what their tables say."""

import dataclasses
import json

import pandas as pd
import pytest

from wane.files import checksum
from wane.lab import find, report
from wane.settings import with_present_names
from wane_paper.collection import LEARNED, NAMES, RESULTS


def words(claim: dict) -> dict:
    """All of a claim but its numbers."""
    return {key: value for key, value in claim.items() if key not in ("estimate", "interval")}


def numbers(claim: dict) -> list:
    return [number for number in (claim["estimate"], *(claim["interval"] or ())) if number is not None]


@pytest.mark.parametrize("name", NAMES)
def test_kept_claims_follow_from_the_kept_tables(name):
    folder, experiment = RESULTS / "paper" / name, find(name)
    record = json.loads((folder / "run.json").read_text("utf-8"))
    settings = with_present_names(type(experiment.paper), record["settings"])
    assert settings == json.loads(json.dumps(dataclasses.asdict(experiment.paper)))
    tables = {table: pd.read_parquet(folder / f"{table}.parquet") for table in record["tables"]}
    claims = json.loads((folder / "claims.json").read_text("utf-8"))
    again = experiment.findings(experiment.paper, tables)
    assert [words(claim) for claim in claims] == [words(claim) for claim in again]
    for claim, other in zip(claims, again, strict=True):  # Processors differ in the last digits of a product.
        assert numbers(claim) == pytest.approx(numbers(other), rel=1e-9, abs=1e-12, nan_ok=True), claim["name"]
    assert name not in LEARNED or experiment.seeded is None or "H200" in record["device"]


@pytest.mark.parametrize("name", NAMES)
def test_kept_records_name_all_files_and_the_present_texts(name):
    folder, experiment = RESULTS / "paper" / name, find(name)
    record = json.loads((folder / "run.json").read_text("utf-8"))
    files = {path.name for path in folder.iterdir()} - {"run.json"}
    assert record["files"] == {file: checksum(folder / file) for file in files}
    assert record["texts"] == {text: getattr(experiment, text) for text in record["texts"]}
    assert set(record["texts"]) == {"title", "source", "summary", "differences", "paper_cost"}


def test_the_report_shows_them():
    runs = report.collect(RESULTS)
    assert [run.experiment for run in runs] == list(NAMES)
    assert not any(run.problems for run in runs)


@pytest.mark.parametrize("name", NAMES)
def test_every_statement_of_the_paper_that_fails_has_an_account(name):
    for claim in json.loads((RESULTS / "paper" / name / "claims.json").read_text("utf-8")):
        if (claim["kind"], claim["verdict"]) == ("paper", "fails"):
            assert len(claim.get("account", "").split()) > 40, claim["name"]
