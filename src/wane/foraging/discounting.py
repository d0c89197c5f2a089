"""Ways to discount the future, each an average of exponential ones.

    Exponential(s)                e^(−st)
    HyperbolicDiscount(k)         1 / (1 + kt)  =  ∫₀^∞ e^(−x) e^(−kxt) dx
    TwoExponentials(ω, q, s)      ω e^(−qt) + (1 − ω) e^(−st)
    QuasiHyperbolic(β, s)         β e^(−st), but the next harvest counts (1 − β) more, without discount

A hyperbolic forager changes its mind as time goes by, and the sum of all its future rewards is infinite. To avoid both,
the forager is, as in Kurth-Nelson and Redish (2009), a population of exponential planners: each planner solves the task
with its own rate, and their preferences are averaged.

Kane et al. (2019) explain the rats by quasi-hyperbolic discounting "with separate components for short- and long-term
rewards". There are two kinds. `TwoExponentials` is that of McClure et al. (2007) for continuous time: a steep system
with the rate q and a shallow one with the rate s. `QuasiHyperbolic` is that of Laibson (1997), in which everything
beyond the next harvest is multiplied by β: the steep system is then a planner of weight 1 − β that counts only the next
harvest, without discount. In total, the next harvest is worth 1 − β + β e^(−sh) times its reward. The experiment `rats`
and the model "quasi-hyperbolic" use the second kind, which has one parameter less. Kane et al. fit their model to
several tasks of the same rats at once; here there is one task, so the parameters need not agree.
Rates are per unit of time of the task.
"""

import abc
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from wane.checks import check_range
from wane.types import AnyArray, Scalar

_POINTS, _WEIGHTS = np.polynomial.laguerre.laggauss(24)


Planners = list[Scalar] | Float[AnyArray, " planners"]


class Discount(abc.ABC):
    """An average of exponential discount functions, and perhaps of one that counts only the next harvest."""

    @abc.abstractmethod
    def planners(self) -> tuple[Planners, Planners]:
        """The weights of the planners and their rates per unit of time."""

    @property
    def impatient(self) -> Scalar:
        """The weight of the planner that counts only the next harvest. All weights sum to 1."""
        return 0.0


@dataclass(frozen=True)
class Exponential(Discount):
    """e^(−rate · t); with rate 0 nothing is discounted, and the forager maximises its long-run rate of reward."""

    rate: Scalar = 0.0

    def __post_init__(self) -> None:
        check_range("Exponential(rate)", self.rate, 0, np.inf, "a rate per unit of time")

    def planners(self) -> tuple[Planners, Planners]:
        return [1.0], [self.rate]


@dataclass(frozen=True)
class HyperbolicDiscount(Discount):
    """1 / (1 + k t), by Gauss–Laguerre quadrature with 24 planners."""

    k: Scalar

    def __post_init__(self) -> None:
        check_range("HyperbolicDiscount(k)", self.k, 0, np.inf, "k is per unit of time")

    def planners(self) -> tuple[Planners, Planners]:
        return _WEIGHTS, self.k * _POINTS


@dataclass(frozen=True)
class TwoExponentials(Discount):
    """weight · e^(−fast · t) + (1 − weight) · e^(−slow · t), after McClure et al. (2007)."""

    weight: Scalar
    fast: Scalar
    slow: Scalar = 0.0

    def __post_init__(self) -> None:
        check_range("TwoExponentials(weight)", self.weight, 0, 1, "the weight of the fast system")
        check_range("TwoExponentials(fast)", self.fast, 0, np.inf, "a rate per unit of time")
        check_range("TwoExponentials(slow)", self.slow, 0, np.inf, "a rate per unit of time")

    def planners(self) -> tuple[Planners, Planners]:
        return [self.weight, 1 - self.weight], [self.fast, self.slow]


@dataclass(frozen=True)
class QuasiHyperbolic(Discount):
    """Everything is discounted by beta · e^(−rate · t), but the next harvest counts 1 − beta more (Laibson 1997)."""

    beta: Scalar
    rate: Scalar = 0.0

    def __post_init__(self) -> None:
        check_range("QuasiHyperbolic(beta)", self.beta, 0, 1, "the weight of the future")
        check_range("QuasiHyperbolic(rate)", self.rate, 0, np.inf, "a rate per unit of time")

    def planners(self) -> tuple[Planners, Planners]:
        return [self.beta], [self.rate]

    @property
    def impatient(self) -> Scalar:
        return 1 - self.beta
