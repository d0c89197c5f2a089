"""Events and tracks: steps, visits, and notes on what was filled in."""

import datetime
import time

import numpy as np
import pandas as pd
import pytest

from wane import foraging
from wane.foraging import Circle

VISITS = pd.DataFrame({"patch": ["oak", "elm", "oak"], "arrival": [1.0, 7.0, 11.0], "departure": [5.0, 8.5, np.nan]})
PREY = pd.DataFrame({"time": [1.3, 1.4, 2.0, 3.1, 6.0, 7.2, 8.1, 12.0]})
PATCHES = {"oak": Circle(2, 0, 0.5), "elm": [(4, -1), (6, -1), (6, 1), (4, 1)]}


def test_events_become_steps_and_visits():
    recording = foraging.from_events(VISITS, PREY, step=0.5, end=13.0)
    assert repr(recording) == "Recording(3 visits of 1 subject, 24 steps of 0.5, 2 notes)"
    visits = recording.visits
    assert visits["duration"].tolist() == [4.0, 1.5, 2.0]
    assert visits["harvests"].tolist() == [8, 3, 4]
    assert visits["reward"].tolist() == [4.0, 2.0, 1.0]
    assert visits["travel"].tolist()[1:] == [2.0, 2.5]
    assert visits["censored"].tolist() == [False, False, True]
    assert recording.notes == (
        "subject 1, session 1: 1 reward came while the animal was in no patch; no visit counts them.",
        "subject 1, session 1: 1 visit had not ended when the session ended (censored): nobody saw the leaving.",
    )
    bouts = foraging.bouts(recording.steps, by="subject")
    assert bouts["steps"].tolist() == visits["harvests"].tolist()
    assert bouts["reward"].tolist() == visits["reward"].tolist()
    assert recording.steps["reward"].sum() == len(PREY)
    ended = foraging.from_events(VISITS.iloc[:2], step=0.5)
    assert foraging.bouts(ended.steps, by="subject")["censored"].tolist() == [False, False], "both were left"


def test_dates_are_counted_in_seconds():
    start = pd.Timestamp("2024-03-01 10:00")
    dated = VISITS.assign(**{c: start + pd.to_timedelta(VISITS[c], unit="s") for c in ("arrival", "departure")})
    prey = pd.DataFrame({"time": start + pd.to_timedelta(PREY["time"], unit="s")})
    found = foraging.from_events(dated, prey, step=0.5).visits
    expected = foraging.from_events(VISITS, PREY, step=0.5).visits
    np.testing.assert_allclose(found["duration"], expected["duration"])
    assert found["reward"].tolist() == expected["reward"].tolist()


@pytest.mark.parametrize(
    ("times", "settings", "gap"),
    [
        (["12/02/2026 10:00", "13/02/2026 10:00"], {}, 86400.0),
        (["02/12/2026 10:00 PM", "02/13/2026 9:00 AM"], {}, 39600.0),
        (["11.02.2026 10:00", "12.02.2026 10:00"], {"day_first": True}, 86400.0),
        (["11.02.2026 10:00", "12.02.2026 10:00"], {"day_first": False}, 30 * 86400.0),
        (["11/02/2026 10:00", "11/02/2026 10:00:00.25"], {}, 0.25),
        (["31-Jan-2026 23:59", "1-Feb-2026"], {}, 60.0),
        (["2026-02-12T10:00:00+02:00", "2026-02-12 09:00:00,000001Z"], {}, 3600.000001),
        ([datetime.time(10, 0), datetime.time(10, 1)], {}, 60.0),
        ([datetime.datetime(2026, 2, 12), pd.Timestamp("2026-02-13")], {}, 86400.0),
    ],
)
def test_dates_are_read_as_they_are_meant(times, settings, gap):
    visits = {"patch": ["oak", "elm"], "arrival": times, "departure": [times[1], None]}
    found = foraging.from_events(visits, step=gap, **settings).visits
    assert found["patch"].tolist() == ["oak", "elm"]
    assert found["arrival"].tolist() == [0.0, pytest.approx(gap, abs=1e-9)]
    track = foraging.from_track(times, [2.0, 2.0], [0.0, 0.0], patches=PATCHES, **settings)
    assert track.step == pytest.approx(gap, abs=1e-9)


ZONED = datetime.datetime(2026, 2, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (
            ["11/02/2026 10:00", "12/02/2026 10:00"],
            "'11/02/2026 10:00' in row 0.*no date tells which number is the day",
        ),
        (
            ["13/02/2026 10:00", "02/14/2026 10:00"],
            "with the day first, and '02/14/2026 10:00' in .*, with the month fir",
        ),
        (["23:50", "00:10"], r"'23:50' in row 0.* and then '00:10' .*whether midnight has passed or the "),
        (["2026-02-12 10:00", "2026-02-12 11:00+02:00"], "without a time zone, but '2026-02-12 11:00.02:00' in row 1"),
        (
            [datetime.datetime(2026, 2, 12), ZONED],
            "without a time zone, but datetime.datetime.* with one: write the zone",
        ),
        (["2026-02-12 10:00", "10:10"], "'10:10' in row .*, without a date, but '2026-02-12 10:00' in row 0"),
        (["2026-02-12 10:00", "2026-02-30 10:00"], "'2026-02-30 10:00' in .*: there is no such day; correct it"),
        (["2026-02-12 10:00", "2026-02-12 10:60"], "'2026-02-12 10:60' in .*: there is no such time of day"),
        (["2026-02-12 10:00Z", "2026-02-12 10:01+99:00"], "there is no such time zone; correct it"),
        (["12/02/26 10:00", "13/02/26 10:00"], "'12/02/26 10:00' in .*: write the year with four digits, 2026-02-13"),
        (["1-Xyz-2026 10:00", "2-Jan-2026"], "write the month as a number, or with its English name"),
        (["2026-02-12 10:00 CET", "2026-02-12 11:00 CET"], "give a number, or a date with its time, such as 2026"),
    ],
)
def test_dates_that_can_be_read_in_two_ways_are_refused(times, message):
    visits = {"patch": ["oak", "elm"], "arrival": times, "departure": [times[1], None]}
    with pytest.raises(ValueError, match=message):
        foraging.from_events(visits, step=60)
    with pytest.raises(ValueError, match=message.replace("row", "sample")):
        foraging.from_track(times, [2.0, 2.0], [0.0, 0.0], patches=PATCHES)


def test_the_order_that_is_told_must_fit_the_dates():
    visits = {"patch": ["oak"], "arrival": ["02/13/2026 10:00"], "departure": ["02/13/2026 11:00"]}
    with pytest.raises(ValueError, match="'02/13/2026 10:00' in row 0 .*: there is no such day with day_first=True"):
        foraging.from_events(visits, step=60, day_first=True)


def test_clocks_go_on_within_every_session_and_from_visits_to_rewards():
    visits = pd.DataFrame({"bird": ["a", "b"], "patch": "oak", "arrival": ["10:00", "9:00"], "departure": "11:00"})
    prey = pd.DataFrame({"bird": ["a", "b"], "time": ["10:30", "9:30"]})
    found = foraging.from_events(visits, prey, step=60, columns={"subject": "bird"}).visits
    assert found["duration"].tolist() == [3600.0, 7200.0], "another animal may begin earlier"
    assert found["reward"].tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match=r"'10:00' in row 0 \(arrival\) and then '0:10' in row 0 of the rewards"):
        foraging.from_events(visits, prey.assign(time=["0:10", "9:30"]), step=60, columns={"subject": "bird"})


def test_labels_of_two_files_are_matched_as_they_are_written(tmp_path):
    (tmp_path / "visits.csv").write_text("bird,patch,arrival,departure\n007,NA,1,5\n7,NA,1,5\n")
    (tmp_path / "prey.csv").write_text("bird,time\n7,2\n7,3\n")
    found = foraging.from_events(
        tmp_path / "visits.csv", tmp_path / "prey.csv", step=1, columns={"subject": "bird"}
    ).visits
    assert found[["subject", "patch", "reward"]].values.tolist() == [["007", "NA", 0.0], ["7", "NA", 2.0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"arrival": [1.0, 4.0, 11.0]},
            "the visit in row 0 lasts until 5, but that in row 1 begins at 4: an animal is",
        ),
        ({"arrival": [-1.0, 7.0, 11.0]}, r"time is -1 in row 0 \(arrival\): count times from the beginning"),
        ({"arrival": [1.0, 8.5, 11.0]}, "departs at 8.5, not after its arrival 8.5: correct the times, or delete"),
        ({"arrival": [1.0, np.nan, 11.0]}, r"time is missing in row 1 \(arrival\): give a time"),
        ({"arrival": ["1.0", "x", "11.0"]}, r"time is 'x' in row 1 \(arrival\): give a time, a finite number"),
        ({"arrival": [1.0, np.inf, 11.0]}, "time is inf in row 1"),
        ({"patch": ["oak", " ", "oak"]}, "patch is missing in row 1: every row needs one; fill it in, or delete"),
        ({"patch": ["oak", "oak ", "oak"]}, "patch is 'oak ' in row 1: remove the spaces around it"),
        ({"departure": [5.0, np.nan, np.nan]}, "the visit in row 1 has no departure"),
        ({"patch": ["oak", None, "oak"]}, "patch is missing in row 1"),
    ],
)
def test_bad_events_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        foraging.from_events(VISITS.assign(**change), PREY, step=0.5)


def test_bad_rewards_are_named():
    visits, prey = VISITS.assign(bird="a"), PREY.assign(bird="a", grams=1.0)
    settings = dict(step=0.5, columns={"subject": "bird", "amount": "grams"})
    assert foraging.from_events(visits, prey, **settings).visits["reward"].sum() == 7.0
    with pytest.raises(ValueError, match="amount is inf in row 2 of the rewards"):
        foraging.from_events(visits, prey.assign(grams=[1, 1, np.inf, 1, 1, 1, 1, 1]), **settings)
    with pytest.raises(ValueError, match="subject is 'b' in row 0 of the rewards, which is none of 'a': every subject"):
        foraging.from_events(visits, prey.assign(bird="b"), **settings)
    with pytest.raises(ValueError, match="something happens at 12, after the end of the session at 11"):
        foraging.from_events(visits, prey, end=11.0, **settings)
    twice = foraging.from_events(visits, pd.concat([prey, prey.iloc[:1]]), **settings)
    assert any("1 reward came at the same time as another one; all of them count" in note for note in twice.notes)
    assert twice.visits["reward"].sum() == 8.0
    del settings["columns"]["amount"]
    for nothing in (None, prey.iloc[:0]):
        assert foraging.from_events(visits, nothing, **settings).visits["reward"].sum() == 0.0


def walk(rng, rate=10.0, jitter=0.003):
    """A walk past both patches with a clock that jitters."""
    t = np.arange(0, 8, 1 / rate) + rng.normal(0, jitter, int(8 * rate))
    return t, t.copy(), np.zeros_like(t)


def test_a_track_with_jitter_is_read():
    t, x, y = walk(np.random.default_rng(0))
    recording = foraging.from_track(t, x, y, patches=PATCHES, step=0.1, rewards=[1.8, 1.9, 5.0])
    assert recording.visits["patch"].tolist() == ["oak", "elm"]
    np.testing.assert_allclose(recording.visits["duration"], [1.0, 2.0], atol=0.11)
    assert recording.visits["reward"].tolist() == [2.0, 1.0]
    assert len(recording.notes) == 1
    assert "80 samples were read at" in recording.notes[0]
    foraging.check_table(recording.steps, by="subject")


def test_drop_outs_are_filled_or_cut_and_told():
    t, x, y = walk(np.random.default_rng(0), jitter=0.0)
    short = (t < 1.75) | (t > 2.05)
    filled = foraging.from_track(t[short], x[short], y[short], patches=PATCHES)
    assert (
        filled.visits["harvests"].tolist() == foraging.from_track(t, x, y, patches=PATCHES).visits["harvests"].tolist()
    )
    assert any("3 steps in 1 drop-outs were filled in" in note for note in filled.notes)
    lost = np.where((t > 4.45) & (t < 5.45), np.nan, x)
    cut = foraging.from_track(t, lost, y, patches=PATCHES)
    assert any("10 steps in 1 drop-outs of more than 5 steps are left out" in note for note in cut.notes)
    assert cut.steps["episode"].unique().tolist() == ["1.1", "1.2"]
    assert cut.visits["censored"].tolist() == [False, True, False]
    assert any("1 visit had begun when the recording began" in note for note in cut.notes)
    assert any("1 visit had not ended when the session ended (censored)" in note for note in cut.notes)


def test_short_absences_are_errors_of_the_tracking_if_told_so():
    t = np.arange(0.0, 4.0, 0.1)
    x = np.where((t > 1) & (t < 3), 2.0, 0.0)
    x[20] = 0.0
    settings = dict(patches={"oak": Circle(2, 0, 0.5)})
    assert len(foraging.from_track(t, x, 0 * x, **settings).visits) == 2
    merged = foraging.from_track(t, x, 0 * x, cleaning=foraging.Cleaning(shortest=2), **settings)
    assert len(merged.visits) == 1
    assert any("1 absences and 0 stays of fewer than 2 steps" in note for note in merged.notes)


def test_arguments_of_the_last_release_warn():
    t = np.arange(0.0, 4.0, 0.1)
    table, patches = pd.DataFrame({"s": t, "x": t, "y": 0 * t}), {"oak": Circle(2, 0, 0.5)}
    new = foraging.from_track(table, patches=patches, columns={"time": "s"}, cleaning=foraging.Cleaning(shortest=2))
    with pytest.warns(DeprecationWarning, match=r"from_track\((shortest|time)=…\) is deprecated: use"):
        old = foraging.from_track(table, "x", "y", patches=patches, time="s", shortest=2)
    pd.testing.assert_frame_equal(old.visits, new.visits)
    assert old.notes == new.notes
    prey = PREY.rename(columns={"time": "when"})
    with pytest.warns(DeprecationWarning, match=r"from_events\(reward_time=…\) is deprecated: use columns=…"):
        events = foraging.from_events(VISITS, prey, step=0.5, reward_time="when")
    pd.testing.assert_frame_equal(events.visits, foraging.from_events(VISITS, PREY, step=0.5).visits)


def test_patches_by_a_function():
    t, x, y = walk(np.random.default_rng(1))
    by_function = foraging.from_track(
        t, x, y, patches=lambda x, y: np.where(np.abs(x - 2) <= 0.5, "oak", None), step=0.1
    )
    assert by_function.visits["patch"].tolist() == ["oak"]


@pytest.mark.parametrize(
    ("times", "patches", "message"),
    [
        ([0.0, 0.1, 0.1, 0.2], PATCHES, "sample 1 has the same time as sample 2"),
        ([0.0, 0.2, 0.1, 0.3], PATCHES, "sample 1 has a later time than sample 2"),
        ([0.0, 0.1, np.nan, 0.3], PATCHES, "time is missing in sample 2"),
        ([0.0, 0.1, 0.2, 0.3], {}, "patches is empty: name one patch at least"),
        (
            [0.0, 0.1, 0.2, 0.3],
            {"a": Circle(0, 0, -1)},
            "patch 'a' is .*radius=-1.*: give finite numbers",
        ),
        (
            [0.0, 0.1, 0.2, 0.3],
            lambda x, y: "oak",
            r"returned shape \(\) for 4 positions.* one label for each",
        ),
        ([0.0, 0.1, 0.2, 0.3], {"a": Circle(0, 0, 1), "b": Circle(0, 0, 2)}, "patches 'a' and 'b' overlap: sample 0"),
        ([0.0, 0.1, 0.2, 0.3], {"a": [(0, 0), (1, 1)]}, "three or more corners"),
        ([0.0, 0.1, 0.2, 0.3], {"a": Circle(50, 0, 1)}, "in no patch at any step: are the patches in the units of x"),
    ],
)
def test_bad_tracks_are_named(times, patches, message):
    with pytest.raises(ValueError, match=message):
        foraging.from_track(times, [0.0] * 4, [0.0] * 4, patches=patches)


def test_oddities_of_a_track_are_told():
    t, x, y = walk(np.random.default_rng(0), jitter=0.0)
    far = foraging.from_track(t - 1, x, y, patches=PATCHES | {"far": Circle(50, 0, 1)}, rewards=[0.8, 0.8])
    assert "The animal was never in patch 'far'." in far.notes
    assert "Times begin at -1; 10 samples before time 0 are used like all others." in far.notes
    assert "subject 1: 1 reward came at the same time as another one; all of them count." in far.notes
    with pytest.raises(ValueError, match="row 1 of the rewards is at -3, but the track is from 0 to 8: count both"):
        foraging.from_track(t, x, y, patches=PATCHES, rewards=[1.0, -3.0])
    with pytest.raises(ValueError, match="amount is inf in row 0 of the rewards: give the amount of a reward"):
        foraging.from_track(t, x, y, patches=PATCHES, rewards={"time": [1.0], "amount": [np.inf]})
    with pytest.raises(ValueError, match="subject is None: give it a name or a number"):
        foraging.from_track(t, x, y, patches=PATCHES, subject=None)
    with pytest.raises(ValueError, match="x and y must both be names of columns, or both be lists"):
        foraging.from_track(t, "x", y, patches=PATCHES)


def test_rewards_of_a_dated_track_have_dates_or_seconds():
    t, x, y = walk(np.random.default_rng(0), jitter=0.0)
    start = pd.Timestamp("2024-03-01 10:00")
    dates = start + pd.to_timedelta(t, unit="s")
    read = [
        foraging.from_track(dates, x, y, patches=PATCHES, rewards=rewards).visits["reward"].tolist()
        for rewards in ([1.8, 5.0], start + pd.to_timedelta([1.8, 5.0], unit="s"), ["2024-03-01 10:00:01.8"])
    ]
    assert read == [[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]]
    with pytest.raises(ValueError, match="time is 'noon' in row 0 of the rewards: give a number, or a date"):
        foraging.from_track(dates, x, y, patches=PATCHES, rewards=["noon"])


def test_a_million_samples_take_seconds(tmp_path):
    count = 1_000_000
    rng = np.random.default_rng(0)
    t = np.arange(count) / 50 + rng.normal(0, 0.001, count)
    angle = 2 * np.pi * np.arange(count) / 5000
    begin = time.perf_counter()
    recording = foraging.from_track(
        t, 10 * np.cos(angle), 10 * np.sin(angle), patches={"a": Circle(10, 0, 3)}, step=0.02
    )
    stays = foraging.bouts(recording.steps, by="subject")
    assert time.perf_counter() - begin < 10
    assert len(stays) == len(recording.visits) == 201


def test_recordings_become_visits_of_a_task():
    one = foraging.from_events(VISITS, PREY, step=1.0, end=13.0)
    task = foraging.Task({"tree": [2.0, 1.0]}, {"wood": 2.0})
    visits = one.to_visits(task, patches="fresh", kinds={"oak": "tree", "elm": "tree"})
    assert visits.table["harvests"].tolist() == [4, 2, 2]
    with pytest.raises(ValueError, match="kinds has no entry for patch 'elm'"):
        one.to_visits(foraging.Task({"a": [2.0], "b": [1.0]}, {"wood": 2.0}), patches="fresh", kinds={"oak": "a"})
    other = foraging.Task({"oak": [2.0], "ash": [1.0]}, {"wood": 2.0})
    with pytest.raises(ValueError, match="patch 'elm' has the kind 'elm', and the task has 'oak', 'ash': say of which"):
        one.to_visits(other, patches="fresh")
    with pytest.raises(ValueError, match="a harvest of the task takes 5 but a step takes 1"):
        one.to_visits(foraging.Task({"tree": [2.0]}, {"wood": 2.0}, harvest=5), patches="fresh")
    with pytest.raises(ValueError, match="two recordings hold session 1 of subject 1"):
        foraging.join([one, one])


def test_gain_curves_and_tasks_are_estimated_from_recordings():
    recording = foraging.from_events(VISITS.fillna(13.0), PREY, step=1.0)
    curve = foraging.gain_curve(recording, {"oak": "tree", "elm": "tree"})
    by_hand = [np.mean([2, 1, 0]), np.mean([1, 1, 1]), 1.0, 0.0]
    np.testing.assert_allclose(curve["reward"], by_hand)
    np.testing.assert_allclose(curve["gain"], np.cumsum(by_hand))
    task = foraging.estimate_task(recording, kinds={"oak": "tree", "elm": "tree"}, fewest=2)
    np.testing.assert_allclose(task.rewards["tree"], by_hand[:2])
    assert task.travel == {"all": 2.25}
    with pytest.raises(ValueError, match="kind 'tree' has 3 visits, at least 5 are needed"):
        foraging.estimate_task(recording, kinds={"oak": "tree", "elm": "tree"})


def test_pynapple_objects_are_read():
    nap = pytest.importorskip("pynapple")
    t, x, y = walk(np.random.default_rng(0))
    frame = nap.TsdFrame(t=np.sort(t), d=np.column_stack([x, y]), columns=["x", "y"])
    assert foraging.from_track(frame, patches=PATCHES, step=0.1).visits["patch"].tolist() == ["oak", "elm"]
    epochs = nap.IntervalSet(start=[1.0, 7.0], end=[5.0, 8.5], metadata={"patch": ["oak", "elm"]})
    prey = nap.Ts(t=PREY["time"].to_numpy()[:7])
    found = foraging.from_events(epochs, prey, step=0.5, columns={"arrival": "start", "departure": "end"})
    assert found.visits["reward"].tolist() == [4.0, 2.0]
    amounts = nap.Tsd(t=PREY["time"].to_numpy()[:7], d=np.full(7, 0.5))
    found = foraging.from_events(
        epochs, amounts, step=0.5, columns={"arrival": "start", "departure": "end", "amount": "value"}
    )
    assert found.visits["reward"].tolist() == [2.0, 1.0]


def test_nwb_files_are_read_by_pynapple(tmp_path):
    nap, pynwb = pytest.importorskip("pynapple"), pytest.importorskip("pynwb")
    t, x, y = walk(np.random.default_rng(0))
    file = pynwb.NWBFile("a session", "1", datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
    series = pynwb.behavior.SpatialSeries(
        name="position", data=np.column_stack([x, y]), reference_frame="box", timestamps=np.sort(t)
    )
    file.create_processing_module("behavior", "tracking").add(pynwb.behavior.Position(spatial_series=series))
    visits = pynwb.epoch.TimeIntervals(name="visits", description="stays in patches")
    visits.add_column("patch", "the label of the patch")
    for start, stop, patch in ((1.0, 5.0, "oak"), (7.0, 8.5, "elm")):
        visits.add_row(start_time=start, stop_time=stop, patch=patch)
    file.add_time_intervals(visits)
    with pynwb.NWBHDF5IO(tmp_path / "session.nwb", "w") as out:
        out.write(file)
    loaded = nap.load_file(str(tmp_path / "session.nwb"))
    track = foraging.from_track(loaded["position"], "x", "y", patches=PATCHES, step=0.1)
    assert track.visits["patch"].tolist() == ["oak", "elm"]
    events = foraging.from_events(loaded["visits"], PREY, step=0.5, columns={"arrival": "start", "departure": "end"})
    loaded.close()
    assert events.visits["patch"].tolist() == ["oak", "elm"]
