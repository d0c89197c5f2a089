"""Rewards that grow back: the paper's three replenishing schemes (its appendix J), as depletions.

For two of them, the paper's equation of the reward and that of the representation disagree. There `equation` chooses
one of the two; the reward is the default.
"""

import warnings
from typing import Any, Literal, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from wane.checks import check_range
from wane.depletion import LAMBDA, Depletion, Limits, Memory, one_more, parameter, without_overflow
from wane.sums import fraction_to_power
from wane.texts import shown
from wane.types import AnyArray, Numbers

DROP = Limits(0, 1, "drop is the paper's λ_d")


class Elapsed(NamedTuple):
    """The memory of `TimeElapsed`: how often a site was visited, and how many steps ago the last visit was."""

    visits: Int[AnyArray, "..."]
    steps: Int[AnyArray, "..."]


class TimeElapsed(Depletion):
    """λ^(n / (rate · m)) after n visits, the last of them m steps ago: the paper's first replenishing scheme.

    The paper's illustration has rate 1, its TwoRooms experiment rate 0.1.
    """

    lam: Any = parameter(limits=LAMBDA)
    rate: Any = parameter(1.0, limits=Limits(1e-300, np.inf, "rate is how fast a reward grows back"))

    def initial(self, shape: tuple[int, ...] = ()) -> Elapsed:
        return Elapsed(np.zeros(shape, np.int64), np.ones(shape, np.int64))

    def worth(self, memory: Elapsed) -> Any:
        waited = without_overflow(self.rate, memory.steps) * memory.steps
        return fraction_to_power(self.lam, memory.visits / waited)

    def visit(self, memory: Elapsed) -> Elapsed:
        return Elapsed(one_more(memory.visits), 0 * memory.steps + 1)

    def wait(self, memory: Elapsed) -> Elapsed:
        # Before the first visit the elapsed time does not matter; it stays 1, which keeps the number of memories small.
        return Elapsed(memory.visits, one_more(memory.steps, memory.visits > 0))


class _TwoEquations(Depletion):
    """A scheme whose reward and whose representation have different equations in the paper."""

    drop: Any = parameter(limits=DROP)
    regrow: Any = parameter(limits=Limits(0, 1, "regrow is the paper's λ_r"))
    equation: Literal["reward", "representation"] = eqx.field(static=True, default="reward")

    def __init__(self, drop: Any, regrow: Any, equation: Any = "reward", *, form: Any = None) -> None:
        if form is not None:
            warnings.warn("`form` is now `equation`", DeprecationWarning, stacklevel=4)
        self.drop, self.regrow, self.equation = drop, regrow, equation if form is None else form

    def __check_init__(self) -> None:
        if self.equation not in ("reward", "representation"):
            given = shown(self.equation)
            raise ValueError(f'equation is "reward" (as the paper writes the reward) or "representation", got {given}')


class EligibilityTrace(_TwoEquations):
    """1 − (1 − λ_d) e, where e is an eligibility trace of visits that decays by λ_r a step: the paper's second scheme.

    The paper's reward sums the trace over the visits before the present one. Its Ω includes the present visit, so the
    first visit already pays λ_d. `equation="reward"` is the former, `equation="representation"` the latter.
    """

    @property
    def bound(self) -> float:
        longest = np.max(1 / np.maximum(1 - np.asarray(self.regrow, dtype=float), 1e-300))
        return float(max(1.0, np.max(1 - np.asarray(self.drop)) * longest))

    def initial(self, shape: tuple[int, ...] = ()) -> Float[np.ndarray, "..."]:
        return np.zeros(shape)

    def worth(self, memory: Memory) -> Any:
        # Ω counts the present visit. It pays λ_d, which is not computed as 1 − (1 − λ_d): that would lose digits.
        fresh = self.drop if self.equation == "representation" else 1
        return fresh - (1 - self.drop) * memory

    def visit(self, memory: Memory) -> Any:
        return self.regrow * (memory + 1)

    def wait(self, memory: Memory) -> Any:
        return self.regrow * memory


class TotalTime(_TwoEquations):
    """Each visit multiplies the reward by λ_d, each step elsewhere by q: the paper's third scheme.

    In the paper's reward, a site pays more after a step elsewhere (q = 1/λ_r); in its representation, less (q = λ_r).
    `equation="reward"` is the former, `equation="representation"` the latter.
    """

    def __check_init__(self) -> None:
        if self.equation == "reward":
            why = "a step spent elsewhere divides the reward by it"
            check_range("TotalTime(regrow)", self.regrow, 1e-300, 1, why)

    @property
    def growth(self) -> Numbers:
        """q, the factor by which a step elsewhere multiplies the reward."""
        return 1 / self.regrow if self.equation == "reward" else self.regrow

    @property
    def bound(self) -> float:
        return float("inf") if np.any(np.asarray(self.growth) > 1) else 1.0

    def initial(self, shape: tuple[int, ...] = ()) -> Float[np.ndarray, "..."]:
        return np.ones(shape)

    def worth(self, memory: Memory) -> Any:
        return memory

    def visit(self, memory: Memory) -> Any:
        return self.drop * memory

    def wait(self, memory: Memory) -> Any:
        return self.growth * memory
