"""The gallery: scripts in docs/gallery are run when the site is built, and are pages of it."""

import dataclasses
import hashlib
import json
import os
import shutil
from pathlib import Path

import examples
from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

os.environ.setdefault("MPLBACKEND", "Agg")
LOG = logging.getLogger(__name__)


def built(docs: str | Path, name: str) -> Path:
    """The folder of what a script has made."""
    return Path(docs) / "_build" / "gallery" / name


def run_examples(app: Sphinx) -> None:
    """Runs every script that has changed, or that was run with another version of the package's source."""
    package = hashlib.sha256()
    for path in sorted((Path(app.srcdir).parent / "src").rglob("*.py")):
        package.update(path.read_bytes())
    for path in sorted((Path(app.srcdir) / "gallery").glob("*.py")):
        folder = built(app.srcdir, path.stem)
        fingerprint = hashlib.sha256(package.digest() + path.read_bytes()).hexdigest()
        record = folder / "record.json"
        if record.exists() and json.loads(record.read_text(encoding="utf-8"))["fingerprint"] == fingerprint:
            continue
        LOG.info("running %s", path.name)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        blocks, seconds = examples.run(path, folder)
        contents = {"fingerprint": fingerprint, "seconds": seconds, "blocks": list(map(dataclasses.asdict, blocks))}
        record.write_text(json.dumps(contents), encoding="utf-8")


class ExampleParser(MystParser):
    """Reads a script of the gallery as a page: its text, its code, and what came out of it."""

    supported = ("example",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parses the Markdown that is made of the script and its record."""
        path = Path(document["source"])
        record = json.loads((built(path.parents[1], path.stem) / "record.json").read_text(encoding="utf-8"))
        blocks = [examples.Block(**block) for block in record["blocks"]]
        folder = f"../_build/gallery/{path.stem}"
        super().parse(examples.to_markdown(path.stem, blocks, record["seconds"], folder), document)


def show_pictures(app: Sphinx, tree: nodes.document) -> None:
    """Puts the first picture of each example beside its link on the page gallery.md."""
    if app.env.docname != "gallery":
        return
    for listed in tree.findall(nodes.bullet_list):
        listed["classes"].append("gallery")
    for link in list(tree.findall(addnodes.pending_xref)):
        folder, _, name = link["reftarget"].removesuffix(".py").rpartition("/")
        if folder.strip("/") != "gallery":
            continue
        pictures = examples.pictures(built(app.srcdir, name))
        image = nodes.image(uri=f"_build/gallery/{name}/{pictures[0]}", alt="")
        link.parent.parent.insert(0, image)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers scripts as pages, and runs them before pages are read."""
    app.add_source_suffix(".py", "example")
    app.add_source_parser(ExampleParser)
    app.connect("builder-inited", run_examples)
    # Before images are collected, which has priority 500.
    app.connect("doctree-read", show_pictures, priority=400)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
