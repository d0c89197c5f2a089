"""Eight rats that leave patches: do they stay too long because they believe that patches wear off too slowly?

The paper suggests (section 6) that too large a λ may explain why animals overstay in depleted patches. This experiment
tests the suggestion on the rats of Kane et al. (2019). Their task is solved exactly (`wane.foraging.theorem`), under
the true depletion and under a believed one, and models of when rats leave are fitted and compared, for each rat and for
all rats together.

A belief has two forms. A rat that is "told" sees what each harvest pays and predicts the next rewards from it; a rat
that "counts" predicts them from the kind of patch and the number of harvests. The reward rate that it expects elsewhere
follows from the same belief. Rivals are the theorem with a constant bias towards staying, the theorem with a learned
average, and a future that is discounted, exponentially or quasi-hyperbolically (the explanation of Kane et al.).
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane import foraging
from wane.foraging.planners import MODELS
from wane.lab import Claim, Experiment, Finding, NotTested, Settings, Tables, exceeds, plots, stays_below
from wane.lab.statistics import Estimate, bootstrap
from wane.lab.tables import select
from wane.settings import DISTINCT, Range
from wane_paper.texts import texts

TRUE_DROP = 8.0
"""By how much each harvest pays less than the previous one, in µL."""
NAMES = (
    "theorem",
    "theorem-bias",
    "learned-average",
    "thresholds",
    "exponential",
    "quasi-hyperbolic",
    "drop-told",
    "drop-counted",
    "lambda-told",
    "lambda-counted",
    "drop-told-bias",
)
"""The models of `wane.foraging.planners` that are compared."""
FEW = ("theorem", "theorem-bias", "quasi-hyperbolic", "drop-counted", "lambda-counted", "drop-told-bias")
"""The models that the claims need, for the quick scale."""
BELIEFS = ("drop-told", "drop-counted", "lambda-told", "lambda-counted")
"""Models that explain overstaying by the belief alone."""


@dataclass(frozen=True)
class Rats(Settings):
    """Settings of rats."""

    models: Annotated[tuple[str, ...], DISTINCT] = NAMES
    """models to fit, by their names"""
    starts: Annotated[int, Range(1, 100)] = 3
    """searches for each maximum of the likelihood"""
    blocks: Annotated[int, Range(0, 50)] = 0
    """blocks of visits for cross-validation; 0 leaves it out"""
    thorough: bool = True
    """whether intervals are found, and all rats are fitted together too"""
    last_harvest: Literal["chosen", "forced"] = "chosen"
    """whether visits of 7, 11 and 15 harvests, the longest of each kind, ended by choice"""

    def rules(self) -> None:
        """Raises SettingError for an unknown model, and for a single block, which leaves no other block to fit."""
        super().rules()
        strange = [name for name in self.models if name not in MODELS]
        self.require(not strange, "models", f"names of models are needed: {', '.join(MODELS)}")
        self.require(self.blocks != 1, "blocks", "0, or at least 2 is needed, because the other blocks are fitted")


def fixed(settings: Rats) -> Tables:
    """Returns harvests compared with the optimum, harvests of each rat, and log-likelihoods and estimates by model."""
    data = foraging.rats(settings.last_harvest)
    by_rat = data.table.groupby(["subject", "environment", "kind"], sort=False)["harvests"].mean().reset_index()
    likelihoods, estimates = [], []
    for name in settings.models:
        for pooled in (False, True) if settings.thorough else (False,):
            intervals = None if settings.thorough else "none"
            found = foraging.fit(data, MODELS[name], pooled=pooled, starts=settings.starts, intervals=intervals)
            held = foraging.cross_validate(found, settings.blocks).sum(1) if settings.blocks else None
            scores = found.likelihoods.drop(columns="agree").assign(model=name, pooled=pooled)
            # A pooled fit has a single row, for all rats together.
            scores["held_out"] = np.nan if held is None else held.sum() if pooled else held
            likelihoods.append(scores)
            estimates.append(found.estimates.drop(columns="unit").assign(model=name, pooled=pooled))
    both = [pd.concat(each, ignore_index=True) for each in (likelihoods, estimates)]
    both = [table.assign(subject=table["subject"].astype(str)) for table in both]
    table = foraging.harvests_beside_optimum(data)
    return {"harvests": table, "by_rat": by_rat, "likelihoods": both[0], "estimates": both[1]}


def per_rat(tables: Tables, model: str, column: str = "aic") -> Float[np.ndarray, " rats"]:
    """Returns a column of one model's likelihoods, one entry per rat. Raises NotTested if the model was not fitted."""
    rows = select(tables["likelihoods"], model=model, pooled=False)
    if rows.empty:
        raise NotTested(f"The model {model} was not fitted: name it among the models.")
    return rows.sort_values("subject")[column].to_numpy()


def best_of(tables: Tables, names: tuple[str, ...]) -> str:
    """Returns the model with the least AIC, summed over rats. Raises NotTested if none of the models was fitted."""
    fitted = [name for name in names if name in set(tables["likelihoods"]["model"])]
    if not fitted:
        raise NotTested(f"None of the models {', '.join(names)} was fitted: name one of them.")
    return min(fitted, key=lambda name: per_rat(tables, name).sum())


def overstay(settings: Rats, tables: Tables) -> Finding:
    """Tests that every mean stay is longer than the optimum; the estimate is the least difference."""
    best = tables["harvests"].set_index(["environment", "kind"])["optimal"]
    wide = tables["by_rat"].pivot(index="subject", columns=["environment", "kind"], values="harvests")
    found = {key: bootstrap((wide[key] - best[key]).to_numpy()) for key in wide.columns}
    least = min(found, key=lambda key: found[key].low)
    more = ", ".join(f"{e} {k} {one.value:+.1f}" for (e, k), one in found.items())
    return exceeds(found[least], f"harvests more than optimal: {more}")


def advantage(tables: Tables, model: str, rival: str) -> Estimate:
    """Estimates a model's mean advantage over a rival in log-likelihood per rat: half the difference of their AIC."""
    return bootstrap((per_rat(tables, rival) - per_rat(tables, model)) / 2)


def belief_explains(settings: Rats, tables: Tables) -> Finding:
    """Compares the best model that has only a belief with the best of its rivals."""
    belief, rival = best_of(tables, BELIEFS), best_of(tables, ("theorem-bias", "exponential", "quasi-hyperbolic"))
    found = advantage(tables, belief, rival)
    detail = f"{belief} against {rival}, in units of log-likelihood for each rat, AIC counted"
    if "theorem" in settings.models:
        detail += f"; {belief} is {advantage(tables, belief, 'theorem')} better than the theorem"
    return exceeds(found, detail)


def believed_slower(settings: Rats, tables: Tables) -> Finding:
    """Tests that the geometric mean over rats of the drop that counting rats believe in is below the true drop."""
    table = select(tables["estimates"], parameter="drop")
    rows = select(table, model="drop-counted", pooled=False, identified=True)
    if len(rows) < 2:
        raise NotTested("The model drop-counted was not fitted, or its drop is not identified in two rats.")
    logs = bootstrap(np.log(rows["value"].to_numpy()))
    found = Estimate(*(float(np.exp(each)) for each in logs))
    pooled = select(table, model="drop-told", pooled=True)
    other = f"; rats that are told would believe in {pooled['value'].iloc[0]:.1f} µL" if len(pooled) else ""
    return stays_below(found, TRUE_DROP, f"the true drop is {TRUE_DROP:g} µL; {len(rows)} rats{other}")


def present_bias(settings: Rats, tables: Tables) -> Finding:
    """Compares quasi-hyperbolic discounting with the best of the other models that solve the task or know its rate."""
    rival = best_of(tables, ("theorem", "theorem-bias", "exponential", *BELIEFS))
    found = advantage(tables, "quasi-hyperbolic", rival)
    return exceeds(found, f"against {rival}, in units of log-likelihood for each rat, AIC counted")


def draw(settings: Rats, tables: Tables) -> Figure:
    """Draws harvests with the optimum, the AIC of the models, and the believed drop of each rat."""
    figure = plots.figure(12.5, 4.2)
    harvests, models, beliefs = figure.subplots(1, 3, width_ratios=[1.1, 1.3, 0.8])
    _draw_harvests(harvests, tables)
    _draw_models(models, tables)
    _draw_beliefs(beliefs, tables)
    return figure


def _draw_harvests(ax: Axes, tables: Tables) -> None:
    plots.tidy(ax, "rats stay longer than is best", "", "harvests before leaving")
    table, rats = tables["harvests"], tables["by_rat"]
    rows: list[list[Any]] = table[["environment", "kind", "observed", "optimal"]].values.tolist()
    for i, (environment, kind, observed, optimal) in enumerate(rows):
        own = select(rats, environment=environment, kind=kind)["harvests"]
        ax.plot(i + np.linspace(-0.15, 0.15, len(own)), own, "o", ms=3.5, color=plots.OTHERS[1], alpha=0.6)
        means = (observed, plots.OTHERS[1], "-", "rats"), (optimal, plots.INK, ":", "optimum")
        for mean, shade, style, label in means:
            ax.plot([i - 0.28, i + 0.28], [mean] * 2, style, color=shade, lw=2, label=None if i else label)
    ax.set_xticks(range(len(table)), [f"{row.kind}\n{row.environment}" for row in table.itertuples()])
    ax.set_ylim(0, None)
    ax.legend(frameon=False, loc="upper left")


def _draw_models(ax: Axes, tables: Tables) -> None:
    """Draws the AIC of each model for each rat, relative to the model that is best overall."""
    names = tables["likelihoods"]["model"].drop_duplicates().tolist()
    names = sorted(names, key=lambda name: per_rat(tables, name).sum())
    best = per_rat(tables, names[0])
    for i, name in enumerate(names):
        worse = per_rat(tables, name) - best
        shade = plots.OTHERS[2] if name in BELIEFS else plots.OTHERS[1]
        ax.plot(worse, np.full(len(worse), i) + np.linspace(-0.2, 0.2, len(worse)), "o", ms=3.5, color=shade, alpha=0.7)
        ax.plot([worse.mean()] * 2, [i - 0.3, i + 0.3], color=shade, lw=2)
    ax.set_xscale("symlog", linthresh=10)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    plots.tidy(ax, "a belief alone explains badly", f"AIC above that of {names[0]}, for each rat", "")


def _draw_beliefs(ax: Axes, tables: Tables) -> None:
    """Draws the believed drop of each rat, with its interval where the drop is identified."""
    plots.tidy(ax, "believed drop", "", "µL less with each harvest")
    table = tables["estimates"]
    ax.axhline(TRUE_DROP, color=plots.INK, ls=":", label="true")
    shown = [name for name in ("drop-counted", "drop-told", "drop-told-bias") if name in set(table["model"])]
    for i, name in enumerate(shown):
        rows = select(table, model=name, parameter="drop", pooled=False)
        at = i + np.linspace(-0.25, 0.25, len(rows))
        value: Any = rows["value"].to_numpy()
        known = rows["identified"].to_numpy(bool)
        ends = np.abs(rows[["low", "high"]].to_numpy() - value[:, None]).T[:, known]
        ax.errorbar(at[known], value[known], ends, fmt="o", ms=4, color=plots.OTHERS[2], lw=1)
        ax.plot(at[~known], value[~known], "o", ms=4, mfc="white", mec=plots.OTHERS[2])
    ax.set_xticks(range(len(shown)), [name.removeprefix("drop-").replace("-", "\n") for name in shown])
    ax.set_ylim(0, None)
    ax.legend(frameon=False, loc="upper left")


EXPERIMENT = Experiment(
    **texts("rats"),
    quick=Rats(FEW, starts=2, thorough=False),
    paper=Rats(starts=8, blocks=5),
    fixed=fixed,
    draw=draw,
    claims=(
        Claim("overstay", "The rats stay longer than is best, in every kind of patch and both environments.", overstay),
        Claim(
            "belief-explains",
            "A belief in a slower depletion, and nothing else, explains when the rats leave better than a bias to "
            "stay or a discounted future does.",
            belief_explains,
        ),
        Claim(
            "believed-slower",
            "Fitted to rats that would count harvests, the believed drop is smaller than the true one, as the paper's "
            "account has it.",
            believed_slower,
        ),
        Claim(
            "present-bias",
            "Quasi-hyperbolic discounting explains when the rats leave better than the theorem, exponential "
            "discounting and beliefs, as Kane et al. found.",
            present_bias,
        ),
    ),
)
