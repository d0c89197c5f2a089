"""A job: an experiment with some of its seeds, or the part of it that needs no seed.

The tables of a job depend on nothing else, so jobs can be divided, lost and repeated. What a job computed is a part of
the run. Its folder keeps it until all parts are there:

part.json           the fingerprint, what the part cost, and the SHA-256 of every file below
tables/NAME.parquet
agents/NAME/…       trained agents, as they save themselves

A part is written and read again even if one process computes the whole run: a kill, a full disk or a picture that fails
afterwards then loses nothing, and a resumed run tests its claims with the same tables as one that never stopped.
"""

import contextlib
import os
import pickle
import platform
import re
import resource
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax

from wane import user_files
from wane.files import DamagedFile, checksum, read_bytes, read_json, write, write_json
from wane.lab.contract import Savable, Settings, Tables
from wane.lab.registry import find
from wane.lab.runs.loop import Report, SavingLoop
from wane.lab.tables import read_table

AgentFiles = dict[str, bytes]
"""The files of one saved agent, by name."""


class Part(NamedTuple):
    """What one job computed."""

    tables: Tables
    agents: dict[str, AgentFiles]
    """Trained agents as files: a job may be computed on another machine, which returns them as bytes."""
    cost: dict[str, Any]
    """Its seconds, device and peak memory."""


@dataclass(frozen=True)
class Job:
    """Some seeds of an experiment, or the part of it that needs no seed (`seeds` is then None)."""

    experiment: str
    settings: Settings
    seeds: tuple[int, ...] | None
    folder: Path
    """The folder of its checkpoints and, when it is done, of its part."""
    fingerprint: str
    save_seconds: float | int = 10.0

    def __reduce__(self) -> tuple[Any, ...]:
        # The settings' class may be defined in a file, which another process must load before it can unpickle them.
        values = tuple(getattr(self, field.name) for field in fields(self))
        path = user_files.path_of(self.experiment)
        return _unpickled, (None if path is None else str(path), pickle.dumps(values))

    def run(self, report: Report | None = None) -> Part:
        """Returns the tables and the kept agents of the job, and what they cost."""
        self.folder.mkdir(parents=True, exist_ok=True)
        forget_peak_memory()
        loop = SavingLoop(self.folder, self.fingerprint, seconds=self.save_seconds, report=report)
        experiment = find(self.experiment)
        if self.seeds is None:
            tables = experiment.fixed_tables(self.settings)
        else:
            tables = experiment.seeded_tables(self.settings, self.seeds, loop)
        cost = {"seconds": loop.elapsed, "device": device(), "peak_memory": peak_memory()}
        return Part(tables, agent_files(loop.kept), cost)


def _unpickled(path: str | None, values: bytes) -> Job:
    if path is not None:
        find(path)
    return Job(*pickle.loads(values))


def run_elsewhere(job: Job) -> Part:
    """Runs a job where this machine's files may not be seen. A job that is repeated there starts from the beginning."""
    with tempfile.TemporaryDirectory() as folder:
        return replace(job, folder=Path(folder), save_seconds=float("inf")).run()


def agent_files(agents: Mapping[str, Savable]) -> dict[str, AgentFiles]:
    """Returns the files that each agent's `save` writes."""
    found: dict[str, AgentFiles] = {}
    for name, agent in agents.items():
        with tempfile.TemporaryDirectory() as folder:
            agent.save(Path(folder) / "agent")
            found[name] = {path.name: path.read_bytes() for path in sorted((Path(folder) / "agent").iterdir())}
    return found


def write_tables(folder: Path, tables: Tables) -> None:
    """Writes NAME.parquet for every table. Raises ValueError for a name that cannot be the name of a file."""
    for name, table in tables.items():
        # PyArrow opens only files whose names are UTF-8, so it gets none to open.
        content = table.to_parquet()
        write(folder / f"{file_name(name)}.parquet", lambda draft, content=content: draft.write_bytes(content))


def write_agents(folder: Path, agents: Mapping[str, AgentFiles]) -> None:
    """Writes a folder for every agent. Raises ValueError for a name that cannot be the name of a file."""
    for name, files in agents.items():
        for file, content in files.items():
            write(folder / file_name(name) / file, lambda draft, content=content: draft.write_bytes(content))


def file_name(name: str) -> str:
    """Returns the name of a table or an agent. Raises ValueError if it cannot be the name of a file."""
    if not re.fullmatch(r"\w[\w.,=-]*", name):
        raise ValueError(f"{name!r} names a file, so it may hold letters, digits, '_', '-', '.', ',' and '=' only")
    return name


def checksums(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of every file below a folder, by its path relative to the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): checksum(path) for path in files}


def save_part(folder: Path, fingerprint: str, part: Part) -> None:
    """Writes a part. part.json is written last, so an interrupted part has none."""
    (folder / "part.json").unlink(missing_ok=True)
    for name in ("tables", "agents"):
        shutil.rmtree(folder / name, ignore_errors=True)
    write_tables(folder / "tables", part.tables)
    write_agents(folder / "agents", part.agents)
    names = {"tables": list(part.tables), "agents": list(part.agents)}
    note = {"fingerprint": fingerprint, "cost": part.cost, **names, "files": _files(folder)}
    write_json(folder / "part.json", note, sealed=True)


def problem_of_part(folder: Path, fingerprint: str) -> str | None:
    """Returns what is wrong with a part: "missing", or what is damaged. Returns None if it can be used."""
    if not (folder / "part.json").is_file():
        return "missing"
    try:
        note = read_json(folder / "part.json")
        if note["fingerprint"] != fingerprint:
            return "missing"
        _check_note(note)
        found, listed = _files(folder), note["files"]
        wrong = [name for name in {**listed, **found} if listed.get(name) != found.get(name)]
    except (DamagedFile, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return f"part.json or a file of it cannot be read ({error})"
    return f"{wrong[0]} was changed" if wrong else None


def _files(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of every file of a part but part.json."""
    return {f"{name}/{path}": sha for name in ("tables", "agents") for path, sha in checksums(folder / name).items()}


def _check_note(note: dict[str, Any]) -> None:
    """Raises ValueError, TypeError or LookupError unless part.json holds all that a part needs."""
    for name in ("seconds", "peak_memory"):
        number = note["cost"][name]
        if not isinstance(number, int | float) or not 0 <= number < 1e300:
            raise ValueError(f"its {name} is {number!r}")
    if not isinstance(note["cost"]["device"], str):
        raise TypeError("the name of its device is not text")
    for table in note["tables"]:
        _ = note["files"][f"tables/{file_name(table)}.parquet"]
    for agent in note["agents"]:
        if not any(file.startswith(f"agents/{file_name(agent)}/") for file in note["files"]):
            raise ValueError(f"its agent {agent!r} has no files")


def load_part(folder: Path) -> Part:
    """Reads a part that `problem_of_part` finds nothing wrong with. Raises DamagedFile if a file holds no table."""
    note = read_json(folder / "part.json")
    try:
        tables = {name: read_table(folder / "tables" / f"{name}.parquet") for name in note["tables"]}
    except DamagedFile as error:
        raise DamagedFile(f"{error}: run again without --resume to start over and replace it") from error
    agents: dict[str, AgentFiles] = {name: {} for name in note["agents"]}
    for path in note["files"]:
        kind, _, rest = path.partition("/")
        name, _, file = rest.partition("/")
        if kind == "agents" and name in agents:
            agents[name][file] = read_bytes(folder / path)
    return Part(tables, agents, note["cost"])


def device() -> str:
    """Returns the name of the device that JAX computes on."""
    chips = jax.devices()
    if chips[0].platform == "cpu":
        return f"{os.cpu_count()} CPU cores ({platform.machine()})"
    return chips[0].device_kind if len(chips) == 1 else f"{len(chips)} × {chips[0].device_kind}"


def forget_peak_memory() -> None:
    """Resets `peak_memory`, where the system allows it (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """Returns the most bytes that this process has held since `forget_peak_memory`, or since it started."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
