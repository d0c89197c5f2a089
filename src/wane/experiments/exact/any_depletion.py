"""Values under five depletion curves from one solve (beyond the paper).

If the n-th visit to a site pays f(n) r̄, the value of a policy is V = Σ r̄ F G_f(R), with F the discounted time of the
first visit, R that of coming back, and G_f(x) = Σ f(n) xⁿ (`wane.exact.occupancy`). One solve gives F and R, which do
not depend on f. The values are compared with brute force: the chain over (cell × visits made), followed step by step.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, cast

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from scipy import sparse

from wane.depletion import Diminishing, FirstVisits, Geometric, Hyperbolic, Listed, PowerLaw
from wane.exact.representations import Representation, representation
from wane.experiments.common import plots
from wane.experiments.common.checks import Drawn
from wane.experiments.common.maps import heat_map, outline_cell
from wane.experiments.contract import Claim, Experiment, Finding, NotTested, Settings, Tables
from wane.settings import Lambda, NotNegative, Probability, Range
from wane.worlds.catalog import four_rooms
from wane.worlds.world import World

COMPARED_VISITS = 1000
"""The number of visits at which two curves are compared to see whether one lies above the other."""


@dataclass(frozen=True)
class AnyDepletion(Settings):
    """Settings of any-depletion."""

    lam: Lambda = 0.5
    """Geometric: a visit leaves this fraction"""
    full_visits: Annotated[int, Range(1, 1000)] = 3
    """FirstVisits: number of visits that pay in full"""
    k: NotNegative = 1.0
    """Hyperbolic: 1 / (1 + k n)"""
    p: Annotated[float, Range(0.05, 1000)] = 2.0
    """PowerLaw: (1 + n)^(−p)"""
    listed: tuple[NotNegative, ...] = (1.0, 0.8, 0.8, 0.2)
    """Listed: what the first visits pay"""
    tail: NotNegative = 0.05
    """Listed: what all others pay"""
    policy: Annotated[int, Range(0, 3, "a base policy of FourRooms")] = 1
    """which base policy of FourRooms is evaluated"""
    slip: Probability = 0.2
    """chance of a random move, so that visits are a matter of chance"""
    steps: Annotated[int, Range(1, 100_000)] = 600
    """number of steps after which the brute force stops"""
    visits: Drawn = 10
    """the last visit that is drawn"""


def curves(settings: AnyDepletion) -> dict[str, Diminishing]:
    """Returns the five curves. Raises ValueError if a parameter is out of its range."""
    return {
        "geometric": Geometric(settings.lam),
        "first visits": FirstVisits(settings.full_visits),
        "hyperbolic": Hyperbolic(settings.k),
        "power law": PowerLaw(settings.p),
        "sequence": Listed(settings.listed, settings.tail),
    }


def labels(settings: AnyDepletion) -> dict[str, str]:
    """Returns labels that name the curves with their parameters."""
    parameters = (
        f"λ = {settings.lam:g}",
        f"N = {settings.full_visits}",
        f"k = {settings.k:g}",
        f"p = {settings.p:g}",
        "listed",
    )
    return {name: f"{name}, {parameter}" for name, parameter in zip(curves(settings), parameters, strict=True)}


def _world(settings: AnyDepletion) -> tuple[World, sparse.csr_array]:
    world = four_rooms(slip=settings.slip)
    return world, sparse.csr_array(world.mdp.under(world.policies[settings.policy]))


def fixed(settings: AnyDepletion) -> Tables:
    """Returns what each visit pays (`curves`), and each cell's value, from one solve and step by step (`values`)."""
    world, kernel = _world(settings)
    solved = representation(kernel, Geometric(1.0), discount=world.discount, sites=world.sites)
    times = visit_times(world, kernel, settings.steps)
    visits, states = np.arange(settings.visits + 1), np.arange(world.n_states)
    drawn, values = [], []
    for name, curve in curves(settings).items():
        value = np.asarray(solved.with_depletion(curve).values(world.rewards))
        summed = np.einsum("skn,k,n->s", times, world.rewards, np.asarray(curve.worth(np.arange(settings.steps))))
        drawn.append(pd.DataFrame({"curve": name, "earlier_visits": visits, "reward": curve.worth(visits)}))
        values.append(pd.DataFrame({"curve": name, "state": states, "value": value, "step_by_step": summed}))
    return {"curves": pd.concat(drawn), "values": pd.concat(values)}


def visit_times(world: World, kernel: sparse.csr_array, steps: int) -> Float[np.ndarray, "states sites steps"]:
    """E[Σ_{t < steps} γᵗ 1(at the site, for the n-th time)] for n = 0 … steps − 1, from every state and for every site.

    The recursion goes back one step at a time on the chain over (state, visits made). A step from the site itself
    counts one more visit, so there the entry of n moves to n + 1.
    """
    sites, k = world.sites, np.arange(world.n_sites)
    times = np.zeros((world.n_states, world.n_sites, steps))
    for _ in range(steps):
        times = world.discount * (kernel @ times.reshape(len(times), -1)).reshape(times.shape)
        times[sites, k, 1:] = times[sites, k, :-1]
        times[sites, k, 0] = 1
    return times


def draw(settings: AnyDepletion, tables: Tables) -> Figure:
    """Draws the curves, the mean value under each curve, and maps of the values."""
    figure, names, values = plots.figure(10.0, 5.6), list(curves(settings)), tables["values"]
    above, below = cast(np.ndarray, figure.subfigures(2, 1, height_ratios=[1.25, 1]))
    curve_panel, mean_panel = above.subplots(1, 2)
    shades = dict(zip(names, plots.OTHERS, strict=False))
    _draw_curves(curve_panel, tables["curves"], shades, labels(settings))
    means = values.groupby("curve", sort=False)[["value", "step_by_step"]].mean()
    plots.tidy(mean_panel, "FourRooms: mean value over all cells", "", "V")
    plots.bars(mean_panel, names, means["value"], shades=[shades[name] for name in names])
    mean_panel.plot(
        names, means["step_by_step"], "D", ms=5, mfc="none", mec=plots.INK, label="cell × visits, step by step"
    )
    mean_panel.legend(frameon=False)
    mean_panel.set_ylim(0, 1.35 * means["value"].max())
    below.suptitle("Value of each cell, on a scale of its own for each curve; boxes: the sites", fontsize="medium")
    for ax, (name, rows) in zip(below.subplots(1, len(names)), values.groupby("curve", sort=False), strict=True):
        _draw_values(below, ax, rows["value"].to_numpy(), str(name))
    return figure


def _draw_values(figure: SubFigure, ax: Axes, values: Float[np.ndarray, " states"], title: str) -> None:
    """Draws a map of the values. Each map has its own colour range, because curves differ more than cells do."""
    world = four_rooms()
    image = heat_map(ax, world.map, values, values.max(), title, numbers=False, smallest=values.min())
    for site in world.sites:
        outline_cell(ax, world.map, site)
    figure.colorbar(image, ax=ax, location="bottom", fraction=0.06, pad=0.03)


def _draw_curves(ax: Axes, table: pd.DataFrame, shades: Mapping[str, str], names: Mapping[str, str]) -> None:
    plots.tidy(ax, "Five ways to wear off", "earlier visits n", "reward f(n) (r̄ = 1)")
    for name, rows in table.groupby("curve", sort=False):
        ax.plot(rows["earlier_visits"], rows["reward"], "o-", ms=4, color=shades[str(name)], label=names[str(name)])
    ax.legend(frameon=False)


def agrees_with_brute_force(settings: AnyDepletion, tables: Tables) -> Finding:
    """Tests that both columns of values agree, up to what the steps that were left out could add."""
    world, _ = _world(settings)
    values = tables["values"]
    difference = float((values["value"] - values["step_by_step"]).abs().max())
    largest = max(curve.bound for curve in curves(settings).values()) * float(np.max(world.rewards))
    left_out = largest * world.discount**settings.steps / (1 - world.discount)
    if left_out > values["value"].max():
        raise NotTested(
            f"the steps after {settings.steps} may add up to {left_out:.3g}, which is more than any value: raise steps"
        )
    detail = (
        f"five curves, {world.n_states} starts: largest difference {difference:.1e}, where the steps after "
        f"{settings.steps} could add up to {left_out:.1e}"
    )
    return Finding(difference <= left_out + 1e-9, difference, None, detail)


def one_solve(settings: AnyDepletion, tables: Tables) -> Finding:
    """Tests whether the curves share the solved arrays as identical objects, not only as equal numbers."""
    world, kernel = _world(settings)
    several = list(curves(settings).values())
    solved = representation(kernel, several[0], discount=world.discount, sites=world.sites)
    arrays = _solved_arrays(solved)
    shared = sum(_solved_arrays(solved.with_depletion(curve)) == arrays for curve in several)
    detail = f"{shared} of {len(several)} curves use the arrays of the first"
    return Finding(len(arrays) > 0 and shared == len(several), float(shared), None, detail)


def _solved_arrays(phi: Representation) -> dict[str, int]:
    """Returns the `id` of every array of a representation by name, except the sites, which are not solved for."""
    return {name: id(value) for name, value in vars(phi).items() if isinstance(value, np.ndarray) and name != "sites"}


def slower_is_worth_more(settings: AnyDepletion, tables: Tables) -> Finding:
    """Tests that if one curve lies above another, its values are larger in every cell."""
    visits = np.arange(COMPARED_VISITS)
    values = tables["values"].pivot_table(index="state", columns="curve", values="value")
    pairs, least = [], np.inf
    worths = {name: np.asarray(curve.worth(visits)) for name, curve in curves(settings).items()}
    for upper, slower in worths.items():
        for lower, faster in worths.items():
            if np.all(slower >= faster) and np.any(slower > faster):
                pairs.append(f"{upper} above {lower}")
                least = min(least, float((values[upper] - values[lower]).min()))
    if not pairs:
        raise NotTested("every two of the curves cross or are the same: choose parameters with one curve above another")
    detail = f"{'; '.join(pairs)}: the value differs by {least:.3f} or more in every cell"
    return Finding(least > 0, least, None, detail)


EXPERIMENT = Experiment(
    name="any-depletion",
    title="Five depletion curves, one solve",
    source="beyond the paper",
    summary="In the paper rewards fall by the same fraction at each visit, and its method is made for that. One solve "
    "gives the values for every other curve over visits as well.",
    quick=AnyDepletion(),
    paper=AnyDepletion(),
    fixed=fixed,
    draw=draw,
    claims=(
        Claim(
            "agrees-with-brute-force",
            "For each of five curves the value from one solve is the value in the chain over (cell × visits).",
            agrees_with_brute_force,
            kind="identity",
        ),
        Claim("one-solve", "Another curve needs no new solve.", one_solve, kind="identity"),
        Claim(
            "slower-is-worth-more",
            "Where one curve lies nowhere below another, its values are higher in every cell.",
            slower_is_worth_more,
            kind="identity",
        ),
    ),
    differences="This is not in the paper. Rewards are paid as the paper defines them, in the cell where the agent is, "
    "the start included.",
    paper_cost="not in the paper",
)
