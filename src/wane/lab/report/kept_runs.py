"""Reads run folders, ROOT/SCALE/NAME or ROOT/SCALE/NAME+setting=value, and finds them by the names that users give.

A folder holds run.json (settings, texts, versions, cost, checksums of all files), claims.json, one TABLE.parquet for
each table, a figure, films, and saved agents. All of it is data: nothing in a folder is executed, no module is imported
by a name found there, and no file outside of the folder is opened. `KeptRun.problems` names what is damaged or missing,
and the rest of the run is still used.
"""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wane import user_files
from wane.files import READY
from wane.lab import scales
from wane.lab.registry import names
from wane.lab.report.contents import (
    AGENT_FILES,
    Started,
    find_inside,
    read_claims,
    read_record,
    read_started,
    verify_files,
)
from wane.lab.report.pictures import Picture, PictureError, TooLarge, read_figure, read_raster, require_room
from wane.lab.report.words import command, evaluate_command
from wane.names import unknown
from wane.texts import message

SCALES = tuple(reversed(scales.SCALES))
"""The scales, in the order of the report: paper, quick."""
MOST_PROBLEMS = 100
"""The most problems of one run that are named."""
MOST_READS = 20
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
class KeptRun:
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


def collect(*roots: str | Path) -> list[KeptRun]:
    """Returns the runs below some folders, or in them, in the order of the report. A root may be missing.

    Of several whole runs with the same experiment, scale and settings, the one below the first root is returned.
    Damaged runs are all returned, so that the report can name them.
    """
    runs: dict[Any, KeptRun] = {}
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


def _identity(run: KeptRun) -> Any:
    if run.problems:
        return run.folder.resolve()
    return run.experiment, run.scale, json.dumps(run.changed, sort_keys=True)


def _place(run: KeptRun, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Returns a sort key: registered experiments come first, paper before quick, changed and damaged runs last."""
    place = names.index(run.experiment) if run.experiment in names else len(names)
    changed = json.dumps(run.changed, sort_keys=True) if run.changed else ""
    return place, run.experiment, SCALES.index(run.scale), changed, bool(run.problems)


def read(folder: Path) -> KeptRun:
    """Reads one run folder. Raises ValueError if the folder above it is not named after a scale.

    A run may be publishing at the same time. It moves its files one by one, so a folder in which a fault is
    found is read again if anything was moved in the meantime.
    """
    if folder.absolute().parent.name not in SCALES:
        raise ValueError(
            f"{folder} is not a run folder: a run folder lies in a folder that is named {' or '.join(SCALES)}"
        )
    before, run = _moment(folder), _read_once(folder)
    for _ in range(MOST_READS):
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


def _unread(folder: Path, problem: str) -> KeptRun:
    """Returns a run of which only the folder's name is known."""
    place = folder.absolute()
    return KeptRun(folder, place.name.split("+")[0], place.parent.name, {}, problems=_shortened([problem]))


def _read_once(folder: Path) -> KeptRun:
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
    return KeptRun(
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
        problems=_shortened(problems),
        left_out=_shortened(left_out),
        started=started,
    )


def _shortened(problems: Sequence[str]) -> tuple[str, ...]:
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


def runs_called(name: str, roots: Sequence[Path]) -> list[KeptRun]:
    """Returns the runs of an experiment, or the run of this name or in this folder.

    The name of a run is that of its folder, "q-lambda+seeds=8", optionally after its scale, "quick/". The list is empty
    for an experiment that was not run. Raises UnknownName if there is neither an experiment nor a run of this name.
    """
    if is_run_folder(name):
        return [read(Path(name))]
    runs = collect(*roots)
    short = Path(name).name if user_files.is_file_name(name) else name
    found = [run for run in runs if _is_of(run, name)]
    if "+" in name or "/" in short or not found:
        found = [run for run in runs if short in (run.folder.name, f"{run.scale}/{run.folder.name}")]
    # The experiments that users wrote themselves are not known here, so such a name may exist.
    if not found and name not in names() and "." not in name:
        raise unknown("experiment or run", name, dict.fromkeys([*names(), *(run.folder.name for run in runs)]))
    return found


def standard_run(name: str, scale: str | None, runs: Sequence[KeptRun]) -> KeptRun | None:
    """Returns the run that a name stands for among the runs of that name, or None if there is none.

    The name of an experiment stands for the run with the settings of a scale, any other name for one run. Without a
    scale, a quick run is preferred to one at the paper's scale.
    """
    is_experiment = not is_run_folder(name) and any(_is_of(run, name) for run in runs)
    if is_experiment:
        runs = [run for run in runs if run.is_standard and scale in (None, run.scale)]
        runs = sorted(runs, key=lambda run: run.scale != "quick")
    return next((run for run in runs if run.record), None)


def one_run(name: str, scale: str, roots: Sequence[Path]) -> KeptRun:
    """Returns the whole run that a name stands for. An experiment that ran at one scale only stands for that run.

    Raises ValueError if there is no such run, if it is damaged or not finished, or if several could be meant.
    """
    runs = runs_called(name, roots)
    found = [run for each in (scale, *SCALES) if (run := standard_run(name, each, runs))]
    if not found and len(runs) > 1:
        names = ", ".join(f"{run.scale}/{run.folder.name}" for run in runs)
        raise ValueError(f"{name} was not run with the settings of a scale; name one of its runs: {names}")
    if not found and not runs:
        raise ValueError(f"{name} was not run yet: {command(name, scale, {})}")
    run = found[0] if found else runs[0]
    if run.problems:
        raise ValueError(f"{run.folder} cannot be compared. {run.problems[0]}")
    return run


def _is_of(run: KeptRun, name: str) -> bool:
    """Returns whether a run is one of an experiment, which is called by its name or by its file."""
    file = Path(name).name if user_files.is_file_name(name) else None
    return run.experiment in (name, file) or (file is not None and Path(run.source).name == file)


def is_run_folder(name: str) -> bool:
    """Returns whether a name is the path of a run's folder."""
    return os.path.isdir(name) and Path(name).absolute().parent.name in SCALES
