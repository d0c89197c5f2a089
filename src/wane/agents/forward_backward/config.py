"""The settings of λO-FB."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from wane.checks import is_traced
from wane.settings import Checked, Count, Discount, NotNegative, Positive, Probability, Range, Share, check_setting
from wane.types import PerSite, Scalar

Condition = Literal["nothing", "uniform", "per state"]
Units = Annotated[int, Range(1, 100_000)]
"""Units of a layer."""


@dataclass(frozen=True)
class Schedule(Checked):
    """Training is `epochs` × `cycles` × (`episodes` played, `batches` gradient steps, one update of the targets)."""

    epochs: Count = 100
    """M"""
    cycles: Count = 25
    """updates of the target networks in an epoch"""
    episodes: Count = 4
    """episodes played before each of them"""
    batches: Count = 40
    """gradient steps before each of them"""

    @property
    def steps(self) -> int:
        """Gradient steps of an epoch."""
        return self.cycles * self.batches


LITERAL = Schedule(cycles=1, episodes=100, batches=25)
"""The paper's table as it reads: M = 100, E = 100, N = 25."""


@dataclass(frozen=True)
class Config(Checked):
    """The paper's table of λO-FB, and what it leaves out."""

    lam: Annotated[PerSite, Range(0, 1, "a λ")] = 0.5
    """λ as the agent believes, one number or one for each state; if it is learned, the initial value"""
    learn_lam: bool = False
    """whether λ is learned together with Φ (the paper starts from 1)"""
    condition: Condition = "nothing"
    """λ as an input of F, drawn for each sample: one for all states ("uniform"), or one for each ("per state")"""
    discount: Discount = 0.99
    """γ; it may be 1 if λ < 1"""
    dimension: Units = 100
    """d, of F and B"""
    width: Units = 256
    """units of a hidden layer"""
    depth: Annotated[int, Range(1, 100)] = 3
    """hidden layers"""
    learning_rate: Positive = 1e-3
    """η"""
    batch: Count = 128
    """B"""
    polyak: Share = 0.95
    """α: the share that the target networks keep of themselves at an update"""
    temperature: Positive = 200.0
    """τ"""
    epsilon: Probability = 1.0
    """ε: probability of a uniformly random action while data are collected"""
    horizon: Count = 50
    """T: steps of an episode while data are collected"""
    regulariser: NotNegative = 1.0
    """β"""
    spread: NotNegative = 0.5
    """scale of the Cauchy factor of z"""
    schedule: Schedule = Schedule()
    memory: Annotated[int, Range(1, 1_000_000_000)] = 100_000
    """transitions that are kept"""
    goals: Annotated[int, Range(0, 1_000_000)] = 0
    """random unit rewards of each collected episode, from which λ is learned; 0 takes the world's own rewards"""
    noise: Annotated[Scalar, Range(0, 1_000_000)] = 0.0
    """standard deviation of the errors with which those rewards are read"""
    probes: Count = 8
    """policies whose error against the exact Φ is measured after each epoch"""

    def rules(self) -> None:
        """Raises SettingError if Φ would be infinite, or if the memory cannot hold what is collected at once."""
        endless = self.condition != "nothing" or (not is_traced(self.lam) and np.any(np.asarray(self.lam) == 1))
        finite = is_traced(self.discount) or self.discount < 1 or not endless
        check_setting(
            finite, self, "discount", "a discount below 1 is needed, because Φ is infinite with λ = 1 and γ = 1"
        )
        collected = self.schedule.episodes * self.horizon
        needed = f"at least {collected:,} is needed, because so many transitions are collected at once"
        check_setting(self.memory >= collected, self, "memory", needed)
