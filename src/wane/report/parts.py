"""What the page uses in several places: a verdict's badge, names with their facts, tables that scroll, anchors."""

from collections.abc import Iterable
from urllib.parse import quote

from wane.report.markup import Child, Html, tag

SIGNS = {"holds": "✓", "fails": "✗", "not run": "○"}


def badge(verdict: str) -> Html:
    sign = tag("span", SIGNS[verdict], aria_hidden="true")
    return tag("span", sign, f" {verdict}", class_=f"verdict {css_class(verdict)}")


def css_class(verdict: str) -> str:
    return verdict.replace(" ", "-")


def anchor(*names: str) -> str:
    """An id: no two are alike, whatever the names hold, and none is one of the page's own, which start with /."""
    return "/".join(quote(name, safe="", errors="replace") for name in names)


def link(text: str, *names: str) -> Html:
    return tag("a", text, href=f"#{anchor(*names)}")


def facts(*pairs: tuple[str, Child]) -> Html:
    """Names and what they are; those that are nothing are left out."""
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs if value], class_="facts")


def bullets(items: Iterable[Child], class_: str | None = None) -> Html | None:
    """A list; none without items."""
    lines = [tag("li", item) for item in items]
    return tag("ul", lines, class_=class_) if lines else None


def table(name: str, *content: Child, class_: str | None = None) -> Html:
    """A table that scrolls in its own box rather than the page."""
    return scrolling(name, tag("table", *content, class_=class_))


def scrolling(name: str, content: Html) -> Html:
    # What scrolls must be reachable by keyboard.
    return tag("div", content, class_="scroll", tabindex=0, role="region", aria_label=name)


def paragraphs(text: str) -> list[Html]:
    return [tag("p", part) for part in text.split("\n\n")]
