"""Random words on the command line, settings as names of folders, and descriptions of agents and worlds."""

import contextlib
import dataclasses
import io
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from adversary import cuts
from adversary.folders import MEMORY, mutated
from adversary.frame import Fuzzer, assert_in_words, one_of
from adversary.maps import good_world
from wane.agents import Trained, load, q_lambda
from wane.commands.running import parse_run
from wane.files import DamagedFile, write_json
from wane.lab import find
from wane.lab.contract import flat
from wane.lab.runs import Run
from wane.lab.runs.run import LONGEST, folder_name
from wane.worlds import describe, make
from wane_paper.collection import NAMES

VALUES = (
    *("0", "1", "2", "-1", "0.5", "1.5", "1e-300", "1e400", "nan", "inf", "-inf", "1e999", "0x10", "1_000", "9" * 400),
    *("", " ", "abc", "None", "True", "[]", "()", "0.5,0.5", "..", "--seeds", "-h", "λ", "\0", "\ud800", "[red]x[/]"),
)


def command_case(rng: np.random.Generator) -> None:
    """`wane run NAME …` with random options is refused in words, or gives settings that a run can be made of."""
    name = one_of(rng, *NAMES)
    fields = list(flat(find(name).quick))
    words = [name]
    for _ in range(rng.integers(1, 4)):
        option = one_of(
            rng, *fields, *fields, "out", "scale", "processes", "save-seconds", "shards", "gpus", "nonsense"
        )
        words += [
            "--" + option.replace("_", "-"),
            *(one_of(rng, *VALUES) for _ in range(one_of(rng, 1, 1, 1, 0, 2, 3))),
        ]
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            options, settings, name = parse_run(words)
    except ValueError as error:
        return assert_in_words(error)
    except SystemExit:
        return assert_in_words(ValueError(said.getvalue()))
    run = Run(name, settings, options.scale, Path("out"))
    assert len(run.folder.path.name.encode()) <= LONGEST
    assert len(run.fingerprint) == 16


def name_case(rng: np.random.Generator) -> None:
    """Different settings never share a folder, and every folder has a name that a file system takes."""
    first = {f"field{i}": _value(rng) for i in range(rng.integers(1, 25))}
    field = one_of(rng, *first)
    second = first | {field: _value(rng)}
    if rng.random() < 0.2:
        second.pop(field)
    names = [folder_name("toy", changes) for changes in (first, second)]
    kinds = [type(changes.get(field)) for changes in (first, second)]
    if first != second and (kinds[0] is kinds[1] or field not in second):  # A setting has one type.
        assert names[0] != names[1], (first, second)
    for name in names:
        assert 0 < len(name.encode()) <= LONGEST
        assert not set(name) & set("/\\\0 \n:*?\"<>|'"), name


def _value(rng: np.random.Generator) -> Any:
    match rng.integers(5):
        case 0:
            return int(rng.integers(-3, 2000))
        case 1:
            return float(one_of(rng, 0.1, 1e-9, 1 / 3, 2.0, 12345.678, rng.random()))
        case 2:
            return "".join(one_of(rng, *"ab_+=,./ λé\"'\n:-") for _ in range(rng.integers(0, 60)))
        case 3:
            return tuple(float(x) for x in rng.integers(0, 5, rng.integers(0, 40)) / 4)
    return tuple(one_of(rng, "a", "b", "a,b", "a+b", "") for _ in range(rng.integers(0, 4)))


@cache
def saved_agent() -> cuts.Tree:
    """The folder of a saved agent."""
    world, config = make("toy"), q_lambda.Config(episodes=2)
    with tempfile.TemporaryDirectory() as folder:
        state = q_lambda.init(jax.random.key(0), world, config)
        Trained("q_lambda", world, config, state).save(Path(folder))
        return cuts.read_tree(Path(folder))


def agent_case(rng: np.random.Generator) -> None:
    """A saved agent with one value of its description changed, or one bit flipped, loads or is refused in words."""
    tree = saved_agent()
    with tempfile.TemporaryDirectory(dir=MEMORY) as out:
        folder = Path(out) / "agent"
        cuts.write_tree(folder, tree)
        crafted = rng.random() < 0.6
        if crafted:
            content = mutated(rng, json.loads(tree["config.json"] or b""))
            write_json(folder / "config.json", content, sealed=isinstance(content, dict))
        else:
            name = one_of(rng, *tree)
            content = bytearray(tree[name] or b"")
            content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
            (folder / name).write_bytes(content)
        try:
            agent = load(folder)
        except DamagedFile as error:
            return assert_in_words(error)
        if not crafted:  # The flip hit a space, or the name of the checksum.
            assert np.array_equal(agent.params.phi, q_lambda.init(jax.random.key(0), agent.world, agent.config).phi)
            assert agent.config == q_lambda.Config(episodes=2)


def description_case(rng: np.random.Generator) -> None:
    """A random world comes back from its description as it was; a description with one value changed is refused."""
    world = good_world(rng)
    described = json.loads(json.dumps(describe.describe(world)))
    again = describe.from_description(described)
    assert describe.describe(again) == described
    assert (again.map.text, again.n_actions, again.timing) == (world.map.text, world.n_actions, world.timing)
    for field in dataclasses.fields(world.depletion):
        assert np.array_equal(getattr(again.depletion, field.name), getattr(world.depletion, field.name))
    try:
        other = describe.from_description(mutated(rng, described))
    except ValueError as error:
        return assert_in_words(error)
    assert other.n_states > 0


FUZZERS = (
    Fuzzer("commands", command_case, 40),
    Fuzzer("folder-names", name_case, 300),
    Fuzzer("saved-agents", agent_case, 80),
    Fuzzer("descriptions", description_case, 80),
)
