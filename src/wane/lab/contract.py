"""What an experiment is: settings, named tables that are computed from them, a picture of the tables, and claims.

One file holds one experiment. It says what the paper states, in our words; each claim is a function of the tables that
finds the claim to hold, to fail or to be undecided, with an estimate and an interval. Nothing here knows about files:
`wane.lab.runs` saves, resumes and distributes.

An experiment computes two kinds of tables. `fixed(settings)` computes what depends on no seed, once for the whole run.
`seeded(settings, seeds, loop)` computes what depends on seeds, for the seeds that it is given: its tables have a column
`seed`, and their rows do not depend on which other seeds are computed in the same call.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, get_args, runtime_checkable

from wane.extras import require

require("experiments", "wane.lab")

import jax
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from wane.files import name_leaves, nest
from wane.lab.scales import SCALES, Scale
from wane.settings import Checked, Count, check_setting, is_nested
from wane.types import Scalar, Tree

Tables = dict[str, pd.DataFrame]
"""Tables by name."""
Kind = Literal["paper", "ours", "identity"]
"""Where a claim comes from: the paper states it; we ask it beyond the paper; or it is mathematics that only a bug in
the program could refute."""
Step = Callable[[Any, int], tuple[Any, Any]]
"""Computes chunk i from a state: (state, i) → (next state, what the chunk yields)."""


@dataclass(frozen=True)
class Settings(Checked):
    """The settings of an experiment. A subclass adds fields, each with a docstring.

    The fields are the options of the command line. A field may be an agent's `Config`: its settings are then options
    too, such as `--agent.step-size`, and the experiment does not repeat them. The type of a field says which values it
    takes (`wane.settings`), and `rules` checks conditions that involve several fields.
    """

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = {}
    """Nested settings that the experiment chooses itself, and the setting that controls them instead:
    {"agent.lam": "lambdas"}."""

    def rules(self) -> None:
        """Raises SettingError if settings do not fit each other. A subclass that has further rules calls this too."""
        for name, instead in self.SET_BY_EXPERIMENT.items():
            parts, _, field = name.rpartition(".")
            config = attrgetter(parts)(self)
            same = _same(getattr(config, field), getattr(type(config)(), field))
            self.require(same, name, f"the experiment sets this itself; change {instead} instead")

    def require(self, fine: bool, name: str, needed: str) -> None:
        """Raises SettingError, which names the setting and says what is needed, unless `fine` is true."""
        check_setting(fine, self, name, needed)


@dataclass(frozen=True)
class Seeded(Settings):
    """Settings of an experiment in which something is drawn at random."""

    seeds: Count = 3
    """independent repetitions, numbered from 0"""


def flat(settings: Any, prefix: str = "") -> dict[str, Any]:
    """Returns settings by name, with a dot for those of nested dataclasses: {"seeds": 3, "agent.step_size": 0.1}.

    A depletion counts as one value, not as a group of settings, even if it is a dataclass.
    """
    found: dict[str, Any] = {}
    for field in dataclasses.fields(settings):
        value, name = getattr(settings, field.name), prefix + field.name
        found |= flat(value, f"{name}.") if is_nested(value) else {name: value}
    return found


def changed(settings: Settings, preset: Settings) -> dict[str, Any]:
    """Returns the settings that differ from a preset, under the same names as in `flat`."""
    presets = flat(preset)
    return {name: value for name, value in flat(settings).items() if not _same(value, presets.get(name))}


def _same(value: Any, other: Any) -> bool:
    return bool(np.array_equal(value, other)) if isinstance(value, np.ndarray) else value == other


class NotTested(Exception):
    """Raised when the settings produced no data for the claim. The message says what is missing."""


class Finding(NamedTuple):
    """The result of testing a claim. `wane.lab.judging` derives it from an estimate and its interval."""

    holds: bool | None
    """Whether the claim holds or fails; None if the data leave it undecided."""
    estimate: float
    interval: tuple[float, float] | None = None
    """The 95 % interval of the estimate; None if nothing is random."""
    detail: str = ""


@dataclass(frozen=True)
class Claim:
    """A statement, the test that finds whether it holds or fails, and where the statement comes from."""

    name: str
    statement: str
    test: Callable[[Any, Tables], Finding]
    """Takes the settings and the tables. Raises NotTested if the settings produced no data for the claim."""
    kind: Kind = "ours"
    place: str = ""
    """Where the paper states the claim: "section 5.3". It is empty for claims that are not the paper's."""
    account: str = ""
    """One paragraph for readers who want to check a failure: what the paper says, what we did in the same way, what we
    found, and what changes the result. It describes the kept run, and reports show it where the claim fails."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"claim {self.name!r}: kind is one of {', '.join(get_args(Kind))}, got {self.kind!r}")
        if (self.kind == "paper") != bool(self.place):
            raise ValueError(f"claim {self.name!r}: a claim of the paper has a place in it, and no other claim has one")

    def record(self, settings: Any = None, tables: Tables | None = None) -> dict[str, Any]:
        """Returns the claim as a dictionary, with the verdict that the tables give, or "not run" without tables."""
        known = {"name": self.name, "statement": self.statement, "kind": self.kind, "place": self.place}
        known |= {"account": self.account} if self.account else {}
        not_run = {"verdict": "not run", "estimate": None, "interval": None, "detail": ""}
        if tables is None:
            return known | not_run
        try:
            finding = self.test(settings, tables)
        except NotTested as reason:
            return known | not_run | {"verdict": "not tested", "detail": str(reason)}
        estimate = {"estimate": float(finding.estimate), "detail": finding.detail}
        if np.isnan(estimate["estimate"]):
            detail = f"The estimate is not a number, because the settings leave nothing to divide by. {finding.detail}"
            return known | not_run | {"verdict": "not tested", "detail": detail.strip()}
        if finding.interval is not None and not np.all(np.isfinite(finding.interval)):
            detail = f"One run has no interval. {finding.detail}"
            return known | not_run | estimate | {"verdict": "not tested", "detail": detail}
        interval = None if finding.interval is None else [float(end) for end in finding.interval]
        verdict = "undecided" if finding.holds is None else "holds" if finding.holds else "fails"
        return known | estimate | {"verdict": verdict, "interval": interval}


@runtime_checkable
class HostState(Protocol):
    """Data that a host loop keeps outside of its state, such as a replay memory, and that are saved less often."""

    def get(self) -> Tree:
        """Returns all of these data as a tree of arrays."""
        ...

    def set(self, tree: Tree) -> None:
        """Restores the data that `get` returned. The tree consists of nested dictionaries of NumPy arrays."""
        ...


@runtime_checkable
class Savable(Protocol):
    """A trained agent that a run can save, such as `wane.agents.Trained`."""

    def save(self, folder: Path) -> Path:
        """Writes the agent's files into a folder, which is made if it does not exist. Returns the folder."""
        ...


class Loop:
    """Runs a long computation in chunks. A runner's loop also reports progress, saves and resumes.

    `step(state, i)` returns the next state and what chunk i yields, both trees of arrays. It may be a jitted program or
    a function that drives a simulator on the host. It makes its random keys from the seed and i, so that the state
    holds plain numbers. The loop returns the outputs of all chunks stacked, as nested dictionaries by name.
    """

    def __init__(self) -> None:
        self.kept: dict[str, Savable] = {}

    def __call__(
        self,
        name: str,
        step: Step,
        state: Any,
        chunks: int,
        work: Scalar = 1,
        unit: str = "steps",
        host: HostState | None = None,
    ) -> tuple[Any, Any]:
        """Returns the last state and the stacked outputs of the chunks. A chunk counts as `work` units of progress."""
        outputs = []
        for i in range(chunks):
            state, output = step(state, i)
            outputs.append(output)
        return state, stack(outputs)

    def keep(self, name: str, agent: Savable) -> None:
        """Keeps a trained agent together with the tables, so that it can be loaded and played later.

        Seeds may be divided among several processes, so the name of one seed's agent should contain the seed:
        `if 0 in seeds: loop.keep("lambda-0.5-seed-0", …)`. Raises ValueError if the name is taken.
        """
        if name in self.kept:
            raise ValueError(f"two agents of one experiment are called {name!r}: give each a name of its own")
        self.kept[name] = agent


def stack(outputs: Sequence[Tree]) -> Any:
    """Returns the outputs of several chunks as nested dictionaries of arrays, with chunks along a new first axis."""
    return nest(stack_named([name_leaves(output) for output in outputs]))


def stack_named(named: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Stacks the arrays of each name along a new first axis. Returns an empty dictionary if there are no chunks."""
    return {name: np.stack([leaves[name] for leaves in named]) for name in (named[0] if named else ())}


def seed_keys(seeds: Iterable[int]) -> jax.Array:
    """Returns a random key for every seed. A seed's key does not depend on the other seeds."""
    return jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(0), seed))(np.asarray(list(seeds), np.uint32))


@dataclass(frozen=True)
class Experiment:
    """A figure or a table of the paper, or a question beyond it."""

    name: str
    title: str
    source: str
    """The figure, table or section of the paper, or "beyond the paper"."""
    summary: str
    """One paragraph: what the paper states, in our words, or the question that is asked."""
    quick: Settings
    paper: Settings
    draw: Callable[[Any, Tables], Figure | Axes]
    """Returns the figure, or axes in it, as `plot_learning` does."""
    claims: tuple[Claim, ...]
    fixed: Callable[[Any], Tables] | None = None
    """Computes the tables that depend on no seed."""
    seeded: Callable[[Any, Sequence[int], Loop], Tables] | None = None
    """Computes the tables of some seeds; each has a column `seed`."""
    films: Callable[[Any, Tables], Mapping[str, Callable[[Path], Any]]] | None = None
    """Returns titles of GIFs and, for each title, a function that writes the GIF to a path."""
    differences: str = ""
    """Where we differ from the paper, and why."""
    paper_cost: str = ""
    """The cost of the experiment according to the paper."""
    double_precision: bool = True
    """Whether JAX computes in 64 bits."""

    def __post_init__(self) -> None:
        if not (self.fixed or self.seeded):
            raise ValueError(f"experiment {self.name!r} computes nothing: give it fixed, seeded or both")
        if self.seeded and not (isinstance(self.quick, Seeded) and isinstance(self.paper, Seeded)):
            raise ValueError(f"experiment {self.name!r} is seeded: its settings must be a subclass of Seeded")

    def settings(self, scale: Scale) -> Settings:
        """Returns the preset of a scale. Raises ValueError for any other name."""
        if scale not in SCALES:
            raise ValueError(f'scale is "quick" or "paper", got {scale!r}')
        return self.quick if scale == "quick" else self.paper

    def seeds(self, settings: Settings) -> range:
        """Returns the seeds of a whole run. There are none if nothing is random."""
        return range(settings.seeds if isinstance(settings, Seeded) and self.seeded else 0)

    def fixed_tables(self, settings: Settings) -> Tables:
        """Computes the tables that depend on no seed. Raises ValueError if one of them has a column `seed`."""
        with jax.enable_x64(self.double_precision):
            tables = self.fixed(settings) if self.fixed else {}
        for name, table in tables.items():
            if "seed" in table:
                raise ValueError(f"{self.name}: the fixed table {name!r} has a column seed, but no seeds: remove it")
        return {name: table.reset_index(drop=True) for name, table in tables.items()}

    def seeded_tables(self, settings: Settings, seeds: Sequence[int], loop: Loop | None = None) -> Tables:
        """Computes the tables of some seeds.

        Dividing the seeds differently among calls changes the rows by rounding only (about 1e-16, relative): XLA may
        add numbers in another order when it works on another number of seeds. Raises ValueError if a table lacks the
        column `seed` or has other seeds in it.
        """
        if not self.seeded or not len(seeds):
            return {}
        with jax.enable_x64(self.double_precision):
            tables = self.seeded(settings, seeds, loop or Loop())
        for name, table in tables.items():
            if "seed" not in table or not set(table["seed"]) <= set(seeds):
                raise ValueError(
                    f"{self.name}: the seeded table {name!r} needs a column seed with the given seeds only"
                )
        return {name: table.reset_index(drop=True) for name, table in tables.items()}

    def tables(self, settings: Settings, loop: Loop | None = None) -> Tables:
        """Computes all tables of a whole run in this process."""
        return join(self.fixed_tables(settings), [self.seeded_tables(settings, self.seeds(settings), loop)])

    def figure(self, settings: Settings, tables: Tables) -> Figure:
        """Draws the figure. Raises TypeError if `draw` returns neither a figure nor axes."""
        drawn = self.draw(settings, tables)
        figure = drawn.figure if isinstance(drawn, Axes) else drawn
        figure = figure.figure if isinstance(figure, SubFigure) else figure
        if not isinstance(figure, Figure):
            raise TypeError(f"draw returned a {type(drawn).__name__}: let it return a Figure or Axes of Matplotlib")
        return figure

    def findings(self, settings: Settings | None = None, tables: Tables | None = None) -> list[dict[str, Any]]:
        """Returns every claim with its verdict, which is "not run" without tables."""
        return [claim.record(settings, tables) for claim in self.claims]


def join(fixed: Tables, parts: Sequence[Tables]) -> Tables:
    """Joins the parts of each seeded table by seed, and adds the fixed tables. Raises ValueError if names clash."""
    names: Iterator[str] = (name for part in parts for name in part)
    joined = {name: _by_seed([part[name] for part in parts if name in part]) for name in dict.fromkeys(names)}
    both = sorted(set(fixed) & set(joined))
    if both:
        raise ValueError(f"the table {both[0]!r} is both fixed and seeded: name them differently")
    return fixed | joined


def _by_seed(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    table = pd.concat(parts, ignore_index=True)
    return table.iloc[np.argsort(np.asarray(table["seed"]), kind="stable")].reset_index(drop=True)
