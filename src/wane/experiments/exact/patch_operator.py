"""The λ operator on sets (section 4.1): a patch that wears off as a whole, and why it is not a measure.

A patch X is visited whenever any of its states is, and each visit leaves λ of the reward of the whole patch:

    Φ(s, X) = 1_X(s) (1 + λγ E Φ(s', X)) + γ (1 − 1_X(s)) E Φ(s', X)

Two rooms of FourRooms are patches, and the policy is a random walk. Two patches that wear off separately are worth more
than their union, so Φ(s, A ∪ B) ≤ Φ(s, A) + Φ(s, B), with equality for λ = 1, where Φ is a measure.

| table | a row for each | columns |
| --- | --- | --- |
| `patches` | λ, state | lam, state, a, b, both, first |

`a`, `b` and `both` are Φ(s, A), Φ(s, B) and Φ(s, A ∪ B), and `first` is Φ(s, {x}) for a single state x of A.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from wane.depletion import Geometric
from wane.exact.bellman import bellman_target
from wane.exact.patches import patch_representation
from wane.exact.representations import lambda_representation
from wane.experiments.common import maps, plots
from wane.experiments.common.checks import Lambdas
from wane.experiments.common.tables import select
from wane.experiments.contract import Claim, Experiment, Finding, NotTested, Settings, Tables
from wane.settings import Lambda
from wane.worlds.catalog import four_rooms
from wane.worlds.world import World

NAMES = ("a", "b", "both", "first")
ROUNDING = 1e-9


@dataclass(frozen=True)
class PatchOperator(Settings):
    """Settings of patch-operator."""

    lambdas: Lambdas = (0.0, 0.25, 0.5, 0.75, 1.0)
    """the λ of the curves"""
    shown: Lambda = 0.5
    """the λ of the maps"""

    @cached_property
    def world(self) -> World:
        """FourRooms."""
        return four_rooms()

    @property
    def patches(self) -> dict[str, Int[np.ndarray, " members"]]:
        """The two upper rooms, their union, and one state of the first room."""
        rows, columns = self.world.map.cells.T
        middle_row, middle_column = (size // 2 for size in self.world.map.shape)
        a = np.flatnonzero((rows < middle_row) & (columns < middle_column))
        b = np.flatnonzero((rows < middle_row) & (columns > middle_column))
        return dict(zip(NAMES, (a, b, np.concatenate([a, b]), a[:1]), strict=True))

    @property
    def kernel(self) -> Float[np.ndarray, "states states"]:
        """The transitions of a random walk."""
        moves = [self.world.mdp.action(a).toarray() for a in range(self.world.n_actions)]
        return np.mean(moves, axis=0)


def fixed(settings: PatchOperator) -> Tables:
    """Returns Φ of every patch from every state, for every λ."""
    tables, states = [], np.arange(settings.world.n_states)
    kernel, patches, discount = settings.kernel, list(settings.patches.values()), settings.world.discount
    for lam in sorted({*settings.lambdas, settings.shown}):
        phi = patch_representation(kernel, patches, Geometric(lam), discount=discount).matrix
        tables.append(pd.DataFrame({"lam": lam, "state": states} | dict(zip(NAMES, phi.T, strict=True))))
    return {"patches": pd.concat(tables, ignore_index=True)}


def draw(settings: PatchOperator, tables: Tables) -> Figure:
    """Draws maps of Φ for both patches, their union and what splitting adds, and means over all starts against λ."""
    figure = plots.figure(13.0, 6.4)
    grid = figure.add_gridspec(2, 3)
    rows = select(tables["patches"], lam=settings.shown).sort_values("state")
    apart = rows["a"] + rows["b"]
    panels = {
        "Φ(s, A): the upper left room (dots)": rows["a"],
        "Φ(s, B): the upper right room (crosses)": rows["b"],
        "Φ(s, A ∪ B): one patch": rows["both"],
        "Φ(s, A) + Φ(s, B): two patches": apart,
    }
    axes = [figure.add_subplot(grid[i // 2, i % 2]) for i in range(4)]
    images = []
    for ax, (title, values) in zip(axes, panels.items(), strict=True):
        largest, map = float(apart.max()), settings.world.map
        images.append(maps.heat_map(ax, map, values.to_numpy(), largest, title, numbers=False))
        _outline(ax, settings)
    figure.colorbar(images[0], ax=axes, shrink=0.7, label=f"Φ for λ = {settings.shown:g}, random walk")
    means = tables["patches"].groupby("lam")[list(NAMES)].mean()
    ax = figure.add_subplot(grid[:, 2])
    ax.plot(means.index, means["a"] + means["b"], "o-", color=plots.OTHERS[2], label="Φ(s, A) + Φ(s, B)")
    ax.plot(means.index, means["both"], "s-", color=plots.OTHERS[1], label="Φ(s, A ∪ B)")
    ax.fill_between(means.index, means["both"], means["a"] + means["b"], color=plots.GREY, alpha=0.25, lw=0)
    ax.set_yscale("log")
    ax.legend(frameon=False)
    plots.tidy(ax, "what splitting a patch adds", "λ", "mean over all starts")
    return figure


def _outline(ax: Any, settings: PatchOperator) -> None:
    """Marks the states of the two patches: A with dots, B with crosses."""
    for name, marker in (("a", "."), ("b", "x")):
        rows, columns = settings.world.map.cells[settings.patches[name]].T
        ax.plot(columns, rows, marker, ms=4, mew=1, color="white", alpha=0.8)


def is_subadditive(settings: PatchOperator, tables: Tables) -> Finding:
    """Tests that Φ(A ∪ B) ≤ Φ(A) + Φ(B) for every λ and state, and that the inequality is strict for λ < 1."""
    slack = _slack(tables)
    below = slack[slack.index < 1]
    strict = bool((below > ROUNDING).all().all()) if len(below) else True
    least = float(slack.min().min())
    return Finding(least >= -ROUNDING and strict, least, None, "the least of Φ(A) + Φ(B) − Φ(A ∪ B)")


def is_a_measure_at_one(settings: PatchOperator, tables: Tables) -> Finding:
    """Tests that Φ(A ∪ B) = Φ(A) + Φ(B) for λ = 1."""
    slack = _slack(tables)
    if 1.0 not in slack.index:
        raise NotTested("No patch has λ = 1: add 1 to lambdas.")
    largest = float(slack[slack.index == 1].abs().to_numpy().max())
    return Finding(largest < 1e-8, largest, None, "the largest |Φ(A) + Φ(B) − Φ(A ∪ B)| for λ = 1")


def _slack(tables: Tables) -> pd.DataFrame:
    """Returns Φ(A) + Φ(B) − Φ(A ∪ B), with the axes (λ, states)."""
    table = tables["patches"]
    found = table.assign(slack=table["a"] + table["b"] - table["both"])
    return found.pivot_table(index="lam", columns="state", values="slack")


def satisfies_its_recursion(settings: PatchOperator, tables: Tables) -> Finding:
    """Tests that Φ of a patch is the fixed point of the operator, with the patch in place of a state."""
    members = np.arange(settings.world.n_states)[:, None]
    visited = np.hstack([np.isin(members, patch) for patch in settings.patches.values()]).astype(float)
    largest = 0.0
    for lam, rows in tables["patches"].groupby("lam"):
        phi = rows.sort_values("state")[list(NAMES)].to_numpy()
        found = bellman_target(settings.kernel @ phi, visited, float(str(lam)), settings.world.discount)
        largest = max(largest, float(np.abs(found - phi).max()))
    return Finding(largest < 1e-8, largest, None, "the largest difference between the two sides")


def one_state_is_the_representation(settings: PatchOperator, tables: Tables) -> Finding:
    """Tests that Φ of a patch of one state is that state's column of the λR."""
    state, largest = int(settings.patches["first"][0]), 0.0
    for lam, rows in tables["patches"].groupby("lam"):
        phi = lambda_representation(settings.kernel, float(str(lam)), discount=settings.world.discount).matrix
        difference = rows.sort_values("state")["first"].to_numpy() - np.asarray(phi)[:, state]
        largest = max(largest, float(np.abs(difference).max()))
    return Finding(largest < 1e-8, largest, None, "the largest difference of an entry")


EXPERIMENT = Experiment(
    name="patch-operator",
    title="The λ operator on sets",
    source="section 4.1, lemma B.4",
    summary=(
        "Over sets of states, the λ operator Φ(s, X) counts visits to all of X together. It is not a measure: two "
        "patches that wear off as one are worth less than if each wears off alone, except for λ = 1."
    ),
    quick=PatchOperator(),
    paper=PatchOperator(),
    fixed=fixed,
    draw=draw,
    claims=(
        Claim(
            "subadditive",
            "Where both patches can be visited, Φ of their union is less than the sum for λ < 1, and never more.",
            is_subadditive,
            kind="identity",
        ),
        Claim("measure-at-one", "For λ = 1, Φ is additive.", is_a_measure_at_one, kind="identity"),
        Claim(
            "recursion",
            "Φ of a patch satisfies the recursion of the λR with the patch in place of a state.",
            satisfies_its_recursion,
            kind="identity",
        ),
        Claim(
            "one-state",
            "A patch of one state has that state's column of the λR.",
            one_state_is_the_representation,
            kind="identity",
        ),
    ),
    differences="The paper defines the λ operator on sets and proves subadditivity, without a figure.",
    paper_cost="none stated",
)
