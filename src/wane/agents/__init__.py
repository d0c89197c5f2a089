"""Agents: one algorithm a file."""

from wane.agents import episode, gpi, policy_iteration, q_lambda, q_learning, td

__all__ = ["episode", "gpi", "policy_iteration", "q_lambda", "q_learning", "td"]
