"""Reads the pages that the report writes, and what it prints."""

from html.parser import HTMLParser
from pathlib import Path

from rich.console import Console

from report.folders import experiment
from wane.lab import report

EVIL = "<script>alert('\"&')</script><img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """Tags with their attributes, and the text outside of the style sheet."""

    def __init__(self, html: str):
        super().__init__()
        self.tags, self.words, self.within = [], [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.within = tag
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.within != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.tags if name == tag]

    def verdicts(self, kind: str = "verdict") -> list[str]:
        """The verdicts in the details, or with "sign" those of the summary."""
        classes = [attributes.get("class") or "" for attributes in self.all("span")]
        return [name.removeprefix(f"{kind} ").replace("-", " ") for name in classes if name.startswith(f"{kind} ")]


def page_of(*roots: Path, experiments=None) -> Page:
    return Page(report.build(report.collect(*roots), [experiment()] if experiments is None else experiments))


def printed(table, width=160) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return captured.get()
