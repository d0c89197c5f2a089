"""The settings of the recurrent actor–critic."""

from dataclasses import dataclass
from typing import Annotated, Literal

from wane.settings import Checked, Count, Discount, NotNegative, Positive, Range, Share, renamed
from wane.types import Flag, Scalar

Features = Literal["cells", "states", "sites"]
Weights = Literal["remaining", "initial"]


@renamed(memory="recurrent")
@dataclass(frozen=True)
class Config(Checked):
    """The paper's settings for TwoRooms, and what it leaves out.

    Settings that are a `Scalar` or a `Flag` may be traced, so agents that differ in them are trained by one program.
    """

    lam: Annotated[Scalar, Range(0, 1, "a λ")] = 0.5
    """λ as the agent believes: one number, in the λF and in the target of the value"""
    correction: Flag = True
    """whether the paper's correction stands in the target of the value; False is the target of plain A2C"""
    feature_weight: Annotated[Scalar, Range(0, 1_000_000)] = 0.1
    """weight of the λF's loss; with 0 the head learns nothing and changes nothing else"""
    features: Features = "cells"
    """what φ has an entry for: each cell of the map, walls included (the paper), each state, or each site"""
    weights: Weights = "remaining"
    """the w of the correction: what remains of the rewards in s_t, or what they were at first"""
    arrival: Flag = False
    """whether φ counts the state that a step enters, as worlds pay, in place of the one that it leaves (the paper)"""
    discount: Discount | None = None
    """γ; None takes the world's"""
    hidden: Annotated[int, Range(1, 10_000)] = 128
    """units of the LSTM"""
    recurrent: Flag = True
    """whether the LSTM keeps its state from step to step (the paper); False makes an agent that remembers nothing"""
    shown: Flag = True
    """whether the agent sees what remains of the rewards, if the observation has it"""
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
