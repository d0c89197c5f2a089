"""Values under five depletion curves from one solve (beyond the paper).

If the n-th visit to a site pays f(n) r̄, the value of a policy is V = Σ r̄ F G_f(R), with F the discounted time of the
first visit, R that of coming back, and G_f(x) = Σ f(n) xⁿ (`wane.exact.occupancy`). The solve is for F and R and does
not know of f. It is held against brute force: the chain over (cell × visits made), followed step by step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.depletion import Diminishing, FirstVisits, Geometric, Hyperbolic, PowerLaw
from wane.depletion import Sequence as Listed
from wane.exact.representation import representation
from wane.experiments import plots
from wane.experiments.experiment import Claim, Experiment, Finding, Loop, Settings
from wane.experiments.representations import heat_map
from wane.worlds.catalog import four_rooms
from wane.worlds.world import World


@dataclass(frozen=True)
class AnyDepletion(Settings):
    lam: float = 0.5
    """Geometric: a visit leaves this fraction"""
    first: int = 3
    """FirstVisits: so many pay in full"""
    k: float = 1.0
    """Hyperbolic: 1 / (1 + k n)"""
    p: float = 2.0
    """PowerLaw: (1 + n)^(−p)"""
    listed: tuple[float, ...] = (1.0, 0.8, 0.8, 0.2)
    """Sequence: what the first visits pay"""
    tail: float = 0.05
    """Sequence: what all others pay"""
    policy: int = 1
    """which base policy of FourRooms is evaluated"""
    slip: float = 0.2
    """chance of a random move, so that visits are a matter of chance"""
    steps: int = 600
    """after which the brute force stops"""
    visits: int = 10
    """the last visit that is drawn"""

    MAY_BE_ZERO = ("policy",)

    def __post_init__(self):
        super().__post_init__()
        if self.policy not in range(4):
            raise ValueError(f"policy = {self.policy}: FourRooms has the base policies 0 to 3")


def curves(settings: AnyDepletion) -> dict[str, Diminishing]:
    return {
        "geometric": Geometric(settings.lam),
        "first visits": FirstVisits(settings.first),
        "hyperbolic": Hyperbolic(settings.k),
        "power law": PowerLaw(settings.p),
        "sequence": Listed(settings.listed, settings.tail),
    }


def labels(settings: AnyDepletion) -> dict[str, str]:
    """The curves with their parameters."""
    values = (f"λ = {settings.lam:g}", f"N = {settings.first}", f"k = {settings.k:g}", f"p = {settings.p:g}", "listed")
    return {name: f"{name}, {value}" for name, value in zip(curves(settings), values, strict=True)}


def _world(settings: AnyDepletion) -> tuple[World, Any]:
    world = four_rooms(slip=settings.slip)
    return world, world.mdp.under(world.policies[settings.policy])


def compute(settings: AnyDepletion, seeds: Sequence[int], loop: Loop) -> pd.DataFrame:
    world, kernel = _world(settings)
    solved = representation(kernel, Geometric(1.0), discount=world.discount, sites=world.sites)
    times = visit_times(kernel, world.sites, world.discount, settings.steps)
    visits, states, tables = np.arange(settings.visits + 1), np.arange(world.n_states), []
    for name, curve in curves(settings).items():
        value = solved.with_depletion(curve).values(world.rewards)
        check = np.einsum("skn,k,n->s", times, world.rewards, curve.worth(np.arange(settings.steps)))
        tables.append(pd.DataFrame({"panel": "worth", "curve": name, "at": visits, "value": curve.worth(visits)}))
        tables.append(pd.DataFrame({"panel": "value", "curve": name, "at": states, "value": value, "check": check}))
    return pd.concat(tables)


def visit_times(kernel: Any, sites: np.ndarray, discount: float, steps: int) -> np.ndarray:
    """E[Σ_{t < steps} γᵗ 1(at the site, for the n-th time)], an array (states, sites, n = 0 … steps − 1).

    One step back at a time on the chain over (state, visits made): a step from the site itself counts one more.
    """
    k = np.arange(len(sites))
    times = np.zeros((kernel.shape[0], len(sites), steps))
    for _ in range(steps):
        times = discount * (kernel @ times.reshape(len(times), -1)).reshape(times.shape)
        times[sites, k, 1:] = times[sites, k, :-1]
        times[sites, k, 0] = 1
    return times


def draw(settings: AnyDepletion, table: pd.DataFrame) -> Figure:
    figure, names = plots.figure(10.0, 5.6), list(curves(settings))
    parts: Any = figure.subfigures(2, 1, height_ratios=[1.25, 1])
    above, below = parts
    left, right = above.subplots(1, 2)
    shades: dict[str, str] = dict(zip(names, plots.OTHERS, strict=False))
    _worths(left, table, shades, labels(settings))
    values = table[table["panel"] == "value"]
    means = values.groupby("curve", sort=False)[["value", "check"]].mean()
    plots.tidy(right, "FourRooms: mean value over all cells", "", "V")
    plots.bars(right, names, means["value"], shades=[shades[name] for name in names])
    right.plot(names, means["check"], "D", ms=5, mfc="none", mec=plots.INK, label="cell × visits, step by step")
    right.legend(frameon=False)
    right.set_ylim(0, 1.35 * means["value"].max())
    map, top = four_rooms().map, float(values["value"].max())
    panels = below.subplots(1, len(names))
    images = [
        heat_map(ax, map, rows["value"].to_numpy(), top, str(name), numbers=False)
        for ax, (name, rows) in zip(panels, values.groupby("curve", sort=False), strict=True)
    ]
    below.colorbar(images[-1], ax=panels, label="V", fraction=0.02, pad=0.01)
    return figure


def _worths(ax: Axes, table: pd.DataFrame, shades: dict[str, str], names: dict[str, str]) -> None:
    plots.tidy(ax, "Five ways to wear off", "earlier visits n", "reward f(n) (r̄ = 1)")
    for name, rows in table[table["panel"] == "worth"].groupby("curve", sort=False):
        ax.plot(rows["at"], rows["value"], "o-", ms=4, color=shades[str(name)], label=names[str(name)])
    ax.legend(frameon=False)


def agrees_with_brute_force(settings: AnyDepletion, table: pd.DataFrame) -> Finding:
    world, _ = _world(settings)
    rows = table[table["panel"] == "value"]
    off = float((rows["value"] - rows["check"]).abs().max())
    most = max(curve.bound for curve in curves(settings).values()) * float(np.max(world.rewards))
    rest = most * world.discount**settings.steps / (1 - world.discount)
    detail = (
        f"five curves, {world.n_states} starts: largest difference {off:.1e}, where the steps after "
        f"{settings.steps} could add up to {rest:.1e}"
    )
    return Finding(off <= rest + 1e-9, off, None, detail)


def one_solve(settings: AnyDepletion, table: pd.DataFrame) -> Finding:
    """Whether the curves share the solved arrays."""
    world, kernel = _world(settings)
    several = list(curves(settings).values())

    def solve(curve: Diminishing) -> Any:
        return representation(kernel, curve, discount=world.discount, sites=world.sites)

    solved = solve(several[0])
    shared = sum(solved.with_depletion(curve).first is solved.first for curve in several)
    detail = f"{shared} of {len(several)} curves use the arrays of the first"
    return Finding(shared == len(several), float(shared), None, detail)


def slower_is_worth_more(settings: AnyDepletion, table: pd.DataFrame) -> Finding:
    visits = np.arange(settings.steps)
    values = table[table["panel"] == "value"].pivot_table(index="at", columns="curve", values="value")
    pairs, least = [], np.inf
    for slow, slower in curves(settings).items():
        for fast, faster in curves(settings).items():
            if slow != fast and np.all(slower.worth(visits) >= faster.worth(visits)):
                pairs.append(f"{slow} above {fast}")
                least = min(least, float((values[slow] - values[fast]).min()))
    detail = f"{'; '.join(pairs)}: the value differs by {least:.3f} or more in every cell"
    return Finding(least > 0, least, None, detail)


EXPERIMENT = Experiment(
    name="any-depletion",
    title="Five depletion curves, one solve",
    source="beyond the paper",
    says="The paper has rewards fall by the same fraction at each visit, and its method is made for that. One solve "
    "gives the values for every other curve over visits as well.",
    quick=AnyDepletion(),
    paper=AnyDepletion(),
    compute=compute,
    draw=draw,
    claims=(
        Claim(
            "agrees-with-brute-force",
            "For each of five curves the value from one solve is what the chain over (cell × visits) adds up to.",
            agrees_with_brute_force,
        ),
        Claim("one-solve", "A change of curve solves nothing anew.", one_solve),
        Claim(
            "slower-is-worth-more",
            "Where one curve lies nowhere below another, its values are higher in every cell.",
            slower_is_worth_more,
        ),
    ),
    differs="Not in the paper. Rewards are paid as it defines them, in the cell the agent is in, the start included.",
    cost="not in the paper",
)
