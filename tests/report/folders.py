"""Made-up experiments and run folders for the tests of the report."""

import json
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

from wane.experiments import Claim, Experiment, Finding, Settings

VERSIONS = {"wane": "0.1.0", "python": "3.11.9", "jax": "0.10.2", "numpy": "2.4.6"}


def experiment(name: str = "toy", **fields: Any) -> Experiment:
    """One with two claims, "first" and "second"."""
    claims = tuple(Claim(n, f"The {n} claim of {name}.", lambda *_: Finding(True, 0.0)) for n in ("first", "second"))
    known = dict(title=f"About {name}", source="figure 9.9", says=f"What {name} shows.", claims=claims, cost="an hour")
    return Experiment(
        **{"name": name, "quick": Settings(), "paper": Settings(), "differs": "Solved, not iterated."} | known | fields,
        compute=lambda *_: pd.DataFrame(),
        draw=lambda *_: Figure(),
    )


def claim(name: str = "first", verdict: str = "holds", **fields: Any) -> dict[str, Any]:
    found = {"name": name, "statement": f"The {name} claim.", "verdict": verdict, "detail": "in the detail"}
    return found | {"estimate": 1.2345, "interval": [-0.5, 2.5]} | fields


def run_folder(root: Path, name: str = "toy", scale: str = "quick", *, claims: Any = None, **fields: Any) -> Path:
    """A whole run; `fields` replace those of run.json."""
    changed = fields.get("changed", {})
    folder = root / scale / (name.replace("/", "-") + "".join(f"+{field}={value}" for field, value in changed.items()))
    folder.mkdir(parents=True)
    claims = [claim("first"), claim("second", "fails", interval=None)] if claims is None else claims
    (folder / "claims.json").write_text(json.dumps(claims))
    (folder / "results.parquet").write_bytes(b"PAR1")
    for file, content in pictures().items():
        (folder / file).write_bytes(content)
    record = {
        "experiment": name,
        "scale": scale,
        "settings": {"lambdas": [0.0, 0.5], "timing": "arrival"} | changed,
        "changed": changed,
        "versions": VERSIONS,
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "device": "2 × CPU" if scale == "quick" else "NVIDIA H200",
        "seconds": 72.4,
        "peak_memory": 512_000_000,
        "launcher": "local",
        "finished": "2026-11-15T10:35:04+00:00",
        "films": {"film.gif": "An agent at work"},
        "files": ["results.parquet", "claims.json", "figure.png", "figure.svg", "film.gif"],
    }
    (folder / "run.json").write_text(json.dumps(record | fields))
    return folder


@cache
def pictures() -> dict[str, bytes]:
    """A figure, wide enough to scroll on a phone, and a film."""
    figure = Figure(figsize=(10, 3))
    figure.subplots(1, 2)[0].plot([1, 0.5, 0.25])
    png, svg, gif = BytesIO(), BytesIO(), BytesIO()
    figure.savefig(png, format="png", dpi=150)
    figure.savefig(svg, format="svg")
    frames = [Image.new("P", (300, 200), shade) for shade in (1, 2)]
    frames[0].save(gif, format="GIF", save_all=True, append_images=frames[1:])
    return {"figure.png": png.getvalue(), "figure.svg": svg.getvalue(), "film.gif": gif.getvalue()}
