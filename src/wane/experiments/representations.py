"""The λR between the FR and the SR (the paper's figures 4.1, F.1 and F.2), exactly.

    Φ_λ(s, s') = E[ Σₖ λ^(visits to s' before k) γᵏ 1(s_k = s') | s₀ = s ]

λ = 0 counts the first visit to s' only (the first-occupancy representation), λ = 1 all of them (the successor
representation). The paper iterates; here one solve gives Φ for every λ. Of the several policies in its figure F.1 only
the first is known: the other two are ours, one that walks to g and one that moves at random.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from wane.depletion import Geometric
from wane.exact.representation import representation
from wane.experiments import plots
from wane.experiments.experiment import Claim, Experiment, Finding, Loop, Settings
from wane.worlds import draw as pictures
from wane.worlds.catalog import grid_6x6, shortest_paths
from wane.worlds.grid import Map

ROUNDING = 1e-9
PAPERS, TO_G, RANDOM = "π₁, the paper's", "a walk to g", "a random walk"


@dataclass(frozen=True)
class Representations(Settings):
    lambdas: tuple[float, float, float] = (0.0, 0.5, 1.0)
    """drawn as maps and as matrices"""
    points: int = 21
    """λ's from 0 to 1 along which Φ is followed"""

    def __post_init__(self):
        super().__post_init__()
        if self.points < 2:
            raise ValueError(f"points = {self.points}: it takes 2 or more to go from λ = 0 to λ = 1")


def policies() -> dict[str, np.ndarray]:
    """The paper's policy on the grid, and two more."""
    grid = grid_6x6()
    to_g = shortest_paths(grid.map, grid.map.find("g"), grid.n_actions)
    anywhere = np.full((grid.n_states, grid.n_actions), 1 / grid.n_actions)
    return {PAPERS: grid.policies[0], TO_G: to_g, RANDOM: anywhere}


def kernel(policy: str) -> np.ndarray:
    return grid_6x6().mdp.under(policies()[policy]).toarray()


def compute(settings: Representations, seeds: Sequence[int], loop: Loop) -> pd.DataFrame:
    lams = np.unique([*settings.lambdas, *np.linspace(0, 1, settings.points)])
    grid, tables = grid_6x6(), []
    for name in policies():
        phi = representation(kernel(name), Geometric(lams[:, None]), discount=grid.discount).matrix
        states = range(grid.n_states)
        index = pd.MultiIndex.from_product([[name], lams, states, states], names=["policy", "lam", "state", "site"])
        tables.append(pd.DataFrame({"value": phi.ravel()}, index=index).reset_index())
    return pd.concat(tables)


def matrices(table: pd.DataFrame, policy: str) -> tuple[np.ndarray, np.ndarray]:
    """The λ's, and Φ of a policy for each of them: an array (λ's, states, sites)."""
    rows = table[table["policy"] == policy].sort_values(["lam", "state", "site"])
    lams, n = rows["lam"].unique(), rows["state"].nunique()
    return np.asarray(lams), rows["value"].to_numpy().reshape(len(lams), n, n)


def draw(settings: Representations, table: pd.DataFrame) -> Figure:
    figure, grid = plots.figure(9.0, 7.0), grid_6x6()
    panels, start = figure.subplots(3, 4), grid.map.find("S")
    lams, phi = matrices(table, PAPERS)
    shown = phi[np.searchsorted(lams, settings.lambdas)]
    top = float(shown.max())
    _policy(panels[0, 0], PAPERS)
    for i, lam in enumerate(settings.lambdas):
        heat_map(panels[0, 1 + i], grid.map, shown[i, start], top, title(lam))
        panels[1, i].imshow(shown[i], vmin=0, vmax=top)
        panels[1, i].set(xticks=[], yticks=[], xlabel="to s'", ylabel="from s", title=title(lam) + ", whole")
    _transition(panels[1, 3], lams, phi[:, start])
    for column, name in ((0, TO_G), (2, RANDOM)):
        _policy(panels[2, column], name)
        lams, phi = matrices(table, name)
        middle = settings.lambdas[1]
        row = phi[np.searchsorted(lams, middle), start]
        image = heat_map(panels[2, column + 1], grid.map, row, top, title(middle))
    figure.colorbar(image, ax=panels, label="Φ(s, s'); in the maps s is the boxed cell", fraction=0.025, aspect=40)
    return figure


def title(lam: float) -> str:
    return f"λ = {lam:g}" + {0.0: "  (FR)", 1.0: "  (SR)"}.get(lam, "")


def heat_map(ax: Axes, map: Map, values: Any, top: float, title: str, numbers: bool = True) -> AxesImage:
    """Values over the cells of a map, walls grey, with their numbers in the cells where these are few."""
    shades = matplotlib.colormaps["viridis"].with_extremes(bad=pictures.WALL)
    image = ax.imshow(map.image(values), cmap=shades, vmin=0, vmax=top)
    low, high = pictures.window(map) - np.array([0.5])
    ax.set(xticks=[], yticks=[], xlim=(low[1], high[1]), ylim=(high[0], low[0]), title=title)
    ax.spines[:].set_visible(False)
    if numbers:
        inks = pictures.inks_on(image.to_rgba(np.asarray(values)))
        for (row, column), value, ink in zip(map.cells, values, inks, strict=True):
            text = "0" if value == 0 else f"{value:.2f}"
            ax.text(column, row, text, ha="center", va="center", color=ink, fontsize=8)
    return image


def _policy(ax: Axes, name: str) -> None:
    grid = grid_6x6()
    pictures.still(grid.map, policy=policies()[name], start=grid.map.find("S"), title=name, ax=ax)


def _transition(ax: Axes, lams: np.ndarray, rows: np.ndarray) -> None:
    """Φ(S, s') against λ for the cells that are visited more than once, and for those that are passed once."""
    plots.tidy(ax, "from FR to SR", "λ")
    ax.set_box_aspect(1)
    grows = rows[-1] - rows[0]
    once = np.flatnonzero((rows[0] > 0) & (grows < ROUNDING))
    for sites, shade, label in (
        (np.flatnonzero(grows >= ROUNDING), plots.colour(0.5), "in the loop"),
        (once, plots.GREY, "passed once"),
    ):
        lines = ax.plot(lams, rows[:, sites], color=shade, lw=1.2)
        lines[0].set_label(label)
    ax.set_ylim(0, 1.6 * rows.max())
    ax.legend(frameon=False, fontsize="small", loc="upper left")


def zero_is_first_occupancy(settings: Representations, table: pd.DataFrame) -> Finding:
    return _fixed_point(table, 0)


def one_is_successor(settings: Representations, table: pd.DataFrame) -> Finding:
    return _fixed_point(table, -1)


def _fixed_point(table: pd.DataFrame, which: int) -> Finding:
    """How far the first (λ = 0) or last (λ = 1) Φ is from solving the recursion of the FR or the SR, whose only
    solution these are."""
    discount, off = grid_6x6().discount, 0.0
    for name in policies():
        _, phi = matrices(table, name)
        here, ahead = np.eye(phi.shape[1]), kernel(name) @ phi[which]
        recursion = here + discount * ((1 - here) * ahead if which == 0 else ahead)
        off = max(off, float(np.abs(phi[which] - recursion).max()))
    what = "first-occupancy" if which == 0 else "successor"
    return Finding(off < ROUNDING, off, None, f"three policies satisfy the {what} recursion to within {off:.1e}")


def between(settings: Representations, table: pd.DataFrame) -> Finding:
    holds, share, entries = True, 0.0, 0
    for name in policies():
        _, phi = matrices(table, name)
        rise, whole = np.diff(phi, axis=0), phi[-1] - phi[0]
        again = (phi[0] > 0) & (np.diag(phi[-1]) > 1 + ROUNDING)
        holds &= bool(np.all(rise[:, again] > 0) and np.all(np.abs(rise[:, ~again]) < ROUNDING))
        share = max(share, float((rise[:, again] / whole[again]).max()))
        entries += int(again.sum())
    detail = (
        f"Φ rises from each λ to the next at all {entries} entries whose site is reached and comes back, and stays at "
        f"all others; the largest single step covers {100 * share:.0f} % of the way from FR to SR"
    )
    return Finding(holds, share, None, detail if holds else "Φ falls, or rises where no site is visited again")


EXPERIMENT = Experiment(
    name="representations",
    title="The λ representation between FR and SR",
    source="figures 4.1, F.1 and F.2",
    says="With λ = 0 the λ representation is the first-occupancy representation, with λ = 1 the successor "
    "representation; in between it passes smoothly from the one to the other, as cells that are visited again count "
    "for more and more.",
    quick=Representations(),
    paper=Representations(),
    compute=compute,
    draw=draw,
    claims=(
        Claim(
            "zero-is-first-occupancy",
            "With λ = 0, Φ satisfies the recursion of the first-occupancy representation.",
            zero_is_first_occupancy,
        ),
        Claim(
            "one-is-successor",
            "With λ = 1, Φ satisfies the recursion of the successor representation.",
            one_is_successor,
        ),
        Claim("between", "In between, Φ rises with λ wherever a site is visited again, and nowhere else.", between),
    ),
    differs="Solved, not iterated. The paper draws several policies on this grid; only the first is known, the walk "
    "to g and the random walk are ours.",
    cost="less than one hour on a laptop (2020 MacBook Air), all experiments of this kind",
)
