"""Publishes a run: joins its parts, tests the claims, draws the pictures, and writes all results into its folder.

The tables may have taken days to compute, so they are published even if a test or a picture fails. A claim whose test
raises an error is "not tested", with the reason. A figure or a film that cannot be drawn is left out, and run.json says
why under `failures`. With the environment variable WANE_DEBUG such an error ends the run with its traceback instead.
"""

import datetime
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from rich.console import Console

import wane
from wane.files import write_json
from wane.lab.contract import Claim, Experiment, Settings, Tables, join
from wane.lab.runs.job import AgentFiles, Job, Part, checksums, load_part, write_agents, write_tables
from wane.lab.runs.run import Run, as_json

PACKAGES = ("equinox", "jax", "jaxlib", "matplotlib", "numpy", "optax", "pandas", "pyarrow", "scipy")
TEXTS = ("title", "source", "summary", "differences", "paper_cost")
MOST_AGENT_BYTES = 20_000_000
"""Agents that are larger than this together stay in the checkpoint, so that a run's folder can be passed on."""


def publish(run: Run, jobs: Sequence[Job], launcher: str, console: Console) -> None:
    """Replaces the results in a run's folder with those of its parts, and prints how many claims hold.

    `launcher` says where the jobs were computed: "local", "ray", or the name of another kind of executor.
    """
    parts = {job: load_part(job.folder) for job in jobs}
    experiment, seeded = run.experiment, [part for job, part in parts.items() if job.seeds is not None]
    fixed = [part.tables for job, part in parts.items() if job.seeds is None]
    tables = join(fixed[0] if fixed else {}, [part.tables for part in seeded])
    claims = [_judge(claim, run.settings, tables) for claim in experiment.claims]
    agents = _agents(run, list(parts.values()), console)
    about = run.about | {"scale": run.scale, "settings": as_json(run.settings)} | _software(experiment)
    about |= {"fingerprint": run.fingerprint, "launcher": launcher, "parts": max(1, len(seeded))}
    about |= _cost(list(parts.values()))

    def fill(folder: Path) -> None:
        write_tables(folder, tables)
        write_json(folder / "claims.json", claims)
        films, failures = write_pictures(experiment, run.settings, tables, folder)
        for name, reason in failures.items():
            console.print(f"{run.filed}: the {name} could not be drawn: {reason}", markup=False, soft_wrap=True)
        write_agents(folder / "agents", agents)
        lists = {"films": films, "failures": failures, "tables": list(tables), "agents": list(agents)}
        write_json(folder / "run.json", about | lists | {"files": checksums(folder)}, sealed=True)

    run.folder.publish(fill)
    verdicts = [claim["verdict"] for claim in claims]
    console.print(f"{run.filed}: {verdicts.count('holds')} of {len(verdicts)} claims hold, {about['seconds']:.1f} s")


def _software(experiment: Experiment) -> dict[str, Any]:
    """Returns what run.json says about the experiment and the software. The report takes its texts from here."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {
        "texts": {name: getattr(experiment, name) for name in TEXTS},
        "versions": {"wane": wane.__version__, "python": platform.python_version()} | versions,
        "commit": commit(),
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def commit() -> str | None:
    """Returns the commit of the package's source, with "+" if it has changed since, or None outside of a checkout."""

    def git(*words: str) -> str:
        folder = Path(__file__).parent
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if not (Path(git("rev-parse", "--show-toplevel")) / "src" / "wane").is_dir():
            return None
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "--", "../") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _cost(parts: Sequence[Part]) -> dict[str, Any]:
    costs = [part.cost for part in parts]
    return {
        "seconds": sum(cost["seconds"] for cost in costs),
        "device": ", ".join(sorted({cost["device"] for cost in costs})),
        "peak_memory": max(cost["peak_memory"] for cost in costs),
    }


def _agents(run: Run, parts: Sequence[Part], console: Console) -> dict[str, AgentFiles]:
    """Returns the agents of all parts, or none if they are too large together. Prints what is left out."""
    agents: dict[str, AgentFiles] = {}
    for part in parts:
        for name in sorted(set(part.agents) & set(agents)):
            console.print(f"{run.filed}: several parts kept an agent {name!r}; only that of the lowest seeds is kept")
        agents = agents | {name: files for name, files in part.agents.items() if name not in agents}
    size = sum(len(content) for files in agents.values() for content in files.values())
    if size <= MOST_AGENT_BYTES:
        return agents
    console.print(
        f"{run.filed}: the agents are {size / 1e6:.0f} MB together, more than {MOST_AGENT_BYTES / 1e6:.0f}, so they "
        f"stay in {run.folder.checkpoint}/*/agents, which the next run without --resume replaces",
        soft_wrap=True,
    )
    return {}


def _judge(claim: Claim, settings: Settings, tables: Tables) -> dict[str, Any]:
    """Returns the claim with its verdict, which is "not tested", with the reason, if its test raises an error."""
    try:
        return claim.record(settings, tables)
    except Exception as error:
        _reraise_for_debugging()
        return claim.record() | {"verdict": "not tested", "detail": f"The test of the claim failed: {_reason(error)}"}


def write_pictures(
    experiment: Experiment, settings: Settings, tables: Tables, folder: Path
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Writes the figure as PNG and SVG, and the films.

    Returns the titles of the films by file, and for each picture that could not be drawn the reason.
    """
    failures: dict[str, str] = {}
    png, svg = folder / "figure.png", folder / "figure.svg"
    # With a fixed salt, the same figure gives the same file.
    style = matplotlib.rc_context({"svg.hashsalt": "wane", "svg.fonttype": "path"})
    with _noting_failure("figure", failures, [png, svg]), style:
        figure = experiment.figure(settings, tables)
        figure.savefig(png, dpi=150)
        figure.savefig(svg, metadata={"Date": None})
    films: Mapping[str, Callable[[Path], Any]] = {}
    with _noting_failure("films", failures, ()):
        films = experiment.films(settings, tables) if experiment.films else {}
    titles = {}
    for i, (title, film) in enumerate(films.items()):
        path = folder / f"film-{i}.gif"
        with _noting_failure(f"film {title!r}", failures, [path]):
            film(path)
            titles[path.name] = title
    return titles, failures


@contextmanager
def _noting_failure(what: str, failures: dict[str, str], files: Iterable[Path]) -> Iterator[None]:
    """Notes why something could not be drawn, instead of raising, and deletes its unfinished files."""
    try:
        yield
    except OSError:
        raise  # A full disk is no fault of the picture: the tables could not be written either.
    except Exception as error:
        _reraise_for_debugging()
        failures[what] = _reason(error)
        for path in files:
            path.unlink(missing_ok=True)


def _reason(error: Exception) -> str:
    """Returns an error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:500]}" if text else type(error).__name__


def _reraise_for_debugging() -> None:
    """Raises the error that is being handled if WANE_DEBUG is set."""
    if os.environ.get("WANE_DEBUG"):
        raise
