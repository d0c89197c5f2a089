"""A fingerprint of the code that a result depends on.

The code is the experiment's module and what it imports, directly or not, from its own top-level package and from
`wane`; for an experiment that is a file, also the modules next to that file. Imports are found in the text; nothing is
executed. The packages of `wane` only offer names of their modules, and many load them lazily: `from wane.worlds import
make` therefore counts the module that `make` comes from, and not the package's other modules.

Docstrings, comments and the layout of the text do not count. Runs, the report and the command line never count: no
result depends on them.
"""

import ast
import hashlib
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from wane import user_files
from wane.lazy import is_type_checking

OUTSIDE = (
    "wane.__main__",
    "wane.cli",
    "wane.commands",
    "wane.executors",
    "wane.lab.registry",
    "wane.lab.report",
    "wane.lab.runs",
    "wane.lazy",
    "wane.user_files",
)
"""The modules on which no result depends. A package stands for all modules in it."""


class Module(NamedTuple):
    """The text of a module."""

    name: str
    is_package: bool
    tree: ast.Module
    """The whole text."""
    bare: ast.Module
    """The text without what cannot change a result: docstrings, imports for type checkers, `__all__`, `__version__`."""


@cache
def code_fingerprint(module: str) -> str:
    """Returns a hash of a module and of everything that it imports from its own package and from `wane`."""
    return _sha256([(name, _module_fingerprint(name)) for name in import_closure(module)])[:16]


def import_closure(module: str) -> list[str]:
    """Returns the modules that a module imports, directly or not, from its top-level package and `wane`, and itself."""
    counted: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in counted or not _is_near(name, module) or _is_outside(name) or parse(name) is None:
            continue
        counted.add(name)
        waiting += imported_modules(name)
        # Importing a module executes the packages around it. Those of wane only offer names.
        if not name.startswith("wane."):
            waiting.append(name.rpartition(".")[0])
    return sorted(counted)


@cache
def imported_modules(name: str) -> frozenset[str]:
    """Returns the modules that a module imports from its package or `wane`, or reaches through a dotted name."""
    module = parse(name)
    if module is None:
        return frozenset()
    nodes = list(ast.walk(module.bare))
    imports = [entry for node in nodes for entry in _imports(module, node)]
    paths = {path for _, path in imports}
    bound = {}
    for local, path in imports:
        # `import a.b` binds the name a; all other imports bind one name to the whole path.
        bound |= {local.split(".")[0]: path.split(".")[0]} if "." in local else {local: path}
    for names in map(_dotted, nodes):
        if names and names[0] in bound:
            paths.add(".".join([bound[names[0]], *names[1:]]))
    return frozenset(home for path in paths if _is_near(path, name) for home in resolve(path))


@cache
def resolve(path: str) -> frozenset[str]:
    """Returns the modules that a dotted path stands for: "wane.worlds.make" is the module that defines `make`."""
    owner, rest = path, list[str]()
    while owner and parse(owner) is None:
        owner, _, last = owner.rpartition(".")
        rest.insert(0, last)
    module = parse(owner) if owner else None
    if module is None:
        return frozenset()
    if not module.is_package:
        return frozenset({owner})
    if not rest:
        return frozenset() if owner.split(".")[0] == "wane" else frozenset({owner})
    offered = dict(entry for node in ast.walk(module.tree) for entry in _imports(module, node))
    homes = [home for name, home in offered.items() if rest[0] in (name, "*") and home != f"{owner}.{rest[0]}"]
    if not homes:
        return frozenset({owner})
    near = [".".join([home, *rest[1:]]) for home in homes if _is_near(home, owner)]
    return frozenset(found for home in near for found in resolve(home))


def _is_near(path: str, name: str) -> bool:
    """Returns whether a path lies in the top-level package of a module, in `wane`, or next to an experiment's file."""
    top = path.split(".")[0]
    return top in (name.split(".")[0], "wane") or user_files.neighbour(top) is not None


@cache
def parse(name: str) -> Module | None:
    """Returns the text of a module, or None if there is no such module."""
    path = _locate(name)
    if path is None:
        return None
    text = path.read_text("utf-8")
    return Module(name, path.name == "__init__.py", ast.parse(text), _Bare().visit(ast.parse(text)))


def _locate(name: str) -> Path | None:
    top, *rest = name.split(".")
    if not rest and (file := user_files.path_of(top) or user_files.neighbour(top)):
        return file
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        place = Path(folder).joinpath(*rest)
        for path in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if path.is_file() and (rest or path.name == "__init__.py"):
                return path
    return None


@cache
def _module_fingerprint(name: str) -> str:
    module = parse(name)
    return _sha256(_canonical(module.bare) if module else None)


def _sha256(content: Any) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()


def _is_outside(name: str) -> bool:
    return any(name == outside or name.startswith(f"{outside}.") for outside in OUTSIDE)


def _imports(module: Module, node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yields the local names that an import statement binds, and the dotted paths that they stand for."""
    if isinstance(node, ast.Import):
        yield from ((alias.asname or alias.name, alias.name) for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        around = module.name.split(".")
        kept = around[: len(around) - node.level + module.is_package] if node.level else []
        package = ".".join([*kept, *([node.module] if node.module else [])])
        yield from ((alias.asname or alias.name, f"{package}.{alias.name}") for alias in node.names)


def _dotted(node: ast.AST) -> list[str] | None:
    """Returns the names in `a.b.c`, or None for anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) and names else None


class _Bare(ast.NodeTransformer):
    """Removes everything that cannot change a result."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node

    def visit_If(self, node: ast.If) -> ast.AST | list[Any] | None:
        return node.orelse or None if is_type_checking(node) else self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        return None if names in (["__all__"], ["__version__"]) else node


def _canonical(node: Any) -> Any:
    """Returns a syntax tree as nested lists that are the same in all versions of Python, unlike `ast.dump`."""
    if isinstance(node, ast.AST):
        fields = [
            (name, _canonical(value)) for name, value in ast.iter_fields(node) if value is not None and value != []
        ]
        return [type(node).__name__, *fields]
    return [_canonical(each) for each in node] if isinstance(node, list) else repr(node)
