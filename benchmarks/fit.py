"""How fast models of patch leaving are fitted, and how fast a long track is read.

    python -m benchmarks.fit            likelihoods and gradients against a plain NumPy loop, all fits, a long track
    python -m benchmarks.fit --quick    one model and a short track; prints, keeps and judges nothing

The plain loop goes through the decisions of one animal as a script would: one call of NumPy for each, and the gradient
by finite differences. Ours computes the log-likelihood and its gradient for eight animals in one program.
"""

import json
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from benchmarks import QUICK, readme
from wane import foraging
from wane.foraging import MODELS
from wane.foraging.decisions import prepare, task_arrays
from wane.foraging.fitting import fit_all, make_sets, objective, set_axes

HERE = Path(__file__).parent
FLOOR, LIMIT_FITS, LIMIT_TRACK, LIMIT_MEMORY = 50.0, 120.0, 10.0, 1.0
"""The least speed-up over the plain loop, and the limits: seconds for all fits, seconds and GiB for the track."""
RHO = {"rich": 6.986, "poor": 5.096}
"""The best long-run rates of the two environments, which are given to the plain loop."""


def plain_loop(slope: float, bias: float, visits: list[tuple[str, float, int]]) -> float:
    """Returns one animal's log-likelihood under the theorem with a bias, decision by decision."""
    total = 0.0
    for environment, first, harvests in visits:
        for n in range(1, harvests + 1):
            following = np.maximum(first - 8.0 * n, 0.0)
            logit = slope * (10 * RHO[environment] - bias - following)
            total -= np.logaddexp(0.0, -logit if n == harvests else logit)
    return total


def plain_learner(slope: float, learning: float, bias: float, visits: list[tuple[str, float, int]]) -> float:
    """Returns one animal's log-likelihood under a learned average, decision by decision."""
    total, rho, kept = 0.0, np.mean([*RHO.values()]), (1 - learning) ** 10
    for environment, first, harvests in visits:
        rho = rho * (1 - learning) ** (10 if environment == "rich" else 30)
        for n in range(1, harvests + 1):
            rho = kept * rho + (1 - kept) * np.maximum(first - 8.0 * (n - 1), 0.0) / 10
            logit = slope * (10 * rho - bias - np.maximum(first - 8.0 * n, 0.0))
            total -= np.logaddexp(0.0, -logit if n == harvests else logit)
    return total


def best_seconds(call: Callable[[], object], times: int) -> float:
    """Returns the seconds of the shortest of several calls, which other programs disturbed least."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def plain_rate(data: foraging.PatchVisits, loop: Callable[..., float], params: Sequence[float]) -> float:
    """Returns the likelihoods with gradients per second of a plain loop, for one animal."""
    own = data.where(data.table["subject"] == 1)
    first = {"low": 60.0, "middle": 90.0, "high": 120.0}
    rows = own.table[["environment", "kind", "harvests"]].itertuples(index=False)
    visits = [(e, first[k], int(n)) for e, k, n in rows]

    def evaluate() -> None:
        base = loop(*params, visits)
        for shift in 1e-6 * np.eye(len(params)):
            _ = loop(*(np.asarray(params) + shift), visits) - base

    return 1 / best_seconds(evaluate, 1 if QUICK else 5)


def our_rate(data: foraging.PatchVisits, name: str) -> float:
    """Returns our likelihoods with gradients per second, where each of the eight animals counts as one."""
    model = MODELS[name]
    names = tuple(model.parameters(data.task))
    batch, task = make_sets(prepare(data, model.learns), False, model.learns), task_arrays(data.task)
    z = jnp.stack([jnp.asarray(p.unbounded(jnp.asarray(p.typical, float)), float) for p in names])
    starts = jnp.tile(z, (len(data.subjects), 1))

    def one(each, x):
        return jax.value_and_grad(partial(objective, model, names, each, task))(x)

    program = jax.jit(jax.vmap(one, (set_axes(batch), 0)))
    jax.block_until_ready(program(batch, starts))
    return len(starts) / best_seconds(lambda: jax.block_until_ready(program(batch, starts)), 100)


def track_seconds() -> tuple[float, float]:
    """Returns the seconds to read a file of a million positions and cut it into stays, and the GiB that this added."""
    count = 50_000 if QUICK else 1_000_000
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
    assert len(stays) == count // 5000 + 1
    return seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20


def measure() -> dict[str, Any]:
    """Returns all numbers of this benchmark."""
    data = foraging.rats()
    plain = plain_rate(data, plain_loop, [0.08, 41.0])
    learner = plain_rate(data, plain_learner, [0.09, 0.002, 33.0])
    print(f"plain NumPy loops: {plain:.1f} and (learned average) {learner:.1f} likelihoods with gradients a second")
    models = dict([*MODELS.items()][: 1 if QUICK else None])
    rates = {}
    for name in models:
        # All models are compared with the cheapest plain loop, even if their own loop would take longer.
        rates[name] = our_rate(data, name)
        print(f"{name:18} {rates[name]:10.0f} a second, {rates[name] / plain:8.0f} times the plain loop", flush=True)
    start = time.perf_counter()
    for name, found in zip(models, fit_all(data, [*models.values()]), strict=True):
        print(f"{name:18} log-likelihood {found.log_likelihood:.2f}")
    fits = time.perf_counter() - start
    print(f"all {len(models)} models, eight rats: {fits:.0f} s, compilation included")
    seconds, memory = track_seconds()
    print(f"the track: {seconds:.1f} s, {memory:.2f} GiB")
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    versions = f"Python {platform.python_version()}, jax {jax.__version__}"
    found = {"plain": plain, "plain_learner": learner, "rates": rates, "fits": fits, "track": seconds, "memory": memory}
    return {"hardware": f"{machine}; {versions}", **found}


def describe(kept: dict[str, Any]) -> list[str]:
    """Returns the lines for README.md."""
    lines = [kept["hardware"], "", "| likelihoods with gradients/s | ours | plain NumPy loop | measured | floor |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for name, rate in kept["rates"].items():
        ratio = f"{rate / kept['plain']:,.0f} × | ≥ {FLOOR:g}"
        lines.append(f"| {name} | {rate:,.0f} | {kept['plain']:.1f} | {ratio} |")
    lines += ["", "| what | measured | at most |", "| --- | --- | --- |"]
    fits = f"all {len(kept['rates'])} models fitted to eight rats, with intervals and compilation"
    lines.append(f"| {fits} | {kept['fits']:.0f} s | {LIMIT_FITS:.0f} s |")
    track = "a CSV file of 1,000,000 positions, read and cut into stays"
    lines.append(f"| {track} | {kept['track']:.1f} s | {LIMIT_TRACK:.0f} s |")
    lines.append(f"| memory of this | {kept['memory']:.2f} GiB | {LIMIT_MEMORY:.0f} GiB |")
    return lines


def main() -> None:
    """Measures, prints and keeps the numbers. Exits with 1 if one of them misses its floor or limit."""
    jax.config.update("jax_enable_x64", True)
    kept = measure()
    if QUICK:
        return
    (HERE / "results" / "fit.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    readme.write("fit", describe(kept))
    fast = min(kept["rates"].values()) >= FLOOR * kept["plain"]
    short = kept["fits"] <= LIMIT_FITS and kept["track"] <= LIMIT_TRACK and kept["memory"] <= LIMIT_MEMORY
    sys.exit(not (fast and short))


if __name__ == "__main__":
    main()
