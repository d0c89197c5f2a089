"""Writing files so that whoever reads finds the old one or the new one, never half of one."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write(path: Path, fill: Callable[[Path], Any]) -> Path:
    """All of a file or nothing: `fill` writes a draft, which then takes the file's name.

    >>> write(Path(getfixture("tmp_path")) / "a.txt", lambda draft: draft.write_text("all of it")).read_text()
    'all of it'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        fill(draft)
        with open(draft, "rb+") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path
