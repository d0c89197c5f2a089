import json

import pytest

from wane.runs.checkpoint import RunError
from wane.runs.folder import Folder, finish_moves


def results(number: int, *films: str):
    def fill(folder):
        for name in ("results.parquet", *films):
            (folder / name).write_text(str(number))
        (folder / "run.json").write_text(json.dumps({"number": number, "files": ["results.parquet", *films]}))

    return fill


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path / "quick" / "run")
    with folder.locked():
        folder.publish(results(1, "film-0.gif"))
    return folder


def content(folder: Folder) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.path.iterdir() if not path.name.startswith(".")}


def test_results_are_replaced_whole(folder):
    assert folder.record()["number"] == 1
    with folder.locked():
        folder.publish(results(2))
    assert folder.record()["number"] == 2
    assert set(content(folder)) == {"results.parquet", "run.json"}


def test_a_failure_leaves_earlier_results(folder):
    before = content(folder)

    def fill(path):
        (path / "results.parquet").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"), folder.locked():
        folder.publish(fill)
    with folder.locked():
        assert content(folder) == before
        assert folder.record()["number"] == 1
    assert not (folder.path / ".new").exists()


@pytest.mark.parametrize("moved", [(), ("results.parquet",), ("results.parquet", "film-0.gif"), ("all",)])
def test_a_kill_while_moving_into_place_is_mended(folder, moved):
    ready = folder.path / ".ready"
    ready.mkdir()
    results(2, "film-0.gif")(ready)
    for name in ("results.parquet", "film-0.gif", "run.json") if moved == ("all",) else moved:
        (ready / name).replace(folder.path / name)
    with folder.locked():
        assert folder.record()["number"] == 2
    assert content(folder)["results.parquet"] == content(folder)["film-0.gif"] == "2"
    assert not ready.exists()


def test_readers_find_results_that_were_ready(folder):
    ready = folder.path / ".ready"
    ready.mkdir()
    results(2)(ready)
    finish_moves(folder.path.parents[1])
    assert folder.record()["number"] == 2
    assert not ready.exists()


def test_missing_files_mean_not_done(folder):
    (folder.path / "results.parquet").unlink()
    assert folder.record() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"number": 1}'])
def test_a_damaged_record_means_not_done(folder, text):
    (folder.path / "run.json").write_text(text)
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
