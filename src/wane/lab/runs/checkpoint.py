"""The checkpoint of one loop: its finished chunks, its state and the chunks' outputs, by name, as safetensors.

    NAME.safetensors            the state and the outputs after `done` chunks
    NAME.host-DONE.safetensors  the host's state after the same number of chunks, if there is one

Both files are needed to go on, and a run may be killed after it has written one of them. So the host's file is
written first and has the number of chunks in its name, the checkpoint says which of them belongs to it, and older ones
are deleted last.

A checkpoint holds a fingerprint of the code and the settings that made it. Other code or settings refuse it.
"""

import os
from glob import escape
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wane.files import Arrays, DamagedFile, load_arrays, name_leaves, nest, save_arrays
from wane.lab.contract import HostState
from wane.lab.runs.errors import CheckpointError
from wane.types import Tree

CURE = "run again without --resume to start over and replace it"


class Progress(NamedTuple):
    """The progress of a loop."""

    done: int
    """The number of chunks that are computed."""
    state: Tree
    outputs: Arrays
    """The outputs of the chunks, by name, stacked."""
    seconds: float = 0.0
    """Seconds of work so far."""
    chunks: int = 0
    """The number of all chunks, so that readers can tell how far the loop is."""


class Checkpoint:
    """The files of one loop in a folder."""

    def __init__(self, folder: Path, name: str, fingerprint: str, host: HostState | None = None):
        if not name or name != Path(name).name or name.startswith("."):
            raise ValueError(f"the loop's name {name!r} must be usable as the name of a file")
        self.folder, self.name, self.fingerprint, self.host = folder, name, fingerprint, host
        self._leaves: set[str] | None = None

    @property
    def path(self) -> Path:
        """The file of the state and the outputs."""
        return self.folder / f"{self.name}.safetensors"

    def save(self, progress: Progress) -> None:
        """Replaces the checkpoint with a later one. The host's state must be that after `progress.done` chunks.

        Raises TypeError if the state has other leaves than the initial state, because it could not be restored.
        """
        state = name_leaves(progress.state)
        if self._leaves is not None and set(state) != self._leaves:
            odd = sorted(set(state) ^ self._leaves)[0]
            raise TypeError(f"loop {self.name!r}: leaf {odd!r} is not in both the initial state and the one of a step")
        about: dict[str, Any] = {"fingerprint": self.fingerprint, "done": progress.done, "seconds": progress.seconds}
        about |= {"chunks": progress.chunks}
        kinds = {name: _kind(leaf) for name, leaf in zip(state, jax.tree_util.tree_leaves(progress.state), strict=True)}
        if self.host is not None:
            save_arrays(self._host_path(progress.done), name_leaves(self.host.get()), about)
        arrays = {f"state/{name}": array for name, array in state.items()}
        arrays |= {f"outputs/{name}": array for name, array in progress.outputs.items()}
        save_arrays(self.path, arrays, about | {"kinds": kinds})
        for old in self.folder.glob(f"{escape(self.name)}.host-*.safetensors"):
            if old != self._host_path(progress.done):
                old.unlink()

    def load(self, state: Tree) -> Progress | None:
        """Returns what was saved, in the structure of the initial `state`, and restores the host's state.

        Returns None if nothing was saved. Raises CheckpointError if what was saved is damaged or belongs to other
        settings or other code.
        """
        self._leaves = set(name_leaves(state))
        if not os.path.lexists(self.path):
            return None
        arrays, about = self._read(self.path)
        try:
            progress = self._progress(state, arrays, about)
            if self.host is not None:
                self.host.set(nest(self._read(self._host_path(progress.done))[0]))
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise CheckpointError(f"{self.path} is damaged ({error!r}): {CURE}") from error
        return progress

    def _progress(self, state: Tree, arrays: Arrays, about: dict[str, Any]) -> Progress:
        """Returns the progress that a file holds. Raises ValueError, TypeError or LookupError if it makes no sense."""
        kinds, done, seconds = dict(about["kinds"]), about["done"], about["seconds"]
        if type(done) is not int or done < 0:
            raise ValueError(f"it says that {done!r} chunks are done")
        if not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
            raise ValueError(f"it says that they took {seconds!r} seconds")
        saved = {name: _restored(arrays[f"state/{name}"], kind) for name, kind in kinds.items()}
        outputs = {name.removeprefix("outputs/"): a for name, a in arrays.items() if name.startswith("outputs/")}
        for name, array in outputs.items():
            if array.shape[:1] != (done,):
                raise ValueError(f"{name!r} does not hold the outputs of {done} chunks")
        nest(outputs)
        return Progress(done, self._fill(state, saved), outputs, float(seconds))

    def _host_path(self, done: int) -> Path:
        return self.folder / f"{self.name}.host-{done}.safetensors"

    def _read(self, path: Path) -> tuple[Arrays, dict[str, Any]]:
        try:
            arrays, about = load_arrays(path)
        except DamagedFile as error:
            raise CheckpointError(f"{error}: {CURE}") from error
        if about.get("fingerprint") != self.fingerprint:
            raise CheckpointError(f"{path} belongs to other settings or another version: {CURE}")
        return arrays, about

    def _fill(self, state: Tree, saved: dict[str, Any]) -> Tree:
        # Shapes and types may change from the initial state to later ones, so only the names are compared.
        names = list(name_leaves(state))
        odd = sorted(set(names) ^ set(saved))
        if odd:
            fault = "lacks" if odd[0] in names else "holds an unknown"
            raise CheckpointError(f"{self.path} {fault} array {odd[0]!r} of the state: {CURE}")
        return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(state), [saved[name] for name in names])


def unusable(folder: Path, fingerprint: str) -> list[Path]:
    """Returns the checkpoints in a folder that are damaged or belong to other settings or other code."""
    found = []
    for path in sorted(folder.glob("*.safetensors")):
        try:
            usable = load_arrays(path)[1].get("fingerprint") == fingerprint
        except DamagedFile:
            usable = False
        if not usable:
            found.append(path)
    return found


def _kind(leaf: Any) -> str:
    """Returns the kind of a leaf, so that it is restored as the same kind: a JAX array, a NumPy array or a number."""
    if isinstance(leaf, jax.Array):
        return "jax"
    if isinstance(leaf, np.generic):
        return "numpy scalar"
    return "numpy" if isinstance(leaf, np.ndarray) else "number"


def _restored(array: np.ndarray, kind: str) -> Any:
    if kind in ("numpy scalar", "number") and array.ndim:
        raise ValueError(f"an array of shape {array.shape} cannot be one number")
    match kind:
        case "jax":
            return jnp.asarray(array)
        case "numpy":
            return array
        case "numpy scalar":
            return array[()]
        case "number":
            return array.item()
    raise ValueError(f"{kind!r} is not a kind of number")
