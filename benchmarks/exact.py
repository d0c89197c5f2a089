"""How fast the exact part is, compared with other libraries.

Every number is a ratio to a peer that was timed in the same run, so that it means something on another machine. Timings
alternate, ours and the peer's, and the best of the repeats counts. Between two of them the script sleeps a moment:
NumPy and SciPy bring a BLAS each, whose idle threads keep spinning for a while and would slow down whichever side is
timed next. Run it on a machine that does nothing else: the load when a case began is kept with its results.

Large systems are solved in separate processes, with limits on time and address space. Where a limit stops a peer, the
ratio is a lower bound, and the limit is kept with the result.

    python -m benchmarks.exact                       # everything, about ten minutes on two cores
    python -m benchmarks.exact --quick               # smaller chains and shorter limits; prints, keeps nothing
    python -m benchmarks.exact --only lambdas graphs # some of the cases; the others keep the numbers they had
"""

import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import tyro
from rich.console import Console
from rich.table import Table
from scipy import sparse
from scipy.sparse.linalg import splu

import wane
from benchmarks import readme
from benchmarks.chains import CHAINS, describe, random_dense
from benchmarks.mdp_solvers import evaluate_with, mdptoolbox_evaluation, problem, quantecon_evaluation
from benchmarks.timing import PAUSE, apart, race
from wane.worlds.catalog import four_rooms

PEERS = {"quantecon": "QuantEcon", "mdptoolbox": "pymdptoolbox"}
"""The peers of the last three cases, by the names under which they are imported."""
RESULTS = Path(__file__).parent / "results" / "exact.json"


@dataclass(frozen=True)
class Settings:
    quick: bool = False

    @property
    def limit(self) -> float:
        """seconds that a peer gets"""
        return 15.0 if self.quick else 120.0

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def race(self, *rivals: Callable[[], Any], repeats: int = 7) -> list[float]:
        """Returns the best seconds of each rival; a quick run times each once, without a pause."""
        return race(*rivals, repeats=1, pause=0.0) if self.quick else race(*rivals, repeats=repeats)


@dataclass(frozen=True)
class Result:
    case: str
    what: str
    peer: str
    ours_s: float
    peer_s: float | None
    measured: float | None
    """None where the peer cannot start"""
    sign: str
    """"≤", "≥" or "" where there is no floor: how `measured` must compare"""
    floor: float | None
    unit: str
    note: str = ""
    load: float | None = None
    """processes that wanted a core in the minute before the case began"""

    @property
    def passed(self) -> bool | None:
        if self.floor is None or self.measured is None:
            return None
        return bool(self.measured <= self.floor if self.sign == "≤" else self.measured >= self.floor)


def solve_with_wane(chain: str, shape: tuple, discount: float) -> dict:
    kernel = CHAINS[chain](*shape)
    sites = np.random.default_rng(1).choice(kernel.shape[0], 10, replace=False)
    start = time.perf_counter()
    phi = wane.lambda_representation(kernel, 0.5, discount=discount, sites=sites)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "method": phi.method, "residual": float(phi.residual)}


def solve_with_splu(chain: str, shape: tuple, discount: float) -> dict:
    kernel = CHAINS[chain](*shape)
    n = kernel.shape[0]
    columns = np.zeros((n, 10))
    columns[np.random.default_rng(1).choice(n, 10, replace=False), np.arange(10)] = 1
    matrix = sparse.eye_array(n, format="csr") - discount * kernel
    start = time.perf_counter()
    splu(matrix.tocsc()).solve(columns)
    return {"seconds": time.perf_counter() - start}


def lambdas(settings: Settings) -> Iterator[Result]:
    """The value functions of 101 values of λ, all states rewarded, against one matrix inverse."""
    n = settings.size(1024, 256)
    kernel, rewards, lams = random_dense(n), np.random.default_rng(1).normal(size=n), np.linspace(0, 1, 101)
    ours, peer = settings.race(
        lambda: (
            wane.successor_representation(kernel, discount=0.99)
            .with_depletion(wane.Geometric(lams[:, None]))
            .values(rewards)
        ),
        lambda: np.linalg.inv(np.eye(n) - 0.99 * kernel),
        repeats=15,
    )
    what = f"values for 101 λ, dense chain of {n:,} states"
    yield Result("lambdas", what, "numpy.linalg.inv", ours, peer, ours / peer, "≤", 1.3, "× its cost")


def small(settings: Settings) -> Iterator[Result]:
    """FourRooms, where the overhead can cost more than the solution, and a large system, which needs several threads.

    A small system is solved on one thread, so that its cost does not depend on how many threads the user allows, nor on
    what other programs do. A large one must still use several: CPU seconds per second say how many cores it keeps busy.
    """
    rooms = four_rooms()
    mdp, n = rooms.mdp, rooms.n_states
    kernel = mdp.under(rooms.policies[0])
    system = np.eye(n) - 0.97 * kernel.toarray()

    def one() -> np.ndarray:
        return wane.representation(kernel, wane.Geometric(0.5), discount=0.97).matrix

    def from_one_solve() -> None:
        for policy in rooms.policies:
            solved = wane.successor_representation(mdp.under(policy), discount=0.97)
            for lam in (0.0, 0.5, 1.0):
                solved.with_depletion(wane.Geometric(lam)).action_matrix(mdp)

    def from_twelve_solves() -> None:
        for policy in rooms.policies:
            for lam in (0.0, 0.5, 1.0):
                wane.representation(mdp.under(policy), wane.Geometric(lam), discount=0.97).action_matrix(mdp)

    for call, what, floor in (
        (one, "one representation in FourRooms", 5.0),
        (from_one_solve, "4 policies × 3 λ, one solve a policy", 40.0),
        (from_twelve_solves, "4 policies × 3 λ, twelve solves", None),
    ):
        ours, peer = settings.race(call, lambda: np.linalg.inv(system), repeats=15)
        yield Result("small", what, "numpy.linalg.inv", ours, peer, ours / peer, "≤", floor, "× its cost")
    yield _busy_cores(settings.size(2048, 1024))


def _busy_cores(n: int) -> Result:
    kernel = random_dense(n)
    wane.successor_representation(kernel, discount=0.99)
    time.sleep(PAUSE)
    start, cpu = time.perf_counter(), time.process_time()
    wane.successor_representation(kernel, discount=0.99)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - start
    floor = 1.3 if (os.cpu_count() or 1) > 1 else None
    what = f"one representation, dense chain of {n:,} states"
    return Result("small", what, "CPU seconds", wall, cpu, cpu / wall, "≥", floor, "cores busy")


def iteration(settings: Settings) -> Iterator[Result]:
    """One λR against dynamic programming with the paper's operator, vectorised in NumPy."""
    n = settings.size(1024, 128)
    kernel = random_dense(n)
    (ours,) = settings.race(lambda: wane.lambda_representation(kernel, 0.5, discount=0.99).matrix)
    time.sleep(PAUSE)
    start = time.perf_counter()
    done = wane.iterate(kernel, 0.5, discount=0.99, tolerance=1e-10)
    peer = time.perf_counter() - start
    what, note = (
        f"the λR, dense chain of {n:,} states, γ = 0.99",
        f"{len(done.errors):,} iterations to 1e-10, timed once",
    )
    yield Result("iteration", what, "wane.iterate", ours, peer, peer / ours, "≥", 100.0, "× faster", note)


def million(settings: Settings) -> Iterator[Result]:
    """Ten sites on a grid of a million states, against SciPy's SuperLU with its default settings."""
    side = settings.size(1000, 100)
    for discount in (0.99,) if settings.quick else (0.99, 0.9999):
        yield from _beside_splu("million", "grid", (side, side), discount, 1.6, repeats=settings.size(2, 1), memory=3.0)


def graphs(settings: Settings) -> Iterator[Result]:
    """Ten sites on chains whose LU factors have much fill-in, against SciPy's SuperLU."""
    limit = settings.limit
    yield from _beside_splu("graphs", "random", (settings.size(10_000, 1_000),), 0.99, 10.0, limit=limit)
    if not settings.quick:
        yield from _beside_splu("graphs", "regular", (100_000,), 0.99, 10.0, limit=limit)
        yield from _beside_splu("graphs", "grid", (64,) * 3, 0.99, None, limit=limit, memory=3.0)


def _beside_splu(
    case: str, chain: str, shape: tuple, discount: float, floor: float | None, *, repeats=1, limit=600.0, memory=None
) -> Iterator[Result]:
    ours, peer = {"seconds": np.inf, "peak_gib": 0.0}, {"seconds": np.inf}
    for _ in range(repeats):
        one, other = (apart(f, chain, shape, discount, limit=limit) for f in (solve_with_wane, solve_with_splu))
        if "stopped" in one:
            raise RuntimeError(f"{chain} {shape}: {one['stopped']}")
        ours = one | {
            "peak_gib": max(one["peak_gib"], ours["peak_gib"]),
            "seconds": min(one["seconds"], ours["seconds"]),
        }
        peer = other if other.get("seconds", 0.0) < peer["seconds"] else peer
    what = f"10 sites, {describe(chain, shape)}, γ = {discount}"
    note = f"{ours['method']}; residual {ours['residual']:.1e}"
    if ours["residual"] > 1e-10:
        raise RuntimeError(f"{what}: residual {ours['residual']}")
    yield _compared(case, what, "splu", ours["seconds"], peer, floor, note)
    if memory:
        yield Result(case, what, "peak memory", ours["seconds"], None, ours["peak_gib"], "≤", memory, "GiB")


def _compared(
    case: str, what: str, peer: str, ours_s: float, answer: dict, floor: float | None, note: str = ""
) -> Result:
    """Returns the speed-up, a lower bound of it where the peer met a limit, or no number where it cannot start."""
    stopped, seconds = answer.get("stopped"), answer.get("seconds")
    if stopped:
        note = f"the peer was stopped by its limit: {stopped}" + (f"; {note}" if note else "")
    if seconds is None:
        return Result(case, what, peer, ours_s, None, None, "≥", floor, "× faster", note)
    return Result(case, what, peer, ours_s, seconds, seconds / ours_s, "≥", floor, "× faster", note)


def small_peers(settings: Settings) -> Iterator[Result]:
    """The evaluations of `dense_peers` on small kernels. There is no floor: we check more than the peers do.

    Such short calls are easily disturbed, so the best of many repeats counts.
    """
    for chain, shape in (("dense", (100,)), ("grid", (20, 20)), ("walk", (400,)), ("random", (400,))):
        yield from _evaluations("small_peers", chain, shape, settings, floor=None, repeats=40)


def dense_peers(settings: Settings) -> Iterator[Result]:
    """One evaluation without depletion, the only kind that MDP solvers offer, against two of them: dense kernels."""
    yield from _evaluations("dense_peers", "dense", (settings.size(1000, 300),), settings)


def sparse_peers(settings: Settings) -> Iterator[Result]:
    """The evaluations of `dense_peers` on sparse kernels."""
    for n in (1_000,) if settings.quick else (10_000, 100_000):
        side = round(n**0.5)
        for chain, shape in (("grid", (side, side)), ("walk", (n,)), ("random", (n,))):
            yield from _evaluations("sparse_peers", chain, shape, settings)


def _evaluations(
    case: str, chain: str, shape: tuple, settings: Settings, floor: float | None = 1.0, repeats: int = 7
) -> Iterator[Result]:
    """Times an evaluation beside each peer. A quick run leaves out, and names, those that are not installed."""
    kernel, rewards = problem(chain, shape)
    what, stays = f"λ = 1, {describe(chain, shape)}", wane.Geometric(1.0)

    def ours() -> np.ndarray:
        return wane.evaluate(kernel, rewards, stays, discount=0.99)

    for peer, name in PEERS.items():
        if settings.quick and not importlib.util.find_spec(peer):
            print(f"{what}: the row beside {name} is left out, because it is not installed")
            continue
        if case != "sparse_peers" or (peer == "quantecon" and chain != "random"):
            make = quantecon_evaluation if peer == "quantecon" else mdptoolbox_evaluation
            seconds, theirs = settings.race(ours, make(kernel, rewards), repeats=repeats)
            yield _compared(case, what, name, seconds, {"seconds": theirs}, floor)
        else:  # It may take more time or memory than there is.
            (seconds,) = settings.race(ours)
            note = "expands sparse kernels to dense arrays" if peer == "mdptoolbox" else ""
            answer = apart(evaluate_with, peer, chain, shape, limit=settings.limit)
            yield _compared(case, what, name, seconds, answer, floor, note)


CASES: dict[str, Callable[[Settings], Iterator[Result]]] = {
    case.__name__: case for case in (lambdas, small, iteration, million, graphs, small_peers, dense_peers, sparse_peers)
}


def hardware() -> str:
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), cpu)
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}"
    rivals = [f"{name} {version(name)}" for name in ("quantecon", "pymdptoolbox")]
    return f"{cpu}, {os.cpu_count()} cores; {versions}, {', '.join(rivals)}"


def version(name: str) -> str:
    """Returns the version of a package, or that it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "is not installed"


def record(result: Result) -> dict:
    return asdict(result) | {"passed": result.passed}


def row(r: dict) -> list[str]:
    """Returns the cells of a result, in the order of `HEAD`."""
    bound = "≥ " if "stopped" in r["note"] else ""
    number = "the peer cannot start" if r["measured"] is None else f"{bound}{r['measured']:.3g} {r['unit']}"
    theirs = "" if r["peer_s"] is None else f"{bound.replace('≥', '>')}{r['peer_s']:.3g} s"
    floor = "" if r["floor"] is None else f"{r['sign']} {r['floor']:g}"
    verdict = {None: "", True: "pass", False: "FAIL"}[r["passed"]]
    load = "?" if r["load"] is None else f"{r['load']:.1f}"
    return [r["what"], r["peer"], f"{r['ours_s']:.3g} s", theirs, number, floor, verdict, load]


HEAD = ["what", "beside", "ours", "theirs", "measured", "floor", "", "load"]


def table(records: list[dict], machine: str) -> Table:
    shown = Table(*HEAD, title=machine)
    for record in records:
        shown.add_row(*row(record), style="red" if record["passed"] is False else None)
    return shown


def write_readme(kept: dict) -> None:
    """Puts the kept results into README.md next to this script."""
    rows = [HEAD, ["---"] * len(HEAD), *map(row, kept["results"])]
    readme.write("exact", [kept["hardware"], "", *(f"| {' | '.join(cells)} |" for cells in rows)])


def keep(records: list[dict], machine: str) -> None:
    """Writes the results, and keeps earlier results of this machine for the cases that were not run again."""
    old = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"hardware": None, "results": []}
    again, order = {r["case"] for r in records}, list(CASES)
    others = (
        [r for r in old["results"] if r["case"] in order and r["case"] not in again]
        if old["hardware"] == machine
        else []
    )
    kept = {"hardware": machine, "results": sorted(others + records, key=lambda r: order.index(r["case"]))}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write_readme(kept)


def main(quick: bool = False, only: tuple[str, ...] = ()) -> None:
    """Times the exact part of wane and its peers.

    Args:
        quick: smaller chains and shorter limits; nothing is kept or judged, as the floors are for the full sizes
        only: names of cases: lambdas, small, iteration, million, graphs, small_peers, dense_peers, sparse_peers
    """
    if unknown := set(only) - set(CASES):
        raise SystemExit(f"unknown case {unknown.pop()!r}: there are {', '.join(CASES)}")
    if not quick and (missing := [name for peer, name in PEERS.items() if not importlib.util.find_spec(peer)]):
        raise SystemExit(f"{missing[0]} is not installed: `make bench` installs it, and --quick leaves it out")
    console, machine, results = Console(width=None if sys.stdout.isatty() else 140), hardware(), []
    for name in only or CASES:
        load = round(os.getloadavg()[0], 1)
        with console.status(name):
            for result in CASES[name](Settings(quick)):
                results.append(replace(result, load=load, floor=None if quick else result.floor))
                what, peer, _, _, number, *_ = row(record(result))
                console.print(f"{what}, beside {peer}: {number}", highlight=False, soft_wrap=True)
    records = [record(result) for result in results]
    console.print(table(records, machine))
    if not quick:
        keep(records, machine)
    if any(result.passed is False for result in results):
        raise SystemExit(1)


if __name__ == "__main__":
    tyro.cli(main)
