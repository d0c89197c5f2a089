"""Formulas as MathML, made when the site is built: browsers show it without any script or font from elsewhere."""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

PRIMED = r"<msup>(<m[in]>[^<]*</m[in]>)<m[io]>&#x0*2032;</m[io]></msup>"


def to_mathml(latex: str, display: str) -> str:
    """Returns the MathML of a formula. Raises ExtensionError for a command that the converter does not know."""
    # A prime as a superscript would be made small twice: the sign is small and raised by itself.
    mathml = re.sub(PRIMED, r'<mrow>\1<mo lspace="0" rspace="0">′</mo></mrow>', convert(latex, display=display))
    if "\\" in mathml:
        unknown = mathml[mathml.index("\\") :][:30]
        raise ExtensionError(f"the formula {latex!r} has a command that cannot be shown: {unknown}")
    return mathml


def parts(latex: str) -> list[str]:
    """Returns the formulas that a wide space divides. Each is one element, so that a narrow window can stack them."""
    pieces = re.split(r"\\qquad(?![a-zA-Z])", latex)
    return pieces if all(piece.count("{") == piece.count("}") for piece in pieces) else [latex]


def visit_inline(writer: Any, node: nodes.math) -> None:
    """Writes a formula within a sentence."""
    writer.body.append(f'<span class="math">{to_mathml(node.astext(), "inline")}</span>')
    raise nodes.SkipNode


def visit_block(writer: Any, node: nodes.math_block) -> None:
    """Writes a formula that stands by itself. A long one can be scrolled without moving the page."""
    number = f'<span class="eqno">({node["number"]})</span>' if node.get("number") else ""
    formulas = "".join(to_mathml(part, "block") for part in parts(node.astext()))
    writer.body.append(f'<div class="math" tabindex="0">{number}{formulas}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the renderer under the name "mathml"."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
