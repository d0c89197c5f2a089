"""What an answer with proven bounds costs in fields of 10⁶ to 10¹² cells, and what solving a whole field costs.

The fields are `wane.worlds.EndlessField`: a fifth of the cells are walls, the agent walks at random, and the ten sites
that are nearest to the start pay, each half as much after every visit. The start is the same cell in every field, so
the answers are equal to the last bit. Each measurement has a process of its own; the best of its repeats counts, and
memory is what the process takes above its imports. Whole fields are solved at 10⁶ cells only, for the columns of the
ten sites (QuantEcon: one value function, λ = 1, because it can do no other): 10⁸ states do not fit as a matrix.

    python -m benchmarks.local                       # three minutes on two cores
    python -m benchmarks.local --quick               # a small field, nothing is kept
"""

import importlib.util
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from scipy import sparse
from scipy.sparse.linalg import splu

from benchmarks import readme
from benchmarks.exact import hardware
from benchmarks.timing import apart
from wane import Geometric, evaluate_local, representation
from wane.worlds import EndlessField

RESULTS = Path(__file__).parent / "results" / "local.json"
START = 500
ASKED = {0.95: (1e-8, 2.0), 0.99: (1e-6, 20.0)}
"""The tolerance of each discount, and the seconds that it may take."""
MEMORY = 200.0
"""The MB above the imports that it may take, at γ = 0.95."""


def field_of(side: int, start: int) -> EndlessField:
    return EndlessField(side, side, seed=0, start=(start, start))


def nearest_sites(field: EndlessField) -> np.ndarray:
    """The ten sites that are nearest to the start, as cells."""
    reach = np.arange(-30, 31)
    cells = np.array(field.start) + np.stack(np.meshgrid(reach, reach, indexing="ij"), axis=-1).reshape(-1, 2)
    cells = cells[field.is_site(cells)]
    return cells[np.argsort(np.abs(cells - field.start).sum(1), kind="stable")[:10]]


def ask(side: int, start: int, discount: float, tolerance: float, repeats: int) -> dict:
    field = field_of(side, start)
    rewards = dict.fromkeys(field.number(nearest_sites(field)).tolist(), 1.0)
    begun, best, cpu = peak(), np.inf, np.inf
    for _ in range(repeats):
        before, used = time.perf_counter(), time.process_time()
        found = evaluate_local(
            field.function_kernel("uniform"),
            rewards,
            Geometric(0.5),
            discount=discount,
            at=[field.number(field.start)],
            tolerance=tolerance,
        )
        best, cpu = min(best, time.perf_counter() - before), min(cpu, time.process_time() - used)
    known = {
        "seconds": best,
        "cpu": cpu,
        "touched": found.touched,
        "width": found.width,
        "value": float(found.values[0]),
    }
    return known | {"mb": (peak() - begun) / 1e6}


def peak() -> float:
    """The most bytes that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def whole(solver: str, side: int, start: int, discount: float) -> dict:
    """The time to solve a field as a whole, without the time to build its matrix."""
    field = field_of(side, start)
    cells = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), axis=-1).reshape(-1, 2)
    states = field.number(cells)[field.is_free(cells)]
    after, chances = field.function_kernel("uniform").rows(states)
    rows = np.repeat(np.arange(len(states)), after.shape[1])
    entries = chances.ravel(), (rows, np.searchsorted(states, after.ravel()))
    kernel: Any = sparse.csr_array(entries, shape=(len(states), len(states)))
    kernel.sum_duplicates()
    sites = np.searchsorted(states, field.number(nearest_sites(field)))
    at = int(np.searchsorted(states, field.number(field.start)))
    begun, before = peak(), time.perf_counter()
    value = SOLVERS[solver](kernel, sites, discount)[at]
    return {"seconds": time.perf_counter() - before, "value": float(value), "mb": (peak() - begun) / 1e6}


def with_wane(kernel: Any, sites: np.ndarray, discount: float) -> np.ndarray:
    return representation(kernel, Geometric(0.5), discount=discount, sites=sites).values(np.ones(10))


def with_splu(kernel: Any, sites: np.ndarray, discount: float) -> np.ndarray:
    n = kernel.shape[0]
    columns = np.zeros((n, 10))
    columns[sites, np.arange(10)] = 1
    found = splu(sparse.csc_array(sparse.eye_array(n) - discount * kernel)).solve(columns)
    return (found / (0.5 + 0.5 * found[sites, np.arange(10)])).sum(1)


def with_quantecon(kernel: Any, sites: np.ndarray, discount: float) -> np.ndarray:
    from quantecon.markov import DiscreteDP

    n = kernel.shape[0]
    rewards, only = np.bincount(sites, minlength=n).astype(float), np.zeros(n, int)
    return DiscreteDP(rewards, sparse.csr_matrix(kernel), discount, np.arange(n), only).evaluate_policy(only)


SOLVERS = {"wane, whole field": with_wane, "SciPy splu": with_splu, "QuantEcon": with_quantecon}


def queries(count: int) -> dict:
    """Values of a random walk in random places of 10¹² cells, where every fiftieth free cell pays."""
    field, places = EndlessField(seed=1), np.random.default_rng(0).integers(0, 10**6, (4 * count, 2))
    places = places[field.is_free(places)][:count]
    before = time.perf_counter()
    touched = [field.values("uniform", at=place, tolerance=1e-6).touched for place in places]
    return {"seconds": (time.perf_counter() - before) / len(places), "touched": float(np.mean(touched))}


def measure(quick: bool) -> dict[str, Any]:
    sides, start = ((100, 1000), 50) if quick else ((10**3, 10**4, 10**5, 10**6), START)
    asked = {0.8: (1e-6, 2.0)} if quick else ASKED
    cells = nearest_sites(field_of(sides[0], start))
    steps = np.abs(cells - start).sum(1)
    kept: dict[str, Any] = {"hardware": hardware(), "distances": f"{steps.min()} to {steps.max()}", "rows": []}
    for discount, (tolerance, _) in asked.items():
        for side in sides:
            found = apart(ask, side, start, discount, tolerance, 1 if quick else 15)
            note(kept, discount, tolerance, side, "wane, local", found)
        for solver in SOLVERS:
            if solver == "QuantEcon" and not importlib.util.find_spec("quantecon"):
                print("QuantEcon is not installed, so it is left out")
                continue
            note(
                kept, discount, tolerance, sides[0], solver, apart(whole, solver, sides[0], start, discount, limit=300)
            )
    kept["queries"] = apart(queries, 4 if quick else 64)
    print(f"a query in a random place of 10¹² cells: {kept['queries']['seconds']:.3f} s")
    return kept


def note(kept: dict, discount: float, tolerance: float, side: int, what: str, found: dict) -> None:
    row = {"discount": discount, "tolerance": tolerance, "cells": side**2, "what": what, **found}
    row["load"] = round(os.getloadavg()[0], 1)
    kept["rows"].append(row)
    print(" | ".join(cells_of(row)), flush=True)


HEAD = ["γ", "cells", "how", "states touched", "proven width", "seconds", "CPU seconds", "MB above imports", "load"]


SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def cells_of(row: dict) -> list[str]:
    touched, width = (f"{row['touched']:,}", f"{row['width']:.1e}") if "touched" in row else ("all", "")
    seconds = f"{row['seconds']:.3g}" if "stopped" not in row else f"stopped: {row['stopped']}"
    cpu, memory = f"{row['cpu']:.3g}" if "cpu" in row else "", f"{row['mb']:.0f}" if "mb" in row else ""
    size = f"10{str(round(np.log10(row['cells']))).translate(SUPERSCRIPTS)}"
    return [str(row["discount"]), size, row["what"], touched, width, seconds, cpu, memory, str(row["load"])]


def failures(kept: dict) -> list[str]:
    """What does not hold: equal work and answers in all fields, and the limits on time and memory."""
    wrong = []
    for discount, (_, limit) in ASKED.items():
        ours = [row for row in kept["rows"] if row["discount"] == discount and row["what"] == "wane, local"]
        if len({(row["touched"], row["value"]) for row in ours}) > 1:
            wrong.append(f"γ = {discount}: fields of other sizes give other answers")
        whole = ("wane, whole field", "SciPy splu")
        peers = [row for row in kept["rows"] if row["discount"] == discount and row["what"] in whole]
        if any(abs(row["value"] - ours[0]["value"]) > ours[0]["width"] for row in peers if "value" in row):
            wrong.append(f"γ = {discount}: the whole field has another value")
        if max(row["seconds"] for row in ours) > limit:
            wrong.append(f"γ = {discount}: more than {limit} s")
        if max(row["cpu"] for row in ours) > 1.2 * min(row["cpu"] for row in ours):  # Load does not disturb these.
            wrong.append(f"γ = {discount}: CPU seconds that are more than 20 % apart")
        if discount == 0.95 and max(row["mb"] for row in ours) > MEMORY:
            wrong.append(f"γ = {discount}: more than {MEMORY:g} MB")
    return wrong


def write_readme(kept: dict) -> None:
    rows = [HEAD, ["---"] * len(HEAD), *map(cells_of, kept["rows"])]
    per_query = kept["queries"]
    last = f"A query in a random place of 10¹² cells, γ = 0.95, to 1e-6: {per_query['seconds']:.3f} s, "
    last += f"{per_query['touched']:,.0f} states."
    sites = f"Ten sites, {kept['distances']} steps from the start; 20 % walls."
    readme.write("local", [kept["hardware"], "", sites, "", *(f"| {' | '.join(row)} |" for row in rows), "", last])


def draw(kept: dict, path: Path) -> None:
    """Draws seconds over the number of cells."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for discount, marker in zip(ASKED, "os", strict=True):
        for what in ("wane, local", *SOLVERS):
            rows = [r for r in kept["rows"] if r["discount"] == discount and r["what"] == what and "stopped" not in r]
            if rows:
                points = [r["cells"] for r in rows], [r["seconds"] for r in rows]
                axes.loglog(*points, marker=marker, ls="-" if len(rows) > 1 else "", label=f"{what}, γ = {discount}")
    axes.set(xlabel="cells of the field", ylabel="seconds", title="ten sites, proven to 1e-8 and 1e-6")
    axes.legend(fontsize=7)
    figure.savefig(path, dpi=120)


def main(quick: bool = False) -> None:
    """Measures local evaluation and what whole fields cost.

    Args:
        quick: a small field; nothing is kept or judged
    """
    kept = measure(quick)
    if quick:
        return
    RESULTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write_readme(kept)
    draw(kept, Path(__file__).parents[1] / "docs" / "images" / "local.png")
    if wrong := failures(kept):
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    tyro.cli(main)
