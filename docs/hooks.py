"""Puts the explorer beside its page of the documentation site."""

from pathlib import Path
from typing import Any

from wane import explore


def on_post_build(config: Any) -> None:
    """Writes explorer/page.html, to which explorer.md links, after the site was built."""
    explore().save(Path(config["site_dir"]) / "explorer" / "page.html")
