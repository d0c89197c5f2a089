"""What the pages show is what the code does: ```python blocks run, and a ```text block after one is what it prints."""

import contextlib
import io
import itertools
import re
import types
from pathlib import Path

import pytest

import wane

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(text):
    """(line, code, output shown or None) of every Python block of a page."""
    blocks = [(text.count("\n", 0, m.start()) + 2, m[1], m[2], m.end(), m.start()) for m in BLOCK.finditer(text)]
    for this, after in itertools.zip_longest(blocks, blocks[1:]):
        line, language, code, end, _ = this
        if language == "python":
            shown = after is not None and after[1] == "text" and not text[end : after[4]].strip()
            yield line, code, after[2] if shown else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run_and_print_what_is_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType(f"page_{page.stem}")
    for line, code, shown in examples(page.read_text(encoding="utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            # Blank lines in front, so that a traceback names the line of the page.
            exec(compile("\n" * (line - 1) + code, page, "exec"), module.__dict__)
        if shown is not None:
            assert printed.getvalue() == shown, f"{page.name}, line {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[\w-]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_not_too_long(page):
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        assert len(line) <= 130, f"{page.name}, line {number} has {len(line)} characters"


def test_every_public_name_is_in_the_reference():
    reference = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    missing = [name for name in wane.__all__ if not re.search(rf"\bwane\.(?:\w+\.)*{name}\b", reference)]
    assert not missing


def test_a_page_is_a_set_of_examples():
    page = "a\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n```python\nx = 2\n```\nand\n```text\n3\n```\n"
    assert list(examples(page)) == [(3, "print(1)\n", "1\n"), (11, "x = 2\n", None)]
