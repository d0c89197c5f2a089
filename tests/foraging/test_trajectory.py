import numpy as np
import pandas as pd
import pytest

from wane import foraging
from wane.worlds import make

TABLE = pd.DataFrame(
    {
        "episode": [1, 1, 1, 1, 2, 2],
        "time": [0, 1, 2, 3, 0, 1],
        "site": ["oak", "oak", None, "NA", None, "oak"],
        "reward": [4.0, 0.1 + 0.2, 0.0, 1 / 3, 0.0, 4.0],
        "weight": [20.5, np.nan, 20.6, 20.6, 19.0, 19.0],
    }
)


def test_csv_round_trip_is_exact(tmp_path):
    foraging.check_table(TABLE).to_csv(tmp_path / "a.csv", index=False)
    read = foraging.read_csv(tmp_path / "a.csv")
    pd.testing.assert_frame_equal(read, foraging.check_table(TABLE))
    assert read["site"].tolist()[3] == "NA", "a patch may be called NA"
    assert read["weight"].isna().sum() == 1, "other columns are read as usual"


def test_csv_with_other_names_and_marks(tmp_path):
    path = tmp_path / "b.csv"
    path.write_text("trial;t;patch;pellets;bird\n1;0.033; 3;1;a\n1;0.067;3;0;a\n1;0.100;;0;a\n", encoding="utf-8-sig")
    names = {"episode": "trial", "time": "t", "site": "patch", "reward": "pellets"}
    read = foraging.read_csv(path, names, separator=";", by="bird")
    assert list(read.columns) == ["episode", "time", "site", "reward", "bird"]
    assert read["site"].tolist()[:2] == [3, 3]
    assert read["site"].isna().tolist() == [False, False, True]
    with pytest.raises(ValueError, match="not separated by ',': pass separator=\";\""):
        foraging.read_csv(path)
    with pytest.raises(ValueError, match="no column 'field' for site: there are trial, t, patch"):
        foraging.read_csv(path, {"site": "field"}, separator=";")
    with pytest.raises(
        ValueError, match="columns has the key 'patch', which is no needed column: its keys may be episode"
    ):
        foraging.read_csv(path, {"patch": "site"}, separator=";")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "c.csv is not a table of values with ',' between them"),
        ("episode,time,site,reward\n1,0,bäume,1\n".encode("latin-1"), "is not a text file in UTF-8"),
        (b"episode,time,site,reward\n1,0,a,1\n1,1,a,two\n", "reward is 'two' in line 3 of .*c.csv"),
        (
            b"episode,time,site,reward\n1,0,a,1\n1,1,a,\n",
            "reward is '' in line 3 of .*c.csv: give a number, 0 where nothing was received",
        ),
        (b"episode,time,site,reward\n1,0,a,1,9\n1,1,a,1,9\n", "more entries than its first line"),
        (b"episode,time,site,reward\n", "no rows"),
    ],
)
def test_csv_errors(tmp_path, content, message):
    (tmp_path / "c.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        foraging.read_csv(tmp_path / "c.csv")


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("reward", [1, 2, np.nan, 4, 5, 6], "reward is nan in row 2: give a number, 0 where"),
        ("reward", [1, 2, 3, np.inf, 5, 6], "reward is inf in row 3"),
        ("time", [0, 1, 1, 2, 0, 1], r"episode 1 time 1 \(row 1\) is followed by 1 \(row 2\), the same: .*by="),
        ("time", [0, 2, 1, 3, 0, 1], r"episode 1 time 2 \(row 1\) is followed by 1 \(row 2\), an earlier one: sort"),
        ("time", [0, 1, 2, 5, 0, 1], r"episode 1 time 2 \(row 2\) is followed by 5 \(row 3\), not one step of 1 later"),
        ("time", pd.date_range("2024-01-01", periods=6), r"time is Timestamp.* in row 0: give a number"),
        ("site", ["a", 1.5, None, None, None, None], "site is 1.5 in row 1: give a label or a whole number"),
        ("episode", [1, None, 1, 1, 2, 2], "episode is missing in row 1"),
    ],
)
def test_table_errors(column, values, message):
    with pytest.raises(ValueError, match=message):
        foraging.check_table(TABLE.assign(**{column: values}))


@pytest.mark.usefixtures("unchecked_types")
def test_missing_columns_are_named():
    with pytest.raises(ValueError, match="no column 'site', there are episode, time, reward, weight: rename one"):
        foraging.check_table(TABLE.drop(columns="site"))
    with pytest.raises(ValueError, match="no column 'animal'"):
        foraging.check_table(TABLE, by="animal")
    with pytest.raises(ValueError, match="two columns are called 'site'"):
        foraging.check_table(TABLE.rename(columns={"weight": "site"}))
    with pytest.raises(TypeError, match="a list is not a trajectory table: give a pandas DataFrame"):
        foraging.check_table([])  # pyright: ignore[reportArgumentType]


def test_sites_are_numbers_or_text():
    def sites(values):
        return foraging.check_table(TABLE.assign(site=values))["site"].astype(object).where(lambda s: s.notna(), None)

    assert sites([0, 0, -1, 2, -1, 2]).tolist() == [0, 0, None, 2, None, 2]
    assert sites([0.0, 0.0, np.nan, 2.0, np.nan, 2.0]).tolist() == [0, 0, None, 2, None, 2]
    assert sites(["0", "0", "-1", "2", "", "2"]).tolist() == [0, 0, None, 2, None, 2]
    assert sites(["07", "07", "-1", "7", "", "7"]).tolist() == ["07", "07", None, "7", None, "7"], "07 is a name"


def test_interleaved_episodes_are_put_together():
    mixed = TABLE.iloc[[0, 4, 1, 5, 2, 3]]
    pd.testing.assert_frame_equal(foraging.check_table(mixed), foraging.check_table(TABLE))
    shared = TABLE.assign(episode=0, bird=["a", "a", "a", "a", "b", "b"])
    assert len(foraging.check_table(shared, by="bird")) == 6
    with pytest.raises(ValueError, match="an earlier one"):
        foraging.check_table(shared)


@pytest.mark.parametrize(
    ("timing", "times", "sites"), [("arrival", [1, 2, 3], [-1, 1, 1]), ("departure", [0, 1, 2], [0, -1, 1])]
)
def test_table_from_rollout(timing, times, sites):
    world = make("toy", timing=timing)
    a, middle, b = world.map.find("1"), world.map.find("S"), world.map.find("2")
    cells, rewards = [[a, middle, b, b], [middle, middle, middle, middle]], [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]
    table = foraging.table_from_rollout(world, cells, rewards, distance=4, seed=[7, 8], lengths=[3, 2])
    assert table["time"].tolist() == [*times, *times[:2]]
    assert table["site"].fillna(-1).tolist() == [*sites, -1, -1]
    assert table["seed"].tolist() == [7, 7, 7, 8, 8]
    assert table["distance"].tolist() == [4] * 5
    assert table["reward"].tolist() == [1, 2, 3, 0, 0]


def test_rollout_errors():
    world = make("toy")
    with pytest.raises(ValueError, match=r"cells has shape \(1, 2\) and rewards \(1, 2\)"):
        foraging.table_from_rollout(world, [[0, 1]], [[0.0, 0.0]])
    with pytest.raises(ValueError, match="cells holds 0 to 3 of type int64: give whole numbers from 0 to 2"):
        foraging.table_from_rollout(world, [[0, 3]], [[0.0]])
    with pytest.raises(ValueError, match="column 'seed': give one value, or one for each of the 1 episodes"):
        foraging.table_from_rollout(world, [[0, 1]], [[0.0]], seed=[1, 2])
    with pytest.raises(ValueError, match=r"lengths has the shape \(2,\): give one, or one for each of the 1 episodes"):
        foraging.table_from_rollout(world, [[0, 1]], [[0.0]], lengths=[1, 1])
