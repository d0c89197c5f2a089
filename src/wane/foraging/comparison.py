"""Which model explains an animal best: AIC, BIC and cross-validation over blocks of visits.

Cross-validation cuts the visits of each animal and environment, in their order, into blocks. Each block is predicted
with parameters that were fitted to all others. `held_out` is the sum of the log-probabilities of all blocks, and
`difference` is `held_out` minus the `held_out` of the best model. Its standard error is over animals (over blocks if
there is one animal), because animals are independent of each other, and single decisions are not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float

from wane.executors import Executor
from wane.foraging.arguments import Seed, check_arguments
from wane.foraging.decisions import Counts, Decisions, TaskArrays, expand, prepare, task_arrays
from wane.foraging.fitting import DataSets, Fit, check_fittable, fit_all, objective, set_axes
from wane.foraging.models import Model, Parameter, values_at
from wane.foraging.newton import minimise
from wane.foraging.sources import counted, listed, shown
from wane.foraging.visits import PatchVisits
from wane.settings import Count, Range

Blocks = Annotated[int, Range(0, 1_000_000, "a whole number of blocks")]


@dataclass(frozen=True, repr=False)
class Comparison:
    """Models that were fitted to the same visits."""

    table: pd.DataFrame
    """One row for each model, the best first: parameters, log_likelihood, aic, bic, held_out, difference, se."""
    by_subject: pd.DataFrame
    """One row for each model and subject: log_likelihood, aic, bic, held_out."""
    fits: dict[str, Fit]
    """The fits by the names of the models."""

    def __repr__(self) -> str:
        validated = self.table["held_out"].notna().all()
        worse = -self.table["difference"] if validated else self.table["delta_aic"]
        models = [f"{name} +{x:.1f}" for name, x in zip(self.table["model"], worse, strict=True)]
        what = "log-probability of held-out blocks below the best" if validated else "AIC above the best"
        return f"Comparison({what}: {listed(models)})"


@check_arguments
def compare(
    data: PatchVisits,
    models: Sequence[Model],
    *,
    pooled: bool = False,
    blocks: Blocks = 5,
    starts: Count = 4,
    seed: Seed = 0,
    executor: Executor | None = None,
) -> Comparison:
    """Fits every model and compares them. With `blocks=0` there is no cross-validation.

    An `executor` computes the fit of each model apart (`wane.executors`). Raises ValueError if two models have the same
    name, or if an animal has fewer visits than blocks.
    """
    names = distinct_names(models)
    if blocks:
        _check_blocks(data, blocks)
    for model in models:
        check_fittable(data, model)
    fits = dict(zip(names, fit_all(data, models, executor, pooled=pooled, starts=starts, seed=seed), strict=True))
    held = {name: cross_validate(found, blocks) if blocks else np.full((1, 1), np.nan) for name, found in fits.items()}
    by_subject = pd.concat([_by_subject(found, held[name]) for name, found in fits.items()], ignore_index=True)
    return Comparison(_summarise(by_subject, held), by_subject, fits)


def distinct_names(models: Sequence[Model]) -> list[str]:
    """The names of models. Raises ValueError if two have the same name, or if there are none."""
    names = [model.name for model in models]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two models are called {name!r}: give each a name of its own")
    if not names:
        raise ValueError("the list of models is empty: name one model at least, such as MarginalValue()")
    return names


def _check_blocks(data: PatchVisits, blocks: int) -> None:
    """Raises ValueError unless every animal has a visit for every block, and there are two blocks at least."""
    sizes = data.table.groupby(["subject", "environment"], sort=False).size()
    if not 2 <= blocks <= sizes.min():
        i, rows = int(sizes.to_numpy().argmin()), sizes.reset_index()
        raise ValueError(
            f"blocks = {blocks}: a whole number between 2 and {sizes.min()} is needed, because subject "
            f"{shown(rows['subject'], i)} has {counted(int(sizes.min()), 'visit')} in environment "
            f"{shown(rows['environment'], i)}; compare(…, blocks=0) holds no blocks out"
        )


@check_arguments
def cross_validate(found: Fit, blocks: Blocks) -> Float[np.ndarray, "subjects blocks"]:
    """The log-probability of each block of each subject, with parameters that were fitted to the other blocks.

    In a pooled fit the block is left out for all subjects. Raises ValueError unless there are between two blocks and as
    many as each animal has visits.
    """
    _check_blocks(found.data, blocks)
    model, data = found.model, found.data
    with jax.enable_x64(True):
        decisions, counts = prepare(data, model.learns, blocks)
        held = Counts(*(jnp.asarray(each) for each in counts))
        train = Counts(*(each.sum(1, keepdims=True) - each for each in held))
        names, task = tuple(model.parameters(data.task)), task_arrays(data.task)
        z = _train(model, names, _spread(decisions, train, found.pooled), task, jnp.asarray(found.z))
        subjects = held.stays.shape[0]
        z = jnp.broadcast_to(z, (subjects, *z.shape[1:])) if found.pooled else z
        return np.asarray(_test(model, names, decisions, held, task, z))


def _spread(decisions: Decisions, train: Counts, pooled: bool) -> DataSets:
    """Training sets, one for each block and (unless pooled) subject. The second axis is animals with one fit."""
    subjects, blocks, _ = train.stays.shape
    shared = decisions.kind.ndim == 1
    if pooled:
        counts = Counts(*(jnp.swapaxes(each, 0, 1) for each in train))
        return DataSets(decisions if shared else Decisions(*(jnp.stack([a] * blocks) for a in decisions)), counts)
    counts = Counts(*(each.reshape(subjects * blocks, 1, -1) for each in train))
    return DataSets(decisions if shared else Decisions(*(jnp.repeat(a, blocks, 0)[:, None] for a in decisions)), counts)


@partial(jax.jit, static_argnums=(0, 1))
def _train(model: Model, names: tuple[Parameter, ...], sets: DataSets, task: TaskArrays, start: Array) -> Array:
    """The parameters of every training set: (subjects, blocks, parameters). Searches start from the fit to all data."""
    begin = jnp.repeat(start, len(sets.counts.stays) // len(start), 0)

    def one(each: DataSets, z: Array) -> Array:
        return minimise(partial(objective, model, names, each, task), z).z

    found = jax.vmap(one, (set_axes(sets), 0))(sets, begin)
    return found.reshape(len(start), -1, found.shape[-1])


@partial(jax.jit, static_argnums=(0, 1))
def _test(
    model: Model, names: tuple[Parameter, ...], decisions: Decisions, held: Counts, task: TaskArrays, z: Array
) -> Array:
    shared = decisions.kind.ndim == 1

    def one(each: Decisions, counts: Counts, values: Array) -> Array:
        return model.log_likelihood(values_at(names, values), each, counts, task)

    over_blocks = jax.vmap(one, (None, 0, 0))
    return jax.vmap(over_blocks, (None if shared else 0, 0, 0))(decisions, held, z)


def _by_subject(found: Fit, held: Float[np.ndarray, "subjects blocks"]) -> pd.DataFrame:
    """The likelihoods of one model for every subject that was fitted."""
    rows = found.likelihoods.assign(model=found.model.name).drop(columns="agree")
    return rows.assign(held_out=held.sum() if len(rows) == 1 else held.sum(1) if len(held) > 1 else np.nan)


def _summarise(by_subject: pd.DataFrame, held: dict[str, Float[np.ndarray, "subjects blocks"]]) -> pd.DataFrame:
    """One row for each model, sorted by cross-validation, or by AIC if there was none."""
    columns = ["parameters", "log_likelihood", "aic", "bic", "held_out"]
    table = by_subject.groupby("model", sort=False)[columns].sum(min_count=1).reset_index()
    # Animals are independent of each other, and so are, where there is one animal, its blocks.
    units = {name: each.sum(1) if len(each) > 1 else each[0] for name, each in held.items()}
    validated = table["held_out"].notna().all()
    table = table.sort_values("held_out" if validated else "aic", ascending=not validated, ignore_index=True)
    best = units[table["model"].iloc[0]]
    differences = [units[name] - best for name in table["model"]]
    table["difference"] = [float(np.sum(each)) for each in differences]
    several = len(best) > 1
    table["se"] = [float(np.sqrt(len(each)) * np.std(each, ddof=1)) if several else np.nan for each in differences]
    table["delta_aic"] = table["aic"] - table["aic"].min()
    table["delta_bic"] = table["bic"] - table["bic"].min()
    return table


@check_arguments
def leaving_chances(found: Fit, subject: Any = None) -> pd.DataFrame:
    """The model's probability of leaving at each decision that was made, and the observed fraction.

    One row for each distinct decision: environment, kind, harvests, stays, leaves, observed, predicted. For a fit to
    each animal, `subject` chooses one; without it the predictions are averaged over the decisions of all animals.
    Models that learn are averaged in the same way. Raises ValueError if there is no such subject.
    """
    data, model = found.data, found.model
    if subject is not None and subject not in data.subjects:
        names = ", ".join(map(repr, data.subjects))
        raise ValueError(f"subject {subject!r} has no visits: name one of those that have, {names}")
    rows = expand(data)
    with jax.enable_x64(True):
        decisions, _ = prepare(data, True)
        task = task_arrays(data.task)
        z = jnp.broadcast_to(jnp.asarray(found.z), (len(data.subjects), found.z.shape[1]))
        params = values_at(model.parameters(data.task), z.T)
        logits = np.asarray(_leaving(model, params, decisions, task))
    place = rows.groupby("subject").cumcount().to_numpy()
    rows["predicted"] = 1 / (1 + np.exp(-logits[rows["subject"].to_numpy(), place]))
    if subject is not None:
        rows = rows[rows["subject"] == data.subjects.index(subject)]
    rows = rows[rows["stays"] + rows["leaves"] > 0]
    grouped = rows.groupby(["environment", "kind", "harvests"])
    table = grouped.agg(stays=("stays", "sum"), leaves=("leaves", "sum"), predicted=("predicted", "mean")).reset_index()
    table["observed"] = table["leaves"] / (table["stays"] + table["leaves"])
    table["environment"] = [data.task.environments[i] for i in table["environment"]]
    table["kind"] = [data.task.kinds[i] for i in table["kind"]]
    return table


@partial(jax.jit, static_argnums=0)
def _leaving(model: Model, params: dict[str, Array], decisions: Decisions, task: TaskArrays) -> Array:
    """The log-odds of every animal: (subjects, decisions)."""
    return jax.vmap(lambda own, each: model.leaving(own, each, task))(params, decisions)
