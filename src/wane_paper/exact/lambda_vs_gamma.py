"""λ against γ (the paper's appendix K): does a λ below 1 make up for the cost of a higher discount factor?

The paper sees dynamic programming converge faster for lower λ, and expects that with λ < 1 a higher γ, which looks
farther ahead, converges at a similar or better rate. In the long run a sweep multiplies the error by γ times the
spectral radius of D P (D is λ in the row of the site, 1 elsewhere), and after k sweeps the error is at most

    γ^k / (1 − λγ),

the corrected bound: λ affects the constant, γ the rate. So the expectation should hold

- where the agent can return to a site only at the next step, as in a deterministic walk that ends there: the rate is
  λγ;
- at a coarse tolerance, because the constant is smaller.

It should fail at a fine tolerance wherever returns to a site can take long, as with slip. Sweeps are counted by the
Bellman error, as in the paper, and also by the true error max |Φᵏ − Φ_λ|: for the same Bellman error, the true error is
larger if γ is higher.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import sparse

from wane.depletion import Geometric
from wane.exact.representations import representation
from wane.lab import Claim, Experiment, Finding, NotTested, Settings, Tables, plots
from wane.lab.tables import select
from wane.settings import DISTINCT, Lambda, Range
from wane.worlds.catalog import four_rooms
from wane_paper.common.settings import Lambdas, Slip, Tolerance, slip_name
from wane_paper.texts import texts

Errors = Float[np.ndarray, "sweeps lams"]

BelowOne = Annotated[float, Range(0, 0.9999, "a discount", above=True)]
"""A discount for which iterations end soon."""


@dataclass(frozen=True)
class LambdaVsGamma(Settings):
    """Settings of lambda-vs-gamma."""

    discounts: Annotated[tuple[BelowOne, ...], DISTINCT] = (0.9, 0.95, 0.97, 0.99)
    """the γ's that are compared"""
    lambdas: Lambdas = (0.0, 0.25, 0.5, 0.75, 1.0)
    """the λ's that are compared"""
    near: tuple[BelowOne, Lambda] = (0.97, 1.0)
    """γ and λ of the agent to beat, from the values above"""
    far: tuple[BelowOne, Lambda] = (0.99, 0.5)
    """γ and λ of an agent that looks farther ahead"""
    slip: Slip = 0.2
    """chance of a random move in the noisy world"""
    coarse: Tolerance = 0.05
    """tolerance at which the paper stops"""
    fine: Tolerance = 1e-6
    """a tolerance at which the rate decides"""

    def rules(self) -> None:
        """Raises SettingError if the tolerances are in the wrong order, or if an agent to compare is not run."""
        super().rules()
        self.require(self.fine <= self.coarse, "fine", f"at most {self.coarse:g} is needed, as coarse is")
        for name, (discount, lam) in (("near", self.near), ("far", self.far)):
            run = discount in self.discounts and lam in self.lambdas
            self.require(run, name, "one of the discounts and one of the lambdas are needed; or add it to them")


def fixed(settings: LambdaVsGamma) -> Tables:
    """Returns sweeps by γ and λ (`runs`), and the errors of the near and far agent by sweep (`errors`)."""
    runs, errors = {}, {}
    for slip in (0.0, settings.slip):
        world = four_rooms(slip=slip)
        for number, policy in enumerate(world.policies):
            for discount in settings.discounts:
                run, curves = _run(settings, sparse.csr_array(world.mdp.under(policy)), discount)
                runs[slip, number, discount] = run
                if number == 0:
                    errors[slip, discount] = curves
    runs = pd.concat(runs, names=["slip", "policy", "discount", "row"]).droplevel("row").reset_index()
    errors = pd.concat(errors, names=["slip", "discount", "row"]).droplevel("row").reset_index()
    return {"runs": runs, "errors": errors}


def _run(settings: LambdaVsGamma, kernel: sparse.csr_array, discount: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns one row for every λ, and the true errors by sweep for the λ's that are drawn."""
    lams = np.array(settings.lambdas)
    phi = np.asarray(representation(kernel, Geometric(lams[:, None]), discount=discount).matrix)
    bellman, true = iteration_errors(kernel, phi, lams, discount, settings.fine)
    run = {
        "lam": lams,
        "bellman_sweeps": sweeps_until(bellman, settings.coarse),
        "coarse_sweeps": sweeps_until(true, settings.coarse),
        "fine_sweeps": sweeps_until(true, settings.fine),
    }
    drawn = [i for i, lam in enumerate(lams) if (discount, lam) in (settings.near, settings.far)]
    sweep = np.tile(np.arange(1, len(true) + 1), len(drawn))
    curves = pd.DataFrame({"lam": np.repeat(lams[drawn], len(true)), "sweep": sweep, "error": true[:, drawn].T.ravel()})
    # Errors below a tenth of the fine tolerance are dropped; the first sweep is kept so that no curve is empty.
    return pd.DataFrame(run), curves[(curves["error"] > settings.fine / 10) | (curves["sweep"] == 1)]


def iteration_errors(
    kernel: sparse.csr_array,
    phi: Float[np.ndarray, "lams states states"],
    lams: Float[np.ndarray, " lams"],
    discount: float,
    until: float,
) -> tuple[Errors, Errors]:
    """Returns the Bellman errors and the true errors of dynamic programming after each sweep, with a column for each λ.

    Sweeps go on until both are at most `until`. G_λ is affine, so a sweep turns the error E = Φ_λ − Φᵏ into γ D P E,
    and the Bellman error is the difference of the two. G_λ is also monotone and starts below Φ_λ, so E ≥ 0 and neither
    needs an absolute value.
    """
    count, n, _ = phi.shape
    # All λ's stand side by side as the columns of one wide matrix, so that one product serves all of them.
    visited, lam = np.tile(np.eye(n), count), np.repeat(lams, n)
    factor = discount * np.where(visited == 1, lam, 1.0)  # γ D
    remaining = phi.transpose(1, 0, 2).reshape(n, -1) - (1 - lam) * visited
    bellman, true = [], []
    while not bellman or max(bellman[-1].max(), true[-1].max()) > until:
        previous, remaining = remaining, factor * (kernel @ remaining)
        bellman.append((previous - remaining).max(0).reshape(count, n).max(1))
        true.append(remaining.max(0).reshape(count, n).max(1))
    return np.array(bellman), np.array(true)


def sweeps_until(errors: Errors, tolerance: float) -> Int[np.ndarray, " lams"]:
    """Returns the number of sweeps until each column is at most the tolerance."""
    return (errors <= tolerance).argmax(0) + 1


def mean_over_policies(tables: Tables, column: str) -> pd.DataFrame:
    """Returns a column of the runs, averaged over the policies: rows are slip and γ, columns λ."""
    return tables["runs"].pivot_table(index=["slip", "discount"], columns="lam", values=column, dropna=False)


def draw(settings: LambdaVsGamma, tables: Tables) -> Figure:
    """Draws sweeps against the horizon in both worlds, and the errors of the two agents in the noisy world."""
    figure = plots.figure(10.0, 3.6)
    panels = figure.subplots(1, 3)
    counts = mean_over_policies(tables, "fine_sweeps")
    for ax, slip in zip(panels, (0.0, settings.slip), strict=False):
        _draw_sweeps(
            ax, counts.loc[[slip]].droplevel("slip"), f"{slip_name(slip)}, to an error of {plots.power(settings.fine)}"
        )
        ax.set_ylim(counts.to_numpy().min() / 1.6, 1.2 * counts.to_numpy().max())
    panels[1].legend(frameon=False, fontsize="small", loc="lower right", ncols=2)
    ax = plots.tidy(panels[2], f"{slip_name(settings.slip)}, one policy", "sweeps", "max |Φᵏ − Φ|")
    errors = tables["errors"]
    for (discount, lam), run in select(errors, slip=settings.slip).groupby(["discount", "lam"]):
        ax.plot(run["sweep"], run["error"], color=plots.colour(lam), label=f"γ = {discount:g}, λ = {lam:g}")
    ax.axhline(settings.coarse, color=plots.GREY, lw=0.8, ls=":")
    ax.set(yscale="log")
    ax.set_ylim(bottom=min(settings.fine, errors["error"].max() / 10))
    words, place = f"the paper's tolerance, {settings.coarse:g}", ax.get_yaxis_transform()
    ax.text(1, settings.coarse, words, transform=place, ha="right", va="bottom")
    ax.legend(frameon=False, fontsize="small")
    return figure


def _draw_sweeps(ax: Axes, counts: pd.DataFrame, title: str) -> None:
    plots.tidy(ax, title, "1 / (1 − γ)", "sweeps")
    horizon = 1 / (1 - counts.index.to_numpy())
    for lam, column in counts.items():
        ax.plot(horizon, column, "o-", ms=4, color=plots.colour(lam), label=f"λ = {lam:g}")
    ax.set(xscale="log", yscale="log", xticks=horizon, xticklabels=[f"{h:.0f}" for h in horizon])
    ax.minorticks_off()
    ax.yaxis.set_major_formatter("{x:g}")


def lower_is_faster(settings: LambdaVsGamma, tables: Tables) -> Finding:
    """Tests that each λ needs no more sweeps than the next larger λ, at every γ."""
    if len(settings.lambdas) < 2:
        raise NotTested(f"lambdas = {settings.lambdas} leaves nothing to compare: give two or more")
    coarse, fine = (mean_over_policies(tables, f"{name}_sweeps") for name in ("coarse", "fine"))
    rises = [np.diff(counts.to_numpy(), axis=1).min() for counts in (coarse, fine)]
    ratio = fine.iloc[:, -1] / fine.iloc[:, 0]
    by_world = "; ".join(
        f"{slip_name(slip)} {rows.min():.1f} to {rows.max():.1f} times" for slip, rows in ratio.groupby(level="slip")
    )
    detail = (
        f"sweeps to {plots.power(settings.fine)}, λ = {fine.columns[-1]:g} against λ = {fine.columns[0]:g}: {by_world}"
    )
    return Finding(bool(min(rises) >= 0), float(ratio.min()), None, detail)


def _compare(settings: LambdaVsGamma, tables: Tables, column: str, what: str) -> Finding:
    """Tests that a column is no larger for the far agent than for the near one, in both worlds."""
    (far_discount, far_lam), (near_discount, near_lam) = settings.far, settings.near
    agents = f"γ = {far_discount:g} with λ = {far_lam:g} against γ = {near_discount:g} with λ = {near_lam:g}"
    if far_discount <= near_discount or far_lam >= near_lam:
        raise NotTested(f"{agents}: the claim needs a far agent with a higher γ and a lower λ than the near one has")
    means = mean_over_policies(tables, column)
    far, near = (means[lam].xs(discount, level="discount") for discount, lam in (settings.far, settings.near))
    pairs = {slip: (far[slip], near[slip]) for slip in (0.0, settings.slip)}
    by_world = "; ".join(f"{slip_name(slip)} {far:.0f} against {near:.0f}" for slip, (far, near) in pairs.items())
    worst = float(max(far / near for far, near in pairs.values()))
    return Finding(worst <= 1, worst, None, f"{what}, {agents}: {by_world}")


def higher_discount_coarse(settings: LambdaVsGamma, tables: Tables) -> Finding:
    """Tests that the far agent needs no more sweeps to the paper's tolerance, by the Bellman and the true error."""
    bellman = _compare(settings, tables, "bellman_sweeps", f"sweeps to a Bellman error of {settings.coarse:g}")
    true = _compare(settings, tables, "coarse_sweeps", f"to a true error of {settings.coarse:g}")
    worse = max(bellman.estimate, true.estimate)
    return Finding(bellman.holds and true.holds, worse, None, f"{bellman.detail}; {true.detail}")


def higher_discount_fine(settings: LambdaVsGamma, tables: Tables) -> Finding:
    """Tests that the far agent needs no more sweeps to a fine tolerance, by the true error."""
    return _compare(settings, tables, "fine_sweeps", f"sweeps to a true error of {settings.fine:g}")


EXPERIMENT = Experiment(
    **texts("lambda-vs-gamma"),
    quick=LambdaVsGamma(),
    paper=LambdaVsGamma(),
    fixed=fixed,
    draw=draw,
    claims=(
        Claim(
            "lower-is-faster",
            "At every γ, a lower λ takes no more sweeps, on average over the policies.",
            lower_is_faster,
            kind="paper",
            place="appendix K",
        ),
        Claim(
            "higher-discount-coarse",
            "At the paper's tolerance, a lower λ at a higher γ takes no more sweeps than a higher λ at a lower γ "
            "(by default λ = ½ against λ = 1).",
            higher_discount_coarse,
            kind="paper",
            place="appendix K",
        ),
        Claim(
            "higher-discount-fine",
            "At a fine tolerance too, a lower λ at a higher γ takes no more sweeps than a higher λ at a lower γ "
            "(by default λ = ½ against λ = 1).",
            higher_discount_fine,
        ),
    ),
)
