"""How to compute a run: the options of the command line, which load neither JAX nor pandas."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

from wane.settings import Checked, Range, check_setting


@dataclass(frozen=True)
class Launcher(Checked):
    """How to compute. The fields are options of the command line."""

    launcher: Literal["local", "ray"] = "local"
    """this machine, or Ray (pip install 'wane[cluster]')"""
    processes: Annotated[int, Range(1, 1024)] = 1
    """on this machine: 1 computes all seeds as one program, more divide them among processes"""
    ray_address: str | None = None
    """a cluster's address; none starts Ray on this machine"""
    shards: Annotated[int, Range(1, 1_000_000)] | None = None
    """parts that each experiment's seeds are divided into, and that are kept one by one; by default there is one for
    each process, and with Ray one for each seed"""
    gpus: Annotated[float, Range(0, 1024)] = 0.0
    """Ray: GPUs that a task needs"""

    def rules(self) -> None:
        """Raises SettingError if an option belongs to the other launcher."""
        for name in ("ray_address", "gpus"):
            fine = self.launcher == "ray" or not getattr(self, name)
            check_setting(
                fine, self, name, "--launcher ray is needed, because the local launcher does not use this option"
            )
        fine = self.launcher == "local" or self.processes == 1
        check_setting(fine, self, "processes", "1 is needed with --launcher ray; --shards says how many tasks Ray gets")

    def divide(self, seeds: Sequence[int]) -> list[tuple[int, ...]]:
        """Returns the seeds in groups of neighbours, one for each shard or process. No seeds give no groups."""
        if not seeds:
            return []
        default = self.processes if self.launcher == "local" else len(seeds)
        parts = min(self.shards or default, len(seeds))
        cuts = [len(seeds) * i // parts for i in range(parts + 1)]
        return [tuple(seeds[start:end]) for start, end in pairwise(cuts)]
