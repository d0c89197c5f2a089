"""How fast the explorer's page is, measured in the page itself, in Chromium.

    python -m benchmarks.explorer            # half a minute
    python -m benchmarks.explorer --quick    # fewer changes, prints, keeps and judges nothing

Times are from a change until its picture is drawn. The page computes in workers: the "longest pause" is the longest
time in which it did not react while a system of 1,600 states was solved. Frames are counted while three agents walk.
"""

import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from benchmarks import QUICK, readme  # noqa: E402
from report import chromium  # noqa: E402
from wane import explore  # noqa: E402

TOOLS = """() => {
  const { app } = wane.app, { store } = app, { emptyWorld, putReward, putWall } = wane.editing;
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const waiting = () => Object.keys(store.keys).some((task) => store.isWaiting(task));
  const settled = async () => { do await frame(); while (waiting()); };
  const open = async (side, depletion) => {
    let world = { ...emptyWorld(side, side, store.world), depletion };
    [[2, 2, 10], [2, side - 1, 5], [side - 1, 2, 5]].forEach(([row, column, size]) => {
      world = putReward(world, row * world.columns + column, size);
    });
    app.open({ world, view: { ...store.view, cell: null, policy: "walk" } });
    await settled();
  };
  window.bench = { app, store, frame, settled, open, putWall };
}"""
MAP = """async (changes) => {
  const { store, open, settled, putWall } = bench, times = [];
  await open(13, { kind: "Geometric", lam: 0.5 });
  for (let i = 0; i < changes; i++) {
    const cell = (3 + (i % 9)) * store.world.columns + 4 + Math.floor(i / 9);
    store.timings.map.length = 0;
    store.change({ world: putWall(store.world, cell, 1) });
    while (!store.timings.map.length) await new Promise((done) => setTimeout(done));
    times.push(store.timings.map[0]);
    await settled();
  }
  return times;
}"""
CURVE = """async ([kind, changes]) => {
  const { store, open, settled } = bench, times = [], solved = () => store.timings.map.length;
  const make = { Geometric: (i) => ({ kind, lam: i / 40 }), Hyperbolic: (i) => ({ kind, k: i / 10 }) }[kind];
  await open(13, make(5));
  const before = solved();
  for (let i = 0; i < changes; i++) {
    const began = performance.now();
    store.change({ world: { depletion: make(i) } });
    times.push(performance.now() - began);
    await settled();
  }
  if (solved() !== before) throw new Error("another λ solved a system");
  return times;
}"""
LARGE = """async () => {
  const { store, open, putWall, frame } = bench;
  await open(40, { kind: "Geometric", lam: 0.5 });
  store.timings.map.length = 0;
  let longest = 0, last = performance.now();
  store.change({ world: putWall(store.world, 20 * store.world.columns + 20, 1) });
  while (!store.timings.map.length) {
    await frame();
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
  }
  return { solve: store.timings.map[0], longest };
}"""
FRAMES = """async (ms) => {
  const { app, open } = bench;
  await open(13, { kind: "Geometric", lam: 0.5 });
  app.playback.frames.length = 0;
  app.playback.go(0);
  app.playback.play();
  await new Promise((done) => setTimeout(done, ms));
  app.playback.pause();
  const frames = app.playback.frames.slice(1);
  const late = frames.filter((ms) => ms > 20).length, total = frames.reduce((sum, ms) => sum + ms, 0);
  return { share: late / frames.length, rate: 1000 * frames.length / total };
}"""


def median(numbers: list[float]) -> float:
    return sorted(numbers)[len(numbers) // 2]


def measure() -> list[dict[str, Any]]:
    """Returns a row for each number: what it is, the number, its unit and the largest that is allowed."""
    folder = tempfile.TemporaryDirectory()
    file = explore("two-rooms").save(Path(folder.name) / "page.html")
    with folder, chromium.window() as browser:
        page = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True).new_page()
        page.goto(file.as_uri())
        page.evaluate(TOOLS)
        maps, geometric, hyperbolic = (
            page.evaluate(MAP, 3 if QUICK else 30),
            *(page.evaluate(CURVE, [k, 3 if QUICK else 40]) for k in ("Geometric", "Hyperbolic")),
        )
        large, frames = page.evaluate(LARGE), page.evaluate(FRAMES, 500 if QUICK else 10_000)
        size = file.stat().st_size / 1000
    return [
        row("Φ of 13 × 13 cells after a change of the map, median of 30", median(maps), "ms", 50),
        row("the same, longest of 30", max(maps), "ms", None),
        row("Φ of 13 × 13 cells after a change of λ, median of 40", median(geometric), "ms", 8),
        row("the same with a hyperbolic curve", median(hyperbolic), "ms", 8),
        row("Φ of 40 × 40 cells after a change of the map", large["solve"] / 1000, "s", 3),
        row("longest pause of the page meanwhile", large["longest"], "ms", 200),
        row("frames a second while three agents walk", frames["rate"], "", None),
        row("frames that took more than 20 ms", 100 * frames["share"], "%", 2),
        row("size of the page", size, "kB", 300),
    ]


def row(what: str, value: float, unit: str, most: float | None) -> dict[str, Any]:
    return {"what": what, "value": value, "unit": unit, "most": most}


def main() -> None:
    rows = measure()
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores; load {os.getloadavg()[0]:.1f}"
    table = Table("what", "measured", "at most", "", title=machine)
    for r in rows:
        verdict = "" if r["most"] is None else "passes" if r["value"] <= r["most"] else "FAILS"
        table.add_row(r["what"], f"{r['value']:.3g} {r['unit']}", f"{r['most'] or ''}", verdict)
    Console().print(table)
    if QUICK:
        return
    (HERE / "results" / "explorer.json").write_text(json.dumps({"hardware": machine, "results": rows}, indent=1) + "\n")
    write_readme(machine, rows)
    sys.exit(any(r["most"] is not None and r["value"] > r["most"] for r in rows))


def write_readme(machine: str, rows: list[dict[str, Any]]) -> None:
    """Puts the numbers between their marks in README.md."""
    lines = [machine, "", "| what | measured | at most |", "| --- | --- | --- |"]
    for r in rows:
        most = "" if r["most"] is None else f"{r['most']:g} {r['unit']}"
        lines.append(f"| {r['what']} | {r['value']:.3g} {r['unit']} | {most} |")
    readme.write("explorer", lines)


if __name__ == "__main__":
    main()
