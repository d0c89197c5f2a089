"""Dynamic programming for the λR on FourRooms, with and without slip (the paper's figure F.3): lower λ is faster.

From Φ⁰ = (1 − λ) I the paper applies its operator G_λ until the Bellman error max |Φᵏ⁺¹ − Φᵏ| is small. In the long run
a sweep multiplies the error of a column by the spectral radius of γ D P (or less), where D is λ in the row of the site
and 1 elsewhere. A deterministic walk ends in one site and returns to no other site. Its radius is λγ, and for λ = 0 the
answer is exact after as many sweeps as the longest path has steps. With slip the agent can be away from a site for very
long. Then the radius is close to γ for every λ, and a low λ has a head start but hardly a better rate (see
`lambda-vs-gamma`).
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wane.exact.bellman import iterate
from wane.lab import Claim, Experiment, Finding, NotTested, Settings, Tables, plots
from wane.worlds.catalog import four_rooms
from wane_paper.common.settings import Lambdas, Slip, Tolerance, slip_name
from wane_paper.texts import texts


@dataclass(frozen=True)
class DPConvergence(Settings):
    """Settings of dp-convergence."""

    lambdas: Lambdas = (0.0, 0.5, 1.0)
    """the λ's whose representations are computed"""
    slip: Slip = 0.2
    """chance of a random move in the noisy world"""
    tolerance: Tolerance = 0.05
    """Bellman error at which the paper stops, and at which sweeps are counted"""
    until: Tolerance = 1e-6
    """Bellman error to which the curves are drawn"""

    def rules(self) -> None:
        """Raises SettingError if the curves would end before the tolerance at which sweeps are counted."""
        super().rules()
        needed = f"at most {self.tolerance:g}, the tolerance, is needed, so that the curves are drawn at least that far"
        self.require(self.until <= self.tolerance, "until", needed)


def fixed(settings: DPConvergence) -> Tables:
    """Returns the Bellman error after every sweep, for both worlds, all policies and all λ's."""
    parts = []
    for slip in (0.0, settings.slip):
        world = four_rooms(slip=slip)
        for number, policy in enumerate(world.policies):
            kernel = world.mdp.under(policy)
            for lam in settings.lambdas:
                errors = iterate(kernel, lam, discount=world.discount, tolerance=settings.until).errors
                run = {"slip": slip, "policy": number, "lam": lam, "sweep": np.arange(1, len(errors) + 1)}
                parts.append(pd.DataFrame(run | {"error": errors}))
    return {"bellman_errors": pd.concat(parts)}


def sweeps(errors: pd.DataFrame, tolerance: float) -> pd.DataFrame:
    """Returns the sweeps until the Bellman error reaches the tolerance: rows are worlds and policies, columns λ's."""
    enough = errors[errors["error"] <= tolerance]
    return enough.pivot_table(index=["slip", "policy"], columns="lam", values="sweep", aggfunc="min").astype(int)


def draw(settings: DPConvergence, tables: Tables) -> Figure:
    """Draws the Bellman error against sweeps, with one panel for each world."""
    figure = plots.figure()
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for ax, (slip, rows) in zip(panels, tables["bellman_errors"].groupby("slip"), strict=True):
        plots.tidy(ax, slip_name(slip), "sweeps")
        for (lam, policy), run in rows.groupby(["lam", "policy"]):
            label = f"λ = {lam:g}" if policy == 0 else None
            errors = run["error"].clip(lower=settings.until / 10)  # an error of 0 leaves the panel at the bottom
            ax.plot(run["sweep"], errors, color=plots.colour(lam), lw=1.3, label=label)
        ax.axhline(settings.tolerance, color=plots.GREY, lw=0.8, ls=":")
        ax.set(xscale="log", yscale="log", ylim=(settings.until / 2, max(2.0, 2 * settings.tolerance)))
        ax.xaxis.set_major_formatter("{x:g}")
    panels[0].set_ylabel("Bellman error, four policies")
    panels[0].legend(frameon=False, loc="lower left")
    return figure


def fewer_sweeps(settings: DPConvergence, tables: Tables) -> Finding:
    """Tests that each λ needs fewer sweeps than the next larger λ."""
    if len(settings.lambdas) < 2:
        raise NotTested(f"lambdas = {settings.lambdas} leaves nothing to compare: give two or more")
    counts = sweeps(tables["bellman_errors"], settings.tolerance)
    ratio = counts.iloc[:, -1] / counts.iloc[:, 0]
    means = "; ".join(
        f"{slip_name(slip)}: " + ", ".join(f"{count:.1f} for λ = {lam:g}" for lam, count in row.items())
        for slip, row in counts.groupby("slip").mean().iterrows()
    )
    detail = f"sweeps until the Bellman error is {settings.tolerance:g}, mean of the four policies: {means}"
    holds = bool(np.all(np.diff(counts.to_numpy(), axis=1) > 0))
    return Finding(holds, float(ratio.min()), None, detail)


EXPERIMENT = Experiment(
    **texts("dp-convergence"),
    quick=DPConvergence(),
    paper=DPConvergence(),
    fixed=fixed,
    draw=draw,
    claims=(
        Claim(
            "fewer-sweeps",
            "For every policy, with and without slip, a lower λ reaches the tolerance in fewer sweeps.",
            fewer_sweeps,
            kind="paper",
            place="section 5.3, figure F.3",
        ),
    ),
)
