"""Commands that read write nothing where they were not asked to, not even through links in a folder from elsewhere."""

import json
import os
import subprocess

import pytest

from adversary import cuts
from adversary.folders import SCRIPT, make_run, whole
from wane.files import write_json
from wane.texts import plain

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


def words_of(line: str) -> list[str]:
    """The words that a shell finds in a line."""
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True)
    return [os.fsdecode(word) for word in done.stdout.split(b"\0")[:-1]]


@pytest.mark.parametrize("name", ["two words", "it's; $(touch x)", "\x1b[2Jo\nut\\", "\u202etuo", "\udcff"])
def test_commands_can_be_copied_and_nothing_is_obeyed_whatever_folders_and_titles_are(tmp_path, command, name):
    run = make_run(tmp_path / name)
    cuts.write_tree(run.folder.path, whole()[0])
    record = json.loads((run.folder.path / "run.json").read_text())
    change = {"texts": record["texts"] | {"title": f"title \u202e{SCRIPT}\x1b[2J", "summary": "\u2067\x07"}}
    write_json(run.folder.path / "run.json", record | change, sealed=True)
    interrupted = run.folder.path.with_name("runs.sample+label=a_b")
    note = {"experiment": "runs.sample", "changed": {"label": f"{name}é"}, "parts": ["seeds-0-1"]}
    write_json(interrupted / "checkpoint" / "started.json", note)
    folder = str(run.folder.path)
    _, said, _ = command("evaluate", folder)
    assert [words_of(line)[-1] for line in said.splitlines()] == [f"{folder}/agents/walker-{seed}" for seed in (0, 1)]
    _, listed, _ = command("list", "--out", run.out)
    (line,) = [line for line in listed.splitlines() if "--resume" in line]
    assert words_of(line)[2:] == [
        *("runs.sample", "--scale", "quick", "--label", f"{name}é", "--out", str(run.out), "--resume"),
    ]
    _, shown, _ = command("show", folder, "--verbose")
    _, reported, _ = command("report", "--out", run.out)
    _, _, refused = command("show", f"{name}\x1b")
    page = (run.out / "report.html").read_text("utf-8")
    for text in (said, listed, shown, reported, refused, page):
        assert plain(text, keep="\n") == text
