"""Which models can be told apart with data like these.

`confusion` simulates animals from every model and fits all models to each of them: is the right one chosen? The answer
depends on the animal. An animal whose discounting is weak behaves like one without discounting, and data of this size
cannot tell them apart. So before choices are counted, we find which models differ in data like those of each animal.
With d = BIC_j − BIC_i in data that model i made,

    i is told apart from j   if   mean of d  ≥  2 · standard deviation of d from one data set to the next.

If d were normal, i would then be preferred to j in 98 % of such data sets. From the first half of the copies, the mean
is measured for each animal, and the standard deviation for all animals together. Only the second half is counted in the
matrix of choices, so that no choice is classified by its own score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd

from wane.executors import Executor, compute
from wane.foraging.arguments import Seed, check_arguments
from wane.foraging.comparison import distinct_names
from wane.foraging.fitting import Fit, check_fittable, fit
from wane.foraging.models import Model
from wane.foraging.recovery import check_parameters, simulate
from wane.foraging.sources import counted, listed
from wane.foraging.visits import PatchVisits
from wane.names import unknown
from wane.settings import Count, Range
from wane.types import Real

CLEAR = 2.0
"""How many standard deviations the mean difference of AIC or BIC must be for models to be told apart."""
KEYS = ["true", "animal", "copy"]
Copies = Annotated[int, Range(4, 1_000_000)]
"""Half of the copies measure which models differ, and a spread needs two of them."""


@dataclass(frozen=True, repr=False)
class Confusion:
    """The scores of all models for animals that were simulated from each of them."""

    scores: pd.DataFrame
    """One row for each simulated animal: true (the model), animal (which was copied), copy, then AIC or BIC of each
    model. The first half of the copies measures differences, the second half is counted."""

    def __repr__(self) -> str:
        right = self.choices().groupby("true", sort=False)["right"].mean()
        shares = [f"{name} {share:.0%}" for name, share in right.items()]
        return f"Confusion({counted(len(self.scores), 'simulated animal')}, chosen rightly: {listed(shares)})"

    @property
    def models(self) -> list[str]:
        """The names of the models."""
        return [name for name in self.scores.columns if name not in KEYS]

    def differences(self) -> pd.DataFrame:
        """One row for each true model, animal and other model: difference, sd, told_apart.

        `difference` is the score of the other model minus that of the true one, averaged over the first half of the
        copies. `sd` is its standard deviation between copies of one animal, pooled over all animals.
        """
        rows = self.scores[self.scores["copy"] < self._half()]
        own = rows.melt(KEYS, self.models, "other", "score")
        truth = own[own["other"] == own["true"]].set_index(KEYS)["score"].rename("right")
        own = own[own["other"] != own["true"]].join(truth, on=KEYS)
        own["difference"] = own["score"] - own["right"]
        grouped = own.groupby(["true", "animal", "other"], sort=False)["difference"]
        table = grouped.agg(difference="mean", variance="var").reset_index()
        table["sd"] = np.sqrt(table.groupby(["true", "other"])["variance"].transform("mean"))
        return table.drop(columns="variance").assign(told_apart=table["difference"] >= CLEAR * table["sd"])

    def choices(self) -> pd.DataFrame:
        """One row for each counted animal: true, animal, copy, chosen, right, alike, apart.

        `alike` says whether the chosen model is the true one or one that is not told apart from it in data like those
        of this animal. `apart` says whether the true model is told apart from all others there.
        """
        rows = self.scores[self.scores["copy"] >= self._half()]
        table = rows[KEYS].assign(chosen=rows[self.models].idxmin(axis=1)).reset_index(drop=True)
        found = self.differences()
        differ = {(t, a, o): bool(x) for t, a, o, x in found[["true", "animal", "other", "told_apart"]].to_numpy()}
        table["right"] = table["chosen"] == table["true"]
        cells = list(table[["true", "animal", "chosen"]].itertuples(index=False, name=None))
        table["alike"] = [true == chosen or not differ[true, animal, chosen] for true, animal, chosen in cells]
        apart = found.groupby(["true", "animal"])["told_apart"].all()
        table["apart"] = [bool(apart[true, animal]) for true, animal, _ in cells]
        return table

    def summary(self) -> pd.DataFrame:
        """One row for each true model: how often it is chosen, and how often where it is told apart from all others.

        `animals_apart` of `animals` have data in which the model is told apart from all others, and `right_apart` is
        the share of right choices there, missing if there are none. `right_or_alike` also counts models that are not
        told apart from the true one as right, and `not_told_apart` names them with the number of such animals.
        """
        choices, found = self.choices(), self.differences()
        rows = []
        for name in self.models:
            own, other = choices[choices["true"] == name], found[(found["true"] == name) & ~found["told_apart"]]
            apart = own[own["apart"]]
            counts = other.groupby("other", sort=False).size()
            rows.append(
                {
                    "model": name,
                    "right": own["right"].mean(),
                    "animals_apart": apart["animal"].nunique(),
                    "animals": own["animal"].nunique(),
                    "right_apart": apart["right"].mean() if len(apart) else np.nan,
                    "right_or_alike": own["alike"].mean(),
                    "not_told_apart": ", ".join(f"{name} ({count})" for name, count in counts.items()),
                }
            )
        return pd.DataFrame(rows)

    def matrix(self) -> pd.DataFrame:
        """How often each model (columns) is chosen when animals are simulated from each model (rows)."""
        table = self.choices()
        shares = pd.crosstab(table["true"], table["chosen"], normalize="index")
        return (
            shares.reindex(index=self.models, columns=self.models, fill_value=0.0)
            .rename_axis(None)
            .rename_axis(None, axis=1)
        )

    def groups(self) -> list[list[str]]:
        """The models in groups. Two models share one if one of them is not told apart from the other in most animals.

        Groups that share a model are joined.
        """
        share = self.differences().groupby(["true", "other"])["told_apart"].mean()
        groups = [[name] for name in self.models]
        for true, other in share.index[share < 0.5]:
            joined = [group for group in groups if true in group or other in group]
            merged = [name for name in self.models if any(name in group for group in joined)]
            groups = [group for group in groups if group not in joined] + [merged]
        return sorted(groups, key=lambda group: self.models.index(group[0]))

    def grouped(self) -> pd.DataFrame:
        """The matrix of `matrix` with the models of each group taken together. A group weighs its models equally."""
        names = {name: " / ".join(group) for group in self.groups() for name in group}
        order = list(dict.fromkeys(names.values()))
        columns = self.matrix().rename(columns=names).T.groupby(level=0).sum().T
        return columns.rename(index=names).groupby(level=0).mean().reindex(index=order, columns=order)

    def _half(self) -> int:
        """The number of copies that measure differences."""
        return (int(self.scores["copy"].max()) + 1) // 2


@check_arguments
def confusion(
    models: Sequence[Model],
    like: PatchVisits,
    *,
    copies: Copies = 10,
    criterion: Literal["aic", "bic"] = "bic",
    seed: Seed = 0,
    starts: Count = 4,
    params: Mapping[str, Fit | Mapping[str, Real]] | None = None,
    executor: Executor | None = None,
) -> Confusion:
    """Simulates animals from every model, fits all models to each, and says which are told apart and chosen.

    Every animal of `like` is copied `copies` times with the parameters that were fitted to it, or with `params`, by the
    names of the models. An `executor` computes each simulated model apart (`wane.executors`). Raises ValueError for an
    unknown criterion, for fewer than four copies, and for models or parameters that cannot be used, before anything is
    simulated.
    """
    names = distinct_names(models)
    for name in params or {}:
        if name not in names:
            raise unknown("model in params", name, names)
    for model in models:
        check_fittable(like, model)
        if params and model.name in params:
            check_parameters(model, like, params[model.name])
    given = {"models": models, "like": like, "copies": copies, "criterion": criterion, "seed": seed, "starts": starts}
    parts = compute(partial(_fits_to, given, params or {}), range(len(models)), executor)
    return Confusion(pd.concat(parts, ignore_index=True))


def _fits_to(given: Mapping[str, Any], params: Mapping[str, Any], number: int) -> pd.DataFrame:
    """Returns how well each model fits animals that were simulated from one of them, by its number."""
    models, like, settings = given["models"], given["like"], {name: given[name] for name in ("seed", "starts")}
    model, own = models[number], params.get(models[number].name)
    truth = fit(like, model, intervals="none", **settings) if own is None else own
    animals = simulate(model, like, truth, copies=given["copies"], seed=given["seed"] + number)
    table = animals.table.drop_duplicates("subject")[["animal"]].reset_index(drop=True)
    table.insert(0, "true", model.name)
    table["copy"] = table.groupby("animal").cumcount()
    for each in models:
        found = fit(animals, each, intervals="none", **settings)
        table[each.name] = found.likelihoods[given["criterion"]].to_numpy()
    return table
