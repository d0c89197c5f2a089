"""How to compute a run: the options of the command line, which load neither JAX nor pandas."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal


@dataclass(frozen=True)
class Launcher:
    """How to compute. The fields are options of the command line."""

    launcher: Literal["local", "ray"] = "local"
    """this machine, or Ray (pip install 'wane[cluster]')"""
    processes: int = 1
    """on this machine: 1 computes all seeds as one program, more divide them among processes"""
    ray_address: str | None = None
    """a cluster's address; none starts Ray on this machine"""
    shards: int | None = None
    """Ray: tasks that each experiment's seeds are divided into; as many as there are seeds if not given"""
    gpus: float = 0.0
    """Ray: GPUs that a task needs"""

    def __post_init__(self) -> None:
        for name in ("processes", "shards"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name} is a number from 1 on, got {value}")
        if self.gpus < 0:
            raise ValueError(f"--gpus is a number of GPUs, or a fraction of one, got {self.gpus}")
        if self.launcher == "local" and (self.ray_address or self.shards or self.gpus):
            raise ValueError("--ray-address, --shards and --gpus are Ray's: add --launcher ray")
        if self.launcher == "ray" and self.processes > 1:
            raise ValueError("--processes is for this machine: with --launcher ray, say --shards")

    def divide(self, seeds: Sequence[int]) -> list[tuple[int, ...]]:
        """Divides seeds into as many groups of neighbours as there are shards or processes. No seeds, no groups."""
        if not seeds:
            return []
        parts = self.processes if self.launcher == "local" else (self.shards or len(seeds))
        parts = min(parts, len(seeds))
        cuts = [len(seeds) * i // parts for i in range(parts + 1)]
        return [tuple(seeds[start:end]) for start, end in pairwise(cuts)]
