"""Publishes a run: joins its parts, tests the claims, draws the pictures, and writes all results into its folder.

The tables may have taken days to compute, so they are published even if a test or a picture fails. A claim whose test
raises an error is "not tested", with the reason. A figure or a film that cannot be drawn is left out, and run.json says
why under `failures`. With the environment variable WANE_DEBUG such an error ends the run with its traceback instead.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from rich.console import Console

from wane.files import write_json
from wane.lab.contract import Claim, Experiment, Settings, Tables, join
from wane.lab.runs import record
from wane.lab.runs.launchers import Task
from wane.lab.runs.options import Launcher
from wane.lab.runs.parts import AgentFiles, Part, checksums, load_part, write_agents, write_tables
from wane.lab.runs.run import Run
from wane.lab.runs.started import source_file

MOST_AGENT_BYTES = 20_000_000
"""Agents that are larger than this together stay in the checkpoint, so that a run's folder can be passed on."""


def publish(run: Run, tasks: Sequence[Task], launcher: Launcher, console: Console) -> None:
    """Replaces the results in a run's folder with those of its parts, and prints how many claims hold."""
    parts = {task: load_part(task.folder) for task in tasks}
    experiment, seeded = run.experiment, [part for task, part in parts.items() if task.seeds is not None]
    fixed = [part.tables for task, part in parts.items() if task.seeds is None]
    tables = join(fixed[0] if fixed else {}, [part.tables for part in seeded])
    claims = [_judge(claim, run.settings, tables) for claim in experiment.claims]
    agents = _agents(run, list(parts.values()), console)
    about = {"experiment": run.filed, "scale": run.scale, "settings": record.plain(run.settings)}
    about |= {"changed": {name: record.plain(value) for name, value in run.changed.items()}}
    about |= record.about(experiment) | {"fingerprint": run.fingerprint} | _cost(list(parts.values()))
    about |= {"launcher": launcher.launcher, "parts": max(1, len(seeded)), "file": source_file(run)}

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
    with _noting("figure", failures, [png, svg]), style:
        figure = experiment.figure(settings, tables)
        figure.savefig(png, dpi=150)
        figure.savefig(svg, metadata={"Date": None})
    films: Mapping[str, Callable[[Path], Any]] = {}
    with _noting("films", failures, ()):
        films = experiment.films(settings, tables) if experiment.films else {}
    titles = {}
    for i, (title, film) in enumerate(films.items()):
        path = folder / f"film-{i}.gif"
        with _noting(f"film {title!r}", failures, [path]):
            film(path)
            titles[path.name] = title
    return titles, failures


@contextmanager
def _noting(what: str, failures: dict[str, str], files: Iterable[Path]) -> Iterator[None]:
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
