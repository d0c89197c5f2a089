"""Writes a page for each module of the package into docs/reference before a build."""

from pathlib import Path

import api
from sphinx.application import Sphinx


def write_pages(app: Sphinx) -> None:
    """Writes the pages that have changed, and removes those of modules that are gone."""
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    modules = api.read_package()
    for old in set(folder.glob("*.md")) - {folder / f"{name}.md" for name in modules}:
        old.unlink()
    for name, module in modules.items():
        path, text = folder / f"{name}.md", api.page(module, modules)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Runs `write_pages` before pages are read."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
