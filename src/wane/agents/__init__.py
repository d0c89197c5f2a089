"""Agents: one algorithm a file."""

from wane.agents import (
    episode,
    fb_model,
    forward_backward,
    goals,
    gpi,
    learn_lambda,
    policy_iteration,
    q_lambda,
    q_learning,
    td,
    zero_shot,
)

__all__ = [
    "episode",
    "fb_model",
    "forward_backward",
    "goals",
    "gpi",
    "learn_lambda",
    "policy_iteration",
    "q_lambda",
    "q_learning",
    "td",
    "zero_shot",
]
