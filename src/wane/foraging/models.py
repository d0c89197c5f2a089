"""Models of when an animal leaves a patch. A model computes the log-odds of leaving after every harvest.

Your own model is a frozen dataclass with two methods: `parameters` lists the parameters with their ranges, and
`leaving` returns one number for each decision, in JAX:

    @dataclass(frozen=True)
    class Boredom(Model):
        def parameters(self, task):
            return [Parameter("half", 0, np.inf, typical=5), Parameter("slope", 0, np.inf, typical=1)]

        def leaving(self, params, decisions, task):
            return params["slope"] * (jnp.sqrt(decisions.harvests) - jnp.sqrt(params["half"]))

A model that learns from what it receives is a `LearningModel`: `start` returns what it knows at the beginning, and
`step` makes one decision. Everything else (likelihood, gradients, intervals, simulation) follows from these methods.
"""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wane.foraging.decisions import Counts, Decisions, TaskArrays, log_likelihood
from wane.foraging.task import Task
from wane.foraging.theorem import best_rates
from wane.types import Scalar

Params = Mapping[str, Any]
"""The parameters by name, numbers that JAX may be tracing."""
Logits = Float[Array, "*axes"]


class Parameter(NamedTuple):
    """A parameter, its range, and a value from which to search."""

    name: str
    low: float
    high: float
    typical: float
    """A value of the usual size; searches start around it. For parameters without bounds it sets the scale."""
    unit: str = ""
    """The name of its unit, for tables and figures: "µL", "1/s". Empty for numbers without one."""

    def value(self, z: Any) -> Any:
        """The parameter for an unbounded number z."""
        if np.isfinite(self.low) and np.isfinite(self.high):
            return self.low + (self.high - self.low) * jax.nn.sigmoid(z)
        return self.low + jnp.exp(z) if np.isfinite(self.low) else abs(self.typical) * z

    def unbounded(self, value: Any) -> Any:
        """The number z for a value of the parameter."""
        if np.isfinite(self.low) and np.isfinite(self.high):
            share = (value - self.low) / (self.high - self.low)
            return jnp.log(share) - jnp.log1p(-share)
        return jnp.log(value - self.low) if np.isfinite(self.low) else value / abs(self.typical)


def values_at(parameters: Sequence[Parameter], z: Any) -> dict[str, Any]:
    """The parameters by name at unbounded numbers z, whose first axis runs over parameters."""
    return {parameter.name: parameter.value(z[i]) for i, parameter in enumerate(parameters)}


def typical_point(parameters: Sequence[Parameter]) -> Float[Array, " parameters"]:
    """The typical values on the unbounded scale."""
    return jnp.stack([jnp.asarray(p.unbounded(jnp.asarray(p.typical, float)), float) for p in parameters])


class Model(abc.ABC):
    """The interface of models of patch leaving. Make yours a frozen dataclass, so that compiled programs are reused."""

    needs_fresh_patches: bool = False
    """Whether the model solves the task, which is possible only if every visit finds a fresh patch."""
    kinks: bool = False
    """Whether the log-likelihood may have kinks, for example where a parameter changes the best number of harvests."""
    learns: bool = False
    """Whether the log-odds depend on earlier visits."""

    @abc.abstractmethod
    def parameters(self, task: Task) -> list[Parameter]:
        """The parameters of the model in a task. Ranges and typical values may depend on its units."""

    @abc.abstractmethod
    def leaving(self, params: Params, decisions: Decisions, task: TaskArrays) -> Logits:
        """The log-odds of leaving at each decision."""

    @property
    def name(self) -> str:
        """The name of the model in tables and figures."""
        return type(self).__name__

    def log_likelihood(self, params: Params, decisions: Decisions, counts: Counts, task: TaskArrays) -> Any:
        """The logarithm of the probability of the counts."""
        return log_likelihood(self.leaving(params, decisions, task), counts)


class LearningModel(Model):
    """A model that carries what it has learned from one decision to the next."""

    learns = True

    @abc.abstractmethod
    def start(self, params: Params, task: TaskArrays) -> Any:
        """What the animal knows before its first visit, a tree of arrays."""

    @abc.abstractmethod
    def step(self, params: Params, known: Any, decision: Decisions, task: TaskArrays) -> tuple[Any, Any]:
        """What the animal knows after a harvest, and its log-odds of leaving then."""

    def leaving(self, params: Params, decisions: Decisions, task: TaskArrays) -> Logits:
        """The log-odds at each of the decisions, which are in order."""

        def step(known: Any, decision: Decisions) -> tuple[Any, Any]:
            return self.step(params, known, decision, task)

        return jax.lax.scan(step, self.start(params, task), decisions, unroll=8)[1]


def per(unit: str) -> str:
    """The unit of one by something: "1/s"."""
    return f"1/{unit}" if unit else ""


def inverse_temperature(task: Task) -> Parameter:
    """The slope of the log-odds, per unit of reward."""
    return Parameter("slope", 0.0, np.inf, 4.0 / float(np.abs(task.curve).max()), per(task.reward_unit))


def stay_bias(task: Task) -> Parameter:
    """The value of staying in excess of its rewards, in units of reward."""
    return Parameter("bias", -np.inf, np.inf, 0.2 * float(np.abs(task.curve).max()), task.reward_unit)


def theorem_logits(params: Params, rate: Any, decisions: Decisions, task: TaskArrays) -> Logits:
    """slope · (ρh − bias − next reward), where `rate` is the ρ that the animal expects elsewhere."""
    return params["slope"] * (rate * task.harvest - params.get("bias", 0.0) - decisions.next_reward)


@dataclass(frozen=True)
class ConstantHazard(Model):
    """The animal leaves after every harvest with the same chance, whatever the patch."""

    def parameters(self, task: Task) -> list[Parameter]:
        return [Parameter("chance", 0.0, 1.0, 0.2)]

    def leaving(self, params: Params, decisions: Decisions, task: TaskArrays) -> Logits:
        chance = params["chance"]
        return jnp.broadcast_to(jnp.log(chance) - jnp.log1p(-chance), decisions.harvests.shape)


@dataclass(frozen=True)
class HarvestCount(Model):
    """The animal counts harvests: log-odds slope · (n − half), the same in all patches."""

    def parameters(self, task: Task) -> list[Parameter]:
        return [
            Parameter("slope", -np.inf, np.inf, 0.5),
            Parameter("half", -np.inf, np.inf, max(0.5 * task.longest, 1.0)),
        ]

    def leaving(self, params: Params, decisions: Decisions, task: TaskArrays) -> Logits:
        return params["slope"] * (decisions.harvests - params["half"])


@dataclass(frozen=True)
class RewardThreshold(Model):
    """The animal leaves when the next harvest pays less than a threshold, one for each environment.

    The model describes but does not explain: it shows how well a rule can do that compares the next reward with a
    constant.
    """

    def parameters(self, task: Task) -> list[Parameter]:
        level, unit = float(np.abs(task.curve).max()), task.reward_unit
        levels = [Parameter(f"threshold_{name}", -np.inf, np.inf, level / 2, unit) for name in task.environments]
        return [inverse_temperature(task), *levels]

    def leaving(self, params: Params, decisions: Decisions, task: TaskArrays) -> Logits:
        levels = jnp.stack([params[f"threshold_{name}"] for name in task.environments])
        return params["slope"] * (levels[decisions.environment] - decisions.next_reward)


@dataclass(frozen=True)
class MarginalValue(Model):
    """The marginal value theorem with noise: log-odds slope · (ρh − bias − next reward).

    ρ is the best long-run rate of the environment. Without `bias` the animal follows the theorem, with noise; with it,
    staying is worth `bias` more than it pays.
    """

    bias: bool = False
    needs_fresh_patches = True

    @property
    def name(self) -> str:
        return "MarginalValue+bias" if self.bias else "MarginalValue"

    def parameters(self, task: Task) -> list[Parameter]:
        return [inverse_temperature(task)] + [stay_bias(task)] * self.bias

    def leaving(self, params: Params, decisions: Decisions, task: TaskArrays) -> Logits:
        rate = best_rates(task)[decisions.environment]
        return theorem_logits(params, rate, decisions, task)


class Average(NamedTuple):
    """The average rate that an animal has learned so far."""

    rate: Scalar


@dataclass(frozen=True)
class LearnedAverage(LearningModel):
    """The theorem with an average rate that is learned, after Constantino and Daw (2015).

    After a time t with reward r the animal moves its rate ρ by the fraction 1 − (1 − learning)^t towards r / t; between
    patches r is 0. ρ starts at the best rate, averaged over environments. The log-odds of leaving are
    slope · (ρh − bias − next reward).
    """

    bias: bool = True

    @property
    def name(self) -> str:
        return "LearnedAverage+bias" if self.bias else "LearnedAverage"

    def parameters(self, task: Task) -> list[Parameter]:
        learning = Parameter("learning", 0.0, 1.0, float(min(0.3, 0.05 / float(task.harvest))), per(task.time_unit))
        return [inverse_temperature(task), learning] + [stay_bias(task)] * self.bias

    def start(self, params: Params, task: TaskArrays) -> Average:
        return Average(jnp.mean(best_rates(task)))

    def step(self, params: Params, known: Average, decision: Decisions, task: TaskArrays) -> tuple[Average, Any]:
        kept, added = self._update(params, decision, task)
        rate = kept * known.rate + added
        return Average(rate), theorem_logits(params, rate, decision, task)

    def leaving(self, params: Params, decisions: Decisions, task: TaskArrays) -> Logits:
        """The same log-odds as from `step`, but computed in parallel: ρ is a linear recursion."""
        kept, added = self._update(params, decisions, task)
        rate = linear_recursion(kept, added, self.start(params, task).rate)
        return theorem_logits(params, rate, decisions, task)

    def _update(self, params: Params, decisions: Decisions, task: TaskArrays) -> tuple[Any, Any]:
        """The factor by which a harvest, and the way to it, multiply the learned rate, and the term that they add."""
        keep = jnp.log1p(-params["learning"])
        forgotten = jnp.exp(keep * task.harvest)
        return forgotten * jnp.exp(keep * decisions.away), (1 - forgotten) * decisions.reward / task.harvest


def linear_recursion(
    kept: Float[Array, " steps"], added: Float[Array, " steps"], start: Scalar
) -> Float[Array, " steps"]:
    """All x_t = kept_t x_{t−1} + added_t, with x_0 = start.

    The T steps are cut into √T blocks. First all blocks run in parallel, each from 0; then a second recursion finds the
    x that enters each block. So there are 2√T sequential operations instead of T. `jax.lax.associative_scan` is slower
    (for eight rats, with gradients, 0.73 ms instead of 0.55 ms) and takes three times as long to compile.
    """
    steps = len(kept)
    width = int(np.ceil(np.sqrt(steps)))
    rest = width * width - steps
    factor = jnp.pad(kept, (0, rest), constant_values=1.0).reshape(width, width).T
    term = jnp.pad(added, (0, rest)).reshape(width, width).T

    def within(state: Any, step: Any) -> tuple[Any, Any]:
        product, total = state
        now = step[0] * product, step[0] * total + step[1]
        return now, now

    nothing = jnp.ones(width, factor.dtype), jnp.zeros(width, factor.dtype)
    (last_product, last_total), (product, total) = jax.lax.scan(within, nothing, (factor, term))

    def between(x: Any, block: Any) -> tuple[Any, Any]:
        return block[0] * x + block[1], x

    entering = jax.lax.scan(between, jnp.asarray(start, factor.dtype), (last_product, last_total))[1]
    return (product * entering + total).T.reshape(-1)[:steps]
