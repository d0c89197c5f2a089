"""What the pages show is what the code does: ```python blocks run, and a ```text block after one is what it prints."""

import contextlib
import importlib
import io
import itertools
import re
import sys
import types
from pathlib import Path

import pytest

import wane

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = (DOCS / "reference", DOCS / "_build")
"""What a build of the site leaves in docs; git ignores it."""
SOURCES = sorted(page for page in DOCS.rglob("*.md") if not any(page.is_relative_to(made) for made in GENERATED))
PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *SOURCES]
SCRIPTS = sorted((DOCS / "gallery").glob("*.py"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name(path):
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def extension():
    """Imports a module of docs/_extensions. Those that are asked for here need nothing but Python."""
    sys.path.insert(0, str(DOCS / "_extensions"))
    yield importlib.import_module
    sys.path.remove(str(DOCS / "_extensions"))


def examples(text):
    """(line, code, output shown or None) of every Python block of a page."""
    blocks = [(text.count("\n", 0, m.start()) + 2, m[1], m[2], m.end(), m.start()) for m in BLOCK.finditer(text)]
    for this, after in itertools.zip_longest(blocks, blocks[1:]):
        line, language, code, end, _ = this
        if language == "python":
            shown = after is not None and after[1] == "text" and not text[end : after[4]].strip()
            yield line, code, after[2] if shown else None


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_examples_run_and_print_what_is_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType(f"page_{page.stem}")
    for line, code, shown in examples(page.read_text(encoding="utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), wane.jit_checks(False):
            # Blank lines in front, so that a traceback names the line of the page.
            exec(compile("\n" * (line - 1) + code, page, "exec"), module.__dict__)
        if shown is not None:
            assert printed.getvalue() == shown, f"{page.name}, line {line}"


def slug(heading):
    """The anchor of a heading, as repositories' pages and the site both make it."""
    words = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def headings(page):
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    return re.findall(r"^#+ (.+)$", text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", text):
        file = page.parent / target if target else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in map(slug, headings(file)), f"{page.name}: {file.name} has no heading #{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_that_a_page_names_are_there(page):
    text = page.read_text(encoding="utf-8")
    missing = [
        file for file in re.findall(r"`((?:src|tests|docs|benchmarks)/[\w./-]+)`", text) if not (ROOT / file).exists()
    ]
    assert not missing, f"{page.name} names {missing}"


@pytest.mark.parametrize("page", PAGES[1:], ids=name)
def test_lines_are_not_too_long(page):
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        assert len(line) <= 130, f"{page.name}, line {number} has {len(line)} characters"


@pytest.mark.parametrize("page", SOURCES, ids=name)
def test_formulas_are_closed_and_have_nothing_that_a_repository_page_would_eat(page):
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    text = re.sub(r"`[^`\n]*`", "", text)
    displayed = re.findall(r"^ *\$\$$(.*?)^ *\$\$$", text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^ *\$\$$.*?^ *\$\$$", "", text, flags=re.MULTILINE | re.DOTALL)
    inline = re.findall(r"\$([^$\n]+)\$", rest)
    assert "$" not in re.sub(r"\$[^$\n]+\$", "", rest), f"{page.name} has a formula without an end"
    for formula in displayed + inline:
        assert formula.count("{") == formula.count("}"), formula
        assert not re.search(r"\\[^a-zA-Z]", formula), f"{page.name}: {formula} has a backslash before a sign"


@pytest.mark.parametrize("page", SOURCES, ids=name)
def test_headings_make_anchors_that_begin_with_a_letter_and_differ(page):
    anchors = [slug(heading) for heading in headings(page)]
    assert not [anchor for anchor in anchors if not anchor[:1].isalpha()]
    assert len(set(anchors)) == len(anchors)


def test_a_table_of_contents_names_every_page_once():
    named = []
    for page in SOURCES:
        for block in re.findall(r"^:::\{toctree\}\n(.*?)^:::$", page.read_text(encoding="utf-8"), re.M | re.S):
            entries = [line for line in block.splitlines() if line and not line.startswith(":")]
            named += [(page.parent / entry).relative_to(DOCS) for entry in entries]
    named.remove(Path("reference/wane"))  # It is made from the source, with those below it.
    pages = [page.relative_to(DOCS).with_suffix("") for page in (*SOURCES, *SCRIPTS)]
    assert sorted(named) == sorted(set(pages) - {Path("index")})


def test_every_public_name_has_its_place_a_docstring_and_types(extension):
    api = extension("api")
    modules = api.read_package()
    assert not api.undocumented(modules)
    reference = "\n".join(api.page(module, modules) for module in modules.values())
    assert not [
        name for name in wane.__all__ if not re.search(rf"^:+{{py:\w+}} {name}\b|`{name} <wane", reference, re.M)
    ]


def test_the_reference_shows_types_as_they_are_written(extension):
    api = extension("api")
    modules = api.read_package()
    exact = api.page(modules["wane.exact.representations"], modules)
    assert re.search(r":::\{py:function\} lambda_representation\(kernel: wane\.kernels\.KernelLike, lam: ", exact)
    assert "-> wane.exact.representations.Representation" in exact
    assert "rich.table.Table" in api.page(modules["wane.demo"], modules)  # there are a few others called Table
    assert api.home("wane.optimum", modules) == "wane.exact.planning.optimum"
    assert "{py:obj}`optimum <wane.exact.planning.optimum>`" in api.page(modules["wane"], modules)
    assert api.prose("It adds.\n\n>>> 1 + 1\n2\n\nArgs:\n    x: a number") == (
        "It adds.\n\n\n```pycon\n>>> 1 + 1\n2\n```\n\n**Arguments**\n\n- `x`: a number"
    )


def test_a_public_name_without_a_docstring_or_a_type_is_found(extension, tmp_path):
    api = extension("api")
    (tmp_path / "wane").mkdir()
    (tmp_path / "wane" / "__init__.py").write_text(
        '"""A package."""\n\n__all__ = ["there", "nowhere"]\n\ndef there(x): ...\n'
    )
    assert api.undocumented(api.read_package(tmp_path)) == [
        "wane.nowhere has no place in the reference",
        "wane.there has no docstring",
        "wane.there: the parameter x has no type",
    ]


def test_a_page_is_a_set_of_examples():
    page = "a\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n```python\nx = 2\n```\nand\n```text\n3\n```\n"
    assert list(examples(page)) == [(3, "print(1)\n", "1\n"), (11, "x = 2\n", None)]


SLOW = {"lambda_sac", "pixels", "thousand_seeds"}


def run_scripts(extension, folder, scripts):
    """Runs scripts of the gallery one after the other, as the build of the site does. Returns what they printed."""
    examples, printed = extension("examples"), {}
    for script in scripts:
        (folder / script.stem).mkdir()
        blocks, _ = examples.run(script, folder / script.stem)
        assert any(block.pictures for block in blocks), f"{script.name} saves no picture"
        printed[script.stem] = "".join(block.printed for block in blocks)
    return printed


def test_scripts_of_the_gallery_run_and_save_a_picture(extension, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    printed = run_scripts(extension, tmp_path, [script for script in SCRIPTS if script.stem not in SLOW])
    assert "found λ = 0.700" in printed["gradients"]
    assert "the optimum, as a mean over all starts: 26.178" in printed["optimum_and_regret"]


@pytest.mark.fuzz
def test_the_slowest_scripts_of_the_gallery_run(extension, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    printed = run_scripts(extension, tmp_path, [script for script in SCRIPTS if script.stem in SLOW])
    assert len(printed) == len(SLOW)
    assert "(1000, 2, 5)" in printed["thousand_seeds"]


def test_a_script_is_divided_at_its_marks(extension, tmp_path):
    examples = extension("examples")
    script = tmp_path / "script.py"
    script.write_text('"""Title.\n\nMore."""\n\nx = 1\n\n# %%\n# A *word*.\nprint(x)\n# why\nx = 2\n')
    blocks, _ = examples.run(script, tmp_path)
    assert [(block.text, block.code, block.printed) for block in blocks] == [
        ("Title.\n\nMore.", "x = 1", ""),
        ("A *word*.", "print(x)\n# why\nx = 2", "1\n"),
    ]
    page = examples.to_markdown("script", blocks, 0.1, "pictures")
    assert page.startswith("# Title\n\nMore.\n")
    assert "```text\n1\n```" in page
