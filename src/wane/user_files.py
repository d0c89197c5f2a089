"""Users' own files that are executed because the user names them: `wane run ./walk.py`, `wane explore --file walk.py`.

An experiment in a file is known by the name of the file, "walk.py", and its runs are filed under its own name.
`add_file` notes where the file is; a process that receives a job from another process notes it first. The file's module
is loaded under a name with a prefix, so that a file called json.py does no harm, and its folder comes last on the path,
so that it can import its neighbours.
"""

import os
import re
import sys
from collections.abc import Container
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from wane.names import UnknownName
from wane.texts import cut

PREFIX = "wane_own_"
"""The prefix of the name of a file's module."""
_paths: dict[str, Path] = {}


def is_file_name(name: str) -> bool:
    """Returns whether a name stands for a file: "walk.py", "./walk.py"."""
    return name.endswith(".py")


def add_file(name: str) -> str:
    """Notes where a file is, and returns the name of its experiment. Raises UnknownName if there is no such file."""
    path = Path(name).resolve()
    if not os.path.isfile(path):
        raise UnknownName(f"experiment {cut(repr(name))}: there is no such file; name one that defines EXPERIMENT")
    _paths[path.name] = path
    return path.name


def added(name: str) -> str:
    """Returns the name of an experiment that is a file. A path that was not noted before is noted now."""
    return name if name in _paths else add_file(name)


def path_of(name: str) -> Path | None:
    """Returns the file of an experiment, by its name or its module's name, or None if no such file was noted."""
    file = f"{name.removeprefix(PREFIX)}.py" if name.startswith(PREFIX) else Path(name).name
    return _paths.get(file)


def neighbour(name: str) -> Path | None:
    """Returns the module or package of this name in the same folder as a noted file, or None."""
    for folder in {path.parent for path in _paths.values()}:
        for path in (folder / f"{name}.py", folder / name / "__init__.py"):
            if path.is_file():
                return path
    return None


def load(name: str) -> ModuleType:
    """Loads the module of a file that was noted. A module is executed once in a process."""
    path, module_name = _paths[name], module_name_of(name)
    loaded = sys.modules.get(module_name)
    if loaded is not None and loaded.__file__ == str(path):
        return loaded
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Dataclasses look their module up while it is executed.
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module


def check_name(file: str, name: str, taken: Container[str]) -> None:
    """Raises UnknownName if runs cannot be filed under the name of a file's experiment."""
    if name in taken:
        raise UnknownName(f"experiment {file!r}: {name!r} is an experiment of wane; give yours another name")
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise UnknownName(
            f"experiment {file!r}: its name {cut(repr(name))} is the name of a folder, so it may hold letters, digits, "
            "'_', '-' and '.' only"
        )


def module_name_of(name: str) -> str:
    """Returns the name under which the module of a file is loaded."""
    return PREFIX + name.removesuffix(".py")
