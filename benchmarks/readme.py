"""Puts the numbers of a benchmark into README.md, between the marks of its script."""

from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parent / "README.md"


def write(script: str, lines: Sequence[str]) -> None:
    """Replaces the text between the marks of a script, whose name is given without .py."""
    start, end = f"<!-- written by {script}.py -->", f"<!-- end of {script}.py -->"
    before, rest = PAGE.read_text(encoding="utf-8").split(start)
    text = "\n".join(lines).rstrip()
    PAGE.write_text(f"{before}{start}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")
