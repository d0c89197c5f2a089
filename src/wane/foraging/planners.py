"""Models that solve the task: an animal that discounts, or that believes in a depletion that is not the true one.

The animal weighs leaving against staying by their exact values (`wane.foraging.theorem`), in the task as it believes it
to be. Where it believes in the true task and discounts nothing, it is the optimal forager with noise.

The belief is about how a patch wears off. It can enter in two ways, which the paper's account of overstaying ("an
overly large λ may lead to overstaying in depleted patches") does not distinguish:

    sees="reward"    the animal sees what the last harvest paid, and expects the next rewards from that by its belief
    sees="count"     the animal expects rewards from the kind of patch and the number of its harvests, by its belief

    average="believed"    the rate ρ that it expects elsewhere follows from the same belief
    average="true"        it knows the true best rate, and is wrong only about the patch where it is

The parameters of two exponentials, ω e^(−qt) + (1 − ω) e^(−st), refer to the next harvest, at the time h. There the
discount is D = ω e^(−qh) + (1 − ω) e^(−sh), `weight` is the share w = ω e^(−qh) / D of the fast system in it, and
`slope` is per unit of the next reward, so that values are divided by D. As q grows, w and the slope stay constant, and
the model becomes that of quasi-hyperbolic discounting: the interval of `faster` = q − s then has no upper end, and
`faster` is not identified. If ω and the slope of the formula were the parameters, 1 − ω and 1 / slope would fall as
e^(−qh) while q grows.
"""

import abc
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from wane.depletion import Diminishing, Geometric
from wane.foraging.arguments import check_fields
from wane.foraging.decisions import Decisions, TaskArrays
from wane.foraging.discounting import Discount, Exponential, HyperbolicDiscount, QuasiHyperbolic, TwoExponentials
from wane.foraging.models import (
    ConstantHazard,
    HarvestCount,
    LearnedAverage,
    Logits,
    MarginalValue,
    Model,
    Parameter,
    Params,
    RewardThreshold,
    inverse_temperature,
    per,
    stay_bias,
)
from wane.foraging.task import Task
from wane.foraging.theorem import best_rates, surplus_of_staying, surpluses
from wane.names import unknown
from wane.settings import Count

Discounting = Literal["none", "exponential", "hyperbolic", "quasi-hyperbolic", "two-exponential"]
DISCOUNTS: dict[str, tuple[str, ...]] = {
    "none": (),
    "exponential": ("rate",),
    "hyperbolic": ("k",),
    "quasi-hyperbolic": ("beta", "rate"),
    "two-exponential": ("weight", "slow", "faster"),
}
"""The parameters of each way to discount. `faster` is how much faster than `slow` the fast system discounts."""
STEEPEST = 200.0
"""Rates above this number per harvest are set to it: a planner with such a rate counts only the next harvest."""


class Belief(abc.ABC):
    """What an animal believes about how patches wear off. It has one parameter."""

    name: str
    """The name of the parameter."""

    @abc.abstractmethod
    def parameter(self, task: Task) -> Parameter:
        """The parameter of the belief."""

    @abc.abstractmethod
    def expected(self, value: Any, last: Any, harvests: Any, ahead: Any) -> Any:
        """What the `ahead`-th further harvest is expected to pay, if harvest number `harvests` paid `last`."""


@dataclass(frozen=True)
class LinearDrop(Belief):
    """Every harvest pays `drop` less than the one before, down to nothing."""

    name: str = "drop"

    def parameter(self, task: Task) -> Parameter:
        typical = float(np.abs(task.curve).max()) / task.longest
        return Parameter(self.name, 0.0, np.inf, typical, task.reward_unit)

    def expected(self, value: Any, last: Any, harvests: Any, ahead: Any) -> Any:
        return jnp.maximum(last - value * ahead, 0.0)


@dataclass(frozen=True)
class CurveBelief(Belief):
    """Rewards wear off along a curve over harvests with one parameter; with `Geometric`, the paper's λ̂."""

    curve: Callable[[Any], Diminishing]
    """Makes the curve from its parameter: `wane.Geometric`, `wane.Hyperbolic`."""
    name: str = "lam"
    low: float = 0.0
    high: float = 1.0
    typical: float = 0.9

    def parameter(self, task: Task) -> Parameter:
        return Parameter(self.name, self.low, self.high, self.typical)

    def expected(self, value: Any, last: Any, harvests: Any, ahead: Any) -> Any:
        curve = self.curve(value)
        return last * curve.worth(harvests - 1 + ahead) / curve.worth(harvests - 1)


@dataclass(frozen=True)
class Planner(Model):
    """An animal that weighs leaving against staying by their exact values, with noise.

    The log-odds of leaving are slope · (value of leaving − value of staying − bias). `ahead` is how many harvests of
    one patch the animal looks ahead.
    """

    discount: Discounting = "none"
    belief: Belief | None = None
    sees: Literal["reward", "count"] = "reward"
    average: Literal["believed", "true"] = "believed"
    bias: bool = False
    ahead: Count = 48
    needs_fresh_patches = True

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def kinks(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether a parameter changes the planned numbers of harvests: all do, except the slope and the bias."""
        return self.discount != "none" or self.belief is not None

    @property
    def name(self) -> str:
        parts = [] if self.discount == "none" else [self.discount]
        if self.belief is not None:
            parts.append(f"believed {self.belief.name} ({self.sees}, {self.average} average)")
        return "+".join(["Planner", *parts, *["bias"] * self.bias])

    def parameters(self, task: Task) -> list[Parameter]:
        usual, unit = 1.0 / (float(task.harvest) * task.longest), per(task.time_unit)
        ranges = {"beta": (0.0, 1.0, 0.5), "weight": (0.0, 1.0, 0.5), "faster": (0.0, np.inf, 10 * usual, unit)}
        found = [inverse_temperature(task)]
        found += [Parameter(n, *ranges.get(n, (0.0, np.inf, usual, unit))) for n in DISCOUNTS[self.discount]]
        found += [] if self.belief is None else [self.belief.parameter(task)]
        return found + [stay_bias(task)] * self.bias

    def discounting(self, params: Params, harvest: Any) -> Discount:
        """The discount with these parameters, in a task whose harvests take the time `harvest`."""
        if self.discount == "exponential":
            return Exponential(params["rate"])
        if self.discount == "hyperbolic":
            return HyperbolicDiscount(params["k"])
        if self.discount == "quasi-hyperbolic":
            return QuasiHyperbolic(params["beta"], params["rate"])
        if self.discount == "two-exponential":
            share, faster = params["weight"], params["faster"]
            weight = jax.nn.sigmoid(jnp.log(share) - jnp.log1p(-share) + faster * harvest)
            return TwoExponentials(weight, params["slow"] + faster, params["slow"])
        return Exponential(0.0)

    def _planners(self, params: Params, harvest: Any) -> tuple[Any, Any, Any]:
        """The weights and the rates of the planners, and the weight of the one that counts only the next harvest."""
        if self.discount == "two-exponential":
            # These are ω / D and (1 − ω) / D. For a fast system that is steep, 1 − ω itself would be rounded to 0.
            share, slow = params["weight"], params["slow"]
            rates = jnp.minimum(jnp.stack([slow + params["faster"], slow]), STEEPEST / harvest)
            return jnp.stack([share, 1 - share]) * jnp.exp(rates * harvest), rates, 0.0
        discount = self.discounting(params, harvest)
        weights, rates = (jnp.asarray(each) for each in discount.planners())
        return weights, rates, discount.impatient

    def leaving(self, params: Params, decisions: Decisions, task: TaskArrays) -> Logits:
        weights, rates, impatient = self._planners(params, task.harvest)
        value = None if self.belief is None else params[self.belief.name]
        worth = jax.vmap(lambda rate: self._staying(value, rate, decisions, task))(rates)
        staying = jnp.tensordot(weights, worth, 1) + impatient * self._next_reward(value, decisions)
        return -params["slope"] * (staying + params.get("bias", 0.0))

    def _next_reward(self, value: Any, decisions: Decisions) -> Any:
        """The reward that the animal expects from the next harvest."""
        if self.belief is None:
            return decisions.next_reward
        if self.sees == "reward":
            return self.belief.expected(value, decisions.reward, decisions.harvests, 1)
        return self.belief.expected(value, decisions.first_reward, 1, decisions.harvests)

    def _staying(self, value: Any, rate: Any, decisions: Decisions, task: TaskArrays) -> Any:
        """How much more staying is worth than leaving at each decision, for a planner with one rate of discounting."""
        believed = self._believed_task(value, task)
        rho = best_rates(believed if self.average == "believed" else task, rate)
        environment = decisions.environment
        if value is None or self.sees == "count":
            # The future depends on the kind and the count alone, so it is solved once for each kind and environment.
            table = surpluses(believed, rho, rate)
            return table[environment, decisions.kind, jnp.minimum(decisions.harvests, table.shape[-1] - 1)]
        assert self.belief is not None
        steps = jnp.arange(1, self.ahead + 1)
        future = self.belief.expected(value, decisions.reward[:, None], decisions.harvests[:, None], steps)
        away = jnp.asarray(task.away)[environment]
        return surplus_of_staying(future, rho[environment], task.harvest, away, rate)[..., 0]

    def _believed_task(self, value: Any, task: TaskArrays) -> TaskArrays:
        """The task with the curves that the animal believes in, each from its first reward."""
        if self.belief is None:
            return task
        curve = self.belief.expected(value, jnp.asarray(task.curve)[:, :1], 1, jnp.arange(self.ahead))
        return dataclasses.replace(task, curve=curve)


MODELS: dict[str, Model] = {
    "constant": ConstantHazard(),
    "count": HarvestCount(),
    "thresholds": RewardThreshold(),
    "theorem": MarginalValue(),
    "theorem-bias": MarginalValue(bias=True),
    "learned-average": LearnedAverage(),
    "optimal": Planner(),
    "exponential": Planner("exponential"),
    "hyperbolic": Planner("hyperbolic"),
    "quasi-hyperbolic": Planner("quasi-hyperbolic"),
    "two-exponential": Planner("two-exponential"),
    "drop-told": Planner(belief=LinearDrop()),
    "drop-counted": Planner(belief=LinearDrop(), sees="count"),
    "lambda-told": Planner(belief=CurveBelief(Geometric)),
    "lambda-counted": Planner(belief=CurveBelief(Geometric), sees="count"),
    "drop-told-bias": Planner(belief=LinearDrop(), bias=True),
}
"""Models by name. `drop` and `lambda` are believed depletions; told animals see rewards, others count harvests."""


def find_model(name: str) -> Model:
    """The model with this name. Raises UnknownName, which suggests the nearest name, if there is none."""
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    return MODELS[name]
