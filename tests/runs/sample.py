"""An experiment for the tests of running: random walks in chunks, slowed down and watched through the environment."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wane.files import name_leaves, save_arrays, write_json
from wane.lab.contract import Claim, Experiment, Finding, Loop, Seeded, Tables, seed_keys


@dataclass(frozen=True)
class Walker:
    """How the walker walks."""

    drift: float = 0.5
    """what every chunk adds"""
    moves: int = 4


@dataclass(frozen=True)
class Sample(Seeded):
    chunks: int = 12
    """how many chunks to walk"""
    agent: Walker = Walker()
    label: str = "walk"
    lambdas: tuple[float, ...] = (0.0, 1.0)


@dataclass(frozen=True)
class Kept:
    """A trained agent that saves itself as agents do."""

    params: dict[str, object]

    def save(self, folder: Path) -> Path:
        write_json(folder / "config.json", {"agent": "walker"})
        save_arrays(folder / "params.safetensors", name_leaves(self.params))
        return folder


def fixed(settings: Sample) -> Tables:
    watch("fixed")
    chunks = np.arange(settings.chunks)
    return {"expected": pd.DataFrame({"chunk": chunks, "at": settings.agent.drift * (chunks + 1)})}


def seeded(settings: Sample, seeds: Sequence[int], loop: Loop) -> Tables:
    keys = seed_keys(seeds)

    @jax.jit
    def walk(state, i):
        moves = jax.vmap(lambda key: jax.random.normal(jax.random.fold_in(key, i), (settings.agent.moves,)))(keys)
        state = {"at": state["at"] + settings.agent.drift + moves.sum(1), "count": state["count"] + 1}
        return state, {"at": state["at"], "highest": moves.max(1)}

    def step(state, i):
        watch(i)
        return walk(state, i)

    start = {"at": jnp.zeros(len(seeds)), "count": jnp.zeros((), jnp.int32)}
    state, found = loop("walk", step, start, settings.chunks)
    assert int(state["count"]) == settings.chunks
    # As agents are evaluated: a scan refuses states that came back from a checkpoint with other types.
    carry = jax.lax.scan(lambda state, i: walk(state, i), state, jnp.arange(2))[0]
    for i, seed in enumerate(seeds):
        loop.keep(f"walker-{seed}", Kept({"at": state["at"][i]}))
    index = pd.MultiIndex.from_product([seeds, range(settings.chunks)], names=["seed", "chunk"])
    walks = pd.DataFrame({name: values.T.ravel() for name, values in found.items()}, index=index).reset_index()
    later = pd.DataFrame({"seed": list(seeds), "at": np.asarray(carry["at"])})
    return {"walks": walks, "later": later}


def watch(chunk: int | str) -> None:
    if log := os.environ.get("SAMPLE_LOG"):
        with open(log, "a") as file:
            file.write(f"{os.getpid()} {chunk}\n")
    if chunk != "fixed":
        time.sleep(float(os.environ.get("SAMPLE_PAUSE", 0)))


def draw(settings: Sample, tables: Tables) -> Figure:
    figure = Figure(figsize=(2, 1.5))
    figure.subplots().plot(tables["walks"]["at"])
    return figure


def drifts(settings: Sample, tables: Tables) -> Finding:
    walks = tables["walks"]
    last = walks[walks["chunk"] == settings.chunks - 1]["at"]
    expected = tables["expected"]["at"].iloc[-1]
    return Finding(bool(last.mean() > 0), last.mean(), (last.min(), last.max()), f"{expected:.1f} is expected")


GIF = bytes.fromhex("47494638396101000100800000000000ffffff2c00000000010001000002024401003b")
"""A film of one picture with one pixel."""


EXPERIMENT = Experiment(
    name="runs.sample",
    title="A walk",
    source="a test",
    summary="Walks with a drift get away.",
    quick=Sample(),
    paper=Sample(seeds=6),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    claims=(Claim("drifts", "Walks end above where they began.", drifts),),
    films=lambda settings, tables: {"a film": lambda path: Path(path).write_bytes(GIF)},
)
