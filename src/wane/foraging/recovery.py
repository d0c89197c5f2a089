"""Simulated animals: what would be found if a model were true.

`simulate` lets a model make the visits of given data: the same patches in the same order, with leaving drawn at random.
`recover` fits the model to many such animals: are the parameters found again, and do the intervals cover them as often
as they claim? `wane.foraging.confusions` finds which models can be told apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, Int

from wane.foraging.arguments import Level, Seed, check_arguments
from wane.foraging.decisions import Decisions, TaskArrays, codes, decisions_after, task_arrays
from wane.foraging.fitting import EVERYONE, Fit, Intervals, fit
from wane.foraging.models import LearningModel, Model
from wane.foraging.sources import listed
from wane.foraging.visits import PatchVisits
from wane.settings import Count
from wane.types import Real

Harvests = Int[np.ndarray, "copies visits"]


@check_arguments
def simulate(
    model: Model, like: PatchVisits, params: Fit | Mapping[str, Real], *, copies: Count = 1, seed: Seed = 0
) -> PatchVisits:
    """Simulates visits to the patches of `like`. Each copy of an animal is a subject with a new number.

    `params` are the parameters by name, or a fit, which gives each animal its own parameters. A visit that would go on
    for more than twice the longest curve is cut there, and one that reaches its `limit` ends; both are censored. The
    column `animal` says which animal of `like` was copied. Raises ValueError for fewer than one copy, and for
    parameters that are not the model's.
    """
    check_parameters(model, like, params)
    rng = np.random.default_rng(seed)
    tables, rewards, number = [], [], 0
    longest = max(2 * like.task.longest, like.rewards.shape[1] - 1)
    with jax.enable_x64(True):
        for animal, own in like.by_subject():
            paid = np.pad(own.rewards, ((0, 0), (0, longest + 1 - own.rewards.shape[1])))
            values = _parameters_of(params, animal)
            harvests = _draw(model, own, paid, values, copies, rng)
            limit = own.table["limit"].to_numpy() if "limit" in own.table else np.full(len(own.table), longest + 1)
            limit = np.minimum(limit, longest)
            for each in harvests:
                ended = each >= limit if "limit" in own.table else each > limit
                simulated = {"subject": number, "harvests": np.minimum(each, limit), "censored": ended}
                tables.append(own.table.assign(animal=animal, **simulated))
                rewards.append(paid)
                number += 1
    return PatchVisits(pd.concat(tables, ignore_index=True), like.task, np.concatenate(rewards), like.fresh)


def check_parameters(model: Model, like: PatchVisits, params: Fit | Mapping[str, Real]) -> None:
    """Raises ValueError unless there is a finite number for each parameter of the model, for every animal."""
    needed = [parameter.name for parameter in model.parameters(like.task)]
    animals = [EVERYONE] if isinstance(params, Fit) and params.pooled else like.subjects
    for animal in animals:
        given = params.parameters(animal) if isinstance(params, Fit) else params
        for name in [*given, *needed]:
            if name not in given or name not in needed:
                raise ValueError(
                    f"the parameters of {model.name} are {', '.join(needed)}: params has "
                    f"{'an unknown' if name in given else 'no'} {name!r}; give each of them, by its name"
                )
            if not np.isfinite(given[name]):
                raise ValueError(f"the parameter {name} is {given[name]}: give a finite number")


def _parameters_of(params: Fit | Mapping[str, Real], animal: Any) -> dict[str, float]:
    """The parameters of one animal."""
    if isinstance(params, Fit):
        return params.parameters(EVERYONE if params.pooled else animal)
    return {name: float(value) for name, value in params.items()}


def _draw(
    model: Model,
    own: PatchVisits,
    paid: Float[np.ndarray, "visits harvests"],
    values: Mapping[str, float],
    copies: int,
    rng: np.random.Generator,
) -> Harvests:
    """Draws the number of harvests of each visit; it exceeds the largest possible one if the animal never leaves."""
    table, task, longest = own.table, own.task, paid.shape[1] - 1
    arrays, params = task_arrays(task), {name: jnp.asarray(value) for name, value in values.items()}
    chance = rng.random((copies, len(table), longest))
    own, n = replace(own, rewards=paid), np.arange(1, longest + 1)
    if isinstance(model, LearningModel):
        decisions = Decisions(*map(jnp.asarray, decisions_after(own, np.arange(len(table))[:, None], n)))
        return np.asarray(_play(model, params, decisions, jnp.asarray(chance), arrays))
    # Visits in the same environment, to the same kind of patch and with the same rewards have the same chances.
    kinds = codes(table["environment"], task.environments), codes(table["kind"], task.kinds)
    _, which, back = np.unique(np.column_stack([*kinds, paid]), axis=0, return_index=True, return_inverse=True)
    flat = Decisions(*(jnp.asarray(a).reshape(-1) for a in decisions_after(own, which[:, None], n)))
    logits = np.asarray(model.leaving(params, flat, arrays)).reshape(len(which), longest)
    leaves = chance < 1 / (1 + np.exp(-logits))[back.reshape(-1)]
    return np.where(leaves.any(2), leaves.argmax(2) + 1, longest + 1)


@partial(jax.jit, static_argnums=0)
def _play(model: LearningModel, params: Any, decisions: Decisions, chance: Array, task: TaskArrays) -> Array:
    """The harvests of animals that learn: (copies, visits)."""

    def harvest(state: Any, step: Any) -> tuple[Any, Any]:
        known, there, count = state
        decision, u = step
        learned, logit = model.step(params, known, decision, task)
        known = jax.tree_util.tree_map(lambda new, old: jnp.where(there, new, old), learned, known)
        stays = there & (u >= jax.nn.sigmoid(logit))
        return (known, stays, count + stays), None

    def visit(known: Any, one: Any) -> tuple[Any, Any]:
        state = known, jnp.asarray(True), jnp.asarray(1)
        (known, _, count), _ = jax.lax.scan(harvest, state, one)
        return known, count

    def copy(u: Array) -> Array:
        return jax.lax.scan(visit, model.start(params, task), (decisions, u))[1]

    return jax.vmap(copy)(chance)


@dataclass(frozen=True, repr=False)
class Recovery:
    """Parameters that were simulated and found again."""

    model: Model
    table: pd.DataFrame
    """One row for each simulated animal and parameter: true, value, low, high, identified, covered."""

    def __repr__(self) -> str:
        rows = self.coverage()
        shares = [f"{name} {share:.0%}" for name, share in zip(rows["parameter"], rows["coverage"], strict=True)]
        return f"Recovery({self.model.name}, {rows['fits'].max()} fits, covered: {listed(shares)})"

    def coverage(self) -> pd.DataFrame:
        """For each parameter: the share of intervals that cover the truth, its standard error, and the number of fits.

        A fit in which the parameter is not identified has no interval. `identified` is the share of fits with an
        interval; the others are left out of `coverage`, which is missing where no fit has an interval.
        """
        rows = []
        for name, group in self.table.groupby("parameter", sort=False):
            known = group[group["identified"]]
            share = known["covered"].mean() if len(known) else np.nan
            error = np.sqrt(share * (1 - share) / len(known)) if len(known) else np.nan
            centred = known["value"] - known["true"]
            rows.append(
                dict(
                    parameter=name,
                    coverage=share,
                    se=error,
                    fits=len(group),
                    identified=len(known) / len(group),
                    median_error=centred.median(),
                )
            )
        return pd.DataFrame(rows)


@check_arguments
def recover(
    model: Model,
    like: PatchVisits,
    *,
    fits: Count = 40,
    seed: Seed = 0,
    starts: Count = 4,
    intervals: Intervals = None,
    level: Level = 0.95,
    params: Fit | Mapping[str, Real] | None = None,
) -> Recovery:
    """Simulates animals with the parameters that were fitted to `like`, and fits them again.

    Every animal of `like` is copied equally often, `fits` times in all (rounded up). `params` replaces the fitted
    parameters.
    """
    truth = fit(like, model, starts=starts, seed=seed, intervals="none") if params is None else params
    copies = -(-fits // len(like.subjects))
    simulated = simulate(model, like, truth, copies=copies, seed=seed)
    found = fit(simulated, model, starts=starts, seed=seed + 1, intervals=intervals, level=level)
    animal = simulated.table.drop_duplicates("subject").set_index("subject")["animal"]
    values = {each: _parameters_of(truth, each) for each in like.subjects}
    table = found.estimates.assign(animal=found.estimates["subject"].map(animal))
    table["true"] = [values[a][p] for a, p in zip(table["animal"], table["parameter"], strict=True)]
    table["covered"] = table["identified"] & table["true"].between(table["low"], table["high"])
    return Recovery(model, table)
