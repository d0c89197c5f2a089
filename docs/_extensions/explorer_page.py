"""Puts the explorer into the site, where explorer.md embeds it."""

from pathlib import Path

from sphinx.application import Sphinx

from wane import explore


def write_explorer(app: Sphinx, error: Exception | None) -> None:
    """Writes explorer-page.html after the site was built."""
    if error is None and app.builder.format == "html":
        explore().save(Path(app.outdir) / "explorer-page.html")


def setup(app: Sphinx) -> dict[str, bool]:
    """Runs `write_explorer` at the end of a build."""
    app.connect("build-finished", write_explorer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
