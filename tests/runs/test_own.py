"""Experiments of one's own that are files: the example of the documentation, run, resumed, compared and told."""

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from wane import user_files
from wane.lab import Experiment, find
from wane.lab.runs import Run
from wane.lab.runs.fingerprint import code_fingerprint, import_closure
from wane.names import UnknownName

PAGE = Path(__file__).parents[2] / "docs" / "experiments.md"
HELPED = """
from dataclasses import replace
import helper
EXPERIMENT = replace(helper.EXPERIMENT, title=helper.TITLE)
"""


def example() -> str:
    """The file of the documentation's example."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if "EXPERIMENT = Experiment(" in block]
    return found


@pytest.fixture
def walk(tmp_path, monkeypatch) -> Path:
    """The example as a file in an empty folder, which is the present one."""
    path = tmp_path / "walk.py"
    path.write_text(example())
    monkeypatch.chdir(tmp_path)
    yield path
    user_files._paths.clear()
    sys.modules.pop("wane_own_walk", None)


def test_the_example_computes_nothing_when_it_is_loaded(walk, monkeypatch, capsys):
    for name in ("tables", "fixed_tables", "seeded_tables", "findings"):
        monkeypatch.setattr(Experiment, name, lambda *_: pytest.fail("something was computed"))
    assert find("./walk.py").title == "A walk"
    assert find("walk.py") is find(str(walk))
    assert capsys.readouterr() == ("", "")


def test_a_file_is_run_listed_shown_compared_and_reported(walk, command):
    few = ["--seeds", 4, "--steps", 40]
    status, out, errors = command("run", "./walk.py", *few)
    assert status == 0, errors
    assert "results: out/quick/walk+seeds=4+steps=40" in out
    assert command("run", "walk.py", *few, "--length", 5)[0] == 0
    first, second = Path("out/quick/walk+seeds=4+steps=40"), Path("out/quick/walk+seeds=4+length=5+steps=40")
    record = json.loads((first / "run.json").read_text())
    assert (record["experiment"], record["file"]) == ("walk", str(walk))
    assert len(pd.read_parquet(first / "walks.parquet")) == 4
    assert "already there" in command("run", "./walk.py", *few, "--resume")[1]
    _, out, _ = command("list")
    assert all(f"quick/{folder.name}" in out for folder in (first, second))
    for name in ("./walk.py", "walk.py", "walk"):
        _, out, _ = command("show", name)
        assert "A walk (mine)" in out
        assert all(f"quick/{folder.name}" in out for folder in (first, second))
    _, out, _ = command("show", second.name)
    assert "gets-away" in out
    _, out, _ = command("compare", first, second.name)
    assert "length  9 → 5" in out
    assert command("report")[0] == 0
    assert "wane run ./walk.py --scale quick --seeds 4 --length 5" in Path("out/report.html").read_text()


def test_another_file_of_the_same_name_does_not_replace_results(walk, command):
    few = ["--seeds", 2, "--steps", 10]
    assert command("run", "./walk.py", *few)[0] == 0
    other = walk.parent / "other" / "walk.py"
    other.parent.mkdir()
    other.write_text(example())
    before = Path("out/quick/walk+seeds=2+steps=10/run.json").read_bytes()
    status, _, errors = command("run", "other/walk.py", *few)
    assert status == 1
    assert f"holds results of {walk}, another file with an experiment of this name: choose another --out" in errors
    assert Path("out/quick/walk+seeds=2+steps=10/run.json").read_bytes() == before
    assert user_files.path_of("walk.py") == other
    walk.unlink()
    assert command("run", "other/walk.py", *few)[0] == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("toy", "'toy' is an experiment of wane; give yours another name"),
        ("a/b", "its name 'a/b' is the name of a folder, so it may hold letters"),
        ("../b", "is the name of a folder"),
        ("", "is the name of a folder"),
    ],
)
def test_a_name_that_runs_cannot_be_filed_under_is_refused(walk, command, name, message):
    walk.write_text(example().replace('name="walk"', f"name={name!r}"))
    status, _, errors = command("run", "./walk.py")
    assert status == 2
    assert message in errors
    assert not Path("out").exists()


def test_what_is_no_experiment_is_refused(walk, command):
    Path("empty.py").write_text("x = 1\n")
    for name, message in (("./empty.py", "has no EXPERIMENT"), ("none.py", "there is no such file")):
        status, _, errors = command("run", name)
        assert (status, errors.count("\n")) == (2, 1)
        assert message in errors
    with pytest.raises(UnknownName):
        find("none.py")
    assert not Path("out").exists()


def test_a_file_may_import_what_lies_beside_it_and_results_depend_on_that(walk):
    Path("helper.py").write_text(example() + '\nTITLE = "Helped"\n')
    Path("helped.py").write_text(HELPED)
    Path("unused.py").write_text("x = 1\n")
    assert find("./helped.py").title == "Helped"
    found = import_closure("wane_own_helped")
    assert {"helper", "wane_own_helped", "wane.lab.contract"} <= set(found)
    assert "unused" not in found
    program = "from wane.lab.runs.fingerprint import code_fingerprint as f; from wane.lab import module_of as m\n"
    program += "print(f(m('./helped.py')))"

    def measure() -> str:
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    before = measure()
    assert before.strip() == code_fingerprint("wane_own_helped")
    Path("helper.py").write_text(Path("helper.py").read_text().replace("Helped", "Changed"))
    assert measure() != before
    del sys.modules["wane_own_helped"], sys.modules["helper"]


def test_a_job_can_be_unpickled_where_the_file_was_not_loaded(walk, tmp_path):
    """This is what other processes and Ray's workers do, from another folder."""
    user_files.add_file("walk.py")
    run = Run("walk.py", find("walk.py").quick, "quick", tmp_path / "out")
    (job,) = run.jobs()
    (tmp_path / "job").write_bytes(pickle.dumps(job))
    program = "import pickle, sys; job = pickle.load(open(sys.argv[1], 'rb')); print(job.settings, job.experiment)"
    words = [sys.executable, "-c", program, tmp_path / "job"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == f"{job.settings} walk.py"
    assert pickle.loads(pickle.dumps(job)) == job


@pytest.mark.slow
def test_processes_load_the_file_too(walk, tmp_path):
    words = ["-m", "wane", "run", "./walk.py", "--seeds", "3", "--steps", "20", "--processes", "2"]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env=environment)
    folder = tmp_path / "out" / "quick" / "walk+seeds=3+steps=20"
    assert json.loads((folder / "run.json").read_text())["parts"] == 2
    found, settings = find("./walk.py"), json.loads((folder / "run.json").read_text())["settings"]
    expected = found.tables(type(found.quick)(**settings))["walks"]
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "walks.parquet"), expected)
