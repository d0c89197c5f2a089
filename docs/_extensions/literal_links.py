"""Makes a link to the reference of every name of the package that a page writes as code, such as `wane.optimum`."""

from typing import Any

import api
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode


class LiteralLinks(SphinxPostTransform):
    """Looks every piece of inline code up among the documented names."""

    default_priority = 800

    def run(self, **kwargs: Any) -> None:
        """Replaces what is found by links. Code in headings and in links stays as it is."""
        domain = self.env.domains.python_domain
        for node in list(self.document.findall(nodes.literal)):
            if isinstance(node.parent, nodes.title | nodes.reference):
                continue
            target = find(node.astext().removesuffix("()"), self.env.docname, domain, self.env.app.wane_modules)
            if target is not None and target[0] != self.env.docname:
                node.replace_self(
                    make_refnode(self.env.app.builder, self.env.docname, *target, node.deepcopy(), node.astext())
                )


def find(name: str, page: str, domain: PythonDomain, modules: dict[str, api.Module]) -> tuple[str, str] | None:
    """Returns the page and the anchor of a name, or None. In the reference, names may be those of the same module."""
    if not name.replace(".", "").replace("_", "").isalnum():
        return None
    names = [api.home(name, modules)] if name.startswith("wane") else []
    if page.startswith("reference/"):
        names.append(api.home(f"{page.removeprefix('reference/')}.{name}", modules))
    for full in names:
        entry = domain.modules.get(full) or domain.objects.get(full)
        if entry is not None:
            return entry.docname, entry.node_id
    return None


def read_modules(app: Sphinx) -> None:
    """Reads the package once for all pages."""
    app.wane_modules = api.read_package()


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the transform."""
    app.connect("builder-inited", read_modules)
    app.add_post_transform(LiteralLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
