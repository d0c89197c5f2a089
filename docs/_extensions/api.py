"""Reads the source of the package and tells which names are public, with their types, as pages of Markdown.

The source is parsed and not imported. Annotations therefore stay as they were written (`Float[Array, "states sites"]`,
`KernelLike`), and the tests can use this module without the packages that build the site.
"""

import ast
import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Module:
    """A module of the package: its syntax tree, and where the names that it imports come from."""

    name: str
    tree: ast.Module
    is_package: bool
    imports: dict[str, str] = field(default_factory=dict)

    @property
    def doc(self) -> str:
        """The module's docstring."""
        return ast.get_docstring(self.tree) or ""

    @functools.cached_property
    def own(self) -> "dict[str, tuple[ast.stmt, str]]":
        """The public names that the module defines, with their syntax trees and their descriptions."""
        return members(self.tree.body)

    @functools.cached_property
    def exported(self) -> list[str]:
        """The names in `__all__`, or none if there is no such list."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and any(getattr(at, "id", "") == "__all__" for at in node.targets):
                return ast.literal_eval(node.value)
        return []


@functools.cache
def read_package(source: Path = SOURCE, package: str = "wane") -> dict[str, Module]:
    """Returns every public module of the package by its dotted name."""
    found = {}
    for path in sorted((source / package).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        parts = parts[:-1] if is_package else parts
        if not any(part.startswith("_") for part in parts):
            module = Module(".".join(parts), ast.parse(path.read_text(encoding="utf-8")), is_package)
            module.imports = imported_names(module.tree)
            found[module.name] = module
    return found


def imported_names(tree: ast.Module) -> dict[str, str]:
    """Returns the full name of every name that is imported anywhere in a module."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def statements(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Yields every statement of a module or a class with the string that follows it (its description), or "".

    The first branch of an `if` counts as a part of the body, except for imports that only type checkers follow.
    """
    for node, after in itertools.zip_longest(body, body[1:]):
        text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
        if isinstance(node, ast.If):
            yield from ((inner, inner_text or str(text)) for inner, inner_text in statements(node.body))
        else:
            yield node, str(text)


def members(body: list[ast.stmt]) -> dict[str, tuple[ast.stmt, str]]:
    """Returns the public classes, functions, types and described variables of a module or a class, with descriptions.

    A variable without a description counts if its name is written like that of a class: then it stands for a type.
    """
    found: dict[str, tuple[ast.stmt, str]] = {}
    for node, text in statements(body):
        if isinstance(node, Function | ast.ClassDef):
            name, text = node.name, ast.get_docstring(node) or ""
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if not text and (not name[0].isupper() or name.isupper()):
                continue
        else:
            continue
        if not name.startswith("_"):
            found.setdefault(name, (node, text))
    return found


def home(name: str, modules: dict[str, Module]) -> str:
    """Returns where a name of the package is defined, following imports from module to module."""
    owner, _, last = name.rpartition(".")
    if name in modules or owner not in modules or last in modules[owner].own:
        return name
    through = modules[owner].imports.get(last)
    return home(through, modules) if through and through != name and through.startswith("wane") else name


class Qualify(ast.NodeTransformer):
    """Writes out in full the names of the package in an annotation, so that they can be linked."""

    def __init__(self, module: Module, modules: dict[str, Module]) -> None:
        self.module, self.modules = module, modules

    def visit_Name(self, node: ast.Name) -> ast.AST:
        full = self.module.imports.get(node.id, f"{self.module.name}.{node.id}")
        full = home(full, self.modules)
        owner, _, last = full.rpartition(".")
        known = owner in self.modules and last in self.modules[owner].own
        # A type of another package is written out too if it could be taken for one of this package.
        foreign = node.id in self.module.imports and any(node.id in other.own for other in self.modules.values())
        return ast.parse(full, mode="eval").body if known or foreign else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "Literal":
            return node
        node.value = self.visit(node.value)
        # The last part of jaxtyping's `Float[Array, "states sites"]` names axes and no type.
        if isinstance(node.slice, ast.Tuple) and isinstance(node.slice.elts[-1], ast.Constant):
            node.slice.elts = [self.visit(part) for part in node.slice.elts[:-1]] + node.slice.elts[-1:]
        else:
            node.slice = self.visit(node.slice)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and node.value.isidentifier():
            return self.visit(ast.Name(node.value))
        return node


def annotation(node: ast.expr | None, qualify: Qualify) -> str:
    """Returns the text of an annotation, with the package's own names in full. `Annotated` shows its type alone."""
    if node is None:
        return ""
    copy = ast.parse(ast.unparse(node), mode="eval").body
    if isinstance(copy, ast.Subscript) and ast.unparse(copy.value) == "Annotated" and isinstance(copy.slice, ast.Tuple):
        copy = copy.slice.elts[0]
    return ast.unparse(qualify.visit(copy))


def signature(node: Function, qualify: Qualify, bound: bool) -> str:
    """Returns the parameters and the result of a function with their types; a method's first one is left out."""
    given = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(given, Function)
    lists = given.args
    for argument in [*lists.posonlyargs, *lists.args, *lists.kwonlyargs, lists.vararg, lists.kwarg]:
        if argument is not None and argument.annotation is not None:
            argument.annotation = ast.parse(annotation(argument.annotation, qualify), mode="eval").body
    if bound:
        (lists.posonlyargs or lists.args).pop(0)
    result = f" -> {annotation(given.returns, qualify)}" if given.returns else ""
    return f"({ast.unparse(lists)}){result}"


def prose(text: str) -> str:
    """Returns a docstring as Markdown: examples become blocks of code, and `Args:` becomes a list."""
    lines: list[str] = []
    in_example = in_arguments = False
    margin = 0
    for line in text.expandtabs().splitlines():
        if line.lstrip().startswith(">>>") and not in_example:
            lines += ["", "```pycon"]
            in_example, margin = True, len(line) - len(line.lstrip())
        elif in_example and not line.strip():
            lines.append("```")
            in_example = False
        if line.strip() == "Args:":
            in_arguments, line = True, "**Arguments**\n"
        elif in_arguments and line.startswith("    ") and ": " in line and not line.startswith("     "):
            name, said = line.strip().split(": ", 1)
            line = f"- `{name}`: {said}"
        lines.append(line[margin:] if in_example else line)
    return "\n".join([*lines, "```"] if in_example else lines)


def block(kind: str, head: str, options: list[str], body: str, depth: int = 0) -> str:
    """Returns a directive of MyST. An outer one has more colons than what it holds."""
    fence = ":" * (5 - depth)
    return "\n".join([f"{fence}{{{kind}}} {head}", *options, "", body, fence, ""])


def describe(name: str, node: ast.stmt, text: str, module: Module, modules: dict[str, Module], depth: int = 0) -> str:
    """Returns the part of a page on one class, function or variable."""
    qualify = Qualify(module, modules)
    if isinstance(node, ast.ClassDef):
        return describe_class(name, node, text, module, modules)
    if isinstance(node, Function):
        marks = {ast.unparse(mark) for mark in node.decorator_list}
        if depth and any("property" in mark for mark in marks):
            result = annotation(node.returns, qualify)
            return block("py:property", name, [f":type: {result}"] if result else [], prose(text), depth)
        options = [f":{mark}:" for mark in ("classmethod", "staticmethod", "abstractmethod") if mark in marks]
        kind = "py:method" if depth else "py:function"
        head = name + signature(node, qualify, bound=bool(depth) and "staticmethod" not in marks)
        return block(kind, head, options if depth else [], prose(text), depth)
    type_ = annotation(node.annotation, qualify) if isinstance(node, ast.AnnAssign) else ""
    value = ast.unparse(node.value) if isinstance(node, ast.AnnAssign | ast.Assign) and node.value else ""
    shown = [f":type: {type_}"] if type_ else []
    shown += [f":value: {value}"] if value and len(value) <= 90 else []
    return block("py:attribute" if depth else "py:data", name, shown, prose(text), depth)


def describe_class(name: str, node: ast.ClassDef, text: str, module: Module, modules: dict[str, Module]) -> str:
    """Returns the part of a page on a class: what it is made from, what it extends, its public attributes."""
    qualify, found = Qualify(module, modules), members(node.body)
    constructor = next((part for part in node.body if isinstance(part, Function) and part.name == "__init__"), None)
    fields = [
        f"{at}: {annotation(part.annotation, qualify)}" + (f" = {ast.unparse(part.value)}" if part.value else "")
        for at, (part, _) in found.items()
        if isinstance(part, ast.AnnAssign) and "ClassVar" not in ast.unparse(part.annotation)
    ]
    head = f"({', '.join(_defaults_last(fields))})" if fields else ""
    if constructor is not None:
        head = signature(constructor, qualify, bound=True).partition(" -> ")[0]
    bases = [annotation(base, qualify) for base in node.bases]
    linked = [
        f"{{py:class}}`{base}`" if base.startswith("wane.") and "[" not in base else f"`{base}`" for base in bases
    ]
    body = [f"Extends {', '.join(linked)}.", ""] if linked else []
    body += [prose(text), ""]
    body += [describe(at, part, said, module, modules, depth=1) for at, (part, said) in found.items()]
    return block("py:class", name + head, [], "\n".join(body))


def _defaults_last(fields: list[str]) -> list[str]:
    """Returns fields with those that have a default last, which is the order in which Python accepts them."""
    return sorted(fields, key=lambda text: " = " in text)


def summary(text: str) -> str:
    """Returns the first sentence of a docstring on one line, as it may stand in a table."""
    sentence = " ".join(text.strip().split("\n\n")[0].split()).split(". ")[0].rstrip(".")
    return sentence.replace("|", "\\|")


def page(module: Module, modules: dict[str, Module]) -> str:
    """Returns the page of a module: its docstring, what it offers, and links to the modules below it."""
    own = module.own
    parts = [f"# {module.name}", "", f":::{{py:module}} {module.name}", ":::", "", prose(module.doc), ""]
    offered = {name: home(f"{module.name}.{name}", modules) for name in module.exported if name not in own}
    if rows := [
        f"| {{py:obj}}`{name} <{full}>` | {describe_briefly(full, modules)} |" for name, full in offered.items()
    ]:
        parts += ["## Names", "", "| name | what it is |", "| --- | --- |", *rows, ""]
    below = [other for name, other in modules.items() if name.rpartition(".")[0] == module.name]
    if below:
        parts += ["## Modules", "", "| module | what it holds |", "| --- | --- |"]
        parts += [f"| {{py:mod}}`{other.name}` | {summary(other.doc)} |" for other in below]
        parts += ["", ":::{toctree}", ":hidden:", "", *(other.name for other in below), ":::", ""]
    if own:
        parts += ["## Contents", ""] if below or offered else []
        parts += [describe(name, node, text, module, modules) for name, (node, text) in own.items()]
    return "\n".join(parts)


def describe_briefly(full: str, modules: dict[str, Module]) -> str:
    """Returns the first sentence on a name of the package, or "" if nothing is said about it."""
    if full in modules:
        return summary(modules[full].doc)
    owner, _, last = full.rpartition(".")
    return summary(modules[owner].own.get(last, (None, ""))[1]) if owner in modules else ""


def undocumented(modules: dict[str, Module]) -> list[str]:
    """Returns what is amiss: public names without a place or without a docstring, and parameters without a type."""
    faults = []
    for module in modules.values():
        own = module.own
        for name in module.exported:
            full = home(f"{module.name}.{name}", modules)
            if name not in own and not describe_briefly(full, modules):
                faults.append(f"{module.name}.{name} has no place in the reference")
        for name, (node, text) in own.items():
            faults += [f"{module.name}.{name} has no docstring"] * (
                isinstance(node, Function | ast.ClassDef) and not text
            )
            if isinstance(node, Function):
                faults += _untyped(f"{module.name}.{name}", node)
            if isinstance(node, ast.ClassDef):
                inner = [part for part in node.body if isinstance(part, Function) and not part.name.startswith("_")]
                faults += [fault for part in inner for fault in _untyped(f"{module.name}.{name}.{part.name}", part)]
    return faults


def _untyped(name: str, node: Function) -> list[str]:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    bare = [part.arg for part in given if part.annotation is None and part.arg not in ("self", "cls")]
    return [f"{name}: the parameter {part} has no type" for part in bare]
