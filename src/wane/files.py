"""Files that are written whole or not at all, and trees of arrays that are saved by name.

`write` writes a draft beside the file and renames it, so a reader finds the old file or the new one, never half of
one. A tree of arrays (a pytree) is saved as a flat mapping from names to arrays in the safetensors format: loading
such a file reads numbers and text and executes nothing. The file holds a checksum, so damage is noticed. The name of a
leaf is its path in the tree, with "/" between the parts: `State(params=Params(forward=…))` has leaves named
"params/forward/…".
"""

import dataclasses
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from wane.settings import is_nested
from wane.types import Tree

Arrays = dict[str, np.ndarray]
SINGLE = "array"
"""The name of the only leaf of a tree that is one array."""
READY = ".ready"
"""The folder in a run's folder that holds complete results until each of them is moved into its place."""
SEAL = "seal"
"""The key under which a sealed JSON file holds the SHA-256 of the rest of it."""
DEEPEST = 50
"""The most levels of nested lists and dictionaries in a JSON file."""
LARGEST_JSON = 50_000_000
"""The most bytes of a JSON file. The files of this package have a few thousand."""


class DamagedFile(Exception):
    """Raised when a file is missing, was changed, or does not hold what belongs there. The message says what to do."""


def write(path: Path, fill: Callable[[Path], Any]) -> Path:
    """Writes a file completely or not at all: `fill` writes a draft, which then takes the file's name.

    >>> write(Path(getfixture("tmp_path")) / "a.txt", lambda draft: draft.write_text("all of it")).read_text()
    'all of it'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Nobody can guess the name, so nobody can have put a link there that leads elsewhere.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        fill(draft)
        with open(draft, "rb+") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        if str(error.filename) == str(draft):  # The user knows the file, not its draft.
            error.filename = str(path)
        raise
    finally:
        draft.unlink(missing_ok=True)
    return path


def find_published(folder: Path, name: str) -> Path:
    """Returns the path of a file of a run, which lies in `.ready` if the run has not yet moved it into its place.

    Raises ValueError if the path leads out of the folder, or through a symbolic link.
    """
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts or b"\0" in os.fsencode(name):
        raise ValueError(f"{name!r} is not the path of a file in a run's folder")
    path = folder
    for steps in ((READY, *parts), parts):
        path = folder
        for step in steps:
            path = path / step
            if path.is_symlink():
                raise ValueError(f"{path} is a symbolic link, which could lead out of the folder")
        if path.is_file():
            break
    return path


def delete_drafts(folder: Path) -> None:
    """Deletes drafts that processes left behind when they were killed. No process may be writing there."""
    for draft in folder.rglob(".*.tmp"):
        draft.unlink(missing_ok=True)


def write_json(path: Path, content: Any, *, sealed: bool = False) -> Path:
    """Writes JSON that a person can read. A sealed dictionary gets a checksum of itself, which `read_json` compares."""
    content = content | {SEAL: _seal(content)} if sealed else content
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    # Names of files may hold halves of characters. JSON writes these as Python does.
    return write(path, lambda draft: draft.write_text(text, "utf-8", "backslashreplace"))


def read_json(path: Path, kind: type = dict) -> Any:
    """Returns the content of a JSON file, which must be a dictionary, or of the `kind` that is given.

    Raises DamagedFile if the file is missing, is not JSON of that kind, nests too deeply, or does not match its seal.
    """
    try:
        content = json.loads(read_bytes(path, LARGEST_JSON).decode())
    except FileNotFoundError as error:
        raise DamagedFile(f"{path} is missing") from error
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedFile(f"{path} cannot be read ({error})") from error
    if not isinstance(content, kind):
        raise DamagedFile(f"{path} holds a {type(content).__name__} where a {kind.__name__} belongs")
    if is_deep(content):
        raise DamagedFile(f"{path} nests lists or dictionaries more than {DEEPEST} deep")
    if isinstance(content, dict) and SEAL in content and content[SEAL] != _seal(content):
        raise DamagedFile(f"{path} was changed after it was written: its checksum does not match its contents")
    return content


def as_json(value: Any, otherwise: Callable[[Any], Any]) -> Any:
    """Returns a value as JSON holds it: arrays and tuples as lists, groups of settings as dictionaries.

    `otherwise` says what becomes of anything else, a depletion for instance.

    >>> as_json({"lam": np.array([0.5, 1.0]), "kind": list}, repr)
    {'lam': [0.5, 1.0], 'kind': "<class 'list'>"}
    """
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return np.asarray(value).tolist()
    if isinstance(value, list | tuple):
        return [as_json(each, otherwise) for each in value]
    if is_nested(value):
        return {field.name: as_json(getattr(value, field.name), otherwise) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(name): as_json(each, otherwise) for name, each in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else otherwise(value)


def open_ordinary(path: Path) -> BufferedReader:
    """Opens an ordinary file to read it. Raises OSError for any other: reading a pipe could last for ever."""
    return open(path, "rb", opener=_open_ordinary)


def _open_ordinary(name: str, flags: int) -> int:
    # Without O_NONBLOCK, to open a pipe is to wait until somebody writes to it.
    number = os.open(name, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(f"{name} is not an ordinary file")
    return number


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Returns the bytes of an ordinary file. Raises OSError for any other, and for one with more than `most` bytes."""
    with open_ordinary(path) as file:
        if most is not None and os.fstat(file.fileno()).st_size > most:
            raise OSError(f"it has more than {most:,} bytes")
        return file.read()


def checksum(path: Path) -> str:
    """Returns the SHA-256 of an ordinary file's bytes, in hexadecimal. Raises OSError for any other."""
    with open_ordinary(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _seal(content: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in content.items() if name != SEAL}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def is_deep(content: Any) -> bool:
    """Returns whether the content of a JSON file nests lists or dictionaries more than `DEEPEST` deep."""
    # This goes level by level, because a recursive function would fail on exactly the files that it should find.
    level = [content]
    for _ in range(DEEPEST):
        lists = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [item for items in lists for item in items]
    return any(isinstance(item, dict | list) for item in level)


def name_leaves(tree: Tree) -> Arrays:
    """Returns the leaves of a tree as NumPy arrays, by name.

    Raises TypeError if a leaf does not hold plain numbers, or if two leaves have the same name.

    >>> name_leaves({"a": (1.0, 2.0), "b": 3.0})
    {'a/0': array(1.), 'a/1': array(2.), 'b': array(3.)}
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    named = {_name(path): _plain(leaf, _name(path)) for path, leaf in leaves}
    if len(named) < len(leaves):
        raise TypeError('two leaves of a tree have the same name: keys of its dictionaries must not contain "/"')
    return named


def nest(arrays: Mapping[str, Any]) -> Any:
    """Returns named leaves as nested dictionaries: the inverse of `name_leaves` for trees of dictionaries.

    Raises ValueError if one name is both a leaf and a dictionary.

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
            if not isinstance(place, dict):
                break
        if not isinstance(place, dict) or last in place:
            raise ValueError(f"{name!r} cannot be both an array and a folder of arrays")
        place[last] = value
    return tree


def fill_tree(like: Tree, arrays: Mapping[str, np.ndarray], source: Path | str) -> Tree:
    """Returns a tree with the structure of `like` and the named arrays as its leaves.

    Leaves become JAX arrays, except where `like` has a NumPy array or a Python number. Raises DamagedFile, which names
    the leaf and the `source`, if a leaf is missing, left over, or has another shape or type than the leaf of `like`.
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
    # The arrays are copied in C order, because safetensors writes the memory of an array and ignores its strides.
    plain = {name: np.array(array, order="C") for name, array in arrays.items()}
    text = json.dumps(about or {})
    # The format forgets the order of the arrays, and it shuffles the entries of its notes. So there is one entry only,
    # and the same arrays make the same file.
    note = {"about": text, "names": list(plain), "sha256": _digest(plain, text)}
    return write(path, lambda draft: safetensors.save_file(plain, draft, {"wane": json.dumps(note)}))


def load_arrays(path: Path | str) -> tuple[Arrays, dict[str, Any]]:
    """Returns the arrays of a safetensors file, in the order in which they were saved, and the note about them.

    Raises DamagedFile if the file cannot be read, or if its contents do not match the checksum in it. A file that
    another program wrote need not have a checksum.
    """
    try:
        content = read_bytes(Path(path))
        size = int.from_bytes(content[:8], "little")
        notes = json.loads(content[8 : 8 + size]).get("__metadata__", {})
        if "wane" not in notes and any("sha256" in each for each in notes.values()):
            raise ValueError("its note does not have the name `wane`")
        note = json.loads(notes.get("wane", "{}"))
        arrays, text = safetensors.load(content), note.get("about", "{}")
        if note.get("sha256") not in (None, _digest(arrays, text)):
            raise ValueError("its checksum does not match its contents")
        names, about = note.get("names") or sorted(arrays), json.loads(text)
        if not isinstance(about, dict):
            raise ValueError(f"its note is a {type(about).__name__}, not a dictionary")
        return {name: arrays[name] for name in names}, about
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
