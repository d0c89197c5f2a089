"""The λR between the FR and the SR (the paper's figures 4.1, F.1 and F.2), exactly.

    Φ_λ(s, s') = E[ Σₖ λ^(visits to s' before k) γᵏ 1(s_k = s') | s₀ = s ]

λ = 0 counts only the first visit to s' (the first-occupancy representation), λ = 1 counts all of them (the successor
representation). The paper iterates; here one solve gives Φ for every λ. The paper's figure F.1 shows several policies,
of which only the first is known. The other two are ours: one walks to g and one moves at random.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from scipy import sparse

from wane.depletion import Geometric
from wane.exact.representations import representation
from wane.lab import Claim, Experiment, Finding, Settings, Tables, plots
from wane.lab.tables import frame, select
from wane.settings import Range
from wane.worlds import draw as pictures
from wane.worlds.catalog import grid_6x6, shortest_paths
from wane_paper.common.maps import heat_map, outline_cell
from wane_paper.common.settings import Lambdas
from wane_paper.texts import texts

ROUNDING = 1e-9
PAPERS, TO_G, RANDOM = "π₁, the paper's", "a walk to g", "a random walk"


@dataclass(frozen=True)
class Representations(Settings):
    """Settings of representations."""

    lambdas: Lambdas = (0.0, 0.5, 1.0)
    """λ's that are drawn as maps and as matrices"""
    points: Annotated[int, Range(2, 10_000)] = 21
    """λ's from 0 to 1 along which Φ is followed"""


def policies() -> dict[str, Shaped[np.ndarray, "states *actions"]]:
    """Returns the paper's policy on the grid and two more policies, by name."""
    grid = grid_6x6()
    to_g = shortest_paths(grid.map, grid.map.find("g"), grid.n_actions)
    uniform = np.full((grid.n_states, grid.n_actions), 1 / grid.n_actions)
    return {PAPERS: grid.policies[0], TO_G: to_g, RANDOM: uniform}


def kernel(policy: str) -> Float[np.ndarray, "states states"]:
    """Returns the transitions on the grid under one of the `policies`."""
    return sparse.csr_array(grid_6x6().mdp.under(policies()[policy])).toarray()


def fixed(settings: Representations) -> Tables:
    """Returns Φ_λ(s, s') of every policy, for the λ's that are drawn and for λ's from 0 to 1."""
    lams = np.unique([*settings.lambdas, *np.linspace(0, 1, settings.points)])
    grid, parts = grid_6x6(), []
    for name in policies():
        phi = np.asarray(representation(kernel(name), Geometric(lams[:, None]), discount=grid.discount).matrix)
        states = range(grid.n_states)
        parts.append(frame(phi, "phi", policy=[name], lam=lams, state=states, site=states))
    return {"representations": pd.concat(parts)}


def phi_by_lambda(
    tables: Tables, policy: str
) -> tuple[Float[np.ndarray, " lams"], Float[np.ndarray, "lams states states"]]:
    """Returns the λ's in ascending order, and Φ of a policy for each of them."""
    rows = select(tables["representations"], policy=policy).sort_values(["lam", "state", "site"])
    lams, n = np.asarray(rows["lam"].unique()), rows["state"].nunique()
    return lams, rows["phi"].to_numpy().reshape(len(lams), n, n)


def draw(settings: Representations, tables: Tables) -> Figure:
    """Draws maps and matrices of the paper's policy for the chosen λ's, and maps of the other policies for one λ."""
    grid, shown_lams = grid_6x6(), settings.lambdas
    columns, start = max(4, len(shown_lams) + 1), grid.map.find("S")
    figure = plots.figure(2.25 * columns, 7.0)
    panels = figure.subplots(3, columns)
    lams, phi = phi_by_lambda(tables, PAPERS)
    shown = phi[np.searchsorted(lams, shown_lams)]
    middle = shown_lams[len(shown_lams) // 2]
    others = {name: phi_by_lambda(tables, name)[1][np.searchsorted(lams, middle), start] for name in (TO_G, RANDOM)}
    largest = float(max(shown[:, start].max(), *(row.max() for row in others.values())))
    _draw_policy(panels[0, 0], PAPERS)
    maps = [_draw_row(panels[0, 1 + i], shown[i, start], largest, title(lam)) for i, lam in enumerate(shown_lams)]
    whole = [
        _draw_matrix(panels[1, i], shown[i], float(shown.max()), start, title(lam)) for i, lam in enumerate(shown_lams)
    ]
    _draw_transition(panels[1, len(shown_lams)], lams, phi[:, start])
    for column, (name, row) in zip((0, 2), others.items(), strict=True):
        _draw_policy(panels[2, column], name)
        _draw_row(panels[2, column + 1], row, largest, title(middle), with_goal=name == TO_G)
    for ax in (*panels[0, len(shown_lams) + 1 :], *panels[1, len(shown_lams) + 1 :], *panels[2, 4:]):
        ax.set_visible(False)
    for images, row, label in ((maps, 0, "Φ(S, ·)"), (whole, 1, "Φ"), (maps, 2, "Φ(S, ·)")):
        figure.colorbar(images[0], ax=panels[row], label=label, fraction=0.025, pad=0.01)
    return figure


def _draw_row(
    ax: Axes, row: Float[np.ndarray, " states"], largest: float, title: str, with_goal: bool = False
) -> AxesImage:
    """Draws a map of Φ(S, ·), with a box around S and, if wanted, a box around g."""
    image = heat_map(ax, grid_6x6().map, row, largest, title)
    _outline(ax, with_goal)
    return image


def _outline(ax: Axes, with_goal: bool) -> None:
    map = grid_6x6().map
    outline_cell(ax, map, map.find("S"), text="S")
    if with_goal:
        outline_cell(ax, map, map.find("g"), plots.OTHERS[2], "g")


def _draw_matrix(
    ax: Axes, phi: Float[np.ndarray, "states states"], largest: float, start: int, title: str
) -> AxesImage:
    """Draws the whole matrix Φ. The row labelled S is the row that the map above shows."""
    image = ax.imshow(phi, vmin=0, vmax=largest)
    ax.set(xticks=[], yticks=[start], yticklabels=["S"], xlabel="to s'", ylabel="from s", title=f"{title}, whole")
    return image


def title(lam: float) -> str:
    """Returns a title: λ and the name of its representation, if it has one."""
    return f"λ = {lam:g}" + {0.0: "  (FR)", 1.0: "  (SR)"}.get(lam, "")


def _draw_policy(ax: Axes, name: str) -> None:
    pictures.draw_map(grid_6x6().map, policy=policies()[name], title=name, ax=ax)
    _outline(ax, with_goal=name == TO_G)


def _draw_transition(ax: Axes, lams: Float[np.ndarray, " lams"], rows: Float[np.ndarray, "lams states"]) -> None:
    """Draws Φ(S, s') against λ, for cells that are visited more than once and for cells that are passed once."""
    plots.tidy(ax, "from FR to SR", "λ")
    ax.set_box_aspect(1)
    growth = rows[-1] - rows[0]
    once = np.flatnonzero((rows[0] > 0) & (growth < ROUNDING))
    for sites, shade, label in (
        (np.flatnonzero(growth >= ROUNDING), plots.colour(0.5), "in the loop"),
        (once, plots.GREY, "passed once"),
    ):
        lines = ax.plot(lams, rows[:, sites], color=shade, lw=1.2)
        lines[0].set_label(label)
    ax.set_ylim(0, 1.6 * rows.max())
    ax.legend(frameon=False, fontsize="small", loc="upper left")


def between(settings: Representations, tables: Tables) -> Finding:
    """Tests that Φ rises with λ at entries whose site can be reached and revisited, and is constant elsewhere."""
    holds, largest_share, entries = True, 0.0, 0
    for name in policies():
        lams, phi = phi_by_lambda(tables, name)
        # A chosen λ may differ from one of the points by rounding only: nothing rises between these two.
        apart = np.append(True, np.diff(lams) > ROUNDING)
        rise, whole = np.diff(phi[apart], axis=0), phi[-1] - phi[0]
        # Φ₁(s', s') counts the visits of a walk that begins in s': more than 1 means that it comes back.
        visited_again = (phi[0] > 0) & (np.diag(phi[-1]) > 1 + ROUNDING)
        holds &= bool(np.all(rise[:, visited_again] > 0) and np.all(np.abs(rise[:, ~visited_again]) < ROUNDING))
        largest_share = max(largest_share, float((rise[:, visited_again] / whole[visited_again]).max()))
        entries += int(visited_again.sum())
    detail = (
        f"Φ rises from each λ to the next at all {entries} entries whose site is reached and comes back, and stays at "
        f"all others; the largest single step covers {100 * largest_share:.0f} % of the way from FR to SR"
    )
    return Finding(holds, largest_share, None, detail if holds else "Φ falls, or rises where no site is visited again")


EXPERIMENT = Experiment(
    **texts("representations"),
    quick=Representations(),
    paper=Representations(),
    fixed=fixed,
    draw=draw,
    claims=(
        Claim(
            "between",
            "In between, Φ rises with λ wherever a site is visited again, and nowhere else.",
            between,
            kind="identity",
        ),
    ),
)
