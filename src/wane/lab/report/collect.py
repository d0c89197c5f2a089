"""Reads run folders, which lie at ROOT/SCALE/NAME or ROOT/SCALE/NAME+setting=value.

A folder holds run.json (settings, texts, versions, cost, checksums of all files), claims.json, one TABLE.parquet for
each table, a figure, films, and saved agents. All of it is data: nothing in a folder is executed, no module is imported
by a name found there, and no file outside of the folder is opened. `Run.problems` names what is damaged or missing,
and the rest of the run is still used.
"""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wane.files import READY
from wane.lab.registry import names
from wane.lab.report.checks import AGENT_FILES, find_inside, read_claims, read_record, verify_files
from wane.lab.report.pictures import Picture, PictureError, TooLarge, read_figure, read_raster, require_room
from wane.lab.report.started import Started, read_started
from wane.lab.report.words import command, evaluate_command
from wane.texts import message

SCALES = ("paper", "quick")
"""The scales, in the order of the report."""
MOST_PROBLEMS = 100
"""The most problems of one run that are told."""
LOOKS = 20
"""How often, at most, a folder that changes during reading is read again."""


@dataclass(frozen=True)
class Texts:
    """The texts about an experiment in a run folder."""

    title: str
    source: str = ""
    """The figure, table or section of the paper, or "beyond the paper"."""
    summary: str = ""
    """What the paper states, or the question that is asked."""
    differences: str = ""
    """Where the experiment differs from the paper, and why."""
    paper_cost: str = ""
    """The cost of the experiment, according to the paper."""


@dataclass(frozen=True)
class Run:
    """One run folder, as far as it can be read."""

    folder: Path
    experiment: str
    scale: str
    record: Mapping[str, Any]
    """The content of run.json, without the fields that have a wrong type."""
    claims: tuple[Mapping[str, Any], ...] = ()
    figure: Picture | None = None
    raster: Path | None = None
    """The file figure.png, if it is the one that the run wrote."""
    films: tuple[Picture, ...] = ()
    agents: tuple[str, ...] = ()
    """The names of the saved agents whose files are whole."""
    problems: tuple[str, ...] = ()
    """Sentences that say what is damaged or missing."""
    left_out: tuple[str, ...] = ()
    """Sentences about pictures that are too large to be shown."""
    started: Started | None = None
    """How far the run is, if it has begun and not finished, even if the folder holds earlier results."""

    @property
    def failures(self) -> Mapping[str, str]:
        """The pictures that could not be drawn (the figure or films), with the reasons."""
        return self.record.get("failures", {})

    @property
    def changed(self) -> Mapping[str, Any]:
        """The settings that are not those of the scale, by dotted names."""
        return self.record.get("changed", {})

    @property
    def is_standard(self) -> bool:
        """Whether the run is whole and has the settings of its scale."""
        return not self.changed and not self.problems

    @property
    def texts(self) -> Texts | None:
        """The texts about the experiment, or None if run.json has no title."""
        known = {field.name for field in dataclasses.fields(Texts)}
        found = {name: text for name, text in self.record.get("texts", {}).items() if name in known}
        return Texts(**found) if found.get("title") else None

    @property
    def source(self) -> str:
        """What `wane run` takes for this experiment: its name, or the path of its file."""
        return self.record.get("file") or (self.started.experiment if self.started else self.experiment)

    @property
    def command(self) -> str:
        """The command that repeats the run."""
        return command(self.source, self.scale, self.changed)

    @property
    def evaluate_commands(self) -> dict[str, str]:
        """The command that plays each of the saved agents, by the agent's name."""
        return {name: evaluate_command(self.folder, name) for name in self.agents}


def collect(*roots: str | Path) -> list[Run]:
    """Returns the runs below some folders, or in them, in the order of the report. A root may be missing.

    Of several whole runs with the same experiment, scale and settings, the one below the first root is returned.
    Damaged runs are all returned, so that the report can name them.
    """
    runs: dict[Any, Run] = {}
    known = names()
    for root in map(Path, roots):
        for folder in _folders(root):
            link = next((path for path in (folder, folder.parent) if folder != root and path.is_symlink()), None)
            run = (
                read(folder) if link is None else _unread(folder, f"{link} is a symbolic link, which is not followed.")
            )
            runs.setdefault(_identity(run), run)
    return sorted(runs.values(), key=lambda run: _place(run, known))


def _folders(root: Path) -> list[Path]:
    if any((root / name).is_file() for name in ("run.json", f"{READY}/run.json")):
        return [root]
    places = [root / scale for scale in SCALES]
    found = [folder for place in places if place.is_dir() for folder in sorted(place.iterdir())]
    return [folder for folder in found if folder.is_dir() and not folder.name.startswith(".")]


def _identity(run: Run) -> Any:
    if run.problems:
        return run.folder.resolve()
    return run.experiment, run.scale, json.dumps(run.changed, sort_keys=True)


def _place(run: Run, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Returns a sort key: registered experiments come first, paper before quick, changed and damaged runs last."""
    place = names.index(run.experiment) if run.experiment in names else len(names)
    changed = json.dumps(run.changed, sort_keys=True) if run.changed else ""
    return place, run.experiment, SCALES.index(run.scale), changed, bool(run.problems)


def read(folder: Path) -> Run:
    """Reads one run folder. Raises ValueError if the folder above it is not named after a scale.

    A run may be publishing at the same time. It moves its files one by one, so a folder in which a fault is
    found is read again if anything was moved in the meantime.
    """
    if folder.absolute().parent.name not in SCALES:
        raise ValueError(
            f"{folder} is not a run folder: a run folder lies in a folder that is named {' or '.join(SCALES)}"
        )
    before, run = _moment(folder), _read_once(folder)
    for _ in range(LOOKS):
        after = _moment(folder)
        if not run.problems or after == before:
            break
        before, run = after, _read_once(folder)
    return run


def _moment(folder: Path) -> list[tuple[int, int] | None]:
    """Returns values that change when a run puts new results into its folder."""
    found: list[tuple[int, int] | None] = []
    for name in ("run.json", READY, f"{READY}/run.json"):
        try:
            status = os.lstat(folder / name)
            found.append((status.st_ino, status.st_mtime_ns))
        except OSError:
            found.append(None)
    return found


def _unread(folder: Path, problem: str) -> Run:
    """Returns a run of which only the folder's name is known."""
    place = folder.absolute()
    return Run(folder, place.name.split("+")[0], place.parent.name, {}, problems=_told([problem]))


def _read_once(folder: Path) -> Run:
    place = folder.absolute()
    name, scale = place.name.split("+")[0], place.parent.name
    path, started = find_inside(folder, "run.json"), read_started(folder)
    if path is not None and not path.is_file():
        resume = f"{command(name, scale, {})} --resume"
        settings = " and the settings that the folder's name shows" if "+" in place.name else ""
        if started:
            resume, settings = started.resume, ""
        problem = f"There is no run.json: the run is still working or was stopped. Continue it with {resume}{settings}."
        return dataclasses.replace(_unread(folder, problem), started=started)
    problems, left_out = list[str](), list[str]()
    record = read_record(folder, problems)
    files = verify_files(folder, record, problems)
    claims = read_claims(files["claims.json"], problems) if "claims.json" in files else ()
    figure, films = _pictures(files, record, problems, left_out)
    return Run(
        folder,
        record.get("experiment", name),
        scale,
        record,
        claims=claims,
        figure=figure,
        raster=files.get("figure.png"),
        films=films,
        agents=tuple(
            agent
            for agent in record.get("agents", ())
            if all(f"agents/{agent}/{file}" in files for file in AGENT_FILES)
        ),
        problems=_told(problems),
        left_out=_told(left_out),
        started=started,
    )


def _told(problems: Sequence[str]) -> tuple[str, ...]:
    """Returns the first problems, each in a line of its own, and how many more there are."""
    more = len(problems) - MOST_PROBLEMS
    return (*map(message, problems[:MOST_PROBLEMS]), *([f"There are {more:,} more of these."] if more > 0 else []))


def _pictures(
    files: Mapping[str, Path], record: Mapping[str, Any], problems: list[str], left_out: list[str]
) -> tuple[Picture | None, tuple[Picture, ...]]:
    """Returns the figure and the films. The others are named in `problems`, or in `left_out` if they are too large."""
    shown: dict[str, Picture] = {}
    wanted = {name: title for name, title in record.get("films", {}).items() if name in files}
    has_figure = "files" in record and "figure" not in record.get("failures", {})
    for name in [*(["figure"] if has_figure else []), *wanted]:
        try:
            if name == "figure":
                picture = read_figure(files.get("figure.svg"), files.get("figure.png"))
            else:
                picture = read_raster(files[name], "GIF", wanted[name])
            require_room([*shown.values(), picture], name)
            shown[name] = picture
        except PictureError as error:
            (left_out if isinstance(error, TooLarge) else problems).append(str(error))
    return shown.get("figure"), tuple(shown[name] for name in wanted if name in shown)
