"""The representation of the first N visits (the paper's appendix C), between FR and SR.

    Φ_(N)(s, s') = 1(s = s') (1 + γ E Φ_(N−1)(s₁, s')) + 1(s ≠ s') γ E Φ_(N)(s₁, s'),      Φ_(0) = 0

The paper calls it intractable, because learning Φ_(N) needs Φ_(1), …, Φ_(N−1) as well. With F the first-occupancy
representation and R(s') the discounted chance of coming back to s', it is

    Φ_(N) = F (1 − R^N) / (1 − R),

so one solve gives every N. Its distance from the SR is F R^N / (1 − R), which shrinks by the factor R with every N.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import sparse

from wane.depletion import FirstVisits
from wane.exact.representations import (
    first_occupancy_representation,
    n_occupancy_representation,
    successor_representation,
)
from wane.lab import Claim, Experiment, Finding, Settings, Tables, plots
from wane.lab.tables import frame, select
from wane.settings import DISTINCT, Range
from wane.worlds.catalog import grid_6x6
from wane_paper.common.maps import heat_map, outline_cell
from wane_paper.texts import texts

ROUNDING = 1e-9
Matrix = Float[np.ndarray, "states states"]
Matrices = Float[np.ndarray, "visits states states"]


@dataclass(frozen=True)
class NOccupancy(Settings):
    """Settings of n-occupancy."""

    most: Annotated[int, Range(2, 1000)] = 12
    """the largest N"""
    maps: Annotated[tuple[Annotated[int, Range(1, 1000)], ...], DISTINCT] = (1, 3)
    """N's that are drawn as maps, next to the SR"""

    def rules(self) -> None:
        """Raises SettingError if a map is to be drawn for an N that is not computed."""
        super().rules()
        self.require(max(self.maps) <= self.most, "maps", f"numbers of at most {self.most} are needed, as most is")


def kernel() -> Matrix:
    """Returns the transitions of the paper's policy on its grid."""
    grid = grid_6x6()
    return sparse.csr_array(grid.mdp.under(grid.policies[0])).toarray()


def fixed(settings: NOccupancy) -> Tables:
    """Returns Φ of all N from one solve (`first_visits`), and the FR and the SR from separate solves (`limits`)."""
    discount = grid_6x6().discount
    counts = np.arange(1, settings.most + 1)
    solved = n_occupancy_representation(kernel(), 1, discount=discount)
    phis = np.asarray(solved.with_depletion(FirstVisits(counts[:, None])).matrix)
    first, successor = (
        find(kernel(), discount=discount).matrix for find in (first_occupancy_representation, successor_representation)
    )
    states = range(phis.shape[-1])
    return {
        "first_visits": frame(phis, "phi", n=counts, state=states, site=states),
        "limits": frame([first, successor], "phi", kind=["FR", "SR"], state=states, site=states),
    }


def representations(tables: Tables) -> tuple[Matrix, Matrices, Matrix]:
    """Returns the FR, Φ for N = 1, 2, …, and the SR."""
    (first_occupancy,), (successor,) = (_matrices(select(tables["limits"], kind=kind)) for kind in ("FR", "SR"))
    return first_occupancy, _matrices(tables["first_visits"]), successor


def _matrices(rows: pd.DataFrame) -> Matrices:
    by = [name for name in ("n", "state", "site") if name in rows]
    states = rows["state"].nunique()
    return rows.sort_values(by)["phi"].to_numpy().reshape(-1, states, states)


def draw(settings: NOccupancy, tables: Tables) -> Figure:
    """Draws maps of some N and of the SR, and one entry of Φ against N."""
    grid, count = grid_6x6(), len(settings.maps)
    figure, start = plots.figure(2.5 * (count + 2), 3.0), grid.map.find("S")
    panels = figure.subplots(1, count + 2, width_ratios=[1] * (count + 1) + [1.3])
    first_occupancy, phis, successor = representations(tables)
    largest = float(successor[start].max())
    for ax, n in zip(panels, settings.maps, strict=False):
        heat_map(ax, grid.map, phis[n - 1, start], largest, f"N = {n}" + ("  (FR)" if n == 1 else ""))
    image = heat_map(panels[-2], grid.map, successor[start], largest, "N → ∞  (SR)")
    figure.colorbar(image, ax=panels[:-1], label="Φ(S, ·)", shrink=0.8, fraction=0.02, pad=0.01)
    site = int(successor[start].argmax())
    for ax in panels[:-1]:
        outline_cell(ax, grid.map, start, text="S")
        outline_cell(ax, grid.map, site, plots.OTHERS[2], "s'")
    limits = {"SR": float(successor[start, site]), "FR": float(first_occupancy[start, site])}
    _draw_cell(panels[-1], phis[:, start, site], limits)
    return figure


def _draw_cell(ax: Axes, phi: Float[np.ndarray, " visits"], limits: dict[str, float]) -> None:
    """Draws one entry of Φ against N, between its limits."""
    plots.tidy(ax, "the cell s' of the loop", "visits counted, N", "Φ(S, s')")
    ax.plot(np.arange(1, len(phi) + 1), phi, "o-", ms=4, color=plots.colour(0.5), label="first N visits")
    for name, lam in (("SR", 1.0), ("FR", 0.0)):
        ax.axhline(limits[name], ls="--", color=plots.colour(lam), label=name)
    ax.set(ylim=(0, 1.1 * limits["SR"]), xticks=range(1, len(phi) + 1, max(1, len(phi) // 6)))
    ax.legend(frameon=False, loc="lower right")


def recursion(settings: NOccupancy, tables: Tables) -> Finding:
    """Tests that Φ satisfies the paper's recursion."""
    _, phis, _ = representations(tables)
    one_less = np.concatenate([np.zeros_like(phis[:1]), phis[:-1]])
    visited, discount = np.eye(phis.shape[1]), grid_6x6().discount
    right = visited * (1 + discount * kernel() @ one_less) + (1 - visited) * discount * (kernel() @ phis)
    residual = float(np.abs(right - phis).max())
    return Finding(residual < ROUNDING, residual, None, f"N = 1 to {settings.most}: largest residual {residual:.1e}")


EXPERIMENT = Experiment(
    **texts("n-occupancy"),
    quick=NOccupancy(),
    paper=NOccupancy(),
    fixed=fixed,
    draw=draw,
    claims=(
        Claim(
            "recursion",
            "What one solve gives for all N satisfies the paper's recursion, N by N: it is not intractable.",
            recursion,
            kind="identity",
        ),
    ),
)
