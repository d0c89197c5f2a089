"""Experiments in which everything is computed."""
