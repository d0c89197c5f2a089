"""`wane forage`: from a file to a folder of results, and refusals in one line."""

import json

import pandas as pd
import pytest

from foraging.test_fitting import make_data

TASK = ["--first", "low=30", "high=60", "--drop", "6", "--travel", "rich=10", "poor=30", "--harvest", "10"]


@pytest.fixture
def file(tmp_path):
    make_data(animals=2, visits=30).table.drop(columns="censored").to_csv(tmp_path / "birds.csv", index=False)
    return tmp_path / "birds.csv"


def test_a_first_look(command, file, tmp_path):
    status, out, err = command(
        "forage", file, *TASK, "--model", "constant", "count", "--starts", "1", "--out", tmp_path
    )
    assert status == 0, err
    assert "HarvestCount" in out
    folder = tmp_path / "forage" / "birds"
    record = json.loads((folder / "run.json").read_text())
    assert record["best"] == "HarvestCount"
    names = {path.name for path in folder.iterdir()} - {"run.json"}
    assert names == set(record["files"])
    assert {"harvests.csv", "models.csv", "estimates.csv", "figure-harvests.png"} < names
    estimates = pd.read_csv(folder / "estimates.csv")
    assert set(estimates["model"]) == {"ConstantHazard", "HarvestCount"}
    assert set(estimates["subject"]) == {0, 1}


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--model", "cuont"], 2, "unknown model 'cuont': did you mean 'count'?"),
        (["--first", "low"], 2, "--first low: a name and a number are needed"),
        (["--first", "low=60", "low=70"], 2, "--first low=70: low was given before, as 60; give each name once"),
        (["--first", "low=inf"], 1, "first['low'] = inf: a number that is finite is needed"),
        (
            ["--subject", "kind"],
            1,
            "the column 'kind' of the table of visits is named for the subject and for the kind",
        ),
        (["--subject", "kind"], 1, 'name another column for one of them, --subject "…" or --kind "…"'),
        (["--kind", "box"], 1, "the table of visits has no column 'box'"),
        (["--kind", "box"], 1, 'name the column that holds the kind, --kind "…"'),
        (["--travel", "rich=10"], 1, "environment is 'poor' in line 3 of"),
        (["--travel", "rich=10"], 1, "name it with --travel, or correct the table"),
    ],
)
def test_mistakes_are_told_in_one_line(command, file, tmp_path, words, status, message):
    found, _, err = command("forage", file, *TASK, *words, "--out", tmp_path)
    assert found == status
    assert message in err
    assert err.count("\n") == 1


def test_the_task_must_be_told(command, file):
    status, _, err = command("forage", file)
    assert status == 2
    assert "name what patches pay and how far apart they are, for example --first low=60" in err


def test_a_file_in_the_way_is_told_before_anything_is_fitted(command, file, monkeypatch):
    monkeypatch.setattr("wane.foraging.overview.compare", None)
    status, _, err = command("forage", file, *TASK, "--out", file)
    assert status == 1
    assert f"but {file} is a file: name another folder" in err


def test_environments_may_have_any_names(command, file, tmp_path):
    table = pd.read_csv(file)
    table["environment"] = table["environment"].map({"rich": "a/b", "poor": "a:b"})
    table.to_csv(file, index=False)
    words = [*TASK[:-4], "a/b=10", "a:b=30", *TASK[-2:]]
    status, _, err = command("forage", file, *words, "--model", "constant", "--starts", "1", "--out", tmp_path)
    assert status == 0, err
    names = {path.name for path in (tmp_path / "forage" / "birds").glob("figure-survival-*")}
    assert names == {"figure-survival-a_b.png", "figure-survival-a_b-2.png"}
