"""The plain install: what works without any extra, and what is said about a missing one."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from wane import extras
from wane.extras import EXTRAS, MissingExtra, install_command, require

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
LISTED = PROJECT["optional-dependencies"]
PACKAGES = sorted({module for modules in EXTRAS.values() for module in modules})


def projects(extra: str) -> set[str]:
    """The projects that an extra of pyproject.toml brings, those of the extras that it names included."""
    found = set()
    for requirement in LISTED[extra]:
        if named := re.fullmatch(r"wane\[([\w,]+)\]", requirement):
            found |= set().union(*(projects(each) for each in named[1].split(",")))
        else:
            found.add(re.split(r"[\[>=<]", requirement)[0])
    return found


def plain(code: str) -> subprocess.CompletedProcess:
    """Runs code as if no package of any extra were installed."""
    code = f"import sys\nsys.modules.update(dict.fromkeys({PACKAGES}))\n{code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_packages_of_an_extra_are_those_of_the_project_file(extra):
    assert {name.lower().replace(" ", "-") for name in EXTRAS[extra].values()} == projects(extra)


def test_every_extra_for_users_is_known_and_none_is_needed_by_the_plain_install():
    assert {*LISTED} - {"all", "docs", "bench", "dev"} == {*EXTRAS}
    assert projects("all") == set().union(*(projects(each) for each in EXTRAS if each != "sb3"))
    needed = {re.split(r"[\[>=<]", requirement)[0] for requirement in PROJECT["dependencies"]}
    assert not needed & set().union(*map(projects, EXTRAS))


def test_exact_answers_worlds_agents_and_the_explorer_need_no_extra():
    done = plain("""
import jax, wane
from wane import agents, worlds
rooms = worlds.make("corridor", length=3, observation="first-person")
rooms.step(None, rooms.reset(jax.random.key(0))[1], 1)
assert rooms.optimum().values.max() > rooms.values([0] * 3).max() > 0
assert rooms._repr_png_() is None and repr(rooms)
assert "<html" in wane.explore(worlds.make("two-rooms")).html
agents.q_lambda, agents.gpi, agents.a2c, agents.sac, agents.forward_backward, agents.Trained
worlds.control.ControlTask("Pendulum-v1").copies([0])
""")
    assert done.returncode == 0, done.stderr


def test_every_part_that_needs_an_extra_names_it():
    parts = {
        "wane.foraging.fit": "foraging",
        "wane.worlds.make('two-rooms').draw()": "plots",
        "wane.worlds.film": "plots",
        "wane.worlds.Environment": "gym",
        "wane.worlds.Depleting": "gym",
        "wane.worlds.sb3": "gym",
        "wane.worlds.control.ControlTask('Hopper-v5')": "control",
        "wane.worlds.control.ControlTask('Reacher-v5').steps": "gym",
        "list(wane.worlds.control.ControlTask('Pendulum-v1').pictures([[0.0, 0.0]]))": "plots",
        "wane.lab.find('toy')": "experiments",
        "wane.lab.Claim": "experiments",
        "__import__('wane.lab.plots')": "experiments",
        "__import__('wane.lab.report')": "experiments",
    }
    done = plain(f"""
import wane, wane.extras, wane.worlds.control
for part in {list(parts)}:
    try:
        eval(part)
    except wane.extras.MissingExtra as error:
        print(error)
    else:
        print("nothing is missing for", part)
""")
    assert done.returncode == 0, done.stderr
    for message, (part, extra) in zip(done.stdout.splitlines(), parts.items(), strict=True):
        assert re.search(rf" needs .* not installed: pip install .*\[{extra}\]'$", message), (part, message)


def test_a_command_that_needs_an_extra_says_so_in_one_sentence(tmp_path):
    commands = ["list", "report", "run toy", "show toy", "forage rats", "reproduce"]
    done = plain(f"""
import os
from wane.cli import main
os.chdir({str(tmp_path)!r})
os.mkdir("out")
for words in {commands}:
    sys.argv = ["wane", *words.split()]
    try:
        main()
    except SystemExit as end:
        print(end.code)
""")
    assert done.stdout.split() == ["1"] * len(commands), done.stderr
    sentence = r"wane: wane\.[\w.]+ needs pandas, .* which are not installed: pip install .*\[(experiments|foraging)\]'"
    for message in done.stderr.splitlines():
        assert re.fullmatch(sentence, message)
    assert len(done.stderr.splitlines()) == len(commands)
    assert not any((tmp_path / "out").iterdir())


class Installed:
    """What pip keeps about an installed package."""

    def __init__(self, origin: object) -> None:
        self.origin = origin

    def read_text(self, name: str) -> str | None:
        return json.dumps(self.origin) if name == "direct_url.json" and self.origin else None


def test_the_command_installs_from_where_the_package_came(monkeypatch, tmp_path):
    folder = tmp_path / "a checkout"
    folder.mkdir()
    origins = {
        None: "pip install 'wane[plots]'",
        ("https://index.example/wane.whl", False): "pip install 'wane[plots]'",
        (f"{folder.as_uri()}/gone.whl", False): "pip install 'wane[plots]'",
        (folder.as_uri(), False): f"pip install '{folder}[plots]'",
        (folder.as_uri(), True): f"pip install --editable '{folder}[plots]'",
    }
    for origin, wanted in origins.items():
        told = origin and {"url": origin[0], "dir_info": {"editable": True} if origin[1] else {}}
        monkeypatch.setattr(extras, "distribution", lambda name, told=told: Installed(told))
        assert install_command("plots") == wanted

    def refuse(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "distribution", refuse)
    assert install_command("plots") == "pip install 'wane[plots]'"


def test_what_is_missing_is_listed(monkeypatch):
    require("plots", "a picture")
    for module in EXTRAS["experiments"]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        MissingExtra, match="^a table needs pandas, Matplotlib, Pillow, PyArrow and Jinja2, which are not"
    ):
        require("experiments", "a table")
