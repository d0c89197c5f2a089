"""The texts of the report: what `texts.toml` says about each experiment, and about statements that fail."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("texts.toml")


@cache
def _page() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text("utf-8"))


def texts(experiment: str) -> dict[str, Any]:
    """Returns the name and the texts of an experiment by the names that `Experiment` gives them."""
    found = {name: _paragraph(text) for name, text in _page()[experiment].items() if name != "accounts"}
    return {"name": experiment} | found


def account(experiment: str, claim: str) -> str:
    """Returns the account of a claim that fails, or an empty text if there is none."""
    return _paragraph(_page()[experiment].get("accounts", {}).get(claim, ""))


def _paragraph(text: str) -> str:
    return " ".join(text.split())
