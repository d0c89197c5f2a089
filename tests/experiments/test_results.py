"""The runs that are kept with the sources: whole, of the paper's settings, and saying what their tables say."""

import dataclasses
import json
from pathlib import Path

import pandas as pd
import pytest

from wane import report
from wane.experiments import LEARNED, find
from wane.runs.folder import Folder

KEPT = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("name", LEARNED)
def test_kept_claims_follow_from_the_kept_table(name):
    folder, experiment = KEPT / "paper" / name, find(name)
    record = Folder(folder).record()
    assert record["settings"] == json.loads(json.dumps(dataclasses.asdict(experiment.paper)))
    claims = json.loads((folder / "claims.json").read_text())
    assert claims == experiment.findings(experiment.paper, pd.read_parquet(folder / "results.parquet"))
    assert "H200" in record["device"]


def test_the_report_shows_them():
    runs = report.collect(KEPT)
    assert [run.experiment for run in runs] == list(LEARNED)
    assert not any(run.problems for run in runs)
