"""Two runs side by side: settings, claims, and numbers that belong together."""

import io
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from rich.console import Console

from report.folders import claim, rewrite, run_folder, untested
from wane.files import DamagedFile
from wane.lab import report
from wane.lab.report.compare import compare, compare_tables, differences, key_columns
from wane.lab.report.kept_runs import one_run, runs_called, standard_run
from wane.lab.tables import read_table
from wane_paper.collection import RESULTS


def curves(shift: float, seeds: int = 3, agents: tuple[str, ...] = ("a", "b")) -> pd.DataFrame:
    """A learning curve of some agents and seeds, with a float among its keys."""
    rows = [
        {"agent": agent, "lam": lam, "seed": seed, "episode": episode, "value": episode + seed * shift, "steps": 7}
        for agent in agents
        for lam in (0.25, 0.5)
        for seed in range(seeds)
        for episode in range(4)
    ]
    return pd.DataFrame(rows)


def two_runs(tmp_path, a: pd.DataFrame, b: pd.DataFrame, **fields):
    """Two runs with one table each, and some fields of the second one's run.json."""
    for name, table, more in (("a", a, {}), ("b", b, fields)):
        folder = run_folder(tmp_path / name, "toy", **more)
        content = io.BytesIO()
        table.to_parquet(content)
        rewrite(folder, "returns.parquet", content.getvalue())
    (one,), (other,) = (report.collect(tmp_path / name) for name in "ab")
    return one, other


def printed(one, other, width: int, **options) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(differences(one, other, compare(one, other), width, **options))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_keys_are_words_and_as_few_numbers_as_tell_rows_apart():
    assert key_columns(curves(0.0)) == ["agent", "lam", "episode"]
    stays = pd.DataFrame({"step": [0, 1] * 2, "reward": [0.1, 0.2, 0.3, 0.3], "distance": [2, 2, 4, 4], "timing": "a"})
    assert key_columns(stays) == ["step", "distance", "timing"]
    assert key_columns(pd.DataFrame({"seed": [0, 1], "value": [1.0, 1.0]})) == []
    one, other = pd.DataFrame({"n": [1], "x": [2.0]}), pd.DataFrame({"n": [1, 2], "x": [2.0, 2.0]})
    assert key_columns(one, other) == ["n"]


def test_the_difference_is_paired_over_seeds():
    value, steps = compare_tables("t", curves(1.0), curves(3.0), [], 1)
    assert (value.column, value.group, value.difference) == ("value", "", 2.0)
    # The differences of the three seeds are 0, 2 and 4: Student's interval is 2 ± 4.303 × 2 / √3.
    assert value.interval == pytest.approx((2 - 4.97, 2 + 4.97), abs=0.25)
    assert steps.largest == 0


def test_groups_are_told_apart_and_rows_without_partner_are_counted():
    notes: list[str] = []
    found = compare_tables("t", curves(0.0), curves(1.0, seeds=2, agents=("a", "c")), notes)
    assert {each.group for each in found} == {"lam = 0.25", "lam = 0.5"}
    assert notes == ["t: 32 of the 48 rows of A have no partner.", "t: 16 of the 32 rows of B have no partner."]
    groups = {each.group for each in compare_tables("t", curves(0.0), curves(1.0), [])}
    assert groups == {f"agent = {agent}, lam = {lam}" for agent in "ab" for lam in ("0.25", "0.5")}
    every = compare_tables("t", curves(0.0), curves(1.0), [], None)
    assert len({each.group for each in every}) == 2 * 2 * 4


def test_one_seed_and_tables_without_seeds_have_no_interval():
    (found,) = compare_tables("t", pd.DataFrame({"value": [1.0]}), pd.DataFrame({"value": [4.0]}), [])
    assert (found.mean_a, found.mean_b, found.difference, found.interval) == (1.0, 4.0, 3.0, None)
    one, other = pd.DataFrame({"n": [1, 2], "x": [1.0, np.nan]}), pd.DataFrame({"n": [1, 2], "x": 0.0})
    (found,) = compare_tables("t", one, other, [], 1)
    assert (found.difference, found.largest) == (-1.0, 1.0)


@pytest.mark.parametrize("width", [60, 80])
def test_a_comparison_is_short(tmp_path, width):
    settings = {"lambdas": [0.0, 0.5], "agent": {"step_size": 0.2, "timing": "arrival"}, "new": True}
    claims = [claim("first", "fails", estimate=-0.25), untested("other")]
    one, other = two_runs(tmp_path, curves(0.0), curves(1.0), settings=settings, claims=claims)
    lines = printed(one, other, width)
    assert lines[0].startswith(f"A  {tmp_path}"[:40])
    assert max(map(len, lines)) <= width
    told = ["2 settings differ", "  agent.step_size  0.1 → 0.2", "  new              not there → true"]
    told += ["Claims in A and B: 3 verdicts differ", "  second  ✗ 1.234              not there"]
    told += ["  first   ✓ 1.234 [−0.5, 2.5]  ✗ −0.25 [−0.5, 2.5]", "  returns"]
    assert [line for line in told if line not in lines] == []
    number = next(line for line in lines if line.startswith("    value, agent = a, lam = 0.25"))
    assert re.search(r"  \+1 \[−1\.\d+, 3\.\d+\]$", number)
    assert "    … and 2 more lines, which --verbose shows" in lines
    assert len(printed(one, other, width, most=None)) == len(lines) + 1


def test_equal_runs_are_the_same(tmp_path):
    one, other = two_runs(tmp_path, curves(1.0), curves(1.0))
    lines = printed(one, other, 80)
    for line in (
        "All settings are the same.",
        "Claims in A and B: all verdicts are the same",
        "  The same in both: returns.",
    ):
        assert line in lines


def test_runs_are_found_by_experiment_folder_or_path(tmp_path):
    standard, paper = run_folder(tmp_path), run_folder(tmp_path, scale="paper")
    changed = run_folder(tmp_path, changed={"lam": 0.3})
    for name, scale, folder in (
        ("toy", "quick", standard),
        ("toy", "paper", paper),
        ("quick/toy", "paper", standard),
        ("toy+lam=0.3", "paper", changed),
        ("quick/toy+lam=0.3", "quick", changed),
        (str(changed), "paper", changed),
    ):
        assert one_run(name, scale, [tmp_path]).folder == folder
    assert [run.folder for run in runs_called("toy", [tmp_path])] == [paper, standard, changed]


def test_what_cannot_be_compared_is_told(tmp_path):
    with pytest.raises(ValueError, match="toy was not run yet: wane run toy --scale quick"):
        one_run("toy", "quick", [tmp_path])
    with pytest.raises(ValueError, match="unknown experiment or run 'errat': did you mean 'errata'"):
        one_run("errat", "quick", [tmp_path])
    for lam in (0.3, 0.4):
        run_folder(tmp_path, changed={"lam": lam})
    with pytest.raises(ValueError, match=r"name one of its runs: quick/toy\+lam=0.3, quick/toy\+lam=0.4"):
        one_run("toy", "quick", [tmp_path])
    (tmp_path / "quick" / "toy+lam=0.3" / "claims.json").unlink()
    with pytest.raises(ValueError, match=r"lam=0.3 cannot be compared. claims.json is missing"):
        one_run("toy+lam=0.3", "quick", [tmp_path])
    run_folder(tmp_path, scale="paper")
    assert one_run("toy", "quick", [tmp_path]).scale == "paper"


def test_an_experiment_without_a_scale_is_its_quick_run_or_else_that_of_the_paper(tmp_path):
    for scale in ("paper", "quick"):
        run_folder(tmp_path, scale=scale)
        runs = runs_called("toy", [tmp_path])
        assert standard_run("toy", None, runs).scale == scale
    assert standard_run("toy", "paper", runs).scale == "paper"


def parquet(table: pd.DataFrame | pa.Table, note: bytes | None = None) -> bytes:
    """A table as bytes, with a note of pandas that anybody may have written."""
    table = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table)
    data = io.BytesIO()
    pq.write_table(table if note is None else table.replace_schema_metadata({b"pandas": note}), data)
    return data.getvalue()


@pytest.mark.parametrize(
    "note", [b"{", b"[]", b"\xff", b'{"index_columns": 7}', b'{"index_columns": ["x"], "columns": [{}]}', b"[" * 9999]
)
def test_what_pandas_notes_about_a_table_is_not_needed(tmp_path, note):
    one, other = two_runs(tmp_path, curves(1.0), curves(3.0))
    rewrite(one.folder, "returns.parquet", parquet(curves(1.0), note))
    assert compare(one, other).differences[0].difference == 2.0


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (pa.table({"seed": [0, 1], "value": [[1.0], [2.0]]}), "the column value does not hold numbers in both, or"),
        (pa.table({"seed": [0, 1], "value": ["a", "b"]}), "the column value does not hold numbers in both, or words"),
        (pa.table({"seed": [0, 1], "value": [{"a": 1}, None]}), "the column value does not hold numbers in both, or"),
        (pa.table({"seed": ["0", "1"], "value": [1.0, 2.0]}), "the column seed does not hold numbers in both, or"),
        (pa.table([[1.0], [2.0]], ["value", "value"]), "has several columns called 'value'"),
    ],
)
def test_tables_that_cannot_be_compared_are_told(tmp_path, table, told):
    one, other = two_runs(tmp_path, curves(1.0), curves(3.0))
    rewrite(one.folder, "returns.parquet", parquet(table))
    if "several" in told:
        with pytest.raises(DamagedFile, match=told):
            compare(one, other)
    else:
        assert told in "".join(compare(one, other).notes)


def test_kept_tables_are_read_as_pandas_reads_them():
    for path in sorted(RESULTS.glob("paper/*/*.parquet"))[::7]:
        pd.testing.assert_frame_equal(read_table(path), pd.read_parquet(path))
