"""The FLOPs that a single critic saves: FLOPs of an update of every kind of agent, counted by the compiler.

| table | kind | a row for each | columns |
| --- | --- | --- | --- |
| `flops` | fixed | task, width, agent | flops: of one update; share: relative to SAC with two critics |

The experiment `sac`, which trains the agents, draws the return against FLOPs.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import pandas as pd
from matplotlib.figure import Figure

from wane.agents.sac import Config
from wane.lab import Claim, Experiment, Finding, Settings, Tables, plots
from wane.lab.tables import select
from wane.settings import DISTINCT, Range
from wane.worlds.control import ControlTask
from wane_paper.networks.sac import APPENDIX
from wane_paper.networks.sac_learning import ADAPTIVE, KINDS, ONE, TWO, count_flops
from wane_paper.texts import texts

AGENTS = (TWO, ONE, ADAPTIVE)
SIGNIFICANT = 0.2
"""The smallest share of FLOPs that we call a significant saving."""


@dataclass(frozen=True)
class Flops(Settings):
    """Settings of sac-flops."""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = {
        "agent.hidden": "widths",
        **dict.fromkeys(KINDS, "nothing (all kinds of agents are counted)"),
    }
    tasks: Annotated[tuple[str, ...], DISTINCT] = ("HalfCheetah-v5", "Hopper-v5")
    """ids of Gymnasium, or wane/PointMass-v0"""
    widths: Annotated[tuple[Annotated[int, Range(1, 10_000)], ...], DISTINCT] = (64, 256, 1024)
    """units of each of the two hidden layers; the paper has 256"""
    agent: Config = field(default_factory=Config)
    """all agents"""


def fixed(settings: Flops) -> Tables:
    """Returns the table `flops`."""
    rows = []
    for name in settings.tasks:
        for width in settings.widths:
            config = dataclasses.replace(settings.agent, hidden=(width, width))
            counted = count_flops(ControlTask(name), config, AGENTS)
            rows += [
                {"task": name, "width": width, "agent": agent, "flops": flops, "share": flops / counted[TWO]}
                for agent, flops in counted.items()
            ]
    return {"flops": pd.DataFrame(rows)}


def draw(settings: Flops, tables: Tables) -> Figure:
    """Draws FLOPs as shares of SAC's with two critics, for each task and width."""
    figure = plots.figure(4.5 * len(settings.tasks), 3.6)
    for ax, name in zip(figure.subplots(1, len(settings.tasks), squeeze=False)[0], settings.tasks, strict=True):
        for agent, shade in zip(AGENTS, (plots.INK, plots.GREY, "#56B4E9"), strict=True):
            rows = select(tables["flops"], task=name, agent=agent)
            ax.plot(rows["width"], rows["share"], "o-", color=shade, label=agent)
        ax.set_xscale("log")
        ax.set_ylim(0, 1.1)
        ax.legend(frameon=False)
        ax.set_xticks(settings.widths, map(str, settings.widths))
        ax.minorticks_off()
        plots.tidy(ax, name, "units of a hidden layer", "FLOPs of an update (SAC-2 = 1)")
    return figure


def saves(least: float) -> Callable[[Flops, Tables], Finding]:
    """Returns a test that λ-SAC saves more than a share of SAC's FLOPs, in every task and at every width."""

    def test(settings: Flops, tables: Tables) -> Finding:
        flops = tables["flops"]
        shown = "; ".join(
            f"{row.task}, {row.width} units: {row.agent} {row.flops / 1e6:.4g} MFLOPs"  # pyright: ignore
            for row in flops.itertuples()
        )
        saved = float(1 - select(flops, agent=ADAPTIVE)["share"].max())
        return Finding(saved > least, saved, None, shown)

    return test


EXPERIMENT = Experiment(
    **texts("sac-flops"),
    quick=Flops(widths=(64, 256)),
    paper=Flops(),
    fixed=fixed,
    draw=draw,
    claims=(
        Claim(
            "cheaper", "An update of λ-SAC needs fewer FLOPs than one of SAC with two critics.", saves(0.0), **APPENDIX
        ),
        Claim(
            "significantly",
            "An update of λ-SAC saves at least a fifth of the FLOPs of SAC with two critics.",
            saves(SIGNIFICANT),
        ),
    ),
    double_precision=False,
)
