"""Every experiment at toy size, with pictures that cost nothing: what a run computes and writes, in little time."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest import mock

import jax
from matplotlib.figure import Figure
from PIL import Image

from experiments.test_rats import TOY as RATS
from experiments.test_sac import TOY_FLOPS as FLOPS
from experiments.test_settings_exact import TOY as EXACT
from experiments.test_settings_networks import toy
from experiments.test_settings_tabular import SMALL
from experiments.test_settings_tabular import TOY as TABULAR
from wane.lab import find
from wane.lab.contract import Experiment, Settings
from wane.lab.runs import Run, SavingLoop
from wane_paper.collection import LEARNED, NAMES

MORE = ("a2c", "sac")
"""Networks that learn for more epochs than their other tests need, so that there are several checkpoints."""
FEW = dataclasses.replace(SMALL, episodes=6)
"""Fewer chunks of learning: six, so that there are checkpoints before, among and after them."""


def settings(name: str) -> Settings:
    """Settings with which an experiment takes a second or little more, beside what JAX takes to compile."""
    if name == "sac-flops":
        return FLOPS
    if name in LEARNED:
        small = toy(name)
        return dataclasses.replace(small, agent=dataclasses.replace(small.agent, epochs=5)) if name in MORE else small
    chosen = RATS if name == "rats" else EXACT[name] if name in EXACT else TABULAR[name]
    if name in ("q-lambda", "replenishing-q"):  # With λ = 0 the optimum is found at once.
        return dataclasses.replace(chosen, agent=FEW, lam=0.0, lambdas=(0.0, 1.0))
    return chosen


def run(name: str, out: Path, processes: int = 1) -> Run:
    """The toy run of an experiment, with a seed for each process at least."""
    chosen = settings(name)
    fewer = processes > 1 and getattr(chosen, "seeds", processes) < processes
    return Run(name, dataclasses.replace(chosen, seeds=processes) if fewer else chosen, "quick", out)


def plain(name: str) -> Experiment:
    """The experiment with a blank figure and a film of one frame: what is drawn takes most of the time otherwise."""
    experiment = find(name)
    films = {"a film": lambda path: Image.new("P", (4, 4)).save(path, format="GIF")} if experiment.films else {}
    return dataclasses.replace(experiment, draw=lambda *_: Figure(figsize=(1, 1)), films=lambda *_: films)


@contextmanager
def plain_pictures() -> Iterator[None]:
    """Lets runs draw nothing while it is open, save replay memories too, and lets XLA compile quickly."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        # A replay memory is saved every few minutes only, which no toy takes.
        loop = mock.patch("wane.lab.runs.job.SavingLoop", partial(SavingLoop, host_seconds=0))
        with mock.patch("wane.lab.runs.run.find", plain), mock.patch("wane.lab.runs.job.find", plain), loop:
            yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)


__all__ = ["NAMES", "plain_pictures", "run", "settings"]
