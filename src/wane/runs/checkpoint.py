"""Trees of arrays in a file that holds numbers alone: loading it executes nothing.

Written beside and renamed, so that a reader finds the old file or the new one. A mark says what the numbers belong to;
numbers that belong to something else, or that do not fit what they are loaded into, are refused.
"""

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wane.files import write

DAMAGE = (OSError, ValueError, LookupError, TypeError)
"""what reading a damaged file raises"""


class RunError(Exception):
    """A run that cannot go on, and what to do about it."""


class CheckpointError(RunError):
    """A checkpoint that cannot be used, and what to do about it."""


def damaged(path: Path, why: object) -> CheckpointError:
    return CheckpointError(f"{path} is damaged ({why}): start over without --resume, which replaces it")


def write_json(path: Path, content: Any) -> Path:
    return write(
        path, lambda draft: draft.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
    )


def save(path: Path, tree: Any, mark: dict[str, Any]) -> Path:
    """Writes a tree of arrays, with a mark of what it is."""
    leaves = [_plain(leaf) for leaf in jax.tree_util.tree_leaves(tree)]
    arrays: dict[str, Any] = {f"leaf{i}": leaf for i, leaf in enumerate(leaves)}
    arrays["mark"] = np.array(json.dumps(mark))

    def fill(draft: Path) -> None:
        with open(draft, "wb") as file:
            np.savez(file, **arrays)

    return write(path, fill)


def load(path: Path) -> tuple[list[np.ndarray], dict[str, Any]]:
    """The arrays and the mark of a checkpoint."""
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            mark = json.loads(str(file["mark"]))
            leaves = [file[f"leaf{i}"] for i in range(len(file.files) - 1)]
    except (*DAMAGE, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise damaged(path, error) from error
    return leaves, mark


def fit(path: Path, leaves: list[np.ndarray], like: Any) -> Any:
    """Arrays in the shape of a tree; those of another shape or type are refused."""
    expected, structure = jax.tree_util.tree_flatten(like)
    if len(leaves) != len(expected):
        raise CheckpointError(
            f"{path} holds {len(leaves)} arrays where {len(expected)} belong: start over without --resume"
        )
    for i, (leaf, wanted) in enumerate(zip(leaves, expected, strict=True)):
        want = _plain(wanted)
        if leaf.shape != want.shape or leaf.dtype != want.dtype:
            found, wanted = f"{leaf.dtype}{leaf.shape}", f"{want.dtype}{want.shape}"
            raise CheckpointError(f"{path}: array {i} is {found}, not {wanted}: start over without --resume")
    return jax.tree_util.tree_unflatten(structure, leaves)


def _plain(leaf: Any) -> np.ndarray:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        raise TypeError(
            "a state holds numbers alone: make keys inside of the step, from the seed and the chunk's number"
        )
    array = np.asarray(leaf)
    if array.dtype == object:
        raise TypeError(f"a state holds arrays of numbers, got {type(leaf).__name__}")
    return array
