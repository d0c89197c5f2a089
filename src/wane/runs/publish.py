"""Publishes a run: joins its parts, tests the claims, draws, and writes all of it into the run's folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from rich.console import Console

from wane.experiments.contract import Experiment, Settings, Tables, join
from wane.files import write_json
from wane.runs import record
from wane.runs.launchers import Task
from wane.runs.options import Launcher
from wane.runs.parts import AgentFiles, Part, checksums, load_part, write_agents, write_tables
from wane.runs.run import Run

MOST_AGENT_BYTES = 20_000_000
"""Agents that are larger than this together stay in the checkpoint: a run's folder is to be passed on."""


def publish(run: Run, tasks: Sequence[Task], launcher: Launcher, console: Console) -> None:
    """Replaces the results in a run's folder by those of its parts, and prints how many claims hold."""
    parts = {task: load_part(task.folder) for task in tasks}
    experiment, seeded = run.experiment, [part for task, part in parts.items() if task.seeds is not None]
    fixed = [part.tables for task, part in parts.items() if task.seeds is None]
    tables = join(fixed[0] if fixed else {}, [part.tables for part in seeded])
    claims = experiment.findings(run.settings, tables)
    agents = _agents(run, list(parts.values()), console)
    about = {"experiment": run.name, "scale": run.scale, "settings": record.plain(run.settings)}
    about |= {"changed": {name: record.plain(value) for name, value in run.changed.items()}}
    about |= record.about(experiment) | {"fingerprint": run.fingerprint} | _cost(list(parts.values()))
    about |= {"launcher": launcher.launcher, "parts": max(1, len(seeded))}

    def fill(folder: Path) -> None:
        write_tables(folder, tables)
        write_json(folder / "claims.json", claims)
        films = write_pictures(experiment, run.settings, tables, folder)
        write_agents(folder / "agents", agents)
        lists = {"films": films, "tables": list(tables), "agents": list(agents), "files": checksums(folder)}
        write_json(folder / "run.json", about | lists)

    run.folder.publish(fill)
    verdicts = [claim["verdict"] for claim in claims]
    console.print(f"{run.name}: {verdicts.count('holds')} of {len(verdicts)} claims hold, {about['seconds']:.1f} s")


def _cost(parts: Sequence[Part]) -> dict[str, Any]:
    costs = [part.cost for part in parts]
    return {
        "seconds": sum(cost["seconds"] for cost in costs),
        "device": ", ".join(sorted({cost["device"] for cost in costs})),
        "peak_memory": max(cost["peak_memory"] for cost in costs),
    }


def _agents(run: Run, parts: Sequence[Part], console: Console) -> dict[str, AgentFiles]:
    """The agents of all parts, or none if they are too large together. The console tells what is left out."""
    agents: dict[str, AgentFiles] = {}
    for part in parts:
        for name in sorted(set(part.agents) & set(agents)):
            console.print(f"{run.name}: several parts kept an agent {name!r}; only that of the lowest seeds is kept")
        agents = agents | {name: files for name, files in part.agents.items() if name not in agents}
    size = sum(len(content) for files in agents.values() for content in files.values())
    if size <= MOST_AGENT_BYTES:
        return agents
    console.print(
        f"{run.name}: the agents are {size / 1e6:.0f} MB together, more than {MOST_AGENT_BYTES / 1e6:.0f}, so they "
        f"stay in {run.folder.checkpoint}/*/agents, which the next run without --resume replaces",
        soft_wrap=True,
    )
    return {}


def write_pictures(experiment: Experiment, settings: Settings, tables: Tables, folder: Path) -> Mapping[str, str]:
    """Writes the figure as PNG and SVG, and the films. Returns the films' titles by file."""
    # A fixed salt: the same figure is the same file.
    with matplotlib.rc_context({"svg.hashsalt": "wane", "svg.fonttype": "path"}):
        figure = experiment.draw(settings, tables)
        figure.savefig(folder / "figure.png", dpi=150)
        figure.savefig(folder / "figure.svg", metadata={"Date": None})
    films = experiment.films(settings, tables) if experiment.films else {}
    titles = {}
    for i, (title, film) in enumerate(films.items()):
        film(folder / f"film-{i}.gif")
        titles[f"film-{i}.gif"] = title
    return titles
