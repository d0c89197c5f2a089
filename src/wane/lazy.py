"""Packages whose modules are loaded when one of their names is used for the first time (PEP 562).

The names that a lazy package offers stand in its `__init__.py` as ordinary imports under `if TYPE_CHECKING:`. Type
checkers read them there, and so does `attach`, so no second list of names and modules is needed. The package
lazy-loader (SPEC 1) would need that second list, as a `.pyi` file beside each of our eight lazy packages, and has no
place for names that were renamed.
"""

import ast
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeGuard


def attach(
    package: str, renamed: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` for a lazy package, which calls `attach(__name__)`.

    `__getattr__` imports the module that holds a name, or the submodule of that name. It raises AttributeError if
    there is neither. `renamed` holds old names that still work for one release, with a DeprecationWarning, and where
    each is now: {"Task": "wane.worlds.control.ControlTask"}.
    """
    module = sys.modules[package]
    source = module.__spec__.loader.get_source(package)  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
    homes = offered_names(ast.parse(source))

    def load(name: str) -> Any:
        if renamed and name in renamed:
            warnings.warn(f"{package}.{name} is now {renamed[name]}", DeprecationWarning, stacklevel=2)
            return _from_path(renamed[name])
        home = homes.get(name)
        value = _submodule(package, name) if home in (None, package) else getattr(import_module(home), name)
        setattr(module, name, value)
        return value

    return load, lambda: sorted({*vars(module), *homes})


def offered_names(tree: ast.Module) -> dict[str, str]:
    """Returns the names that are imported under `if TYPE_CHECKING:`, and the module that each comes from.

    >>> offered_names(ast.parse("if TYPE_CHECKING:\\n    from wane.mdp import MDP"))
    {'MDP': 'wane.mdp'}
    """
    blocks = (node for node in tree.body if is_type_checking(node))
    imports = (line for block in blocks for line in block.body if isinstance(line, ast.ImportFrom))
    return {alias.name: str(line.module) for line in imports for alias in line.names}


def is_type_checking(node: ast.AST) -> TypeGuard[ast.If]:
    """Returns whether a statement is `if TYPE_CHECKING:`, whose contents are never executed."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _from_path(path: str) -> Any:
    package, _, name = path.rpartition(".")
    return getattr(import_module(package), name)


def _submodule(package: str, name: str) -> Any:
    path = f"{package}.{name}"
    try:
        if name.startswith("__"):
            raise ModuleNotFoundError(name=path)
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
