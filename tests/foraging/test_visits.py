"""Visits from tables: what is read, what is refused, and what patches pay when they are visited again."""

import numpy as np
import pandas as pd
import pytest

import wane
from wane import foraging

TASK = foraging.Task.linear({"low": 60, "high": 120}, 20, {"rich": 10, "poor": 30}, harvest=10)
TABLE = pd.DataFrame(
    {
        "subject": [1, 1, 1, 2, 2],
        "kind": ["low", "high", "low", "low", "high"],
        "environment": ["rich", "rich", "poor", "rich", "rich"],
        "harvests": [2, 4, 1, 3, 2],
        "tree": ["a", "b", "a", "a", "b"],
    }
)


def read(table=TABLE, task=TASK, patches="fresh", **names):
    settings = {name: names.pop(name) for name in ("subjects", "separator") if name in names}
    return foraging.from_stays(table, task, patches=patches, columns=names, **settings)


def test_the_rats_are_as_their_readme_says():
    table = foraging.rats().table
    means = table.groupby(["environment", "kind"])["harvests"].mean()
    expected = {"rich": (3.50, 6.49, 10.58), "poor": (5.23, 8.65, 12.40)}
    for environment, values in expected.items():
        for kind, value in zip(("low", "middle", "high"), values, strict=True):
            assert means[environment, kind] == pytest.approx(value, abs=0.005)
    assert (table["harvests"].min(), table["harvests"].max(), len(table)) == (1, 15, 2615)
    assert foraging.rats().decisions == 19730
    forced = foraging.rats("forced")
    assert forced.table["censored"].sum() == 214 == 19730 - forced.decisions


def test_fresh_patches_pay_their_curve_at_every_visit():
    visits = read()
    assert visits.rewards[0].tolist() == [60, 40, 20, 0, 0, 0, 0, 0]
    np.testing.assert_array_equal(visits.rewards[0], visits.rewards[2])
    assert repr(visits) == "PatchVisits(5 visits of 2 subjects, 12 decisions, patches fresh)"
    assert [len(own.table) for _, own in visits.by_subject()] == [3, 2]


def test_patches_that_wear_off_over_the_session_go_on_where_they_stopped():
    visits = read(patches="session", patch="tree")
    assert visits.rewards[2].tolist()[:3] == [20, 0, 0], "two harvests of tree a were made before"
    assert visits.rewards[3].tolist()[:3] == [60, 40, 20], "another animal has patches of its own"
    halves = read(TABLE.assign(day=[1, 1, 2, 1, 1]), patches="session", patch="tree", session="day")
    assert halves.rewards[2].tolist()[:3] == [60, 40, 20]


def test_patches_that_grow_back_wait_while_the_animal_is_elsewhere():
    trace = wane.EligibilityTrace(0.5, 0.9)
    visits = read(patches=trace, patch="tree")
    memory = trace.initial()
    for _ in range(2):
        memory = trace.visit(memory)
    for _ in range(1 + 4 + 1):  # The way to tree b, its four harvests, and the way back, in harvests of 10 s.
        memory = trace.wait(memory)
    assert visits.rewards[2, 0] == pytest.approx(60 * trace.worth(memory), rel=1e-12)
    assert not visits.fresh
    mixed = read(TABLE.iloc[[0, 3, 1, 4, 2]], patches=trace, patch="tree")
    np.testing.assert_array_equal(mixed.rewards[[0, 2, 4, 1, 3]], visits.rewards, "rows of two animals may alternate")


def test_patches_and_sessions_need_names():
    for name in ("tree", "day"):
        table = TABLE.assign(day=1).astype({name: object})
        table.loc[1, name] = None
        with pytest.raises(ValueError, match=f"{'patch' if name == 'tree' else 'session'} is missing in row 1"):
            read(table, patches="session", patch="tree", session="day")


def test_visits_that_reach_their_limit_are_censored():
    visits = read(TABLE.assign(most=[2, 9, 9, 3, 9]), limit="most")
    assert visits.table["censored"].tolist() == [True, False, False, True, False]
    with pytest.raises(ValueError, match="row 1 has 4 harvests, but its limit is 3"):
        read(TABLE.assign(most=3), limit="most")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"subject": [1, None, 1, 2, 2]}, "subject is missing in row 1: every row needs one"),
        ({"subject": ["a", " ", "a", "b", "b"]}, "subject is missing in row 1: every row needs one; fill it in"),
        ({"subject": ["a", "a ", "a", "b", "b"]}, "subject is 'a ' in row 1: remove the spaces around it"),
        ({"harvests": [2, -4, 1, 3, 2]}, "harvests is -4 in row 1: give a whole number of harvests, 1 or more"),
        ({"harvests": [2, 4.5, 1, 3, 2]}, "in row 1: give a whole number"),
        ({"harvests": [2, np.inf, 1, 3, 2]}, "in row 1: give a number of harvests"),
        ({"harvests": [True, True, True, False, True]}, "harvests is True in row 0: give a number of harvests"),
        ({"harvests": [2, 4 + 0j, 1, 3, 2]}, r"harvests is \(2\+0j\) in row 0: give a number of harvests"),
        ({"harvests": pd.Series([2, True, 1, 3, 2], dtype=object)}, "harvests is True in row 1: give a number"),
        ({"harvests": ["2", "x", "1", "3", "2"]}, "harvests is 'x' in row 1: give a number of harvests"),
        (
            {"kind": ["low", "hihg", "low", "low", "high"]},
            "kind is 'hihg' in row 1, which is none of 'low', 'high': name it",
        ),
        ({"environment": "moor"}, "environment is 'moor' in row 0, which is none of 'rich', 'poor'"),
    ],
)
def test_bad_rows_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        read(TABLE.assign(**change))


def test_lines_are_counted_as_an_editor_counts_them(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("subject,kind,environment,harvests\n1,low,rich,2\n1,low,rich,0\n")
    with pytest.raises(ValueError, match=r"harvests is .*0.* in line 3 of .*visits\.csv"):
        read(path)
    path.write_text("subject;kind;environment;harvests\n1;low;rich;2\n")
    with pytest.raises(ValueError, match='pass separator=";"'):
        read(path)
    assert len(read(path, separator=";").table) == 1


def test_labels_of_a_file_stay_as_they_are_written(tmp_path):
    path = tmp_path / "visits.csv"
    head = "subject,kind,environment,harvests,weight\n"
    path.write_text(head + "007,1,rich,2,10\n7,1,rich,2,20\nNA,2,rich,3,\n")
    for kinds in ({"1": 60, "2": 120}, {1: 60, 2: 120}):
        found = read(path, foraging.Task.linear(kinds, 20, {"rich": 10}))
        assert found.subjects == ["007", "7", "NA"]
        assert found.table["kind"].tolist() == [*kinds][:1] * 2 + [*kinds][1:]
        assert found.table["weight"].tolist()[:2] == [10.0, 20.0], "other columns are numbers, as before"
    path.write_text(head + "7,low,rich,2,1\n10,low,rich,2,1\n")
    assert read(path).subjects == [7, 10], "plain whole numbers are numbers, as in other tables of the package"
    path.write_text(head + "7,low,rich,2,1\n,low,rich,2,1\n")
    with pytest.raises(ValueError, match=r"subject is missing in line 3 of .*visits\.csv"):
        read(path)
    path.write_text(head + "7,low,rich,2,1,5\n")
    with pytest.raises(ValueError, match="has rows with more entries than its first line: name every column there"):
        read(path)


def test_columns_and_subjects_that_are_not_there():
    with pytest.raises(ValueError, match=r"no column 'harvest' \(did you mean 'harvests'\?\).*{\"harvests\": \"…\"}"):
        read(harvests="harvest")
    with pytest.raises(ValueError, match="subject 3 has no visits, there are 1, 2"):
        read(subjects=[1, 2, 3])
    with pytest.raises(ValueError, match="subject 2 is in the table but not in subjects"):
        read(subjects=[1])
    with pytest.raises(ValueError, match="the task has more than one kind, 'low', 'high', and kind=None does not tell"):
        read(kind=None)
    with pytest.raises(
        ValueError, match="the column 'tree' of .* is named for the kind and for the patch: name another"
    ):
        read(kind="tree", patch="tree", patches="session")
    with pytest.raises(ValueError, match="the table of visits has two columns 'kind': rename one of them"):
        read(TABLE.rename(columns={"tree": "kind"}))
    with pytest.raises(ValueError, match='must have names: give their column, columns={"patch": "…"}'):
        read(patches="session")
    with pytest.raises(ValueError, match="patches is 'full': give \"fresh\" if every visit"):
        read(patches="full")
    with pytest.raises(ValueError, match="no rows"):
        read(TABLE.iloc[:0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(rewards={"a": [1.0, np.inf]}, travel={"e": 1}), "harvest 2 of 'a' pays inf"),
        (dict(rewards={"a": [1.0]}, travel={"e": -1}), r"travel\['e'\] = -1: a number of at least 0 is needed"),
        (dict(rewards={"a": [1.0]}, travel={"e": 1}, harvest=0), "harvest = 0: a number above 0 is needed"),
        (dict(rewards={"a": [1.0]}, travel={"e": 1}, chances={"b": 1}), "must name the same kinds"),
        (dict(rewards={}, travel={"e": 1}), "at least one kind of patch"),
    ],
)
def test_tasks_that_make_no_sense(settings, message):
    with pytest.raises(ValueError, match=message):
        foraging.Task(**settings)


@pytest.mark.parametrize(
    ("first", "drop", "message"),
    [
        ({"low": np.inf}, 8, r"first\['low'\] = inf: a number that is finite is needed"),
        ({"low": np.nan}, 8, r"first\['low'\] = nan: a number that is finite is needed"),
        ({"low": -5.0}, 8, "the first harvest of 'low' pays -5.0: give a number of at least 0"),
        ({"low": 1e9}, 8, "the first harvest of 'low' pays 1000000000.0: give a number .* at most 9998 times the drop"),
        ({"low": 60}, 0, "drop = 0: a number above 0 is needed"),
        ({"low": 60}, "8", "drop = 8: a number above 0 is needed"),
    ],
)
def test_first_rewards_and_drops_that_make_no_sense(first, drop, message):
    with pytest.raises(ValueError, match=message):
        foraging.Task.linear(first, drop, {"rich": 1})


def test_files_and_columns_that_are_no_tables(tmp_path):
    (tmp_path / "book.xlsx").write_bytes(b"PK\x03\x04\xad")
    with pytest.raises(ValueError, match='book.xlsx is not a text file in UTF-8: save it as "CSV UTF-8"'):
        read(tmp_path / "book.xlsx")
    with pytest.raises(ValueError, match="the columns have different lengths, subject 2, kind 1: give every column"):
        read({"subject": [1, 2], "kind": ["low"]})


def test_columns_by_their_old_names_warn_and_unknown_ones_are_refused():
    with pytest.warns(DeprecationWarning, match=r"from_stays\(harvests=…\) is deprecated: use columns=…"):
        old = foraging.from_stays(TABLE.rename(columns={"harvests": "n"}), TASK, patches="fresh", harvests="n")
    pd.testing.assert_frame_equal(old.table, read().table)
    with pytest.raises(ValueError, match="columns has the key 'tree', which is no needed column: its keys may be sub"):
        read(tree="patch")
    with (
        pytest.warns(DeprecationWarning, match="kind=…"),
        pytest.raises(TypeError, match="got columns and also kind=…: give columns alone"),
    ):
        foraging.from_stays(TABLE, TASK, patches="fresh", columns={}, kind="kind")


def test_polars_tables_are_read():
    polars = pytest.importorskip("polars")
    pd.testing.assert_frame_equal(read(polars.DataFrame(TABLE.to_dict("list"))).table, read().table)


def test_empirical_kernels_and_policies_feed_the_exact_functions():
    kernel = foraging.empirical_kernel([[0, 1, 2, 1, 0], [1, 1]], 3)
    np.testing.assert_allclose(kernel, [[0, 1, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1, 0]])
    assert np.isfinite(wane.lambda_representation(kernel, 0.5, discount=0.9).matrix).all()
    policy = foraging.empirical_policy([[0, 1, 2, 1]], [[1, 1, 0]], 3, 2)
    assert policy.tolist() == [[0, 1], [0, 1], [1, 0]]
    with pytest.raises(ValueError, match="sequence 0 has state 3 at step 1: there are 3"):
        foraging.empirical_kernel([[0, 3]], 3)
    with pytest.raises(ValueError, match="4 states and 1 actions"):
        foraging.empirical_policy([[0, 1, 2, 1]], [[1]], 3, 2)
