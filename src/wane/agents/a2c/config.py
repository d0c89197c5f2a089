"""The settings of the recurrent actor–critic."""

from dataclasses import dataclass
from typing import Annotated, Literal

from wane.settings import Checked, Count, Discount, NotNegative, Positive, Range, Share
from wane.types import Scalar

Features = Literal["cells", "states", "sites"]
Weights = Literal["remaining", "initial"]


@dataclass(frozen=True)
class Config(Checked):
    """The paper's settings for TwoRooms, and what it leaves out.

    Settings that are a `Scalar` may be traced, so agents that differ in them are trained by one program.
    """

    lam: Annotated[Scalar, Range(0, 1, "a λ")] = 0.5
    """λ as the agent believes: one number, in the λF and in the target of the value"""
    correction: Annotated[Scalar, Range(0, 1)] = 1.0
    """how much of the paper's correction stands in the target of the value; 0 is the target of plain A2C"""
    feature_weight: Annotated[Scalar, Range(0, 1_000_000)] = 0.1
    """weight of the λF's loss; with 0 the head learns nothing and changes nothing else"""
    features: Features = "cells"
    """what φ has an entry for: each cell of the map, walls included (the paper), each state, or each site"""
    weights: Weights = "remaining"
    """the w of the correction: what remains of the rewards in s_t, or what they were at first"""
    arrival: Annotated[Scalar, Range(0, 1)] = 0.0
    """which state φ counts in a step: 0 the one that is left (the paper), 1 the one that is entered, as worlds pay"""
    discount: Discount | None = None
    """γ; None takes the world's"""
    hidden: Annotated[int, Range(1, 10_000)] = 128
    """units of the LSTM"""
    memory: Annotated[Scalar, Range(0, 1)] = 1.0
    """what the LSTM's memory is multiplied by at every step: 1 keeps it (the paper), 0 makes an agent without memory"""
    shown: Annotated[Scalar, Range(0, 1)] = 1.0
    """what the remaining rewards in an observation are multiplied by: 0 hides them, if the observation has them"""
    learning_rate: Positive = 3e-4
    length: Count = 32
    """steps of a sequence, on which one gradient step is taken"""
    environments: Count = 1
    """copies of the world that are played at the same time, with one sequence of each in a gradient step"""
    mixing: Share = 0.9
    """the λ of TD(λ) in the value's target: 0 looks one step ahead, 1 until the sequence ends"""
    feature_mixing: Annotated[Scalar, Range(0, 1)] = 0.0
    """the same in the λF's target: 0 looks one step ahead (the paper)"""
    entropy_weight: NotNegative = 0.01
    epochs: Count = 75
    """parts of the training, with an evaluation after each"""
    updates: Count = 313
    """gradient steps of an epoch: 75 × 313 sequences of 32 steps are the paper's 7,500 episodes of 100, and 12 more"""
    evaluation_episodes: Count = 8
    """greedy episodes, and sampled ones, of an evaluation; nothing is learned from them"""

    @property
    def steps(self) -> int:
        """Steps in the world that an epoch takes."""
        return self.updates * self.length * self.environments
