"""The loop of a run: it reports its progress, saves checkpoints, and resumes where a killed run stopped."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from wane.files import Arrays, name_leaves, nest, save_arrays
from wane.lab.contract import HostState, Loop, Step, stack_named
from wane.lab.runs import interrupts
from wane.lab.runs.checkpoint import CURE, Checkpoint, Progress
from wane.lab.runs.errors import CheckpointError
from wane.types import Scalar

Report = Callable[[str, float | int, float | int, str], None]
"""Called with a loop's name, the units that are done, the units in all, and the unit."""

OUTPUT_SECONDS = 10.0
"""The most seconds between two writes of NAME.outputs, for a loop with a state on the host."""


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

        def tell(done: int) -> None:
            if self.report:
                self.report(name, float(done * work), float(chunks * work), unit)

        with interrupts.held():
            end = self._advance(checkpoint, start, step, chunks, tell)
        tell(chunks)
        return end.state, nest(end.outputs)

    def _advance(
        self, checkpoint: Checkpoint, start: Progress, step: Step, chunks: int, tell: Callable[[int], None]
    ) -> Progress:
        """Computes the missing chunks, saves now and then, and returns the final progress."""
        pause = self.seconds if checkpoint.host is None else self.host_seconds
        held, outputs = start.done, self.folder / f"{checkpoint.name}.outputs"
        # One variable holds the progress and the outputs that are not yet in it, so that no Ctrl-C finds them apart.
        latest: tuple[Progress, list[Arrays]] = start, []
        saved = written = time.perf_counter()
        try:
            for i in range(start.done, chunks):
                tell(i)
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
