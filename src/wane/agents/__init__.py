"""Agents: one algorithm a file or a folder, each a value under one contract (`wane.agents.common.contract`)."""

from typing import TYPE_CHECKING

from wane.lazy import attach

if TYPE_CHECKING:
    from wane.agents import (
        a2c,
        bandit,
        common,
        forward_backward,
        gpi,
        lambda_features,
        lambda_operator,
        laplacian,
        learned_operator,
        planner,
        policy_iteration,
        q_lambda,
        q_learning,
        sac,
        td,
    )
    from wane.agents.common.contract import Agent
    from wane.agents.trained import Trained, load

__all__ = [
    "Agent",
    "Trained",
    "a2c",
    "bandit",
    "common",
    "forward_backward",
    "gpi",
    "lambda_features",
    "lambda_operator",
    "laplacian",
    "learned_operator",
    "load",
    "planner",
    "policy_iteration",
    "q_lambda",
    "q_learning",
    "sac",
    "td",
]

__getattr__, __dir__ = attach(__name__)
