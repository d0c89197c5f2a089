"""What an experiment is: settings, a computation that yields a table, a picture of it, and claims tested on it.

One file an experiment. It says what the paper claims, in our words; each claim is a function of the table that finds
it to hold or to fail, with an estimate and an interval. Nothing here knows about files: `wane.runs` adds those.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

Scale = Literal["quick", "paper"]
Step = Callable[[Any, int], tuple[Any, Any]]


@dataclass(frozen=True)
class Settings:
    """What can be chosen. A subclass adds fields, each with a docstring: they are the options of the command line."""

    MAY_BE_ZERO: ClassVar[tuple[str, ...]] = ()
    """whole numbers that are no counts"""

    def __post_init__(self):
        for name, value in vars(self).items():
            for number in np.ravel(value) if isinstance(value, tuple) else (value,):
                if isinstance(number, int | float | np.number) and not 0 <= number < np.inf:
                    raise ValueError(f"{name} must be finite and not below 0, got {value}")
                if type(value) is int and value == 0 and name not in self.MAY_BE_ZERO:
                    raise ValueError(f"{name} is a whole number from 1 on, got {value}")

    def require(self, fine: bool, what: str) -> None:
        """Refuses settings that make no sense together; `what` says what would."""
        if not fine:
            raise ValueError(f"{type(self).__name__}: {what}")


@dataclass(frozen=True)
class Seeded(Settings):
    """Settings of an experiment in which something is drawn."""

    seeds: int = 3
    """independent repetitions, numbered from 0"""


class NotTested(Exception):
    """What a claim raises that the settings leave nothing to test with."""


class Finding(NamedTuple):
    """What a table says of a claim."""

    holds: bool
    estimate: float
    interval: tuple[float, float] | None = None
    """95 %, where anything is drawn"""
    detail: str = ""


@dataclass(frozen=True)
class Claim:
    name: str
    statement: str
    """one sentence"""
    test: Callable[[Any, pd.DataFrame], Finding]
    """of the settings and the table"""

    def record(self, settings: Any = None, table: pd.DataFrame | None = None) -> dict[str, Any]:
        """As it is written down: not run, or with the verdict of a table."""
        known = {"name": self.name, "statement": self.statement}
        not_run = {"verdict": "not run", "estimate": None, "interval": None, "detail": ""}
        if table is None:
            return known | not_run
        try:
            finding = self.test(settings, table)
        except NotTested as why:
            return known | not_run | {"detail": str(why)}
        estimate = {"estimate": float(finding.estimate), "detail": finding.detail}
        if finding.interval is not None and not np.all(np.isfinite(finding.interval)):
            return known | not_run | estimate | {"detail": f"one run has no interval. {finding.detail}"}
        interval = None if finding.interval is None else [float(end) for end in finding.interval]
        return known | estimate | {"verdict": "holds" if finding.holds else "fails", "interval": interval}


class Loop:
    """Runs a long computation in chunks. This one does nothing else; a runner's also reports, saves and resumes.

    `step(state, i)` is a jitted program that returns the next state and what chunk i yields, both trees of arrays.
    Keys are made inside from the seed and i, so that the state holds plain numbers alone.
    """

    def __call__(self, name: str, step: Step, state: Any, chunks: int, work: float = 1, unit: str = "steps"):
        """The last state, and what the chunks yielded, stacked; `work` is how many units a chunk is."""
        outputs = []
        for i in range(chunks):
            state, output = step(state, i)
            outputs.append(output)
        return state, stack(outputs)


def stack(outputs: Sequence[Any]) -> Any:
    """The chunks' trees as one tree, chunks along a new first axis."""
    return jax.tree_util.tree_map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *outputs)


def seed_keys(seeds: Sequence[int]) -> jax.Array:
    """A key for every seed: the same whoever else is in the batch."""
    return jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(0), seed))(np.asarray(seeds, np.uint32))


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    source: str
    """the figure, table or section of the paper, or "beyond the paper\""""
    says: str
    """what the paper claims, in our words; one paragraph"""
    quick: Settings
    paper: Settings
    compute: Callable[[Any, Sequence[int], Loop], pd.DataFrame]
    """the tidy table of some seeds (of none, if nothing is drawn)"""
    draw: Callable[[Any, pd.DataFrame], Figure]
    claims: tuple[Claim, ...]
    films: Callable[[Any, pd.DataFrame], Mapping[str, Callable[[Path], Any]]] | None = None
    """titles of GIFs, and what writes each to a path"""
    differs: str = ""
    """where we differ from the paper, and why"""
    cost: str = ""
    """what the paper says that it cost"""
    double: bool = True
    """whether JAX computes in 64 bits"""

    def settings(self, scale: Scale) -> Settings:
        if scale not in ("quick", "paper"):
            raise ValueError(f'scale is "quick" or "paper", got {scale!r}')
        return self.quick if scale == "quick" else self.paper

    def seeds(self, settings: Settings) -> range:
        """The seeds of a whole run; one, that nobody uses, if nothing is drawn."""
        return range(settings.seeds if isinstance(settings, Seeded) else 1)

    def table(self, settings: Settings, seeds: Sequence[int] | None = None, loop: Loop | None = None) -> pd.DataFrame:
        """The results. They do not depend on how the seeds are divided among calls."""
        with jax.enable_x64(self.double):
            seeds = self.seeds(settings) if seeds is None else seeds
            return self.compute(settings, seeds, loop or Loop()).reset_index(drop=True)

    def findings(self, settings: Settings | None = None, table: pd.DataFrame | None = None) -> list[dict[str, Any]]:
        """Every claim with its verdict; "not run" without a table."""
        return [claim.record(settings, table) for claim in self.claims]


def changed(settings: Settings, preset: Settings) -> dict[str, Any]:
    """The fields in which settings differ from a preset."""
    fields = [f.name for f in dataclasses.fields(settings)]
    return {name: getattr(settings, name) for name in fields if getattr(settings, name) != getattr(preset, name)}
