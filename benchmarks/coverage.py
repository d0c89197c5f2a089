"""How often intervals cover the truth: every named model, in simulated animals like the rats.

    python -m benchmarks.coverage                     all models, 400 animals each (about ten minutes)
    python -m benchmarks.coverage count drop-told     some models; the others keep the numbers that they had
    python -m benchmarks.coverage --fits 40 count     fewer animals; prints, and keeps and judges nothing
    python -m benchmarks.coverage --quick             one model, one animal like each rat; the same

Each of the eight rats is copied equally often, with the parameters that were fitted to it: those that the experiment
`rats` keeps, or those of a new fit for models that it does not use. A parameter is judged if it is identified in at
least half of the fits. The command fails if the intervals of such a parameter cover less than 92 % or more than 98 %.
"""

import argparse
import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import readme
from wane import foraging
from wane.foraging import MODELS
from wane.foraging.fitting import Fit

HERE = Path(__file__).parent
KEPT = HERE / "results" / "coverage.json"
FITS = 400
FLOOR, CEILING = 0.92, 0.98
USUAL = 0.5
"""The share of the fits in which a parameter must be identified for its coverage to be judged."""


def kept_fit(name: str, data: foraging.PatchVisits) -> Fit | None:
    """Returns the fit of a model to each rat that the experiment `rats` keeps, or None if it keeps none."""
    with (files("wane_paper") / "results" / "paper" / "rats" / "estimates.parquet").open("rb") as file:
        rows = pd.read_parquet(file)
    rows = rows[(rows["model"] == name) & ~rows["pooled"]]
    if rows.empty:
        return None
    rows = rows.assign(subject=rows["subject"].astype(int))
    return Fit(MODELS[name], data, False, rows, pd.DataFrame(), np.zeros((len(data.subjects), 1)))


def measure(name: str, fits: int) -> dict[str, Any]:
    """Returns the coverage of every parameter of a model."""
    data, model = foraging.rats(), MODELS[name]
    found = foraging.recover(model, data, fits=fits, params=kept_fit(name, data), starts=2).coverage()
    # JSON has no NaN; a parameter that is never identified has no coverage.
    rows = json.loads(found.to_json(orient="records", double_precision=15))
    return {"fits": fits, "intervals": "profile" if model.kinks else "curvature", "parameters": rows}


def is_judged(row: dict[str, Any]) -> bool:
    """Returns whether a parameter is identified often enough for its coverage to mean something."""
    return row["identified"] >= USUAL


def passes(row: dict[str, Any]) -> bool:
    """Returns whether the coverage of a parameter lies within the bounds or is not judged."""
    return not is_judged(row) or FLOOR <= round(row["coverage"], 4) <= CEILING


def describe(name: str, found: dict[str, Any]) -> str:
    """Returns one row of the table in README.md."""
    rows = found["parameters"]
    covered = [f"{100 * row['coverage']:.1f}" if is_judged(row) else "none" for row in rows]
    known = [f"{100 * row['identified']:.1f}" for row in rows]
    told = "all fits" if all(row["identified"] == 1 for row in rows) else ", ".join(known) + " % of the fits"
    names = ", ".join(row["parameter"] for row in rows)
    return f"| {name} | {names} | {found['intervals']} | {', '.join(covered)} | {told} |"


def write_readme(models: dict[str, Any]) -> None:
    """Puts the table between its marks in README.md."""
    lines = ["| model | parameters | intervals | coverage, % | identified |", "| --- | --- | --- | --- | --- |"]
    lines += [describe(name, models[name]) for name in MODELS if name in models]
    readme.write("coverage", lines)


def main() -> None:
    """Measures, prints and keeps the coverage. Exits with 1 if a parameter is outside of the bounds."""
    parser = argparse.ArgumentParser(description="How often intervals cover the truth, for every named model.")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"names among {', '.join(MODELS)}; all by default")
    parser.add_argument("--fits", type=int, default=FITS, help="simulated animals for each model")
    parser.add_argument("--quick", action="store_true", help="one model, 8 animals")
    options = parser.parse_args(namespace=argparse.Namespace(models=[]))
    if options.quick:
        options.models, options.fits = [*MODELS][:1], len(foraging.rats().subjects)
    fine = True
    for name in options.models or MODELS:
        if name not in MODELS:
            parser.error(f"there is no model {name!r}, there are {', '.join(MODELS)}")
        found = measure(name, options.fits)
        print(name, pd.DataFrame(found["parameters"]).round(3).to_string(index=False), sep="\n", flush=True)
        if options.fits != FITS:
            continue
        models = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
        models[name] = found
        KEPT.write_text(json.dumps(models, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        write_readme(models)
        fine = fine and all(passes(row) for row in found["parameters"])
    sys.exit(not fine)


if __name__ == "__main__":
    main()
