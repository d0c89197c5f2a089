"""What other packages add to this one. They offer it under a plain name, in their `pyproject.toml`:

    [project.entry-points."wane.agents"]
    mine = "my_package.mine:AGENT"

To look for a name reads the metadata of the installed packages, and imports nothing. What is found is imported only if
its package was imported before, or if the caller trusts the name. So a file that holds a name cannot run code: whoever
reads the file decides.
"""

import re
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from itertools import accumulate
from typing import Any


def is_plain(name: object) -> bool:
    """Returns whether a name may stand in a file: a word of letters, digits, "_" and "-", which leads to no module.

    >>> is_plain("mine"), is_plain("my_package:mine"), is_plain("os.path")
    (True, False, False)
    """
    return isinstance(name, str) and re.fullmatch(r"[^\W\d][\w-]*", name) is not None


def offered(group: str) -> list[str]:
    """Returns the names that installed packages offer in a group, "wane.agents" for instance."""
    return sorted({entry.name for entry in entry_points(group=group)})


def find(group: str, name: str, trust: Sequence[str] = ()) -> Any | None:
    """Returns what an installed package offers under a name, or None if none offers that name.

    Raises ValueError if its package was not imported before and `trust` does not hold the name, and if two packages
    offer different things under the name.
    """
    found = {entry.value: entry for entry in entry_points(group=group, name=name)} if is_plain(name) else {}
    if len(found) > 1:
        meanings = " and ".join(map(_description, found.values()))
        raise ValueError(f"{name!r} has two meanings in {group!r}: {meanings}. Uninstall a package")
    for entry in found.values():
        if name not in trust and not _was_imported(entry):
            raise ValueError(
                f"{name!r} is code of others, {_description(entry)}, which runs only if you trust it: import that "
                f"package first, or name it, trust=[{name!r}] (--trust {name} on the command line)"
            )
        return entry.load()
    return None


def name_of(group: str, value: Any) -> str | None:
    """Returns the name under which the package of a class or a function offers it, or None if it does not."""
    package = value.__module__.partition(".")[0]
    for entry in entry_points(group=group):
        if is_plain(entry.name) and entry.module.partition(".")[0] == package and entry.load() is value:
            return entry.name
    return None


def _was_imported(entry: EntryPoint) -> bool:
    """Whether the module of an entry point, or a package around it, was imported. Namespaces hold no code: no."""
    around = accumulate(entry.module.split("."), lambda package, name: f"{package}.{name}")
    return any(getattr(sys.modules.get(each), "__file__", None) for each in around)


def _description(entry: EntryPoint) -> str:
    """Returns an entry point in words: "my_package.mine:AGENT of my-package"."""
    return entry.value if entry.dist is None else f"{entry.value} of {entry.dist.name}"
