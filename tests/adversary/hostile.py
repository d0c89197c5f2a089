"""Agents, worlds and runs that were crafted to run code: names that lead to modules and files, and absurd numbers.

Every case changes a few values of a file that was saved, with a checksum that fits. Whoever loads it gets what it says,
or is told in words what is wrong. Nothing is written, and no module is imported that an honest file does not need.
"""

import contextlib
import copy
import json
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from adversary import cuts
from adversary.folders import MEMORY, read, spoiled
from adversary.frame import Fuzzer, assert_in_words, one_of
from wane.agents import Trained, load
from wane.agents.common.contract import find, names
from wane.files import DamagedFile, write_json
from wane.lab.runs.evaluation import evaluate
from wane.worlds import describe, make
from wane.worlds.control import ControlTask

NAMES = (
    *("evilmod", "evilmod:Swim-v0", "evilmod.sub:Swim-v0", "evilmod:Pendulum-v1", "evilmod:wane/PointMass-v0"),
    *("Swim-v0", "evil/Swim-v0", "Hopper-v5:evilmod", "GymV21Environment-v0", "Hopper-v3", "Reacher-v5", "CartPole-v1"),
    *("wane/PointMass-v0", "wane/Toy-v0", "wane.worlds.gym:wane/Toy-v0", "this", "antigravity", "this:Hopper-v5"),
    *("os", "os.path", "wane.agents.sac", "sac", "planner", "common", "trained", "__init__", "__class__", "Trained"),
    *("../../evilmod", "/etc/hostname", "./evilmod.py", "evilmod.py", "first-person:evilmod", "index+evilmod"),
)
"""Texts that name a module, a file, or something of the package that does not belong there."""
NUMBERS = (10**400, 10**9, 10**12, -1, 0, 0.5, 1e308, float("inf"), float("nan"))
OTHERS = (None, True, "", [], {}, ["evilmod"], {"kind": "evilmod"}, {"kind": "Geometric", "lam": 0.5}, [10**6, 10**6])
CONFIGS: dict[str, dict[str, Any]] = {"q_lambda": {}, "gpi": {}, "sac": {"hidden": (4,), "replay": 9, "batch": 2}}
"""The agents that are saved, with their settings."""


class Asked:
    """A finder of modules that finds nothing, and notes what is looked for."""

    def __init__(self) -> None:
        self.known = {name.partition(".")[0] for name in sys.modules}
        self.new: list[str] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] not in self.known:
            self.new.append(name)


@contextlib.contextmanager
def nothing_new() -> Iterator[None]:
    """Asserts that no package is looked for that honest files have not brought in already."""
    honest()
    asked = Asked()
    sys.meta_path.insert(0, asked)  # pyright: ignore[reportArgumentType]
    try:
        yield
    finally:
        sys.meta_path.remove(asked)  # pyright: ignore[reportArgumentType]
    assert asked.new == []


@cache
def honest() -> dict[str, cuts.Tree]:
    """The folders of saved agents. They, tasks and a run are read once, so that all that they need is imported."""
    trees = {}
    with tempfile.TemporaryDirectory(dir=MEMORY) as out:
        for name, settings in CONFIGS.items():
            module, world = find(name), ControlTask("Pendulum-v1") if name == "sac" else make("toy")
            config, folder = module.Config(**settings), Path(out) / name
            Trained(name, world, config, module.init(jax.random.key(0), world, config)).save(folder)
            load(folder)
            trees[name] = cuts.read_tree(folder)
    for name in ("Reacher-v5", "wane/PointMass-v0"):
        describe.from_description(describe.describe(ControlTask(name))).copies([0])
    with spoiled(np.random.default_rng(0)) as (run, _):
        read(run)
    return trees


def twisted(rng: np.random.Generator, content: Any) -> Any:
    """A copy of a JSON value in which one or two values are hostile, half of them texts in the place of texts."""
    content = copy.deepcopy(content)
    for _ in range(1 + (rng.random() < 0.3)):
        found = list(_places(content))
        texts = [place for place in found if isinstance(place[0][place[1]], str)]
        named = bool(texts) and rng.random() < 0.5
        parent, key = one_of(rng, *(texts if named else found))
        parent[key] = copy.deepcopy(one_of(rng, *(NAMES if named else one_of(rng, NAMES, NUMBERS, OTHERS))))
    return content


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Every dictionary or list in a JSON value, with each of its keys."""
    for key in content if isinstance(content, dict) else range(len(content)):
        yield content, key
        if isinstance(content[key], dict | list):
            yield from _places(content[key])


def agent_case(rng: np.random.Generator) -> None:
    """A hostile agent is loaded, and refuses to play without end, or is refused."""
    tree = honest()[one_of(rng, *CONFIGS)]
    with tempfile.TemporaryDirectory(dir=MEMORY) as out:
        folder = Path(out) / "agent"
        cuts.write_tree(folder, tree)
        content = json.loads(tree["config.json"] or b"")
        part = one_of(rng, None, "world", "config")
        content = twisted(rng, content) if part is None else {**content, part: twisted(rng, content[part])}
        write_json(folder / "config.json", content, sealed=True)
        before = cuts.read_tree(Path(out))
        with nothing_new():
            try:
                agent = load(folder)
            except DamagedFile as error:
                assert_in_words(error)
            else:
                assert agent.agent in names()
                _refuse_to_play_for_ever(agent)
        assert cuts.read_tree(Path(out)) == before


def _refuse_to_play_for_ever(agent: Trained) -> None:
    if (agent.world.horizon or 0) >= 10**9:
        try:
            evaluate(agent, episodes=1)
        except ValueError as error:
            return assert_in_words(error)
        raise AssertionError("a saved horizon of 10⁹ steps passes the limit of memory")


def world_case(rng: np.random.Generator) -> None:
    """The description of a world or of a task becomes one, or is refused."""
    place = one_of(
        rng, make("toy"), make("four-rooms"), ControlTask("Hopper-v5"), ControlTask("wane/PointMass-v0", remaining=True)
    )
    description = twisted(rng, describe.describe(place))
    with nothing_new():
        try:
            found = describe.from_description(description)
            assert found.n_actions > 0
        except (ValueError, TypeError, OverflowError) as error:
            assert_in_words(error)


def run_case(rng: np.random.Generator) -> None:
    """The record of a run is shown, or it is told what is wrong."""
    with spoiled(rng) as (run, folder):
        record = json.loads((folder / "run.json").read_text())
        write_json(folder / "run.json", twisted(rng, record), sealed=True)
        with nothing_new():
            read(run)


FUZZERS = (
    Fuzzer("hostile-agents", agent_case, 80),
    Fuzzer("hostile-worlds", world_case, 60),
    Fuzzer("hostile-runs", run_case, 40),
)
