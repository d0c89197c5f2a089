"""The command line, on a small experiment of the tests."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import pandas as pd
import pytest

import wane
from report.folders import run_folder
from runs.sample import EXPERIMENT
from wane import cli, worlds
from wane.agents import Trained, load, q_lambda
from wane.lab import registry
from wane.lab.report.kept_runs import read
from wane.lab.runs.evaluation import best_return
from wane_paper.collection import COLLECTION, RESULTS

TESTS = Path(__file__).parent
NAME = "runs.sample"
TABLES = ("expected", "walks", "later")


@pytest.fixture
def only_sample(monkeypatch):
    """Makes the sample the only experiment that there is."""
    collection = registry.Collection({NAME: NAME}, results=COLLECTION.results)
    monkeypatch.setattr(registry, "collections", lambda: (collection,))


def environment() -> dict[str, str]:
    """In which a process finds the sample."""
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}


def start(*words: object, pause: float = 0.0, log: Path = Path(os.devnull), program=("-m", "wane")) -> subprocess.Popen:
    """The command as a process of its own, which logs every chunk that it computes."""
    watched = environment() | {"SAMPLE_PAUSE": str(pause), "SAMPLE_LOG": str(log)}
    words = [sys.executable, *program, *map(str, words)]
    # A new process inherits that Ctrl-C is ignored, as in a script in the background, but not that it is handled.
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(words, env=watched, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, earlier)


def chunks(log: Path) -> int:
    return sum("fixed" not in line for line in log.read_text().splitlines()) if log.exists() else 0


def wait_for(process: subprocess.Popen, log: Path, count: int) -> None:
    while chunks(log) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def tables(out: Path) -> dict[str, pd.DataFrame]:
    return {name: pd.read_parquet(out / "quick" / NAME / f"{name}.parquet") for name in TABLES}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("whole")
    process = start("run", NAME, "--out", out)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    return out


def resumes_to(out: Path, expected: Path, most: int) -> None:
    """Resumes a run that was cut short, which takes at most so many chunks more."""
    log = out / "again"
    process = start("run", NAME, "--out", out, "--resume", log=log)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert 1 <= chunks(log) <= most
    found, whole = tables(out), tables(expected)
    for name in TABLES:
        pd.testing.assert_frame_equal(found[name], whole[name], check_exact=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chunk", "later"), [(2, 0.0), *(pytest.param(*each, marks=pytest.mark.fuzz) for each in ((6, 0.05), (9, 0.1)))]
)
def test_killed_at_any_moment_a_run_resumes_to_the_same_tables(tmp_path, uninterrupted, chunk, later):
    log = tmp_path / "log"
    process = start("run", NAME, "--out", tmp_path, "--save-seconds", "0", pause=0.1, log=log)
    wait_for(process, log, chunk)
    time.sleep(later)
    process.kill()
    process.communicate()
    assert not (tmp_path / "quick" / NAME / "walks.parquet").exists()
    resumes_to(tmp_path, uninterrupted, 12 - chunk + 1)


@pytest.mark.slow
def test_ctrl_c_leaves_what_can_be_resumed(tmp_path, uninterrupted):
    log = tmp_path / "log"
    process = start("run", NAME, "--out", tmp_path, "--save-seconds", "1000", pause=0.3, log=log)
    wait_for(process, log, 5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert errors.strip() == "interrupted; go on with --resume, or with the same `wane reproduce`"
    resumes_to(tmp_path, uninterrupted, 12 - 4)


@pytest.mark.slow
def test_a_full_disk_leaves_earlier_results(tmp_path):
    """No file may grow past 8 kB, as if there were no room for more: the figure does not fit."""
    start("run", NAME, "--out", tmp_path).communicate()
    folder = tmp_path / "quick" / NAME
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert "run.json" in before
    limited = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (8_000,) * 2); from wane.cli import main; main()"
    )
    full = start("run", NAME, "--out", tmp_path, program=["-c", limited])
    _, errors = full.communicate()
    assert full.returncode == 1
    assert "File too large" in errors
    assert "Earlier results are untouched" in errors
    assert "Traceback" not in errors
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", NAME, "--out", "/proc/wane"], "/proc/wane"),
        (["run", NAME, "--out", __file__], "Not a directory"),
        (["report", "--out", "/nowhere/at/all"], "begin with `wane reproduce --out /nowhere/at/all`"),
        (["evaluate", "/nowhere"], "there is no folder /nowhere"),
        (["evaluate", TESTS], "holds neither a run (run.json) nor a saved agent (config.json)"),
        (["explore", "--out", "/proc/wane/page.html", "--no-open"], "wane: /proc/wane: No such file or directory\n"),
        (["compare", NAME, NAME, "--out", "/nowhere"], f"{NAME} was not run yet: wane run {NAME} --scale quick"),
    ],
)
def test_what_cannot_be_carried_out_is_told_in_one_line(command, words, message):
    status, _, errors = command(*words)
    assert status == 1
    assert message in errors
    assert errors.startswith("wane: ")
    assert errors.count("\n") == 1
    assert ("--resume" in errors) == (words[0] == "run"), "only runs can be resumed"


def test_the_report_needs_no_run_of_ones_own(command, monkeypatch, tmp_path):
    """Where nothing was run yet, it shows what comes with the package, which is nothing here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "collections", lambda: (registry.Collection({NAME: NAME}),))
    status, out, errors = command("report")
    assert (status, errors) == (0, "")
    assert "report: out/report.html" in out
    assert "<html" in (tmp_path / "out" / "report.html").read_text("utf-8")


MISTAKES = {
    "run q_lambda": "unknown experiment 'q_lambda': did you mean 'q-lambda'? There are diminishing",
    "run .sample": "unknown experiment '.sample': there are diminishing",
    "run no_such.module": "experiment 'no_such.module': No module named 'no_such'; is its folder on PYTHONPATH?",
    "run ./none.py": "experiment './none.py': there is no such file",
    f"run --seeds 3 {NAME}": "name the experiment before its options",
    f"run {NAME} --chunks 0": "--chunks 0: a whole number of at least 1 is needed",
    f"run {NAME} --seeds -1": "--seeds -1: a whole number between 1 and 1,000,000 is needed",
    f"run {NAME} --seeds": "--seeds: a value is needed",
    "run toy --seeds 2": "--seeds: toy has no seeds, because nothing in it is random",
    "run toy --seeds=2": "--seeds: toy has no seeds, because nothing in it is random",
    "run toy agent.depletion:depletion": "agent.depletion:depletion: this word does not belong to any option",
    "run toy --agent.depletion geometric": "--agent.depletion: this can be set in Python only, not to 'geometric'",
    f"run {NAME} --seeds 0 0": "0: this word does not belong to any option",
    f"run {NAME} --lambdas": "--lambdas: at least one value is needed",
    f"run {NAME} --agent.drift nan": "--agent.drift nan: a number of at least 0 is needed",
    f"run {NAME} --launcher ray --processes 2": "--processes 2: 1 is needed with --launcher ray; --shards says",
    f"run {NAME} --launcher ray --gpus nan": "--gpus nan: a number between 0 and 1,024 is needed",
    f"run {NAME} --launcher ray --gpus -1": "--gpus -1: a number between 0 and 1,024 is needed",
    f"run {NAME} --launcher ray --shards 0": "--shards 0: a whole number between 1 and 1,000,000 is needed",
    f"run {NAME} --processes 0": "--processes 0: a whole number between 1 and 1,024 is needed",
    f"run {NAME} --save-seconds nan": "--save-seconds nan: a number between 0 and 1,000,000 is needed",
    f"run {NAME} --save-seconds -1": "--save-seconds -1: a number between 0 and 1,000,000 is needed",
    f"run {NAME} --agent.drft 3": "--agent.drft: there is no such option; did you mean --agent.drift?",
    f"run {NAME} --chunk 3": "--chunk: there is no such option; did you mean --chunks?",
    f"run {NAME} --chunks many": "--chunks: a whole number is needed, got 'many'",
    f"run {NAME} --set chunks=3": "--set: there is no such option",
    f"run {NAME} --scale huge": "--scale huge: one of 'quick', 'paper' is needed",
    f"run {NAME} --scale": "--scale: a value is needed",
    "reproduce --only": "--only: at least one value is needed",
    "reproduce --only toy qlambda": "unknown experiment 'qlambda': did you mean 'q-lambda'?",
    "reproduce --processes 0": "--processes 0: a whole number between 1 and 1,024 is needed",
    "show nothing": "unknown experiment or run 'nothing': there are diminishing",
    "show q-lamda": "unknown experiment or run 'q-lamda': did you mean 'q-lambda'?",
    "compare errate toy": "unknown experiment or run 'errate': did you mean 'errata'?",
    "list --nonsense": "--nonsense: there is no such option",
    "dance": "unknown command 'dance': there are demo, list,",
    f"run {'x' * 300_000}": "unknown experiment 'xxxxxx",
    f"run {NAME} --scale {'x' * 300_000}": "--scale xxxxxx",
    f"run {NAME} --chunks {'x' * 300_000}": "--chunks: a whole number is needed, got 'xxx",
    f"run {NAME} --lambdas {'-1 ' * 50_000}": "--lambdas -1 -1 -1",
    f"run {'x' * 300_000}.py": "experiment 'xxxxxx",
    f"show {'x' * 300_000}": "unknown experiment or run 'xxxxxx",
    "reprot": "unknown command 'reprot': did you mean 'report'? There are demo, list,",
}


@pytest.mark.parametrize(("words", "message"), MISTAKES.items())
def test_mistakes_are_told_in_one_line_and_leave_nothing_behind(command, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "60")
    status, out, errors = command(*words.split())
    assert status == 2
    assert errors.startswith(f"wane: {message}")
    assert errors.count("\n") == 1
    assert len(errors) < 2100
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_the_traceback_is_shown_on_request(command, monkeypatch):
    monkeypatch.setenv("WANE_DEBUG", "1")
    with pytest.raises(ValueError, match="unknown experiment"):
        command("run", "q_lambda")


def test_settings_are_options_and_nested_ones_too(command, tmp_path):
    words = ["--chunks", 3, "--agent.drift", 0.25, "--lambdas", 0.25, 0.5, "--seeds", 2, "--out", tmp_path]
    assert command("run", "--scale", "paper", NAME, *words)[0] == 0
    (folder,) = (tmp_path / "paper").iterdir()
    assert folder.name == f"{NAME}+seeds=2+chunks=3+agent.drift=0.25+lambdas=0.25,0.5"
    record = json.loads((folder / "run.json").read_text())
    assert record["changed"] == {"seeds": 2, "chunks": 3, "agent.drift": 0.25, "lambdas": [0.25, 0.5]}
    assert record["settings"]["agent"] == {"drift": 0.25, "moves": 4}


@pytest.mark.parametrize(("scale", "seeds"), [("quick", 3), ("paper", 6)])
def test_help_shows_the_settings_of_an_experiment_at_its_scale(command, scale, seeds):
    status, out, _ = command("run", NAME, "--scale", scale, "--help")
    assert status == 0
    for words in ("A walk. Walks with a drift get away.", "--chunks", "how many chunks to walk", "--resume"):
        assert words in out
    for words in ("--agent.drift", "what every chunk adds", "--scale", f"(default: {scale})", "--launcher", "--out"):
        assert words in out
    assert f"(default: {seeds})" in out


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help(command, name, only_sample):
    status, out, _ = command(name, "--help")
    assert status == 0
    assert name in out
    assert cli.COMMANDS[name].__doc__


def test_run_without_a_name_lists_the_experiments(command, only_sample):
    for words in (["run"], ["run", "--help"]):
        status, out, _ = command(*words)
        assert status == 0
        for text in (NAME, "A walk", "usage: wane run NAME", "--processes", "wane run NAME --help shows its settings"):
            assert text in out


def test_who_reads_the_output_may_stop_reading():
    """As `head` does. Help is printed by another library than the rest, and in one piece."""
    for words in ([NAME, "--help"], ["--help"]):
        reading_end, writing_end = os.pipe()
        os.close(reading_end)
        words = [sys.executable, "-m", "wane", *(["run"] if NAME in words else []), *words]
        done = subprocess.run(words, stdout=writing_end, stderr=subprocess.PIPE, text=True, env=environment())
        os.close(writing_end)
        assert (done.returncode, done.stderr) == (1, "")


def test_some_experiments_are_reproduced_and_their_verdicts_alone_are_told(command, tmp_path):
    status, out, errors = command("reproduce", "--only", "toy", "--out", tmp_path)
    assert status == 0, errors
    assert "3 claims hold at quick scale." in out
    assert "not run" not in out
    assert "q-lambda" not in out
    assert "Learning a policy in TwoRooms" in (tmp_path / "report.html").read_text("utf-8")


def test_reproduce_report_list_and_show(command, tmp_path, only_sample):
    status, out, errors = command("reproduce", "--only", NAME, "--out", tmp_path)
    assert status == 0, errors
    assert "report.html" in out
    assert f"{NAME}: 1 of 1 claims hold" in out
    run = tmp_path / "quick" / NAME / "run.json"
    written = run.stat().st_mtime_ns
    status, out, _ = command("reproduce", "--only", NAME, NAME, "--out", tmp_path)
    assert out.count("already there") == 1
    assert run.stat().st_mtime_ns == written
    before = contents(tmp_path)
    _, out, _ = command("list", "--out", tmp_path)
    assert out.count("quick") == 1
    assert f"quick/{NAME}" not in out  # it is not among the other runs
    _, out, _ = command("show", NAME, "--out", tmp_path)
    assert "figure.png" in out
    assert "Walks with a drift get away." in out
    _, out, _ = command("show", NAME, "--scale", "paper", "--out", tmp_path)
    assert f"not run yet: wane run {NAME} --scale paper" in out
    status, out, _ = command("evaluate", tmp_path / "quick" / NAME)
    assert status == 0
    assert out.count("wane evaluate") == 3
    assert contents(tmp_path) == before  # these commands only read


@pytest.mark.parametrize("columns", [None, 40])
def test_lines_are_cut_for_terminals_only(command, only_sample, monkeypatch, tmp_path, columns):
    monkeypatch.setattr(registry, "find", lambda name: dataclasses.replace(EXPERIMENT, title="long " * 50))
    monkeypatch.delenv("COLUMNS") if columns is None else monkeypatch.setenv("COLUMNS", str(columns))
    _, out, _ = command("list", "--out", tmp_path)
    assert ("…" in out) == (columns is not None)
    assert ("long " * 50 in out) == (columns is None)


def test_show_tells_on_request_where_an_experiment_differs(command, tmp_path):
    folder = run_folder(tmp_path, scale="paper")
    for words, count in (([], 0), (["--verbose"], 1)):
        _, out, _ = command("show", folder, *words)
        assert out.count(f"Where we differ: {read(folder).texts.differences}") == count


def test_reading_commands_mend_nothing(command, tmp_path, only_sample):
    """A run that was killed while its results were moved into place is mended by runs, not by readers."""
    run = tmp_path / "quick" / NAME
    (run / ".ready").mkdir(parents=True)
    (run / ".ready" / "run.json").write_text("{}")
    before = contents(tmp_path)
    for words in (["list"], ["show", NAME]):
        assert command(*words, "--out", tmp_path)[0] == 0
        assert contents(tmp_path) == before
    assert command("report", "--out", tmp_path)[0] == 0
    assert set(contents(tmp_path)) == {*before, str(tmp_path / "report.html")}


def test_errata_command(command):
    status, out, _ = command("errata")
    assert status == 0
    assert out.count("holds") >= 12
    assert "FAILS" not in out


@pytest.fixture(scope="module")
def agent(tmp_path_factory) -> Path:
    """A folder with a saved agent that has learned a little."""
    world, config = worlds.make("toy"), q_lambda.Config(episodes=20)
    state, _ = q_lambda.train(jax.random.key(0), world, config)
    return Trained("q_lambda", world, config, state).save(tmp_path_factory.mktemp("agent"))


def rows(out: str) -> dict[str, list[str]]:
    """The lines of a table in the terminal, by their first column."""
    lines = [line.split("│")[1:-1] for line in out.splitlines() if line.count("│") == 4]
    return {name.strip(): [cell.strip() for cell in cells] for name, *cells in lines}


def test_evaluate_tells_what_an_agent_earns(command, agent):
    before = contents(agent)
    status, out, errors = command("evaluate", agent, "--episodes", 50, "--seed", 3)
    assert status == 0, errors
    assert "q_lambda, 50 episodes" in out
    trained, keys = load(agent), jax.random.split(jax.random.key(3), 50)
    _, played = jax.vmap(trained.play)(keys)
    expected = {"discounted return": played.value, "sum of rewards": played.rewards.sum(1), "steps": played.live.sum(1)}
    for name, values in expected.items():
        mean, error = rows(out)[name]
        assert float(mean) == pytest.approx(float(values.mean()), rel=1e-3)
        assert float(error) == pytest.approx(float(values.std(ddof=1)) / 50**0.5, rel=0.05, abs=1e-12)
    best = float(rows(out)["best possible return"][0])
    assert best == pytest.approx(float(trained.world.start @ trained.world.optimum().values), rel=1e-3)
    assert best >= float(played.value.mean()) - 1e-3
    assert contents(agent) == before  # nothing is written that was not asked for


def test_a_best_return_that_is_known_too_roughly_is_not_shown():
    """Rewards that grow back have an optimum within an error, which is large over a long horizon."""
    world = dataclasses.replace(worlds.make("toy"), horizon=40, depletion=wane.EligibilityTrace(0.5, 0.9))
    best = world.optimum()
    assert best.error > 1e-3 * best.values.max()
    assert best_return(world) is None
    assert best_return(dataclasses.replace(world, horizon=6)) is not None


def test_evaluate_in_another_world_and_as_a_film(command, agent, tmp_path, monkeypatch):
    world = dataclasses.replace(worlds.make("toy"), horizon=7, depletion=wane.TimeElapsed(0.5, 0.1))

    def film(self, episode, path):
        path.write_text(f"{self.horizon} {episode.actions.shape}")

    monkeypatch.setattr(worlds.World, "film", film, raising=False)
    monkeypatch.setattr(worlds, "make", lambda name: world)
    words = ["--world", "toy", "--episodes", 1, "--film", tmp_path / "film.gif"]
    status, out, errors = command("evaluate", agent, *words)
    assert status == 0, errors
    assert rows(out)["steps"][0] == "7"
    best = float(world.start @ world.optimum().values)
    assert float(rows(out)["best possible return"][0]) == pytest.approx(best, rel=1e-3)
    assert rows(out)["discounted return"][1] == "one episode has none"
    assert (tmp_path / "film.gif").read_text() == "7 (7,)"


def test_evaluate_names_what_is_wrong(command, agent, tmp_path):
    status, _, errors = command("evaluate", agent, "--episodes", 0)
    assert status == 2
    assert "--episodes 0: a whole number between 1 and 1,000,000 is needed" in errors
    status, _, errors = command("evaluate", agent, "--seed", -1)
    assert status == 2
    assert "--seed -1: a whole number between 0 and 4,294,967,295 is needed" in errors
    status, _, errors = command("evaluate", agent, "--world", "four-room")
    assert status == 2
    assert "unknown world 'four-room': did you mean 'four-rooms'?" in errors
    status, out, errors = command("evaluate", agent, "--world", "four-rooms")
    assert status == 1
    assert out == ""
    assert "trained in a world with 3 states, 5 actions, 2 sites, and cannot act in a world with 68 states" in errors
    shutil.copytree(agent, tmp_path / "damaged")
    (tmp_path / "damaged" / "params.safetensors").write_bytes(b"half")
    status, _, errors = command("evaluate", tmp_path / "damaged")
    assert status == 1
    assert "params.safetensors is damaged" in errors


def test_kept_results_are_those_of_the_paper_s_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert registry.results() == [RESULTS]
    assert (RESULTS / "paper").is_dir()


def test_the_sample_fits_the_contract():
    assert registry.find(NAME) is EXPERIMENT
