"""How often the right model is chosen, in simulated animals like the rats, and where models differ at all.

    python -m benchmarks.told_apart             nine models, 8 copies of each rat (some minutes)
    python -m benchmarks.told_apart --seed 0    other animals; prints, and keeps and judges nothing
    python -m benchmarks.told_apart --quick     two models, 4 copies of each rat; prints, and keeps and judges nothing

The criterion for models that differ (`wane.foraging.confusions`) was chosen on the animals of seed 0. Those of seed
100 were simulated afterwards, so they are the test. The command fails if the right model is chosen in less than 90 % of
the animals in whose data it differs from all others.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import QUICK, readme
from benchmarks.coverage import kept_fit
from wane import foraging
from wane.foraging import MODELS
from wane.foraging.confusions import Confusion

HERE = Path(__file__).parent
KEPT = HERE / "results" / "told_apart.json"
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
SEED, COPIES, FLOOR = 100, 8, 0.9


def measure(seed: int) -> Confusion:
    """Returns the scores of all models for all simulated animals, under the short names of the models."""
    data, names = foraging.rats(), TOLD_APART[: 2 if QUICK else None]
    params = {MODELS[name].name: found for name in names if (found := kept_fit(name, data)) is not None}
    models = [MODELS[name] for name in names]
    found = foraging.confusion(models, data, copies=4 if QUICK else COPIES, starts=2, seed=seed, params=params)
    short = {MODELS[name].name: name for name in names}
    return Confusion(found.scores.rename(columns=short).assign(true=found.scores["true"].map(short)))


def summarise(found: Confusion) -> dict[str, Any]:
    """Returns what is kept: a row for each model, the choices, the groups, and the counts where models differ."""
    choices = found.choices()
    apart = choices[choices["apart"]]
    return {
        "animals_apart": len(apart),
        "right_apart": int(apart["right"].sum()),
        "groups": found.groups(),
        "summary": json.loads(found.summary().to_json(orient="records")),
        "matrix": json.loads(found.matrix().to_json(orient="index")),
    }


def percent(share: float | None) -> str:
    """Returns a share as text for the table, empty where there is none."""
    return "" if share is None else f"{100 * share:.0f} %"


def write_readme(kept: dict[str, Any]) -> None:
    """Puts the table and the count between their marks in README.md."""
    right, all_ = kept["right_apart"], kept["animals_apart"]
    lines = [
        "| true model | right | rats in which it differs from all | right there | right, or not told apart from it |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in kept["summary"]:
        shares = percent(row["right_apart"]), percent(row["right_or_alike"])
        rats = f"{row['animals_apart']} of {row['animals']}"
        lines.append(f"| {row['model']} | {percent(row['right'])} | {rats} | {shares[0]} | {shares[1]} |")
    lines += [
        "",
        f"Where a model differs from all others, the right one was chosen in {right} of {all_} animals "
        f"({percent(right / all_)}).",
        "Groups of models that are not told apart in most rats (groups that share a model are joined):",
        "",
        *(f"- {', '.join(group)}" for group in kept["groups"]),
    ]
    readme.write("told_apart", lines)


def main() -> None:
    """Measures, prints and keeps the choices. Exits with 1 if too few are right where models differ."""
    parser = argparse.ArgumentParser(description="How often the right model is chosen, and where models differ.")
    parser.add_argument("--seed", type=int, default=SEED, help="the seed of the simulated animals")
    parser.add_argument("--quick", action="store_true", help="two models and few animals; keeps and judges nothing")
    options = parser.parse_args()
    kept = summarise(measure(options.seed))
    print(pd.DataFrame(kept["summary"]).round(2).to_string(index=False))
    print(f"right in {kept['right_apart']} of {kept['animals_apart']} animals in which models differ", flush=True)
    if options.seed == SEED and not QUICK:
        KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        write_readme(kept)
        sys.exit(kept["right_apart"] < FLOOR * kept["animals_apart"])


if __name__ == "__main__":
    main()
