"""Accounts of the paper's statements that fail in the kept runs: the paragraphs of the page `accounts.md`."""

from functools import cache
from pathlib import Path

PAGE = Path(__file__).with_name("accounts.md")


@cache
def account(experiment: str, claim: str) -> str:
    """Returns the account of a claim as one paragraph, or an empty text if the page has none."""
    sections = dict(section.split("\n", 1) for section in PAGE.read_text("utf-8").split("\n## ")[1:])
    return " ".join(sections.get(f"{experiment}: {claim}", "").split())
