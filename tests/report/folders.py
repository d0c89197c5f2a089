"""Made-up experiments and run folders for the tests of the report."""

import json
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

from wane.files import checksum
from wane.lab import Claim, Experiment, Finding, Settings

VERSIONS = {"wane": "0.1.0", "python": "3.11.9", "jax": "0.10.2", "numpy": "2.4.6"}


def experiment(name: str = "toy", **fields: Any) -> Experiment:
    """An experiment with two claims, "first" and "second"."""
    claims = tuple(
        Claim(n, f"The {n} claim of {name}.", lambda *_: Finding(True, 0.0), "paper", "figure 9.9")
        for n in ("first", "second")
    )
    known = texts(name) | {"name": name, "claims": claims, "quick": Settings(), "paper": Settings()}
    return Experiment(**known | {"draw": lambda *_: Figure(), "fixed": lambda *_: {}} | fields)


def texts(name: str) -> dict[str, str]:
    """What a run folder tells about its experiment."""
    return {
        "title": f"About {name}",
        "source": "figure 9.9",
        "summary": f"What {name} shows.",
        "differences": "Solved, not iterated.",
        "paper_cost": "an hour",
    }


def claim(name: str = "first", verdict: str = "holds", **fields: Any) -> dict[str, Any]:
    """An entry of claims.json."""
    found = {"name": name, "statement": f"The {name} claim.", "verdict": verdict, "detail": "in the detail"}
    found |= {"kind": "paper", "place": "figure 9.9"}
    return found | {"estimate": 1.2345, "interval": [-0.5, 2.5]} | fields


def untested(name: str = "first", verdict: str = "not tested", detail: str = "One λ is not enough.") -> dict[str, Any]:
    """An entry of claims.json without numbers."""
    return claim(name, verdict, estimate=None, interval=None, detail=detail)


def run_folder(
    root: Path, name: str = "toy", scale: str = "quick", *, claims: Any = None, agents: Any = (), **fields: Any
) -> Path:
    """Writes a whole run. `fields` replace those of run.json."""
    changed = fields.get("changed", {})
    folder = root / scale / (name.replace("/", "-") + "".join(f"+{field}={value}" for field, value in changed.items()))
    claims = [claim("first"), claim("second", "fails", interval=None)] if claims is None else claims
    contents = {"claims.json": json.dumps(claims).encode(), "returns.parquet": b"PAR1"} | pictures()
    for agent in agents:
        contents |= {f"agents/{agent}/config.json": b"{}", f"agents/{agent}/params.safetensors": b"\0" * 8}
    for file, content in contents.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)
    record = {
        "experiment": name,
        "scale": scale,
        "settings": {"lambdas": [0.0, 0.5], "agent": {"step_size": 0.1, "timing": "arrival"}},
        "changed": changed,
        "texts": texts(name),
        "versions": VERSIONS,
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "fingerprint": "a2b4f05d3a60f244",
        "device": "2 × CPU" if scale == "quick" else "NVIDIA H200",
        "seconds": 72.4,
        "peak_memory": 512_000_000,
        "launcher": "local",
        "parts": 1,
        "finished": "2026-11-15T10:35:04+00:00",
        "films": {"film.gif": "An agent at work"},
        "tables": ["returns"],
        "agents": list(agents),
        "files": {file: checksum(folder / file) for file in contents},
    }
    (folder / "run.json").write_text(json.dumps(record | fields))
    return folder


def rewrite(folder: Path, file: str, content: str | bytes) -> None:
    """Replaces a file of a run and its checksum, as if the run had written it so."""
    data = content if isinstance(content, bytes) else content.encode("latin-1")
    (folder / file).write_bytes(data)
    if file != "run.json":
        edit_record(folder, files={file: checksum(folder / file)})


def edit_record(folder: Path, **fields: Any) -> None:
    """Replaces fields of run.json; what is a dictionary gets further items."""
    record = json.loads((folder / "run.json").read_text())
    for name, value in fields.items():
        record[name] = record[name] | value if isinstance(value, dict) else value
    (folder / "run.json").write_text(json.dumps(record))


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
