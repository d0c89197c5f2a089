"""Learning curves of λ-features from pixels: the loss of the base features, and the errors of fitted iteration.

One policy of FourRooms is evaluated. The errors are mean squared differences between wᵀφ_θ(s, a) and Q under the true λ
(the paper's error), Q under λ̂, or the exact λF of the same base features, over the data of that policy.

| table | kind | a row for each | columns |
| --- | --- | --- | --- |
| `base` | seeded | seed, epoch | seed, epoch, loss |
| `fits` | seeded | seed, target, λ̂, iteration | …, loss, error, own_error, features_error, correlation |
| `limits` | seeded | seed, λ̂ | seed, lam, error: of the exact λF of the base features against Q under the true λ |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import jax
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.agents.laplacian import collect_data
from wane.lab import Claim, Experiment, Finding, Loop, Tables, exceeds, plots
from wane.lab.statistics import paired_difference
from wane.lab.tables import frame, select
from wane.settings import Range
from wane_paper.common import beliefs
from wane_paper.networks import pixels
from wane_paper.networks.pixels import FromPixels
from wane_paper.texts import texts


@dataclass(frozen=True)
class Curves(FromPixels):
    """Settings of the learning curves."""

    policy: Annotated[int, Range(0, 1_000)] = 1
    """the number of the evaluated policy"""

    def rules(self) -> None:
        """Raises SettingError if the policy does not exist."""
        super().rules()
        last = len(self.world.policies) - 1
        self.require(
            self.policy <= last, "policy", f"at most {last} is needed, because FourRooms brings policies 0 to {last}"
        )


def seeded(settings: Curves, seeds: Sequence[int], loop: Loop) -> Tables:
    """Trains all agents of some seeds. Returns losses and errors."""
    data = collect_data(jax.random.key(0), settings.world, settings.agent.base)
    fits = pixels.train_seeds(loop, seeds, settings, data, [settings.policy])
    epochs, iterations = (range(1, count + 1) for count in (settings.agent.base.epochs, settings.agent.iterations))
    axes = {"seed": seeds, "target": settings.targets, "lam": settings.lambdas, "iteration": iterations}
    columns = {name: np.asarray(each, float).ravel() for name, each in fits.measured.items()}
    return {
        "base": frame(fits.base_loss, "loss", seed=seeds, epoch=epochs),
        "fits": frame(fits.measured["loss"][:, 0], "loss", **axes).assign(**columns),
        "limits": frame(fits.limits[:, 0], "error", seed=seeds, lam=settings.lambdas),
    }


def draw(settings: Curves, tables: Tables) -> Figure:
    """Draws the loss of the base features, and two errors of every target."""
    figure = plots.figure(11.5, 6.4)
    grid = figure.add_gridspec(2, 3)
    base = figure.add_subplot(grid[0, 0])
    plots.plot_learning(tables["base"], "epoch", "loss", None, "error", base)
    plots.tidy(base, "Base features", "epoch", "Laplacian loss")
    names = beliefs.names(settings.lambdas, settings.lam)
    colours = {names[lam]: plots.colour(lam) for lam in settings.lambdas}
    titles = {"product": "regressing wᵀφ (the paper)", "vector": "regressing φ"}
    errors = {"error": "error of Q (true λ)", "features_error": "error against the exact λF"}
    limits = tables["limits"].groupby("lam")["error"].mean()
    for column, target in enumerate(settings.targets):
        rows = select(tables["fits"], target=target)
        rows = rows.assign(agent=rows["lam"].map(names))
        for row, (name, label) in enumerate(errors.items()):
            ax = figure.add_subplot(grid[row, 1 + column])
            plots.plot_learning(rows, "iteration", name, interval="error", ax=ax, colours=colours)
            for lam in settings.lambdas if name == "error" else ():
                ax.axhline(limits[lam], color=plots.colour(lam), ls=":", lw=1)
            _log_scale(ax, rows[name])
            plots.tidy(ax, titles[target], "iteration", label)
    note = figure.add_subplot(grid[1, 0])
    plots.bars(
        note,
        [names[lam] for lam in settings.lambdas],
        [limits[lam] for lam in settings.lambdas],
        None,
        list(colours.values()),
    )
    _log_scale(note, limits)
    plots.tidy(note, "Error of Q with the exact λF\n(dotted on the right)", "", "mean squared error")
    return figure


def _log_scale(ax: Axes, errors: pd.Series) -> None:
    """Makes the axis logarithmic, unless every error is 0, which such an axis could not show."""
    if (errors > 0).any():
        ax.set_yscale("log")


def _last(tables: Tables, target: str, column: str) -> pd.DataFrame:
    """Returns a column after the last iteration, with the axes (seeds, λ̂)."""
    rows = select(tables["fits"], target=target)
    rows = rows[rows["iteration"] == rows["iteration"].max()]
    return rows.pivot_table(index="seed", columns="lam", values=column)


def lowest_error(settings: Curves, tables: Tables) -> Finding:
    """Tests that the error of Q ends lowest for the true λ, paired by seed, if the product is regressed."""
    settings.need_targets("product")
    return beliefs.least_for_the_true(_last(tables, "product", "error"), settings.lambdas, settings.lam)


def lowest_limit(settings: Curves, tables: Tables) -> Finding:
    """Tests that the error of the exact λF of the base features is lowest for the true λ, paired by seed."""
    errors = tables["limits"].pivot_table(index="seed", columns="lam", values="error")
    return beliefs.least_for_the_true(errors, settings.lambdas, settings.lam)


def all_features_are_closer_to_the_exact(settings: Curves, tables: Tables) -> Finding:
    """Tests whether regressing all features ends nearer to the exact λF than regressing wᵀφ_λ, for the true λ."""
    settings.need_targets("product", "vector")
    beliefs.need(settings.lambdas, settings.lam)
    product, vector = (_last(tables, target, "features_error")[settings.lam] for target in ("product", "vector"))
    found = paired_difference(product, vector)
    detail = f"mean squared error {vector.mean():.3g} against {product.mean():.3g}"
    return exceeds(found, detail)


EXPERIMENT = Experiment(
    **texts("lambda-features-curves"),
    quick=Curves(agent=pixels.QUICK, seeds=3),
    paper=Curves(seeds=3),
    seeded=seeded,
    draw=draw,
    claims=(
        Claim(
            "lowest-error",
            "The error of Q is lowest for the true λ, if the product wᵀφ is regressed as in the paper.",
            lowest_error,
        ),
        Claim(
            "vector-is-closer",
            "Regressing all features ends closer to the exact λF than regressing their product with w.",
            all_features_are_closer_to_the_exact,
        ),
        Claim(
            "exact-limit",
            "The exact λF of the learned base features is closest to the true Q for the true λ.",
            lowest_limit,
        ),
    ),
    double_precision=False,
)
