"""The settings of λO-FB."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from wane.depletion import Geometric, check_range, is_traced
from wane.mdp import check_discount
from wane.types import Scalar

Condition = Literal["nothing", "uniform", "per state"]
CONDITIONS = ("nothing", "uniform", "per state")


@dataclass(frozen=True)
class Schedule:
    """Training is `epochs` × `cycles` × (`episodes` played, `batches` gradient steps, one update of the targets)."""

    epochs: int = 100
    """M"""
    cycles: int = 25
    """updates of the target networks in an epoch"""
    episodes: int = 4
    """episodes played before each of them"""
    batches: int = 40
    """gradient steps before each of them"""

    @property
    def steps(self) -> int:
        """Gradient steps of an epoch."""
        return self.cycles * self.batches


LITERAL = Schedule(cycles=1, episodes=100, batches=25)
"""The paper's table as it reads: M = 100, E = 100, N = 25."""


@dataclass(frozen=True)
class Config:
    """The paper's table of λO-FB, and what it leaves out."""

    lam: Any = 0.5
    """λ as the agent believes, one number or one for each state; if it is learned, the initial value"""
    learn_lam: bool = False
    """whether λ is learned beside Φ (the paper starts from 1)"""
    condition: Condition = "nothing"
    """λ as an input of F, drawn for each sample: one for all states ("uniform"), or one for each ("per state")"""
    discount: float = 0.99
    """γ; it may be 1 if λ < 1"""
    dimension: int = 100
    """d, of F and B"""
    width: int = 256
    """units of a hidden layer"""
    depth: int = 3
    """hidden layers"""
    learning_rate: float = 1e-3
    """η"""
    batch: int = 128
    """B"""
    polyak: float = 0.95
    """α: the share that the target networks keep of themselves at an update"""
    temperature: float = 200.0
    """τ"""
    epsilon: float = 1.0
    """ε: probability of a uniformly random action while data are collected"""
    horizon: int = 50
    """T: steps of an episode while data are collected"""
    regulariser: float = 1.0
    """β"""
    spread: float = 0.5
    """scale of the Cauchy factor of z"""
    schedule: Schedule = Schedule()
    memory: int = 100_000
    """transitions that are kept"""
    goals: int = 0
    """random unit rewards of each collected episode, from which λ is learned; 0 takes the world's own rewards"""
    noise: Scalar = 0.0
    """standard deviation of the errors with which those rewards are read"""
    probes: int = 8
    """policies whose error against the exact Φ is measured after each epoch"""

    def __post_init__(self) -> None:
        Geometric(self.lam)
        check_discount(self.discount)
        check_range("epsilon", self.epsilon, 0, 1, "it is a probability")
        if self.condition not in CONDITIONS:
            raise ValueError(f'condition is "nothing", "uniform" or "per state", got {self.condition!r}')
        endless = self.condition != "nothing" or (not is_traced(self.lam) and np.any(np.asarray(self.lam) == 1))
        if self.discount == 1 and endless:
            raise ValueError("discount 1 with λ = 1 makes Φ infinite: discount, or let every reward wear off (λ < 1)")
