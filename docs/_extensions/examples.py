"""Runs the scripts of the gallery, and collects what they print and which pictures they save.

A script is ordinary Python. Its docstring is the title and the introduction. A comment that begins with `# %%` divides
the script into blocks, and the rest of that comment is text in Markdown. Pictures are the files *.png and *.gif that a
block saves.
"""

import ast
import contextlib
import io
import itertools
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

GALLERY = Path(__file__).parents[1] / "gallery"


@dataclass
class Block:
    """A part of a script: the text above it, its code, its first line, what it prints and which pictures it saves."""

    text: str
    code: str
    line: int
    printed: str = ""
    pictures: list[str] = field(default_factory=list)


def split(script: str) -> list[Block]:
    """Returns the blocks of a script. The first one has the docstring as its text."""
    docstring = ast.parse(script).body[0]
    lines, blocks = script.splitlines(), []
    starts = [docstring.end_lineno or 1, *(at for at, line in enumerate(lines) if line.startswith("# %%")), len(lines)]
    for start, stop in itertools.pairwise(starts):
        body = start + 1 if blocks else start
        texts = []
        while blocks and body < stop and lines[body].startswith("#"):
            texts.append(re.sub(r"^# ?", "", lines[body]))
            body += 1
        text = "\n".join(texts) if blocks else ast.get_docstring(ast.parse(script)) or ""
        blocks.append(Block(text, "\n".join(lines[body:stop]).strip("\n"), body))
    return blocks


def run(path: Path, folder: Path) -> tuple[list[Block], float]:
    """Runs a script in a folder, block by block. Returns the blocks with what came out, and the seconds it took."""
    blocks, names = split(path.read_text(encoding="utf-8")), {"__name__": "__main__", "__file__": str(path)}
    began = time.perf_counter()
    with contextlib.chdir(folder):
        for block in blocks:
            before, printed = set(pictures(Path())), io.StringIO()
            with contextlib.redirect_stdout(printed):
                # Blank lines in front, so that a traceback names the line of the script.
                exec(compile("\n" * block.line + block.code, path, "exec"), names)
            block.printed = printed.getvalue()
            block.pictures = [name for name in pictures(Path()) if name not in before]
    return blocks, time.perf_counter() - began


def pictures(folder: Path) -> list[str]:
    """Returns the names of the pictures in a folder."""
    return sorted(path.name for path in folder.iterdir() if path.suffix in (".png", ".gif"))


def to_markdown(name: str, blocks: list[Block], seconds: float, folder: str) -> str:
    """Returns the page of an example. `folder` is where its pictures are, relative to the page."""
    parts = []
    for block in blocks:
        first, _, rest = block.text.partition("\n")
        parts += [f"# {first.rstrip('.')}\n{rest}" if not parts else block.text, ""]
        parts += ["```python", block.code, "```", ""] if block.code else []
        parts += ["```text", block.printed.rstrip("\n"), "```", ""] if block.printed else []
        for picture in block.pictures:
            parts += ["{.gallery-picture}", f"![Picture of this example]({folder}/{picture})", ""]
    download = f"{{download}}`docs/gallery/{name}.py <{name}.py>`"
    return "\n".join([*parts, f"This page was made by running {download}, which took {seconds:.1f} s.", ""])
