"""A run's folder holds whole results or none, and nothing is read or written through symbolic links."""

import json
import os

import pytest

from wane.files import write_json
from wane.lab.runs import Folder, RunError
from wane.lab.runs.job import checksums


def results(number: int, *files: str):
    def fill(folder):
        for name in ("walks.parquet", *files):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(str(number))
        write_json(folder / "run.json", {"number": number, "files": checksums(folder)})

    return fill


FILES = ("film-0.gif", "agents/a/config.json")


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path / "quick" / "run")
    with folder.locked():
        folder.publish(results(1, *FILES))
    return folder


def content(folder: Folder) -> dict[str, str]:
    files = [path for path in folder.path.rglob("*") if path.is_file() and path.name != ".lock"]
    return {path.relative_to(folder.path).as_posix(): path.read_text() for path in files}


def test_results_are_replaced_whole(folder):
    assert folder.record()["number"] == 1
    with folder.locked():
        folder.publish(results(2))
    assert folder.record()["number"] == 2
    assert set(content(folder)) == {"walks.parquet", "run.json"}
    assert not (folder.path / "agents").exists()


def test_a_failure_leaves_earlier_results(folder):
    before = content(folder)

    def fill(path):
        (path / "walks.parquet").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"), folder.locked():
        folder.publish(fill)
    with folder.locked():
        assert content(folder) == before
        assert folder.record()["number"] == 1
    assert not (folder.path / ".new").exists()


@pytest.mark.parametrize("moved", [(), ("walks.parquet",), ("walks.parquet", *FILES), ("all",)])
def test_a_kill_while_moving_into_place_is_mended(folder, moved):
    ready = folder.path / ".ready"
    ready.mkdir()
    results(2, *FILES)(ready)
    for name in ("walks.parquet", *FILES, "run.json") if moved == ("all",) else moved:
        (ready / name).replace(folder.path / name)
    assert folder.record()["number"] == 2, "what is not moved yet is found in .ready"
    with folder.locked():
        assert folder.record()["number"] == 2
    assert {name: text for name, text in content(folder).items() if name != "run.json"} == dict.fromkeys(
        ("walks.parquet", *FILES), "2"
    )
    assert not ready.exists()


def test_reading_writes_nothing(folder):
    ready = folder.path / ".ready"
    ready.mkdir()
    results(2)(ready)
    before = content(folder)
    assert folder.record()["number"] == 2
    assert content(folder) == before


@pytest.mark.parametrize("name", ["walks.parquet", *FILES])
@pytest.mark.parametrize("harm", [lambda path: path.unlink(), lambda path: path.write_text("1 and more")])
def test_missing_or_changed_files_mean_not_done(folder, name, harm):
    harm(folder.path / name)
    assert folder.record() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"number": 1}', '{"files": ["walks.parquet"]}'])
def test_a_damaged_record_means_not_done(folder, text):
    (folder.path / "run.json").write_text(text)
    assert folder.record() is None


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "agents/../../outside"])
def test_files_outside_of_the_folder_are_not_read(folder, name):
    (folder.path.parent / "outside").write_text("1")
    record = json.loads((folder.path / "run.json").read_text())
    sha = record["files"]["walks.parquet"]
    write_json(folder.path / "run.json", record | {"files": {name: sha}})
    assert folder.record() is None


def test_one_process_at_a_time(folder):
    with folder.locked(), pytest.raises(RunError, match="another process is at work"), Folder(folder.path).locked():
        pass
    with Folder(folder.path).locked():
        assert folder.record()["number"] == 1


def test_a_file_in_its_place_is_named(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(RunError, match="is a file: name another --out"), Folder(tmp_path / "run").locked():
        pass


@pytest.mark.parametrize("name", [".lock", ".ready", ".new", "checkpoint", "agents"])
def test_symbolic_links_are_refused(folder, name):
    """A link could make a run write outside of its folder."""
    outside = folder.path.parent / "outside"
    outside.mkdir()
    results(2)(outside)
    place = folder.path / name
    if place.is_dir():
        place.rename(folder.path / "old")
    place.unlink(missing_ok=True)
    place.symlink_to(outside)
    before = {path.name: path.read_bytes() for path in outside.iterdir()}
    with pytest.raises(RunError, match=rf"{name} is a symbolic link.*remove it"), Folder(folder.path).locked():
        pass
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == before


@pytest.mark.parametrize(
    "name", ["checkpoint/fixed", "checkpoint/fixed/tables", "checkpoint/a.safetensors", "run.json"]
)
def test_links_deep_in_the_folder_are_refused(folder, name, tmp_path):
    """Parts and checkpoints are written below the folder, and would be written through a link."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
    (folder.path / name).unlink(missing_ok=True)
    (folder.path / name).symlink_to(outside)
    with pytest.raises(RunError, match="is a symbolic link"), folder.locked():
        pass
    assert not list(outside.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        *("run.json", "claims.json", "figure.png", "film-3.gif", "walks.parquet", "agents/b/config.json", ".lock"),
        *("checkpoint/started.json", "checkpoint/seeds-0-1/part.json", "checkpoint/fixed/walk.safetensors"),
    ],
)
def test_a_folder_in_the_place_of_a_file_is_refused_before_the_work(folder, name):
    place = folder.path / name
    place.unlink(missing_ok=True)
    place.mkdir(parents=True)
    with pytest.raises(RunError, match=rf"{place.name} is .* belongs there: remove it"), folder.locked():
        pytest.fail("the work began")


@pytest.mark.parametrize("name", [".new", ".ready", "agents/b", "checkpoint", "checkpoint/fixed"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.write_text("")])
def test_a_file_in_the_place_of_a_folder_is_refused_before_the_work(folder, name, make):
    place = folder.path / name
    place.parent.mkdir(exist_ok=True)
    make(place)
    with pytest.raises(RunError, match=rf"{place.name} is a file, and a folder .* remove it"), folder.locked():
        pytest.fail("the work began")


@pytest.mark.parametrize("depth", [0, 1])
def test_the_folder_of_a_run_and_that_of_its_scale_are_no_links(folder, tmp_path, depth):
    place = folder.path if depth == 0 else folder.path.parent
    moved = place.rename(tmp_path / "elsewhere")
    place.symlink_to(moved)
    with pytest.raises(RunError, match="is a symbolic link"), folder.locked():
        pass


def test_the_folder_of_all_runs_may_be_a_link(folder, tmp_path):
    moved = folder.path.parents[1] / "scratch"
    folder.path.parent.rename(moved)
    (tmp_path / "out").symlink_to(tmp_path)
    moved.rename(tmp_path / "quick")
    with Folder(tmp_path / "out" / "quick" / "run").locked():
        assert Folder(tmp_path / "out" / "quick" / "run").record()["number"] == 1


@pytest.mark.parametrize("name", ["run.json", "walks.parquet"])
def test_a_pipe_in_the_place_of_a_file_means_not_done(folder, name):
    """Reading a pipe would last for ever."""
    (folder.path / name).unlink()
    os.mkfifo(folder.path / name)
    assert folder.record() is None


def test_results_are_not_moved_through_a_link(folder, tmp_path):
    (tmp_path / "outside").mkdir()
    agent = folder.path / "agents" / "b"
    agent.symlink_to(tmp_path / "outside")
    with pytest.raises(RunError, match="symbolic link"), folder.locked():
        folder.publish(results(2, "agents/b/config.json"))
    assert not list((tmp_path / "outside").iterdir())


@pytest.mark.parametrize("name", ["walks.parquet", "run.json", "agents/a"])
def test_results_behind_a_link_do_not_count(folder, tmp_path, name):
    (folder.path / name).rename(tmp_path / "outside")
    (folder.path / name).symlink_to(tmp_path / "outside")
    assert folder.record() is None
