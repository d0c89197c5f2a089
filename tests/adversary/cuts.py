"""Cuts a run at every point between its first and its last write, resumes it, and compares all that it publishes.

A run is watched while it works: before every operation that can change its folder (opening a file to write, renaming,
deleting, making a folder) the whole folder is copied to memory. Each copy is what a process that is killed at that
moment leaves behind, without any of the cleaning up that an exception would do. A draft is also copied half-written.
"""

import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wane.lab.runs import Run, run_all

Tree = dict[str, bytes | None]
"""The files of a folder by their relative paths; folders are None."""
EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree", "shutil.move")
_listener: list[Callable[[], None]] = []
_is_hooked = False


def _hook(event: str, words: tuple) -> None:
    if _listener and (event in EVENTS or (event == "open" and _writes(words))):
        listener = _listener.pop()  # The listener itself opens files.
        try:
            listener()
        finally:
            _listener.append(listener)


def _writes(words: tuple) -> bool:
    return isinstance(words[2], int) and bool(words[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))


@contextmanager
def before_every_write(listener: Callable[[], None]) -> Iterator[None]:
    """Calls a function before every operation of this process that can change a file, while it is open."""
    global _is_hooked
    if not _is_hooked:  # Python can add such hooks, but never remove them.
        sys.addaudithook(_hook)
        _is_hooked = True
    _listener.append(listener)
    try:
        yield
    finally:
        _listener.clear()


def read_tree(folder: Path) -> Tree:
    """All that is in a folder, but for the lock. Pipes and sockets have no bytes."""
    found: Tree = {}
    for path in sorted(folder.rglob("*")):
        if path.name != ".lock":
            content = path.read_bytes() if path.is_file() else b""
            found[path.relative_to(folder).as_posix()] = None if path.is_dir() else content
    return found


def write_tree(folder: Path, tree: Tree) -> None:
    """Makes a folder that holds what is in the tree, and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in tree.items():
        place = folder / name
        if content is None:
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)


def digest(tree: Tree) -> str:
    """Tells trees apart."""
    return hashlib.sha256(repr(sorted(tree.items(), key=lambda item: item[0])).encode()).hexdigest()


def watch(run: Run) -> tuple[list[Tree], dict[str, str]]:
    """Runs to the end. Returns what a kill at each moment would have left behind, and the files that were published."""
    shared: dict[bytes, bytes] = {}  # Most files are the same in many copies.
    states: dict[str, Tree] = {}

    def look() -> None:
        tree = read_tree(run.folder.path)
        tree = {name: content and shared.setdefault(content, content) for name, content in tree.items()}
        for each in (tree, *_half_written(tree)):
            states.setdefault(digest(each), each)

    with before_every_write(look):
        run_all([run], save_seconds=0)
    look()
    record = run.folder.record()
    assert record is not None
    return list(states.values()), record["files"]


def _half_written(tree: Tree) -> Iterator[Tree]:
    """The same with one of the files that are not yet in their place cut in the middle."""
    for name, content in tree.items():
        if content and (name.endswith(".tmp") or name.startswith(".new/")):
            yield tree | {name: content[: len(content) // 2]}


def distinct_after_recovery(run: Run, states: list[Tree]) -> list[Tree]:
    """The states that differ after a run has taken hold of its folder: what follows depends on nothing else."""
    found: dict[str, Tree] = {}
    for state in states:
        write_tree(run.folder.path, state)
        with run.folder.locked():
            found.setdefault(digest(read_tree(run.folder.path)), state)
    return list(found.values())


def assert_resumes(run: Run, state: Tree, expected: dict[str, str]) -> None:
    """Asserts that a run that was cut in this state ends with the same files as one that was not cut."""
    write_tree(run.folder.path, state)
    run_all([run], resume=True, save_seconds=0)
    record = run.folder.record()
    names = sorted(state)
    assert record is not None, f"not whole after resuming from {names}"
    wrong = [name for name in {**expected, **record["files"]} if expected.get(name) != record["files"].get(name)]
    assert not wrong, f"{wrong} differ after resuming from {names}"
    unlisted = [name for name, content in read_tree(run.folder.path).items() if content is not None]
    unlisted = [name for name in unlisted if not name.startswith("checkpoint/") and name not in record["files"]]
    assert unlisted == ["run.json"], f"{unlisted} lie about after resuming from {names}"
    drafts = [name for name in read_tree(run.folder.path) if name.endswith(".tmp")]
    assert not drafts, f"{drafts} were left behind"
