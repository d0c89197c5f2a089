"""Run folders from somewhere else: damaged, crafted and full of links. Nothing crashes, hangs, leaks or is overwritten.

Every case takes the folder of a whole run and spoils it. Whoever then reads it gets the same results, or is told in one
line what is wrong. A run that resumes either says in one line that it cannot, or ends with the right results; starting
over always ends with the right results.
"""

import contextlib
import copy
import io
import json
import os
import socket
import tempfile
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from adversary import cuts
from adversary.frame import Fuzzer, assert_in_words, one_of
from runs.sample import EXPERIMENT, GIF, Sample
from wane.files import DamagedFile, write_json
from wane.lab import report
from wane.lab.runs import Run, RunError, run_all
from wane.lab.runs.evaluation import saved_agents
from wane.lab.runs.job import checksums
from wane.texts import plain

SCRIPT = "<script>alert(1)</script>"
EVIL: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 3, 10**12, 10**400, -(10**400), 0.5, float("inf"), float("-inf"), float("nan"), 1e308),
    *("", " ", "x" * 5000, "[red]markup[/]", "[/]", "\x1b[2J", "\ud800", "\0", "١٢", "λ\u202e", "holds", "quick"),
    *(SCRIPT, '"><img src=x onerror=alert(1)>', "javascript:alert(1)", "{{ 7 * 7 }}", "&lt;", "</style>"),
    *("..", "../../outside", "/etc/hostname", "a/b", ".hidden", "checkpoint", "run.json", "C:\\x"),
    *([], {}, [[]], [None], ["a"] * 300, {"": ""}, {SCRIPT: SCRIPT}, {"a": {"b": {"c": [1, {"d": None}]}}}),
)
"""Values that a key of a JSON file should not have."""
TEXTS = (
    *(b"", b"[]", b"{}", b"null", b"7", b'"text"', b"{", b"}", b"NaN", b"\xff\xfe\x00", b"\x00" * 100, b"9" * 5000),
    *(b"[" * 100_000, b'{"a":' * 100_000, b"[" * 60 + b"]" * 60, b'{"files": {}}', b'{"files": []}', b"\xef\xbb\xbf{}"),
)
"""Whole files that JSON files should not be."""
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""A disk in memory, if there is one: the cases write many small files."""


@cache
def whole() -> tuple[cuts.Tree, dict[str, str]]:
    """The folder of a whole run, with its checkpoint, and the checksums of its files."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as out:
        run = make_run(Path(out))
        run_all([run])
        record = run.folder.record()
        assert record is not None
        return cuts.read_tree(run.folder.path), record["files"]


def make_run(out: Path) -> Run:
    """A run that takes a moment."""
    return Run(EXPERIMENT.name, Sample(chunks=2, seeds=2), "quick", out)


@contextlib.contextmanager
def spoiled(rng: np.random.Generator) -> Iterator[tuple[Run, Path]]:
    """A copy of the whole run, and its folder."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as out:
        run = make_run(Path(out) / one_of(rng, "out", "o ut", "o\x1b[2J\nut", "o\u202e'ut", "o\udcff;ut"))
        cuts.write_tree(run.folder.path, whole()[0])
        yield run, run.folder.path


def is_kept(name: str) -> bool:
    """Whether a file was published, and is not part of the checkpoint."""
    return name.split("/")[0] != "checkpoint"


class Page(HTMLParser):
    """Asserts that nothing in a page executes or is loaded from elsewhere."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "iframe", "object", "embed", "base", "form"), tag
        for name, value in attrs:
            assert not name.startswith("on"), name
            assert name not in ("src", "href") or str(value).startswith(("data:", "#")), value


def read(run: Run) -> list[report.KeptRun]:
    """Reads a folder in all ways that write nothing, and asserts that they write nothing."""
    before = cuts.read_tree(run.out)
    runs = report.collect(run.out)
    assert len(runs) == 1
    for problem in runs[0].problems:
        assert len(problem.split()) >= 3, problem
        assert "\n" not in problem, problem
    page = report.build(runs, [EXPERIMENT])
    Page().feed(page)
    assert len(page) < 50_000_000
    console = Console(file=io.StringIO(), width=80)
    console.print(report.summary(runs, [EXPERIMENT]))
    console.print(report.details(runs, [EXPERIMENT]))
    console.print(report.one_line(report.run_state(runs[0])))
    for text in (page, console.file.getvalue(), *runs[0].evaluate_commands.values(), runs[0].command):
        assert plain(text, keep="\n\t") == text
    run.folder.record()
    run.is_done()
    saved_agents(run.folder.path)
    assert cuts.read_tree(run.out) == before
    return runs


def resume(run: Run) -> None:
    """Resumes: the results are right, or the refusal is told in one line and starting over brings them.

    A crafted folder, in which all checksums fit, is whole: nobody can tell it from one that was not crafted.
    """
    crafted = run.is_done()
    try:
        run_all([run], resume=True)
    except (RunError, DamagedFile) as error:
        assert_in_words(error)
        if "remove it" in str(error):  # Something that is no file, or no folder, lies in the way.
            return
        run_all([run])
    record = run.folder.record()
    assert record is not None
    assert crafted or record["files"] == whole()[1]


def json_case(rng: np.random.Generator) -> None:
    """One value of one JSON file is replaced, removed or renamed; half of the time all checksums fit nevertheless."""
    names = [name for name in whole()[0] if name.endswith(".json")]
    name = one_of(rng, *names)
    with spoiled(rng) as (run, folder):
        content = mutated(rng, json.loads((folder / name).read_text()))
        fits = rng.random() < 0.5
        write_json(folder / name, content, sealed=fits and isinstance(content, dict))
        if fits and name != "run.json" and is_kept(name):
            _fix_checksums(folder)
        read(run)
        if rng.random() < 0.1:
            if not is_kept(name):
                (folder / "run.json").unlink()
            resume(run)


def _fix_checksums(folder: Path) -> None:
    record = json.loads((folder / "run.json").read_text())
    files = {name: sha for name, sha in checksums(folder).items() if name in record["files"]}
    write_json(folder / "run.json", record | {"files": files}, sealed=True)


def mutated(rng: np.random.Generator, content: Any) -> Any:
    """A copy of a JSON value with one value in it changed."""
    content = copy.deepcopy(content)
    parent, key = None, None
    place = content
    while isinstance(place, dict | list) and place and (parent is None or rng.random() < 0.8):
        parent = place
        key = one_of(rng, *place) if isinstance(place, dict) else int(rng.integers(len(place)))
        place = place[key]
    if parent is None or rng.random() < 0.03:
        return copy.deepcopy(one_of(rng, *EVIL))
    if isinstance(parent, dict) and rng.random() < 0.15:
        value = parent.pop(key)
        if rng.random() < 0.5:
            parent[str(one_of(rng, "", SCRIPT, "..", "\ud800", "files"))] = value
    else:
        parent[key] = copy.deepcopy(one_of(rng, *EVIL))
    return content


STRANGE = ("checkpoint/seeds-0-1/another.safetensors", "checkpoint/seeds-0-1/agents/walker-0/more", ".new", ".ready")
"""Files that a whole run does not have."""


def file_case(rng: np.random.Generator) -> None:
    """One file is replaced by nonsense, a folder, a pipe, a socket, or nothing; half of the runs are not finished."""
    name = one_of(rng, *(name for name, content in whole()[0].items() if content is not None), *STRANGE)
    with spoiled(rng) as (run, folder):
        if rng.random() < 0.5:
            (folder / "checkpoint" / "seeds-0-1" / "part.json").unlink()
        (folder / name).unlink(missing_ok=True)
        match rng.integers(7):
            case 0:
                (folder / name).mkdir()
            case 1:
                os.mkfifo(folder / name)
            case 2:
                make_socket(folder / name)
            case 3:
                pass
            case _:
                (folder / name).write_bytes(one_of(rng, *TEXTS))
        read(run)
        assert not is_kept(name) or name in STRANGE or not run.is_done()
        if rng.random() < 0.1:
            if not is_kept(name):
                (folder / "run.json").unlink()
            resume(run)


def make_socket(path: Path) -> None:
    """Makes a socket. Its address has at most a hundred bytes, so that it is named from its folder."""
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(path.parent)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


def picture_case(rng: np.random.Generator) -> None:
    """A picture that is crafted to be huge, with a checksum that fits: it is shown, or a sentence says why not."""
    with spoiled(rng) as (run, folder):
        record = json.loads((folder / "run.json").read_text())
        name = one_of(rng, "figure.png", "figure.svg", "film-0.gif", "film-1.gif")
        content = (folder / ("film-0.gif" if name.endswith("gif") else name)).read_bytes()
        match rng.integers(4):
            case 0:  # bytes that nobody needs
                content += bytes(int(one_of(rng, 1, 399_000, 9_000_000, 11_000_000, 60_000_000)))
            case 1:  # frames without end
                start, frame = GIF[:-16], GIF[-16:-1]
                content = start + frame * int(one_of(rng, 2, 1999, 2001, 500_000)) + b";"
            case 2:  # few bytes, and more pixels than fit into memory
                side = int(one_of(rng, 3000, 60_000, 65_535))
                content = GIF[:6] + side.to_bytes(2, "little") * 2 + GIF[10:]
            case _:  # a drawing in which each element stands for ten others
                entities = "".join(f'<!ENTITY e{i + 1} "{f"&e{i};" * 10}">' for i in range(9))
                content = f'<!DOCTYPE svg [<!ENTITY e0 "x">{entities}]><svg>&e9;</svg>'.encode()
        (folder / name).write_bytes(content)
        films = record["films"] | ({name: "huge"} if name.endswith("gif") else {})
        for i in range(int(rng.integers(0, 5))):  # each is not too large, but all together are
            (folder / f"more-{i}.gif").write_bytes(GIF + bytes(9_000_000))
            films[f"more-{i}.gif"] = "heavy"
        files = {file: sha for file, sha in checksums(folder).items() if is_kept(file) and file != "run.json"}
        write_json(folder / "run.json", record | {"films": films, "files": files}, sealed=True)
        (found,) = read(run)
        shown = [found.figure, *found.films]
        assert sum(len(picture.data) for picture in shown if picture) <= 30_000_000


def flip_case(rng: np.random.Generator) -> None:
    """One bit of one file is flipped, or its end is missing: that is noticed, and never already there."""
    tree, _ = whole()
    name = one_of(rng, *(name for name, content in tree.items() if content))
    content = bytearray(tree[name] or b"")
    place = int(rng.integers(len(content)))
    if rng.random() < 0.8:
        content[place] ^= 1 << int(rng.integers(8))
    else:
        del content[place:]
    with spoiled(rng) as (run, folder):
        (folder / name).write_bytes(content)
        if is_kept(name):
            (found,) = report.collect(run.out)
            same = name == "run.json" and _says_the_same(content, tree[name] or b"")
            assert run.is_done() == same, f"a flip at {place} of {name} is not noticed"
            assert bool(found.problems) != same
            assert same or any(name in problem for problem in found.problems), found.problems
        else:
            (folder / "run.json").unlink()
        if rng.random() < 0.2:
            resume(run)


def _says_the_same(content: bytearray, before: bytes) -> bool:
    """Whether a record says what it said: a flip may have hit a space, or the name of the checksum."""
    try:
        found, known = json.loads(content.decode()), json.loads(before)
    except ValueError:
        return False
    if not isinstance(found, dict) or found.get("seal", known["seal"]) != known["seal"]:
        return False
    return all(found.get(key) == known[key] for key in known if key != "seal")


def link_case(rng: np.random.Generator) -> None:
    """A link in the place of a file or a folder of a run: nothing outside is read, changed or deleted."""
    with spoiled(rng) as (run, folder):
        outside = run.out.parent / "outside"
        cuts.write_tree(outside, whole()[0] | {"secret.txt": b"a secret"})
        before = cuts.read_tree(outside)
        names = (*whole()[0], ".lock", ".new", ".ready", "checkpoint/fixed/.draft.tmp", "")
        name = one_of(rng, *names)
        place, target = folder / name, outside / name if name in whole()[0] else outside
        if name.startswith(".lock"):
            target = outside / "secret.txt"
        if place.exists():
            place.rename(run.out / "moved")
        place.symlink_to(target if rng.random() < 0.8 else os.path.relpath(target, place.parent))
        for found in report.collect(run.out):
            assert found.problems or not is_kept(name) or name.startswith(".")
            Page().feed(report.build([found], [EXPERIMENT]))
        run.folder.record()
        for again in (True, False):
            with pytest.raises(RunError, match="symbolic link"):
                run_all([run], resume=again)
        assert cuts.read_tree(outside) == before


FUZZERS = (
    Fuzzer("json", json_case, 120),
    Fuzzer("files", file_case, 50),
    Fuzzer("pictures", picture_case, 12),
    Fuzzer("flips", flip_case, 60),
    Fuzzer("links", link_case, 40),
)
