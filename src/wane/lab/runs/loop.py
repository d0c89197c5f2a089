"""The loop of a run: it reports its progress, saves checkpoints, and resumes where a killed run stopped.

A checkpoint holds the finished chunks of one loop, its state and the chunks' outputs, by name, as safetensors:

    NAME.safetensors            the state and the outputs after `done` chunks
    NAME.host-DONE.safetensors  the host's state after the same number of chunks, if there is one

Both files are needed to go on, and a run may be killed after it has written one of them. So the host's file is
written first and has the number of chunks in its name, the checkpoint says which of them belongs to it, and older ones
are deleted last. A checkpoint also holds a fingerprint of the code and the settings that made it. Other code or
settings refuse it.
"""

import os
import time
from collections.abc import Callable
from glob import escape
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wane.files import Arrays, DamagedFile, load_arrays, name_leaves, nest, save_arrays
from wane.lab.contract import HostState, Loop, Step, stack_named
from wane.lab.runs import interrupts
from wane.lab.runs.errors import CheckpointError
from wane.types import Scalar, Tree

Report = Callable[[str, float | int, float | int, str], None]
"""Called with a loop's name, the units that are done, the units in all, and the unit."""

OUTPUT_SECONDS = 10.0
"""The most seconds between two writes of NAME.outputs, for a loop with a state on the host."""
CURE = "run again without --resume to start over and replace it"
"""What to do about a checkpoint that cannot be used."""


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


class SavingLoop(Loop):
    """A loop that saves to a folder every `seconds`, at the end and at Ctrl-C, and resumes from what it finds there.

    A loop with a state on the host can resume only from a moment at which both its state and the host's state were
    saved. The host's state may be large, so such a loop saves both together, and only every `host_seconds`. The outputs
    of its chunks are small: between two saves, the loop writes them to NAME.outputs every few seconds, so that they can
    be inspected while it runs (`wane.files.load_arrays` reads the file). `fingerprint` tells one run's checkpoints from
    those of other settings or other code.
    """

    def __init__(
        self,
        folder: Path,
        fingerprint: str,
        *,
        seconds: float | int = 10.0,
        host_seconds: float | int = 300.0,
        report: Report | None = None,
    ):
        super().__init__()
        self.folder, self.fingerprint, self.report = folder, fingerprint, report
        self.seconds, self.host_seconds = seconds, max(seconds, host_seconds)
        self.began, self.before, self.names = time.perf_counter(), 0.0, set[str]()

    @property
    def elapsed(self) -> float:
        """Seconds of work, including those before an interruption."""
        return self.before + time.perf_counter() - self.began

    def __call__(
        self,
        name: str,
        step: Step,
        state: Any,
        chunks: int,
        work: Scalar = 1,
        unit: str = "steps",
        host: HostState | None = None,
    ) -> tuple[Any, Any]:
        """Runs a loop as `Loop` does.

        Raises CheckpointError if the folder holds a checkpoint that cannot be used, and ValueError for a repeated name.
        """
        if name in self.names:
            raise ValueError(f"two loops of one experiment are called {name!r}: their checkpoints would be one file")
        self.names.add(name)
        checkpoint = Checkpoint(self.folder, name, self.fingerprint, host)
        start = (checkpoint.load(state) or Progress(0, state, {}))._replace(chunks=chunks)
        if start.done > chunks:
            raise CheckpointError(f"{checkpoint.path} says that {start.done} of {chunks} chunks are done: {CURE}")
        self.before = max(self.before, start.seconds)

        def report(done: int) -> None:
            if self.report:
                self.report(name, float(done * work), float(chunks * work), unit)

        with interrupts.held():
            end = self._advance(checkpoint, start, step, chunks, report)
        report(chunks)
        return end.state, nest(end.outputs)

    def _advance(
        self, checkpoint: Checkpoint, start: Progress, step: Step, chunks: int, report: Callable[[int], None]
    ) -> Progress:
        """Computes the missing chunks, saves now and then, and returns the final progress."""
        pause = self.seconds if checkpoint.host is None else self.host_seconds
        held, outputs = start.done, self.folder / f"{checkpoint.name}.outputs"
        # One variable holds the progress and the outputs that are not yet in it, so that no Ctrl-C finds them apart.
        latest: tuple[Progress, list[Arrays]] = start, []
        saved = written = time.perf_counter()
        try:
            for i in range(start.done, chunks):
                report(i)
                now, fresh = latest
                state, output = jax.block_until_ready(step(now.state, i))
                latest = now._replace(done=i + 1, state=state), [*fresh, name_leaves(output)]
                stop = interrupts.is_interrupted()
                if i + 1 == chunks or stop or time.perf_counter() - saved >= pause:
                    latest = self._with(*latest), []
                    checkpoint.save(latest[0])
                    outputs.unlink(missing_ok=True)
                    held = i + 1
                    saved = written = time.perf_counter()
                elif checkpoint.host is not None and time.perf_counter() - written >= min(self.seconds, OUTPUT_SECONDS):
                    save_arrays(outputs, self._with(*latest).outputs)
                    written = time.perf_counter()
                if stop:
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            # A second Ctrl-C comes at any moment. The chunk that it interrupts may have changed the host's state, which
            # then no longer fits the loop's state.
            if latest[0].done > held and checkpoint.host is None:
                checkpoint.save(self._with(*latest))
            raise
        return latest[0]

    def _with(self, now: Progress, fresh: list[Arrays]) -> Progress:
        """Returns the progress with the new outputs after the earlier ones."""
        stacked = stack_named(fresh)
        if now.outputs:
            stacked = {name: np.concatenate([now.outputs[name], new]) for name, new in stacked.items()} or now.outputs
        return now._replace(outputs=stacked, seconds=self.elapsed)
