"""Experiments on the behaviour of animals."""
