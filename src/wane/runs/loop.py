"""The loop of a run: it reports its progress, saves checkpoints, and resumes where a killed run stopped."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

from wane.experiments.contract import HostState, Loop, Step, stack_named
from wane.files import Arrays, name_leaves, nest, save_arrays
from wane.runs.checkpoint import CURE, Checkpoint, Progress
from wane.runs.errors import CheckpointError
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

        with interrupts_between_chunks(host is not None) as interrupted:
            end = self._advance(checkpoint, start, step, chunks, tell, interrupted)
        tell(chunks)
        return end.state, nest(end.outputs)

    def _advance(
        self,
        checkpoint: Checkpoint,
        now: Progress,
        step: Step,
        chunks: int,
        tell: Callable[[int], None],
        interrupted: Callable[[], bool],
    ) -> Progress:
        """Computes the missing chunks, saves now and then, and returns the final progress."""
        pause = self.seconds if checkpoint.host is None else self.host_seconds
        fresh: list[Arrays] = []
        held, outputs = now.done, self.folder / f"{checkpoint.name}.outputs"
        saved = written = time.perf_counter()
        try:
            for i in range(now.done, chunks):
                tell(i)
                state, output = jax.block_until_ready(step(now.state, i))
                now, fresh = now._replace(done=i + 1, state=state), [*fresh, name_leaves(output)]
                stop = interrupted()
                if now.done == chunks or stop or time.perf_counter() - saved >= pause:
                    now, fresh = self._with(now, fresh), []
                    checkpoint.save(now)
                    outputs.unlink(missing_ok=True)
                    held = now.done
                    saved = written = time.perf_counter()
                elif checkpoint.host is not None and time.perf_counter() - written >= min(self.seconds, OUTPUT_SECONDS):
                    save_arrays(outputs, self._with(now, fresh).outputs)
                    written = time.perf_counter()
                if stop:
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            # An interrupted chunk may have changed the host's state, which then no longer fits the loop's state.
            if now.done > held and checkpoint.host is None:
                checkpoint.save(self._with(now, fresh))
            raise
        return now

    def _with(self, now: Progress, fresh: list[Arrays]) -> Progress:
        """Returns the progress with the new outputs after the earlier ones."""
        stacked = stack_named(fresh)
        if now.outputs:
            stacked = {name: np.concatenate([now.outputs[name], new]) for name, new in stacked.items()} or now.outputs
        return now._replace(outputs=stacked, seconds=self.elapsed)


@contextmanager
def interrupts_between_chunks(active: bool) -> Iterator[Callable[[], bool]]:
    """Delays the first Ctrl-C until the block ends, and yields a function that returns whether there was one.

    A second Ctrl-C interrupts at once. Signals reach the main thread only, so other threads need no delay.
    """
    if not active or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    received: list[int] = []

    def note(number: int, frame: Any) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    earlier = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(received)
        if received:
            raise KeyboardInterrupt
    finally:
        signal.signal(signal.SIGINT, earlier)
