"""Commands that read write nothing where they were not asked to, not even through links in a folder from elsewhere."""

import json
import os

import pytest

from adversary import cuts
from adversary.folders import SCRIPT, make_run, whole
from wane.files import write_json

COMMANDS = (
    ("list", "--out", "{out}"),
    ("show", "runs.sample", "--out", "{out}"),
    ("show", "toy", "--out", "{out}"),
    ("evaluate", "{folder}"),
    ("evaluate", "{folder}/agents/walker-0"),
    ("report", "--out", "{out}"),
)


@pytest.fixture
def foreign(tmp_path):
    """A run's folder that wants to harm: its lock and its finished results are links to files of the user."""
    run, home = make_run(tmp_path / "out"), tmp_path / "home"
    cuts.write_tree(home, {"precious.txt": b"precious", "folder/run.json": b"{}", "folder/a.parquet": b"1"})
    cuts.write_tree(run.folder.path, whole()[0])
    (run.folder.path / ".lock").symlink_to(home / "precious.txt")
    (run.folder.path / ".ready").symlink_to(home / "folder")
    return run, home


def files_below(folder):
    """Every file and link with its content or its target."""
    paths = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    return {str(path): os.readlink(path) if path.is_symlink() else path.read_bytes() for path in paths}


def test_reading_commands_write_nothing(foreign, tmp_path, command):
    run, _ = foreign
    before = files_below(tmp_path)
    for words in COMMANDS:
        status, out, err = command(*(word.format(out=run.out, folder=run.folder.path) for word in words))
        assert "Traceback" not in out + err
        assert status in (0, 1)
        assert status == 0 or err.count("\n") == 1, "one line says why"
    after = files_below(tmp_path)
    assert (run.out / "report.html").is_file()
    assert {path: content for path, content in after.items() if path in before} == before
    assert after.keys() - before.keys() == {str(run.out / "report.html")}


@pytest.mark.parametrize("again", [(), ("--resume",)])
def test_running_in_a_foreign_folder_is_refused(foreign, tmp_path, command, again):
    run, _ = foreign
    before = files_below(tmp_path)
    status, _, err = command("run", "runs.sample", "--chunks", 2, "--seeds", 2, "--out", run.out, *again)
    assert status == 1
    assert "is a symbolic link" in err
    assert files_below(tmp_path) == before


@pytest.mark.parametrize(
    "change",
    [{"device": "[red]markup[/] \x1b[2J"}, {"device": SCRIPT, "seconds": 10**12}, {"texts": {"title": "[/bold]"}}],
)
def test_markup_in_a_record_is_text(tmp_path, command, change):
    run = make_run(tmp_path / "out")
    cuts.write_tree(run.folder.path, whole()[0])
    record = json.loads((run.folder.path / "run.json").read_text())
    write_json(run.folder.path / "run.json", record | change, sealed=True)
    status, out, err = command("report", "--out", run.out)
    assert (status, err) == (0, "")
    assert "\x1b[2J" not in out
    assert SCRIPT not in (run.out / "report.html").read_text("utf-8")
