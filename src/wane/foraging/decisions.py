"""Decisions to stay or to leave, as arrays for JAX.

After each harvest of a visit the animal decides. Models that depend on the present visit alone see every distinct
decision once, with the number of times that the animal stayed and the number of times that it left: the 19,730
decisions of eight rats are 82 distinct ones. Models that learn see all decisions in order.
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, Int

from wane.foraging.task import Task
from wane.foraging.visits import PatchVisits
from wane.types import AnyArray, Scalar

PADDED = 32
"""The number of distinct decisions is padded to a multiple of this, so that data sets of nearly the same size use the
same compiled program."""


class TaskArrays(eqx.Module):
    """A task as arrays, for models."""

    curve: Float[AnyArray, "kinds harvests"]
    weights: Float[AnyArray, "environments kinds"]
    away: Float[AnyArray, " environments"]
    harvest: Scalar
    environments: tuple[Hashable, ...] = eqx.field(static=True, default=())
    """The labels of the environments."""


class Decisions(NamedTuple):
    """Decisions after harvests. All arrays have the same axes; the last one runs over decisions."""

    environment: Int[AnyArray, "*axes"]
    """The number of the environment, in the order of the task."""
    kind: Int[AnyArray, "*axes"]
    """The number of the kind of patch."""
    harvests: Int[AnyArray, "*axes"]
    """Harvests so far in this visit, 1 or more."""
    first_reward: Float[AnyArray, "*axes"]
    """What the first harvest of this visit paid."""
    reward: Float[AnyArray, "*axes"]
    """What the last harvest paid."""
    next_reward: Float[AnyArray, "*axes"]
    """What one more harvest would pay."""
    away: Float[AnyArray, "*axes"]
    """The time away before this harvest: travel and handling at the first harvest of a visit, else 0."""


class Counts(NamedTuple):
    """How often each decision was to stay and to leave; the last axis runs over decisions."""

    stays: Float[AnyArray, "*axes"]
    leaves: Float[AnyArray, "*axes"]


class Prepared(NamedTuple):
    """Data for one kind of model, by subject and block."""

    decisions: Decisions
    """The axes are subjects and decisions for models that learn, and decisions alone for others."""
    counts: Counts
    """The axes are subjects, blocks and decisions."""


def task_arrays(task: Task) -> TaskArrays:
    """The task as arrays. Every curve is padded with a zero, because nothing is paid after its end."""
    curve = np.pad(task.curve, ((0, 0), (0, 1)))
    curve, weights, away = (jnp.asarray(each) for each in (curve, task.weights, task.away))
    return TaskArrays(curve, weights, away, float(task.harvest), tuple(task.environments))


def codes(labels: pd.Series, known: Sequence[Any]) -> Int[np.ndarray, " rows"]:
    """The number of each label among those that the task knows."""
    return pd.Categorical(labels, categories=known).codes.astype(np.int64)


def decisions_after(
    data: PatchVisits, visit: Int[np.ndarray, "*visits"], harvests: Int[np.ndarray, "*harvests"]
) -> Decisions:
    """The decisions after some harvests of some visits, by their rows in the table; made or not."""
    visit, n = np.broadcast_arrays(visit, harvests)
    table, task, rewards = data.table, data.task, data.rewards
    environment = codes(table["environment"], task.environments)[visit]
    kind = codes(table["kind"], task.kinds)[visit]
    paid = rewards[visit, 0], rewards[visit, n - 1], rewards[visit, n]
    return Decisions(environment, kind, n, *paid, np.where(n == 1, task.away[environment], 0.0))


def expand(data: PatchVisits) -> pd.DataFrame:
    """One row for each decision, in order: the fields of `Decisions`, subject, visit, stays and leaves."""
    count, censored = data.table["harvests"].to_numpy(), data.table["censored"].to_numpy()
    visit = np.repeat(np.arange(len(count)), count)
    n = np.arange(len(visit)) - np.repeat(np.cumsum(count) - count, count) + 1
    last = n == count[visit]
    observed = ~(last & censored[visit])
    return pd.DataFrame(decisions_after(data, visit, n)._asdict()).assign(
        subject=pd.factorize(data.table["subject"])[0][visit],
        visit=visit,
        stays=(observed & ~last).astype(float),
        leaves=(observed & last).astype(float),
    )


def blocks_of(data: PatchVisits, blocks: int) -> Int[np.ndarray, " visits"]:
    """The block of each visit. The visits of each subject and environment, in order, are cut into equal parts."""
    group = data.table.groupby(["subject", "environment"], sort=False)
    place, size = group.cumcount().to_numpy(), group["harvests"].transform("size").to_numpy()
    return place * blocks // size


def prepare(data: PatchVisits, sequential: bool, blocks: int = 1) -> Prepared:
    """The decisions of all subjects, and their counts by subject and block."""
    rows = expand(data)
    rows["block"] = blocks_of(data, blocks)[rows["visit"].to_numpy()]
    return _in_order(rows, blocks) if sequential else _distinct(rows, blocks)


def _distinct(rows: pd.DataFrame, blocks: int) -> Prepared:
    """Every distinct decision once, and how often each subject stayed and left there in each block."""
    names = list(Decisions._fields)
    grouped = rows.groupby(names, sort=True)
    cell, subjects = grouped.ngroup().to_numpy(), int(rows["subject"].max()) + 1
    distinct = rows.iloc[_fill_up(np.unique(cell, return_index=True)[1], PADDED)]
    place = (rows["subject"].to_numpy() * blocks + rows["block"].to_numpy()) * len(distinct) + cell
    shape = subjects, blocks, len(distinct)
    counted = [np.bincount(place, rows[name], int(np.prod(shape))).reshape(shape) for name in Counts._fields]
    return Prepared(Decisions(*(jnp.asarray(distinct[name].to_numpy()) for name in names)), Counts(*counted))


def _fill_up(numbers: Int[np.ndarray, " rows"], multiple: int) -> Int[np.ndarray, " filled"]:
    """Repeats the last number until the length is a multiple of `multiple`. The repeats have counts of 0."""
    return np.pad(numbers, (0, -len(numbers) % multiple), mode="edge")


def _in_order(rows: pd.DataFrame, blocks: int) -> Prepared:
    """All decisions of each subject in order, padded with decisions that have counts of 0."""
    subject = rows["subject"].to_numpy()
    place = rows.groupby("subject").cumcount().to_numpy()
    most = int(place.max()) + 1
    shape = int(subject.max()) + 1, most + -most % (8 * PADDED)

    def spread(values: Any) -> np.ndarray:
        table = np.zeros(shape, np.asarray(values).dtype)
        table[subject, place] = values
        return table

    decisions = Decisions(*(jnp.asarray(spread(rows[name])) for name in Decisions._fields))
    block = spread(rows["block"])[:, None] == np.arange(blocks)[:, None]
    return Prepared(decisions, Counts(*(spread(rows[name])[:, None] * block for name in Counts._fields)))


def log_likelihood(logits: Float[Array, "*axes"], counts: Counts) -> Float[Array, ""]:
    """Σ stays · log(1 − p) + leaves · log p, where p is the probability of leaving with these log-odds.

    With x the log-odds, log p = x − log(1 + eˣ) and log(1 − p) = −log(1 + eˣ), so one logarithm serves both.
    """
    return jnp.sum(counts.leaves * logits - (counts.stays + counts.leaves) * jax.nn.softplus(logits))
