"""The fingerprint of a result changes with the code that the result depends on, and with no other."""

import sys

import pytest

from wane.lab import module_of
from wane.lab.runs import fingerprint
from wane.lab.runs.fingerprint import code_fingerprint, import_closure
from wane_paper.collection import NAMES

FILES = {
    "__init__.py": "",
    "experiment.py": '''
"""An experiment."""
from mine import inner
from mine.tables import table  # where tables come from
import mine.parts.second as second

def compute(x):
    """Computes."""
    from . import late
    return inner.f(table(x)) + second.TWO + late.THREE
''',
    "inner.py": "from .constants import ONE\nfrom typing import TYPE_CHECKING\n"
    "if TYPE_CHECKING:\n    from mine import unused\n\ndef f(x):\n    return x + ONE\n",
    "constants.py": "ONE = 1\n",
    "late.py": "THREE = 3\n",
    "parts/__init__.py": "from mine.parts.second import TWO\n",
    "parts/second.py": "TWO = 2\n",
    "tables.py": "def table(x):\n    return x\n",
    "unused.py": "FOUR = 4\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of one's own, and a function that changes one of its files and returns the new fingerprint."""
    folder = tmp_path / "mine"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    def change(name: str, old: str, new: str) -> str:
        assert old in (folder / name).read_text()
        (folder / name).write_text((folder / name).read_text().replace(old, new, 1))
        return measure()

    yield change
    forget()


def forget() -> None:
    """Empties all caches: a process that runs experiments does not see its own files change."""
    for function in vars(fingerprint).values():
        if hasattr(function, "cache_clear") and function is not fingerprint.cache:
            function.cache_clear()


def measure() -> str:
    forget()
    return code_fingerprint("mine.experiment")


def test_the_closure_is_what_is_imported(package):
    modules = ["", ".constants", ".experiment", ".inner", ".late", ".parts", ".parts.second", ".tables"]
    assert import_closure("mine.experiment") == [f"mine{name}" for name in modules]
    assert "mine.experiment" not in sys.modules


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("experiment.py", "An experiment.", "Another text."),
        ("experiment.py", '    """Computes."""\n', ""),
        ("experiment.py", "  # where tables come from", ""),
        ("experiment.py", "\n\n", "\n\n\n\n"),
        ("constants.py", "ONE = 1", 'ONE = (1)  # one\n"""The first number."""'),
        ("__init__.py", "", '"""A package."""\n__all__ = ["inner"]\n'),
        ("unused.py", "4", "5"),
    ],
)
def test_what_cannot_change_the_result_does_not_count(package, name, old, new):
    before = measure()
    assert package(name, old, new) == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("constants.py", "1", "2"),
        ("constants.py", "1", "1.0"),
        ("constants.py", "1", "True"),
        ("late.py", "3", "4"),
        ("parts/second.py", "2", "3"),
        ("parts/__init__.py", "TWO\n", "TWO\nprint()\n"),
        ("tables.py", "return x", "return -x"),
        ("experiment.py", " + late.THREE", ""),
    ],
)
def test_what_can_change_the_result_counts(package, name, old, new):
    before = measure()
    assert package(name, old, new) != before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from wane import Geometric", "wane.depletion"),
        ("from wane import *", "wane.mdp"),
        ("import wane\nwane.MDP(1)", "wane.mdp"),
        ("import wane as w\nw.exact.planning.optimum(1)", "wane.exact.planning"),
        ("from wane import exact\nexact.bellman.f()", "wane.exact.bellman"),
        ("from wane.lab import Claim", "wane.lab.contract"),
        ("import wane.files", "wane.files"),
        ("def f():\n    from wane.files import write", "wane.files"),
    ],
)
def test_names_of_lazy_packages_count_as_the_modules_they_come_from(package, text, expected):
    before = measure()
    assert package("tables.py", "def", f"{text}\n\ndef") != before
    assert expected in import_closure("mine.experiment")


@pytest.mark.parametrize("text", ["import wane", "from wane import exact", "from wane.lab import Claim"])
def test_a_lazy_package_does_not_count_as_a_whole(package, text):
    package("tables.py", "def", f"{text}\n\ndef")
    found = import_closure("mine.experiment")
    assert not {"wane", "wane.experiments", "wane.exact", "wane.agents.forward_backward.training"} & set(found)


@pytest.mark.parametrize("name", NAMES)
def test_no_result_depends_on_the_report_or_the_command_line(name):
    found = import_closure(module_of(name))
    assert module_of(name) in found
    assert "wane.lab.contract" in found
    assert not [each for each in found if each.startswith(fingerprint.OUTSIDE)]


def test_an_exact_experiment_does_not_depend_on_networks():
    assert not [each for each in import_closure(module_of("dp-convergence")) if "forward_backward" in each]
