"""The settings of the learned λ operator."""

from dataclasses import dataclass
from typing import Annotated

from wane.agents.forward_backward.config import Units
from wane.settings import Checked, Count, NotNegative, Positive, Probability, Range
from wane.types import Scalar


@dataclass(frozen=True)
class Config(Checked):
    """The settings of the learned λ operator."""

    lam: Annotated[Scalar, Range(0, 1, "a λ")] | None = None
    """λ as the agent believes; None takes the world's own"""
    conditioned: bool = False
    """whether λ is an input of the network, and drawn anew for every policy of the training"""
    discount: Annotated[float, Range(0, 0.9999, "a discount")] = 0.99
    """γ"""
    temperature: Positive = 0.25
    """τ, relative to the largest value of the random walk"""
    width: Units = 1024
    """units of a hidden layer"""
    depth: Annotated[int, Range(1, 100)] = 3
    """hidden layers"""
    learning_rate: Positive = 5e-4
    """η: it falls to 0 along a cosine"""
    batch: Count = 512
    """policies of one gradient step"""
    epochs: Count = 40
    """epochs of the training; each ends with a measurement of the error"""
    steps: Count = 200
    """gradient steps of an epoch"""
    difference_weight: NotNegative = 100.0
    """weight of errors of the differences of Q between actions"""
    goals: Count = 8
    """the largest number of rewarded states of a sparse task"""
    smallest: Annotated[float, Range(0, 1, above=True)] = 0.03
    """the smallest reward that a sparse task may have; the largest is 1"""
    dense: Probability = 0.1
    """probability that a task has a normal random reward in every state"""
    episodes: Annotated[int, Range(0, 1_000_000)] = 0
    """episodes of a random walk from which the kernel is counted; 0 takes the world's own kernel"""
    horizon: Count = 50
    """steps of each of these episodes"""
    probes: Count = 32
    """tasks whose error is measured after each epoch"""
