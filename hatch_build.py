"""The README as package indexes show it, where links that are relative to the repository lead nowhere.

With a `Repository` among the URLs of pyproject.toml, links and pictures lead to the tag of this version there. Without
one, a link becomes its text with the path of the file, and a picture becomes its description.
"""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]+)\]\((?![a-z]+:|#)([^)\s]+)\)")
"""A link of Markdown or, with "!" in front, a picture, whose target is neither an address nor on the same page."""


class ReadmeHook(MetadataHookInterface):
    """Makes the README a part of the metadata."""

    def update(self, metadata: dict) -> None:
        """Sets the README. hatchling calls this before the version is known, so the version is read here."""
        root = Path(self.root)
        version = re.search(r'__version__ = "(.*)"', (root / "src/wane/__init__.py").read_text("utf-8"))
        page = (root / "README.md").read_text("utf-8")
        repository = metadata.get("urls", {}).get("Repository")
        text = rewrite(page, repository, version[1] if version else "")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def rewrite(page: str, repository: str | None, version: str) -> str:
    """Returns a page without relative links. Code between ``` is left alone."""

    def replace(found: re.Match) -> str:
        picture, text, target = found.groups()
        if repository:
            kind = "raw" if picture else "blob"
            return f"{picture}[{text}]({repository.rstrip('/')}/{kind}/v{version}/{target})"
        return f"*{text}*" if picture else text if text in target else f"{text} (`{target}`)"

    parts = re.split(r"(^```.*?^```$)", page, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(replace, part) for part in parts)
