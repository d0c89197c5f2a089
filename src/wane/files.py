"""Files that are written whole or not at all, and trees of arrays that are saved by name.

`write` writes a draft beside the file and renames it, so a reader finds the old file or the new one, never half of
one. A tree of arrays (a pytree) is saved as a flat mapping from names to arrays in the safetensors format: loading
such a file reads numbers and text and executes nothing. The file holds a checksum, so damage is noticed. The name of a
leaf is its path in the tree, with "/" between the parts: `State(params=Params(forward=…))` has leaves named
"params/forward/…".
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from wane.types import Tree

Arrays = dict[str, np.ndarray]
SINGLE = "array"
"""The name of the only leaf of a tree that is one array."""


class DamagedFile(Exception):
    """Raised when a file is missing, was changed, or does not hold what belongs there. The message says what to do."""


def write(path: Path, fill: Callable[[Path], Any]) -> Path:
    """Writes a file completely or not at all: `fill` writes a draft, which then takes the file's name.

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


def write_json(path: Path, content: Any) -> Path:
    """Writes JSON that a person can read."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    return write(path, lambda draft: draft.write_text(text, "utf-8"))


def checksum(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def name_leaves(tree: Tree) -> Arrays:
    """The leaves of a tree as NumPy arrays, by their names. Raises TypeError for leaves that are no plain numbers.

    >>> name_leaves({"a": (1.0, 2.0), "b": 3.0})
    {'a/0': array(1.), 'a/1': array(2.), 'b': array(3.)}
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    named = {_name(path): _plain(leaf, _name(path)) for path, leaf in leaves}
    if len(named) < len(leaves):
        raise TypeError('two leaves of a tree have the same name: keys of its dictionaries must not contain "/"')
    return named


def nest(arrays: Mapping[str, Any]) -> Any:
    """Named leaves as nested dictionaries: the inverse of `name_leaves` for trees that are made of dictionaries.

    >>> nest({"a/x": 1, "a/y": 2, "b": 3})
    {'a': {'x': 1, 'y': 2}, 'b': 3}
    """
    if set(arrays) == {SINGLE}:
        return arrays[SINGLE]
    tree: dict[str, Any] = {}
    for name, value in arrays.items():
        *folders, last = name.split("/")
        place = tree
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = value
    return tree


def fill_tree(like: Tree, arrays: Mapping[str, np.ndarray], source: Path | str) -> Tree:
    """A tree with the structure of `like` and the named arrays as its leaves, NumPy's where those of `like` are.

    Raises DamagedFile, which names the leaf and the `source`, if a leaf is missing, left over, or has another shape
    or type than the leaf of `like`.
    """
    expected = _expected(like)
    odd = sorted(set(expected) ^ set(arrays))
    if odd:
        fault = "lacks" if odd[0] in expected else "holds an unknown"
        raise DamagedFile(f"{source} {fault} array {odd[0]!r}: it was written for other settings or another version")
    for name, leaf in expected.items():
        found = arrays[name]
        if found.shape != leaf.shape or found.dtype != leaf.dtype:
            raise DamagedFile(
                f"{source}: array {name!r} is {found.dtype}{list(found.shape)} where {leaf.dtype}{list(leaf.shape)} "
                "belongs: it was written for other settings or another version"
            )
    leaves = [
        arrays[name] if isinstance(leaf, np.ndarray) else jnp.asarray(arrays[name]) for name, leaf in expected.items()
    ]
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(like), leaves)


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any] | None = None) -> Path:
    """Writes named arrays, and a JSON note about them, as one safetensors file with a checksum."""
    # A copy in C order: safetensors writes the memory of an array as it lies, whatever its strides are.
    plain = {name: np.array(array, order="C") for name, array in arrays.items()}
    text = json.dumps(about or {})
    # The format itself forgets the order of the arrays.
    note = {"about": text, "names": json.dumps(list(plain)), "sha256": _digest(plain, text)}
    return write(path, lambda draft: safetensors.save_file(plain, draft, note))


def load_arrays(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """The arrays of a safetensors file, in the order in which they were saved, and the note about them.

    Raises DamagedFile if the file cannot be read, or if its contents do not have the checksum that stands in it. A
    file from elsewhere need not have a checksum.
    """
    try:
        content = path.read_bytes()
        size = int.from_bytes(content[:8], "little")
        note = json.loads(content[8 : 8 + size]).get("__metadata__", {})
        arrays, text = safetensors.load(content), note.get("about", "{}")
        if note.get("sha256") not in (None, _digest(arrays, text)):
            raise ValueError("its checksum does not match its contents")
        names = json.loads(note.get("names", "null")) or sorted(arrays)
        return {name: arrays[name] for name in names}, json.loads(text)
    except FileNotFoundError as error:
        raise DamagedFile(f"{path} is missing") from error
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        raise DamagedFile(f"{path} is damaged ({error})") from error


def _digest(arrays: Mapping[str, np.ndarray], about: str) -> str:
    digest = hashlib.sha256(about.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/") or SINGLE


def _expected(like: Tree) -> dict[str, Any]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(like)
    return {_name(path): leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for path, leaf in leaves}


def _plain(leaf: Any, name: str) -> np.ndarray:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        raise TypeError(
            f"{name!r} is a random key, which cannot be saved: make keys inside of the step, from the seed and the "
            "number of the chunk"
        )
    array = np.asarray(leaf)
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{name!r} is a {type(leaf).__name__}, which cannot be saved: a tree to save holds numbers only"
        )
    return array
