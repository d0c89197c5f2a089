"""An experiment for the tests of running: random walks in chunks, slowed down and watched through the environment."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import pandas as pd
from matplotlib.figure import Figure

from wane.experiments.experiment import Claim, Experiment, Finding, Loop, Seeded, seed_keys


@dataclass(frozen=True)
class Sample(Seeded):
    chunks: int = 12
    drift: float = 0.5
    label: str = "walk"
    lambdas: tuple[float, ...] = (0.0, 1.0)


def compute(settings: Sample, seeds: Sequence[int], loop: Loop) -> pd.DataFrame:
    keys = seed_keys(seeds)

    @jax.jit
    def walk(state, i):
        moves = jax.vmap(lambda key: jax.random.normal(jax.random.fold_in(key, i), (4,)))(keys)
        state = {"at": state["at"] + settings.drift + moves.sum(1), "count": state["count"] + 1}
        return state, (state["at"], moves.max(1))

    def step(state, i):
        watch(i)
        return walk(state, i)

    start = {"at": jnp.zeros(len(seeds)), "count": jnp.zeros((), jnp.int32)}
    state, (at, highest) = loop("walk", step, start, settings.chunks)
    assert int(state["count"]) == settings.chunks
    index = pd.MultiIndex.from_product([seeds, range(settings.chunks)], names=["seed", "chunk"])
    walked = pd.DataFrame({"at": at.T.ravel(), "highest": highest.T.ravel()}, index=index).reset_index()
    known = pd.DataFrame({"seed": -1, "chunk": range(settings.chunks), "at": 0.0, "highest": 0.0})
    return pd.concat([known, walked], ignore_index=True)


def watch(chunk) -> None:
    if isinstance(chunk, jax.core.Tracer):
        return
    if log := os.environ.get("SAMPLE_LOG"):
        with open(log, "a") as file:
            file.write(f"{os.getpid()} {chunk}\n")
    time.sleep(float(os.environ.get("SAMPLE_PAUSE", 0)))


def draw(settings: Sample, table: pd.DataFrame) -> Figure:
    figure = Figure()
    figure.subplots().plot(table["at"])
    return figure


def drifts(settings: Sample, table: pd.DataFrame) -> Finding:
    last = table[(table["chunk"] == settings.chunks - 1) & (table["seed"] >= 0)]["at"]
    return Finding(bool(last.mean() > 0), last.mean(), (last.min(), last.max()), "where walks end")


EXPERIMENT = Experiment(
    name="runs.sample",
    title="A walk",
    source="a test",
    says="Walks with a drift get away.",
    quick=Sample(),
    paper=Sample(seeds=6),
    compute=compute,
    draw=draw,
    claims=(Claim("drifts", "Walks end above where they began.", drifts),),
    films=lambda settings, table: {"a film": lambda path: Path(path).write_bytes(b"GIF89a")},
)
