"""The README, what package indexes get of it, and the map of the code: they agree with what they tell about."""

import re
import runpy
import sys
import types
from pathlib import Path

import pytest

from wane.extras import EXTRAS
from wane_paper import readme

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def test_the_table_of_verdicts_is_that_of_the_kept_results():
    assert readme.fill(README, readme.kept_table()) == README, "python -m wane_paper.readme README.md writes it"


def test_a_page_without_a_place_for_the_table_is_refused():
    page = f"a\n{readme.BEGIN}\nold\n{readme.END}\nb\n"
    assert readme.fill(page, "new\n") == page.replace("old", "new")
    with pytest.raises(ValueError, match="the page has no place for the table"):
        readme.fill("a\n", "new\n")


def test_every_extra_is_in_the_table_of_weights():
    listed = re.findall(r"^\| `wane\[(\w+)\]` \|.*\|$", README, re.MULTILINE)
    assert sorted(listed) == sorted([*EXTRAS, "all"])


@pytest.fixture
def rewrite(monkeypatch):
    """The function that the build uses. hatchling itself is not needed for it."""
    interface = types.ModuleType("hatchling.metadata.plugin.interface")
    interface.MetadataHookInterface = object
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    return runpy.run_path(str(ROOT / "hatch_build.py"))["rewrite"]


def test_an_index_gets_no_relative_link(rewrite):
    relative = r"\]\((?![a-z]+:|#)"
    assert len(re.findall(relative, README)) > 20
    for repository in (None, "https://code.example/wane/"):
        assert not re.findall(relative, rewrite(README, repository, "1.2.3"))


def test_links_become_text_or_lead_to_the_tag(rewrite):
    page = "[Theory](docs/theory.md), ![a map](docs/a.png), [CITATION.cff](CITATION.cff), [x](https://y.example)\n"
    page += "```python\nP[0](docs/theory.md)\n```\n"
    code = "```python\nP[0](docs/theory.md)\n```\n"
    plain = f"Theory (`docs/theory.md`), *a map*, CITATION.cff, [x](https://y.example)\n{code}"
    assert rewrite(page, None, "1.2.3") == plain
    linked = rewrite(page, "https://code.example/wane", "1.2.3")
    assert "[Theory](https://code.example/wane/blob/v1.2.3/docs/theory.md)" in linked
    assert "![a map](https://code.example/wane/raw/v1.2.3/docs/a.png)" in linked
    assert linked.endswith(code)


def test_the_version_is_the_same_everywhere():
    version = re.search(r'__version__ = "(.*)"', (ROOT / "src" / "wane" / "__init__.py").read_text("utf-8"))[1]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)[1] == version


@pytest.mark.parametrize(
    "package", ["wane", "wane/exact", "wane/worlds", "wane/lab", "wane/lab/runs", "wane/lab/report", "wane_paper"]
)
def test_the_map_of_the_code_names_every_module(package):
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    folder = ROOT / "src" / package
    names = [path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    missing = [name for name in names if not name.startswith("_") and not re.search(rf"[`.]{name}`", page)]
    assert not missing
