"""How fast models of patch leaving are fitted, and whether their intervals cover the truth.

    python benchmarks/fit.py               likelihoods and gradients beside a plain NumPy loop, all fits, a long track
    python benchmarks/fit.py --coverage    also 400 simulated animals for each model (about half an hour)
    python benchmarks/fit.py --confusion   also which of nine models are told apart in data like the rats'

The plain loop goes through the decisions of one animal as a script would: one call of NumPy for each, and the gradient
by finite differences. Ours computes the log-likelihood and its gradient for eight animals in one program.
"""

import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from wane import foraging
from wane.foraging.decisions import prepare, task_arrays
from wane.foraging.fitting import batch_axes, fit_all, make_batch, objective
from wane.foraging.named import NAMED

TOLD_APART = (
    "theorem",
    "theorem-bias",
    "thresholds",
    "exponential",
    "quasi-hyperbolic",
    "drop-counted",
    "lambda-counted",
    "drop-told-bias",
    "learned-average",
)
"""The models of the confusion matrix."""
RHO = {"rich": 6.986, "poor": 5.096}
"""The best long-run rates of the two environments, which the plain loop is given."""


def plain_loop(slope: float, bias: float, visits: list[tuple[str, float, int]]) -> float:
    """The log-likelihood of the theorem with a bias for one animal, decision by decision."""
    total = 0.0
    for environment, first, harvests in visits:
        for n in range(1, harvests + 1):
            following = np.maximum(first - 8.0 * n, 0.0)
            logit = slope * (10 * RHO[environment] - bias - following)
            total -= np.logaddexp(0.0, -logit if n == harvests else logit)
    return total


def plain_learner(slope: float, learning: float, bias: float, visits: list[tuple[str, float, int]]) -> float:
    """The same for an average that is learned."""
    total, rho, kept = 0.0, np.mean([*RHO.values()]), (1 - learning) ** 10
    for environment, first, harvests in visits:
        rho = rho * (1 - learning) ** (10 if environment == "rich" else 30)
        for n in range(1, harvests + 1):
            rho = kept * rho + (1 - kept) * np.maximum(first - 8.0 * (n - 1), 0.0) / 10
            logit = slope * (10 * rho - bias - np.maximum(first - 8.0 * n, 0.0))
            total -= np.logaddexp(0.0, -logit if n == harvests else logit)
    return total


def best_seconds(call: Callable[[], object], times: int) -> float:
    """The shortest of several calls in seconds: the one that other programs disturbed least."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def plain_rate(data: foraging.PatchVisits, loop: Callable[..., float], params: Sequence[float]) -> float:
    """Likelihoods with gradients a second of a plain loop, for one animal."""
    own = data.where(data.table["subject"] == 1)
    first = {"low": 60.0, "middle": 90.0, "high": 120.0}
    rows = own.table[["environment", "kind", "harvests"]].itertuples(index=False)
    visits = [(e, first[k], int(n)) for e, k, n in rows]

    def evaluate() -> None:
        base = loop(*params, visits)
        for shift in 1e-6 * np.eye(len(params)):
            _ = loop(*(np.asarray(params) + shift), visits) - base

    return 1 / best_seconds(evaluate, 5)


def our_rate(data: foraging.PatchVisits, name: str) -> float:
    """Likelihoods with gradients a second, those of the eight animals counted singly."""
    model = NAMED[name]
    names = tuple(model.parameters(data.task))
    batch, task = make_batch(prepare(data, model.learns), False, model.learns), task_arrays(data.task)
    z = jnp.stack([jnp.asarray(p.unbounded(jnp.asarray(p.typical, float)), float) for p in names])
    starts = jnp.tile(z, (len(data.subjects), 1))

    def one(each, x):
        return jax.value_and_grad(partial(objective, model, names, each, task))(x)

    program = jax.jit(jax.vmap(one, (batch_axes(batch), 0)))
    jax.block_until_ready(program(batch, starts))
    return len(starts) / best_seconds(lambda: jax.block_until_ready(program(batch, starts)), 100)


def track_seconds() -> tuple[float, float]:
    """Seconds to read a file of a million positions and to cut it into stays, and the GiB that this added."""
    count = 1_000_000
    time_ = np.arange(count) / 50 + np.random.default_rng(0).normal(0, 0.001, count)
    angle = 2 * np.pi * np.arange(count) / 5000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "track.csv"
        pd.DataFrame({"time": time_, "x": 10 * np.cos(angle), "y": 10 * np.sin(angle)}).to_csv(path, index=False)
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        patches = {"a": foraging.Circle(10, 0, 3)}
        recording = foraging.from_track(path, "x", "y", patches=patches, step=0.02)
        stays = foraging.bouts(recording.steps, by="subject")
        seconds = time.perf_counter() - start
    assert len(stays) == 201
    return seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20


def main() -> None:
    """Prints the tables of this page."""
    jax.config.update("jax_enable_x64", True)
    data = foraging.rats()
    plain = plain_rate(data, plain_loop, [0.08, 41.0])
    learner = plain_rate(data, plain_learner, [0.09, 0.002, 33.0])
    print(f"plain NumPy loops: {plain:.1f} and (learned average) {learner:.1f} likelihoods with gradients a second")
    for name in NAMED:
        # All are compared with the cheapest plain loop, also models whose own loop would take longer.
        ours = our_rate(data, name)
        print(f"{name:18} {ours:10.0f} a second, {ours / plain:8.0f} times the plain loop")
    start = time.perf_counter()
    for name, found in zip(NAMED, fit_all(data, [*NAMED.values()]), strict=True):
        print(f"{name:18} log-likelihood {found.log_likelihood:.2f}")
    print(f"all {len(NAMED)} models, eight rats: {time.perf_counter() - start:.0f} s, compilation included")
    print("track of 1,000,000 rows: {:.1f} s, {:.2f} GiB".format(*track_seconds()))
    if "--coverage" in sys.argv:
        for name, model in NAMED.items():
            found = foraging.recover(model, data, fits=400, starts=2)
            print(name, found.coverage().round(3).to_string(), sep="\n", flush=True)
    if "--confusion" in sys.argv:
        told = foraging.confusion([NAMED[name] for name in TOLD_APART], data, copies=8, starts=2)
        for table in (told.summary(), told.matrix(), told.grouped()):
            print(table.round(2).to_string(), flush=True)


if __name__ == "__main__":
    main()
