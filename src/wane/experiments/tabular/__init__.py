"""Experiments with tables."""
