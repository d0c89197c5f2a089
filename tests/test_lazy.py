"""What is imported, and when: each test looks into a fresh interpreter."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import wane

HEAVY = ("jax", "pandas", "matplotlib", "gymnasium", "ray", "scipy", "numpy", "equinox")


def loaded(code: str) -> set[str]:
    """Which of the heavy packages are loaded after some code, and which modules of wane."""
    code = f"{code}\nimport sys\nprint('LOADED', *sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    modules = set(found.stdout.rpartition("LOADED")[2].split())
    return {name for name in modules if name in HEAVY or name.startswith("wane")}


def test_importing_wane_loads_nothing_heavy():
    assert loaded("import wane") == {"wane", "wane.lazy"}


@pytest.mark.parametrize("option", ["--help", "--version", "-h", ""])
def test_help_loads_nothing_heavy(option):
    code = f"import sys\nsys.argv = 'wane {option}'.split()\nfrom wane.cli import main\nmain()"
    assert not loaded(code) & set(HEAVY)


def test_the_registry_loads_no_experiment():
    modules = loaded("import wane\nprint(wane.lab.names())")
    assert not modules & set(HEAVY)


def test_exact_computing_loads_neither_tables_nor_pictures():
    modules = loaded("import wane\nwane.Geometric(0.5), wane.MDP, wane.representation")
    assert not modules & {"pandas", "matplotlib", "gymnasium", "ray"}
    assert {"jax", "equinox", "scipy"} <= modules


@pytest.mark.parametrize("name", wane.__all__)
def test_every_public_name_is_there_and_documented(name):
    assert name in dir(wane)
    assert getattr(wane, name).__doc__, name


def test_submodules_are_attributes_and_others_are_not():
    assert wane.depletion.Geometric is wane.Geometric
    with pytest.raises(AttributeError, match="module 'wane' has no attribute 'nonsense'"):
        _ = wane.nonsense
    assert {"Geometric", "__version__", "worlds"} <= set(dir(wane))


def test_the_environments_are_registered_for_those_who_use_gymnasium():
    code = "import gymnasium, wane\nassert 'wane/FourRooms-v0' in gymnasium.registry"
    assert "wane.worlds.gym" in loaded(code)
    loaded("import gymnasium\ngymnasium.make('wane:wane/FourRooms-v0')")


@pytest.mark.parametrize("program", [["-m", "wane"], ["-m", "wane.cli"]])
def test_the_version_stands_in_one_place(program):
    found = subprocess.run([sys.executable, *program, "--version"], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == wane.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", wane.__version__)
    project = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    assert 'dynamic = ["readme", "version"]' in project
    assert wane.__version__ not in re.findall(r"^version = (.*)$", project, re.MULTILINE)


def test_the_package_is_typed():
    assert (Path(wane.__file__).parent / "py.typed").exists()


def test_an_old_name_still_works_and_warns_with_the_new_one(tmp_path, monkeypatch):
    folder = tmp_path / "lazily_renamed"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from wane.lazy import attach\n"
        "__getattr__, __dir__ = attach(__name__, renamed={'old': 'lazily_renamed.home.new'})\n"
    )
    (folder / "home.py").write_text("new = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    import lazily_renamed

    with pytest.warns(DeprecationWarning, match=r"lazily_renamed\.old is now lazily_renamed\.home\.new"):
        assert lazily_renamed.old == 3
    assert "old" not in dir(lazily_renamed)
