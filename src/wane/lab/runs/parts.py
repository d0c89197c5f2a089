"""A part of a run: the tables and the agents of one task, and the folder that keeps them until all parts are there.

part.json           the fingerprint, what the part cost, and the SHA-256 of every file below
tables/NAME.parquet
agents/NAME/…       trained agents, as they save themselves
"""

import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wane.files import DamagedFile, checksum, read_bytes, read_json, write, write_json
from wane.lab.contract import Savable, Tables
from wane.lab.tables import read_table

AgentFiles = dict[str, bytes]
"""The files of one saved agent, by name."""


class Part(NamedTuple):
    """What one task computed."""

    tables: Tables
    agents: dict[str, AgentFiles]
    """Trained agents as files: a task may be computed on another machine, which returns them as bytes."""
    cost: dict[str, Any]
    """Its seconds, device and peak memory."""


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
