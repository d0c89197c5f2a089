"""Every experiment at toy size, with pictures that cost nothing: what a run computes and writes, in little time."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
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
from wane.experiments import LEARNED, NAMES, find
from wane.experiments.contract import Experiment, Settings
from wane.runs import Run

FEW = dataclasses.replace(SMALL, episodes=6)
"""Fewer chunks of learning: six, so that there are checkpoints before, among and after them."""


def settings(name: str) -> Settings:
    """Settings with which an experiment takes a second or little more, beside what JAX takes to compile."""
    if name == "sac-flops":
        return FLOPS
    if name in LEARNED:
        return toy(name)
    chosen = RATS if name == "rats" else EXACT[name] if name in EXACT else TABULAR[name]
    if name in ("q-lambda", "replenishing-q"):  # With λ = 0 the optimum is found at once.
        return dataclasses.replace(chosen, agent=FEW, lam=0.0, lambdas=(0.0, 1.0))
    return chosen


def run(name: str, out: Path) -> Run:
    """The toy run of an experiment."""
    return Run(name, settings(name), "quick", out)


def plain(name: str) -> Experiment:
    """The experiment with a blank figure and a film of one frame: what is drawn takes most of the time otherwise."""
    experiment = find(name)
    films = {"a film": lambda path: Image.new("P", (4, 4)).save(path, format="GIF")} if experiment.films else {}
    return dataclasses.replace(experiment, draw=lambda *_: Figure(figsize=(1, 1)), films=lambda *_: films)


@contextmanager
def plain_pictures() -> Iterator[None]:
    """Lets runs draw nothing while it is open, and lets XLA compile quickly."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        with mock.patch("wane.runs.run.find", plain), mock.patch("wane.runs.launchers.find", plain):
            yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)


__all__ = ["NAMES", "plain_pictures", "run", "settings"]
