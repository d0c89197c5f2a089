"""How fast λO-FB learns, compared with the same networks and loss in PyTorch.

The measure is gradient steps per second at the paper's size (FourRooms, d = 100, three layers of 256, batches of 128).
On a CPU, one run is compared with one run of PyTorch. On a GPU, 24 runs as one program are also compared with one run
of PyTorch, which would have to run 24 times, and with one run of PyTorch as a CUDA graph, without a floor.

    python -m benchmarks.forward_backward
"""

import time

import jax

from benchmarks import QUICK
from benchmarks.beside import Peer, compare, compare_with_peer, report
from wane.agents import forward_backward
from wane.agents.forward_backward import Config, Schedule
from wane.worlds import make

SCRIPT = "torch_forward_backward.py"


class Ours:
    """One or more runs as one program, for `cycles` cycles of training at a time."""

    def __init__(self, runs: int, cycles: int):
        config = Config(schedule=Schedule(epochs=1, cycles=cycles), probes=1)
        world = make("four-rooms")
        self.steps = runs * cycles * config.schedule.batches
        keys = jax.random.split(jax.random.key(0), runs)

        def train(key):
            return forward_backward.train(key, world, config)[1].terms.bellman

        self.program = jax.jit(jax.vmap(train) if runs > 1 else train)
        self.keys = keys if runs > 1 else keys[0]
        self.rate()

    def rate(self) -> float:
        start = time.perf_counter()
        jax.block_until_ready(self.program(self.keys))
        return self.steps / (time.perf_counter() - start)


def on_cpu() -> list[dict]:
    cycles = 1 if QUICK else 10
    return compare_with_peer(
        "gradient steps/s, one run",
        "PyTorch",
        lambda: Ours(1, cycles),
        lambda: Peer("torch", SCRIPT, "cpu", "eager", steps=20 * cycles),
        7,
        1.0,
    )


def on_gpu() -> list[dict]:
    one, many, what = Ours(1, 50), Ours(24, 50), "gradient steps/s, 24 runs as one program"
    return [
        compare("gradient steps/s, one run", "PyTorch", one, torch_on_gpu("eager"), 3, None),
        compare(what, "PyTorch, one run at a time", many, torch_on_gpu("eager"), 3, 20.0),
        compare(what, "PyTorch as a CUDA graph, one run at a time", many, torch_on_gpu("graph"), 3, None),
    ]


def torch_on_gpu(mode: str) -> Peer:
    return Peer("torch", SCRIPT, "cuda", mode, steps=2000)


if __name__ == "__main__":
    report("forward_backward", "torch", lambda kind: on_cpu() if kind == "cpu" else on_gpu())
