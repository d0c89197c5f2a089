"""The representation of the first N visits (the paper's appendix C), between FR and SR.

    Φ_(N)(s, s') = 1(s = s') (1 + γ E Φ_(N−1)(s₁, s')) + 1(s ≠ s') γ E Φ_(N)(s₁, s'),      Φ_(0) = 0

The paper calls it intractable, as learning Φ_(N) needs Φ_(1), …, Φ_(N−1) as well. With F the first-occupancy
representation and R(s') the discounted chance of coming back to s', it is

    Φ_(N) = F (1 − R^N) / (1 − R),

so that one solve gives every N. Its distance from the SR is F R^N / (1 − R): it shrinks by R with every N.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wane.depletion import FirstVisits
from wane.exact.representation import (
    first_occupancy_representation,
    n_occupancy_representation,
    successor_representation,
)
from wane.experiments import plots
from wane.experiments.experiment import Claim, Experiment, Finding, Loop, Settings
from wane.experiments.representations import heat_map
from wane.worlds.catalog import grid_6x6

ROUNDING = 1e-9


@dataclass(frozen=True)
class NOccupancy(Settings):
    most: int = 12
    """the largest N"""
    maps: tuple[int, int] = (1, 3)
    """N's that are drawn as maps, beside the SR"""

    def __post_init__(self):
        super().__post_init__()
        if not 1 <= min(self.maps) <= max(self.maps) <= self.most or self.most < 2:
            raise ValueError(f"maps = {self.maps} must lie between 1 and most = {self.most}, which is 2 or more")


def kernel() -> np.ndarray:
    grid = grid_6x6()
    return grid.mdp.under(grid.policies[0]).toarray()


def compute(settings: NOccupancy, seeds: Sequence[int], loop: Loop) -> pd.DataFrame:
    """All N from one solve, and the FR and the SR (n = 0 in the table) from solves of their own."""
    discount, states = grid_6x6().discount, range(grid_6x6().n_states)
    many = np.arange(1, settings.most + 1)
    solved = n_occupancy_representation(kernel(), 1, discount=discount)
    every = solved.with_depletion(FirstVisits(many[:, None])).matrix
    first = first_occupancy_representation(kernel(), discount=discount).matrix
    successor = successor_representation(kernel(), discount=discount).matrix
    parts = {
        ("FR", 0): first,
        **{("NR", int(n)): phi for n, phi in zip(many, every, strict=True)},
        ("SR", 0): successor,
    }
    index = pd.MultiIndex.from_product([states, states], names=["state", "site"])
    tables = [
        pd.DataFrame({"kind": kind, "n": n, "value": phi.ravel()}, index=index).reset_index()
        for (kind, n), phi in parts.items()
    ]
    return pd.concat(tables)


def matrices(table: pd.DataFrame, kind: str) -> np.ndarray:
    """(N's, states, sites), N = 1, 2, … for the NR, one matrix for the FR and the SR."""
    rows = table[table["kind"] == kind].sort_values(["n", "state", "site"])
    states = rows["state"].nunique()
    return rows["value"].to_numpy().reshape(-1, states, states)


def draw(settings: NOccupancy, table: pd.DataFrame) -> Figure:
    figure, grid = plots.figure(10.0, 3.0), grid_6x6()
    panels, start = figure.subplots(1, 4, width_ratios=[1, 1, 1, 1.3]), grid.map.find("S")
    (first,), some, (successor,) = (matrices(table, kind) for kind in ("FR", "NR", "SR"))
    top = float(successor[start].max())
    for ax, n in zip(panels, settings.maps, strict=False):
        heat_map(ax, grid.map, some[n - 1, start], top, f"N = {n}" + ("  (FR)" if n == 1 else ""))
    image = heat_map(panels[2], grid.map, successor[start], top, "N → ∞  (SR)")
    figure.colorbar(image, ax=panels[:3], label="Φ(S, ·)", shrink=0.8, fraction=0.02, pad=0.01)
    ax = plots.tidy(panels[3], "a cell of the loop", "visits counted, N", "Φ(S, s')")
    site = int(successor[start].argmax())
    ax.plot(
        np.arange(1, len(some) + 1), some[:, start, site], "o-", ms=4, color=plots.colour(0.5), label="first N visits"
    )
    for phi, name, lam in ((successor, "SR", 1.0), (first, "FR", 0.0)):
        ax.axhline(phi[start, site], ls="--", color=plots.colour(lam), label=name)
    ax.set(ylim=(0, 1.1 * top), xticks=range(1, len(some) + 1, max(1, len(some) // 6)))
    ax.legend(frameon=False, loc="lower right")
    return figure


def one_is_first_occupancy(settings: NOccupancy, table: pd.DataFrame) -> Finding:
    off = float(np.abs(matrices(table, "NR")[0] - matrices(table, "FR")[0]).max())
    return Finding(off < ROUNDING, off, None, f"largest difference {off:.1e}")


def between(settings: NOccupancy, table: pd.DataFrame) -> Finding:
    (first,), some, (successor,) = (matrices(table, kind) for kind in ("FR", "NR", "SR"))
    rise = np.diff(some, axis=0)
    inside = np.minimum(some - first, successor - some).min()
    again = successor > first + ROUNDING
    share = (some[1][again] - first[again]) / (successor[again] - first[again])
    detail = f"N = 2 covers {100 * share.mean():.0f} % of the way from FR to SR, wherever a site is visited again"
    return Finding(bool(inside > -ROUNDING and rise.min() > -ROUNDING), float(share.mean()), None, detail)


def tends_to_successor(settings: NOccupancy, table: pd.DataFrame) -> Finding:
    some, (successor,) = matrices(table, "NR"), matrices(table, "SR")
    gaps = np.abs(successor - some).max((1, 2))
    returns = float(np.max(1 - 1 / np.diag(successor)))
    off = float(np.abs(gaps[1:] / gaps[:-1] - returns).max())
    detail = (
        f"the largest distance falls from {gaps[0]:.2g} at N = 1 to {gaps[-1]:.2g} at N = {settings.most}, each time "
        f"by R = {returns:.4f}, to within {off:.0e}"
    )
    return Finding(off < 1e-6, float(gaps[-1]), None, detail)


def recursion(settings: NOccupancy, table: pd.DataFrame) -> Finding:
    some = matrices(table, "NR")
    fewer = np.concatenate([np.zeros_like(some[:1]), some[:-1]])
    here, discount = np.eye(some.shape[1]), grid_6x6().discount
    right = here * (1 + discount * kernel() @ fewer) + (1 - here) * discount * (kernel() @ some)
    off = float(np.abs(right - some).max())
    return Finding(off < ROUNDING, off, None, f"N = 1 to {settings.most}: largest residual {off:.1e}")


EXPERIMENT = Experiment(
    name="n-occupancy",
    title="The first N visits",
    source="appendix C",
    says="A representation that counts the first N visits is the FR for N = 1 and the SR for N → ∞ and satisfies a "
    "recursion, but is intractable: the one for N needs all those for fewer visits.",
    quick=NOccupancy(),
    paper=NOccupancy(),
    compute=compute,
    draw=draw,
    claims=(
        Claim("one-is-first-occupancy", "For N = 1 it is the first-occupancy representation.", one_is_first_occupancy),
        Claim("between", "It lies between FR and SR, and rises with N.", between),
        Claim(
            "tends-to-successor",
            "For N → ∞ it tends to the successor representation; the distance falls by R, the largest discounted "
            "chance of coming back, with every N.",
            tends_to_successor,
        ),
        Claim(
            "recursion",
            "What one solve gives for all N satisfies the paper's recursion, N by N: it is not intractable.",
            recursion,
        ),
    ),
    differs="Computed in closed form, all N from one solve. The paper has no figure; the grid and policy are those of "
    "its figure 4.1.",
    cost="not run",
)
