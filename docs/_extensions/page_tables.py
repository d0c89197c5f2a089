"""Tables that pages take from the source and from the kept results, so that they cannot disagree with them.

:::{settings} wane.agents.q_lambda.Config
:::

:::{verdicts} q-lambda
:::
"""

import ast
import json

import api
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

RESULTS = api.SOURCE / "wane_paper" / "results" / "paper"


class Table(SphinxDirective):
    """A directive with one argument that becomes a table in Markdown."""

    required_arguments = 1

    def rows(self, name: str) -> list[str]:
        """Returns the lines of the table."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Parses the table as if it stood in the page."""
        holder = nodes.Element()
        self.state.nested_parse(StringList(self.rows(self.arguments[0]), self.env.docname), 0, holder)
        return holder.children


class Settings(Table):
    """The fields of a class with their types, their defaults and their descriptions."""

    def rows(self, name: str) -> list[str]:
        """Returns a row for each field. Raises KeyError if there is no such class."""
        modules = api.read_package()
        owner, _, last = api.home(name, modules).rpartition(".")
        node = modules[owner].own[last][0]
        assert isinstance(node, ast.ClassDef)
        lines = ["| name | type | default | meaning |", "| --- | --- | --- | --- |"]
        for at, (part, text) in api.members(node.body).items():
            if isinstance(part, ast.AnnAssign):
                kind = ast.unparse(part.annotation)
                kind = kind.removeprefix("Annotated[").split(", Range")[0] if "Annotated[" in kind else kind
                default = f"`{ast.unparse(part.value)}`" if part.value else ""
                cells = (f"`{at}`", f"`{kind}`", default, " ".join(text.split()))
                lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        return lines


class Verdicts(Table):
    """The claims of an experiment, with the verdicts of the run at the paper's scale that comes with the package."""

    def rows(self, name: str) -> list[str]:
        """Returns a row for each claim."""
        claims = json.loads((RESULTS / name / "claims.json").read_text(encoding="utf-8"))
        lines = ["| claim | from | verdict | found |", "| --- | --- | --- | --- |"]
        for claim in claims:
            source = f"the paper, {claim['place']}" if claim["kind"] == "paper" else claim["kind"]
            cells = (claim["statement"], source, f"**{claim['verdict']}**", claim["detail"])
            lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
        return lines


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the directives."""
    app.add_directive("settings", Settings)
    app.add_directive("verdicts", Verdicts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
